"""Questions to a person: `seorep login`, whose profiles can be read again, and before a DELETE.

`tests/cli/test_terminal.py` has a login on a real terminal.
"""

import tomllib
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from hypothesis import example, given, strategies as st

from seorep_async.cli import login, output
from seorep_async.cli.errors import UsageError
from seorep_async.cli.login import _store, toml_string, with_values
from tests.cli.running import KEY, Ended, Seorep, serving

CONFIG = Path(".config/seorep/config.toml")
Ask = Callable[..., Ended]

NEW = {"base_url": "https://new.example.com", "key": "new"}


@given(st.text())  # without surrogates, which no prompt returns
@example("https://api.example.com/\N{GRINNING FACE}")
@example('C:\\Users "quoted"')
@example("\x00\x1b\x7f\x85\u2028\ufeff")
def test_a_toml_string_is_read_unchanged(text: str) -> None:
    assert tomllib.loads(f"a = {toml_string(text)}") == {"a": text}


def test_a_replaced_profile_keeps_its_other_lines() -> None:
    text = "# ours\n[a]\nkey = 'a'\n\n[b]  # mine\nbase_url = 'x'\naccount = 'B'\nkey = 'b'\n"
    replaced = with_values(text, "b", NEW)
    assert replaced == (
        "# ours\n[a]\nkey = 'a'\n\n[b]  # mine\n"
        'base_url = "https://new.example.com"\nkey = "new"\naccount = \'B\'\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        "a = {base_url = 'x', key = 'y'}",
        "a.base_url = 'x'\na.key = 'y'",
        "[a]\n'base_url' = 'x'\nkey = 'y'",
        "[a]\nkey = 'y'\naccount = '''\n[b]\nkey = 'z'\n'''\nbase_url = 'x'",
    ],
)
def test_a_profile_of_unusual_form_is_not_replaced(text: str) -> None:
    assert with_values(text, "a", NEW) is None


@pytest.mark.parametrize("text", ["", "# mine", "[b]\nkey = 'y'\n", "[a]"])
def test_a_new_profile_is_added_to_a_file(text: str) -> None:
    added = with_values(text, "a", NEW)
    assert added is not None
    assert tomllib.loads(added) == {**tomllib.loads(text), "a": NEW}


def test_a_full_disk_leaves_the_profiles_as_they_were(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    file = tmp_path / "config.toml"
    file.write_text("[a]\nkey = 'a'\n", encoding="utf-8")
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # a file that may not grow any further fails like a full disk, after a part of the text
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, hard))
    try:
        with pytest.raises(UsageError, match="can't write"):
            _store(file, "b", NEW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    assert file.read_text(encoding="utf-8") == "[a]\nkey = 'a'\n"
    assert list(tmp_path.iterdir()) == [file]


# --- Replies of a person


@pytest.fixture
def ask(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run a command with a person who gives these replies to its questions, in this order."""

    def run(*words: str, replies: list[object]) -> Ended:
        left = iter(replies)

        def reply_to(question: str, **_: object) -> object:
            click.echo(question, err=True)
            return next(left)

        monkeypatch.setattr(click, "prompt", reply_to)
        monkeypatch.setattr(click, "confirm", reply_to)
        for module in (login, output):
            monkeypatch.setattr(module, "can_ask", lambda: True)
        ended = seorep(*words)
        assert list(left) == []
        return ended

    return run


def write_config(text: str) -> None:
    CONFIG.parent.mkdir(parents=True)
    CONFIG.write_text(text, encoding="utf-8")
    CONFIG.chmod(0o600)


def stored() -> dict[str, object]:
    """Return the default profile."""
    tables = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    profile: dict[str, object] = tables["default"]
    return profile


@pytest.mark.parametrize(
    ("before", "problem"),
    [
        (["", "wr0ng"], "check the key"),
        (["", "\xa0"], "the key must not be empty"),
        (["api.example.com", ""], "the address needs a scheme"),
        (["http://api.example.com", ""], "the address must begin with https:// (http:// would"),
    ],
    ids=["wrong key", "empty key", "no scheme", "plain http"],
)
def test_a_wrong_reply_is_asked_for_again(ask: Ask, before: list[str], problem: str) -> None:
    with serving(api_key=KEY) as sandbox:
        # an empty reply stands for the right address
        replies = [*(reply or sandbox.base_url for reply in before), KEY]
        ended = ask("login", replies=replies)
    assert ended.code == 0
    assert problem in ended.err
    assert "wr0ng" not in ended.err
    assert stored()["key"] == KEY


def test_an_impossible_key_is_not_stored(ask: Ask) -> None:
    ended = ask("login", replies=["http://127.0.0.1:9", "'quoted'"])
    assert ended.code == 2
    assert "'quoted'" not in ended.err
    assert "SEOREP_API_KEY" not in ended.err
    assert not CONFIG.exists()


@pytest.mark.parametrize(("is_replaced", "key"), [(True, KEY), (False, "old")])
def test_a_person_is_asked_before_a_profile_is_replaced(
    ask: Ask, is_replaced: bool, key: str
) -> None:
    write_config("[default]\nbase_url = 'https://x.example.com'\nkey = 'old'\n")
    with serving(api_key=KEY) as sandbox:
        replies = [True, sandbox.base_url, KEY] if is_replaced else [False]
        ended = ask("login", replies=replies)
    assert (ended.code, stored()["key"]) == (0, key)
    assert "Replace its address and key?" in ended.err
    assert CONFIG.stat().st_mode & 0o777 == 0o600
    assert list(CONFIG.parent.iterdir()) == [CONFIG]


def test_a_new_key_is_tried_with_the_settings_of_its_profile(ask: Ask) -> None:
    # nothing listens on the port of the proxy
    write_config("[default]\nproxy = 'http://127.0.0.1:9'\ncall_timeout = 2\n")
    with serving(api_key=KEY) as sandbox:
        assert ask("login", replies=[True, sandbox.base_url, KEY]).code == 5
    assert "key" not in stored()


@pytest.mark.parametrize(("is_confirmed", "code", "left"), [(False, 130, 4), (True, 0, 3)])
def test_a_person_is_asked_before_anything_is_deleted(
    seorep: Seorep, ask: Ask, is_confirmed: bool, code: int, left: int
) -> None:
    with seorep.account():
        ended = ask("api", "DELETE", "/v3/campaigns/2", replies=[is_confirmed])
        campaigns = seorep("campaigns", "list", "--format", "jsonl", "--columns", "id").out
    assert (ended.code, campaigns.count("\n")) == (code, left)
    assert "DELETE /v3/campaigns/2?" in ended.err
