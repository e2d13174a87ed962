"""A profile of `seorep login` can be read again, for any address and any key."""

import tomllib

from hypothesis import example, given, strategies as st

from seorep_async.cli.login import toml_string


@given(st.text())  # without surrogates, which no prompt returns
@example("https://api.example.com/\N{GRINNING FACE}")
@example('C:\\Users "quoted"')
@example("\x00\x1b\x7f\x85\u2028\ufeff")
def test_a_string_of_toml_is_read_as_it_was_written(text: str) -> None:
    assert tomllib.loads(f"a = {toml_string(text)}") == {"a": text}
