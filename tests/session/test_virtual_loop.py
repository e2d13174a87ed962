"""What a simulation does when the test's own time is over."""

import asyncio
import math
import signal

import pytest

from tests.session.virtual_loop import at_rest, here, run


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
        loop, ended = here(), []
        loop.now = 0.15
        moment = math.nextafter(loop.now, 1)

        def look() -> None:
            if moment > loop.now:
                loop.call_later(moment - loop.now, look)
            else:
                ended.append(loop.now)

        look()
        await at_rest()
        await asyncio.sleep(0.001)
        return ended[0]

    assert run(wait()) == math.nextafter(0.15, 1)
