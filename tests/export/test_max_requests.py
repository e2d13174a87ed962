"""How many requests a pull sends: estimated before it runs, and limited, so that it pauses and goes on."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from seorep_async import AuthenticationError, ConfigurationError, Feed, PullPausedError, SeoRepClient
from seorep_async.sandbox import Sandbox
from tests.export.door import PullPreview, PullSpec, preview, target_of
from tests.export.reports import END, FORMATS, START, Fail, account, pull_into


async def previewed(client: SeoRepClient, feeds: Any = Feed.CAMPAIGN, out: Path | None = None) -> PullPreview:
    spec = PullSpec.of(client, None, START, END, feeds, {})
    target = None if out is None else target_of(out, spec.feeds)
    return await preview(client, spec, target, retry_failed=True)


@pytest.mark.parametrize("status", [404, 422, 501])
async def test_it_is_estimated_from_the_first_campaign_that_answers(status: int) -> None:
    async with account(failing={1: status}) as (_, client):
        found = await previewed(client)
    assert (found.sampled, found.skipped, found.requests) == (2, (1,), 1 + 4 * 2)


@pytest.mark.parametrize("feed", Feed)
async def test_if_none_answers_each_report_counts_as_one_page(feed: Feed) -> None:
    async with account(failing=dict.fromkeys(range(1, 5), 404)) as (_, client):
        found = await previewed(client, feed)
    assert (found.sampled, found.skipped, found.requests) == (None, (1, 2, 3), 1 + 4)


async def test_a_refused_key_is_an_error_all_the_same() -> None:
    async with account(failing={1: 403}) as (_, client):
        with pytest.raises(AuthenticationError):
            await previewed(client)


async def test_it_is_estimated_from_missing_reports_only(tmp_path: Path, fail: Fail) -> None:
    async with account() as (_, client):
        fail(3)
        await pull_into(client, tmp_path / "a.csv")
        fail()
        found = await previewed(client, out=tmp_path / "a.csv")
    assert (found.sampled, found.requests) == (3, 2)


@pytest.mark.parametrize("out", ["a.duckdb", "a/"])
async def test_what_the_pull_would_refuse_a_preview_refuses(tmp_path: Path, out: str) -> None:
    async with account(campaigns=1) as (sandbox, client):
        spec = PullSpec.of(client, None, START, END, Feed.CAMPAIGN, {"search": "shoes"})
        with pytest.raises(ConfigurationError, match="search narrows the rows"):
            await preview(client, spec, target_of(f"{tmp_path}/{out}", spec.feeds))
        assert sandbox.stats.requests == 0


async def test_where_nothing_is_missing_nothing_is_asked(tmp_path: Path) -> None:
    async with account(campaigns=0) as (sandbox, client):
        found = await previewed(client)
        assert (found.sampled, found.skipped, found.requests) == (None, (), sandbox.stats.requests)


# --- A limit


async def pull(client: Any, out: Path, **how: Any) -> Any:
    return await pull_into(client, out, feeds=list(Feed), **how)


@pytest.mark.parametrize("ending", FORMATS)
async def test_paused_pulls_end_as_one_that_was_not(tmp_path: Path, ending: str) -> None:
    async with account(campaigns=7, keywords=3) as (_, client):
        whole = await pull(client, tmp_path / f"whole.{ending}")
        out, runs, summary = tmp_path / f"parts.{ending}", 0, None
        while summary is None:
            runs += 1
            try:
                summary = await pull(client, out, max_requests=10)
            except PullPausedError:
                assert not out.exists()
    assert runs >= 3
    assert (summary.rows, summary.ok, summary.resumed > 0) == (whole.rows, True, True)


@pytest.mark.parametrize("limit", [1, 5, 12])
async def test_reports_of_one_page_keep_to_the_limit(tmp_path: Path, limit: int) -> None:
    async with account(campaigns=20, keywords=3) as (sandbox, client):
        with pytest.raises(PullPausedError, match="run the same pull again"):
            await pull_into(client, tmp_path / "a.csv", max_requests=limit)
        assert sandbox.stats.requests <= limit + (limit == 1)  # the list of campaigns is always read


async def test_a_limit_that_suffices_changes_nothing(tmp_path: Path) -> None:
    async with account(campaigns=4, keywords=3) as (_, client):
        summary = await pull_into(client, tmp_path / "a.csv", max_requests=100)
    assert (summary.ok, summary.rows) == (True, 12)


async def test_a_refused_key_is_no_pause(tmp_path: Path) -> None:
    async with account() as (sandbox, _), SeoRepClient(sandbox.base_url, "another-key") as client:
        with pytest.raises(AuthenticationError):
            await pull_into(client, tmp_path / "a.csv", [1, 2, 3], max_requests=1)


async def test_a_pause_tells_how_many_reports_failed(tmp_path: Path) -> None:
    async with (
        Sandbox(campaigns=6, keywords=2, forbidden=[1, 2]) as sandbox,
        SeoRepClient(sandbox.base_url, sandbox.api_key) as client,
    ):
        with pytest.raises(PullPausedError, match=r"failed reports \(2\) are tried again last"):
            await pull_into(client, tmp_path / "a.csv", max_requests=3)
        summary = await pull_into(client, tmp_path / "a.csv", max_requests=10)
    assert [failure.campaign_id for failure in summary.failures] == [1, 2]


async def test_keywords_are_found_over_several_runs(tmp_path: Path) -> None:
    feeds = [Feed.KEYWORD_BY_DATE]
    async with account(campaigns=6, keywords=2) as (_, client):
        whole = await pull_into(client, tmp_path / "whole.csv", feeds=feeds)
        summary = None
        for _ in range(9):
            with contextlib.suppress(PullPausedError):
                summary = await pull_into(client, tmp_path / "a.csv", feeds=feeds, max_requests=4)
    assert summary is not None
    assert (summary.rows, summary.ok) == (whole.rows, True)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


async def test_a_pull_that_does_not_run_is_not_finished() -> None:
    async with account() as (_, client):
        with pytest.raises(ConfigurationError, match="has ended or was not started"):
            client.rankings.pull([1], START, END).finish()
