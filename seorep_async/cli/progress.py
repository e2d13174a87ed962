"""A pull while it runs: its progress, a bar on a terminal, elsewhere a line a minute; what the library logs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Generator

import attrs
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from seorep_async.cli.errors import in_shell_words
from seorep_async.cli.output import counted, duration, messages
from seorep_async.client import SeoRepClient
from seorep_async.errors import one_line
from seorep_async.export import PullProgress, Stage
from seorep_async.session import Stats

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


@attrs.define
class Display:
    """What is shown of a pull: its last state, and a label in front of the stage."""

    label: str = ""
    state: PullProgress | None = None

    @property
    def place(self) -> str:
        """How far it is, in words."""
        state = self.state
        return (
            ""
            if state is None or state.total is None
            else f" at {state.done:,} of {state.total:,} reports"
        )

    def described(self, waiting: str, seconds_left: float | None) -> tuple[str, str]:
        """Return what is done, and the progress: counts, time left, waits, failures, rows."""
        state = self.state
        if state is None:
            return f"{self.label}Connecting", waiting
        is_of_rows = state.stage is Stage.ROWS
        doing = f"Pulling {state.feed.value}" if is_of_rows else state.stage.value.capitalize()
        parts = [waiting]
        if state.total is not None:
            noun = state.feed.object_name if is_of_rows else "campaign"
            left = f"{duration(seconds_left)} left" if seconds_left else ""
            parts = [f"{state.done:,}/{counted(state.total, noun)}", left, waiting]
        parts.append(f"{state.failures:,} failed" if state.failures else "")
        parts.append(counted(state.rows, "row") if is_of_rows else "")
        return f"{self.label}{doing}", " · ".join(filter(None, parts))


@contextlib.asynccontextmanager
async def shown(display: Display, console: Console, client: SeoRepClient) -> AsyncGenerator[None]:
    """Show a pull's progress and its client's waits on stderr while the block runs."""
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        *([BarColumn(20)] if console.width >= 100 else []),
        TextColumn("{task.fields[words]}", markup=False),
        console=console,
        transient=True,
        disable=console.quiet or not console.is_interactive,
        speed_estimate_period=_SPEED_SECONDS,
    )
    with bar:
        ticking = asyncio.create_task(_tick(display, bar, client))
        try:
            yield
        finally:
            ticking.cancel()


async def _tick(display: Display, bar: Progress, client: SeoRepClient) -> None:
    task, stage, before, line_at = (
        bar.add_task("", total=None, words=""),
        None,
        client.stats,
        time.monotonic(),
    )
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        if (state := display.state) is not None:
            if stage != (state.stage, state.feed):
                stage = state.stage, state.feed
                bar.reset(task, total=state.total, completed=state.done, words="")
            bar.update(task, completed=state.done, total=state.total)
        now = client.stats
        doing, words = display.described(
            _waiting(client, now.since(before)), bar.tasks[0].time_remaining
        )
        bar.update(task, description=doing, words=words)
        before = now
        if bar.disable and time.monotonic() - line_at >= _LINE_SECONDS:
            line_at = time.monotonic()
            bar.console.print(f"{doing}: {words}")


def _waiting(client: SeoRepClient, stats: Stats) -> str:
    """Return what requests waited for longest."""
    longest, own = (
        max(_WAITING_FOR, key=lambda name: stats.waited.get(name, 0.0)),
        client.settings.requests_per_second,
    )
    limit = (
        "your own"
        if own is not None and (stats.pace is None or stats.pace >= own)
        else "the service's"
    )
    return _WAITING_FOR[longest].format(limit) if stats.waited.get(longest) else ""


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
