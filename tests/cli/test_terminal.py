"""The command on a terminal: a login, a question, a hidden secret."""

import tomllib
from pathlib import Path

import pytest

from tests.cli.running import KEY, Seorep, Terminal, serving, terminal

pytestmark = pytest.mark.heavy


def config(folder: Path) -> Path:
    return folder / "seorep" / "config.toml"


def give_address_and_key(person: Terminal, address: str, key: str) -> None:
    person.wait_for("Address of the service")
    person.type(f"{address}\n")
    person.wait_for("API key")
    person.type(f"{key}\n")


def log_in(folder: Path, address: str, key: str, *words: str) -> tuple[int, str]:
    """Type address and key; return the exit code and the text on the screen."""
    with terminal("login", *words, environment={"XDG_CONFIG_HOME": str(folder)}) as person:
        give_address_and_key(person, address, key)
        return person.end(), person.text


def test_a_login_is_tried_and_stored_for_the_owner_alone(tmp_path: Path) -> None:
    with serving(api_key=KEY, campaigns=1) as sandbox:
        code, text = log_in(tmp_path, sandbox.base_url, KEY)
        assert code == 0
        assert KEY not in text
        assert "The key is good for 1 campaign." in " ".join(text.split())
        assert config(tmp_path).stat().st_mode & 0o777 == 0o600
        assert log_in(tmp_path, sandbox.base_url, KEY, "acme")[0] == 0
        profile = {"base_url": sandbox.base_url, "key": KEY}
    assert tomllib.loads(config(tmp_path).read_text()) == {"default": profile, "acme": profile}


def test_an_impossible_key_is_not_stored(tmp_path: Path) -> None:
    exit_code, text = log_in(tmp_path, "http://127.0.0.1:9", "'quoted'")
    assert exit_code == 2
    assert "'quoted'" not in text
    assert "SEOREP_API_KEY" not in text
    assert not config(tmp_path).exists()


@pytest.mark.parametrize(
    ("key", "problem"), [("wr0ng", "check the key"), ("\xa0", "the key must not be empty")]
)
def test_a_refused_key_is_prompted_for_again(tmp_path: Path, key: str, problem: str) -> None:
    with (
        serving(api_key=KEY) as sandbox,
        terminal("login", environment={"XDG_CONFIG_HOME": str(tmp_path)}) as person,
    ):
        give_address_and_key(person, sandbox.base_url, key)
        person.wait_for(problem)
        person.wait_for("API key (")
        assert not config(tmp_path).exists()
        person.type(f"{KEY}\n")
        assert person.end() == 0
    assert "wr0ng" not in person.text
    assert tomllib.loads(config(tmp_path).read_text())["default"]["key"] == KEY


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("api.example.com", "the address needs a scheme"),
        ("http://api.example.com", "the address must begin with https:// (http:// would"),
    ],
)
def test_a_wrong_address_is_prompted_for_again(tmp_path: Path, address: str, problem: str) -> None:
    with (
        serving(api_key=KEY) as sandbox,
        terminal("login", environment={"XDG_CONFIG_HOME": str(tmp_path)}) as person,
    ):
        person.wait_for("Address of the service")
        person.type(f"{address}\n")
        person.wait_for(problem)
        give_address_and_key(person, sandbox.base_url, KEY)
        assert person.end() == 0
    assert config(tmp_path).exists()


@pytest.mark.parametrize(("answer", "code", "stored"), [("y", 0, KEY), ("n", 0, "old")])
def test_a_person_is_asked_before_a_profile_is_replaced(
    tmp_path: Path, answer: str, code: int, stored: str
) -> None:
    config(tmp_path).parent.mkdir()
    config(tmp_path).write_text("[default]\nbase_url = 'https://x.example.com'\nkey = 'old'\n")
    config(tmp_path).chmod(0o600)
    with (
        serving(api_key=KEY) as sandbox,
        terminal("login", environment={"XDG_CONFIG_HOME": str(tmp_path)}) as person,
    ):
        person.wait_for("Replace its address and key?")
        person.type(f"{answer}\n")
        if answer == "y":
            give_address_and_key(person, sandbox.base_url, KEY)
        assert person.end() == code
    assert tomllib.loads(config(tmp_path).read_text())["default"]["key"] == stored
    assert config(tmp_path).stat().st_mode & 0o777 == 0o600
    assert list(config(tmp_path).parent.iterdir()) == [config(tmp_path)]


def test_a_new_key_is_tried_with_the_settings_of_its_profile(tmp_path: Path) -> None:
    config(tmp_path).parent.mkdir()
    # nothing listens on the port of the proxy
    config(tmp_path).write_text("[default]\nproxy = 'http://127.0.0.1:9'\ncall_timeout = 2\n")
    config(tmp_path).chmod(0o600)
    with (
        serving(api_key=KEY) as sandbox,
        terminal("login", environment={"XDG_CONFIG_HOME": str(tmp_path)}) as person,
    ):
        person.wait_for("Replace its address and key?")
        person.type("y\n")
        give_address_and_key(person, sandbox.base_url, KEY)
        assert person.end() == 5
    assert "key" not in tomllib.loads(config(tmp_path).read_text())["default"]


@pytest.mark.parametrize("question", ["Address of the service", "API key"])
def test_an_answer_that_is_not_utf8_is_refused(tmp_path: Path, question: str) -> None:
    with terminal("login", environment={"XDG_CONFIG_HOME": str(tmp_path)}) as person:
        person.wait_for("Address of the service")
        if question == "API key":
            person.type("http://127.0.0.1:9\n")
            person.wait_for(question)
        person.type_bytes(b"\xff\xfe\n")
        assert person.end() == 2
    assert "is not UTF-8" in person.text
    assert "Traceback" not in person.text
    assert not config(tmp_path).exists()


def test_ctrl_c_at_the_question_stores_nothing(tmp_path: Path) -> None:
    with terminal("login", environment={"XDG_CONFIG_HOME": str(tmp_path)}) as person:
        person.wait_for("Address of the service")
        assert person.interrupt() == 130
    assert not config(tmp_path).exists()


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 130, 4), ("y", 0, 3)])
def test_a_person_is_asked_before_anything_is_deleted(
    seorep: Seorep, answer: str, code: int, left: int
) -> None:
    with seorep.account():
        with terminal("api", "DELETE", "/v3/campaigns/2") as person:
            person.wait_for("DELETE /v3/campaigns/2?")
            person.type(f"{answer}\n")
            assert person.end() == code
        campaigns = seorep("campaigns", "list", "--format", "jsonl", "--columns", "id").out
    assert campaigns.count("\n") == left


def test_a_value_of_stdin_is_not_read_from_a_terminal(seorep: Seorep) -> None:
    with seorep.account(), terminal("api", "PUT", "/v3/users/2", "password=@-") as person:
        assert person.end() == 2
    assert "stdin is a terminal, which would show the value" in " ".join(person.text.split())


def test_control_characters_never_reach_a_terminal(seorep: Seorep) -> None:
    red = "red\x1b[31m\x9b31mshoes"
    get = ("campaigns", "get", "1", "--format")
    pull = ("pull", "--campaign", "1", "-o", "-", "--format")
    with seorep.account(reports={("campaign", 1): [{"keywordPhrase": red}]}):
        seorep("api", "PUT", "/v3/campaigns/1", f"company={red}")
        for words in (
            (*get, "table"),
            (*get, "csv"),
            (*get, "json"),
            (*pull, "csv"),
            (*pull, "jsonl"),
        ):
            with terminal(*words) as person:
                assert person.end() == 0
            assert "shoes" in person.text
            assert "\x1b[31m" not in person.text
            assert "\x9b" not in person.text


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


def test_a_long_value_of_one_object_is_shown_whole(seorep: Seorep) -> None:
    with seorep.account():
        seorep("api", "PUT", "/v3/users/1", f"email={'x' * 99}@a.example")
        with terminal("users", "get", "1", columns=40) as person:
            assert person.end() == 0
    assert "\N{HORIZONTAL ELLIPSIS}" not in person.text
