"""Several months in one command: one after the other, left out where complete, paused and gone on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from seorep_async.cli.application import run

SANDBOX = ("pull", "--sandbox", "--campaigns=3", "--keywords=2", "--quiet")
FEEDS = ("--feed=campaign", "--feed=campaign-by-date", "--feed=keyword-by-date")
NIGHTLESS = "SELECT * EXCLUDE (snapshot_date) FROM {} ORDER BY ALL"
TABLES = ("keyword_rankings", "campaign_periods", "keyword_periods", "totals", "campaigns", "keywords")


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pull(*options: str) -> int:
    return run([*SANDBOX, *options])


def rows(file: str) -> dict[str, list[Any]]:
    with duckdb.connect(file, read_only=True) as database:
        return {name: database.execute(NIGHTLESS.format(name)).fetchall() for name in TABLES}


def windows(file: str) -> list[str]:
    with duckdb.connect(file, read_only=True) as database:
        found = database.execute("SELECT DISTINCT start_date FROM keyword_rankings ORDER BY 1").fetchall()
    return [f"{start:%Y-%m}" for (start,) in found]


def as_json(capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    return found


def test_months_may_be_named_in_any_order() -> None:
    assert pull("--month=2022-09", "--month=2022-02", "--month=2022-09", "--out=a.duckdb") == 0
    assert windows("a.duckdb") == ["2022-02", "2022-09"]


@pytest.mark.parametrize(
    "other", ["--campaign=1", "--campaign=1,2,3", "--group=none", "--filter=a", "--compare-previous-period"]
)
def test_a_pull_of_other_campaigns_is_not_complete(other: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert pull("--month=2022-01", "--out=a.duckdb") == 0
    assert pull("--month=2022-01", "--out=a.duckdb", "--skip-complete", "--dry-run", "--json", other) in (0, 8)
    output = capfd.readouterr().out
    assert json.loads(output)["requests"] if "requests" in output else True
    assert '"feeds_skipped": 1' not in output


def test_a_month_pulled_before_its_end_is_not_complete(capfd: pytest.CaptureFixture[str]) -> None:
    assert pull("--month=2999-01", "--out=a.duckdb") == 0
    assert pull("--month=2999-01", "--out=a.duckdb", "--skip-complete", "--dry-run", "--json") == 0
    assert as_json(capfd)["feeds_skipped"] == 0


@pytest.mark.parametrize("out", ["parts.duckdb", "parts/"])
def test_nights_of_few_requests_lose_nothing(out: str, capfd: pytest.CaptureFixture[str]) -> None:
    months = ("--each=month", "--from=2022-01-01", "--to=2022-03-31", *FEEDS)
    assert pull(*months, "--out=whole.duckdb", "--json") == 0
    whole = as_json(capfd)
    codes: list[int] = []
    rows_pulled = 0
    while not codes or codes[-1] == 5:
        codes.append(pull(*months, f"--out={out}", "--skip-complete", "--max-requests=12", "--json"))
        found = as_json(capfd)
        rows_pulled += found["rows"]
        assert found["requests"] <= 12 + 1
    assert (codes[-1], len(codes) > 3, rows_pulled) == (0, True, whole["rows"])
    if out.endswith("duckdb"):
        assert rows("parts.duckdb") == rows("whole.duckdb")


def test_months_of_which_nothing_came_end_as_one_does(capfd: pytest.CaptureFixture[str]) -> None:
    nothing = ("--campaign=1", "--faults=404s=100%", "--month=2022-01", "--out=a.duckdb", "--json")
    codes = [pull(*nothing), pull(*nothing, "--month=2022-02")]
    assert codes == [2, 2]
    assert '"exit_code": 4' not in capfd.readouterr().out


@pytest.mark.parametrize("out", ["a.duckdb", "a/"])
def test_a_campaign_that_always_fails_keeps_no_month_back(out: str, capfd: pytest.CaptureFixture[str]) -> None:
    months = ("--each=month", "--from=2022-01-01", "--to=2022-04-30", "--forbidden=2", f"--out={out}")
    pulled: list[str] = []
    for _ in range(8):
        pull(*months, "--skip-complete", "--max-requests=4", "--json")
        pulled += [one["start_date"] for one in as_json(capfd)["pulls"]]
    assert pulled == ["2022-01-01", "2022-02-01", "2022-03-01", "2022-04-01"] * 2
