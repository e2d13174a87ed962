"""An option that is not repeatable is refused when it is given twice, whatever its command."""

from __future__ import annotations

import click
import pytest

from tests.cli.running import Seorep
from tests.cli.test_connection import command_of
from tests.cli.test_help import commands


def options(words: tuple[str, ...]) -> list[click.Option]:
    return [option for option in command_of(words).params if isinstance(option, click.Option) and not option.hidden]


def given(option: click.Option, spelling: str) -> list[str]:
    if option.is_flag:
        return [spelling]
    value = option.type.choices[0] if isinstance(option.type, click.Choice) else "3"
    return [spelling, *[value] * option.nargs]


@pytest.mark.parametrize("words", [words for words in commands() if words], ids="-".join)
def test_an_option_given_twice_is_refused(seorep: Seorep, words: tuple[str, ...]) -> None:
    for option in options(words):
        if not option.multiple:
            ended = seorep(*words, *given(option, option.opts[0]), *given(option, option.opts[-1]))
            assert (ended.code, ended.out == "") == (2, option.name != "json")  # which says so on stdout
            assert ended.err.splitlines()[-1].startswith(f"Error: {max(option.opts, key=len)}: given 2 times")


def test_repeatable_options_are_as_documented() -> None:
    repeatable = {option.name for words in commands() if words for option in options(words) if option.multiple}
    assert repeatable == {"feeds", "campaign", "month", "group", "failing", "forbidden", "param", "role"}


@pytest.mark.parametrize(
    "line",
    [
        "--last 30d --last=3m",
        "-o a.csv --out b.csv",
        "-oa.csv -ob.csv",
        "-qq",
        "-q --sandbox --quiet",
        "--quiet --sandbox --quiet --quiet",
    ],
)
def test_every_spelling_counts(seorep: Seorep, line: str) -> None:
    ended = seorep("pull", *line.split())
    assert ended.code == 2
    assert ": given " in ended.err.splitlines()[-1]


@pytest.mark.parametrize(
    "line",
    [
        "--sandbox --campaign 1 --campaign 2 --quiet -o -",
        "--sandbox --campaigns 2 --feed campaign --feed campaign-by-date --quiet",
        "--sandbox --campaign 1 --group --group",  # a value may look like an option
        "--quiet -- --quiet",
        "--quiet --quiet --help",
    ],
)
def test_what_is_no_repetition_is_not_called_one(seorep: Seorep, line: str) -> None:
    assert ": given " not in seorep("pull", *line.split()).err


def test_the_environment_and_an_option_are_no_repetition(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEOREP_PROFILE", "acme")
    assert "there is no profile 'other'" in seorep("pull", "--profile", "other").err


def test_a_key_given_twice_is_refused_as_a_key(seorep: Seorep) -> None:
    ended = seorep("pull", "--month", "2022-13", "--key", "s3cret", "--api-key", "s3cret")
    assert "everyone who lists processes can see a key" in ended.err
    assert (ended.code, "s3cret" in ended.err) == (2, False)


def test_a_shell_completes_an_option_that_was_given() -> None:
    from click.shell_completion import ShellComplete

    from seorep_async.cli.application import seorep as command

    completion = ShellComplete(command, {}, "seorep", "_SEOREP_COMPLETE")
    words = ["pull", "--last", "30d", "--last", "3m"]
    assert "--sandbox" in {item.value for item in completion.get_completions(words, "--sand")}
