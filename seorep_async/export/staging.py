"""From the event loop to the disk: where reports are put as they come, and what takes long is done in a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

from seorep_async.export.progress import ProgressTracker, PullFailure
from seorep_async.export.work import Arrived, Work
from seorep_async.models import Feed

_LARGE_ROWS = 4_000
_SYNC_SECONDS = 1.0

T = TypeVar("T")


class Stopped(Exception):
    """The pull is being left, so what its thread does ends early."""


class StagingWriter:
    """Does the work of a pull that touches the disk, one step at a time; an async context manager.

    A report is kept before the next one is taken, so no more than a pull has in progress can be lost at any time. A
    small one is written at once: a thread would wait for the interpreter's lock ten times as long as that takes.

    Args:
        work: where it is kept; is entered and left with the shelf.
        tally: is told of what is kept, and of what can't be.
    """

    def __init__(self, work: Work, tally: ProgressTracker) -> None:
        self._work = work
        self._tally = tally
        self._thread = ThreadPoolExecutor(1, "seorep-export")
        self._leaving = threading.Event()
        self._next_sync = time.monotonic() + _SYNC_SECONDS

    async def __aenter__(self) -> StagingWriter:
        try:
            await self.do(self._work.__enter__)
        except BaseException:
            self._thread.shutdown()
            if self._work.is_open:  # it was interrupted as the work was entered
                self._work.__exit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leaving.set()
        try:
            # not awaited: a second Ctrl-C must not come between what was fetched and the disk
            self._thread.submit(self._work.__exit__, None, None, None).result()
        finally:
            self._thread.shutdown()

    async def do(self, step: Callable[..., T], *args: Any) -> T:
        """Do a step in the thread, after those before it."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: step(*args))

    def check(self) -> None:
        """Say in the thread whether to go on.

        Raises:
            Stopped: the pull is being left.
        """
        if self._leaving.is_set():
            raise Stopped

    async def keep(self, feed: Feed, arrived: Arrived) -> None:
        """Write a report, and note that it is done.

        Raises:
            ExportError: it could not be written.
        """
        if len(arrived.report.rows) > _LARGE_ROWS:
            stored = await self.do(self._work.store, feed, arrived)
        else:
            stored = self._work.store(feed, arrived)
        for campaign_id, keyword_id, error in stored.failures:
            self._tally.failures.append(PullFailure(feed, campaign_id, keyword_id, error))
        self._tally.step(rows=stored.rows)
        if time.monotonic() >= self._next_sync:
            await self.do(self._work.sync)
            self._next_sync = time.monotonic() + _SYNC_SECONDS
