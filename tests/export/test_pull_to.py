"""Many campaigns to a target, from Python."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from seorep_async import AuthenticationError, Feed, NotFoundError, PaginationError
from seorep_async.export import PullProgress, Stage, pull_to
from seorep_async.tables.declared import table_of
from seorep_async.tables.text import csv_header
from tests.export.door import Checkpoint, StagingArea
from tests.export.made_service import made
from tests.export.reports import END, FORMATS, START, account, names_in, pull_into, refuse_to_encode, rows_in
from tests.scripted_api import FEED, LIST, Asked, Script, serving


@pytest.mark.parametrize(
    ("feed", "rows"), [(Feed.CAMPAIGN, 4 * 6), (Feed.CAMPAIGN_BY_DATE, 4 * 3), (Feed.KEYWORD_BY_DATE, 4 * 6 * 3)]
)
async def test_every_row_of_every_campaign_comes_once(tmp_path: Path, feed: Feed, rows: int) -> None:
    async with account(keywords=6) as (_, client):
        summary = await pull_into(client, tmp_path / "a.csv", feeds=feed)
    found = rows_in(tmp_path / "a.csv")
    assert len({tuple(row.values()) for row in found}) == len(found) == summary.rows == rows


def periods(*dates: str) -> Script:
    """Answer with rows of these dates, two on a page."""
    rows = [{"date": date, "competitors": number} for number, date in enumerate(dates)]
    sums = {"total_pages": len(rows) // 2, "total_records": len(rows)}
    return lambda asked: {"metadata": sums, "data": {"rows": rows[2 * asked.page - 2 : 2 * asked.page]}}


@pytest.mark.parametrize("ending", FORMATS)
async def test_a_month_and_its_first_day_are_two_rows(tmp_path: Path, ending: str) -> None:
    feeds, out = Feed.CAMPAIGN_BY_DATE, tmp_path / f"a.{ending}"
    async with serving(periods("2022-08", "2022-08-01", "2022-09-01", "2022-09")) as (client, _):
        for _ in range(2):
            summary = await pull_to(client, [7], "2022-08-01", "2022-09-30", out=out, feeds=feeds, restart=True)
            assert (summary.failures, summary.rows) == ((), 4)
        report = await client.rankings.keyword_by_date(7, "2022-08-01", "2022-09-30")
    assert [row.date_precision for row in report.rows] == ["month", "day", "day", "month"]
    if ending == "duckdb":
        with duckdb.connect(str(out), read_only=True) as database:
            assert database.sql("SELECT count(*) FROM campaign_periods").fetchall() == [(4,)]


@pytest.mark.parametrize(
    ("dates", "said"),
    [
        (("2022-08", "2022-09-01", "2022-08-01", "2022-08"), "page 2 repeats 2022-08-01 month of page 1"),
        (("2022-08-01", "2022-08-01"), "page 1 holds 2022-08-01 day more than once"),
    ],
)
async def test_a_period_that_comes_twice_is_refused(dates: tuple[str, ...], said: str) -> None:
    async with serving(periods(*dates)) as (client, _):
        with pytest.raises(PaginationError, match=said):
            await client.rankings.campaign_by_date(7, "2022-08-01", "2022-09-30")


@pytest.mark.parametrize("feeds", ["campaign-by-date", ["campaign-by-date"], (Feed.CAMPAIGN_BY_DATE,)])
async def test_feeds_may_be_named_by_their_values(tmp_path: Path, feeds: Any) -> None:
    async with account(campaigns=1) as (_, client):
        summary = await pull_into(client, tmp_path / "a.csv", feeds=feeds)
    assert summary.feeds == (Feed.CAMPAIGN_BY_DATE,)


async def test_a_search_may_go_into_a_file(tmp_path: Path) -> None:
    async with account(campaigns=1, keywords=2) as (_, client):
        assert (await pull_into(client, tmp_path / "a.csv", search="shoes")).ok


async def test_the_summary_tells_what_came(tmp_path: Path) -> None:
    async with account() as (sandbox, client):
        summary = await pull_to(client, None, "2023-01-01", "2023-03-31", out=tmp_path / "a.csv")
        assert summary.requests == sandbox.stats.requests == 1 + 4 * 2
    assert (summary.feeds, summary.start_date, summary.end_date) == ((Feed.CAMPAIGN,), START, END)
    assert (summary.paths[0], summary.campaigns, summary.campaigns_complete) == (tmp_path / "a.csv", 4, 4)
    assert (summary.rows, summary.failures, summary.ok, summary.resumed) == (120, (), True, 0)
    assert [(one.campaign_id, one.rows[Feed.CAMPAIGN]) for one in summary.outcomes] == [(n, 30) for n in (1, 2, 3, 4)]
    assert summary.seconds > 0
    assert names_in(tmp_path) == ["a.csv"]


async def test_rows_stand_in_the_order_of_the_ids_each_once(tmp_path: Path) -> None:
    async with account() as (_, client):
        summary = await pull_into(client, tmp_path / "a.csv", [3, 1, 3, 2])
    found = [row["campaign_id"] for row in rows_in(tmp_path / "a.csv")]
    assert list(dict.fromkeys(found)) == ["3", "1", "2"]
    assert (len(found), summary.campaigns) == (90, 3)


@pytest.mark.parametrize("feed", Feed)
async def test_concurrency_and_wire_format_change_no_byte(tmp_path: Path, feed: Feed) -> None:
    mixed: dict[str, Any] = {"keywords": 6, "shape": "mixed", "rows": "mixed"}
    ways = [mixed | {"max_concurrency": 1}, mixed, mixed | {"shape": "nested"}, mixed | {"shape": "flat"}]
    for number, way in enumerate(ways):
        async with account(**way) as (_, client):
            await pull_into(client, tmp_path / f"{number}.csv", feeds=feed)
    assert len({(tmp_path / f"{number}.csv").read_bytes() for number in range(len(ways))}) == 1


async def test_several_feeds_make_several_files(tmp_path: Path) -> None:
    async with account(keywords=6) as (sandbox, client):
        summary = await pull_into(client, tmp_path / "a.csv", feeds=Feed)
        # the keywords are found in the campaign feed, which is not asked for twice
        assert sandbox.stats.requests == 1 + 4 + 4 + 4 * 6
    names = [f"a.{name}.csv" for name in ("campaign_periods", "keyword_periods", "keyword_rankings", "totals")]
    assert names_in(tmp_path) == names
    assert [Path(path).name for path in summary.paths] == [
        *(f"a.{table}.csv" for table in ("keyword_rankings", "campaign_periods", "keyword_periods", "totals")),
        *(f"a.{table}.csv" for table in ("campaigns", "keywords", "pulls")),
    ]
    assert {feed: summary.rows_of(feed) for feed in Feed} == dict(zip(Feed, (24, 12, 72), strict=True))


@pytest.mark.parametrize("feed", Feed)
async def test_several_feeds_give_the_same_bytes_as_each_alone(tmp_path: Path, feed: Feed) -> None:
    async with account(keywords=6) as (_, client):
        await pull_into(client, tmp_path / "a.jsonl", feeds=Feed)
        await pull_into(client, tmp_path / "b.jsonl", feeds=[feed])
    assert (tmp_path / f"a.{table_of(feed).name}.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


@pytest.mark.parametrize("feed", Feed)
async def test_failed_campaigns_do_not_lose_the_others(tmp_path: Path, feed: Feed) -> None:
    async with account(keywords=6) as (_, client):
        await pull_into(client, tmp_path / "whole.csv", [1, 3], feeds=feed)
    async with account(keywords=6, failing={2: 404, 4: 422}) as (_, client):
        summary = await pull_into(client, tmp_path / "a.csv", feeds=feed)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert [(failure.feed, failure.campaign_id, failure.keyword_id) for failure in summary.failures] == [
        (feed, 2, None),
        (feed, 4, None),
    ]
    assert [failure.error.status for failure in summary.failures] == [404, 422]
    assert (summary.ok, summary.campaigns, summary.campaigns_complete) == (False, 4, 2)


async def test_a_campaign_that_is_gone_leaves_the_others_named(tmp_path: Path) -> None:
    async with account(campaigns=20, default_limit=5) as (_, client):  # four pages, so campaigns are asked for by id
        await pull_into(client, tmp_path / "a.csv", [1, 999, 3])
    assert [row["campaign_id"] for row in rows_in(tmp_path / "a.campaigns.csv")] == ["1", "3"]


async def test_without_failures_the_file_of_failures_is_deleted(tmp_path: Path) -> None:
    target, failures = tmp_path / "a.csv", tmp_path / "a.failures.csv"
    async with account(failing={2: 404}) as (_, client):
        summary = await pull_into(client, target)
    assert failures in summary.paths
    (row,) = rows_in(failures)
    assert (row["table_name"], row["campaign_id"]) == ("keyword_rankings", "2")
    assert (row["error"], row["status"]) == ("NotFoundError", "404")
    async with account() as (_, client):
        await pull_into(client, target)
    assert names_in(tmp_path) == ["a.csv"]


async def test_keywords_whose_campaign_failed_are_reported_as_missing(tmp_path: Path) -> None:
    feeds = (Feed.CAMPAIGN, Feed.KEYWORD_BY_DATE)
    async with account(campaigns=2, keywords=3, failing={2: 404}) as (_, client):
        summary = await pull_into(client, tmp_path / "a.csv", feeds=feeds)
    assert [(failure.feed, failure.campaign_id) for failure in summary.failures] == [(feed, 2) for feed in feeds]


SHARED = {1: [10, 11], 2: [11, 12]}
"""Campaigns with a keyword in common, which the sandbox has not."""


async def test_a_keyword_that_fails_is_reported_with_its_campaign(tmp_path: Path) -> None:
    async with made(SHARED, gone={12}) as (_, client):
        summary = await pull_into(client, tmp_path / "a.csv", [1, 2], feeds=Feed.KEYWORD_BY_DATE)
    (failure,) = summary.failures
    assert (failure.campaign_id, failure.keyword_id, type(failure.error)) == (2, 12, NotFoundError)
    assert summary.campaigns_complete == 1


async def test_a_keyword_of_two_campaigns_has_its_rows_in_both(tmp_path: Path) -> None:
    async with made(SHARED, gone={12}) as (_, client):
        await pull_into(client, tmp_path / "a.csv", [1, 2], feeds=Feed.KEYWORD_BY_DATE)
        assert client.stats.attempts == 2 + 3 + 1  # the last for the campaigns' names
    found = [(row["campaign_id"], row["keyword_id"]) for row in rows_in(tmp_path / "a.csv")]
    assert found == [("1", "10"), ("1", "11"), ("2", "11")]


@pytest.mark.parametrize("feed", Feed)
async def test_if_every_campaign_fails_the_old_file_stays(tmp_path: Path, feed: Feed) -> None:
    target = tmp_path / "a.csv"
    old = csv_header(table_of(feed))
    target.write_bytes(old)
    async with account(campaigns=2, failing={1: 404, 2: 404}) as (_, client):
        summary = await pull_into(client, target, feeds=feed)
    assert (summary.paths, summary.rows, len(summary.failures)) == ((), 0, 2)
    assert target.read_bytes() == old
    assert names_in(tmp_path) == [".a.csv.pull", "a.csv"]


async def test_an_account_without_campaigns_gives_the_header(tmp_path: Path) -> None:
    async with account(campaigns=0) as (_, client):
        summary = await pull_into(client, tmp_path / "a.csv")
    assert summary.ok
    assert (tmp_path / "a.csv").read_text().count("\n") == 1


async def test_a_forbidden_campaign_fails_alone(tmp_path: Path) -> None:
    async with account(forbidden=[1]) as (_, client):
        summary = await pull_into(client, tmp_path / "a.csv", [1, 2])
    (failure,) = summary.failures
    assert isinstance(failure.error, AuthenticationError)
    assert (failure.campaign_id, summary.rows) == (1, 30)


async def test_a_wrong_key_leaves_nothing(tmp_path: Path) -> None:
    async with account(api_key="wrong") as (_, client):
        for ids in (None, [1, 2]):
            with pytest.raises(AuthenticationError):
                await pull_into(client, tmp_path / "a.csv", ids)
    assert names_in(tmp_path) == []


async def test_a_list_that_changes_as_it_is_read_is_read_again(tmp_path: Path) -> None:
    present = [1, 2, 3, 4]

    def script(asked: Asked) -> object:
        if asked.path != "/v3/campaigns":
            return FEED.envelope([1], 1, 1)
        if asked.page == 2 and 1 in present:
            present.remove(1)
        return LIST.envelope(present[2 * asked.page - 2 : 2 * asked.page], 2, len(present))

    async with serving(script) as (client, _):
        summary = await pull_into(client, tmp_path / "a.csv")
    assert [outcome.campaign_id for outcome in summary.outcomes] == [2, 3, 4]


async def test_ids_may_be_integers_of_numpy(tmp_path: Path) -> None:
    async with account() as (_, client):
        summary = await pull_into(client, tmp_path / "a.csv", np.array([2, 1, 2]))
    assert [outcome.campaign_id for outcome in summary.outcomes] == [2, 1]
    assert summary.rows == 60


async def test_progress_counts_up_to_everything(tmp_path: Path) -> None:
    reported: list[PullProgress] = []
    async with account(campaigns=3, failing={2: 404}) as (_, client):
        await pull_into(client, tmp_path / "a.csv", on_progress=reported.append)
    assert list(dict.fromkeys(one.stage for one in reported)) == [Stage.LISTING, Stage.ROWS, Stage.WRITING]
    last = [one for one in reported if one.stage is Stage.ROWS][-1]
    assert (last.done, last.total, last.rows, last.failures, last.resumed) == (3, 3, 60, 1, 0)


async def test_progress_counts_campaigns_and_then_keywords(tmp_path: Path) -> None:
    reported: list[PullProgress] = []
    async with account(campaigns=2, keywords=3) as (_, client):
        await pull_into(client, tmp_path / "a.csv", [1, 2], feeds=Feed.KEYWORD_BY_DATE, on_progress=reported.append)
    last = {one.stage: (one.done, one.total, one.rows) for one in reported}
    assert last[Stage.KEYWORDS] == (2, 2, 0)
    assert last[Stage.ROWS] == (6, 6, 18)


@pytest.mark.parametrize("ending", FORMATS)
async def test_a_value_no_format_can_hold_fails_its_report_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    refuse_to_encode(monkeypatch, 2, ValueError("no text"))
    async with account() as (_, client):
        summary = await pull_into(client, tmp_path / f"a.{ending}")
    (failure,) = summary.failures
    assert (failure.campaign_id, summary.rows) == (2, 90)
    assert failure.error.message == f"a value can't be written to .{ending}: no text"


@pytest.mark.parametrize("step", [(StagingArea, "open"), (Checkpoint, "add")], ids=["open", "add"])
async def test_cancelling_it_does_not_hold_the_loop_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[type, str]
) -> None:
    begun, resumes = threading.Event(), threading.Event()
    run, resumed = getattr(*step), list[bool]()

    def slowly(*args: Any, **options: Any) -> Any:
        begun.set()
        resumed.append(resumes.wait(60))
        return run(*args, **options)

    monkeypatch.setattr(*step, slowly)
    async with account() as (_, client):
        pull = asyncio.create_task(pull_into(client, tmp_path / "a.csv"))
        await asyncio.to_thread(begun.wait)
        pull.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        resumes.set()
        with pytest.raises(asyncio.CancelledError):
            await pull
    assert resumed == [True]
