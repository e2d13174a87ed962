"""Time limits of attempts never hide a cancellation, and `client.timeout` limits calls."""

import asyncio
import contextlib
from typing import Any

import pytest

from seorep_async import Attempt, AttemptTimeoutError, DeadlineExceededError
from seorep_async.session.timeouts import TICK, TimeLimit, TimeLimits
from tests.session.calls import Connect, ask, failure_of
from tests.session.fake_time import FakeTime
from tests.session.scripted_server import FINE, answer, hang
from tests.session.virtual_loop import at_rest, here

NEVER = 3600.0


def limit(seconds: float, remaining: float = NEVER) -> TimeLimit:
    return TimeLimit(TimeLimits(), seconds, remaining)


async def nap(seconds: float) -> None:
    with limit(seconds):
        await asyncio.sleep(NEVER)


@pytest.mark.parametrize("was_cancelled_before", [False, True])
async def test_slow_work_ends_only_with_a_timeout_error(
    was_cancelled_before: bool,
) -> None:
    task = asyncio.current_task()
    assert task is not None
    if was_cancelled_before:  # and lived on
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(NEVER)
    with pytest.raises(TimeoutError):
        await nap(0)
    assert task.cancelling() == was_cancelled_before
    if was_cancelled_before:
        task.uncancel()


async def test_work_that_ends_in_time_is_not_cancelled_later() -> None:
    with limit(0):
        pass
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize("seconds", [NEVER, 0], ids=["early", "as its time ended"])
async def test_a_cancelled_task_ends_cancelled(seconds: float) -> None:
    task = asyncio.create_task(nap(seconds))
    asyncio.get_running_loop().call_later(0, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_that_the_end_of_the_time_led_to_passes() -> None:
    async def work() -> None:
        with limit(0):
            try:
                await asyncio.sleep(NEVER)
            except asyncio.CancelledError:
                raise LookupError from None

    with pytest.raises(LookupError):
        await work()


async def test_the_limit_of_a_caller_ends_it_in_the_caller() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0) as callers:
            await nap(NEVER)
    assert callers.expired()


def stand_still(seconds: float) -> None:
    here().now += seconds


# An attempt may take 1 s. Columns: when the loop stands still and for how long, the seconds of the
# work, the seconds left to the call, when it ends, and whether that says nothing of the service.
@pytest.mark.virtual
@pytest.mark.parametrize(
    ("stalls", "work", "remaining", "end", "inconclusive"),
    [
        pytest.param([(0, 1.3)], NEVER, NEVER, 1.3, True, id="after a late alarm it runs on"),
        pytest.param([(0, 1.3)], NEVER, 1.2, 1.3, True, id="also at the end of the call"),
        pytest.param([(0, 1.3)], 1.31, NEVER, 1.3, True, id="a response in that moment is used"),
        pytest.param([(0, 1.3)], 1.39, NEVER, 1.39, True, id="also if reading it takes long"),
        pytest.param([(0, 1.3), (1.31, 1.3)], 2.7, NEVER, 2.7, True, id="also if it stands again"),
        pytest.param([(0.5, 0.54)], NEVER, NEVER, 1.04, True, id="or if it began before"),
        pytest.param([], NEVER, NEVER, 1.0, False, id="also if nothing stands still"),
        pytest.param([], NEVER, 0.9, 0.9, True, id="the call's end is no fault of the service"),
    ],
)
async def test_a_loop_that_stood_still_throws_nothing_away(
    stalls: list[tuple[float, float]], work: float, remaining: float, end: float, inconclusive: bool
) -> None:
    for moment, seconds in stalls:
        here().call_at(moment, stand_still, seconds)
    is_late = pytest.raises(TimeoutError) if work == NEVER else contextlib.nullcontext()
    with is_late, limit(1.0, remaining) as limited:
        await asyncio.sleep(work)
    alarms = 6 if stalls else 2
    assert end <= here().now <= end + alarms * TICK
    assert limited.inconclusive is inconclusive


@pytest.mark.virtual
async def test_a_loop_that_always_stands_still_keeps_no_attempt() -> None:
    def again() -> None:
        stand_still(1.3)
        here().call_later(0.01, again)

    again()
    with pytest.raises(TimeoutError), limit(1.0) as limited:
        await asyncio.sleep(NEVER)
    assert here().now < 12
    assert limited.inconclusive


@pytest.mark.virtual
async def test_closing_beside_an_alarm_does_not_cancel_the_caller() -> None:
    limits = TimeLimits()
    limit = TimeLimit(limits, 1.0, NEVER)

    def ring_and_close() -> None:
        limit.expire()
        limits.close()

    here().call_later(1.0, ring_and_close)
    with pytest.raises(TimeoutError), limit:
        await asyncio.sleep(NEVER)


@pytest.mark.virtual
async def test_one_alarm_serves_all_limits() -> None:
    limits = TimeLimits()

    async def attempt(seconds: float) -> float:
        with pytest.raises(TimeoutError), TimeLimit(limits, seconds, NEVER):
            await asyncio.sleep(NEVER)
        return here().now

    ends = await asyncio.gather(attempt(5.0), attempt(2.0), attempt(3.0))
    assert ends == pytest.approx([5.0, 2.0, 3.0], abs=2 * TICK)
    assert await attempt(1.0) == pytest.approx(6.0, abs=4 * TICK)


@pytest.mark.virtual
async def test_closing_ends_running_attempts_and_leaves_no_alarm() -> None:
    limits = TimeLimits()

    async def attempt() -> None:
        with pytest.raises(TimeoutError), TimeLimit(limits, 5.0, NEVER):
            await asyncio.sleep(NEVER)

    running = asyncio.ensure_future(attempt())
    await at_rest()
    limits.close()
    await running
    assert here().now == 0
    assert all(alarm.cancelled() for alarm in here().alarms)


# of calls


@pytest.mark.parametrize(
    ("limits", "settings"),
    [
        ([0.2, 0.2], {}),
        ([60, 0.2], {}),
        ([0.2, 60], {}),
        ([60, 60], {"call_timeout": 0.2}),
        ([0.2, 0.2], {"max_attempts": 1}),  # out of time counts before out of attempts
    ],
)
async def test_the_shortest_limit_ends_a_call(
    limits: list[float], settings: dict[str, Any], connect: Connect
) -> None:
    seen: list[Attempt] = []
    client, _ = await connect(hang, **settings, on_attempt=seen.append)
    with client.timeout(limits[0]), client.timeout(limits[1]):
        task = asyncio.create_task(ask(client))  # which is limited, as it is started inside
    error = await failure_of(task, DeadlineExceededError)
    assert type(error.__cause__) is AttemptTimeoutError
    # of one attempt, which says nothing about the service
    assert [attempt.cause for attempt in seen] == ["inconclusive"]


SLOW = {"backoff_initial": 50, "backoff_max": 50}


async def test_a_limit_is_of_each_call_and_ends_with_its_block(
    connect: Connect, fake_time: FakeTime
) -> None:
    broken = answer(status=500)
    script = [broken, FINE] * 3 + [broken] * 3 + [FINE]
    client, _ = await connect(*script, **SLOW)
    with client.timeout(60):
        for _ in range(3):
            await ask(client)
    await ask(client)
    assert fake_time.slept == [50] * 6


async def test_a_limit_is_of_its_client_only(connect: Connect) -> None:
    (limited, _) = await connect()
    (client, _) = await connect(answer(status=500), FINE, **SLOW)
    with limited.timeout(1):
        await ask(client)
