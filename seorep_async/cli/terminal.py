"""The terminal: messages on stderr, questions on stdin, data on stdout: objects as a table, JSON, JSON lines or CSV."""

from __future__ import annotations

import csv
import datetime as dt
import enum
import io
import json
import os
import select
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import EXTRA, OutputFormat
from seorep_async.errors import ExportError, one_line
from seorep_async.resources.arguments import Secret
from seorep_async.tables.text import printable_json

_NO_WRAPPING = 1_000_000
_MOST_PASSWORD_BYTES = 64 * 1024


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


def stderr_console(*, quiet: bool = False) -> Console:
    """Return a console on stderr; it is a terminal only if stderr is one now, whatever the environment."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    width = None if terminal else _NO_WRAPPING  # in a log, one message is one line
    return Console(stderr=True, force_terminal=terminal, highlight=False, width=width, quiet=quiet)


def print_hanging(console: Console, text: Text, indent: int) -> None:
    """Print a line; on a narrow terminal it is wrapped, and further lines are indented."""
    text = text.copy()
    text.expand_tabs(8)
    first, *more = _wrapped(console, text, console.width) or [Text()]
    console.print(first)
    rest = text[text.plain.index(more[0].plain, len(first)) :] if more else Text()
    for line in _wrapped(console, rest, max(1, console.width - indent)) if rest else []:
        console.print(Text(" " * indent) + line)


def _wrapped(console: Console, text: Text, width: int) -> list[Text]:
    lines = [*text.wrap(console, width)]
    for line in lines:
        line.rstrip()  # rich leaves the space between two lines where it has room
    return lines


def stdout_is_terminal() -> bool:
    """Return whether a person reads stdout."""
    return sys.stdout is not None and sys.stdout.isatty()


def stdout_width() -> int:
    """Return the columns of the terminal; elsewhere nothing is wrapped."""
    return Console().width if stdout_is_terminal() else _NO_WRAPPING


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


def confirmed(question: Callable[[], str]) -> bool:
    """Ask whether to delete something, and return whether to; without a terminal, it is a UsageError."""
    if not can_ask():
        raise click.UsageError("there is no terminal to ask for confirmation; pass --yes to delete without it.")
    if click.confirm(question(), err=True):
        return True
    stderr_console().print("Nothing was deleted.")
    return False


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


def as_json(facts: object) -> str:
    """Return facts as JSON, for a program to read."""
    return json.dumps(facts, ensure_ascii=False, indent=2, default=_plain)


def _plain(value: object) -> str:
    """Return a member of an enumeration, a date or a path for JSON."""
    if isinstance(value, enum.Enum):
        return str(value.value)
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def named(holder: object, names: str) -> dict[str, Any]:
    """Return some attributes of an object by their names."""
    return {name: getattr(holder, name) for name in names.split()}


def formatted(items: Sequence[Any], columns: Sequence[str], kind: OutputFormat, *, header: bool = True) -> str:
    """Return objects in a format; a table of none is empty, and CSV has a `header` or continues."""
    match kind:
        case OutputFormat.TABLE:
            return table_of_many(items, columns) if items else ""
        case OutputFormat.JSON:
            return _json([values_of(item, columns) for item in items], indent=2)
        case OutputFormat.JSON_LINES:
            return "".join(_json(values_of(item, columns)) for item in items)
        case OutputFormat.CSV:
            return _csv_rows(items, columns, header)


def formatted_one(item: Any, columns: Sequence[str], kind: OutputFormat, *, with_empty: bool) -> str:
    """Return one object in a format: JSON is no array, a table has a line a field; `with_empty` also without value."""
    match kind:
        case OutputFormat.TABLE:
            return table_of_one(item, columns, with_empty=with_empty)
        case OutputFormat.JSON:
            return _json(values_of(item, columns), indent=2)
    return formatted([item], columns, kind)


def _json(values: object, indent: int | None = None) -> str:
    return printable_json(values, indent=indent, default=_plain) + "\n"


def table_of_many(items: Sequence[Any], columns: Sequence[str]) -> str:
    """Return a header and a row for each object; on a terminal, long values are wrapped."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        kinds = {type(getattr(item, name)) for item in items} - {type(None)}
        whole = kinds == {int} or (bool(kinds) and kinds <= {bool, dt.date, dt.datetime})
        table.add_column(name, justify="right" if kinds == {int} else "left", no_wrap=whole, overflow="fold")
    for item in items:
        table.add_row(*(Text(_cell(getattr(item, name))) for name in columns))
    return _rendered(table)


def table_of_one(item: Any, columns: Sequence[str], *, with_empty: bool) -> str:
    """Return a row for each field of an object, its name and value; `with_empty` includes fields without a value."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values_of(item, columns).items():
        if with_empty or value is not None:
            table.add_row(Text(one_line(name)), Text(_cell(value)))
    return _rendered(table)


def _csv_rows(items: Sequence[Any], columns: Sequence[str], header: bool) -> str:
    """Return a row for each object; unknown fields are JSON in the column `extra`."""
    table = io.StringIO(newline="")
    rows = [columns] if header else []
    rows += [[string_of(getattr(item, name)) for name in columns] for item in items]
    csv.writer(table, lineterminator="\r\n").writerows(rows)
    if not stdout_is_terminal():
        return table.getvalue()
    # a terminal would obey control characters from the service
    return "".join(c if c.isprintable() or c in "\r\n" else "\N{REPLACEMENT CHARACTER}" for c in table.getvalue())


def values_of(item: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Return some fields of a model by their names.

    With `extra`, unknown fields stand beside the others under the service's names; only namesakes of attributes are
    under `extra`.
    """
    values = {name: getattr(item, name) for name in columns if name != EXTRA}
    if EXTRA in columns:
        reserved = {field.name for field in attrs.fields(type(item))}
        extra: Mapping[str, Any] = item.extra
        values |= {name: value for name, value in extra.items() if name not in reserved}
        if clashing := {name: value for name, value in extra.items() if name in reserved}:
            values[EXTRA] = clashing
    return values


def string_of(value: object) -> str:
    """Return a value as a string: booleans `true` and `false`, dates in ISO format, None empty, nested ones as JSON."""
    match value:
        case None:
            return ""
        case str():
            return value
        case dt.date():
            return value.isoformat()
        case Mapping() if not value:
            return ""
    return printable_json(value)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return value.isoformat(" ") if isinstance(value, dt.datetime) else one_line(string_of(value))


def _rendered(table: Table) -> str:
    # not printed to stdout here: `write_stdout` reports its errors
    shown = io.StringIO()
    Console(file=shown, force_terminal=stdout_is_terminal(), width=stdout_width(), highlight=False).print(table)
    return "".join(f"{line.rstrip()}\n" for line in shown.getvalue().splitlines())
