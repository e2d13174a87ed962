"""An attempt's time limit ends it with a TimeoutError, and never hides that somebody else cancelled it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from seorep_async.session.timeouts import AttemptTimeouts, TimeLimit
from tests.session.virtual_loop import here

NEVER = 3600.0


def limit(seconds: float, remaining: float = NEVER) -> TimeLimit:
    return TimeLimit(AttemptTimeouts(asyncio.get_running_loop()), seconds, remaining)


async def within(callers: asyncio.Timeout, work: Coroutine[Any, Any, None]) -> None:
    async with callers:
        await work


async def test_what_takes_too_long_ends_with_a_timeout_error_only() -> None:
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(TimeoutError), limit(0):
        await asyncio.sleep(NEVER)
    assert task.cancelling() == 0


async def test_what_ends_in_time_is_not_cancelled_later() -> None:
    with limit(0):
        pass
    for _ in range(3):
        await asyncio.sleep(0)


async def test_an_error_passes() -> None:
    with pytest.raises(LookupError), limit(NEVER):
        raise LookupError


async def test_a_cancelled_task_ends_cancelled() -> None:
    async def work() -> None:
        with limit(NEVER):
            await asyncio.sleep(NEVER)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_cancelled_as_its_time_ended_ends_cancelled() -> None:
    async def work() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with limit(0):
            loop.call_later(0, task.cancel)
            await asyncio.sleep(NEVER)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(work())


async def test_a_task_that_survived_a_cancellation_can_still_time_out() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(NEVER)
    with pytest.raises(TimeoutError), limit(0):
        await asyncio.sleep(NEVER)
    assert task.uncancel() == 0


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
    async def limited() -> None:
        with limit(NEVER):
            await asyncio.sleep(NEVER)

    callers = asyncio.timeout(0)
    with pytest.raises(TimeoutError):
        await within(callers, limited())
    assert callers.expired()


def stand_still(seconds: float) -> None:
    here().now += seconds


@pytest.mark.parametrize("seconds", [0.02, 0.2])
async def test_what_arrived_while_the_loop_stood_still_is_used(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    arrived = loop.create_future()
    reading, writing = socket.socketpair()
    with reading, writing:
        loop.add_reader(reading, lambda: None if arrived.done() else arrived.set_result(None))
        loop.call_soon(time.sleep, seconds)
        loop.call_soon(writing.send, b"x")
        with limit(seconds / 4):
            await arrived
        loop.remove_reader(reading)


# when the loop stands still, and for how long; the time that the work and the call take; when it ends, with 1 s for
# the attempt; whether that says nothing about the service
STALLS: dict[str, tuple[list[tuple[float, float]], float, float, float, bool]] = {
    "after a late alarm the loop runs on for a moment": ([(0, 1.3)], NEVER, NEVER, 1.4, True),
    "also at the end of the call": ([(0, 1.3)], NEVER, 1.2, 1.4, True),
    "a response in that moment is used": ([(0, 1.3)], 1.39, NEVER, 1.39, False),
    "the loop may stand still again in that moment": ([(0, 1.3), (1.35, 1.3)], 2.7, NEVER, 2.7, False),
    "an alarm in time ends an attempt at once": ([(0.5, 0.54)], NEVER, NEVER, 1.04, False),
    "also if nothing stands still": ([], NEVER, NEVER, 1.0, False),
    "the end of the call is no fault of the service": ([], NEVER, 0.9, 0.9, True),
}


@pytest.mark.virtual
@pytest.mark.parametrize(("stalls", "work", "remaining", "end", "inconclusive"), STALLS.values(), ids=STALLS)
async def test_a_loop_that_stood_still_throws_nothing_away(
    stalls: list[tuple[float, float]], work: float, remaining: float, end: float, inconclusive: bool
) -> None:
    for moment, seconds in stalls:
        here().call_at(moment, stand_still, seconds)
    with pytest.raises(TimeoutError) if work == NEVER else contextlib.nullcontext(), limit(1.0, remaining) as limited:
        await asyncio.sleep(work)
    assert here().now == pytest.approx(end)
    assert limited.inconclusive is inconclusive


@pytest.mark.virtual
async def test_a_loop_that_always_stands_still_keeps_no_attempt() -> None:
    def again() -> None:
        stand_still(1.3)
        here().call_later(0.01, again)

    here().call_soon(again)
    with pytest.raises(TimeoutError), limit(1.0) as limited:
        await asyncio.sleep(NEVER)
    assert here().now < 12
    assert limited.inconclusive


@pytest.mark.virtual
async def test_one_alarm_serves_all_limits() -> None:
    timeouts = AttemptTimeouts(here())

    async def attempt(seconds: float) -> float:
        with pytest.raises(TimeoutError), TimeLimit(timeouts, seconds, NEVER):
            await asyncio.sleep(NEVER)
        return here().now

    assert [*await asyncio.gather(attempt(5.0), attempt(2.0), attempt(3.0))] == [5.0, 2.0, 3.0]
    assert await attempt(1.0) == 6.0


@pytest.mark.virtual
async def test_closing_ends_what_runs_and_limits_what_begins_later() -> None:
    timeouts = AttemptTimeouts(here())

    async def attempt() -> float:
        with pytest.raises(TimeoutError), TimeLimit(timeouts, 5.0, NEVER):
            await asyncio.sleep(NEVER)
        return here().now

    running = asyncio.ensure_future(attempt())
    await asyncio.sleep(1.0)
    timeouts.close()
    assert (await running, await attempt()) == (1.0, 6.0)


@pytest.mark.virtual
async def test_a_closed_client_leaves_no_alarm() -> None:
    timeouts = AttemptTimeouts(here())
    with TimeLimit(timeouts, 5.0, NEVER):
        pass
    timeouts.close()
    with TimeLimit(timeouts, 5.0, NEVER):
        pass
    assert [alarm for alarm in here()._scheduled if not alarm.cancelled()] == []  # type: ignore[attr-defined]
