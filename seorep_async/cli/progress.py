"""A pull while it runs: its progress, a bar on a terminal, otherwise a plain line a minute; warnings; the log."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import logging
import os
import re
import time
from collections.abc import Callable, Generator, Mapping
from types import TracebackType

import attrs
import click
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.constrain import Constrain
from rich.progress import BarColumn, Progress, RenderableColumn, SpinnerColumn, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from seorep_async.cli.exit_codes import counted, in_shell_words
from seorep_async.cli.terminal import duration, print_hanging, stderr_console
from seorep_async.client import SeoRepClient
from seorep_async.errors import one_line
from seorep_async.models import Feed
from seorep_async.old_export import PullProgress, Stage

_WAITING_FOR = {
    "pace": "at the service's limit",
    "asked to wait": "the service asked for a pause",
    "outage": "no responses, trying again",
    "backoff": "retrying",
}
"""The waits worth showing, by their names in the client's statistics; waiting for requests in flight is normal."""
_TICK_SECONDS = 0.5
_LINE_SECONDS = 60.0
_ENOUGH_SECONDS = 2.0
_WIDE, _NARROW = 100, 60
"""Columns from which everything is shown, and below which there is no bar."""
_COLUMNS_FOR_INTERRUPTS = 4
"""A terminal echoes ^C behind the line; if that wrapped the line, it would not be erased completely."""


@attrs.define
class _Words:
    """The progress in words, cut to the room that other columns leave, but not within a number."""

    words: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cut = self.words
        if len(cut) > options.max_width:
            cut = re.sub(r"( ·[ \d,]*| )$", "", cut[: options.max_width - 1]) + "…"
        yield Text(cut, no_wrap=True)


@attrs.frozen
class _Shorter:
    """Renders something in less than the terminal's width."""

    whole: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Constrain(self.whole, max(1, options.max_width - _COLUMNS_FOR_INTERRUPTS))


class _Line(Progress):
    """A progress display that leaves room for echoed interrupts."""

    def get_renderable(self) -> RenderableType:
        return _Shorter(super().get_renderable())


class ProgressDisplay:
    """Shows a pull's progress and its client's waits on stderr while the block runs; an async context manager.

    The clock counts monotonic seconds.
    """

    def __init__(self, console: Console, client: SeoRepClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._client = client
        self._clock = clock
        self.label: str = ""
        """What is pulled, in front of the stage."""
        self._may_redraw = console.is_terminal and not console.is_dumb_terminal
        self._is_wide = console.width >= _WIDE
        self._words = _Words()
        self._bar = _Line(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            *([BarColumn(20 if self._is_wide else 10)] if console.width >= _NARROW else []),
            RenderableColumn(self._words, table_column=Column(ratio=1)),
            console=console,
            expand=True,
            transient=True,
        )
        self._shows_bar = self._may_redraw and not console.quiet
        self._task: TaskID | None = None
        self._progress: PullProgress | None = None
        self._stage: tuple[Stage, Feed] | None = None
        self._stage_began = self._last_done = self._last_line = clock()
        self._rows_before = self._done_before = self._done_before_tick = 0
        self._waited: Mapping[str, float] = {}
        self._waiting = ""

    async def __aenter__(self) -> ProgressDisplay:
        if self._shows_bar:
            self._bar.start()
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._ticking
        if self._shows_bar:
            self._bar.stop()

    def show(self, progress: PullProgress) -> None:
        """Take a new state of the pull; it is shown soon."""
        stage = progress.stage, progress.feed
        if stage != self._stage:
            self._stage, self._stage_began = stage, self._clock()
            self._rows_before, self._done_before = progress.rows, progress.done
            self._update_waiting()  # the waits so far belong to the stage before
            self._waiting, self._done_before_tick = "", progress.done
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(self._doing(progress), total=progress.total)
            self._last_done = self._stage_began
        elif self._progress is not None and progress.done != self._progress.done:
            self._last_done = self._clock()
        self._progress = progress
        self._words.words = self.describe()
        if self._task is not None:
            self._bar.update(self._task, completed=progress.done)

    def describe(self) -> str:
        """Return the progress in words, the most important first: counts, time left, waits, failures, rows, rate."""
        progress = self._progress
        if progress is None or progress.total is None:
            return self._waiting
        by_keyword = progress.feed is Feed.KEYWORD_BY_DATE and progress.stage is Stage.ROWS
        object_name = "keyword" if by_keyword else "campaign"
        parts = [f"{progress.done:,}/{counted(progress.total, object_name)}"]
        seconds = self._clock() - self._stage_began
        done, remaining = progress.done - self._done_before, progress.total - progress.done
        if done and remaining and seconds >= _ENOUGH_SECONDS and not self._is_stalled():
            parts.append(f"{duration(remaining * seconds / done, rough=True)} left")
        if self._waiting:
            parts.append(self._waiting)
        if progress.failures:
            parts.append(f"{progress.failures:,} failed")
        if progress.stage is Stage.ROWS:
            parts.append(counted(progress.rows, "row"))
            if seconds >= _ENOUGH_SECONDS:
                parts.append(f"{(progress.rows - self._rows_before) / seconds:,.0f}/s")
        return " · ".join(parts)

    def _is_stalled(self) -> bool:
        """Return whether nothing arrives any more, so that the rate so far predicts nothing."""
        waiting = self._waiting not in ("", _WAITING_FOR["pace"])
        return waiting and self._clock() - self._last_done >= _ENOUGH_SECONDS

    def _doing(self, progress: PullProgress) -> str:
        stage = f"pulling {progress.feed.value}" if progress.stage is Stage.ROWS else progress.stage.value
        doing = f"{self.label}{stage.capitalize()}"
        # at 80 columns the time left must have room beside the longest feed name
        return doing if self._is_wide else doing.removeprefix("Pulling ")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self.tick()

    def tick(self) -> None:
        """Read the clock and the client's waits, and show them."""
        self._update_waiting()
        self._words.words = self.describe()
        if self._clock() - self._last_line >= _LINE_SECONDS:
            self._last_line = self._clock()
            if not self._may_redraw and self._progress is not None:
                doing, progress = self._doing(self._progress), self.describe()
                self._console.print(f"{doing}: {progress}" if progress else doing, markup=False)

    def _update_waiting(self) -> None:
        stats = self._client.stats
        waited = {reason: stats.waited.get(reason, 0.0) for reason in _WAITING_FOR}
        grown = {reason: seconds - self._waited.get(reason, 0.0) for reason, seconds in waited.items()}
        self._waited = waited
        reason = max(grown, key=lambda one: grown[one])
        done = self._progress.done if self._progress is not None else 0
        if self._progress is not None and self._progress.stage is Stage.WRITING:
            self._waiting = ""
        elif grown[reason] > 0:
            self._waiting = _WAITING_FOR[reason]
        elif done != self._done_before_tick:
            self._waiting = ""
        elif not stats.in_flight and any(stats.retries.values()):
            self._waiting = self._waiting or _WAITING_FOR["backoff"]  # a wait is counted when it is over
        self._done_before_tick = done


_OWN_FIELDS = {*vars(logging.makeLogRecord({})), "message", "asctime"}
_LIBRARY = logging.getLogger("seorep_async")


class _Warnings(logging.Handler):
    """Collects warnings, each once and in the words of the shell."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        warning = one_line(in_shell_words(record.getMessage()))
        self.found.extend([warning] * (warning not in self.found))


class _LogLines(logging.Handler):
    """Prints records above the progress bar."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.DEBUG)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        time = dt.datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        self._console.print(Text(f"{time} {one_line(in_shell_words(record.getMessage()))}", style="dim"))


class _LogFile(logging.Handler):
    """Appends a line of JSON for each record until that fails: a full disk must not stop the pull."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(logging.DEBUG)
        self._descriptor = descriptor
        self.problem: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.problem is not None:
            return
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        fields = {"time": moment, "level": record.levelname, "message": record.getMessage()}
        fields |= {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}
        if record.exc_info:
            fields["exception"] = logging.Formatter().formatException(record.exc_info)
        try:
            os.write(self._descriptor, f"{json.dumps(fields, default=str)}\n".encode())
        except OSError as error:
            self.problem = error.strerror


@contextlib.contextmanager
def shown_warnings() -> Generator[list[str]]:
    """Collect the library's warnings, and print them at the end."""
    warnings = _Warnings()
    _LIBRARY.addHandler(warnings)
    try:
        yield warnings.found
    finally:
        _LIBRARY.removeHandler(warnings)
        for warning in warnings.found:
            _print_warning(warning)


@contextlib.contextmanager
def written_log(console: Console, *, verbose: bool, file: str | None) -> Generator[None]:
    """Write what the library logs while the block runs; a file is opened at once, and only its owner may read it."""
    with contextlib.ExitStack() as ending:
        handlers: list[logging.Handler] = [_LogLines(console)] if verbose else []
        if file is not None:
            handlers.append(ending.enter_context(_opened(file)))
        if handlers:
            ending.callback(_LIBRARY.setLevel, _LIBRARY.level)
            _LIBRARY.setLevel(logging.DEBUG)
        for handler in handlers:
            _LIBRARY.addHandler(handler)
            ending.callback(_LIBRARY.removeHandler, handler)
        yield


@contextlib.contextmanager
def _opened(path: str) -> Generator[_LogFile]:
    try:
        # a pipe that nobody reads must not hold the command up
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o600)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.UsageError(f"--log-file: can't open {one_line(path)}: {reason}.") from None
    handler = _LogFile(descriptor)
    try:
        yield handler
    finally:
        os.close(descriptor)
        if handler.problem is not None:
            _print_warning(f"the log in {one_line(path)} is incomplete: {handler.problem}")


def _print_warning(warning: str) -> None:
    print_hanging(stderr_console(), Text.assemble(("Warning:", "yellow"), f" {warning}"), 2)
