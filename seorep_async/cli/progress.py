"""A pull while it runs: its progress, a bar on a terminal, elsewhere a line a minute; what the library logs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Generator

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from seorep_async.cli.errors import in_shell_words
from seorep_async.cli.output import counted, duration, messages
from seorep_async.client import SeoRepClient
from seorep_async.errors import one_line
from seorep_async.export import PullProgress, Stage
from seorep_async.models import Feed

_TICK_SECONDS = 0.5
_LINE_SECONDS = 60.0
_SPEED_SECONDS = 120.0
_WAITING_FOR = {
    "pace": "at {} limit",
    "asked to wait": "the service asked for a pause",
    "outage": "no responses, trying again",
    "backoff": "retrying",
}
_LIBRARY = logging.getLogger("seorep_async")


class ProgressDisplay:
    """Shows a pull's progress and its client's waits on stderr."""

    def __init__(self, console: Console, client: SeoRepClient) -> None:
        self._console, self._client = console, client
        self.label = ""
        """What is pulled, in front of the stage."""
        self.state: PullProgress | None = None
        """The last state of the pull."""
        bar = [BarColumn(20)] if console.width >= 100 else []
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            *bar,
            TextColumn("{task.fields[words]}", markup=False),
            console=console,
            transient=True,
            disable=console.quiet or not console.is_terminal or console.is_dumb_terminal,
            speed_estimate_period=_SPEED_SECONDS,
        )
        self._task = self._bar.add_task("", total=None, words="")
        self._before = client.stats

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Show it while the block runs."""
        ticking = asyncio.create_task(self._tick())
        with self._bar:
            try:
                yield
            finally:
                ticking.cancel()

    def show(self, state: PullProgress) -> None:
        """Take a new state of the pull; it is shown soon."""
        if self.state is None or (state.stage, state.feed) != (self.state.stage, self.state.feed):
            self._bar.reset(self._task, total=state.total, completed=state.done, words="")
        self.state = state

    @property
    def place(self) -> str:
        """How far it is, in words."""
        state = self.state
        return "" if state is None or state.total is None else f" at {state.done:,} of {state.total:,} reports"

    async def _tick(self) -> None:
        line_at = time.monotonic()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            if self.state is not None:
                self._bar.update(self._task, completed=self.state.done, total=self.state.total)
            doing, words = self._described()
            self._bar.update(self._task, description=doing, words=words)
            if self._bar.disable and time.monotonic() - line_at >= _LINE_SECONDS:
                line_at = time.monotonic()
                self._console.print(f"{doing}: {words}")

    def _described(self) -> tuple[str, str]:
        """Return what is done, and the progress: counts, time left, waits, failures, rows."""
        state, waiting = self.state, self._waiting()
        if state is None:
            return f"{self.label}Connecting", waiting
        doing = f"Pulling {state.feed.value}" if state.stage is Stage.ROWS else state.stage.value.capitalize()
        parts = []
        if state.total is not None:
            of_keywords = state.feed is Feed.KEYWORD_BY_DATE and state.stage is Stage.ROWS
            parts.append(f"{state.done:,}/{counted(state.total, 'keyword' if of_keywords else 'campaign')}")
            if seconds := self._bar.tasks[0].time_remaining:
                parts.append(f"{duration(seconds)} left")
        failures = f"{state.failures:,} failed" if state.failures else ""
        rows = counted(state.rows, "row") if state.stage is Stage.ROWS else ""
        return f"{self.label}{doing}", " · ".join(filter(None, [*parts, waiting, failures, rows]))

    def _waiting(self) -> str:
        """Return what requests waited for longest since the last call."""
        stats, own = self._client.stats, self._client.settings.requests_per_second
        waited, self._before = stats.since(self._before).waited, stats
        longest = max(_WAITING_FOR, key=lambda name: waited.get(name, 0.0))
        limit = "your own" if own is not None and (stats.pace is None or stats.pace >= own) else "the service's"
        return _WAITING_FOR[longest].format(limit) if waited.get(longest) else ""


class _Lines(logging.Handler):
    """Prints what the library logs above the progress, in the words of the shell; warnings once, and collects them."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.DEBUG)
        self._console = console
        self.warnings: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = one_line(in_shell_words(record.getMessage()))
        if record.levelno < logging.WARNING:
            self._console.print(Text(f"{time.strftime('%H:%M:%S')} {message}", style="dim"))
        elif message not in self.warnings:
            self.warnings.append(message)
            self._console.print(Text.assemble(("Warning:", "yellow"), f" {message}"))


@contextlib.contextmanager
def logged(console: Console | None = None, *, verbose: bool = False) -> Generator[list[str]]:
    """Print what the library logs while the block runs: warnings, or everything; give the list of warnings."""
    handler, before = _Lines(console or messages()), _LIBRARY.level
    _LIBRARY.addHandler(handler)
    _LIBRARY.setLevel(logging.DEBUG if verbose else logging.WARNING)
    try:
        yield handler.warnings
    finally:
        _LIBRARY.setLevel(before)
        _LIBRARY.removeHandler(handler)
