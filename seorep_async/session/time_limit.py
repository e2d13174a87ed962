"""A limit to the time that an attempt takes."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any


class TimeLimit:
    """Does what `asyncio.timeout` does, at half its cost: every attempt of a pull of small pages pays it.

    Args:
        seconds: how long the block may take; it ends with a TimeoutError then.
        loop: the running event loop.
    """

    __slots__ = ("_alarm", "_cancelled_before", "_is_over", "_loop", "_seconds", "_task")

    def __init__(self, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        self._seconds = seconds
        self._loop = loop

    def __enter__(self) -> None:
        self._task: asyncio.Task[Any] = asyncio.current_task(self._loop)  # type: ignore[assignment]  # there is one
        self._cancelled_before = self._task.cancelling()
        self._is_over = False
        self._alarm = self._loop.call_later(self._seconds, self._end)

    def _end(self) -> None:
        self._is_over = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._alarm.cancel()
        # whoever cancelled us besides is owed the CancelledError
        if self._is_over and self._task.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
            raise TimeoutError from error
