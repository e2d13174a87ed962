"""The formats that campaigns, users, keywords and backlinks are written in."""

from __future__ import annotations

import csv
import enum
import io
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import attrs
from rich.text import Text

from seorep_async.cli.resource_table import many_as_table, one_as_table
from seorep_async.cli.resource_values import as_json, field_names, text_of, values_of
from seorep_async.cli.stdout import stdout_is_terminal, stdout_width, styled, write_stdout


class Format(enum.Enum):
    """What is written to stdout."""

    TABLE = "table"
    JSON = "json"
    JSON_LINES = "jsonl"
    CSV = "csv"


@attrs.frozen(kw_only=True)
class Output:
    """What is to be written of what comes.

    Attributes:
        kind: in which format.
        columns: which fields, or None for the format's own choice.
        usual: the fields of a table of many, if there is no choice.
    """

    kind: Format
    columns: tuple[str, ...] | None
    usual: tuple[str, ...] = ()

    @property
    def is_shown(self) -> bool:
        """Whether a person reads it as a table."""
        return self.kind is Format.TABLE and stdout_is_terminal()

    @property
    def comes_at_once(self) -> bool:
        """Whether nothing is written before everything is there."""
        return self.kind in (Format.TABLE, Format.JSON)

    def write_one(self, one: Any) -> None:
        """Write one object."""
        columns = self.columns or field_names(type(one))
        match self.kind:
            case Format.TABLE:
                write_stdout(styled(one_as_table(one, columns, whole=self.columns is not None)), as_data=False)
            case Format.JSON:
                write_stdout(as_json(values_of(one, columns), indent=2) + "\n")
            case Format.JSON_LINES:
                write_stdout(_json_lines([one], columns))
            case Format.CSV:
                write_stdout(_csv([columns]) + _csv_of([one], columns))

    def many(self, model: type[Any]) -> Writer:
        """Return what writes many objects of a model, page by page."""
        columns = self.columns or field_names(model)
        match self.kind:
            case Format.TABLE:
                return _TableWriter(self.columns or self.usual)
            case Format.JSON:
                return _JsonWriter(columns)
            case Format.JSON_LINES:
                return _JsonLinesWriter(columns)
            case Format.CSV:
                return _CsvWriter(columns)


class Writer(Protocol):
    """Writes many objects."""

    def add(self, items: Sequence[Any]) -> None:
        """Take a page of objects."""

    def close(self) -> None:
        """Write what is still to be written, when all have come."""


class _TableWriter:
    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._items: list[Any] = []

    def add(self, items: Sequence[Any]) -> None:
        self._items += items

    def close(self) -> None:
        if not self._items:
            return
        header, *lines = many_as_table(self._items, self._columns, stdout_width())
        write_stdout(styled([Text(header, "bold")]) + "".join(f"{line}\n" for line in lines), as_data=False)


class _JsonWriter:
    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._values: list[dict[str, Any]] = []

    def add(self, items: Sequence[Any]) -> None:
        self._values += [values_of(item, self._columns) for item in items]

    def close(self) -> None:
        write_stdout(as_json(self._values, indent=2) + "\n")


class _JsonLinesWriter:
    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns

    def add(self, items: Sequence[Any]) -> None:
        write_stdout(_json_lines(items, self._columns))

    def close(self) -> None:
        pass


class _CsvWriter:
    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._header = _csv([columns])

    def add(self, items: Sequence[Any]) -> None:
        write_stdout(self._header + _csv_of(items, self._columns))
        self._header = ""

    def close(self) -> None:
        write_stdout(self._header)


def _json_lines(items: Iterable[Any], columns: Sequence[str]) -> str:
    return "".join(as_json(values_of(item, columns)) + "\n" for item in items)


def _csv_of(items: Iterable[Any], columns: Sequence[str]) -> str:
    """Return objects as lines; what no model knows is JSON in the cell of `extra`."""
    return _csv([[text_of(getattr(item, name)) for name in columns] for item in items])


def _csv(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    if not stdout_is_terminal():
        return text.getvalue()
    # a terminal would obey what the service sent
    return "".join(c if c.isprintable() or c in "\r\n" else "\N{REPLACEMENT CHARACTER}" for c in text.getvalue())
