"""What a simulation does when the test's own time is over."""

import asyncio
import math
import signal

import pytest

from tests.session.virtual_loop import here, run


class Alarm(BaseException):
    """What pytest-timeout raises is no Exception either."""


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


def test_a_wait_of_less_than_the_resolution_ends() -> None:
    async def wait() -> float:
        loop = here()
        loop.now = 0.15
        moment, ended = math.nextafter(loop.now, 1), asyncio.Event()

        def look() -> None:
            if moment > loop.now:
                loop.call_later(moment - loop.now, look)
            else:
                ended.set()

        look()
        await ended.wait()
        return loop.now

    assert run(wait()) == math.nextafter(0.15, 1)
