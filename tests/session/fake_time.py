"""Time in which the client's sleeps are over at once, and chance that is chosen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from seorep_async.session import Clock


class FakeTime:
    """Stands in for clock, sleep, alarms, wall clock and randomness of a client.

    A sleep takes no time, but the clock shows afterwards that it was slept; alarms that fall into it go off.

    Attributes:
        slept: the waits asked for, in seconds, in order.
        jitter: the random number that is always drawn; with 1 a back-off is as long as it can be.
        wall: what the wall clock shows; only sleeps move it.
        waiting: set while a sleep is held up.
        going_on: clear it to hold sleeps up until it is set again.
    """

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.jitter = 1.0
        self.wall = 1_700_000_000.0
        self.waiting = asyncio.Event()
        self.going_on = asyncio.Event()
        self.going_on.set()
        self._skipped = 0.0
        self._alarms: set[_Alarm] = set()
        self.clock = Clock(
            monotonic=lambda: self.monotonic,
            sleep=self._sleep,
            call_later=self._call_later,
            wall_clock=lambda: self.wall,
            jitter=lambda: self.jitter,
        )

    @property
    def monotonic(self) -> float:
        """What the clock shows."""
        return time.monotonic() + self._skipped

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.waiting.set()
        await self.going_on.wait()
        self.waiting.clear()
        self._skipped += seconds
        self.wall += seconds
        for alarm in [alarm for alarm in self._alarms if alarm.due <= self.monotonic]:
            alarm.go_off()
        await asyncio.sleep(0)

    def _call_later(self, delay: float, call: Callable[[], None]) -> _Alarm:
        return _Alarm(self._alarms, self.monotonic + delay, delay, call)


class _Alarm:
    def __init__(self, alarms: set[_Alarm], due: float, delay: float, call: Callable[[], None]) -> None:
        self.due = due
        self._alarms = alarms
        self._call = call
        self._handle = asyncio.get_running_loop().call_later(delay, self.go_off)
        alarms.add(self)

    def go_off(self) -> None:
        self.cancel()
        self._call()

    def cancel(self) -> None:
        self._handle.cancel()
        self._alarms.discard(self)
