"""The page size is found with few requests, and every row arrives once."""

import asyncio
import functools
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

from seorep_async import (
    AttemptTimeoutError,
    DeadlineExceededError,
    EngineNames,
    RankingReport,
    ServerError,
)
from seorep_async.normalisation import decoder_for
from seorep_async.resources import Campaigns, Rankings
from seorep_async.session import Session
from seorep_async.session.request import Response
from tests.rankings import rankings_of
from tests.scripted_api import FEED, LIST
from tests.session.simulated_service import ApiRequest, Limited, SimulatedService
from tests.session.virtual_loop import here

pytestmark = pytest.mark.virtual

JANUARY = ("2023-01-01", "2023-01-31")
PATH = "/v3/resources/rankings/campaign"
ANY = 10**9


@functools.cache
def body(records: int, size: int, page: int, pages: int, *, is_list: bool = False) -> bytes:
    """Return a page of some records, which are numbered from 1."""
    source = LIST if is_list else FEED
    first = (page - 1) * size + 1
    numbers = range(first, min(page * size, records) + 1)
    return json.dumps(source.envelope(numbers, pages, records)).encode()


@attrs.define(slots=False)
class Paging:
    """The paging of a service.

    Attributes:
        records: the length of a campaign's report, or of the list of campaigns (campaign 0).
        default: records a page without a limit.
        most: the largest limit that the service accepts.
        beyond: the answer to a limit beyond that: `lowered`, `ignored`, a status, None for silence,
            `old count` (of pages), `cut` (the whole report to the limit), or `empty`.
        if_large: whether only reports that are longer than `most` get that answer.
        requests: the queries so far, as the numbers of campaign, limit and page.
    """

    records: Callable[[int], int]
    default: int = 25
    most: int = ANY
    beyond: str | int | None = "lowered"
    if_large: bool = False
    requests: list[tuple[int, int, int]] = attrs.field(factory=list)

    def answer(self, request: ApiRequest) -> Any:
        limit = request.limit
        self.requests.append((request.id, limit, request.page))
        records = self.records(request.id)
        size = limit or self.default
        pages: int | None = None
        misbehaves = records > self.most or not self.if_large
        if limit > self.most and misbehaves:
            match self.beyond:
                case "lowered":
                    size = self.most
                case "ignored":
                    size = self.default
                case "old count":
                    pages = -(-records // self.default)
                case "cut":
                    records = min(records, limit)
                case "empty":
                    records = 0
                case status:
                    return status
        pages = pages or max(1, -(-records // size))
        return body(records, size, request.page, pages, is_list="/campaigns" in request.path)

    @property
    def attempts(self) -> int:
        return len(self.requests)


@asynccontextmanager
async def served(
    paging: Paging, **settings: Any
) -> AsyncIterator[tuple[Session, Rankings, Campaigns]]:
    service = SimulatedService(says=paging.answer)
    async with rankings_of(service, **settings) as (session, rankings):
        yield session, rankings, Campaigns(session, decoder_for(EngineNames()))


async def pulled(rankings: Rankings, paging: Paging, ids: Iterable[int]) -> None:
    """Pull reports, and check that each has every row once."""
    campaign_ids = [*ids]
    outcomes = await rankings.pull(campaign_ids, *JANUARY)
    for outcome in outcomes:
        assert outcome.report is not None, outcome.error
        numbers = [row.keyword_id for row in outcome.report.rows]
        assert numbers == [*range(1, paging.records(outcome.id) + 1)]
    assert len(outcomes) == len(campaign_ids)


def pseudo_random(campaign_id: int) -> int:
    return campaign_id * 0x9E3779B1 % 2**32


def rounded_up(records: int, size: int) -> int:
    return -(-records // size)


# --- Requests


LARGEST_LIMITS = [100, 500, 1000, ANY]
REPORTS_OF_RECORDS = {60: 40, 300: 40, 1000: 30, 5000: 8}


def pairwise_defaults() -> list[tuple[int, int, int]]:
    """Return each pair of records and largest limit, with one of three defaults in turn."""
    defaults = itertools.cycle([10, 25, 100])
    pairs = itertools.product(REPORTS_OF_RECORDS, LARGEST_LIMITS)
    return [(records, next(defaults), most) for records, most in pairs]


@pytest.mark.parametrize(("records", "default", "most"), pairwise_defaults())
async def test_few_reports_need_30_requests_more_than_the_best_limit(
    records: int, default: int, most: int
) -> None:
    reports = REPORTS_OF_RECORDS[records]
    paging = Paging(lambda campaign_id: records, default, most)
    async with served(paging) as (session, rankings, _):
        await pulled(rankings, paging, range(1, reports + 1))
        page_sizes = session.stats.page_sizes
    assert paging.attempts <= reports * rounded_up(records, min(most, 1000)) + 30
    is_worth_it = records >= 2 * default and most > default
    # A page with all records does not show how many records a page may have.
    rows_a_page = 1000 if records <= most else min(most, 1000)
    assert page_sizes == ({PATH: rows_a_page} if is_worth_it else {})


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(lambda campaign_id: 60, id="60"),
        pytest.param(lambda campaign_id: 300, id="300"),
        pytest.param(lambda campaign_id: pseudo_random(campaign_id) % 500, id="all lengths"),
    ],
)
async def test_500_reports_need_a_tenth_more_than_the_best_limit(
    records: Callable[[int], int],
) -> None:
    paging = Paging(records)
    async with served(paging) as (_, rankings, _):
        await pulled(rankings, paging, range(1, 501))
    assert paging.attempts <= 1.1 * 500


BEYOND: dict[str, str | int | None] = {
    "ignores it": "ignored",
    "refuses it": 400,
    "breaks": 500,
    "refuses its rate": 429,
    "is overloaded by it": 503,
    "hangs": None,
    "announces pages of the old size": "old count",
    "cuts the report": "cut",
}


@pytest.mark.parametrize(
    ("beyond", "most"), [*zip(BEYOND.values(), itertools.cycle([100, 999]))], ids=BEYOND
)
async def test_a_limit_that_does_not_work_costs_three_in_a_hundred(
    beyond: str | int | None, most: int
) -> None:
    paging = Paging(lambda campaign_id: 60 + campaign_id, 25, most, beyond)
    async with served(paging) as (session, rankings, _):
        await pulled(rankings, paging, range(1, 101))
        page_sizes = session.stats.page_sizes
    default_requests = sum(rounded_up(60 + campaign_id, 25) for campaign_id in range(1, 101))
    if beyond != "cut":
        assert page_sizes == {}
        assert paging.attempts <= 1.03 * default_requests


# --- No row is lost


ODD_LENGTHS: dict[str, Callable[[int], int]] = {
    "small ones first": lambda campaign_id: 20 if campaign_id <= 25 else 1500,
    "exactly the limit": lambda campaign_id: 1000 if campaign_id != 30 else 1001,
    "all lengths": lambda campaign_id: pseudo_random(campaign_id) % 1300,
}


def misbehaviours() -> list[tuple[str, str, int, bool]]:
    """Return each misbehaviour with all lengths, and with each kind of limit."""
    # Four kinds and three lengths have no common divisor, so each length meets each kind.
    kinds = itertools.cycle(itertools.product([0, 500], [False, True]))
    pairs = itertools.product(BEYOND, ODD_LENGTHS)
    return [(beyond, lengths, *next(kinds)) for beyond, lengths in pairs]


@pytest.mark.parametrize(("beyond", "lengths", "most", "if_large"), misbehaviours())
async def test_each_row_comes_once_with_any_answer_to_a_large_limit(
    beyond: str, lengths: str, most: int, if_large: bool
) -> None:
    paging = Paging(ODD_LENGTHS[lengths], 100, most, BEYOND[beyond], if_large)
    async with served(paging, attempt_timeout=1.0) as (_, rankings, _):
        await pulled(rankings, paging, range(16, 35))


@pytest.mark.parametrize("lowered_to", [300, 700])
async def test_a_report_cut_below_the_limit_is_complete(lowered_to: int) -> None:
    # The first ones are long enough for the search, and too short to be cut.
    paging = Paging(lambda campaign_id: 60 if campaign_id <= 25 else 1500)

    def answer(request: ApiRequest) -> Any:
        if request.limit != 1000:
            return paging.answer(request)
        records = min(paging.records(request.id), lowered_to)
        return body(records, records, 1, 1)

    async with rankings_of(SimulatedService(says=answer)) as (_, rankings):
        await pulled(rankings, paging, range(1, 29))


async def test_long_reports_emptied_by_a_large_limit_are_read_whole() -> None:
    paging = Paging(lambda id_: 300 if id_ <= 25 else 1500, 100, 500, "empty", if_large=True)
    async with served(paging) as (_, rankings, _):
        await pulled(rankings, paging, range(16, 61))


async def test_three_failures_at_the_found_size_end_its_use() -> None:
    paging = Paging(lambda id_: 120 if id_ <= 25 else 600, 50, 500, 500, if_large=True)
    async with served(paging) as (session, rankings, _):
        await pulled(rankings, paging, range(1, 71))
        assert session.stats.page_sizes == {}
    large_ids = {campaign_id for campaign_id, limit, _ in paging.requests if limit}
    # Those that had begun before the third failure are among them.
    assert 26 < max(large_ids) < 60


async def test_an_outage_does_not_count_against_the_page_size() -> None:
    paging = Paging(lambda campaign_id: 60)
    is_down = False
    service = SimulatedService(says=lambda request: 500 if is_down else paging.answer(request))
    async with rankings_of(service, max_attempts=2) as (session, rankings):
        await rankings.campaign(1, *JANUARY)
        is_down = True
        for _ in range(5):
            with pytest.raises(ServerError):
                await rankings.campaign(1, *JANUARY)
        assert session.stats.page_sizes == {PATH: 1000}


@pytest.mark.parametrize("is_pulled", [False, True], ids=["awaited", "pulled"])
async def test_an_error_keeps_its_cause_if_no_time_is_left(
    is_pulled: bool,
) -> None:
    paging = Paging(lambda campaign_id: 60)
    is_down = False
    service = SimulatedService(says=lambda request: None if is_down else paging.answer(request))
    async with rankings_of(service) as (session, rankings):
        await rankings.campaign(1, *JANUARY)
        is_down = True
        with session.call_timeout.limit(40):
            if is_pulled:
                (outcome,) = await rankings.pull([1], *JANUARY)
                error: Any = outcome.error
            else:
                with pytest.raises(DeadlineExceededError) as caught:
                    await rankings.campaign(1, *JANUARY)
                error = caught.value
    assert error.attempts == 2
    assert isinstance(error.__cause__, AttemptTimeoutError)


# --- Who asks, and who waits


async def reading_for(seconds: float, rankings: Rankings) -> asyncio.Future[RankingReport[Any]]:
    """Begin to read a report, and return the reading after some seconds."""
    reading = asyncio.ensure_future(rankings.campaign(1, *JANUARY).fetch_all())
    await asyncio.sleep(seconds)
    return reading


async def test_one_question_is_asked_at_a_time() -> None:
    paging = Paging(lambda campaign_id: 60)
    async with served(paging) as (_, rankings, _):
        await pulled(rankings, paging, range(1, 101))
    limits = [limit for _, limit, _ in paging.requests]
    first_answered = limits.index(1000) + 1
    # Until the answer is here, the others request their page 1 at the default size.
    assert limits.count(0) <= first_answered + 20
    assert limits[-50:] == [1000] * 50


async def test_others_wait_five_seconds_for_a_hanging_question() -> None:
    paging = Paging(lambda campaign_id: 60, 25, 25, None)
    async with served(paging) as (_, rankings, _), rankings.pull([1, 2, 3], *JANUARY) as outcomes:
        await anext(outcomes)
        assert 5 <= here().now < 6
        await anext(outcomes)
        assert here().now < 6
        await anext(outcomes)
        # A question without an answer is not asked again.
        assert here().now < 6


async def test_waiting_for_a_question_leaves_a_call_half_of_its_time() -> None:
    paging = Paging(lambda campaign_id: 60, 25, 25, None)
    async with served(paging) as (session, rankings, _):
        asking = await reading_for(1, rankings)
        with session.call_timeout.limit(2):
            report = await rankings.campaign(2, *JANUARY)
        assert len(report.rows) == 60
        assert here().now < 2.5
        await asking


@pytest.mark.parametrize(
    ("limit", "status", "reports", "settings"),
    [
        ("1/s,burst=1", 429, 40, {}),
        ("1/s,burst=1", 503, 1, {}),
        ("1/s,burst=1,retry-after=seconds", 503, 40, {}),
        ("2/s,burst=5", 429, 1, {}),
        ("2/s,burst=5", 503, 40, {}),
        ("12/60s,burst=1", 429, 1, {}),
        ("12/60s,burst=1", 503, 40, {}),
        ("12/60s,burst=5", 429, 40, {}),
        ("12/60s,fixed-window", 429, 40, {}),
        ("12/60s,fixed-window", 503, 1, {}),
        # The limit of a minute outlasts a minute after the burst.
        ("12/60s,sliding-window", 429, 20, {}),
        ("12/60s,sliding-window", 503, 40, {}),
        ("30/60s,sliding-window", 429, 40, {}),
        # Answers to the burst arrive after its first refusals, which concern the rate all the same.
        ("30/60s,sliding-window", 503, 20, {}),
        ("30/60s,burst=5", 503, 40, {}),
        ("2/s,burst=1", 429, 50, {"call_timeout": 10}),
    ],
)
async def test_a_low_rate_does_not_end_the_search(
    limit: str, status: int, reports: int, settings: dict[str, Any]
) -> None:
    paging = Paging(lambda campaign_id: 1000)
    limiter = Limited(limit)

    def answer(request: ApiRequest) -> Any:
        if limiter.take():
            return paging.answer(request)
        return Response(status, [b""], limiter.retry_after)

    service = SimulatedService(says=answer, latency=0.2, seed=1)
    async with rankings_of(service, **settings) as (session, rankings):
        await pulled(rankings, paging, range(1, reports + 1))
        assert session.stats.page_sizes == {PATH: 1000}
    # Each of 40 reports took a default page as well. At most one was read in its 40 default pages,
    # after 7 refusals of its large page.
    assert paging.attempts <= reports + 40 + 40


async def test_a_large_limit_refused_with_pauses_loses_no_report() -> None:
    paging = Paging(lambda campaign_id: 60)

    def answer(request: ApiRequest) -> Any:
        return 429 if request.limit else paging.answer(request)

    async with rankings_of(SimulatedService(says=answer, retry_after=30)) as (_, rankings):
        await pulled(rankings, paging, range(1, 41))
        assert here().now < 100


async def test_a_call_with_little_time_does_not_end_the_search() -> None:
    paging = Paging(lambda campaign_id: 60, 25, 25, None)
    async with served(paging) as (session, rankings, _):
        with session.call_timeout.limit(1):
            await rankings.campaign(1, *JANUARY)
        paging.most = ANY
        await rankings.campaign(2, *JANUARY)
        assert session.stats.page_sizes == {PATH: 1000}


async def test_a_cancelled_question_is_asked_by_the_next_listing() -> None:
    paging = Paging(lambda campaign_id: 60, 25, 0, None)
    async with served(paging) as (session, rankings, _):
        asking = await reading_for(1, rankings)
        asking.cancel()
        await asyncio.wait([asking])
        paging.most = ANY
        await rankings.campaign(2, *JANUARY)
        assert session.stats.page_sizes == {PATH: 1000}


async def test_a_long_report_does_not_hold_up_a_call() -> None:
    paging = Paging(lambda campaign_id: 100 * 25 if campaign_id else 1)
    async with served(paging, page_size=None, max_concurrency=2) as (_, rankings, campaigns):
        report = await reading_for(0.1, rankings)
        began = paging.attempts
        await campaigns.list()
        assert 5 < began < paging.attempts <= began + 4
        await report


# --- Which listings, and which settings


async def test_an_awaited_list_finds_its_own_page_size() -> None:
    paging = Paging(lambda campaign_id: 1200, 25, 500)
    async with served(paging) as (session, _, campaigns):
        assert len(await campaigns.list()) == 1200
        assert session.stats.page_sizes == {"/v3/campaigns": 500}
    assert paging.attempts == 1 + 3


async def test_iterating_and_single_pages_keep_the_default_size() -> None:
    paging = Paging(lambda campaign_id: 100)
    async with served(paging) as (_, rankings, campaigns):
        await rankings.campaign(1, *JANUARY)
        paging.requests.clear()
        assert len([row async for row in rankings.campaign(1, *JANUARY)]) == 100
        assert len((await rankings.campaign(1, *JANUARY).page(2)).items) == 25
        assert len([campaign async for campaign in campaigns.list()]) == 100
    assert {limit for _, limit, _ in paging.requests} == {0}


@pytest.mark.parametrize(
    ("page_size", "options", "limit"),
    [(40, {}, 40), (None, {}, 0), ("find", {"limit": 40}, 40)],
)
async def test_a_given_page_size_is_kept(
    page_size: Any, options: dict[str, Any], limit: int
) -> None:
    paging = Paging(lambda campaign_id: 100)
    async with served(paging, page_size=page_size) as (session, rankings, campaigns):
        await rankings.pull([1, 2], *JANUARY, **options)
        await rankings.campaign(1, *JANUARY, **options).page(1)
        await campaigns.list(**options)
        assert session.stats.page_sizes == {}
    assert {limit for _, limit, _ in paging.requests} == {limit}


# --- Outages


@pytest.mark.parametrize(("seconds", "ended", "ok"), [(500, 540, 200), (1e9, 940, 105)])
async def test_a_pull_gives_up_a_silent_service_in_time(
    seconds: float, ended: float, ok: int
) -> None:
    paging = Paging(lambda campaign_id: 100)
    service = SimulatedService(says=paging.answer, down=(0.15, 0.15 + seconds), outage="hang")
    async with rankings_of(service) as (_, rankings):
        outcomes = await rankings.pull(range(1, 201), *JANUARY)
        assert here().now < ended
    assert len(outcomes.reports) == ok
