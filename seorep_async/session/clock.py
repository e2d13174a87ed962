"""The source of time and random numbers. Tests replace it."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

import attrs

from seorep_async.plain_values import UNFROZEN


def _wall_clock() -> float:
    return time.time()  # looked up at each call, because tests freeze it


def _call_later(delay: float, call: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(delay, call)


@attrs.frozen
class Clock:
    """The time, the timers (in seconds) and the random numbers (0 to 1) of one client.

    `call_later` is for time limits. `wake_later` is for requests that wait for a permit; it is
    separate so that tests can end these waits at once. `wall_clock`, in seconds since the epoch, is
    for HTTP dates, the day of a report, and times that people read.
    """

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
    call_later: Callable[[float, Callable[[], None]], asyncio.TimerHandle] = _call_later
    wake_later: Callable[[float, Callable[[], None]], asyncio.TimerHandle] = _call_later
    wall_clock: Callable[[], float] = _wall_clock
    jitter: Callable[[], float] = random.random

    def now(self) -> dt.datetime:
        """Return the time in UTC, without a zone."""
        return UNFROZEN.datetime.fromtimestamp(self.wall_clock(), dt.UTC).replace(tzinfo=None)


SYSTEM = Clock()
"""The default clock of a session."""
