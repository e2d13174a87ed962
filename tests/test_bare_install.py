"""The package as a newcomer finds it: with nothing installed but its core."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import seorep_async

REPO = Path(__file__).parent.parent
OPTIONAL = [
    *("aioresponses", "click", "dlt", "duckdb", "jinja2", "mcp", "mcp_types", "pandas", "polars"),
    *("pyarrow", "pytest", "pytest_asyncio", "rich"),
]


def bare(code: str) -> subprocess.CompletedProcess[str]:
    """Run code where no library of an extra can be imported."""
    missing = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL}))"
    command = [sys.executable, "-W", "error", "-c", f"{missing}\n{code}"]
    alone = os.environ | {"PAGER": "cat", "PYTHONPATH": str(REPO)}
    return subprocess.run(
        command, env=alone, capture_output=True, text=True, check=False, timeout=60
    )


def test_every_library_of_an_extra_is_optional() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = ("cli", "arrow", "duckdb", "pandas", "polars")
    needed = [line for extra in extras for line in project["optional-dependencies"][extra]]
    assert {line.partition(">")[0] for line in needed} <= set(OPTIONAL)


def test_help_and_guides_open_without_extras() -> None:
    shown = bare(
        "import seorep_async; help(seorep_async); help(seorep_async.export); print(seorep_async.guides.pages())"
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "# " in shown.stdout


def test_a_module_is_loaded_when_it_is_asked_for() -> None:
    loaded = (
        "[name for name in sys.modules if name.startswith('seorep_async.') or name == 'aiohttp']"
    )
    shown = bare(
        f"import seorep_async; print({loaded}); seorep_async.sandbox.Sandbox; seorep_async.export.pull_to"
    )
    assert (shown.stdout, shown.stderr) == ("['seorep_async.version']\n", "")
    assert not any(hasattr(seorep_async, name) for name in ("exports", "_private", "cli.main"))


EXTRAS_OF_METHODS = {"to_arrow": "arrow", "to_pandas": "pandas", "to_polars": "polars"}


@pytest.mark.parametrize(("method", "extra"), EXTRAS_OF_METHODS.items())
def test_a_method_names_the_extra_that_it_needs(method: str, extra: str) -> None:
    shown = bare(
        "from seorep_async import Feed, PullOutcomes\n"
        f"try: PullOutcomes([], Feed.CAMPAIGN).{method}()\n"
        "except ImportError as error: print(error)"
    )
    assert f"pip install 'seorep-async[{extra}]'" in shown.stdout


def test_the_package_is_the_command() -> None:
    command = [sys.executable, "-m", "seorep_async", "--version"]
    shown = subprocess.run(
        command, cwd=REPO, capture_output=True, text=True, check=False, timeout=60
    )
    assert (shown.returncode, shown.stdout) == (0, "seorep 0.1.0\n")
