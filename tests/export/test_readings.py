"""Rows never mix if a resume or a retry has other options or engine names."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from seorep_async import ConfigurationError, Feed, PullPausedError
from seorep_async.export import PullSummary, pull_to
from seorep_async.settings import EngineNames, FeedSearchParam
from tests.export.accounts import Account
from tests.export.golden_nights import FORMATS, read
from tests.history.databases import change, opened
from tests.scripted_api import Service, quick_client, serving

PLAIN: dict[str, Any] = {}
GOOGLE = {"engine_names": EngineNames(engine_a="goo")}
BY_FILTER = {"feed_search_param": FeedSearchParam.FILTER}
NIGHT = "2023-03-31"
START = "2023-03-01"
END = "2023-03-31"
OTHER_ROW_OPTIONS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, GOOGLE, "engine names engineA, engineB, wmt, not goo, engineB, wmt"),
    ({"sort_metric": "rank"}, PLAIN, "another sort_metric=…"),
    ({"extra_params": {"device": "mobile"}}, PLAIN, "another extra_params=…"),
    ({"compare_previous_period": True}, PLAIN, "another compare_previous_period=…"),
]
SEARCHES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"search": "boots"}, PLAIN, "another search=…"),
    ({"search": "shoes"}, BY_FILTER, "feed search param both, not filter"),
]


@attrs.define
class Served:
    """An account on a local port, and pulls from it into a file under any settings."""

    account: Account
    service: Service
    base_url: str
    out: Path

    async def pull(
        self, settings: dict[str, Any] = PLAIN, ids: Any = None, **options: Any
    ) -> PullSummary:
        usual: dict[str, Any] = {"account": "acme", "snapshot_date": NIGHT, "out": self.out}
        async with quick_client(self.base_url, **settings) as client:
            return await pull_to(client, ids, START, END, **usual | options)

    def campaigns_in(self, table: str) -> list[int]:
        query = f"SELECT DISTINCT campaign_id FROM {table} ORDER BY campaign_id"  # noqa: S608
        with opened(self.out) as database:
            return [campaign_id for (campaign_id,) in database.execute(query).fetchall()]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    account = Account()
    async with serving(account.answer) as (client, service):
        yield Served(account, service, client.base_url, tmp_path / "x.duckdb")


def refused(words: str) -> Any:
    return pytest.raises(ConfigurationError, match=words)


@pytest.mark.parametrize(("options", "settings", "words"), OTHER_ROW_OPTIONS + SEARCHES)
async def test_a_pull_with_other_row_options_does_not_resume(
    served: Served,
    tmp_path: Path,
    options: dict[str, Any],
    settings: dict[str, Any],
    words: str,
) -> None:
    served.out = tmp_path / "x.csv"
    search: dict[str, Any] = {"search": "shoes"} if "search" in options else {}
    with pytest.raises(PullPausedError):
        await served.pull(max_requests=2, **search)
    with refused(f"is staged for this target, with {words}"):
        await served.pull(settings, **options)


@pytest.mark.parametrize(
    ("format_", "reading"),
    [*((format_, 0) for format_ in FORMATS), *(("csv", number) for number in (1, 2, 3))],
)
async def test_a_pull_with_other_row_options_retries_nothing(
    served: Served, tmp_path: Path, format_: str, reading: int
) -> None:
    options, settings, words = OTHER_ROW_OPTIONS[reading]
    served.out = tmp_path / f"x.{format_}"
    served.account.hidden = {2: 500}
    await served.pull()
    before = read(served.out)
    served.account.hidden = {}
    served.service.requests.clear()
    with refused(f"made with {words}.*pass the options of that pull"):
        await served.pull(settings, retry_failed=True, **options)
    assert not served.service.requests
    assert read(served.out) == before
    assert (await served.pull(retry_failed=True)).ok


async def test_a_database_knows_the_row_options_of_each_night(served: Served) -> None:
    served.account.hidden = {2: 500}
    for night in (NIGHT, "2023-04-03"):
        await served.pull(snapshot_date=night)
    with refused("made with other options or engine names"):
        await served.pull(GOOGLE, retry_failed=True)


@pytest.mark.usefixtures("pulled")
async def test_an_older_pull_without_row_options_is_not_retried(served: Served) -> None:
    change(served.out, "UPDATE pulls SET reading = NULL")
    with refused("an older version.*leave out retry_failed=True to fetch"):
        await served.pull(retry_failed=True)
    assert (await served.pull()).ok


@pytest.mark.usefixtures("pulled")
async def test_a_new_night_with_other_row_options_is_warned_of(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    await served.pull(snapshot_date="2023-04-03", limit=500)
    assert "other options or engine names" not in caplog.text
    assert (await served.pull(GOOGLE, snapshot_date="2023-04-04")).ok
    assert "of 2023-04-03, had other options or engine names" in caplog.text


async def test_options_that_change_no_row_resume(served: Served, tmp_path: Path) -> None:
    served.out = tmp_path / "x.csv"
    with pytest.raises(PullPausedError):
        await served.pull(max_requests=2)
    options: dict[str, Any] = {"extra_params": {}, "sort_metric": None, "limit": 500}
    assert (await served.pull(BY_FILTER, **options)).resumed == 1


async def test_a_set_of_values_has_no_order(served: Served, tmp_path: Path) -> None:
    served.out = tmp_path / "x.csv"
    names = [str(number) for number in range(99)]
    with pytest.raises(PullPausedError):
        await served.pull(max_requests=2, extra_params={"device": {*names}})
    # names with equal hashes stand in the order of their insertion
    other_order = {*reversed(names)}
    assert (await served.pull(extra_params={"device": other_order})).resumed == 1


@pytest.mark.usefixtures("pulled")
async def test_a_feed_that_was_not_pulled_is_fetched(served: Served) -> None:
    summary = await served.pull(GOOGLE, retry_failed=True, feeds=Feed.CAMPAIGN_BY_DATE)
    assert summary.rows == 2


@pytest.mark.parametrize(("settings", "left"), [(PLAIN, [1, 2, 3]), (GOOGLE, [1, 3])])
async def test_no_rows_of_other_row_options_stay_in_a_night(
    served: Served, settings: dict[str, Any], left: list[int]
) -> None:
    served.account.campaigns = 3
    await served.pull(feeds=list(Feed))
    served.account.hidden = {2: 500, 20: 500}
    summary = await served.pull(settings, feeds=list(Feed))
    assert len(summary.failures) == 3
    tables = ("keyword_rankings", "campaign_periods", "keyword_periods")
    assert [served.campaigns_in(table) for table in tables] == [left] * 3
    served.account.hidden = {}
    assert (await served.pull(settings, feeds=list(Feed), retry_failed=True)).ok
    assert served.campaigns_in("keyword_rankings") == [1, 2, 3]


async def test_a_failed_keyword_loses_only_its_own_rows(served: Served) -> None:
    await served.pull(feeds=Feed.KEYWORD_BY_DATE)
    served.account.hidden = {20: 500}
    await served.pull(GOOGLE, feeds=Feed.KEYWORD_BY_DATE)
    assert served.campaigns_in("keyword_periods") == [1]
    served.account.hidden = {10: 500}
    # campaign 1 fails now with the row options that its rows have
    await served.pull(GOOGLE, feeds=Feed.KEYWORD_BY_DATE)
    assert served.campaigns_in("keyword_periods") == [1, 2]


@pytest.mark.usefixtures("pulled")
async def test_earlier_nights_keep_their_row_options(served: Served) -> None:
    served.account.hidden = {2: 500}
    await served.pull(GOOGLE, snapshot_date="2023-04-03")
    assert served.campaigns_in("keyword_rankings") == [1, 2]


@pytest.mark.parametrize(
    ("earlier", "left"),
    [
        # the newest pull of the feed had the same row options, but perhaps other campaigns
        ([({"ids": [1, 2]}, PLAIN), ({"ids": [1]}, GOOGLE)], [1]),
        ([({"exclude": [1]}, PLAIN), ({"exclude": [2]}, GOOGLE)], [1]),
        # it had the same campaigns as well, or none of those that fail now
        ([({"exclude": [1]}, PLAIN), ({}, GOOGLE)], [1, 2]),
        ([({}, GOOGLE), ({"ids": [1]}, PLAIN)], [1, 2]),
        ([({"feeds": Feed.CAMPAIGN_BY_DATE}, PLAIN), ({}, GOOGLE)], [1, 2]),
    ],
)
async def test_the_last_pull_of_all_campaigns_says_their_row_options(
    served: Served,
    earlier: list[tuple[dict[str, Any], dict[str, Any]]],
    left: list[int],
) -> None:
    for options, settings in earlier:
        await served.pull(settings, **options)
    served.account.hidden = {2: 500}
    await served.pull(GOOGLE)
    assert served.campaigns_in("keyword_rankings") == left


@pytest.mark.usefixtures("pulled")
@pytest.mark.parametrize(("settings", "left"), [(PLAIN, [1, 2]), (GOOGLE, [1])])
async def test_rows_stay_where_nothing_came_instead(
    served: Served, settings: dict[str, Any], left: list[int]
) -> None:
    served.account.hidden = {1: 404, 2: 404}
    await served.pull(GOOGLE)
    assert served.campaigns_in("keyword_rankings") == [1, 2]
    # the rows are still of the first pull
    served.account.hidden = {2: 500}
    await served.pull(settings)
    assert served.campaigns_in("keyword_rankings") == left


@pytest.mark.parametrize("newer", [{"feeds": Feed.CAMPAIGN}, {"ids": [1]}])
async def test_a_retry_does_not_mix_with_a_newer_pull_of_its_feeds(
    served: Served, newer: dict[str, Any]
) -> None:
    feeds = [Feed.CAMPAIGN, Feed.CAMPAIGN_BY_DATE]
    served.account.hidden = {2: 500}
    await served.pull(feeds=feeds)
    await served.pull(GOOGLE, **newer)
    with refused("made with other options or engine names"):
        await served.pull(feeds=feeds, retry_failed=True)
