"""The benchmarks run. Of their figures, only the memory of exports is checked here."""

import pickle
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.alternating import Ratio
from benchmarks.export import MEMORY, measure, service

pytestmark = pytest.mark.heavy

REPO = Path(__file__).parent.parent
BARS = (
    "rows, campaign, against orjson.loads",
    "pull 100-row pages",
    "pull 1-row pages",
    "first outcome",
    "peak memory",
    "another task waits",
    "seorep --help",
)


def test_benchmarks_print_all_bars_and_write_results(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--out", str(tmp_path)]
    printed = subprocess.run(command, cwd=REPO, capture_output=True, check=True, text=True).stdout

    lines = [line for line in printed.splitlines() if "≤" in line or "≥" in line]
    for bar in BARS:
        assert any(bar in line for line in lines)
    for line in lines:
        assert re.search("  (held|MISSED|limit|skipped)", line)

    results = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert [part for part in ("load average", "aiohttp 3.", *BARS) if part not in results] == []

    chart = ElementTree.fromstring((tmp_path / "chart.svg").read_text(encoding="utf-8"))  # noqa: S314  # our own
    labels = [element.text for element in chart.iter() if element.get("text-anchor") == "end"]
    assert labels[0] == "seorep_async: models"


def test_a_ratio_from_another_process_keeps_its_control() -> None:
    ratio = pickle.loads(pickle.dumps(Ratio.of([2.0, 6.0], [1.0, 2.0])))  # noqa: S301  # our own
    assert float(ratio) == 4 / 1.5
    assert ratio.control == 2 / 3


@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_2000_small_reports_need_little_more_memory_than_200(kind: str) -> None:
    with service(1) as address:
        peaks = [measure(address, 1, kind, reports)["peak"] for reports in (200, 2000)]
    # Once, 2,000 reports needed 206 MB as Parquet, and 900 MB in DuckDB.
    assert peaks[1] <= MEMORY * peaks[0]
