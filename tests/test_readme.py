"""The README and the guides, which are docstrings of public modules: their examples run, and what they name exists."""

import ast
import asyncio
import codeop
import inspect
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import CodeType
from typing import Any

import attrs
import pytest

import seorep_async
from seorep_async import ConfigurationError
from seorep_async.cli.application import run, seorep
from seorep_async.cli.commands import sandbox
from seorep_async.sandbox import Sandbox
from tests.threads import in_a_thread

REPO = Path(__file__).parent.parent
README = (REPO / "README.md").read_text(encoding="utf-8")
PAGES = {"README": REPO / "README.md"} | {
    ".".join(file.relative_to(REPO).with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted(REPO.glob("seorep_async/**/*.py"))
}
GUIDES = sorted(set(re.findall(r"help\((seorep_async[\w.]*)\)", README)))
BLOCK = re.compile(r"^( *)```(python|sh)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """Give the name of each page with its blocks of code, which bear their line numbers in the page."""
    for name, file in PAGES.items():
        text = file.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            if found[2] == language:
                yield name, "\n" * text.count("\n", 0, found.start(3)) + textwrap.dedent(found[3])


PROGRAMS = [(name, code) for name, code in blocks("python") if "asyncio.run(" in code]
TESTS = [(name, code) for name, code in blocks("python") if "def test_" in code]
EXAMPLES = [example for example in blocks("python") if example not in PROGRAMS + TESTS]
SNIPPETS: dict[str, list[str]] = {}
for page, block in EXAMPLES:
    SNIPPETS.setdefault(page, []).append(block)
PRELUDE = SNIPPETS.pop("seorep_async")
OF_ENGINES = [page for page in SNIPPETS if ".integrations" in page]
COMMANDS = [
    line.partition("#")[0].partition("|")[0].split()[1:]
    for _, code in blocks("sh")
    for line in code.splitlines()
    if line.startswith("seorep ") and "$" not in line
]


def serving(key: str = "sandbox") -> AbstractContextManager[Sandbox]:
    """Run a sandbox beside the examples, which have event loops of their own."""
    return in_a_thread(Sandbox(campaigns=12, keywords=30, seed=1, shape="mixed", rows="mixed", api_key=key))


@pytest.fixture(scope="module")
def service() -> Iterator[Sandbox]:
    with serving() as sandbox:
        yield sandbox


@pytest.fixture
def account(service: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder, and an environment that names the sandbox."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEOREP_BASE_URL", service.base_url)
    monkeypatch.setenv("SEOREP_API_KEY", service.api_key)
    monkeypatch.setenv("DLT_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")


def compiled(page: str, code: str) -> CodeType:
    lines: CodeType = compile(code, PAGES[page], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return lines


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 250


@pytest.mark.parametrize(("page", "code"), EXAMPLES, ids=[page for page, _ in EXAMPLES])
def test_an_example_can_be_pasted_into_a_console(page: str, code: str) -> None:
    console, typed = codeop.CommandCompiler(), ""
    console.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for line in [*code.splitlines(), ""]:  # before Python 3.13, an empty line ends a block, and nothing else does
        typed += f"{line}\n"
        if console(typed[:-1], page) is not None:
            typed = ""
    assert typed == ""


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(("page", "code"), PROGRAMS, ids=[page for page, _ in PROGRAMS])
def test_a_program_runs_without_a_warning(page: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compiled(page, code), {"__name__": "__main__"})  # noqa: S102
    assert capsys.readouterr().out


async def type_in(page: str) -> dict[str, Any]:
    """Run the snippets of a page as `python -m asyncio` does, and return the names that they define.

    The README's close their client; those of guides leave it open, as they begin with the same lines.
    """
    names: dict[str, Any] = {}
    try:
        for code in SNIPPETS[page] if page == "README" else PRELUDE + SNIPPETS[page]:
            lines = compiled(page, code)
            result = eval(lines, names)  # noqa: S307
            if lines.co_flags & inspect.CO_COROUTINE:
                await result
        if page == "README":
            with pytest.raises(ConfigurationError, match="this client is closed"):
                await names["client"].campaigns.get(1)
            assert [guide for guide in GUIDES if not inspect.ismodule(eval(guide, names))] == []  # noqa: S307
    finally:
        await names["client"].close()
    return names


@pytest.mark.heavy
@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("page", [page for page in SNIPPETS if page not in OF_ENGINES])
def test_snippets_run_without_a_warning(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(type_in(page))
    assert capsys.readouterr().out


@pytest.mark.engines
@pytest.mark.filterwarnings("ignore")  # those of the engines are their own
@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("page", OF_ENGINES)
def test_snippets_of_engines_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(type_in(page))
    assert capsys.readouterr().out


def test_examples_of_tests_pass(tmp_path: Path) -> None:
    for number, (_, code) in enumerate(TESTS):
        (tmp_path / f"test_{number}.py").write_text(code, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n", encoding="utf-8")
    plugins = ["-p", "pytest_asyncio.plugin", "-p", "seorep_async.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", *plugins, str(tmp_path)]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # half the time
    ended = subprocess.run(command, cwd=REPO, env=alone, capture_output=True, text=True, check=False)
    expected = sum(code.count("def test_") for _, code in TESTS)
    assert f"{expected} passed" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.heavy
@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_succeeds(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    if words[0] == "sandbox":  # it would serve until Ctrl-C
        sandbox.make_context("sandbox", words[1:], **seorep.context_settings)
    else:
        assert run(words) == 0, capfd.readouterr().err


def test_the_readme_names_every_error_setting_and_extra() -> None:
    errors = [
        name
        for name in dir(seorep_async)
        if name.endswith("Error") and not getattr(seorep_async, name).__subclasses__()
    ]
    settings = [field.name for field in attrs.fields(seorep_async.Settings)]
    extras = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert [name for name in [*errors, *settings, *extras] if f"`{name}`" not in README] == []


def test_every_file_that_the_readme_names_exists() -> None:
    named = set(re.findall(r"\]\(([^)#:]+)\)|`((?:\.ci|benchmarks|tests|seorep_async)/[^` ]+|[A-Z]+\.md)`", README))
    assert [name for name in map("".join, named) if not (REPO / name).exists()] == []


def test_nothing_names_a_file_that_users_do_not_have() -> None:
    foreign = re.compile(r"(?<!guides/)\b[\w-]+\.md\b|§|\btests/|\bbenchmarks/")
    sources = {name: file.read_text(encoding="utf-8") for name, file in PAGES.items() if name != "README"}
    assert {name: found for name, source in sources.items() if (found := foreign.findall(source))} == {}
