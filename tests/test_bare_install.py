"""The package as a newcomer finds it: with nothing installed but its core."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import seorep_async

REPO = Path(__file__).parent.parent
LISTED = re.findall(r"^- `help\((.*)\)`: ", seorep_async.__doc__ or "", re.MULTILINE)
OPTIONAL = [
    *("click", "dlt", "duckdb", "jinja2", "mcp", "mcp_types", "pandas", "polars"),
    *("pyarrow", "rich"),
]
OPTIONAL += ["aioresponses", "pytest", "pytest_asyncio"]


def bare(code: str) -> subprocess.CompletedProcess[str]:
    """Run code where no library of an extra can be imported."""
    missing = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL}))"
    command = [sys.executable, "-W", "error", "-c", f"{missing}\n{code}"]
    alone = os.environ | {"PAGER": "cat", "PYTHONPATH": str(REPO)}
    return subprocess.run(command, env=alone, capture_output=True, text=True, check=False, timeout=60)


def test_the_guides_are_listed() -> None:
    assert {name.partition(".")[2] for name in LISTED} <= set(dir(seorep_async))


def test_every_library_of_an_extra_is_optional() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = ("cli", "arrow", "duckdb", "pandas", "polars")
    needed = [line for extra in extras for line in project["optional-dependencies"][extra]]
    assert {line.partition(">")[0] for line in needed} <= set(OPTIONAL)


@pytest.mark.parametrize("form", ["help({})", "help({!r})"])
def test_guides_open_without_extras_and_pytest(form: str) -> None:
    shown = bare("import seorep_async\n" + "\n".join(map(form.format, ["seorep_async", *LISTED])))
    assert (shown.returncode, shown.stderr) == (0, "")
    opened = shown.stdout.replace("Help on module", "Help on package")
    assert [name for name in LISTED if f"Help on package {name} in seorep_async:" not in opened] == []


def test_a_guide_is_loaded_when_it_is_asked_for() -> None:
    loaded = "[name for name in sys.modules if name.startswith('seorep_async.') or name == 'aiohttp']"
    shown = bare(f"import seorep_async; print({loaded}); seorep_async.sandbox.Sandbox; seorep_async.export.pull_to")
    assert (shown.stdout, shown.stderr) == ("[]\n", "")


def test_a_module_that_there_is_not_is_an_attribute_error() -> None:
    for name in ("exports", "_private", "cli.main"):
        assert not hasattr(seorep_async, name)


def test_guides_are_data_of_the_package() -> None:
    shown = bare("from seorep_async import guides; print(*(text[:2] for text in guides.pages().values()), sep='')")
    assert set(shown.stdout.strip()) <= {"#", " "}, shown.stderr


def test_the_package_is_the_command() -> None:
    command = [sys.executable, "-m", "seorep_async", "--version"]
    shown = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False, timeout=60)
    assert (shown.returncode, shown.stdout) == (0, "seorep 0.1.0\n")
