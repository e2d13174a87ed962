"""Time in which the client's sleeps end at once, and random numbers of the test's choice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from seorep_async.session import Clock


class FakeTime:
    """Stands in for the clock, sleeps, alarms, wall clock and randomness of a client.

    A sleep takes no time, but clocks show afterwards that it was slept, and alarms that fall into
    it go off.

    Attributes:
        slept: the waits.
        jitter: the random number that is always drawn. With 1, a back-off is as long as it can be.
        going_on: cleared by a test to hold a sleep up.
        waiting: set while a sleep is held up.
    """

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.jitter = 1.0
        self.wall = 1_700_000_000.0
        self.waiting = asyncio.Event()
        self.going_on = asyncio.Event()
        self.going_on.set()
        self._skipped = 0.0
        self._alarms: dict[asyncio.TimerHandle, tuple[float, Callable[[], None]]] = {}
        self.clock = Clock(
            monotonic=lambda: self.monotonic,
            sleep=self._sleep,
            call_later=self._call_later,
            wake_later=self._wake_later,
            wall_clock=lambda: self.wall,
            jitter=lambda: self.jitter,
        )

    @property
    def monotonic(self) -> float:
        """The time that the clock shows."""
        return time.monotonic() + self._skipped

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.waiting.set()
        await self.going_on.wait()
        self.waiting.clear()
        self._skipped += seconds
        self.wall += seconds
        for alarm, (due, go_off) in list(self._alarms.items()):
            if due <= self.monotonic and not alarm.cancelled():
                go_off()
        await asyncio.sleep(0)

    def _call_later(self, delay: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        def go_off() -> None:
            del self._alarms[alarm]
            alarm.cancel()
            call()

        alarm = asyncio.get_running_loop().call_later(delay, go_off)
        self._alarms[alarm] = self.monotonic + delay, go_off
        return alarm

    def _wake_later(self, delay: float, wake: Callable[[], None]) -> asyncio.TimerHandle:
        """End the queue's wait for the end of a pause at once."""

        def skip() -> None:
            self.slept.append(round(delay, 2))
            self._skipped += delay
            self.wall += delay
            wake()

        return asyncio.get_running_loop().call_later(0, skip)
