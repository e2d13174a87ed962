"""The help pages at 80 columns, and `seorep columns`: `python -m tests.cli.test_help` rewrites the pages."""

import contextlib
import inspect
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from seorep_async import guides
from seorep_async.cli.app import run, seorep as command
from seorep_async.cli.calls import COLUMNS
from seorep_async.cli.output import fields_of
from seorep_async.models import Backlink, Campaign, Keyword, User
from seorep_async.resources import Backlinks, Campaigns, Keywords, Users
from seorep_async.tables.output_tables import all_tables
from tests.cli.running import Seorep

PAGES = Path(__file__).with_name("help")


def commands(
    found: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, found
    if isinstance(found, click.Group):
        context = click.Context(found)
        for name in found.list_commands(context):
            verb = found.get_command(context, name)
            assert verb is not None
            yield from commands(verb, (*words, name))


COMMANDS = dict(commands(command))


def page(words: tuple[str, ...]) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert run([*words, "--help"]) == 0
    return shown.getvalue()


def file(words: tuple[str, ...]) -> Path:
    return PAGES / f"{'-'.join(('seorep', *words))}.txt"


@pytest.mark.parametrize("words", COMMANDS, ids="-".join)
def test_a_help_page_is_as_it_was_read(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert page(words) == file(words).read_text(encoding="utf-8")


def test_every_help_page_belongs_to_a_command() -> None:
    assert {path.name for path in PAGES.iterdir()} == {file(words).name for words in COMMANDS}


def test_no_line_of_help_is_wide_and_no_sentence_cut() -> None:
    lines = [
        line
        for path in PAGES.iterdir()
        for line in path.read_text(encoding="utf-8").splitlines()[1:]
    ]
    assert [line for line in lines if len(line) > 80 or line.endswith("...")] == []


def test_pull_has_at_most_32_options() -> None:
    options = [
        one for one in COMMANDS["pull",].params if isinstance(one, click.Option) and not one.hidden
    ]
    assert len(options) + 1 <= 32


@pytest.mark.parametrize("words", COMMANDS, ids="-".join)
def test_every_option_is_explained(words: tuple[str, ...]) -> None:
    options = [one for one in COMMANDS[words].params if isinstance(one, click.Option)]
    assert [one.name for one in options if not one.hidden and not one.help] == []


@pytest.mark.parametrize("resource", [Campaigns, Users, Keywords, Backlinks])
def test_every_method_is_a_command_and_every_argument_an_option(resource: type) -> None:
    (_, *verbs) = commands(COMMANDS[resource.__name__.lower(),])
    methods = {words[0].replace("-", "_"): verb for words, verb in verbs}
    assert methods.keys() == {name for name in dir(resource) if not name.startswith("_")}
    for name, verb in methods.items():
        asked = set(inspect.signature(getattr(resource, name)).parameters) - {"self"}
        options = {option.name for option in verb.params}
        assert asked - {"password", "extra_params", "limit"} <= options
        assert "limit" not in asked or {"page_size", "most"} <= options


@pytest.mark.parametrize("model", [Campaign, User, Keyword, Backlink])
def test_the_columns_are_fields_of_the_model(model: type) -> None:
    assert {*COLUMNS[f"{model.__name__.lower()}s"]} <= {*fields_of(model)}


def test_as_json_the_columns_of_every_table_are_explained(seorep: Seorep) -> None:
    said = json.loads(seorep("columns", "--json").out)
    assert [table["table"] for table in said] == [table.name for table in all_tables()]
    assert said[0]["columns"][0]["name"] == "account"


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_program_reads_the_table_and_type_of_a_column(seorep: Seorep, kind: str) -> None:
    said = seorep("columns", "--format", kind).out
    (first,) = re.findall(
        r'^(?:\{"table": )?"?keyword_rankings"?,.*account"?,.*?string.*', said, re.MULTILINE
    )
    assert "Name of the account" in first


def test_a_person_reads_the_columns_by_name_and_type(seorep: Seorep) -> None:
    assert "* campaign_id (integer): " in seorep("columns", "keyword_rankings").out


def test_the_guide_lists_its_pages_and_shows_each(seorep: Seorep) -> None:
    listed = seorep("guide").out
    assert all(f"  {name} " in listed for name in guides.pages())
    for name, text in guides.pages().items():
        assert seorep("guide", name).out == text


def test_a_shell_completes_an_option_that_was_given() -> None:
    completion = ShellComplete(command, {}, "seorep", "_SEOREP_COMPLETE")
    words = ["pull", "--last", "30d", "--last", "3m"]
    assert "--sandbox" in {item.value for item in completion.get_completions(words, "--sand")}


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    PAGES.mkdir(exist_ok=True)
    for path in PAGES.iterdir():
        path.unlink()
    for each in COMMANDS:
        file(each).write_text(page(each), encoding="utf-8")
