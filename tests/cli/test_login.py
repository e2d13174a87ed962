"""`seorep login` writes profiles that can be read again.

The session `login` has its questions, and `tests/cli/test_terminal.py` a real terminal.
"""

import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from seorep_async.cli.errors import UsageError
from seorep_async.cli.login import _store, toml_string, with_values
from tests.processes import full_disk

NEW = {"base_url": "https://new.example.com", "key": "new"}


@given(st.text(st.characters(exclude_categories=["Cs"])))
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
    file = tmp_path / "config.toml"
    file.write_text("[a]\nkey = 'a'\n", encoding="utf-8")
    with full_disk(40), pytest.raises(UsageError, match="can't write"):
        _store(file, "b", NEW)
    assert file.read_text(encoding="utf-8") == "[a]\nkey = 'a'\n"
    assert list(tmp_path.iterdir()) == [file]
