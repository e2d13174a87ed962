"""Rows of one table as dictionaries, JSON lines, Arrow, data frames, a notebook's table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, overload

import attrs

from seorep_async.tables.arrow import pandas_frame, polars_frame, record_batch
from seorep_async.tables.columns import ColumnType, Table, columns_of_model, model_columns, plain_tags
from seorep_async.tables.html import html_table
from seorep_async.tables.optional import require
from seorep_async.tables.text import columns_as_json_lines

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

T = TypeVar("T")


class Tabular:
    """Rows of one table: a report's, or the objects of a list.

    All its methods give the same rows in the same columns, as a pull writes them: null and 0 stay apart, and integers
    stay integers. `seorep_async.export` lists how each type of value is written.
    """

    __slots__ = ()

    def _columns(self) -> tuple[Table, list[Sequence[Any]]]:
        """Return the table and the values of its columns."""
        raise NotImplementedError

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row: a member for each column, in their order.

        Dates are dates, tags a list of dictionaries with `id`, `label` and, if the service sent more, `extra`; fields
        that the service's reference does not name are a dictionary.
        """
        table, columns = self._columns()
        names = [column.name for column in table.columns]
        values = [
            _AS_DICTS[column.type](held) if column.type in _AS_DICTS else held
            for column, held in zip(table.columns, columns, strict=True)
        ]
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]

    def to_jsonl(self) -> bytes:
        """Return the rows as JSON lines in UTF-8: the bytes of an exported file.

        They are bytes, as a string's `splitlines()` would also split at U+2028 within a value.

        Raises:
            ValueError: a string is not valid Unicode.
            RecursionError: an unknown field is nested nearly as deep as Python allows.
        """
        return columns_as_json_lines(*self._columns())

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table.

        Raises:
            ImportError: pyarrow is missing; the message says how to install it.
            OverflowError: an integer needs more than 64 bits.
        """
        return require("pyarrow").Table.from_batches([record_batch(*self._columns())])

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas data frame, in which integers stay integers.

        Raises:
            ImportError: pandas or pyarrow is missing; the message says how to install it.
        """
        return pandas_frame(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars data frame.

        Raises:
            ImportError: polars or pyarrow is missing; the message says how to install it.
        """
        return polars_frame(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream: object = self.to_arrow().__arrow_c_stream__(requested_schema)
        return stream


_AS_DICTS: dict[ColumnType, Callable[[Sequence[Any]], Sequence[Any]]] = {
    ColumnType.TAGS: lambda column: list(map(plain_tags, column)),
    ColumnType.FIELDS: lambda column: list(map(dict, column)),
}


class ModelList(list[T], Tabular):
    """A list of campaigns, users, keywords or backlinks, which also becomes a data frame and shows itself in notebooks.

    Its columns are the attributes of the objects, but for passwords. A slice of it is another one. `polars.DataFrame`
    and `pandas.DataFrame` take any list as a list of objects: use `to_polars()` and `to_pandas()`.
    """

    __slots__ = ("_model",)

    def __init__(self, items: Iterable[T], model: type[T]) -> None:
        super().__init__(items)
        self._model: type[Any] = model

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> T: ...
    @overload
    def __getitem__(self, index: slice, /) -> ModelList[T]: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> T | ModelList[T]:
        if isinstance(index, slice):
            return ModelList(super().__getitem__(index), self._model)
        return super().__getitem__(index)

    def _columns(self) -> tuple[Table, list[Sequence[Any]]]:
        table, indices = _list_table(self._model)  # type: ignore[arg-type]  # a type is hashable
        columns = model_columns(self._model, self)
        return table, [columns[index] for index in indices]

    def _repr_html_(self) -> str:
        table, columns = self._columns()
        return html_table(f"{table.name}s", table.columns, zip(*columns, strict=True), len(self))


@cache
def _list_table(model: type) -> tuple[Table, list[int]]:
    """Return the table of a list of models, without secrets, and the indices of its columns among the model's."""
    shown = attrs.fields_dict(model)
    columns = [(index, one) for index, one in enumerate(columns_of_model(model)) if shown[one.name].repr]
    return Table(model.__name__, "", tuple(one for _, one in columns), ("id",)), [index for index, _ in columns]
