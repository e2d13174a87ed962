"""Tables as Arrow: their schemas, and rows in memory; the only file of the core that knows pyarrow."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from seorep_async.models import Tag
from seorep_async.tables.columns import COMPARABLE, Columns, ColumnType, Table, as_json, is_constant, once_each
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """Return a table's schema: int64, double, string, bool, date32, timestamp, a list of structs for tags; or JSON.

    Each field has its description as metadata. Metadata for pandas make integers and booleans nullable, so that they
    don't become floats there.
    """
    pa = require("pyarrow")
    fields = [
        pa.field(column.name, _type(column.type), column.nullable, {"description": column.description})
        for column in table.columns
    ]
    metadata = {"description": table.description, "pandas": json.dumps(_for_pandas(table))}
    return pa.schema(fields, metadata=metadata)


def record_batch(table: Table, columns: Columns) -> pa.RecordBatch:
    """Return columns as one record batch; integers beyond 64 bits are an OverflowError, bad Unicode is a ValueError.

    Tags become structs of id, label and extra; unknown fields, also those of a tag, become JSON strings or null.
    """
    arrays = [make(values) for make, values in zip(_makers(table), columns, strict=True)]
    return require("pyarrow").RecordBatch.from_arrays(arrays, schema=arrow_schema(table))


@cache
def _makers(table: Table) -> list[Callable[[Sequence[Any]], pa.Array]]:
    return [_SPECIAL.get(column.type) or partial(_array, require("pyarrow"), column.type) for column in table.columns]


def _array(pa: Any, kind: ColumnType, column: Sequence[Any]) -> pa.Array:
    if len(column) > 1 and kind in COMPARABLE and is_constant(column):  # many columns are
        return pa.repeat(pa.scalar(column[0], _type(kind)), len(column))
    return pa.array(column, _type(kind))


def arrow_table(table: Table, parts: Iterable[Columns]) -> pa.Table:
    """Return rows as an Arrow table; keys that are unknown in memory, such as an account, may be null in it."""
    pa, schema = require("pyarrow"), arrow_schema(table)
    batches = [record_batch(table, columns) for columns in parts]
    for index, field in enumerate(schema):
        if not field.nullable and any(batch.column(index).null_count for batch in batches):
            schema = schema.set(index, field.with_nullable(True))
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(one.columns, schema=schema) for one in batches], schema)


def pandas_frame(table: Table, rows: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a pandas data frame: times of seconds, nullable types, nested values as objects.

    Dates of Arrow or of Python can't be compared with a string or a Timestamp, resampled or drawn.
    """
    pa, pd = require("pyarrow"), require("pandas")
    seconds = pa.timestamp("s")
    columns = {}
    for column, values in zip(table.columns, rows.columns, strict=True):
        if column.type in (ColumnType.DATE, ColumnType.DATETIME):
            columns[column.name] = values.cast(seconds, safe=False).to_pandas()
        elif column.type in _NESTED:
            columns[column.name] = pd.Series(list(map(_as_object, values.to_pylist())), dtype=object)
        else:
            columns[column.name] = values.to_pandas(types_mapper=pd.ArrowDtype)
    return pd.DataFrame(columns)


def _as_object(value: Any) -> Any:
    """Return a nested value, of which Arrow has JSON, as Python has it."""
    if not isinstance(value, list):
        return None if value is None else json.loads(value)
    for tag in value:
        if (extra := tag.pop("extra")) is not None:
            tag["extra"] = json.loads(extra)
    return value


@cache
def _type(kind: ColumnType) -> pa.DataType:
    pa = require("pyarrow")
    types = {
        ColumnType.INTEGER: pa.int64(),
        ColumnType.NUMBER: pa.float64(),
        ColumnType.BOOLEAN: pa.bool_(),
        ColumnType.DATE: pa.date32(),
        ColumnType.DATETIME: pa.timestamp("us"),
        ColumnType.TAGS: pa.list_(pa.struct({"id": pa.int64(), "label": pa.string(), "extra": pa.string()})),
    }
    return types.get(kind, pa.string())


def _tags(column: Sequence[Any]) -> pa.Array:
    pa, kind = require("pyarrow"), _type(ColumnType.TAGS)
    # from flat columns, as a list of dicts takes ten times as long
    plain = once_each(_plain_tags, column)
    tags, ends = list(chain.from_iterable(plain)), list(accumulate(map(len, plain), initial=0))
    values = zip(*tags, strict=True) if tags else ((), (), ())
    fields = list(kind.value_type)
    flat = pa.StructArray.from_arrays(
        [pa.array(one, field.type) for one, field in zip(values, fields, strict=True)], fields=fields
    )
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), flat, type=kind)


def _plain_tags(tags: tuple[Tag, ...]) -> list[tuple[int, str, str | None]]:
    return [(tag.id, tag.label, as_json(tag.extra) if tag.extra else None) for tag in tags]


def _strings(has_value: Callable[[Any], bool], column: Sequence[Any]) -> pa.Array:
    pa = require("pyarrow")
    return pa.array([as_json(value) if has_value(value) else None for value in column], pa.string())


def _numbers(column: Sequence[Any]) -> pa.Array:
    pa = require("pyarrow")
    return pa.array([None if value is None else float(value) for value in column], pa.float64())


_NESTED: dict[ColumnType, Callable[[Sequence[Any]], Any]] = {
    ColumnType.TAGS: _tags,
    ColumnType.FIELDS: partial(_strings, bool),
    ColumnType.ANY: partial(_strings, partial(operator.is_not, None)),
}
_SPECIAL = _NESTED | {ColumnType.NUMBER: _numbers}

_NULLABLE = {ColumnType.INTEGER: ("int64", "Int64"), ColumnType.BOOLEAN: ("bool", "boolean")}


def _for_pandas(table: Table) -> dict[str, Any]:
    columns = [
        {"name": one.name, "field_name": one.name, "pandas_type": known[0], "numpy_type": known[1], "metadata": None}
        for one in table.columns
        if (known := _NULLABLE.get(one.type))
    ]
    return {"index_columns": [], "column_indexes": [], "columns": columns, "creator": {"library": "pyarrow"}}
