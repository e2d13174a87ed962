"""Where time and chance come from, so that tests can put their own in."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs


class Alarm(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Take the call back."""


def _call_later(delay: float, call: Callable[[], None]) -> Alarm:
    return asyncio.get_running_loop().call_later(delay, call)


@attrs.frozen
class Clock:
    """The time, the waits and the randomness of one client.

    Attributes:
        monotonic: seconds of a clock that is never set.
        sleep: waits for a number of seconds.
        call_later: calls a function after a number of seconds.
        wall_clock: seconds since the epoch; only for HTTP dates and the day of a report.
        jitter: a random number from 0 to 1.
    """

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    call_later: Callable[[float, Callable[[], None]], Alarm] = _call_later
    wall_clock: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random
