"""Time limits for attempts, and for calls inside a `with` block."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

import msgspec

from seorep_async.errors import ConfigurationError

T = TypeVar("T")

TICK = 0.03
"""The seconds between two alarms while an attempt is due soon."""
_WATCH = 1.0
"""An attempt is due soon if its time ends within this many seconds."""
LATE = 0.05
"""An alarm that is later than this, in seconds, means that the loop was blocked, or the process
stopped.
"""
_EXTENSION = 0.15
"""After the loop was blocked, attempts go on for this many seconds, to read data that has already
arrived.
"""
EXTENSIONS = 3
"""The number of times that a blocked loop may prolong an attempt. Without a limit, the attempt
would never end in a program that always blocks the loop.
"""


class Deadline(msgspec.Struct, frozen=True):
    """The time by which a call must have ended. There are two rules:

    - `of_call`: the clock starts at the beginning of the call, and also runs while the call waits
      for a permit.
    - `of_stream`: the clock of each request starts with its first permit. The wait for that permit
      has no limit of its own. It ends when a `client.timeout()` around the stream runs out, or when
      an outage since the stream began has lasted longer than the time limit of a request.

    Attributes:
        at: monotonic time, or infinity without a limit.
        seconds_from_permit: the time limit of a request whose clock has not started, or None.
        stream_began: monotonic time. An outage counts only from then on.
    """

    at: float = math.inf
    seconds_from_permit: float | None = None
    stream_began: float = -math.inf

    @classmethod
    def of_call(cls, at: float) -> Deadline:
        return cls(at)

    @classmethod
    def of_stream(
        cls, seconds: float | None, at: float = math.inf, began: float = -math.inf
    ) -> Deadline:
        return cls(at, seconds, began)

    def begun(self, now: float) -> Deadline:
        """Return the deadline of a request that gets its first permit now."""
        if self.seconds_from_permit is None:
            return self
        return Deadline(min(self.at, now + self.seconds_from_permit))


class TimeLimits:
    """Ends attempts that take too long, and their decoding, like `asyncio.timeout`.

    One alarm serves all of them, because an alarm for each attempt would take 10 microseconds. It
    rings every `TICK` seconds while an attempt is due soon, so that a late ring shows that the loop
    was blocked.
    """

    def __init__(self) -> None:
        self.is_closed: bool = False
        self.running: set[TimeLimit] = set()
        self._alarm: asyncio.TimerHandle | None = None
        # When the attempt for which the alarm was set is due.
        self._next_due = math.inf

    def close(self) -> None:
        """End everything that has a time limit, and leave no alarm behind.

        Without this, attempts that are reading a body would wait: aiohttp 3.14 does not wake them
        on closing.
        """
        self.is_closed = True
        self._cancel_alarm()
        for limit in self.running:
            # The alarm may have ended this attempt in the same iteration of the loop.
            if not limit.is_over:
                limit.expire()

    def start(self, limit: TimeLimit) -> None:
        self.running.add(limit)
        if limit.due < self._next_due:
            self._cancel_alarm()
            self._set_alarm(limit.loop, limit.due)

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def _set_alarm(self, loop: asyncio.AbstractEventLoop, next_due: float) -> None:
        self._next_due = next_due
        alarm_due = max(loop.time() + TICK, next_due - _WATCH)
        self._alarm = loop.call_at(alarm_due, self._ring, loop, alarm_due)

    def _ring(self, loop: asyncio.AbstractEventLoop, alarm_due: float) -> None:
        """End due attempts, or prolong them if the loop was blocked, and set the next alarm.

        `alarm_due` is the planned time of this alarm.
        """
        now = loop.time()
        for limit in self.running:
            if limit.due > now:
                continue
            if now - alarm_due > LATE and limit.extensions > 0:
                # The loop was blocked. It may not yet have read a response that arrived meanwhile.
                limit.extensions -= 1
                limit.inconclusive = True
                limit.due = now + _EXTENSION
            elif not limit.is_over:
                limit.expire()
        self._next_due = min((limit.due for limit in self.running), default=math.inf)
        if self._next_due < math.inf:
            self._set_alarm(loop, self._next_due)


class TimeLimit:
    """Ends its block with a TimeoutError after `seconds`, or after the call's `remaining` seconds.

    `inconclusive` then says that the service may not be the cause, because the call's time was over
    or the loop was blocked. `extensions` is the number of times that a blocked loop may still
    prolong the `with` block.
    """

    def __init__(
        self,
        limits: TimeLimits,
        seconds: float,
        remaining: float = math.inf,
        extensions: int = EXTENSIONS,
    ) -> None:
        self._limits = limits
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._started = self.loop.time()
        self.due: float = self._started + min(seconds, remaining)
        self.extensions = extensions
        self.is_over: bool = False
        self.inconclusive: bool = remaining <= seconds

    def __enter__(self) -> TimeLimit:
        # Attempts always run in a task, so this is never None.
        task: Any = asyncio.current_task(self.loop)
        self._task: asyncio.Task[Any] = task
        self._cancelled_before = self._task.cancelling()
        self._limits.start(self)
        return self

    def is_very_late(self, seconds: float) -> bool:
        """Return whether far more than `seconds` has passed, because the loop was blocked."""
        # a busy loop is always a little late
        return self.loop.time() - self._started > 1.25 * seconds

    def expire(self) -> None:
        """End the block."""
        self.is_over = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        """Replace the cancellation by `expire` with a TimeoutError."""
        self._limits.running.discard(self)
        if not self.is_over:
            return
        # If something else cancelled the task as well, that cancellation takes precedence.
        is_only_ours = self._task.uncancel() <= self._cancelled_before
        if is_only_ours and kind is asyncio.CancelledError:
            raise TimeoutError from error


class ContextBlock(Generic[T]):
    """A `with` block that also applies to tasks started inside it.

    Unlike a block of `contextlib`, it is not a decorator: on an `async def`, the block would end
    before the function runs.
    """

    def __init__(self, variable: ContextVar[ContextBlocks[T]], owner: object, value: T) -> None:
        self._variable = variable
        self.owner = owner
        self.value = value

    def __enter__(self) -> T:
        self._variable.set((*self._variable.get(), self))
        return self.value

    def __exit__(self, *_: object) -> None:
        blocks = list(self._variable.get())
        # An asynchronous generator may be closed in another context, without this block.
        if self in blocks:
            blocks.remove(self)
        self._variable.set(tuple(blocks))

    def __call__(self, function: object) -> NoReturn:
        """Raise a ConfigurationError, because this is not a decorator."""
        raise ConfigurationError(
            "this is not a decorator: write `with client.…(…):` inside the function"
        )


ContextBlocks: TypeAlias = tuple[ContextBlock[T], ...]
_limits: ContextVar[ContextBlocks[float]] = ContextVar("seorep_async_call_timeouts", default=())
"""The blocks of `client.timeout()` around the current code, of all clients."""


class CallTimeout:
    """The time limit of a client's calls. A block may shorten `Settings.call_timeout`."""

    def __init__(self, seconds: float | None, monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._monotonic = monotonic

    def limit(self, seconds: float) -> ContextBlock[float]:
        """Limit every call that begins inside a block, or in a task started there."""
        return ContextBlock(_limits, self, seconds)

    def deadline(self) -> Deadline:
        """Return the deadline of a call that begins now."""
        shortest = self._shortest()
        if self._seconds is not None:
            shortest = min(shortest, self._seconds)
        return Deadline.of_call(self._monotonic() + shortest)

    def stream_deadline(self) -> Deadline:
        """Return the deadline of the requests of a stream or pull that begins now."""
        now = self._monotonic()
        return Deadline.of_stream(self._seconds, now + self._shortest(), began=now)

    def _shortest(self) -> float:
        own = [block.value for block in _limits.get() if block.owner is self]
        return min(own, default=math.inf)
