"""The time limit of calls: `Settings.call_timeout`, or a shorter one for the calls of a context."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from seorep_async.session.contexts import added

_limits: ContextVar[tuple[tuple[CallTimeout, float], ...]] = ContextVar("seorep_async_call_timeouts", default=())


class CallTimeout:
    """The time limits of one client's calls."""

    def __init__(self, seconds: float | None, monotonic: Callable[[], float]) -> None:
        self.seconds: float = math.inf if seconds is None else seconds
        self._monotonic = monotonic

    @contextmanager
    def limit(self, seconds: float) -> Generator[None]:
        """Limit every call that begins inside a block, or in a task that is started there."""
        with added(_limits, (self, seconds)):
            yield

    def deadline(self) -> float:
        """Return the monotonic time at which a call that begins now must have ended."""
        seconds = min(self.seconds, self._shortest()) if _limits.get() else self.seconds
        return self._monotonic() + seconds

    def stream_deadline(self) -> float | None:
        """Return the same for a call whose results are streamed, or None if only its requests are limited, each."""
        shortest = self._shortest()
        return None if shortest == math.inf else self._monotonic() + shortest

    def _shortest(self) -> float:
        return min((seconds for timeout, seconds in _limits.get() if timeout is self), default=math.inf)
