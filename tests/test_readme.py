"""README runs as it stands, from top to bottom, and so do the examples of docstrings; what README names exists."""

import ast
import codeop
import re
import tomllib
from pathlib import Path

import attrs
import pytest

import seorep_async
from seorep_async import guides
from seorep_async.cli.app import run, seorep
from tests.test_guides import Block, blocks, place, run_page

__all__ = ["place"]

REPO = Path(__file__).parent.parent
README = (REPO / "README.md").read_text(encoding="utf-8")
SOURCES = {
    str(file.relative_to(REPO)): file.read_text(encoding="utf-8")
    for file in sorted(REPO.glob("seorep_async/**/*.py"))
}
EXAMPLES = {
    name: [block for block in blocks(text) if block.language == "python"]
    for name, text in SOURCES.items()
}
IMPORTED = Block("python", frozenset(), "from seorep_async import *")
OPENED = Block("python", frozenset(), "client = await SeoRepClient().open()")
CLOSED = Block("python", frozenset(), "await client.close()")
COMMANDS = [
    line.partition("#")[0].partition("|")[0].split()[1:]
    for block in blocks(README)
    for line in block.code.splitlines()
    if line.startswith("seorep ") and "$" not in line
]
INTERACTIVE = ("login", "sandbox")
"""Commands that ask, or serve until Ctrl-C."""


@pytest.mark.heavy
@pytest.mark.usefixtures("place")
def test_the_readme_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    run_page([block for block in blocks(README) if block.language == "python"], "README.md")
    assert capsys.readouterr().out


@pytest.mark.heavy
@pytest.mark.usefixtures("place")
def test_the_commands_of_the_readme_succeed_in_their_order(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for words in COMMANDS:
        if words[0] in INTERACTIVE:
            with seorep.make_context("seorep", words, **seorep.context_settings):
                continue
        assert run(words) == 0, f"{words} {capfd.readouterr().err}"


@pytest.mark.heavy
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", [name for name, found in EXAMPLES.items() if found])
def test_the_examples_of_a_docstring_run(name: str) -> None:
    opens_its_own = any(
        re.search(r"client = await|\bas client\b", block.code) for block in EXAMPLES[name]
    )
    run_page(
        [IMPORTED, *(EXAMPLES[name] if opens_its_own else [OPENED, *EXAMPLES[name], CLOSED])], name
    )


@pytest.mark.parametrize(
    "block",
    [one for one in blocks(README) if "await" in one.code and "asyncio.run(" not in one.code],
)
def test_a_recipe_can_be_pasted_into_a_console(block: Block) -> None:
    console, typed = codeop.CommandCompiler(), ""
    console.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for line in [
        *block.code.splitlines(),
        "",
    ]:  # before Python 3.13, an empty line ends a block, and nothing else does
        typed += f"{line}\n"
        if console(typed[:-1], "README.md") is not None:
            typed = ""
    assert typed == ""


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 130


def test_every_error_and_setting_has_a_place_in_the_guide() -> None:
    guide = guides.pages()["errors-and-limits"]
    public = [getattr(seorep_async, name) for name in dir(seorep_async) if name.endswith("Error")]
    errors = [one.__name__ for one in public if not one.__subclasses__()]
    settings = [field.name for field in attrs.fields(seorep_async.Settings)]
    assert [name for name in [*errors, *settings] if f"`{name}`" not in guide] == []


def test_the_readme_names_every_extra() -> None:
    extras = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert [name for name in extras if f"`{name}`" not in README] == []


def test_every_file_that_the_readme_names_exists() -> None:
    linked = re.findall(
        r"\]\(([^)#:\s]+)[^):\s]*\)|^\[[^]]+\]: ([^#:\s]+)(?:#\S*)?$", README, re.MULTILINE
    )
    named = re.findall(r"`((?:\.ci|benchmarks|tests|seorep_async)/[^` ]+|[A-Z]+\.md)`", README)
    assert [name for name in [*map("".join, linked), *named] if not (REPO / name).exists()] == []


def test_the_package_names_no_file_that_users_do_not_have() -> None:
    foreign = re.compile(r"(?<!guides/)\b[\w-]+\.md\b|§|\btests/|\bbenchmarks/")
    assert {
        name: found for name, source in SOURCES.items() if (found := foreign.findall(source))
    } == {}
