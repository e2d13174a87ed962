"""The campaigns and reports from which a preview is estimated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seorep_async import AuthenticationError, ConfigurationError, Feed, SeoRepClient
from seorep_async.export import pull_to
from tests.export.door import PullPreview, PullSpec, preview, target_of
from tests.export.reports import END, START, account


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


async def test_it_is_estimated_from_missing_reports_only(tmp_path: Path) -> None:
    async with account(failing={3: 404}) as (sandbox, client):
        port = int(sandbox.base_url.rpartition(":")[2])
        await pull_to(client, None, START, END, out=tmp_path / "a.csv")
    async with account(port=port) as (_, client):
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
