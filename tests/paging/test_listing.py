"""Listings from correct and faulty services: pages are prefetched, and must add up."""

import asyncio
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import pytest

from seorep_async import (
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    EngineNames,
    NotFoundError,
    PaginationError,
    SeoRepClient,
    SeoRepError,
    ServerError,
)
from seorep_async.normalisation import ModelPage, decoder_for
from seorep_async.paging import Query
from tests.scripted_api import (
    FEED,
    LEFT_OUT,
    LIST,
    SOURCES,
    Script,
    Source,
    numbers_on,
    simulating,
    well_behaved,
)
from tests.session.simulated_service import ApiRequest
from tests.session.virtual_loop import here

pytestmark = pytest.mark.virtual

list_and_feed = pytest.mark.parametrize("source", [LIST, FEED], ids=lambda source: source.name)
every_source = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)


# --- Listings from a correct service


@pytest.mark.parametrize("count", [0, 1, 10, 11, 95])
@every_source
async def test_awaiting_returns_every_item_in_order(source: Source, count: int) -> None:
    async with simulating(well_behaved(source, count, 10)) as (client, service):
        assert await source.everything(client) == list(range(1, count + 1))
    assert sorted(service.pages) == list(range(1, max(1, -(-count // 10)) + 1))


@every_source
async def test_every_way_to_read_returns_the_same_items(source: Source) -> None:
    async with simulating(well_behaved(source, 95, 10)) as (client, _):
        listing = source.ask(client)
        iterated = [item async for item in listing]
        pages = [page async for page in listing.pages()]
        single_pages = [await listing.page(number) for number in range(1, 11)]
    assert pages == single_pages
    assert iterated == [item for page in pages for item in page.items]
    assert [source.number(item) for item in iterated] == list(range(1, 96))


async def test_pages_stay_in_order_if_responses_arrive_out_of_order() -> None:
    def last_first(request: ApiRequest) -> Any:
        service.latency = 1 / request.page
        return well_behaved(LIST, 50, 10)(request)

    async with simulating(last_first) as (client, service):
        assert await LIST.everything(client) == list(range(1, 51))


# --- Listings from faulty services


def announcing(source: Source, pages: Any = LEFT_OUT, records: Any = LEFT_OUT) -> Script:
    """Serve 25 items on pages of 10, with these totals on each."""
    return lambda request: source.envelope(numbers_on(request.page, 10, 25), pages, records)


def nth(number: int, answer: Any, otherwise: Script) -> Script:
    """Answer one page in another way."""
    return lambda request: answer if request.page == number else otherwise(request)


SECOND = range(11, 21)


# the rows on page 2, and the numbers of pages and records that it announces
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(([], 3, 25), id="is empty"),
        pytest.param(([], 0, 0), id="is empty and announces no records"),
        pytest.param(([*SECOND, 99], 3, 25), id="is long"),
        pytest.param((SECOND, 2, 25), id="has fewer pages"),
        pytest.param((SECOND, 4, 25), id="has more pages"),
        pytest.param((SECOND, 3, 24), id="has fewer records"),
        pytest.param((SECOND, 3, 26), id="has more records"),
    ],
)
@list_and_feed
async def test_an_inconsistent_second_page_is_a_pagination_error(
    source: Source, wrong: tuple[Any, int, int]
) -> None:
    second = source.envelope(*wrong)
    async with simulating(nth(2, second, announcing(source, 3, 25))) as (client, _):
        with pytest.raises(PaginationError):
            await source.everything(client)
        with pytest.raises(PaginationError):
            _ = [item async for item in source.ask(client)]  # must not end as if it were complete


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"records": 25}, id="leaves out total_pages"),
        pytest.param({"pages": 3}, id="leaves out total_records"),
        pytest.param({"pages": "3", "records": "25"}, id="has totals as text"),
        pytest.param({"pages": 3, "records": 25, "flat": True}, id="is flat"),
        pytest.param({"pages": 3, "records": 25, "older": True}, id="has older rows"),
        pytest.param(
            {"pages": 3, "records": 25, "flat": True, "older": True},
            id="is flat and has older rows",
        ),
    ],
)
@list_and_feed
async def test_a_second_page_in_another_format_loses_no_row(
    source: Source, options: dict[str, Any]
) -> None:
    second = source.envelope(SECOND, **options)
    async with simulating(nth(2, second, announcing(source, 3, 25))) as (client, _):
        assert await source.everything(client) == list(range(1, 26))


def id_of(value: object) -> str:
    return "left out" if value is LEFT_OUT else repr(value)


NONSENSE = [LEFT_OUT, None, 0, "3", 10**9, -1, "x", 1.5, True, [], "", 10**30]


# There are 25 records.
@pytest.mark.parametrize("pages", [*NONSENSE, 26], ids=id_of)
async def test_a_nonsensical_page_count_changes_no_row_and_no_request(pages: Any) -> None:
    async with simulating(announcing(FEED, pages, 25), max_attempts=1) as (client, service):
        assert await FEED.everything(client) == list(range(1, 26))
    assert sorted(service.pages) == [1, 2, 3]


@pytest.mark.parametrize(
    ("pages", "records"),
    list(zip(NONSENSE, [LEFT_OUT, None, "many", -1] * 3, strict=True)),
    ids=id_of,
)
async def test_without_total_records_reading_ends_at_an_empty_page(
    pages: Any, records: Any
) -> None:
    async with simulating(announcing(FEED, pages, records), max_attempts=1) as (client, service):
        assert await FEED.everything(client) == list(range(1, 26))
    assert len(service.requests) == (3 if pages == "3" else 4)


@pytest.mark.parametrize(
    ("pages", "records"),
    [(2, 25), *itertools.product([3, LEFT_OUT], [0, 1, 9, 24, 26, "50", 10**9])],
    ids=id_of,
)
async def test_wrong_total_records_are_an_error_after_few_requests(
    records: Any, pages: Any
) -> None:
    async with simulating(announcing(FEED, pages, records)) as (client, service):
        with pytest.raises(PaginationError) as failed:
            await FEED.everything(client)
    assert failed.value.expected_records == int(records)
    assert len(service.requests) <= 4


@pytest.mark.parametrize("announced", [2, 40, 90_000])
async def test_a_wrong_page_count_is_an_error_after_few_extra_requests(announced: int) -> None:
    records = LEFT_OUT if announced > 40 else 40

    def script(request: ApiRequest) -> Any:
        return FEED.envelope(numbers_on(request.page, 1, 25), announced, records)

    async with simulating(script, max_concurrency=2) as (client, service):
        with pytest.raises(PaginationError):
            await FEED.everything(client)
    assert len(service.requests) <= 25 + 2 * 2


@pytest.mark.parametrize(
    ("pages", "records"), [(3, 25), (10**9, 25), (LEFT_OUT, LEFT_OUT), (3, LEFT_OUT)]
)
@list_and_feed
async def test_an_ignored_page_parameter_is_a_pagination_error_at_once(
    source: Source, pages: Any, records: Any
) -> None:
    async with simulating(lambda request: source.envelope(range(1, 11), pages, records)) as (
        client,
        service,
    ):
        with pytest.raises(PaginationError, match="page 2 repeats"):
            await source.everything(client)
    assert len(service.requests) <= 3


async def test_an_endless_listing_stops_after_max_pages() -> None:
    endless = simulating(lambda request: LIST.envelope([request.page]), max_pages=7)
    async with endless as (client, service):
        with pytest.raises(PaginationError, match=r"Settings\.max_pages"):
            await client.campaigns.list()
    assert service.pages == [*range(1, 8)]


async def test_iterating_ends_in_an_error_after_a_wrong_page() -> None:
    script = nth(2, LIST.envelope([], 3, 25), announcing(LIST, 3, 25))
    async with simulating(script) as (client, _):
        campaigns = aiter(client.campaigns.list())
        for id_ in range(1, 11):
            assert (await anext(campaigns)).id == id_
        pages = client.campaigns.list().pages()
        await anext(pages)
        for iteration in (campaigns, pages):
            # Then, Python would end an ordinary generator, as if there were no more campaigns.
            for problem in ("is empty", "ended early"):
                # With a default, Python would crash if `__anext__` raised before its first await.
                with pytest.raises(SeoRepError, match=problem):
                    await anext(iteration, None)


# --- The window


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_slow_consumer_limits_prefetching_to_the_window(concurrency: int) -> None:
    consumed = 0
    script = well_behaved(LIST, 60, 1)
    async with simulating(script, max_concurrency=concurrency) as (client, service):
        async for _ in client.campaigns.list().pages():
            consumed += 1
            await asyncio.sleep(1)
            assert service.attempts <= consumed + 2 * concurrency
    assert consumed == 60


async def test_a_listing_keeps_every_permit_busy() -> None:
    async with simulating(well_behaved(LIST, 51, 1), max_concurrency=5) as (client, service):
        assert len(await client.campaigns.list()) == 51
        # Page 1 comes alone, and then five at a time.
        assert here().now <= 1.1 * (1 + 50 / 5) * service.latency


# --- Failure, leaving early, cancelling, deadlines


@pytest.mark.parametrize(
    ("answer", "error"), [(404, NotFoundError), (500, ServerError), (b"{}", DecodeError)]
)
@pytest.mark.parametrize("failing", [1, 2, 5])
async def test_a_failed_page_fails_the_listing(
    failing: int, answer: Any, error: type[SeoRepError]
) -> None:
    async with simulating(nth(failing, answer, well_behaved(FEED, 50, 10))) as (client, _):
        with pytest.raises(error, match=r"^campaign 42: "):
            await FEED.everything(client)


def stuck_after(page: int) -> Script:
    """Serve 50 items on pages of 10. Pages after the given one are never answered."""
    return lambda request: well_behaved(LIST, 50, 10)(request) if request.page <= page else None


async def test_a_failed_page_cancels_the_other_requests() -> None:
    async with simulating(nth(2, 404, stuck_after(1))) as (client, service):
        with pytest.raises(NotFoundError):
            await client.campaigns.list()
        assert service.pages == [1, 2, 3, 4, 5]
        assert client.stats.in_flight == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(
    ("is_closed", "error"), [(False, asyncio.CancelledError), (True, ConfigurationError)]
)
async def test_a_cancel_or_a_closed_client_ends_a_listing(
    is_closed: bool, error: type[BaseException]
) -> None:
    async with simulating(stuck_after(1)) as (client, service):
        reading = asyncio.ensure_future(LIST.everything(client))
        await asyncio.sleep(1)
        assert service.attempts == 5
        if is_closed:
            await client.close()
        else:
            reading.cancel()
        with pytest.raises(error):
            await reading
        assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(("latency", "pages"), [(40, [1, 2, 3]), (120, [1])])
async def test_call_timeout_limits_an_awaited_listing(latency: float, pages: list[int]) -> None:
    limits = {"call_timeout": 100, "attempt_timeout": 1000, "max_concurrency": 1}
    async with simulating(well_behaved(LIST, 50, 10), **limits) as (client, service):
        service.latency = latency
        service.jitter = 0
        with pytest.raises(DeadlineExceededError):
            await client.campaigns.list()
    assert service.pages == pages


async def test_iterating_has_no_time_limit() -> None:
    consumed = 0
    async with simulating(well_behaved(LIST, 50, 10), call_timeout=100) as (client, _):
        async for _ in client.campaigns.list():
            consumed += 1
            await asyncio.sleep(1000)
    assert consumed == 50


# --- Bad use


@pytest.mark.parametrize(
    "use",
    [
        iter,
        list,
        len,
        bool,
        lambda listing: listing[0],
        lambda listing: 1 in listing,
        pd.DataFrame,
    ],
)
def test_an_unawaited_listing_used_as_a_list_asks_for_await(use: Callable[[Any], object]) -> None:
    with pytest.raises(
        TypeError, match=r"^<Listing of /v3/campaigns, not fetched: await it, or use `async for`>$"
    ):
        use(SeoRepClient("http://127.0.0.1:9", "key").campaigns.list())


def test_a_query_that_may_hold_a_secret_is_not_shown() -> None:
    decode = partial(ModelPage[int], decoder_for(EngineNames()), int)
    query = Query("/v3/anything", "search=c4n4ry", decode=decode, key=int)
    assert "c4n4ry" not in repr(query)
