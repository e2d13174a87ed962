"""The examples of the guides run unchanged.

A page is one program: its blocks run from top to bottom in one working folder. The fence of a block
says how it runs:

- ```` ```python ````: it runs in the page's one namespace; `await` may stand outside functions.
  Where a block awaits nothing, no event loop runs, so `asyncio.run` and
  `if __name__ == "__main__":` work as in a script.
- ```` ```python test ````: it is a file of tests, which pytest runs with this package's fixtures.
- ```` ```python file ````: it is the module that its first line names, for the page's tests.
- ```` ```sh ````: bash runs it; any line that fails ends it and fails the page. `seorep` is this
  package's.
- ```` ```python engines ````, ```` ```sh engines ````: it needs the group `engines`; it runs only
  with `pytest -m engines tests/test_guides.py`, together with all other blocks of its page.
- ```` ```console ````, `json`, `toml`, `text` and any other language: it is not run. This is for
  transcripts, and for commands that serve until Ctrl-C.

`SEOREP_BASE_URL` and `SEOREP_API_KEY` name the page's own sandbox of 12 campaigns with 30 keywords.
The home folder is the page's own as well. Warnings are errors in blocks of Python, but for pages of
engines. A client left open is a warning.
"""

import ast
import asyncio
import gc
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest

from seorep_async import guides
from seorep_async.sandbox import Sandbox
from seorep_async.tables.output_tables import all_tables
from tests.threads import in_a_thread

FOLDER = Path(guides.__file__).parent
FENCED = re.compile(r"^( *)```(\w+)([^\n`]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
WORDS = {"python": {"engines", "test", "file"}, "sh": {"engines"}}
"""The words that may follow a language."""
PYTEST_OPTIONS = [
    "-c",
    os.devnull,
    "--rootdir=.",
    "-o",
    "asyncio_default_fixture_loop_scope=function",
]


class Block(NamedTuple):
    """An example: its language, the words behind it, and its code.

    The code begins with as many empty lines as the page has before it, so that errors name its
    lines.
    """

    language: str
    words: frozenset[str]
    code: str


def blocks(text: str) -> Iterator[Block]:
    """Yield the examples of a page."""
    for fence in FENCED.finditer(text):
        indent, language, words, code = fence.groups()
        if language in WORDS:
            lines_before = text.count("\n", 0, fence.start(4))
            plain_code = re.sub(f"^{indent}", "", code, flags=re.MULTILINE)
            padded_code = "".ljust(lines_before, "\n") + plain_code
            yield Block(language, frozenset(words.split()), padded_code)


PAGES = {page: list(blocks(text)) for page, text in guides.pages().items()}
PAGES_OF_ENGINES = [
    page for page, examples in PAGES.items() if any("engines" in block.words for block in examples)
]


@pytest.fixture
def account() -> Sandbox:
    """The account of a page."""
    return Sandbox(campaigns=12, keywords=30, seed=1, shape="mixed", rows="mixed")


@pytest.fixture
def place(account: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder, another as home, and an environment that names a sandbox."""
    working_folder = tmp_path / "work"
    working_folder.mkdir()
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(working_folder)
    for name in [*os.environ]:
        if name.startswith(("SEOREP_", "XDG_", "PYTEST_ADDOPTS")):
            monkeypatch.delenv(name)
    with in_a_thread(account) as sandbox:
        environment = {
            "SEOREP_BASE_URL": sandbox.base_url,
            "SEOREP_API_KEY": sandbox.api_key,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "DLT_DATA_DIR": str(home),
            "RUNTIME__DLTHUB_TELEMETRY": "false",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield working_folder
    gc.collect()  # a client left open is an error of this page, not of a later test


def execute(command: list[str]) -> None:
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"


def run_page(page: Iterable[Block], name: str, *, engines: bool = False) -> dict[str, Any]:
    """Run the examples of a page, and return the names that they define."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as loop:
        for number, block in enumerate(page):
            if "engines" in block.words and not engines:
                continue
            if block.language == "sh":
                execute(["bash", "-euo", "pipefail", "-c", block.code])
            elif "file" in block.words:
                # The first line is a comment with the file's name.
                file_name = block.code.split(maxsplit=2)[1]
                Path(file_name).write_text(block.code, encoding="utf-8")
            elif "test" in block.words:
                file_name = f"test_{number}.py"
                Path(file_name).write_text(block.code, encoding="utf-8")
                pytest_command = [sys.executable, "-W", "error", "-m", "pytest", "-q"]
                execute([*pytest_command, *PYTEST_OPTIONS, file_name])
            else:
                code = compile(block.code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                result = eval(code, names)  # noqa: S307
                if code.co_flags & inspect.CO_COROUTINE:
                    loop.run(result)
    return names


@pytest.mark.heavy
@pytest.mark.parametrize("page", PAGES)
def test_a_guide_runs_as_it_stands(page: str, place: Path) -> None:
    # DuckDB 1.4 writes several files for a day: one that an older export left repeats its rows
    old_file = place / "days" / "data_1.parquet"
    old_file.parent.mkdir()
    old_file.touch()
    with duckdb.connect(place / "nights.duckdb") as database:
        database.execute("CREATE TABLE notes (own VARCHAR)")
    variables = run_page(PAGES[page], f"{page}.md")
    assert old_file.exists() == (page != "exports")
    if page == "exports":
        assert variables["tables"] == [table.name for table in all_tables()]


@pytest.mark.engines
@pytest.mark.filterwarnings("ignore")  # engines have warnings of their own
@pytest.mark.parametrize("page", PAGES_OF_ENGINES)
@pytest.mark.usefixtures("place")
def test_a_guide_of_engines_runs_as_it_stands(page: str) -> None:
    run_page(PAGES[page], f"{page}.md", engines=True)


@pytest.mark.parametrize(
    "import_of_recipe",
    [
        pytest.param("concurrent.futures", marks=pytest.mark.heavy),
        pytest.param("import duckdb", marks=pytest.mark.heavy),
        *[
            pytest.param(f"import {name}", marks=pytest.mark.engines)
            for name in ("dask", "dlt\n", "pyarrow.compute", "ray", "SparkSession")
        ],
    ],
)
@pytest.mark.usefixtures("place")
def test_a_recipe_of_engines_is_a_script_with_the_first_block(
    import_of_recipe: str, account: Sandbox
) -> None:
    first, *others = PAGES["engines"]
    recipe = next(block for block in others if import_of_recipe in block.code)
    Path("script.py").write_text(f"{first.code}\n{recipe.code}", encoding="utf-8")
    # files of a lake are replaced whole, so that recipe refuses a night with failures
    if "duckdb" not in import_of_recipe:
        account.failing = {3: 404}
    execute([sys.executable, "script.py"])
    # 12 reports of at most two pages
    requests_for_one_pull = 12 * 2
    if "dlt" in import_of_recipe:
        requests_for_one_pull *= 2  # of two feeds, and the keywords are found by the first
    requests = account.stats.per_operation["GET /v3/resources/rankings/campaign"]
    assert 0 < requests <= requests_for_one_pull


@pytest.mark.parametrize("page", PAGES)
def test_a_guide_has_a_title_and_known_fences(page: str) -> None:
    text = guides.pages()[page]
    assert re.match(r"# \S", text)
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(FENCED.findall(text)), (
        "each fence has a language"
    )
    for block in PAGES[page]:
        assert block.words <= WORDS[block.language]


@pytest.mark.parametrize("page", PAGES)
def test_links_in_a_guide_have_existing_targets(page: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", guides.pages()[page])
    for target, anchor in links:
        file = FOLDER / (target or f"{page}.md")
        assert file.exists(), target
        if anchor:
            assert anchor in anchors_of(file)


def anchors_of(file: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
