"""Data on stdout, and what becomes of it when nobody reads on or the disk is full."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable

import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.export import ExportError


def stdout_is_terminal() -> bool:
    """Tell whether a person reads stdout."""
    return sys.stdout is not None and sys.stdout.isatty()


def stdout_width() -> int | None:
    """Return how many cells a line of the terminal has, or None where there is no terminal."""
    return Console().width if stdout_is_terminal() else None


def styled(lines: Iterable[Text]) -> str:
    """Return lines with the styles that stdout can show, if any."""
    # not on stdout itself: what goes wrong there is for `write_stdout` to tell
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=stdout_is_terminal(), highlight=False)
    for line in lines:
        console.print(line, soft_wrap=True)
    return shown.getvalue()


def write_stdout(text: str, *, as_data: bool = True) -> None:
    """Write to stdout at once.

    Args:
        text: what.
        as_data: in UTF-8 wherever it goes, as data is; otherwise in the terminal's encoding.

    Raises:
        click.exceptions.Exit: who reads has had enough.
        ExportError: it can't be written.
    """
    if sys.stdout is None:
        raise ExportError("can't write to stdout: it is closed")
    encoding = "utf-8" if as_data else sys.stdout.encoding
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode(encoding, "replace"))
        sys.stdout.buffer.flush()
    except OSError as error:
        # Python must not try to write the rest at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
        raise ExportError(f"can't write to stdout: {error.strerror or error}") from None
