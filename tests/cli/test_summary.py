"""The summary of a pull, as a person and as a program reads it, however it ends."""

import datetime as dt
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from seorep_async.cli.terminal import as_json

from seorep_async import Feed, NotFoundError, SeoRepError, ServerError, Stats
from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.summary import show_failures, show_summary, summary_facts
from seorep_async.export import CampaignOutcome, PullFailure, PullSummary
from tests.cli.running import Seorep


def shown(*, columns: int = 1000, retries: int = 0, night: dt.date | None = None, **values: Any) -> list[str]:
    text, stats = io.StringIO(), Stats(9, 9, {"throttle": retries}, 2, 0, 0, 16, None, {})
    console, found = Console(file=text, width=columns), summary(stats=stats, **values)
    show_failures(console, found)
    show_summary(console, found, "somewhere", night=night)
    return text.getvalue().splitlines()


EFFORT = ("retries", "refusals", "waited")


def summary(*, failures: tuple[PullFailure, ...] = (), rows: int = 0, **values: Any) -> PullSummary:
    outcomes = tuple(
        CampaignOutcome(
            campaign_id,
            {Feed.KEYWORD_BY_DATE: rows} if campaign_id == 1 else {},
            tuple(failure for failure in failures if failure.campaign_id == campaign_id),
        )
        for campaign_id in (1, 2, 3)
    )
    facts: dict[str, Any] = {
        "feeds": (Feed.KEYWORD_BY_DATE,),
        "start_date": dt.date(2023, 1, 1),
        "end_date": dt.date(2023, 3, 31),
        "account": "acme",
        "snapshot_date": dt.date(2023, 4, 2),
        "compared": False,
        "paths": (),
        "outcomes": outcomes,
        "resumed": 0,
        "requests": 1,
        "seconds": 1.0,
        "started_at": dt.datetime(2023, 4, 2, 3, 0, 1),
    }
    return PullSummary(**(facts | values))


def failure(
    campaign_id: int, keyword_id: int | None = None, error: SeoRepError | None = None, feed: Feed = Feed.KEYWORD_BY_DATE
) -> PullFailure:
    found = error or NotFoundError("there is no such object", status=404)
    return PullFailure(feed, campaign_id, keyword_id, found)


GONE = "there is no such object (status 404)"


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        (
            (failure(1, 10), failure(1, 11), failure(1, 12, ServerError("it failed")), failure(2, 20)),
            [
                f"  campaign 1, keywords 10, 11: {GONE}",
                "  campaign 1, keyword 12: it failed",
                f"  campaign 2, keyword 20: {GONE}",
            ],
        ),
        # without its attempts
        (
            [failure(1, number, ServerError("it failed", status=500, attempts=number)) for number in (8, 9)],
            ["  campaign 1, keywords 8, 9: it failed (status 500)"],
        ),
        (
            [failure(1, number) for number in range(1, 31)],
            [f"  campaign 1, keywords {', '.join(map(str, range(1, 21)))} and 10 more: {GONE}"],
        ),
    ],
)
def test_failures_are_listed_by_campaign_and_reason(failures: Sequence[PullFailure], said: list[str]) -> None:
    assert shown(failures=tuple(failures))[: len(said) + 2] == ["Failed", *said, ""]


def test_a_long_reason_is_indented() -> None:
    failures = (failure(1, error=ServerError(f"the service{' really' * 20} failed", status=500)),)
    assert shown(failures=failures, columns=60)[:6] == [
        "Failed",
        "  campaign 1: the service really really really really really",
        "    really really really really really really really really",
        "    really really really really really really really failed",
        "    (status 500)",
        "",
    ]


def test_the_next_step_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.touch()
    said = shown(failures=(failure(2, 20),), paths=(path,), columns=80)
    assert said[-1] == "Repeat the command with --retry-failed to fetch only what failed."


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"failures": (failure(1, 10), failure(2))}, "  Campaigns  1 of 3 complete, 2 incomplete"),
        ({"seconds": 0.04}, "  Time       0.0 s"),
        ({"seconds": 59.94}, "  Time       59.9 s"),
        ({"seconds": 61.2}, "  Time       1 min 01 s"),
        ({"seconds": 7384}, "  Time       2 h 03 min 04 s"),
        ({"resumed": 1}, "  Resumed    1 report was stored already"),
        ({"resumed": 1234}, "  Resumed    1,234 reports were stored already"),
        ({"leftover": Path(".a.csv.pull")}, "  Leftover   .a.csv.pull could not be removed; please remove it"),
        ({"requests": 9, "retries": 1}, "  Requests   9, 1 of them a retry"),
        ({"requests": 9, "retries": 2}, "  Requests   9, 2 of them retries"),
        ({"feeds": (Feed.CAMPAIGN, Feed.KEYWORD_BY_DATE)}, "  Rows       0 (campaign 0, keyword-by-date 0)"),
        ({}, "  Account    acme, snapshot of 2023-04-02"),
    ],
)
def test_a_fact_has_its_line(values: dict[str, Any], said: str) -> None:
    assert said in shown(**values)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "0 bytes"), (999, "999 bytes"), (1200, "1.2 kB"), (45_600, "46 kB"), (2_345_678, "2.3 MB")],
)
def test_a_size_is_shown_in(tmp_path: Path, size: int, expected: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * size)
    assert shown(paths=(path,))[-1] == f"  File       {path} ({expected})"


def test_a_pull_that_has_an_earlier_night_says_so() -> None:
    said = shown(night=dt.date(2023, 4, 3))[-1]
    assert said.startswith("This finished the pull of 2023-04-02; its rows have that snapshot date.")
    assert said.endswith("To pull 2023-04-03, run the command once more.")
    assert shown(night=dt.date(2023, 4, 2)) == shown()


def test_as_json_a_program_reads_retries_refusals_and_waits() -> None:
    assert [json.loads(as_json(summary_facts(summary(), ExitCode.OK)))[name] for name in EFFORT] == [None, None, None]
    stats = Stats(9, 9, {"throttle": 2}, 2, 0, 0, 16, None, {"asked to wait": 1.23456})
    said = json.loads(as_json(summary_facts(summary(stats=stats), ExitCode.OK)))
    assert [said[name] for name in EFFORT] == [{"throttle": 2}, 2, {"asked to wait": 1.235}]
    assert said["started_at"] == "2023-04-02T03:00:01"


def test_a_summary_is_one_line_in_a_repl() -> None:
    shown = repr(summary(rows=5, failures=(failure(2, 20), failure(2, 21))))
    assert shown == "<PullSummary of acme, 2023-04-02: 3 campaigns, 5 rows, 2 reports failed, in 1 s>"


def test_a_path_that_fills_lines_gets_no_space() -> None:
    path = f"/{'nights/' * 20}a.duckdb"
    failures = (failure(1, error=ServerError(f"can't read {path}: it is gone", status=500)),)
    found = shown(failures=failures, columns=40)
    assert [len(line) for line in found[2:6]] == [40] * 4
    assert f"{path}:" in "".join(line.strip() for line in found[2:])


def test_a_summary_is_a_table_in_a_notebook_failures_first() -> None:
    shown = summary(rows=5, failures=(failure(2, 20),))._repr_html_()
    assert "PullSummary of acme, 2023-04-02: 3 campaigns, 5 rows" in shown
    assert re.findall(r"<td[^>]*>(\d+)</td>", shown) == ["2", "0", "1", "5", "3", "0"]
    assert "there is no such object" in shown


# --- One object of JSON on stdout


PULL = ("pull", "--json", "--from", "2023-01-01", "--to", "2023-01-31")


def test_a_disk_that_is_full_is_told(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seorep_async.export.targets.files.write_table", full)
    found = json.loads(seorep(*PULL, "--sandbox", "-o", "a.parquet").out)
    assert (found["ok"], found["exit_code"], found["error_type"]) == (False, 7, "ExportError")


def test_an_unexpected_error_is_told_once(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("hm")

    monkeypatch.setattr("seorep_async.cli.summary.show_summary", broken)  # after the summary was printed
    ended = seorep(*PULL, "--sandbox", "-o", "a.csv")
    assert (ended.code, json.loads(ended.out)["exit_code"]) == (1, 0)
