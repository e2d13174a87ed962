"""A progress bar for `pull_to`, in a notebook or on a terminal."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import TextIO

from seorep_async.errors import counted
from seorep_async.export.progress import PullProgress, Stage
from seorep_async.tables.optional import require

_BAR_LETTERS = 20
_CLEAR_LINE = "\r\x1b[K"


class ProgressBar:
    """Shows the progress of a pull: `pull_to(…, on_progress=ProgressBar())`.

    In a notebook it is a widget, or a line if ipywidgets is missing. On a terminal it is a line on
    stderr. Elsewhere nothing is shown.
    """

    def __init__(self) -> None:
        self._show = _display_of_one_pull()

    def __call__(self, progress: PullProgress) -> None:
        self._show(progress)
        if progress.stage is Stage.DONE:
            # the next pull with this bar may run in another cell
            self._show = _display_of_one_pull()


def in_words(progress: PullProgress) -> str:
    """Return the progress of a pull as one line."""
    parts = [progress.stage.value]
    if progress.total is not None:
        parts.append(f"{progress.done:,} of {progress.total:,}")
    if progress.rows:
        parts.append(counted(progress.rows, "row"))
    if progress.failures:
        parts.append(f"{progress.failures:,} failed")
    return ", ".join(parts)


def _display_of_one_pull() -> Callable[[PullProgress], None]:
    """Return a function that shows the progress in a notebook, on a terminal, or nowhere."""
    if _is_in_notebook():
        # without ipywidgets, a line of text
        return _notebook_bar() or _notebook_line()
    if sys.stderr is not None and sys.stderr.isatty():
        return _terminal_line(sys.stderr)
    return _nowhere


def _nowhere(_: PullProgress) -> None:
    """Show nothing."""


def _part_done(progress: PullProgress) -> tuple[int, int]:
    """Return how much of the bar is filled, and its length."""
    # all reports have arrived before these stages, so the bar is full
    if progress.stage in (Stage.WRITING, Stage.DONE):
        return 1, 1
    return progress.done, progress.total or 1


def _is_in_notebook() -> bool:
    # IPython adds this function to the built-ins; only a notebook's shell has a kernel
    get_shell = getattr(builtins, "get_ipython", None)
    return get_shell is not None and getattr(get_shell(), "kernel", None) is not None


def _notebook_bar() -> Callable[[PullProgress], None] | None:
    """Return a function that updates a widget, or None if ipywidgets is missing."""
    try:
        widgets = require("ipywidgets")
    except ImportError:
        return None
    bar = widgets.IntProgress(min=0, max=1)
    label = widgets.Label()
    box = widgets.HBox([bar, label])
    display = require("IPython.display").display
    is_displayed = False

    def update(progress: PullProgress) -> None:
        """Set the bar and its label, and display both once the number of reports is known."""
        nonlocal is_displayed
        # a pull that fails before the campaigns are listed must leave no empty bar behind
        if not is_displayed and progress.total:
            display(box)
            is_displayed = True
        filled, total = _part_done(progress)
        bar.max = total
        bar.value = filled
        if progress.stage is Stage.DONE:
            bar.bar_style = "warning" if progress.failures else "success"
        label.value = in_words(progress)

    return update


def _notebook_line() -> Callable[[PullProgress], None]:
    """Return a function that updates a line of text below a cell.

    A rewritten line of stdout would become many lines where the notebook is converted to a page.
    """
    display = require("IPython.display").display
    handle = None

    def update(progress: PullProgress) -> None:
        """Replace the line, or display it once the number of reports is known."""
        nonlocal handle
        data = {"text/plain": _text_bar(progress)}
        if handle is not None:
            handle.update(data, raw=True)
        elif progress.total:
            handle = display(data, raw=True, display_id=True)

    return update


def _terminal_line(stream: TextIO) -> Callable[[PullProgress], None]:
    """Return a function that rewrites a line of a stream."""

    def rewrite(progress: PullProgress) -> None:
        end = "\n" if progress.stage is Stage.DONE else ""
        stream.write(f"{_CLEAR_LINE}{_text_bar(progress)}{end}")
        stream.flush()

    return rewrite


def _text_bar(progress: PullProgress) -> str:
    done, total = _part_done(progress)
    filled = _BAR_LETTERS * done // total
    bar = "".ljust(filled, "█").ljust(_BAR_LETTERS, "░")
    return f"{bar} {in_words(progress)}"
