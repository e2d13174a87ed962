"""The help pages at 80 columns, and options that stand for something elsewhere."""

import contextlib
import inspect
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import attrs
import click
import pytest
from click.shell_completion import ShellComplete

from seorep_async import guides, history
from seorep_async.cli.app import run, seorep as command
from seorep_async.cli.calls import MODELS
from seorep_async.cli.commands import KINDS, TABLES
from seorep_async.cli.formatting import fields_of
from seorep_async.cli.options import LARGEST, Command, Group
from seorep_async.cli.pull import FEEDS
from seorep_async.cli.resources import COLUMNS
from seorep_async.cli.sandbox import READERS
from seorep_async.history.comparing import (
    KINDS as KINDS_OF_HISTORY,
)
from seorep_async.models import Feed
from seorep_async.resources import Backlinks, Campaigns, Keywords, Users
from seorep_async.resources.arguments import MAX_ID
from seorep_async.sandbox import Sandbox
from seorep_async.tables.output_tables import all_tables
from tests.cli.running import Seorep
from tests.golden import assert_golden
from tests.processes import run_python

PAGES = Path(__file__).with_name("help")


def commands(
    parent: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, parent
    if isinstance(parent, click.Group):
        context = click.Context(parent)
        for name in parent.list_commands(context):
            child = parent.get_command(context, name)
            assert child is not None
            yield from commands(child, (*words, name))


COMMANDS = dict(commands(command))


def page(words: tuple[str, ...]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert run([*words, "--help"]) == 0
    return output.getvalue()


def file(words: tuple[str, ...]) -> Path:
    return PAGES / f"{'-'.join(('seorep', *words))}.txt"


def options_of(*words: str) -> dict[str, click.Option]:
    """Return the options of a command that help shows, by the names of their values."""
    options = [option for option in COMMANDS[words].params if isinstance(option, click.Option)]
    return {str(option.name): option for option in options if not option.hidden}


@pytest.mark.parametrize("words", [(), ("campaigns",)])
def test_a_group_without_a_command_shows_its_help(seorep: Seorep, words: tuple[str, ...]) -> None:
    ended = seorep(*words)
    assert (ended.code, ended.out, ended.err) == (2, "", seorep(*words, "--help").out)


@pytest.mark.parametrize("words", COMMANDS, ids="-".join)
def test_a_help_page_matches_its_golden(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert_golden(file(words), page(words))


def test_every_help_page_belongs_to_a_command() -> None:
    names = {file(words).name for words in COMMANDS}
    assert {path.name for path in PAGES.iterdir()} == names


def test_no_line_of_help_is_wide_and_no_sentence_cut() -> None:
    for path in PAGES.iterdir():
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            assert len(line) <= 80
            assert not line.endswith("...")


def test_help_explains_without_docstrings() -> None:
    environment = {**os.environ, "COLUMNS": "80"}
    ended = run_python("-OO", "-m", "seorep_async", "pull", "--help", env=environment)
    assert ended.returncode == 0
    assert ended.stdout == file(("pull",)).read_text(encoding="utf-8")


def test_every_command_refuses_repeated_options() -> None:
    """A plain command of click would use the last value silently."""
    for words, each_command in COMMANDS.items():
        assert isinstance(each_command, Command | Group), words


# --- Lists that the command repeats, so that help needs only click


def test_values_are_those_of_the_library() -> None:
    assert LARGEST == MAX_ID
    assert list(TABLES) == [table.name for table in all_tables()]
    assert KINDS == KINDS_OF_HISTORY
    assert set(FEEDS) == {feed.value for feed in Feed}


@pytest.mark.parametrize("resource", [Campaigns, Users, Keywords, Backlinks])
def test_a_list_has_an_option_for_every_argument(resource: type[Any]) -> None:
    arguments = set(inspect.signature(resource.list).parameters) - {"self", "limit", "extra_params"}
    options = set(options_of(resource.__name__.lower(), "list"))
    own = {"page_size", "limit", "param", "columns", "format", "json"}
    assert options == arguments | own | set(options_of("mcp")) - {"history", "account"}


@pytest.mark.parametrize("resource", MODELS)
def test_the_columns_are_fields_of_the_model(resource: str) -> None:
    assert set(COLUMNS[resource]) <= set(fields_of(MODELS[resource]))


@pytest.mark.parametrize(
    ("function", "own", "omitted"),
    [
        (
            history.changes,
            {"by_campaign", "engines", "exit_code", "format", "json", "month", "out"},
            {"database"},
        ),
        (
            history.report,
            {"engines", "json", "month", "profile", "opens"},
            {"database", "engine_names"},
        ),
    ],
)
def test_a_command_has_an_option_for_every_argument(
    function: Callable[..., object], own: set[str], omitted: set[str]
) -> None:
    arguments = set(inspect.signature(function).parameters) - omitted
    assert set(options_of(function.__name__)) - own == arguments


def test_the_sandbox_has_an_option_for_every_attribute() -> None:
    only_in_python = {"reports", "clock"}
    names = {field.name for field in attrs.fields(Sandbox) if field.init} - only_in_python
    assert set(options_of("sandbox")) == names == set(READERS)


def test_the_defaults_of_the_sandbox_are_its_own() -> None:
    own = Sandbox(port=8765)
    for name, option in options_of("sandbox").items():
        if isinstance(option.default, str):
            assert READERS[name].read(option.default) == getattr(own, name)


def test_choices_of_the_sandbox_are_its_own() -> None:
    hints = get_type_hints(Sandbox)
    for name in ("shape", "rows"):
        choices: Any = options_of("sandbox")[name].type
        assert tuple(choices.choices) == hints[name].__args__


# --- Columns, guides, completion


def test_the_columns_are_explained_by_name_and_type(seorep: Seorep) -> None:
    assert "* campaign_id (integer): " in seorep("columns", "keyword_rankings").out
    (table,) = json.loads(seorep("columns", "keyword_rankings", "--json").out)
    assert table["columns"][0].keys() == {"name", "type", "nullable", "description"}


def test_the_guide_lists_its_pages_and_shows_each(seorep: Seorep) -> None:
    listed = seorep("guide").out
    for name, text in guides.pages().items():
        assert f"  {name} " in listed
        assert seorep("guide", name).out == text


def test_a_shell_completes_an_option_that_was_given() -> None:
    completion = ShellComplete(command, {}, "seorep", "_SEOREP_COMPLETE")
    words = ["pull", "--last", "30d", "--last", "3m"]
    assert "--sandbox" in {item.value for item in completion.get_completions(words, "--sand")}
    (file,) = completion.get_completions(["changes"], "ra")
    assert file.type == "file"
