"""A progress bar for `pull_to`, in a notebook or on a terminal."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable

from seorep_async.export.progress import PullProgress, Stage
from seorep_async.tables.optional import require

_BAR_LETTERS = 20
_CLEAR_LINE = "\r\x1b[K"


class ProgressBar:
    """Shows the progress of a pull: `pull_to(…, on_progress=ProgressBar())`.

    In a notebook it is a widget, if ipywidgets is installed; on a terminal it is a line on stderr.
    Elsewhere nothing is shown.
    """

    def __init__(self) -> None:
        self._show = _notebook_bar() or _terminal_line()

    def __call__(self, progress: PullProgress) -> None:
        if self._show is not None:
            self._show(progress)


def in_words(progress: PullProgress) -> str:
    """Return the progress of a pull as one line."""
    parts = [progress.stage.value]
    if progress.total is not None:
        parts.append(f"{progress.done:,} of {progress.total:,}")
    if progress.rows:
        parts.append(f"{progress.rows:,} rows")
    if progress.failures:
        parts.append(f"{progress.failures:,} failed")
    return ", ".join(parts)


def _notebook_bar() -> Callable[[PullProgress], None] | None:
    """Return a function that moves a widget, or None if there is no notebook or no ipywidgets."""
    # IPython puts this function among the built-ins; only the shell of a notebook has a kernel
    get_shell = getattr(builtins, "get_ipython", None)
    if get_shell is None or getattr(get_shell(), "kernel", None) is None:
        return None
    try:
        widgets = require("ipywidgets")
    except ImportError:
        return None
    bar = widgets.IntProgress(min=0, max=1)
    label = widgets.Label()
    require("IPython.display").display(widgets.HBox([bar, label]))

    def show(progress: PullProgress) -> None:
        bar.max = progress.total or 1
        bar.value = progress.done
        label.value = in_words(progress)

    return show


def _terminal_line() -> Callable[[PullProgress], None] | None:
    """Return a function that rewrites a line of stderr, or None if stderr is not a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    stderr = sys.stderr

    def show(progress: PullProgress) -> None:
        filled = 0
        if progress.total:
            filled = _BAR_LETTERS * progress.done // progress.total
        bar = "".ljust(filled, "█").ljust(_BAR_LETTERS, "░")
        # the stage of writing is the last one
        end = "\n" if progress.stage is Stage.WRITING else ""
        stderr.write(f"{_CLEAR_LINE}{bar} {in_words(progress)}{end}")
        stderr.flush()

    return show
