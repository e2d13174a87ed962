"""The terminal: messages on stderr, data on stdout, questions on stdin; counts, times and sizes for a person."""

from __future__ import annotations

import datetime as dt
import os
import select
import sys

import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.errors import ExportError
from seorep_async.resources.arguments import Secret

_NO_WRAPPING = 1_000_000
_MOST_PASSWORD_BYTES = 64 * 1024


def counted(count: int, one: str, several: str) -> str:
    """Return a number with its word in singular or plural."""
    return f"{count:,} {one if count == 1 else several}"


def duration(seconds: float, *, rough: bool = False) -> str:
    """Return a time such as `1 min 05 s`; a rough one has no fractions, and no seconds beside hours."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s" if rough else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if rough and (hours or minutes >= 10):
        return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"
    return f"{hours} h {minutes:02} min {rest:02} s" if hours else f"{minutes} min {rest:02} s"


def size(count: float) -> str:
    """Return a number of bytes such as `1.2 MB`."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def moment(iso: str) -> str:
    """Return an ISO date and time to the minute."""
    return dt.datetime.fromisoformat(iso).strftime("%Y-%m-%d %H:%M")


def stderr_console() -> Console:
    """Return a console on stderr; it is a terminal only if stderr is one now, whatever the environment."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    # in a log, one message is one line
    return Console(stderr=True, force_terminal=terminal, highlight=False, width=None if terminal else _NO_WRAPPING)


def print_hanging(console: Console, text: Text, indent: int) -> None:
    """Print a line; on a narrow terminal it is wrapped, and further lines are indented."""
    first, *more = text.wrap(console, console.width) or [Text()]
    console.print(first)
    rest = Text(" ").join(more)
    for line in rest.wrap(console, max(1, console.width - indent)) if rest else []:
        console.print(Text(" " * indent) + line)


def stdout_is_terminal() -> bool:
    """Return whether a person reads stdout."""
    return sys.stdout is not None and sys.stdout.isatty()


def write_stdout(string: str, *, as_data: bool = True) -> None:
    """Write to stdout at once; `as_data` writes UTF-8 wherever it goes, else the terminal's encoding."""
    encoding = "utf-8" if as_data or sys.stdout is None else sys.stdout.encoding
    write_stdout_bytes(string.encode(encoding, "replace"))


def write_stdout_bytes(data: bytes) -> None:
    """Write bytes to stdout at once; Exit says that the reader has closed the pipe, ExportError what else is wrong."""
    if sys.stdout is None:
        raise ExportError("can't write to stdout: it is closed")
    try:
        sys.stdout.flush()
        # not through the buffer: an abandoned thread would hold its lock while the interpreter ends
        stream = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
        rest = memoryview(data)
        while rest:
            written = stream.write(rest)
            if written is None:  # a non-blocking pipe is full
                select.select([], [stream], [])
            rest = rest[written or 0 :]
    except OSError as error:
        # Python must not try to write the rest when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit(ExitCode.OK) from None  # the reader has enough, as in `| head`
        raise ExportError(f"can't write to stdout: {error.strerror or error}") from None


def can_ask() -> bool:
    """Return whether there is a person to ask."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask_for_password() -> Secret:
    """Ask for a password twice, without showing it; Ctrl-C or Ctrl-D raises click.Abort, no terminal a UsageError."""
    if not can_ask():
        raise click.UsageError("there is no terminal to ask for the password; pass it with --password-stdin.")
    return Secret(click.prompt("Password", hide_input=True, confirmation_prompt="Repeat the password", err=True))


def read_password() -> Secret:
    """Read a password from stdin: one line without its end. Other content is refused, and not shown."""
    if can_ask():
        raise click.UsageError("--password-stdin: stdin is a terminal, which would show the password; pipe it in.")
    read = b"" if sys.stdin is None else sys.stdin.buffer.read(_MOST_PASSWORD_BYTES + 1)
    line = read.removesuffix(b"\n").removesuffix(b"\r")
    if not line:
        raise click.UsageError("--password-stdin: there is no password on stdin.")
    if len(read) > _MOST_PASSWORD_BYTES or b"\n" in line or b"\r" in line:
        raise click.UsageError("--password-stdin: there is more than one line on stdin.")
    try:
        return Secret(line.decode())
    except UnicodeDecodeError:
        problem = "--password-stdin: the password is not valid UTF-8."
    raise click.UsageError(problem)  # outside the handler: the caught error holds the password
