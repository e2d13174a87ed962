"""Rows never mix if a resume or a retry has other options or engine names.

The session `readings` has retries, and the nights of a database.
"""

from pathlib import Path
from typing import Any

import pytest

from seorep_async import ConfigurationError, Feed, PullPausedError, SeoRepClient
from seorep_async.export import PullSummary
from seorep_async.settings import EngineNames, FeedSearchParam
from tests.export.accounts import Account
from tests.export.golden_nights import pull
from tests.history.databases import ask
from tests.scripted_api import quick_client

PLAIN: dict[str, Any] = {}
GOOGLE = {"engine_names": EngineNames(engine_a="goo")}
BY_FILTER = {"feed_search_param": FeedSearchParam.FILTER}


async def pull_with(
    settings: dict[str, Any], client: SeoRepClient, out: Path, **options: Any
) -> PullSummary:
    """Pull from the address of a client under other settings."""
    async with quick_client(client.base_url, **settings) as other:
        return await pull(other, out, **options)


async def pull_until_paused(client: SeoRepClient, out: Path, **options: Any) -> None:
    with pytest.raises(PullPausedError):
        await pull(client, out, max_requests=2, **options)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "x.csv"


@pytest.mark.parametrize(
    ("options", "settings", "words"),
    [
        ({}, GOOGLE, "engine names engineA, engineB, wmt, not goo, engineB, wmt"),
        ({"sort_metric": "rank"}, PLAIN, "different sort_metric=…"),
        ({"extra_params": {"device": "mobile"}}, PLAIN, "different extra_params=…"),
        ({"compare_previous_period": True}, PLAIN, "different compare_previous_period=…"),
        ({"search": "boots"}, PLAIN, "different search=…"),
        ({"search": "shoes"}, BY_FILTER, "feed search param both, not filter"),
    ],
)
async def test_a_pull_with_other_row_options_does_not_resume(
    client: SeoRepClient, out: Path, options: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    search: dict[str, Any] = {"search": "shoes"} if "search" in options else {}
    await pull_until_paused(client, out, **search)
    with pytest.raises(ConfigurationError, match=f"is staged for this target, with {words}"):
        await pull_with(settings, client, out, **options)


async def test_options_that_change_no_row_resume(client: SeoRepClient, out: Path) -> None:
    await pull_until_paused(client, out)
    options: dict[str, Any] = {"extra_params": {}, "sort_metric": None, "limit": 500}
    assert (await pull_with(BY_FILTER, client, out, **options)).resumed == 1


async def test_a_set_of_values_has_no_order(client: SeoRepClient, out: Path) -> None:
    names = [str(number) for number in range(99)]
    await pull_until_paused(client, out, extra_params={"device": {*names}})
    # names with equal hashes stand in the order of their insertion
    other_order = {*reversed(names)}
    assert (await pull(client, out, extra_params={"device": other_order})).resumed == 1


async def test_a_failed_keyword_loses_only_its_own_rows(
    client: SeoRepClient, account: Account, tmp_path: Path
) -> None:
    out = tmp_path / "x.duckdb"
    await pull(client, out, feeds=Feed.KEYWORD_BY_DATE)
    for failing, left in ((20, [(1,)]), (10, [(1,), (2,)])):
        # Campaign 1 fails with the row options that its rows have.
        account.hidden = {failing: 500}
        await pull_with(GOOGLE, client, out, feeds=Feed.KEYWORD_BY_DATE)
        query = "SELECT DISTINCT campaign_id FROM keyword_periods ORDER BY 1"
        assert ask(out, query) == left


@pytest.mark.parametrize(
    ("earlier", "last", "left"),
    [
        # campaign 2 was excluded
        ([({}, PLAIN), ({"exclude": [2]}, GOOGLE)], {}, [(1,), (2,)]),
        ([({}, PLAIN), ({"exclude": [22]}, GOOGLE)], {}, [(1,)]),
        # a pull of other campaigns, with the same options, replaced its rows
        ([({}, GOOGLE), ({"exclude": [22]}, PLAIN)], {"exclude": [23]}, [(1,), (2,)]),
        ([({}, GOOGLE), ({"ids": [2]}, PLAIN)], {}, [(1,), (2,)]),
        ([({}, GOOGLE), ({"ids": [1]}, PLAIN)], {}, [(1,)]),
    ],
)
async def test_a_failed_campaign_keeps_rows_of_the_same_options(
    client: SeoRepClient,
    account: Account,
    tmp_path: Path,
    earlier: list[tuple[dict[str, Any], dict[str, Any]]],
    last: dict[str, Any],
    left: list[tuple[int]],
) -> None:
    out = tmp_path / "x.duckdb"
    for options, settings in earlier:
        await pull_with(settings, client, out, **options)
    account.hidden = {2: 500}
    await pull(client, out, **last)
    query = "SELECT DISTINCT campaign_id FROM keyword_rankings ORDER BY 1"
    assert ask(out, query) == left
