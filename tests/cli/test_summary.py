"""The summary of a pull, as a person reads it."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from seorep_async import Feed, NotFoundError, SeoRepError, ServerError, Stats
from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.summary import show_summary, summary_as_json
from seorep_async.export import CampaignOutcome, PullFailure, PullSummary


def shown(*, columns: int = 1000, retries: int = 0, night: dt.date | None = None, **values: Any) -> list[str]:
    text = io.StringIO()
    show_summary(Console(file=text, width=columns), summary(**values), "somewhere", retries=retries, night=night)
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


def test_keywords_that_fail_are_listed_by_campaign_and_reason() -> None:
    failures = (failure(1, 10), failure(1, 11), failure(1, 12, ServerError("it failed")), failure(2, 20))
    assert shown(failures=failures)[:4] == [
        "Failed",
        "  campaign 1, keywords 10, 11: there is no such object (status 404)",
        "  campaign 1, keyword 12: it failed",
        "  campaign 2, keyword 20: there is no such object (status 404)",
    ]


def test_a_failure_is_reported_without_its_attempts() -> None:
    failures = tuple(failure(1, number, ServerError("it failed", status=500, attempts=number)) for number in (8, 9))
    assert shown(failures=failures)[1] == "  campaign 1, keywords 8, 9: it failed (status 500)"


def test_a_long_reason_is_indented() -> None:
    failures = (failure(1, error=ServerError(f"the service{' really' * 8} failed", status=500)),)
    assert shown(failures=failures, columns=60)[:4] == [
        "Failed",
        "  campaign 1: the service really really really really really",
        "    really really really failed (status 500)",
        "",
    ]


def test_the_next_step_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.touch()
    said = shown(failures=(failure(2, 20),), paths=(path,), columns=80)
    assert said[-1] == "Repeat the command with --retry-failed to fetch only what failed."


def test_campaigns_that_lack_keywords_are_incomplete() -> None:
    assert "  Campaigns  1 of 3 complete, 2 incomplete" in shown(failures=(failure(1, 10), failure(2)))


def test_without_a_file_it_says_so() -> None:
    said = shown(failures=(failure(1), failure(2), failure(3)))
    assert any(line.startswith("Pulled nothing of the keyword-by-date feed") for line in said)
    assert said[-1] == "  File       none written, as every campaign failed"


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (61.2, "1 min 01 s"), (7384, "2 h 03 min 04 s")]
)
def test_a_time_is_shown_in(seconds: float, expected: str) -> None:
    assert f"  Time       {expected}" in shown(seconds=seconds)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "0 bytes"), (999, "999 bytes"), (1200, "1.2 kB"), (45_600, "46 kB"), (2_345_678, "2.3 MB")],
)
def test_a_size_is_shown_in(tmp_path: Path, size: int, expected: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * size)
    assert shown(paths=(path,))[-1] == f"  File       {path} ({expected})"


def test_of_many_ids_the_first_are_listed() -> None:
    (said,) = (
        line for line in shown(failures=tuple(failure(1, number) for number in range(1, 31))) if "keywords" in line
    )
    assert "18, 19, 20 and 10 more: there is no such object" in said


def test_failures_of_several_feeds_name_the_feed() -> None:
    feeds = (Feed.CAMPAIGN, Feed.KEYWORD_BY_DATE)
    said = shown(feeds=feeds, failures=(failure(1, feed=Feed.CAMPAIGN), failure(1, 12)))
    assert said[1:3] == [
        "  campaign: campaign 1: there is no such object (status 404)",
        "  keyword-by-date: campaign 1, keyword 12: there is no such object (status 404)",
    ]
    assert "  Rows       0 (campaign 0, keyword-by-date 0)" in said


def test_account_and_night_are_named() -> None:
    assert "  Account    acme, snapshot of 2023-04-02" in shown()


def test_a_pull_that_has_an_earlier_night_says_so() -> None:
    said = shown(night=dt.date(2023, 4, 3))[-1]
    assert said.startswith("This finished the pull of 2023-04-02; its rows have that snapshot date.")
    assert said.endswith("To pull 2023-04-03, run the command once more.")
    assert shown(night=dt.date(2023, 4, 2)) == shown()


def test_resumed_reports_are_counted() -> None:
    assert "  Resumed    1,234 reports were stored already" in shown(resumed=1234)
    assert "  Resumed    1 report was stored already" in shown(resumed=1)


def test_work_that_could_not_be_removed_is_named() -> None:
    assert shown(leftover=Path(".a.csv.pull"))[-1] == "  Leftover   .a.csv.pull could not be removed; please remove it"


def test_retries_are_counted_among_the_requests() -> None:
    assert "  Requests   9" in shown(requests=9)
    assert "  Requests   9, 1 of them a retry" in shown(requests=9, retries=1)
    assert "  Requests   9, 2 of them retries" in shown(requests=9, retries=2)


def test_as_json_a_program_reads_the_same() -> None:
    said = json.loads(
        summary_as_json(summary(rows=5, failures=(failure(2, 20),), paths=(Path("a.csv"),)), ExitCode.PARTIAL)
    )
    assert (said["ok"], said["exit_code"], said["files"]) == (False, 4, ["a.csv"])
    assert said["leftover"] is None
    assert (said["campaigns"], said["campaigns_complete"], said["rows"]) == (3, 2, {"keyword-by-date": 5})
    assert said["failures"] == [
        {
            "feed": "keyword-by-date",
            "campaign_id": 2,
            "keyword_id": 20,
            "error": "NotFoundError",
            "message": "there is no such object",
            "status": 404,
            "attempts": 0,
        }
    ]


def test_as_json_a_program_reads_retries_refusals_and_waits() -> None:
    assert [json.loads(summary_as_json(summary(), ExitCode.OK))[name] for name in EFFORT] == [None, None, None]
    stats = Stats(9, 9, {"throttle": 2}, 2, 0, 0, 16, None, {"asked to wait": 1.23456})
    said = json.loads(summary_as_json(summary(stats=stats), ExitCode.OK))
    assert [said[name] for name in EFFORT] == [{"throttle": 2}, 2, {"asked to wait": 1.235}]
    assert said["started_at"] == "2023-04-02T03:00:01"


def test_a_summary_is_one_line_in_a_repl() -> None:
    shown = repr(summary(rows=5, failures=(failure(2, 20), failure(2, 21))))
    assert shown == "<PullSummary of acme, 2023-04-02: 3 campaigns, 5 rows, 2 reports failed, in 1 s>"


def test_a_summary_is_a_table_in_a_notebook_failures_first() -> None:
    shown = summary(rows=5, failures=(failure(2, 20),))._repr_html_()
    assert "PullSummary of acme, 2023-04-02: 3 campaigns, 5 rows" in shown
    assert re.findall(r"<td[^>]*>(\d+)</td>", shown) == ["2", "0", "1", "5", "3", "0"]
    assert "there is no such object" in shown
