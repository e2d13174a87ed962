"""A simulation ends when the test's own time is over."""

import asyncio
import signal

import pytest

from tests.session.virtual_loop import run


class Alarm(BaseException):
    """Not an Exception, like the one that pytest-timeout raises."""


async def interrupted() -> None:
    signal.raise_signal(signal.SIGALRM)


def test_an_alarm_within_a_task_ends_a_simulation() -> None:
    async def unmoved() -> None:
        await asyncio.gather(interrupted(), return_exceptions=True)
        await asyncio.Event().wait()

    def ring(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(Alarm):
            run(unmoved())
    finally:
        signal.signal(signal.SIGALRM, before)


def test_time_passes_for_a_wait_shorter_than_a_clock_resolves() -> None:
    async def waits() -> float:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(4.039999999999999)
        due = 4.04
        while loop.time() < due:  # noqa: ASYNC110  # as a dispatch does that comes back for the rest
            await asyncio.sleep(due - loop.time())
        return loop.time()

    assert run(waits()) == 4.04
