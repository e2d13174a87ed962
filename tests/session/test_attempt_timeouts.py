"""An attempt's time limit ends it with a TimeoutError, and never hides that somebody else cancelled it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

import pytest

from seorep_async.session.attempt_timeouts import AttemptTimeouts, TimeLimit

NEVER = 3600.0


def limit(seconds: float, remaining: float = NEVER) -> TimeLimit:
    return AttemptTimeouts(asyncio.get_running_loop()).limit(seconds, remaining)


async def within(callers: asyncio.Timeout, work: Coroutine[Any, Any, None]) -> None:
    async with callers:
        await work


async def test_what_takes_too_long_ends_with_a_timeout_error() -> None:
    with pytest.raises(TimeoutError), limit(0):
        await asyncio.sleep(NEVER)


async def test_after_a_timeout_the_task_counts_as_not_cancelled() -> None:
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


async def test_a_task_that_was_cancelled_as_its_time_was_over_ends_cancelled() -> None:
    async def work() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with limit(0):
            loop.call_later(0, task.cancel)
            await asyncio.sleep(NEVER)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(work())


async def test_a_task_that_went_on_after_it_was_cancelled_can_still_run_out_of_time() -> None:
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
