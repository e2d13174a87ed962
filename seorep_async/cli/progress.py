"""The progress of a pull while it runs, and what the library logs meanwhile.

On a terminal the progress is a bar; in a log it is a line a minute.
"""

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

from seorep_async.cli.errors import with_option_names
from seorep_async.cli.output import messages
from seorep_async.client import SeoRepClient
from seorep_async.errors import counted, duration, one_line
from seorep_async.export import PullProgress, Stage
from seorep_async.session import Stats

_TICK_SECONDS = 0.5
_LINE_SECONDS = 60.0
_SPEED_SECONDS = 120.0
"""The time over which the speed is measured to estimate the remaining time."""
_WIDTH_OF_BAR = 20
_LEAST_COLUMNS = 100
"""A narrower terminal has no room for a bar beside the words."""
_WAITING_FOR = {
    "pace": "at {} limit",
    "asked to wait": "the service asked for a pause",
    "outage": "no responses, trying again",
    "backoff": "retrying",
}
"""The words for each reason of a wait."""
_LIBRARY = logging.getLogger("seorep_async")


@attrs.define
class Display:
    """The shown state of a pull, and a label in front of it."""

    label: str = ""
    state: PullProgress | None = None

    @property
    def position(self) -> str:
        """The progress of the pull in words, or an empty string."""
        state = self.state
        # the total is unknown before the campaigns are listed
        if state is None or state.total is None:
            return ""
        position = f" at {state.done:,} of {state.total:,} reports"
        # `failures` counts all feeds, including reports that are being retried
        if state.failures:
            position = f"{position}, with {counted(state.failures, 'failure')} so far"
        return position

    @property
    def activity(self) -> str:
        """The current step in words."""
        state = self.state
        if state is None:
            words = "Connecting"
        elif state.stage is Stage.ROWS:
            words = f"Pulling {state.feed.value}"
        else:
            words = state.stage.value.capitalize()
        return self.label + words

    def details(self, waiting: str, seconds_left: float | None) -> str:
        """Return counts, the remaining time, waits, failures and rows in words."""
        state = self.state
        if state is None:
            return waiting
        is_of_rows = state.stage is Stage.ROWS
        parts = []
        if state.total is not None:
            noun = state.feed.object_name if is_of_rows else "campaign"
            parts.append(f"{state.done:,}/{counted(state.total, noun)}")
            if seconds_left and waiting != _WAITING_FOR["outage"]:
                parts.append(f"{duration(seconds_left)} left")
        if waiting:
            parts.append(waiting)
        if state.failures:
            parts.append(f"{state.failures:,} failed")
        # a workbook of many rows takes a minute, so a person should know how many there are
        if is_of_rows or state.stage is Stage.WRITING:
            parts.append(counted(state.rows, "row"))
        return " · ".join(parts)


@contextlib.asynccontextmanager
async def show_progress(
    display: Display, console: Console, client: SeoRepClient
) -> AsyncGenerator[None]:
    """Show a pull's progress and its client's waits on stderr while the block runs."""
    # without markup, because rich would take a name in brackets for a style
    columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
    if console.width >= _LEAST_COLUMNS:
        columns.append(BarColumn(_WIDTH_OF_BAR))
    columns.append(TextColumn("{task.fields[words]}", markup=False))
    bar = Progress(
        *columns,
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
    """Update the bar twice a second. Without a bar, print a line every minute."""
    task = bar.add_task(display.activity, total=None, words="")
    shown_stage = None
    previous_state = None
    waiting = ""
    stats_before = client.stats
    line_at = time.monotonic()
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        state = display.state
        if state is not None:
            # a new stage, or feed, has its own total and speed
            if shown_stage != (state.stage, state.feed):
                shown_stage = (state.stage, state.feed)
                bar.reset(task, total=state.total, completed=state.done, words="")
            bar.update(task, completed=state.done, total=state.total)
        stats = client.stats
        # `waited` is a total, and the increase since the last tick tells why requests wait now. It
        # grows only when a wait for a permit ends or a back-off begins. In an outage, most ticks
        # therefore add nothing, and the last reason stays until there is a new one, or progress.
        new_waiting = _longest_wait(client, stats.since(stats_before))
        if new_waiting or state != previous_state:
            waiting = new_waiting
        words = display.details(waiting, bar.tasks[0].time_remaining)  # the only task
        stats_before = stats
        previous_state = state
        bar.update(task, description=display.activity, words=words)
        if bar.disable and time.monotonic() - line_at >= _LINE_SECONDS:
            line_at = time.monotonic()
            bar.console.print(f"{display.activity}: {words}")


def _longest_wait(client: SeoRepClient, stats: Stats) -> str:
    """Return why requests waited longest, in words, or an empty string."""
    longest = max(_WAITING_FOR, key=lambda reason: stats.waited.get(reason, 0.0))
    if not stats.waited.get(longest):
        return ""
    # the client waits for the slower of two rates
    own_rate = client.settings.requests_per_second
    own_is_slower = own_rate is not None and (stats.pace is None or stats.pace >= own_rate)
    return _WAITING_FOR[longest].format("your own" if own_is_slower else "the service's")


class _Lines(logging.Handler):
    """Prints log messages, with the command's options in place of Python's arguments.

    Each warning is printed only once.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(logging.DEBUG)
        self._console = console
        self.warnings: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message. Other messages than warnings also show the time."""
        message = one_line(with_option_names(record.getMessage()))
        if record.levelno < logging.WARNING:
            line = f"{time.strftime('%H:%M:%S')} {message}"
            self._console.print(Text(line, style="dim"))
        # each month of a run may log the same warning
        elif message not in self.warnings:
            self.warnings.append(message)
            self._console.print(Text.assemble(("Warning:", "yellow"), f" {message}"))


@contextlib.contextmanager
def logged(console: Console | None = None, *, verbose: bool = False) -> Generator[list[str]]:
    """Print what the library logs while the block runs: warnings, or everything.

    Returns:
        A context manager that yields the growing list of warnings.
    """
    handler = _Lines(console or messages())
    # a program that embeds the command gets its own level back
    level_before = _LIBRARY.level
    _LIBRARY.addHandler(handler)
    _LIBRARY.setLevel(logging.DEBUG if verbose else logging.WARNING)
    try:
        yield handler.warnings
    finally:
        _LIBRARY.setLevel(level_before)
        _LIBRARY.removeHandler(handler)
