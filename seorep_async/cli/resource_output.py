"""Objects as a table, JSON, JSON lines or CSV, as the commands write them."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seorep_async.cli.options import EXTRA, OutputFormat
from seorep_async.cli.terminal import stdout_is_terminal
from seorep_async.errors import one_line
from seorep_async.tables.text import printable_json

_NO_WRAPPING = 1_000_000


def formatted(items: Sequence[Any], columns: Sequence[str], kind: OutputFormat, *, header: bool = True) -> str:
    """Return objects in a format; a table of none is empty, and CSV has a `header` or continues."""
    match kind:
        case OutputFormat.TABLE:
            return table_of_many(items, columns) if items else ""
        case OutputFormat.JSON:
            return printable_json([values_of(item, columns) for item in items], indent=2) + "\n"
        case OutputFormat.JSON_LINES:
            return "".join(printable_json(values_of(item, columns)) + "\n" for item in items)
        case OutputFormat.CSV:
            return _csv_rows(items, columns, header)


def formatted_one(item: Any, columns: Sequence[str], kind: OutputFormat, *, with_empty: bool) -> str:
    """Return one object in a format: JSON is no array, a table has a line a field; `with_empty` also without value."""
    match kind:
        case OutputFormat.TABLE:
            return table_of_one(item, columns, with_empty=with_empty)
        case OutputFormat.JSON:
            return printable_json(values_of(item, columns), indent=2) + "\n"
    return formatted([item], columns, kind)


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
    values: dict[str, Any] = {name: getattr(item, name) for name in columns if name != EXTRA}
    if EXTRA in columns:
        values |= values_of(item, [EXTRA])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
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
    """Return some fields of a model for JSON, dates in ISO format.

    With `extra`, unknown fields stand beside the others under the service's names; only namesakes of attributes are
    under `extra`.
    """
    values = {name: _iso_date(getattr(item, name)) for name in columns if name != EXTRA}
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
    terminal, shown = stdout_is_terminal(), io.StringIO()
    width = Console().width if terminal else _NO_WRAPPING
    Console(file=shown, force_terminal=terminal, width=width, highlight=False).print(table)
    return "".join(f"{line.rstrip()}\n" for line in shown.getvalue().splitlines())


def _iso_date(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value
