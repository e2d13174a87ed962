"""Time limits of attempts: one alarm for all, which notices when it is late."""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Any


class AttemptTimeouts:
    """Ends attempts that take too long, as `asyncio.timeout` does, with one alarm for all of them.

    An alarm for each costs 10 microseconds an attempt, and goes off late if the loop was blocked or the process
    stopped. So an expired attempt gets a few loop iterations to read a response that is already there, and a new limit
    if the alarm was very late.
    """

    LATE = 0.05
    """Seconds by which an alarm is late only if the loop stood still."""
    VERY_LATE = 0.25
    """Fraction of a limit by which its alarm must be late for a new limit."""
    ITERATIONS = 30
    """Loop iterations to read a response that is already there, one at least."""
    GRACE = 0.1
    """Seconds that these may take; an endless response must not hold the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: set[TimeLimit] = set()
        self._rings_at = math.inf
        self._alarm: asyncio.TimerHandle | None = None
        self._is_closed = False

    def limit(self, seconds: float, remaining: float) -> TimeLimit:
        """Return the limit of an attempt; a new one never exceeds the call's `remaining` seconds (maybe infinite)."""
        return TimeLimit(self, self._loop, seconds, remaining)

    def close(self) -> None:
        """End running attempts, as aiohttp 3.14 wakes no reader of a body when it closes; leave no alarm behind."""
        self._is_closed = True
        while self._running:
            self._running.pop().expire(late=0.0)
        self._cancel_needless_alarm()

    def start(self, limit: TimeLimit) -> None:
        """Watch over a limit."""
        self._running.add(limit)
        if limit.due < self._rings_at:
            self._set_alarm(limit.due)

    def end(self, limit: TimeLimit) -> None:
        """Forget a limit; the alarm stays for the next one."""
        self._running.discard(limit)
        if self._is_closed:
            self._cancel_needless_alarm()

    def _cancel_needless_alarm(self) -> None:
        if self._alarm is not None and not self._running:
            self._alarm.cancel()
            self._alarm, self._rings_at = None, math.inf

    def _set_alarm(self, due: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._rings_at = due
        self._alarm = self._loop.call_at(due, self._ring)

    def _ring(self) -> None:
        now = self._loop.time()
        self._alarm = None
        self._loop.call_soon(self._let_read, now - self._rings_at, now + self.GRACE, self.ITERATIONS)

    def _let_read(self, late: float, until: float, iterations: int) -> None:
        now = self._loop.time()
        if now < until and iterations > 1 and any(limit.due <= now for limit in self._running):
            self._loop.call_soon(self._let_read, late, until, iterations - 1)
            return
        late = max(late, now - until)  # the loop may have stood still again
        for limit in [limit for limit in self._running if limit.due <= now]:
            if not limit.restart(now, late):
                self._running.remove(limit)
                limit.expire(late)
        self._alarm, self._rings_at = None, math.inf
        if self._running:
            self._set_alarm(min(limit.due for limit in self._running))


class TimeLimit:
    """The time limit of one attempt: its block ends with a TimeoutError when it is due, by the loop's clock.

    After a TimeoutError, `inconclusive` is true if the service may not be the cause: the call's own time was over, or
    the loop stood still.
    """

    def __init__(
        self, timeouts: AttemptTimeouts, loop: asyncio.AbstractEventLoop, seconds: float, remaining: float
    ) -> None:
        now = loop.time()
        self._started = now
        self._timeouts = timeouts
        self._loop = loop
        self._seconds = seconds
        self._until = now + remaining
        self._is_restarted = False
        self._is_over = False
        self.due: float = now + min(seconds, remaining)
        self.inconclusive: bool = remaining < seconds

    def __enter__(self) -> TimeLimit:
        self._task: asyncio.Task[Any] = asyncio.current_task(self._loop)  # type: ignore[assignment]  # there is one
        self._cancelled_before = self._task.cancelling()
        self._timeouts.start(self)
        return self

    def restart(self, now: float, late: float) -> bool:
        """Start over once, within the call's time, if the alarm was very late; return whether it did."""
        if self._is_restarted or now >= self._until or late <= AttemptTimeouts.VERY_LATE * self._seconds:
            return False
        self._is_restarted = True
        self.due = min(now + self._seconds, self._until)
        return True

    def is_very_late(self, seconds: float) -> bool:
        """Return whether a limit of `seconds` from the start expired long ago, as the loop stood still."""
        return self._loop.time() - self._started > (1 + AttemptTimeouts.VERY_LATE) * seconds

    def expire(self, late: float) -> None:
        """End the block."""
        self.inconclusive = late > AttemptTimeouts.LATE or self.due >= self._until
        self._is_over = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timeouts.end(self)
        # another cancellation takes precedence
        if self._is_over and self._task.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
            raise TimeoutError from error
