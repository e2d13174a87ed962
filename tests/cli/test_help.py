"""The help pages at 80 columns, and `seorep columns`: `python -m tests.cli.test_help` rewrites the pages."""

import contextlib
import io
import json
import os
import shlex
from pathlib import Path

import click
import pytest
from seorep_async.cli.application import run, seorep as command
from seorep_async.cli.resource_methods import BACKLINKS, CAMPAIGNS, KEYWORDS, USERS, Resource

from seorep_async import SeoRepClient
from seorep_async.cli.options import SANDBOX_DEFAULTS, field_names
from seorep_async.sandbox import Sandbox
from seorep_async.tables.declared import all_tables
from tests.cli.running import Seorep, commands, group

# --- What every column means


@pytest.mark.parametrize(
    ("table", "column", "said"),
    [
        ("failures", "campaign_id", "or if the campaigns could not be listed (table_name is then campaigns)"),
        ("failures", "keyword_id", "if the campaign's keywords could not be found"),
        ("pulls", "failures", "a list of campaigns that could not be fetched is not counted"),
        ("pulls", "snapshot_date", "or the day given to the pull"),
        ("keyword_rankings", "extra", "{} in Python, an empty cell in CSV, else null"),
        ("keyword_rankings", "engine_a_ranking", "Of which day in the window is not documented"),
        ("keyword_rankings", "engine_a_ranking_change", "what null means against 0"),
        ("campaign_periods", "engine_b_rankings_51", "whether it counts keywords without a position is not documented"),
        ("campaigns", "timezone", "JSON text in CSV, Parquet, Arrow and databases"),
    ],
)
def test_what_the_reference_leaves_open_is_said_to_be(table: str, column: str, said: str) -> None:
    (meaning,) = (c.description for t in all_tables() if t.name == table for c in t.columns if c.name == column)
    assert said in meaning


def test_on_a_terminal_meanings_have_its_width(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seorep_async.cli.terminal.stdout_is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    lines = seorep("columns", "keyword_rankings").out.splitlines()
    assert max(map(len, lines)) <= 80
    place = lines.index("  engine_a_ranking (integer): Judging by its name, position of the keyword in")
    assert lines[place + 1].startswith("      the first search engine.")


def test_as_json_it_has_every_table(seorep: Seorep) -> None:
    said = json.loads(seorep("columns", "--json").out)
    assert [table["table"] for table in said] == [table.name for table in all_tables()]
    assert said[0]["columns"][0]["name"] == "account"


# --- The help pages


PAGES = Path(__file__).with_name("help")
RESOURCES = (CAMPAIGNS, USERS, KEYWORDS, BACKLINKS)
every_resource = pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.name)


def page(words: tuple[str, ...]) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert run([*words, "--help"]) == 0
    return shown.getvalue()


def file(words: tuple[str, ...]) -> Path:
    return PAGES / f"{'-'.join(('seorep', *words))}.txt"


@pytest.mark.parametrize("words", list(commands()), ids="-".join)
def test_a_help_page_is_as_it_was_read(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert page(words) == file(words).read_text(encoding="utf-8")


def test_every_help_page_belongs_to_a_command() -> None:
    assert {path.name for path in PAGES.iterdir()} == {file(words).name for words in commands()}


def test_no_line_of_help_is_wider_than_80_columns() -> None:
    wide = [
        line for path in PAGES.iterdir() for line in path.read_text(encoding="utf-8").splitlines() if len(line) > 80
    ]
    assert wide == []


def test_no_sentence_of_help_is_cut() -> None:
    pages = [path.read_text(encoding="utf-8").splitlines() for path in PAGES.iterdir()]
    assert [line for page in pages for line in page[1:] if line.endswith("...")] == []


@pytest.mark.parametrize("name", ["pull", "doctor", "sandbox"])
def test_a_command_begins_its_help_as_the_list_does(name: str) -> None:
    (line,) = (line for line in file(()).read_text(encoding="utf-8").splitlines() if line.startswith(f"  {name} "))
    assert (group(name).help or "").splitlines()[0] == line.split(maxsplit=1)[1]


def test_the_sandbox_has_the_defaults_that_help_shows() -> None:
    sandbox = Sandbox()
    assert {name: getattr(sandbox, name) for name in SANDBOX_DEFAULTS} == SANDBOX_DEFAULTS


@every_resource
def test_a_resource_is_an_attribute_of_the_client(resource: Resource) -> None:
    assert type(getattr(SeoRepClient("https://api.example.com", "key"), resource.name)) is resource.cls


@every_resource
def test_every_method_is_a_command_and_every_argument_an_option(resource: Resource) -> None:
    found = group(resource.name)
    assert isinstance(found, click.Group)
    names = {name for name in vars(resource.cls) if not name.startswith("_")}
    assert {name.replace("-", "_") for name in found.commands} == names
    for method in resource.methods:
        options = {option.name for option in found.commands[method.name.replace("_", "-")].params}
        asked = {parameter.name for parameter in method.parameters} - {"password"}
        assert asked | {"param"} <= options


@every_resource
def test_the_columns_are_fields_of_the_model(resource: Resource) -> None:
    (model,) = (method.model for method in resource.methods if method.name == "get")
    assert model is not None
    assert {*resource.columns, *resource.label_fields} <= set(field_names(model))


@every_resource
def test_the_examples_are_understood(resource: Resource) -> None:
    for example in resource.examples.replace("\\\n", "").split("\n  seorep ")[1:]:
        name, verb, *words = shlex.split(example.partition(" > ")[0].partition(" < ")[0])
        found = group(name)
        assert isinstance(found, click.Group)
        assert found.commands[verb].make_context(verb, words, **command.context_settings) is not None


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    PAGES.mkdir(exist_ok=True)
    for path in PAGES.iterdir():
        path.unlink()
    for each in commands():
        file(each).write_text(page(each), encoding="utf-8")
