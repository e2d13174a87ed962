"""Objects as a table, JSON, JSON lines or CSV."""

from __future__ import annotations

import csv
import datetime as dt
import enum
import io
from collections.abc import Sequence
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seorep_async.cli.output import as_json, plain_value, stdout_width
from seorep_async.errors import one_line
from seorep_async.tables.text import printable_json

EXTRA = "extra"
"""The column of fields that are not in the service's reference."""


def fields_of(model: type[Any]) -> list[str]:
    """Return the columns of a model, `extra` last.

    A password is null in every response, and never shown.
    """
    names = [name for name in attrs.fields_dict(model) if name not in ("password", EXTRA)]
    return [*names, EXTRA]


def format_objects(
    objects: Sequence[Any], columns: Sequence[str], format: str, *, header: bool = True
) -> str:
    """Format objects.

    Args:
        columns: the fields to show, in this order.
        header: whether CSV begins with the names of the columns.

    Returns:
        The text; empty for a table without objects.
    """
    if format == "json":
        return as_json([_values_of(item, columns) for item in objects])
    if format == "jsonl":
        return "".join(as_json(_values_of(item, columns), indent=None) for item in objects)
    if format == "csv":
        return _csv(objects, columns, header=header)
    return _table(objects, columns) if objects else ""


def format_object(item: Any, columns: Sequence[str], format: str) -> str:
    """Format one object. A table has a line for each field that has a value."""
    if format == "json":
        return as_json(_values_of(item, columns))
    if format != "table":
        return format_objects([item], columns, format)
    cells = {
        one_line(name): cell(value)
        for name, value in _values_of(item, columns).items()
        if value is not None
    }
    # not wrapped, so that a long address can be copied
    width = max(map(len, cells), default=0)
    lines = (f"{name:<{width}}  {text}".rstrip() for name, text in cells.items())
    return "".join(f"{line}\n" for line in lines)


def cell(value: object) -> str:
    """Return a value as one line of a table."""
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    # a tuple of roles or labels
    if isinstance(value, tuple):
        return ", ".join(map(cell, value))
    return "-" if value is None else one_line(_string(value))


def _csv(objects: Sequence[Any], columns: Sequence[str], *, header: bool) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if header:
        writer.writerow(columns)
    for item in objects:
        writer.writerow([_string(getattr(item, name)) for name in columns])
    return text.getvalue()


def _table(objects: Sequence[Any], columns: Sequence[str]) -> str:
    """Return a table as wide as the terminal, without borders."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        # numbers are right-aligned and not wrapped, because people compare them digit by digit
        is_number = {type(getattr(item, name)) for item in objects} <= {int, type(None)}
        justify: Any = "right" if is_number else "left"
        # a name such as engine_a_mobile has no place to break
        is_word = name == "engine"
        table.add_column(name, justify=justify, no_wrap=is_number or is_word, overflow="fold")
    for item in objects:
        table.add_row(*[Text(cell(getattr(item, name))) for name in columns])
    # without colours, because FORCE_COLOR would add escapes
    text = io.StringIO()
    Console(file=text, width=stdout_width(), highlight=False, color_system=None).print(table)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _values_of(item: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Return fields of an object. Unknown fields replace `extra`, under the service's names."""
    values = {name: getattr(item, name) for name in columns if name != EXTRA}
    if EXTRA not in columns:
        return values
    # the requested columns come first, and no unknown field of the same name replaces one
    return {**values, **item.extra, **values}


def _string(value: object) -> str:
    """Return a value as text. None and an empty `extra` become an empty string."""
    if value is None or value == {}:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dt.date | enum.Enum):
        return str(plain_value(value))
    return printable_json(value)
