"""The command on a terminal: a login, a question, a hidden secret."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seorep_async.cli import output
from tests.cli.running import KEY, Seorep, Terminal, serving, terminal
from tests.history.databases import database_of, nightly

pytestmark = pytest.mark.heavy


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return the file of profiles that `seorep login` makes."""
    return tmp_path / "seorep" / "config.toml"


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Terminal]:
    """Yield the terminal of `seorep login`, which has asked its first question."""
    with terminal("login", environment={"XDG_CONFIG_HOME": str(tmp_path)}) as person:
        person.wait_for("Address of the service")
        yield person


def test_a_login_stores_a_key_that_the_terminal_does_not_show(
    person: Terminal, config: Path
) -> None:
    with serving(api_key=KEY) as sandbox:
        person.type(f"{sandbox.base_url}\n")
        person.wait_for("API key")
        person.type(f"{KEY}\n")
        assert person.end() == 0
    assert KEY not in person.text
    assert KEY in config.read_text()


@pytest.mark.parametrize("question", ["Address of the service", "API key"])
def test_an_answer_that_is_not_utf8_is_refused(
    person: Terminal, config: Path, question: str
) -> None:
    if question == "API key":
        person.type("http://127.0.0.1:9\n")
        person.wait_for(question)
    person.type_bytes(b"\xff\xfe\n")
    assert person.end() == 2
    assert "is not UTF-8" in person.text
    assert "Traceback" not in person.text
    assert not config.exists()


def test_ctrl_c_at_the_question_stores_nothing(person: Terminal, config: Path) -> None:
    assert person.interrupt() == 130
    assert not config.exists()


def test_a_value_of_stdin_is_not_read_from_a_terminal(seorep: Seorep) -> None:
    with seorep.account(), terminal("api", "PUT", "/v3/users/2", "password=@-") as person:
        assert person.end() == 2
    assert "stdin is a terminal, which would show the value" in " ".join(person.text.split())


@pytest.mark.parametrize(
    "command",
    [
        "campaigns get 1 --format table",
        "campaigns get 1 --format csv",
        "campaigns get 1 --format json",
        "pull --campaign 1 -o - --format csv",
        "pull --campaign 1 -o - --format jsonl",
    ],
)
def test_control_characters_never_reach_a_terminal(
    command: str, seorep: Seorep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    red = "red\x1b[31m\x9b31mshoes"
    with seorep.account(reports={("campaign", 1): [{"keywordPhrase": red}]}):
        seorep("api", "PUT", "/v3/campaigns/1", f"company={red}")
        ended = seorep(*command.split())
    assert ended.code == 0
    assert "shoes" in ended.out
    assert "\x1b" not in ended.out
    assert "\x9b" not in ended.out


ESCAPE = "\x1b]0;title\x07"


@pytest.mark.parametrize(
    "words",
    [
        ("pull", "--sandbox", "--campaign", f"@{ESCAPE}"),
        ("pull", "--sandbox", "-o", f"{ESCAPE}/a.csv"),
        ("pull", "--sandbox", "--group", ESCAPE),
        ("pull", ESCAPE),
        (ESCAPE,),
        ("changes", ESCAPE),
        ("doctor", "--sandbox", "-o", ESCAPE),
        ("guide", ESCAPE),
        ("pull", "--profile", ESCAPE),
        ("sandbox", "--host", ESCAPE),
        ("campaigns", "list", "--sandbox", "--columns", ESCAPE),
        ("pull", "-c", f"{ESCAPE}=1"),
    ],
    ids=lambda words: " ".join(words[:-1]),
)
def test_no_argument_makes_an_error_that_a_terminal_obeys(
    seorep: Seorep, words: tuple[str, ...]
) -> None:
    ended = seorep(*words)
    assert ended.code == 2
    assert "\x1b" not in ended.err + ended.out
    assert "\x07" not in ended.err + ended.out


@pytest.mark.parametrize(
    ("columns", "options", "header"),
    [
        (80, [], "company keyword engine before after moved kinds"),
        (80, ["--by-campaign"], "campaign_id company changes places rose fell found lost"),
        (
            140,
            [],
            "campaign_id company keyword_phrase location engine before after moved kinds",
        ),
    ],
)
def test_changes_fit_the_terminal_and_break_between_words(
    tmp_path: Path, columns: int, options: list[str], header: str
) -> None:
    nights = nightly({11: 2, 12: 15}, {11: None, 12: 3})
    database = str(database_of(tmp_path, nights))
    environment = {"SEOREP_REPORT_ENGINES": "Google, Bing"}
    with terminal(
        "changes", database, *options, columns=columns, environment=environment
    ) as person:
        assert person.end() == 0
    _, first, *lines = person.text.splitlines()
    assert first.split() == header.split()
    assert all(len(line) <= columns for line in lines)
    if not options:
        kinds = " ".join(line[first.index("kinds") :].strip() for line in lines)
        assert kinds == "lost, left top 3, 10, 20 entered top 3, 10, rose"
