"""Wrong command lines that no session shows: see `sessions/usage.txt`."""

import click
import pytest

from tests.cli.running import Seorep, command_of, commands, serving


@pytest.mark.parametrize(
    ("line", "said"),
    [("pul", "No such command"), ("pull --campain 3", "--campain"), ("keywords delete 1", "No such command")],
)
def test_a_word_that_is_none_of_ours_is_2(seorep: Seorep, line: str, said: str) -> None:
    ended = seorep(*line.split())
    assert (ended.code, ended.err[:13]) == (2, "Usage: seorep")
    assert said in ended.err  # click's own words, which differ by version


def test_a_port_that_is_taken_is_refused_with_2(seorep: Seorep) -> None:
    with serving() as sandbox:
        port = sandbox.base_url.rpartition(":")[2]
        ended = seorep("sandbox", "--port", port)
    assert ended.code == 2
    assert f"can't use port {port} (Address already in use); choose another with --port" in ended.err


# --- Given twice


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


def test_the_help_is_shown_in_spite_of_a_repetition(seorep: Seorep) -> None:
    assert seorep("pull", "--quiet", "--quiet", "--help").code == 0


def test_a_shell_completes_an_option_that_was_given() -> None:
    from click.shell_completion import ShellComplete
    from seorep_async.cli.application import seorep as command

    completion = ShellComplete(command, {}, "seorep", "_SEOREP_COMPLETE")
    words = ["pull", "--last", "30d", "--last", "3m"]
    assert "--sandbox" in {item.value for item in completion.get_completions(words, "--sand")}
