"""The terminal: messages on stderr, questions on stdin, data on stdout: objects as a table, JSON, JSON lines or CSV."""

from __future__ import annotations

import csv
import datetime as dt
import enum
import errno
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seorep_async.cli.errors import ExitCode, code_of, explain
from seorep_async.cli.options import Format
from seorep_async.errors import (
    ExportError,
    PullPausedError,
    SeoRepError,
    one_line,
    service_reason,
)
from seorep_async.secret import Secret
from seorep_async.tables.text import printable_json

EXTRA = "extra"
_NO_WRAPPING = 1_000_000


def messages(*, quiet: bool = False) -> Console:
    """Return a console on stderr; in a log, where nobody redraws, one message is one line."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    plain: Any = dict.fromkeys(("highlight", "markup", "emoji"), False)
    return Console(
        stderr=True,
        force_terminal=terminal,
        width=None if terminal else _NO_WRAPPING,
        quiet=quiet,
        **plain,
    )


def failed(error: BaseException) -> ExitCode:
    """Print why the command ends, and return its exit code; of a bug the traceback is needed, so it is raised."""
    if (
        isinstance(error, OSError) and error.errno == errno.ENOSPC
    ):  # of click's own output: help and version
        error = _unwritable(error)
    if code_of(error) is ExitCode.UNEXPECTED:
        raise error
    word = ("Paused", "") if isinstance(error, PullPausedError) else ("Error", "bold red")
    messages().print(Text.assemble(word, f": {explain(error)}"))
    reason = service_reason(error) if isinstance(error, SeoRepError) else None
    if reason is not None:
        messages().print(f"The service said: {reason}")
    return code_of(error)


def on_terminal() -> bool:
    """Return whether a person reads stdout."""
    return sys.stdout is not None and sys.stdout.isatty()


def stdout_width() -> int:
    """Return the columns of the terminal; elsewhere nothing is wrapped."""
    return Console().width if on_terminal() else _NO_WRAPPING


def write(text: str) -> None:
    """Write text to stdout at once, for a terminal without characters that it would obey.

    Exit says that the reader has closed the pipe, ExportError what else is wrong.
    """
    if sys.stdout is None:
        raise ExportError("can't write to stdout: it is closed")
    if on_terminal():
        text = "".join(
            c if c.isprintable() or c in "\r\n" else "\N{REPLACEMENT CHARACTER}" for c in text
        )
    try:
        sys.stdout.flush()
        # not through the buffer: an abandoned thread would hold its lock while the interpreter ends
        stream = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
        rest = memoryview(text.encode("utf-8", "replace"))
        while rest:
            written = stream.write(rest)
            if (
                written is None and sys.platform != "win32"
            ):  # a pipe that another program made non-blocking is full
                os.set_blocking(stream.fileno(), True)
            rest = rest[written or 0 :]
    except OSError as error:
        raise _unwritable(error) from None


def _unwritable(error: OSError) -> Exception:
    # Python must not try to write the rest when it exits
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return click.exceptions.Exit(ExitCode.OK)  # the reader has enough, as in `| head`
    return ExportError(f"can't write to stdout: {error.strerror or error}")


def can_ask() -> bool:
    """Return whether there is a person to ask."""
    return sys.stdin is not None and sys.stdin.isatty()


def confirm(question: str) -> None:
    """Ask whether to delete something; Exit says no, and without a terminal it is a UsageError."""
    if not can_ask():
        raise click.UsageError(
            "there is no terminal to ask for confirmation; pass --yes to delete without it."
        )
    if not click.confirm(one_line(question), err=True):
        messages().print("Nothing was deleted.")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED)


def password(*, from_stdin: bool) -> Secret:
    """Ask for a password twice, without showing it, or read it: one line of stdin, never shown."""
    if not from_stdin:
        if not can_ask():
            raise click.UsageError(
                "there is no terminal to ask for the password; pass it with --password-stdin."
            )
        return Secret(
            click.prompt(
                "Password", hide_input=True, confirmation_prompt="Repeat the password", err=True
            )
        )
    if can_ask():
        raise click.UsageError(
            "--password-stdin: stdin is a terminal, which would show the password; pipe it in."
        )
    lines = [] if sys.stdin is None else sys.stdin.buffer.read().splitlines()
    if len(lines) != 1 or not lines[0]:
        raise click.UsageError("--password-stdin: stdin must be one line, the password.")
    return Secret(
        lines[0].decode(errors="surrogateescape")
    )  # the client refuses what is not valid Unicode


def as_json(facts: object, indent: int | None = 2) -> str:
    """Return facts as JSON, for a program to read."""
    return printable_json(facts, indent=indent, default=_plain) + "\n"


def _plain(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def fields_of(model: type[Any]) -> list[str]:
    """Return the columns of a model, `extra` last; a password is null in every response, and never shown."""
    return [
        field.name for field in attrs.fields(model) if field.name not in ("password", EXTRA)
    ] + [EXTRA]


def formatted(
    items: Sequence[Any],
    columns: Sequence[str],
    kind: Format,
    *,
    header: bool = True,
    one: bool = False,
) -> str:
    """Return objects in a format; a table of none is empty, and CSV has a `header` or continues.

    `one` object is no array in JSON, and a table of it has a line for each field with a value.
    """
    values = [_values(item, columns) for item in items]
    if kind == "json":
        return as_json(values[0] if one else values)
    if kind == "jsonl":
        return "".join(as_json(each, None) for each in values)
    shown = io.StringIO(newline="")
    if kind == "csv":
        rows = [[_string(getattr(item, name)) for name in columns] for item in items]
        csv.writer(shown).writerows([columns, *rows] if header else rows)
        return shown.getvalue()
    if one:  # not wrapped, so that a long address can be copied
        filled = {
            one_line(name): cell(value) for name, value in values[0].items() if value is not None
        }
        width = max(map(len, filled), default=0)
        return "".join(
            f"{name:<{width}}  {value}".rstrip() + "\n" for name, value in filled.items()
        )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        numbers = {type(getattr(item, name)) for item in items} <= {int, type(None)}
        table.add_column(
            name, justify="right" if numbers else "left", no_wrap=numbers, overflow="fold"
        )
    for item in items:
        table.add_row(*(Text(cell(getattr(item, name))) for name in columns))
    Console(file=shown, width=stdout_width(), highlight=False).print(
        table
    )  # `write` reports what goes wrong
    return "".join(f"{line.rstrip()}\n" for line in shown.getvalue().splitlines()) if items else ""


def cell(value: object) -> str:
    """Return a value as one line of a table."""
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    if isinstance(value, tuple):
        return ", ".join(map(cell, value))
    return "-" if value is None else one_line(_string(value))


def _values(item: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Return some fields of an object; in place of `extra`, the unknown fields under the service's names."""
    values = {name: getattr(item, name) for name in columns if name != EXTRA}
    return values | {**item.extra, **values} if EXTRA in columns else values


def _string(value: object) -> str:
    if value is None or value == {} or isinstance(value, str):
        return value or ""  # type: ignore[return-value]
    return str(_plain(value)) if isinstance(value, dt.date | enum.Enum) else printable_json(value)


def duration(seconds: float) -> str:
    """Return a time such as `1:05:07`, or `0.6 s`."""
    return f"{seconds:.1f} s" if seconds < 60 else str(dt.timedelta(seconds=round(seconds)))


def counted(count: int, one: str, several: str = "") -> str:
    """Return a number with its word in singular or plural, by default with an s."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
