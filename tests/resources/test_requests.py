"""What each operation sends: the reference's names, only what was given, every value written as the wire wants it."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from seorep_async import ArrayEncoding, Feed, FeedSearchParam, SeoRepClient
from tests.scripted_api import FEED, LIST, Asked, Service, serving

JANUARY = ("2023-01-01", "2023-01-31")
DATES = [("start_date", "2023-01-01"), ("end_date", "2023-01-31")]
FEEDS = {
    "campaign": ("/v3/resources/rankings/campaign", "campaign_id"),
    "campaign_by_date": ("/v3/resources/rankings/campaign/date", "campaign_id"),
    "keyword_by_date": ("/v3/resources/rankings/keyword/date", "keyword_id"),
}
every_feed = pytest.mark.parametrize("feed", FEEDS)


async def asked_by(use: Callable[[SeoRepClient], Any], **settings: Any) -> Asked:
    """Return the one request that a use of a client sends."""
    async with serving(lambda asked: (LIST if asked.path == "/v3/campaigns" else FEED).envelope([]), **settings) as (
        client,
        service,
    ):
        await use(client)
    (asked,) = service.asked
    return asked


async def added_to_a_feed(feed: str = "campaign", *, settings: dict[str, Any] | None = None, **options: Any) -> Any:
    """Return what options add to a feed's request, between its dates and its page."""
    asked = await asked_by(lambda client: getattr(client.rankings, feed)(42, *JANUARY, **options), **(settings or {}))
    assert asked.pairs[1:3] == DATES
    assert asked.pairs[-1] == ("page", "1")
    return asked.pairs[3:-1]


# --- campaigns.list


async def test_listing_campaigns_asks_for_page_1_and_nothing_else() -> None:
    asked = await asked_by(lambda client: client.campaigns.list())
    assert (asked.path, asked.pairs) == ("/v3/campaigns", [("page", "1")])


CAMPAIGN_ARGUMENTS: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"filter": "shoes"}, [("filter", "shoes")]),
    ({"filter": ""}, [("filter", "")]),
    ({"limit": 1}, [("limit", "1")]),
    ({"limit": 2**31 - 1}, [("limit", "2147483647")]),
    ({"order_by": "company"}, [("order_by", "company")]),
    ({"order_direction": "desc"}, [("order_direction", "desc")]),
    ({"extra_params": {"status": "active"}}, [("status", "active")]),
    ({"filter": None, "limit": None, "order_by": None, "order_direction": None, "extra_params": None}, []),
    (
        {"filter": "a", "limit": 5, "order_by": "id", "order_direction": "asc", "extra_params": {"x": 1}},
        [("filter", "a"), ("limit", "5"), ("order_by", "id"), ("order_direction", "asc"), ("x", "1")],
    ),
]


@pytest.mark.parametrize(("arguments", "added"), CAMPAIGN_ARGUMENTS)
async def test_listing_campaigns_sends_what_was_given(arguments: dict[str, Any], added: list[tuple[str, str]]) -> None:
    asked = await asked_by(lambda client: client.campaigns.list(**arguments))
    assert asked.pairs == [*added, ("page", "1")]


# --- The feeds


@every_feed
async def test_a_feed_asks_its_path_for_its_id_its_dates_and_page_1(feed: str) -> None:
    path, id_param = FEEDS[feed]
    asked = await asked_by(lambda client: getattr(client.rankings, feed)(42, *JANUARY))
    assert (asked.path, asked.pairs) == (path, [(id_param, "42"), *DATES, ("page", "1")])


FEED_ARGUMENTS: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"search": "shoes"}, [("filter", "shoes"), ("search", "shoes")]),
    ({"limit": 100}, [("limit", "100")]),
    ({"sort_metric": "engineARanking"}, [("sort_metric", "engineARanking")]),
    ({"sort_direction": "asc"}, [("sort_direction", "asc")]),
    ({"compare_previous_period": True}, [("compare_previous_period", "true")]),
    ({"compare_previous_period": False}, [("compare_previous_period", "false")]),
    ({"compare_previous_period": "Yes"}, [("compare_previous_period", "Yes")]),
    ({"extra_params": {"tag": "brand"}}, [("tag", "brand")]),
    (
        {
            "search": None,
            "limit": None,
            "sort_metric": None,
            "sort_direction": None,
            "compare_previous_period": None,
            "extra_params": {},
        },
        [],
    ),
]


@pytest.mark.parametrize(
    ("feed", "arguments", "added"),
    [(feed, *one) for feed, one in zip([*FEEDS] * 3, FEED_ARGUMENTS, strict=True)],
)
async def test_a_feed_sends_what_was_given(feed: str, arguments: dict[str, Any], added: list[tuple[str, str]]) -> None:
    assert await added_to_a_feed(feed, **arguments) == added


@pytest.mark.parametrize(
    ("names", "sent"),
    [
        (FeedSearchParam.BOTH, ["filter", "search"]),
        (FeedSearchParam.FILTER, ["filter"]),
        (FeedSearchParam.SEARCH, ["search"]),
    ],
)
async def test_search_is_sent_under_the_names_that_the_settings_say(names: FeedSearchParam, sent: list[str]) -> None:
    assert await added_to_a_feed(settings={"feed_search_param": names}, search="x") == [(name, "x") for name in sent]


async def test_the_filter_of_campaigns_has_one_name_only() -> None:
    asked = await asked_by(lambda client: client.campaigns.list(filter="x"), feed_search_param=FeedSearchParam.SEARCH)
    assert asked.pairs == [("filter", "x"), ("page", "1")]


@every_feed
async def test_dates_and_their_strings_ask_for_the_same(feed: str) -> None:
    by_text = await asked_by(lambda client: getattr(client.rankings, feed)(42, "2023-01-01", "2023-01-31"))
    by_date = await asked_by(
        lambda client: getattr(client.rankings, feed)(42, dt.date(2023, 1, 1), dt.date(2023, 1, 31))
    )
    assert by_date == by_text


async def test_a_range_may_be_a_single_day() -> None:
    asked = await asked_by(lambda client: client.rankings.campaign(42, "2023-01-01", dt.date(2023, 1, 1)))
    assert asked.pairs[1:3] == [("start_date", "2023-01-01"), ("end_date", "2023-01-01")]


@pytest.mark.parametrize("unit", [1, 2**31 - 1])
async def test_the_smallest_and_the_largest_id_can_be_asked_for(unit: int) -> None:
    asked = await asked_by(lambda client: client.rankings.campaign(unit, *JANUARY))
    assert asked.id == unit


async def test_integers_of_numpy_are_integers() -> None:
    values: dict[str, Any] = {"campaign_id": np.int64(7), "limit": np.int32(3), "extra_params": {"a": np.uint8(5)}}
    asked = await asked_by(
        lambda client: client.rankings.campaign(start_date=DATES[0][1], end_date=DATES[1][1], **values)
    )
    assert asked.pairs == [("campaign_id", "7"), *DATES, ("limit", "3"), ("a", "5"), ("page", "1")]


async def test_pages_differ_in_their_number_only() -> None:
    async with serving(lambda asked: FEED.envelope([asked.page], 5, 5)) as (client, service):
        await client.rankings.campaign(42, *JANUARY, limit=1, search="shoes")
    assert {tuple(asked.pairs[:-1]) for asked in service.asked} == {
        (("campaign_id", "42"), *DATES, ("filter", "shoes"), ("search", "shoes"), ("limit", "1"))
    }
    assert sorted(asked.pairs[-1] for asked in service.asked) == [("page", str(number)) for number in range(1, 6)]


async def test_parameters_are_fixed_when_the_listing_is_made() -> None:
    extra = {"tag": "a"}
    async with serving(lambda asked: FEED.envelope([])) as (client, service):
        listing = client.rankings.campaign(42, *JANUARY, extra_params=extra)
        extra["tag"] = "b"
        await listing
    assert dict(service.asked[0].pairs)["tag"] == "a"


async def requests_of_a_pull(feed: Feed, **options: Any) -> Service:
    async with (
        serving(lambda asked: FEED.envelope([])) as (client, service),
        client.rankings.pull([42, 43], *JANUARY, feed=feed, **options) as outcomes,
    ):
        async for _ in outcomes:
            pass
    return service


@pytest.mark.parametrize(
    ("feed", "endpoint", "arguments", "added"),
    [(*feed, *one) for feed, one in zip([*zip(Feed, FEEDS.values(), strict=True)] * 3, FEED_ARGUMENTS, strict=True)],
)
async def test_a_pull_sends_for_each_id_what_its_feed_would(
    feed: Feed, endpoint: tuple[str, str], arguments: dict[str, Any], added: list[tuple[str, str]]
) -> None:
    service = await requests_of_a_pull(feed, **arguments)
    path, id_param = endpoint
    assert [asked.path for asked in service.asked] == [path, path]
    assert sorted(asked.pairs for asked in service.asked) == [
        [(id_param, unit), *DATES, *added, ("page", "1")] for unit in ("42", "43")
    ]


# --- How values are written


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", ""),
        ("text", "text"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-7, "-7"),
        (1.5, "1.5"),
        (dt.date(2023, 1, 2), "2023-01-02"),
    ],
)
async def test_a_value_of_an_extra_parameter_is_written(value: Any, text: str) -> None:
    assert await added_to_a_feed(extra_params={"x": value}) == [("x", text)]


async def test_an_extra_parameter_of_none_is_not_sent() -> None:
    assert await added_to_a_feed(extra_params={"x": None, "y": "1"}) == [("y", "1")]


ROLES = ["client", "staff & co"]


@pytest.mark.parametrize(
    ("encoding", "added"),
    [
        (ArrayEncoding.BRACKETS, [("role[]", "client"), ("role[]", "staff & co")]),
        (ArrayEncoding.REPEAT, [("role", "client"), ("role", "staff & co")]),
        (ArrayEncoding.COMMA, [("role", "client,staff & co")]),
    ],
)
@pytest.mark.parametrize("kind", [list, tuple])
async def test_an_array_is_written_as_the_settings_say(
    kind: Callable[[list[str]], Any], encoding: ArrayEncoding, added: list[tuple[str, str]]
) -> None:
    sent = await added_to_a_feed(settings={"array_encoding": encoding}, extra_params={"role": kind(ROLES)})
    assert sent == added


@pytest.mark.parametrize("encoding", ArrayEncoding)
async def test_an_empty_array_is_not_sent(encoding: ArrayEncoding) -> None:
    assert await added_to_a_feed(settings={"array_encoding": encoding}, extra_params={"role": []}) == []


@pytest.mark.parametrize("kind", [set, frozenset])
async def test_a_set_is_an_array_too(kind: Callable[[list[str]], Any]) -> None:
    sent = await added_to_a_feed(extra_params={"role": kind(ROLES)})
    assert sorted(sent) == [("role[]", "client"), ("role[]", "staff & co")]


RESERVED = ["a b", "a+b", "a&b=c", "50%", "#1", "a/b?c", "ü", "鞋", "👟", "a\nb", "%41", "~-._", "'\"<>", "\x00"]


@pytest.mark.parametrize("text", RESERVED)
async def test_any_string_arrives_as_it_was_given(text: str) -> None:
    sent = await added_to_a_feed(search=text, extra_params={f"n{text}": text})
    assert sent == [("filter", text), ("search", text), (f"n{text}", text)]


@pytest.mark.parametrize("text", RESERVED)
async def test_a_query_is_plain_ascii_with_blanks_as_percent_20(text: str) -> None:
    asked = await asked_by(lambda client: client.campaigns.list(filter=text))
    assert asked.query.isascii()
    assert not set(asked.query) & set(" +#\"<>'\n\x00")


async def test_requests_of_the_same_listing_run_under_gather() -> None:
    async with serving(lambda asked: FEED.envelope([asked.id], 1, 1)) as (client, _):
        reports = await asyncio.gather(*(client.rankings.campaign(unit, *JANUARY) for unit in (1, 2, 3)))
    assert [(report.campaign_id, report.rows[0].keyword_id) for report in reports] == [(1, 1), (2, 2), (3, 3)]
