"""README's examples and those of docstrings run, and all names in README exist."""

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
from tests.test_guides import Block, account, blocks, place, run_page

__all__ = ["account", "place"]

REPO = Path(__file__).parent.parent
README = (REPO / "README.md").read_text(encoding="utf-8")
SOURCES = {
    str(file.relative_to(REPO)): file.read_text(encoding="utf-8")
    for file in sorted(REPO.glob("seorep_async/**/*.py"))
}


def python_blocks(text: str) -> list[Block]:
    return [block for block in blocks(text) if block.language == "python"]


EXAMPLES = {name: python_blocks(text) for name, text in SOURCES.items()}
IMPORTED = Block("python", frozenset(), "from seorep_async import *")
OPENED = Block("python", frozenset(), "client = await SeoRepClient().open()")
CLOSED = Block("python", frozenset(), "await client.close()")
INTERACTIVE = ("login", "sandbox")
"""Commands that ask questions, or serve until Ctrl-C."""


def commands_of_readme() -> list[list[str]]:
    """Return the words of each line that runs `seorep`, without comments and pipes."""
    commands = []
    for block in blocks(README):
        for line in block.code.splitlines():
            if line.startswith("seorep ") and "$" not in line:
                command = re.split("[#|]", line)[0]
                commands.append(command.split()[1:])
    return commands


@pytest.mark.heavy
@pytest.mark.usefixtures("place")
def test_the_readme_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    run_page(python_blocks(README), "README.md")
    assert capsys.readouterr().out


@pytest.mark.heavy
@pytest.mark.usefixtures("place")
def test_the_commands_of_the_readme_succeed_in_their_order(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for words in commands_of_readme():
        if words[0] in INTERACTIVE:
            with seorep.make_context("seorep", words, **seorep.context_settings):
                continue
        assert run(words) == 0, f"{words} {capfd.readouterr().err}"


@pytest.mark.heavy
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", [name for name, examples in EXAMPLES.items() if examples])
def test_the_examples_of_a_docstring_run(name: str) -> None:
    examples = EXAMPLES[name]
    opens_a_client = re.compile(r"client = await|\bas client\b")
    if any(opens_a_client.search(block.code) for block in examples):
        run_page([IMPORTED, *examples], name)
    else:
        run_page([IMPORTED, OPENED, *examples, CLOSED], name)


RECIPES = [
    block for block in blocks(README) if "await" in block.code and "asyncio.run(" not in block.code
]


@pytest.mark.parametrize("block", RECIPES)
def test_a_recipe_can_be_pasted_into_a_console(block: Block) -> None:
    console = codeop.CommandCompiler()
    console.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    typed = ""
    # Before Python 3.13 only an empty line ends a block.
    for line in [*block.code.splitlines(), ""]:
        typed += f"{line}\n"
        if console(typed[:-1], "README.md") is not None:
            typed = ""
    assert typed == ""


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 130


def test_every_error_and_setting_has_a_place_in_the_guide() -> None:
    guide = guides.pages()["errors-and-limits"]
    for name in dir(seorep_async):
        if name.endswith("Error") and not getattr(seorep_async, name).__subclasses__():
            assert f"`{name}`" in guide
    for field in attrs.fields(seorep_async.Settings):
        assert f"`{field.name}`" in guide


def test_the_readme_names_every_extra() -> None:
    metadata = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in metadata["optional-dependencies"]:
        assert f"`{extra}`" in README


def test_every_file_that_the_readme_names_exists() -> None:
    links = re.findall(r"\]\(([^)#:\s]+)[^):\s]*\)", README)
    names = re.findall(r"`((?:\.ci|benchmarks|tests|seorep_async)/[^` ]+|[A-Z]+\.md)`", README)
    assert links
    for name in [*links, *names]:
        assert (REPO / name).exists(), name


def test_the_package_names_no_file_that_users_do_not_have() -> None:
    foreign = re.compile(r"(?<!guides/)\b[\w-]+\.md\b|§|\btests/|\bbenchmarks/")
    for name, source in SOURCES.items():
        assert foreign.findall(source) == [], name
