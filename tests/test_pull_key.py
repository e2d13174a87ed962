"""401s and 403s in a pull: when it asks about its key, and the effect of the answer."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from seorep_async import (
    AuthenticationError,
    Feed,
    PullOutcome,
    SeoRepError,
)
from seorep_async.key_check import KeyCheck
from seorep_async.pull import Pull
from seorep_async.session import Request
from tests.rankings import rankings_of, report_page
from tests.session.calls import failure_of
from tests.session.simulated_service import ApiRequest, SimulatedService, session_above
from tests.session.virtual_loop import here

pytestmark = pytest.mark.virtual

JANUARY = ("2023-01-01", "2023-01-31")
LIST = 0
"""Stands for the list of campaigns where an id is expected."""


def answering(status_of: Callable[[int], int | None]) -> SimulatedService:
    """Answer each campaign with a status: 200 with a report of one row, None not at all."""

    def answer(request: ApiRequest) -> Any:
        status = status_of(request.id)
        return report_page([request.id * 100], 1, 1) if status == 200 else status

    return SimulatedService(says=answer, latency=0.05)


def forbidding(forbidden_ids: Iterable[int]) -> SimulatedService:
    forbidden = frozenset(forbidden_ids)
    return answering(lambda campaign_id: 403 if campaign_id in forbidden else 200)


def requested_ids(service: SimulatedService) -> list[int]:
    return [request.id for request in service.requests]


def questions(service: SimulatedService) -> list[int]:
    """Return the number of requests before each question about the key.

    A question repeats an id or asks for the list.
    """
    ids = requested_ids(service)
    return [place for place, id_ in enumerate(ids) if id_ in [LIST, *ids[:place]]]


def failed_ids(outcomes: Iterable[PullOutcome[Any]]) -> list[int]:
    return [outcome.id for outcome in outcomes if not outcome.ok]


async def streamed(pull: Pull[Any]) -> tuple[list[PullOutcome[Any]], SeoRepError | None]:
    """Return the outcomes of a pull and the error that ended it."""
    outcomes: list[PullOutcome[Any]] = []
    async with pull:
        try:
            async for outcome in pull:
                outcomes.append(outcome)
        except SeoRepError as error:
            return outcomes, error
    return outcomes, None


async def assert_key_is_refused(service: SimulatedService, **options: Any) -> None:
    """Fail unless the refusal of its key ends a pull."""
    async with rankings_of(service, **options) as (_, rankings):
        with pytest.raises(AuthenticationError):
            await rankings.pull(range(1, 20), *JANUARY)


# --- When a pull asks. With `max_concurrency=1`, no other id has begun as a question becomes due.


async def test_questions_are_due_after_8_then_32_then_128_403s() -> None:
    service = forbidding(range(1, 400))
    async with rankings_of(service, max_concurrency=1) as (_, rankings):
        await rankings.pull(range(1, 400), *JANUARY)
    first, second, third, fourth, *_ = questions(service)
    # Each time the question before comes on top.
    assert first == 8
    assert second - first == 32 + 1
    assert third - second == 128 + 1
    assert fourth - third == 128 + 1


@pytest.mark.parametrize(
    ("forbidden", "requests"),
    [
        pytest.param([1, 2, 3], [1, 2, 3, LIST], id="no report, so the list is asked for"),
        pytest.param([1, 2, 3], [4, 1, 2, 3, 4], id="in doubt at the end"),
        pytest.param([1, 2, 3], [1, 2, 3, 4, 5, 6], id="no doubt after a report"),
        pytest.param(range(3, 12), [*range(1, 11), 2, 11, 2], id="the last report is asked for"),
        pytest.param(
            [1, 2, 3, 4, *range(6, 15)],
            [*range(1, 14), 5, 14, 5],
            id="a report restarts the count of 403s",
        ),
    ],
)
async def test_a_pull_asks_about_the_key_for_these_ids(
    forbidden: Iterable[int], requests: list[int]
) -> None:
    service = forbidding(forbidden)
    async with rankings_of(service, max_concurrency=1) as (_, rankings):
        outcomes = await rankings.pull([id_ for id_ in requests if id_ != LIST], *JANUARY)
    assert requested_ids(service) == requests
    if LIST in requests:
        assert service.requests[-1] == ApiRequest("/v3/campaigns", "limit=1")
    assert failed_ids(outcomes) == [*forbidden]


@pytest.mark.parametrize("concurrency", [1, 4, 16])
async def test_no_request_begins_until_the_question_is_answered(concurrency: int) -> None:
    service = answering(lambda campaign_id: None if campaign_id == LIST else 403)
    async with (
        rankings_of(service, max_concurrency=concurrency) as (_, rankings),
        rankings.pull(range(1, 100), *JANUARY) as pull,
    ):
        taker = asyncio.ensure_future(anext(pull))
        await asyncio.sleep(5)
        assert len(service.requests) <= concurrency + 8 + 1
        await taker


async def test_an_unanswered_question_delays_a_pull_by_10_seconds() -> None:
    statuses = {LIST: None, 20: 200}
    service = answering(lambda campaign_id: statuses.get(campaign_id, 403))
    async with rankings_of(service) as (_, rankings):
        outcomes = await rankings.pull(range(1, 21), *JANUARY)
        assert 10 < here().now < 11
    assert failed_ids(outcomes) == [*range(1, 20)]


async def test_a_question_that_told_nothing_is_asked_again_at_the_end() -> None:
    answers = iter([503, 503, 403])
    service = answering(lambda campaign_id: next(answers) if campaign_id == LIST else 403)
    await assert_key_is_refused(service, max_concurrency=1, max_attempts=2)


# --- Which page it asks for


@pytest.mark.parametrize(
    ("earlier_ids", "statuses"),
    [
        pytest.param([], {LIST: 404}, id="no report, and the list fails otherwise"),
        pytest.param([1], {LIST: 403, 1: 200}, id="a report of the earlier pull"),
        # Report 10 arrives during the question.
        pytest.param([1], {LIST: 200, 1: 403, 10: 200}, id="one that is forbidden by now"),
    ],
)
async def test_a_good_key_is_not_mistaken_for_a_refused_one(
    earlier_ids: list[int], statuses: dict[int, int]
) -> None:
    service = answering(lambda campaign_id: answers.get(campaign_id, 403))
    async with rankings_of(service, max_concurrency=2) as (_, rankings):
        answers = {1: 200}
        await rankings.pull(earlier_ids, *JANUARY)
        answers = statuses
        outcomes = await rankings.pull(
            range(2, 20), *JANUARY, feed=Feed.CAMPAIGN if 10 in answers else Feed.CAMPAIGN_BY_DATE
        )
    assert not any("stopped" in str(outcome.error) for outcome in outcomes)


async def test_page_1_of_an_unfinished_report_is_asked_for_once() -> None:
    service = SimulatedService(
        says=lambda request: 403 if len(service.requests) > 3 else report_page([request.page], 3, 3)
    )
    await assert_key_is_refused(service, max_concurrency=1)
    pages = [dict(request.pairs)["page"] for request in service.requests[3:]]
    assert pages == ["3"] + ["1"] * 8


# --- What the answer ends


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_refused_question_ends_everything(concurrency: int) -> None:
    service = answering(lambda campaign_id: 403)
    async with rankings_of(service, max_concurrency=concurrency) as (_, rankings):
        outcomes, error = await streamed(rankings.pull(range(1, 101), *JANUARY))
    assert len(service.requests) <= concurrency + 8 + 1
    assert sorted(failed_ids(outcomes)) == [*range(1, 101)]
    assert all(isinstance(outcome.error, AuthenticationError) for outcome in outcomes)
    said = "stopped, because the API key was refused for another request"
    assert sum(said in str(outcome.error) for outcome in outcomes) >= 100 - concurrency - 8
    assert isinstance(error, AuthenticationError)
    assert error.subject is None


async def test_a_401_ends_everything_at_once() -> None:
    service = answering(lambda campaign_id: 401)
    async with rankings_of(service, requests_per_second=0.001) as (_, rankings):
        error = await failure_of(rankings.pull(range(1, 101), *JANUARY), AuthenticationError)
        assert here().now < 1
    assert error.subject is None
    assert len(service.requests) == 1


async def test_a_key_revoked_late_is_known_after_a_streamed_pull() -> None:
    service = answering(lambda campaign_id: 403 if len(service.requests) > 20 else 200)
    async with rankings_of(service, max_concurrency=1) as (_, rankings):
        pull = rankings.pull(range(1, 23), *JANUARY)
        outcomes, error = await streamed(pull)
    assert error is None
    assert failed_ids(outcomes) == [21, 22]
    assert isinstance(pull.key_refusal, AuthenticationError)


async def test_reports_requested_before_a_403_do_not_speak_for_the_key() -> None:
    def status_of(campaign_id: int) -> int:
        if len(service.requests) <= 16:
            return 200
        # The 403s arrive before the reports that were requested earlier.
        service.latency = 0.01
        return 403

    service = answering(status_of)
    await assert_key_is_refused(service, max_concurrency=8)


async def test_the_401_of_another_call_does_not_concern_a_pull() -> None:
    service = answering(lambda campaign_id: 401 if campaign_id == LIST else 200)
    async with rankings_of(service) as (session, rankings):
        pulling = session.spawn(streamed(rankings.pull([1, 2, 3, 4], *JANUARY)))
        with pytest.raises(AuthenticationError):
            await session.send(Request("GET", "/v3/users", len))
        outcomes, error = await pulling
    assert (failed_ids(outcomes), error) == ([], None)


async def test_single_calls_fail_alone() -> None:
    service = SimulatedService(says=lambda request: 401 if request.path == "/0" else 200)
    async with session_above(service) as session:
        calls = [session.send(Request("GET", f"/{number}", len)) for number in range(20)]
        results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [AuthenticationError, *[int] * 19]


# --- Row 37: forbidden campaigns fail alone, and nothing waits for them


async def seconds_of_400(forbidden: list[int]) -> float:
    service = forbidding(forbidden)
    async with rankings_of(service) as (_, rankings):
        begun = here().now
        await rankings.pull(range(1, 401), *JANUARY)
        return here().now - begun


@pytest.mark.parametrize(
    "is_forbidden",
    [
        pytest.param(lambda campaign_id: campaign_id % 2 == 1, id="alternating"),
        pytest.param(lambda campaign_id: campaign_id <= 200, id="first half"),
        pytest.param(lambda campaign_id: campaign_id * 0x9E3779B1 % 2**32 < 2**31, id="by chance"),
        pytest.param(lambda campaign_id: campaign_id // 20 % 2 == 1, id="runs of twenty"),
    ],
)
async def test_half_of_the_campaigns_forbidden_takes_hardly_longer(
    is_forbidden: Callable[[int], bool],
) -> None:
    forbidden = list(filter(is_forbidden, range(1, 401)))
    assert await seconds_of_400(forbidden) <= 1.15 * await seconds_of_400([])


@pytest.mark.parametrize("concurrency", [1, 16])
@pytest.mark.parametrize(
    "forbidden",
    [
        pytest.param([1], id="the first"),
        pytest.param([5, 25, 45], id="5 %"),
        pytest.param([*range(1, 31)], id="the first half"),
        pytest.param([*range(31, 61)], id="the last half"),
        pytest.param([*range(1, 61, 2)], id="every other one"),
        pytest.param([*range(1, 60)], id="all but the last"),
    ],
)
async def test_forbidden_campaigns_fail_alone(forbidden: list[int], concurrency: int) -> None:
    service = forbidding(forbidden)
    async with rankings_of(service, max_concurrency=concurrency) as (_, rankings):
        outcomes = await rankings.pull(range(1, 61), *JANUARY)
    assert failed_ids(outcomes) == forbidden
    assert all(isinstance(failure.error, AuthenticationError) for failure in outcomes.failures)
    assert len(service.requests) - 60 <= len(forbidden)


async def test_only_one_consumer_repeats_a_cancelled_question() -> None:
    questions = []

    async def hang() -> None:
        questions.append(1)
        await asyncio.sleep(1)

    key = KeyCheck(hang)
    await key.refuse(AuthenticationError("no access", status=403), 0)
    consumers = [asyncio.create_task(key.find_refusal()) for _ in range(3)]
    await asyncio.sleep(0.5)
    consumers[0].cancel()
    await asyncio.wait(consumers)
    assert len(questions) == 2


@pytest.mark.parametrize("options", [{}, {"ordered": True}], ids=["unordered", "ordered"])
async def test_a_refused_key_does_not_hold_up_the_loop(options: dict[str, Any]) -> None:
    service = answering(lambda campaign_id: 401)
    turns = 0

    async def work() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with rankings_of(service) as (_, rankings):
        pull = rankings.pull(range(1, 10_001), *JANUARY, **options)
        async with pull:
            await anext(pull)
            other_work = asyncio.create_task(work())
            remaining = [outcome async for outcome in pull]
    other_work.cancel()
    assert len(remaining) == 9_999
    assert turns >= 100
