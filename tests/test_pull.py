"""Pulls: one outcome for each id, each campaign read to its end first, nothing left running."""

import asyncio
import datetime as dt
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import numpy as np
import pytest

from seorep_async import (
    AuthenticationError,
    DecodeError,
    Feed,
    NotFoundError,
    PaginationError,
    ProtocolError,
    Pull,
    PullOutcome,
    PullOutcomes,
    SeoRepClient,
    SeoRepError,
    ServerError,
)
from seorep_async.normalisation import FeedPage
from tests.scripted_api import FEED, simulating
from tests.session.simulated_service import ApiRequest

pytestmark = pytest.mark.virtual

JANUARY = ("2023-01-01", "2023-01-31")


def whole(request: ApiRequest, pages: int = 3) -> Any:
    """Serve every campaign with this number of pages, each with one keyword."""
    return FEED.envelope([request.id * 1000 + request.page], pages, pages)


def pull_of(client: SeoRepClient, ids: Iterable[int], **options: Any) -> Pull[Any]:
    pull: Pull[Any] = client.rankings.pull(ids, *JANUARY, **options)
    return pull


async def outcomes_of(
    client: SeoRepClient, ids: Iterable[int], **options: Any
) -> list[PullOutcome[Any]]:
    async with pull_of(client, ids, **options) as outcomes:
        return [outcome async for outcome in outcomes]


# --- One outcome each


async def test_a_refused_report_says_which_pause_was_asked_for() -> None:
    async with simulating(lambda request: whole(request, 1) if request.id == 1 else 429) as (
        client,
        service,
    ):
        service.retry_after = 86400
        refused = (await outcomes_of(client, [1, 2]))[1].error
        assert refused is not None
        assert "it asked for a pause of 1 d" in refused.message


@pytest.mark.parametrize(
    ("answer", "kind", "status"),
    [
        (404, NotFoundError, 404),
        (400, SeoRepError, 400),
        (500, ServerError, 500),
        (503, ServerError, 503),
        (302, SeoRepError, 302),
        (b"", ProtocolError, 200),
        (b"<html>", ProtocolError, 200),
        (b"[]", DecodeError, 200),
        ({"status": "error", "code": 500}, ServerError, 200),
        ({"data": [{"keywordId": "n/a"}]}, DecodeError, 200),
        (FEED.envelope([1], 1, 2), PaginationError, None),
        (FEED.envelope([1], 2, 2), PaginationError, None),
        (FEED.envelope([1, 1], 1, 2), PaginationError, None),
    ],
)
async def test_a_failure_is_the_outcome_of_its_campaign_alone(
    answer: Any, kind: type[SeoRepError], status: int | None
) -> None:
    def script(request: ApiRequest) -> Any:
        return answer if request.id == 3 else whole(request)

    async with simulating(script) as (client, _):
        outcomes = await outcomes_of(client, range(1, 6), ordered=True)
    assert [outcome.id for outcome in outcomes if outcome.ok] == [1, 2, 4, 5]
    error = outcomes[2].error
    assert isinstance(error, kind)
    assert error.subject == "campaign 3"
    assert error.status == status


@pytest.mark.parametrize("kind", [list, iter, np.array])
async def test_each_id_of_any_iterable_is_pulled_once(
    kind: Callable[[list[int]], Iterable[int]],
) -> None:
    async with simulating(whole) as (client, service):
        outcomes = await outcomes_of(client, kind([2, 1, 2, 2, 1]), ordered=True)
    ids = [outcome.id for outcome in outcomes]
    assert ids == [2, 1]
    assert all(type(id_) is int for id_ in ids)
    assert len(service.requests) == 6


@pytest.mark.parametrize("ids", [[], (), set(), iter([]), range(0)])
async def test_a_pull_of_no_ids_has_no_outcomes_and_no_requests(ids: Iterable[int]) -> None:
    async with simulating(whole) as (client, service):
        assert await outcomes_of(client, ids) == []
    assert service.requests == []


async def test_a_pull_knows_how_many_outcomes_there_will_be() -> None:
    async with simulating(whole) as (client, _):
        assert len(pull_of(client, [3, 1, 3])) == 2


async def test_an_outcome_of_a_keyword_feed_names_the_keyword() -> None:
    async with simulating(lambda request: 404) as (client, _):
        (outcome,) = await outcomes_of(client, [7], feed=Feed.KEYWORD_BY_DATE)
    assert outcome.error is not None
    assert outcome.error.subject == "keyword 7"


# --- Depth-first


async def test_a_campaign_is_read_to_its_end_before_much_of_later_ones() -> None:
    async with simulating(lambda request: whole(request, 40), max_concurrency=4) as (
        client,
        service,
    ):
        await outcomes_of(client, range(1, 17))
    for unit in range(1, 17):
        last = max(place for place, request in enumerate(service.requests) if request.id == unit)
        later_ids = [request.id for request in service.requests[:last] if request.id > unit + 1]
        # Later ones progress by a page each, because permits are free while a page is read.
        assert all(pages <= 30 for pages in Counter(later_ids).values())


async def test_campaigns_are_started_a_few_at_a_time() -> None:
    async with simulating(lambda request: None, max_concurrency=16) as (client, service):
        before = len(asyncio.all_tasks())
        async with pull_of(client, range(1, 101)):
            assert 1 <= len(asyncio.all_tasks()) - before <= 4
            await asyncio.sleep(1)
            assert service.attempts == 8


# --- A refused key


async def test_a_refusal_ends_waits_for_another_attempt_too() -> None:
    def script(request: ApiRequest) -> int:
        service.latency = 0.1 * request.id
        return 500 if request.id == 1 else 401

    async with (
        simulating(script, max_concurrency=2, backoff_initial=60) as (client, service),
        pull_of(client, [1, 2]) as outcomes,
    ):
        assert (await anext(outcomes)).id == 2
        outcome = await anext(outcomes)
    assert isinstance(outcome.error, AuthenticationError)
    assert service.attempts == 2


# --- Leaving early


async def test_a_finished_awaited_pull_returns_the_ids_that_began() -> None:
    async with simulating(whole) as (client, _):
        pull = pull_of(client, range(1, 200))
        pulling = asyncio.ensure_future(awaited(pull))
        await asyncio.sleep(0.1)
        pull.finish()
        outcomes = await pulling
    assert 10 <= len(outcomes) < 100
    assert all(outcome.ok for outcome in outcomes)


async def awaited(pull: Pull[Any]) -> PullOutcomes[Any]:
    return await pull


# --- Bad use (and see `tests/mistakes.txt`), and bugs


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_bug_inside_is_raised_and_not_taken_for_an_outcome(
    ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(FeedPage, "documented", broken)
    async with simulating(whole) as (client, _):
        with pytest.raises(ZeroDivisionError):
            await outcomes_of(client, range(1, 100), ordered=ordered)
        assert asyncio.all_tasks() == {asyncio.current_task()}


# --- Tried again


@pytest.mark.parametrize(
    ("statuses", "later"),
    [([500], [2]), ([500, 500], [2]), ([408], [2]), ([404], []), ([501], [])],
    ids=["once", "again", "too slow", "gone", "unknown"],
)
async def test_a_pull_retries_failed_ids_at_its_end(statuses: list[int], later: list[int]) -> None:
    answers = iter(statuses)
    requested_ids = list[int]()

    def script(request: ApiRequest) -> Any:
        requested_ids.append(request.id)
        status = next(answers, None) if request.id == 2 else None
        return status or whole(request, 1)

    async with simulating(script, max_attempts=1) as (client, _):
        outcomes = await outcomes_of(client, range(1, 6))
    succeeds_later = statuses in ([500], [408])
    failed_ids = [outcome.id for outcome in outcomes if not outcome.ok]
    assert failed_ids == ([] if succeeds_later else [2])
    assert sorted(requested_ids[:5]) == [1, 2, 3, 4, 5]
    assert requested_ids[5:] == later


@pytest.mark.parametrize(("bad_pulls", "read"), [(1, 2), (3, 4), (9, 4)])
async def test_pages_that_did_not_add_up_are_read_again(bad_pulls: int, read: int) -> None:
    def script(request: ApiRequest) -> Any:
        records = 3 if len(service.requests) <= bad_pulls else 2
        return FEED.envelope([1, 2], 1, records)

    async with simulating(script) as (client, service):
        (outcome,) = await outcomes_of(client, [7])
    assert len(service.requests) == read
    assert outcome.ok if bad_pulls < read else isinstance(outcome.error, PaginationError)


async def test_reports_of_a_pull_have_the_day_it_began() -> None:
    now = dt.datetime(2023, 4, 1, 23, 59, tzinfo=dt.UTC)
    async with simulating(whole) as (client, _):
        clock = client._session.clock
        client._session.clock = attrs.evolve(clock, wall_clock=lambda: now.timestamp())
        async with pull_of(client, [1, 2]) as outcomes:
            now += dt.timedelta(hours=1)
            reports = [outcome.report async for outcome in outcomes if outcome.report]
        reports.append(await client.rankings.campaign(1, *JANUARY))
    assert [report.snapshot_date and report.snapshot_date.day for report in reports] == [1, 1, 2]
    assert {report.account for report in reports} == {"api.example.com"}


async def test_unknown_names_of_engines_are_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def branded(request: ApiRequest) -> Any:
        answer = whole(request, 1)
        answer["data"]["rows"][0]["googleRanking"] = 3
        return answer

    async with simulating(branded) as (client, _):
        with caplog.at_level(logging.WARNING, "seorep_async"):
            await outcomes_of(client, [1, 2, 3])
            await client.rankings.campaign(4, *JANUARY)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("rows have 'googleRanking', ")
