"""How far a pull is, shown while it runs: a bar on a terminal, or else a plain line a minute."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Column

from seorep_async.cli.wording import duration
from seorep_async.client import SeoRepClient
from seorep_async.export import PullProgress, Stage
from seorep_async.models import Feed

_DOING = {
    Stage.LISTING: "Listing campaigns",
    Stage.KEYWORDS: "Finding keywords",
    Stage.ROWS: "Pulling {feed} feed",
    Stage.WRITING: "Writing",
}
_WAITING_FOR = {
    "pace": "paced by the service's limit",
    "asked to wait": "the service asked to wait",
    "outage": "nothing gets through, trying again",
    "backoff": "retrying",
}
"""The waits worth telling, by their names in the client's figures; waiting for others in flight is as it should be."""
_TICK_SECONDS = 0.5
_LINE_SECONDS = 60.0
_ENOUGH_SECONDS = 2.0


class ProgressDisplay:
    """Shows a pull's progress on stderr while the block runs; an async context manager.

    Args:
        console: where it is shown.
        client: whose waits are told.
        quiet: show nothing.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        console: Console,
        client: SeoRepClient,
        *,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._client = client
        self._quiet = quiet
        self._clock = clock
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[told]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._progress: PullProgress | None = None
        self._stage: tuple[Stage, Feed] | None = None
        self._stage_began = self._last_line = clock()
        self._rows_before = self._done_before = self._done_at_last_look = 0
        self._waited: Mapping[str, float] = {}
        self._waiting = ""

    async def __aenter__(self) -> ProgressDisplay:
        self._bar.start()
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._ticking
        self._bar.stop()

    def show(self, progress: PullProgress) -> None:
        """Take how far the pull is; it is shown soon."""
        stage = progress.stage, progress.feed
        if stage != self._stage:
            self._stage, self._stage_began = stage, self._clock()
            self._rows_before, self._done_before = progress.rows, progress.done
            if self._task is not None:
                self._bar.remove_task(self._task)
            words = _DOING[progress.stage].format(feed=progress.feed.value)
            self._task = self._bar.add_task(words, total=progress.total, told="")
        self._progress = progress
        if self._task is not None:
            self._bar.update(self._task, completed=progress.done, told=self.told())

    def told(self) -> str:
        """Return how far the pull is in words: counts, rate, what it waits for, time left."""
        progress = self._progress
        if progress is None or progress.total is None:
            return self._waiting
        by_keyword = progress.feed is Feed.KEYWORD_BY_DATE and progress.stage is Stage.ROWS
        parts = [f"{progress.done:,}/{progress.total:,} {'keywords' if by_keyword else 'campaigns'}"]
        seconds = self._clock() - self._stage_began
        if progress.stage is Stage.ROWS:
            parts.append(f"{progress.rows:,} rows")
            if seconds >= _ENOUGH_SECONDS:
                parts.append(f"{(progress.rows - self._rows_before) / seconds:,.0f} rows/s")
        if progress.failures:
            parts.append(f"{progress.failures:,} failed")
        if self._waiting:
            parts.append(self._waiting)
        done, left = progress.done - self._done_before, progress.total - progress.done
        if done and left and seconds >= _ENOUGH_SECONDS:
            parts.append(f"{duration(left * seconds / done, rough=True)} left")
        return " · ".join(parts)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._look_what_it_waits_for()
            if self._task is not None:
                self._bar.update(self._task, told=self.told())
            if self._clock() - self._last_line >= _LINE_SECONDS:
                self._last_line = self._clock()
                if not self._quiet and not self._console.is_terminal and self._progress is not None:
                    words = _DOING[self._progress.stage].format(feed=self._progress.feed.value)
                    told = self.told()
                    self._console.print(f"{words}: {told}" if told else words, markup=False)

    def _look_what_it_waits_for(self) -> None:
        stats = self._client.stats
        waited = {reason: stats.waited.get(reason, 0.0) for reason in _WAITING_FOR}
        grown = {reason: seconds - self._waited.get(reason, 0.0) for reason, seconds in waited.items()}
        self._waited = waited
        reason = max(grown, key=lambda one: grown[one])
        done = self._progress.done if self._progress is not None else 0
        if grown[reason] > 0:
            self._waiting = _WAITING_FOR[reason]
        elif done != self._done_at_last_look:
            self._waiting = ""
        elif not stats.in_flight and any(stats.retries.values()):
            self._waiting = self._waiting or _WAITING_FOR["backoff"]  # a wait is counted when it is over
        self._done_at_last_look = done
