"""The package with only its core dependencies installed."""

import os
import subprocess
import tomllib
from pathlib import Path

import seorep_async
from seorep_async.tables.optional import install_command
from tests.processes import run_python

REPO = Path(__file__).parent.parent
OPTIONAL = [
    "aioresponses",
    "click",
    "deltalake",
    "dlt",
    "duckdb",
    "jinja2",
    "mcp",
    "mcp_types",
    "openpyxl",
    "pandas",
    "polars",
    "pyarrow",
    "pytest",
    "pytest_asyncio",
    "rich",
    "xlsxwriter",
]

Result = subprocess.CompletedProcess[str]


def run_bare(code: str) -> Result:
    """Run code where no library of an extra can be imported."""
    hiding = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL}))"
    environment = {**os.environ, "PAGER": "cat", "PYTHONPATH": str(REPO)}
    return run_python("-W", "error", "-c", f"{hiding}\n{code}", env=environment)


def test_every_library_of_an_extra_is_optional() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirements in project["optional-dependencies"].values():
        for requirement in requirements:
            name = requirement.partition(">")[0]
            assert name in OPTIONAL or name.startswith("seorep-async[")


def test_help_and_guides_open_without_extras() -> None:
    result = run_bare(
        "import seorep_async\n"
        "help(seorep_async)\n"
        "help(seorep_async.export)\n"
        "print(seorep_async.guides.pages())"
    )
    assert result.returncode == 0
    assert result.stderr == ""
    assert "# " in result.stdout


def test_a_module_is_loaded_at_its_first_use() -> None:
    result = run_bare(
        "import seorep_async\n"
        "print([name for name in sys.modules if name.startswith(('seorep_async.', 'aiohttp'))])\n"
        "seorep_async.sandbox.Sandbox\n"
        "seorep_async.export.pull_to"
    )
    assert result.stdout == "['seorep_async.version']\n"
    assert result.stderr == ""
    assert not any(hasattr(seorep_async, name) for name in ("exports", "_private", "cli.main"))


EXTRAS_OF_METHODS = {"to_arrow": "arrow", "to_pandas": "pandas", "to_polars": "polars"}


def test_a_method_names_the_extra_that_it_needs() -> None:
    result = run_bare(
        "from seorep_async import Feed, PullOutcomes\n"
        f"for method in {[*EXTRAS_OF_METHODS]}:\n"
        "    try: getattr(PullOutcomes([], Feed.CAMPAIGN), method)()\n"
        "    except ImportError as error: print(error)"
    )
    messages = result.stdout.splitlines()
    for message, extra in zip(messages, EXTRAS_OF_METHODS.values(), strict=True):
        assert install_command(extra) in message


def test_the_package_is_the_command() -> None:
    result = run_python("-m", "seorep_async", "--version", cwd=REPO)
    assert result.returncode == 0
    assert result.stdout == "seorep 0.1.0\n"
