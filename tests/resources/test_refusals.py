"""Bad input is refused as the call is made, before any I/O, with a message that says what to do."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import pytest

from seorep_async import ConfigurationError, Feed, FeedSearchParam, SeoRepClient, Settings

JANUARY = ("2023-01-01", "2023-01-31")
FEEDS = ("campaign", "campaign_by_date", "keyword_by_date")
every_feed = pytest.mark.parametrize("feed", FEEDS)


@pytest.fixture
def client() -> SeoRepClient:
    """A client that was never opened, outside of any event loop: what is raised here is raised before any I/O."""
    return SeoRepClient("http://127.0.0.1:9", "key")


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(ConfigurationError) as refused:
        call()
    return str(refused.value)


# --- Ids

BAD_IDS = [0, -1, True, False, "7", "../x", 7.0, None, 2**31, 10**30, [7], b"7"]


@pytest.mark.parametrize(("feed", "bad"), list(zip([*Feed] * 4, BAD_IDS, strict=True)))
def test_a_pull_refuses_what_is_no_id_among_its_ids(client: SeoRepClient, feed: Feed, bad: Any) -> None:
    name = "keyword_id" if feed is Feed.KEYWORD_BY_DATE else "campaign_id"
    if bad == [7]:
        bad = (7,)  # hashable
    said = refusal(lambda: client.rankings.pull([1, bad, 3], *JANUARY, feed=feed))
    assert said == f"{name} must be an integer from 1 to 2147483647, got {bad!r}"


@pytest.mark.parametrize("bad", [7, "17", b"17", None, 1.5])
def test_a_pull_refuses_what_is_not_several_ids(client: SeoRepClient, bad: Any) -> None:
    assert refusal(lambda: client.rankings.pull(bad, *JANUARY)) == f"ids must be several campaign ids, got {bad!r}"


# --- Dates

BAD_DATES = [
    "2023-1-1",
    "2023-02-30",
    "2023-13-01",
    "2023-00-01",
    "20230101",
    "2023-W01-1",
    "01/02/2023",
    "2023-01",
    "2023-01-01 ",
    "2023-01-01T00:00:00",
    "\uff12\uff10\uff12\uff13-01-01",
    "today",
    "",
    None,
    20230101,
    dt.datetime(2023, 1, 1),
]


@pytest.mark.parametrize(
    ("bad", "method", "argument"),
    list(zip(BAD_DATES, [*FEEDS, "pull"] * 4, (["start_date"] * 4 + ["end_date"] * 4) * 2, strict=True)),
)
def test_what_is_no_date_is_refused(client: SeoRepClient, method: str, argument: str, bad: Any) -> None:
    dates = {"start_date": "2023-01-01", "end_date": "2023-01-31", argument: bad}
    first: Any = [42] if method == "pull" else 42
    said = refusal(lambda: getattr(client.rankings, method)(first, **dates))
    hint = "; pass its .date()" if isinstance(bad, dt.datetime) else ""
    assert said == f'{argument} must be a datetime.date or a string "YYYY-MM-DD", got {bad!r}{hint}'


@pytest.mark.parametrize("end", ["2022-12-31", dt.date(2022, 12, 31)])
@pytest.mark.parametrize("method", [*FEEDS, "pull"])
def test_an_end_before_the_start_is_refused(client: SeoRepClient, method: str, end: Any) -> None:
    first: Any = [42] if method == "pull" else 42
    said = refusal(lambda: getattr(client.rankings, method)(first, "2023-01-01", end))
    assert said == "end_date 2022-12-31 is before start_date 2023-01-01; swap them"


# --- What else a pull takes


@pytest.mark.parametrize("bad", ["CAMPAIGN", "campaign_by_date", None, 1, KeyError])
def test_an_unknown_feed_is_refused_with_those_there_are(client: SeoRepClient, bad: Any) -> None:
    said = refusal(lambda: client.rankings.pull([1], *JANUARY, feed=bad))
    assert said == (
        'feed must be one of Feed.CAMPAIGN or "campaign", Feed.CAMPAIGN_BY_DATE or "campaign-by-date", '
        f'Feed.KEYWORD_BY_DATE or "keyword-by-date"; got {bad!r}'
    )


@pytest.mark.parametrize("bad", ["ignore", "", None, True, ["raise"]])
def test_an_unknown_on_error_is_refused_with_those_there_are(client: SeoRepClient, bad: Any) -> None:
    said = refusal(lambda: client.rankings.pull([1], *JANUARY, on_error=bad))
    assert said == f'on_error must be "collect" or "raise", got {bad!r}'


def test_an_unknown_option_of_a_pull_is_refused_with_the_known(client: SeoRepClient) -> None:
    pull: Any = client.rankings.pull
    said = refusal(lambda: pull([1], *JANUARY, filter="shoes"))
    assert said.startswith("pull has no argument 'filter'; the feeds take search, limit, sort_metric")


# --- limit


@pytest.mark.parametrize(
    ("method", "bad"),
    list(zip(["list", *FEEDS, "pull", "list", "pull"], [0, -1, True, "10", 1.5, 2**31, 2**31], strict=True)),
)
def test_a_limit_that_is_none_is_refused(client: SeoRepClient, method: str, bad: Any) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "list": lambda: client.campaigns.list(limit=bad),
        "pull": lambda: client.rankings.pull([42], *JANUARY, limit=bad),
    } | {feed: lambda feed=feed: getattr(client.rankings, feed)(42, *JANUARY, limit=bad) for feed in FEEDS}
    assert refusal(calls[method]) == f"limit must be an integer from 1 to 2147483647, got {bad!r}"


# --- extra_params

FEED_NAMES = (
    "start_date",
    "end_date",
    "filter",
    "search",
    "limit",
    "page",
    "sort_metric",
    "sort_direction",
    "compare_previous_period",
)


def extra_of(client: SeoRepClient, extra: Any) -> Callable[[], Any]:
    return lambda: client.rankings.campaign(42, *JANUARY, extra_params=extra)


@pytest.mark.parametrize(("feed", "name"), list(zip([*Feed] * 3, FEED_NAMES, strict=True)))
def test_an_extra_parameter_named_like_a_feed_s_is_refused(client: SeoRepClient, feed: Feed, name: str) -> None:
    said = refusal(lambda: client.rankings.pull([1], *JANUARY, feed=feed, extra_params={name: "1"}))
    assert said.startswith(f"extra_params: {name!r} has a place of its own: ")


@pytest.mark.parametrize("names", FeedSearchParam)
def test_both_names_of_search_stay_reserved_whichever_is_sent(names: FeedSearchParam) -> None:
    client = SeoRepClient("http://127.0.0.1:9", "key", settings=Settings(feed_search_param=names))
    for name in ("filter", "search"):
        assert name in refusal(extra_of(client, {name: "x"}))


def test_an_extra_parameter_may_be_the_id_of_another_feed(client: SeoRepClient) -> None:
    client.rankings.keyword_by_date(42, *JANUARY, extra_params={"campaign_id": 43})


@pytest.mark.parametrize(
    "bad", [object(), float("nan"), float("inf"), dt.datetime(2023, 1, 1), {"a": 1}, [1], ["a", None], b"x", 1j]
)
def test_a_value_that_cannot_be_sent_is_refused_by_name(client: SeoRepClient, bad: Any) -> None:
    assert refusal(extra_of(client, {"x": bad})).startswith("x cannot be sent as ")


def test_a_long_value_is_cut_in_the_message(client: SeoRepClient) -> None:
    assert len(refusal(extra_of(client, {"x": [0] * 10_000}))) < 100


@pytest.mark.parametrize("bad", ["", 5, None, b"x"])
def test_a_name_that_is_no_string_is_refused(client: SeoRepClient, bad: Any) -> None:
    assert refusal(extra_of(client, {bad: "1"})) == f"extra_params: a name must be a string, got {bad!r}"


@pytest.mark.parametrize("bad", ["x=1", [("x", "1")], 5, b"x", {"x"}])
def test_extra_params_that_are_no_mapping_are_refused(client: SeoRepClient, bad: Any) -> None:
    said = refusal(extra_of(client, bad))
    assert said == f"extra_params must map names to values, got {bad!r}"


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.campaigns.list(filter="\ud800"),
        lambda client: client.rankings.campaign(42, *JANUARY, search="\ud800"),
        lambda client: client.rankings.campaign(42, *JANUARY, extra_params={"x": "\ud800"}),
        lambda client: client.rankings.campaign(42, *JANUARY, extra_params={"x": ["\ud800"]}),
        lambda client: client.rankings.campaign(42, *JANUARY, extra_params={"\ud800": "x"}),
    ],
)
def test_a_string_that_is_not_valid_unicode_is_refused(
    client: SeoRepClient, call: Callable[[SeoRepClient], Any]
) -> None:
    assert re.search("is not valid Unicode$", refusal(lambda: call(client)))
