"""The terminal: messages on stderr, questions on stdin, data on stdout."""

from __future__ import annotations

import datetime as dt
import enum
import errno
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.errors import (
    ExitCode,
    UsageError,
    code_of,
    explain,
    facts_of_error,
)
from seorep_async.errors import (
    ExportError,
    PullPausedError,
    one_line,
)
from seorep_async.tables.text import printable_json

_NO_WRAPPING = 1_000_000


def messages(*, quiet: bool = False) -> Console:
    """Return a console on stderr. Outside a terminal, lines are not wrapped."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return Console(
        stderr=True,
        force_terminal=is_terminal,
        width=None if is_terminal else _NO_WRAPPING,
        quiet=quiet,
        highlight=False,
        markup=False,
        emoji=False,
    )


# --- Errors


def failed(error: Exception, *, as_json: bool = False) -> ExitCode:
    """Print why the command failed, and return its exit code.

    Args:
        as_json: whether stdout gets the error as JSON as well.

    Raises:
        Exception: the error itself if it is a bug, whose traceback is needed.
    """
    if isinstance(error, OSError):
        error = _expected_os_error(error)
    code = code_of(error)
    if as_json:
        write_error(error)
    if code is ExitCode.UNEXPECTED:
        raise error
    word = Text("Error", "bold red")
    # reaching the caller's own limit is not an error
    if isinstance(error, PullPausedError):
        word = Text("Paused")
    messages().print(Text.assemble(word, f": {explain(error)}"))
    return code


def _expected_os_error(error: OSError) -> Exception:
    """Replace a system error that is not a bug with a readable one."""
    # click wrote help or a version to a full disk
    if error.errno == errno.ENOSPC:
        return _failed_write(error)
    try:
        Path.cwd()
    except FileNotFoundError:
        return UsageError(
            "the working directory is gone; change to another folder, and run the command again"
        )
    return error


def show_usage_error(error: click.UsageError) -> None:
    """Print an error in the options. Control characters, perhaps of a file name, are replaced."""
    # an error that was found after parsing has no context
    if error.ctx is not None:
        click.echo(
            f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.\n", err=True
        )
    click.echo(f"Error: {one_line(error.format_message())}", err=True)


def write_error(error: BaseException) -> None:
    """Write an error to stdout as JSON. If that fails, only the first error matters."""
    with suppress(ExportError, click.exceptions.Exit):
        write(as_json({"error": facts_of_error(error)}))


# --- Data


def on_terminal() -> bool:
    """Return whether a person reads stdout."""
    return sys.stdout is not None and sys.stdout.isatty()


def stdout_width() -> int:
    """Return the width of the terminal. Elsewhere it is very large, so that nothing is wrapped."""
    return Console().width if on_terminal() else _NO_WRAPPING


def write(text: str) -> None:
    """Write text to stdout at once, without control characters if it is a terminal.

    Raises:
        Exit: the reader has closed the pipe, as `head` does.
        ExportError: stdout can't be written.
    """
    if sys.stdout is None:
        raise ExportError("can't write to stdout: it is closed")
    if on_terminal():
        text = "".join(map(_harmless, text))
    try:
        # click, and Python itself, may have left something in the buffer
        sys.stdout.flush()
        # not through the buffer, because an abandoned thread would hold its lock while Python exits
        stream = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
        rest = memoryview(text.encode("utf-8", "replace"))
        while rest:
            written = stream.write(rest)
            if written is None and sys.platform != "win32":
                # a pipe that another program made non-blocking is full
                os.set_blocking(stream.fileno(), True)
            rest = rest[written or 0 :]
    except OSError as error:
        raise _failed_write(error) from None


def write_if_read(text: str) -> None:
    """Write text to stdout. If its reader has stopped, write nothing.

    The exit code still tells the result.
    """
    with suppress(click.exceptions.Exit):
        write(text)


def _harmless(character: str) -> str:
    if character.isprintable() or character in "\r\n":
        return character
    return "\N{REPLACEMENT CHARACTER}"


def _failed_write(error: OSError) -> Exception:
    """Close stdout after a failed write, and return the exception to raise."""
    # Python must not try to write the rest when it exits
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # Windows reports EINVAL where a reader such as `more` has closed the pipe
    is_closed_pipe = isinstance(error, BrokenPipeError) or (
        sys.platform == "win32" and error.errno == errno.EINVAL
    )
    # the reader, such as `head`, has stopped reading
    if is_closed_pipe:
        return click.exceptions.Exit(ExitCode.OK)
    return ExportError(f"can't write to stdout: {error.strerror or error}")


def as_json(facts: object, *, indent: int | None = 2) -> str:
    """Return facts as JSON."""
    return printable_json(facts, indent=indent, default=plain_value) + "\n"


def plain_value(value: object) -> object:
    """Convert a value that JSON can't represent."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    return value.isoformat() if isinstance(value, dt.date) else str(value)


# --- Questions


def can_ask() -> bool:
    """Return whether there is a person to ask."""
    return sys.stdin is not None and sys.stdin.isatty()


def confirm(question: str) -> None:
    """Ask whether to delete something, and return if the answer is yes.

    Raises:
        click.exceptions.Exit: the answer is no.
        click.UsageError: there is no terminal.
    """
    if not can_ask():
        raise click.UsageError(
            "there is no terminal to ask for confirmation; pass --yes to delete without it."
        )
    if not click.confirm(one_line(question), err=True):
        messages().print("Nothing was deleted.")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED)
