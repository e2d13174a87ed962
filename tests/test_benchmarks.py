"""The benchmarks run; how fast anything is, is not asked here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

REPO = Path(__file__).parent.parent
BARS = (
    "current rows, against orjson.loads",
    "pull 100-row pages",
    "pull 1-row pages",
    "first outcome",
    "peak memory",
    "another task waits",
    "import seorep_async",
)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmarks")


@pytest.fixture(scope="module")
def printed(out: Path) -> str:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--out", str(out)]
    return subprocess.run(command, cwd=REPO, capture_output=True, check=True, text=True, timeout=300).stdout


@pytest.mark.parametrize("bar", BARS)
def test_every_kind_of_bar_is_printed_with_what_is_required(printed: str, bar: str) -> None:
    lines = [line for line in printed.splitlines() if bar in line]
    assert lines
    assert all(("≤" in line or "≥" in line) for line in lines)


def test_every_bar_is_held_missed_or_skipped_with_a_reason(printed: str) -> None:
    lines = [line for line in printed.splitlines() if "≤" in line or "≥" in line]
    assert all("  held" in line or "  MISSED" in line or "is not installed" in line for line in lines)


def test_the_results_hold_the_machine_and_the_bars(out: Path, printed: str) -> None:
    results = (out / "results.md").read_text(encoding="utf-8")
    for part in ("load average", "aiohttp 3.", *BARS):
        assert part in results


def test_the_chart_is_well_formed_and_shows_us_first(out: Path, printed: str) -> None:
    chart = ElementTree.fromstring((out / "chart.svg").read_text(encoding="utf-8"))  # noqa: S314  # our own
    labels = [element.text for element in chart.iter() if element.get("text-anchor") == "end"]
    assert labels[0] == "seorep_async: models"
