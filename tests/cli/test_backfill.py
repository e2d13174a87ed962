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


@pytest.mark.parametrize("out", ["a.duckdb", "a/"])
def test_each_month_is_a_pull_of_its_own(out: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert pull("--each=month", "--from=2022-11-10", "--to=2023-01-20", f"--out={out}", "--json") == 0
    found = as_json(capfd)
    days = [(one["start_date"], one["end_date"]) for one in found["pulls"]]
    assert days == [("2022-11-10", "2022-11-30"), ("2022-12-01", "2022-12-31"), ("2023-01-01", "2023-01-20")]
    assert (found["rows"], found["paused"], found["months_left"]) == (18, False, [])


def test_months_may_be_named_in_any_order() -> None:
    assert pull("--month=2022-09", "--month=2022-02", "--month=2022-09", "--out=a.duckdb") == 0
    assert windows("a.duckdb") == ["2022-02", "2022-09"]


def test_complete_months_cost_no_request(capfd: pytest.CaptureFixture[str]) -> None:
    months = (
        "--each=month",
        "--from=2022-01-01",
        "--to=2022-03-31",
        *FEEDS,
        "--out=a.duckdb",
        "--json",
        "--skip-complete",
    )
    assert [pull(*months), as_json(capfd)["feeds_skipped"]] == [0, 0]
    assert pull(*months) == 0
    found = as_json(capfd)
    assert (found["requests"], found["feeds_skipped"], found["pulls"]) == (0, 9, [])


@pytest.mark.parametrize(
    "other", ["--campaign=1", "--campaign=1,2,3", "--group=none", "--filter=a", "--compare-previous-period"]
)
def test_a_pull_of_other_campaigns_is_not_complete(other: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert pull("--month=2022-01", "--out=a.duckdb") == 0
    assert pull("--month=2022-01", "--out=a.duckdb", "--skip-complete", "--dry-run", "--json", other) in (0, 8)
    output = capfd.readouterr().out
    assert json.loads(output)["requests"] if "requests" in output else True
    assert '"feeds_skipped": 1' not in output


def test_months_of_another_service_are_not_complete(capfd: pytest.CaptureFixture[str]) -> None:
    assert pull("--month=2022-01", "--out=a.duckdb") == 0
    assert pull("--month=2022-01", "--out=a.duckdb", "--skip-complete", "--seed=7") == 2
    assert "give this account a name of its own" in " ".join(capfd.readouterr().err.split())


def test_a_month_with_failures_is_pulled_again(capfd: pytest.CaptureFixture[str]) -> None:
    months = ("--month=2022-01", "--month=2022-02", "--out=a.duckdb", "--json")
    assert pull(*months, "--failing=2") == 4
    assert as_json(capfd)["failures"] == 2
    assert pull(*months, "--skip-complete") == 0
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


def test_a_dry_run_adds_up_and_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    months = ("--each=month", "--from=2022-01-01", "--to=2022-04-30", "--out=a.duckdb", "--dry-run", "--json")
    assert pull(*months) == 0
    found = as_json(capfd)
    assert (found["requests"], [one["requests"] for one in found["months"]]) == (16, [4, 4, 4, 4])
    assert not Path("a.duckdb").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--month=2022-01", "--month=2022-02", "--out=a.csv"), "need a database"),
        (("--month=2022-01", "--skip-complete", "--out=a.parquet"), "need a database"),
        (("--month=2022-01", "--month=2022-02", "--out=-"), "need a database"),
        (
            ("--month=2022-01", "--month=2022-02", "--out=a.duckdb", "--retry-failed"),
            "--skip-complete fetches",
        ),
        (("--month=2022-01", "--month=2022-02", "--out=a.duckdb", "--max-requests=5"), "needs --skip-complete"),
        (("--month=2022-01", "--from=2022-01-01", "--out=a.duckdb"), "can't be combined"),
        (("--month=2022-01", "--max-requests=5", "--out=-"), "not with -o -"),
    ],
)
def test_what_can_t_go_together_is_refused(
    options: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert pull(*options) == 2
    assert said in " ".join(capfd.readouterr().err.split())
    assert [*Path().iterdir()] == []


def test_a_plan_of_shards_is_of_one_range(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["shards", "plan", "--month=2022-01", "--month=2022-03", "--out=a/"]) == 2
    assert "make a plan for each month" in " ".join(capfd.readouterr().err.split())
