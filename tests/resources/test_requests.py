"""What listings and pulls send, every value written as the wire wants it; `test_operations` has what each one sends."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from seorep_async import ArrayEncoding, Feed, SeoRepClient
from tests.scripted_api import FEED, LIST, Asked, Service, serving

JANUARY = ("2023-01-01", "2023-01-31")
DATES = [("start_date", "2023-01-01"), ("end_date", "2023-01-31")]
FEEDS = (
    ("/v3/resources/rankings/campaign", "campaign_id"),
    ("/v3/resources/rankings/campaign/date", "campaign_id"),
    ("/v3/resources/rankings/keyword/date", "keyword_id"),
)


async def asked_by(use: Callable[[SeoRepClient], Any], **settings: Any) -> Asked:
    """Return the one request that a use of a client sends."""
    nothing = serving(lambda asked: (LIST if asked.path == "/v3/campaigns" else FEED).envelope([]), **settings)
    async with nothing as (client, service):
        await use(client)
    (asked,) = service.asked
    return asked


async def added_to_a_feed(*, settings: dict[str, Any] | None = None, **options: Any) -> Any:
    """Return what options add to a feed's request, between its dates and its page."""
    asked = await asked_by(lambda client: client.rankings.campaign(42, *JANUARY, **options), **(settings or {}))
    assert asked.pairs[1:3] == DATES
    assert asked.pairs[-1] == ("page", "1")
    return asked.pairs[3:-1]


@pytest.mark.parametrize("number", [1, 2**31 - 1])
async def test_the_smallest_and_the_largest_integer_can_be_asked_for(number: int) -> None:
    asked = await asked_by(lambda client: client.rankings.campaign(number, *JANUARY, limit=number))
    assert asked.pairs == [("campaign_id", str(number)), *DATES, ("limit", str(number)), ("page", "1")]


async def test_a_range_may_be_a_single_day() -> None:
    asked = await asked_by(lambda client: client.rankings.campaign(42, "2023-01-01", dt.date(2023, 1, 1)))
    assert asked.pairs[1:3] == [("start_date", "2023-01-01"), ("end_date", "2023-01-01")]


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
        dict.fromkeys(["search", "limit", "sort_metric", "sort_direction", "compare_previous_period", "extra_params"]),
        [],
    ),
]


@pytest.mark.parametrize(
    ("feed", "endpoint", "arguments", "added"),
    [(*feed, *one) for feed, one in zip([*zip(Feed, FEEDS, strict=True)] * 3, FEED_ARGUMENTS, strict=True)],
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
    ("value", "texts"),
    [
        *(
            *(("", [""]), ("text", ["text"]), (True, ["true"]), (False, ["false"]), (0, ["0"]), (-7, ["-7"])),
            (1.5, ["1.5"]),
        ),
        (dt.date(2023, 1, 2), ["2023-01-02"]),
        *((kind(["client", "staff & co"]), ["client", "staff & co"]) for kind in (list, tuple, set, frozenset)),
    ],
)
async def test_a_value_of_an_extra_parameter_is_written(value: Any, texts: list[str]) -> None:
    name = "x" if isinstance(value, str | int | float | dt.date) else "x[]"
    assert sorted(await added_to_a_feed(extra_params={"x": value})) == [(name, text) for text in texts]


@pytest.mark.parametrize("encoding", ArrayEncoding)
async def test_an_empty_array_is_not_sent(encoding: ArrayEncoding) -> None:
    assert await added_to_a_feed(settings={"array_encoding": encoding}, extra_params={"role": []}) == []


RESERVED = ["a b", "a+b", "a&b=c", "50%", "#1", "a/b?c", "ü", "鞋", "👟", "a\nb", "%41", "~-._", "'\"<>", "\x00"]


@pytest.mark.parametrize("text", RESERVED)
async def test_any_string_arrives_in_plain_ascii(text: str) -> None:
    asked = await asked_by(lambda client: client.campaigns.list(filter=text, extra_params={f"n{text}": text}))
    assert asked.pairs == [("filter", text), (f"n{text}", text), ("page", "1")]
    assert asked.query.isascii()
    assert not set(asked.query) & set(" +#\"<>'\n\x00")
