"""Rows of one table as dictionaries, JSON lines, Arrow, data frames or a table in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeVar, overload

from seorep_async.tables.arrow import arrow_table, pandas_frame
from seorep_async.tables.columns import (
    Column,
    Columns,
    ColumnType,
    Table,
    columns_of_model,
    model_columns,
    plain_tags,
)
from seorep_async.tables.html import html_table
from seorep_async.tables.optional import require
from seorep_async.tables.text import as_json_lines, json_rows

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

T = TypeVar("T")
S = TypeVar("S")


class Tabular:
    """The rows of a report, a pull or a list of objects. They form one table.

    All its methods return the same rows and columns; data frames may have the columns in another
    order. Rows of a pull have the columns of its files. Null and 0 stay different, and integers
    stay integers.
    """

    __slots__ = ()

    def _parts(self) -> tuple[Table, Iterable[Columns]]:
        """Return the table, and its rows in parts. A part has the values of each column."""
        raise NotImplementedError

    def _frame_columns(self, table: Table) -> Sequence[Column]:
        """Return the columns in the order of a data frame; by default, that of the table."""
        return table.columns

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row, with its columns in order.

        Dates are `datetime.date` objects. Tags are a list of dictionaries with `id`, `label` and,
        if the service sent more, `extra`. An `extra` column has a dictionary of undocumented
        fields, or None.
        """
        table, parts = self._parts()
        names = [column.name for column in table.columns]
        dicts = []
        for part in parts:
            rows = zip(*_plain_columns(table, part), strict=True)
            dicts += [dict(zip(names, row, strict=True)) for row in rows]
        return dicts

    def to_jsonl(self) -> bytes:
        """Return the rows as JSON lines in UTF-8, as in an exported file.

        The result is bytes, because `splitlines()` of a string also splits at U+2028 in a value.

        Raises:
            ValueError: a string is not valid Unicode.
            RecursionError: an unknown field is nested nearly as deeply as Python allows.
        """
        table, parts = self._parts()
        return b"".join(as_json_lines(json_rows(table, part)) for part in parts)

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table.

        Raises:
            ImportError: pyarrow is missing; the message says how to install it.
            OverflowError: an integer needs more than 64 bits.
        """
        return arrow_table(*self._parts())

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas data frame.

        Dates and times are `datetime64[s]`. Strings, integers and booleans have nullable types.
        Tags and other nested values are Python objects.

        Raises:
            ImportError: pandas or pyarrow is missing; the message says how to install it.
            OverflowError: an integer needs more than 64 bits.
        """
        require("pyarrow", extra="pandas")
        require("pandas")
        table, parts = self._parts()
        return pandas_frame(self._frame_columns(table), arrow_table(table, parts))

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars data frame.

        Raises:
            ImportError: polars or pyarrow is missing; the message says how to install it.
            OverflowError: an integer needs more than 64 bits.
        """
        require("pyarrow", extra="polars")
        polars = require("polars")
        table, parts = self._parts()
        names = [column.name for column in self._frame_columns(table)]
        frame: pl.DataFrame = polars.from_arrow(arrow_table(table, parts).select(names))
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def _plain_columns(table: Table, columns: Columns) -> list[Sequence[Any]]:
    """Return columns in which tags and unknown fields are dictionaries."""
    plain_columns: list[Sequence[Any]] = []
    for column, values in zip(table.columns, columns, strict=True):
        if column.type is ColumnType.TAGS:
            plain_columns.append([plain_tags(tags) for tags in values])
        elif column.type is ColumnType.FIELDS:
            plain_columns.append([dict(extra) or None for extra in values])
        else:
            plain_columns.append(values)
    return plain_columns


class TableList(list[T], Tabular):
    """A list that is also a table.

    A slice or a copy is also a table, and so is the sum of two lists of one kind. The kind is the
    class of the items or, in a pull, the feed.
    """

    __slots__ = ("_kind",)

    def __init__(self, items: Iterable[T], kind: Any) -> None:
        super().__init__(items)
        self._kind = kind

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> T: ...
    @overload
    def __getitem__(self, index: slice, /) -> Self: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> T | Self:
        if isinstance(index, slice):
            return type(self)(super().__getitem__(index), self._kind)
        return super().__getitem__(index)

    @overload
    def __add__(self, other: list[T], /) -> Self: ...
    @overload
    def __add__(self, other: list[S], /) -> list[S | T]: ...
    def __add__(self, other: list[Any], /) -> Any:
        both = super().__add__(other)
        kind = getattr(other, "_kind", self._kind)
        if kind is self._kind and self._accepts(other):
            return type(self)(both, self._kind)
        return both

    def _accepts(self, items: Iterable[Any]) -> bool:
        """Return whether all items are of this list's kind."""
        return all(isinstance(item, self._kind) for item in items)

    def copy(self) -> Self:
        """Return a list of the same items."""
        return self[:]


class ModelList(TableList[T]):
    """A list of objects of one class, such as campaigns or changes, that is also a table.

    Its columns are the attributes of the objects, except passwords. Slices, copies and sums are
    also such lists. `polars.DataFrame` and `pandas.DataFrame` would treat it as a list of objects,
    so use `to_polars()` and `to_pandas()`.
    """

    __slots__ = ()

    def _parts(self) -> tuple[Table, Iterable[Columns]]:
        table = Table(self._kind.__name__, "", tuple(columns_of_model(self._kind)), ("id",))
        return table, [model_columns(self._kind, self)]

    def html(self, caption: str) -> str:
        """Return the first rows as an HTML table for a notebook."""
        table, (columns,) = self._parts()
        return html_table(caption, table.columns, zip(*columns, strict=True), len(self))

    def _repr_html_(self) -> str:
        name = self._kind.__name__
        return self.html(name if name.endswith("s") else f"{name}s")
