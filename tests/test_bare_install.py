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


USE = """
import seorep_async
seorep_async.sandbox.Sandbox
seorep_async.export.pull_to
for method in ["to_arrow", "to_pandas", "to_polars"]:
    try: getattr(seorep_async.PullOutcomes([], seorep_async.Feed.CAMPAIGN), method)()
    except ImportError as error: print(error)
help(seorep_async)
help(seorep_async.export)
print(seorep_async.guides.pages())
"""


def test_modules_help_and_guides_open_without_extras() -> None:
    result = run_bare(USE)
    assert result.returncode == 0
    assert result.stderr == ""
    assert "# " in result.stdout
    for message, extra in zip(
        result.stdout.splitlines(), ("arrow", "pandas", "polars"), strict=False
    ):
        assert install_command(extra) in message
    assert not any(hasattr(seorep_async, name) for name in ("exports", "_private", "cli.main"))


def test_the_package_is_the_command() -> None:
    result = run_python("-m", "seorep_async", "--version", cwd=REPO)
    assert result.returncode == 0
    assert result.stdout == "seorep 0.1.0\n"
