"""Tables as Arrow: their schemas, and rows in memory; the only file of the core that knows pyarrow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from seorep_async.models import Tag
from seorep_async.tables.columns import (
    Column,
    Columns,
    ColumnType,
    Table,
    as_json,
    is_constant,
    once_each,
)
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """Return a table's schema: int64, double, string, bool, date32, timestamp, a list of structs
    for tags; or JSON.

    Each field has its description as metadata. Metadata for pandas make integers and booleans
    nullable, so that they don't become floats there.
    """
    pa = require("pyarrow")
    fields = [
        pa.field(one.name, _type(one.type), one.nullable, {"description": one.description})
        for one in table.columns
    ]
    metadata = {"description": table.description, "pandas": json.dumps(_for_pandas(table))}
    return pa.schema(fields, metadata=metadata)


def record_batch(table: Table, columns: Columns) -> pa.RecordBatch:
    """Return columns as one record batch; integers beyond 64 bits are an OverflowError, bad Unicode
    is a ValueError.

    Tags become structs of id, label and extra; unknown fields, also those of a tag, become JSON
    strings or null.
    """
    pa = require("pyarrow")
    arrays = [
        _array(pa, column.type, values)
        for column, values in zip(table.columns, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(table))


def _array(pa: Any, kind: ColumnType, values: Sequence[Any]) -> pa.Array:
    if kind is ColumnType.TAGS:
        return _tags(pa, values)
    if kind is ColumnType.FIELDS:
        values = [as_json(value) if value else None for value in values]
    elif kind is ColumnType.ANY:
        values = [None if value is None else as_json(value) for value in values]
    elif kind is ColumnType.NUMBER:
        values = [None if value is None else float(value) for value in values]
    elif is_constant(kind, values):
        return pa.repeat(pa.scalar(values[0], _type(kind)), len(values))
    return pa.array(values, _type(kind))


def arrow_table(table: Table, parts: Iterable[Columns]) -> pa.Table:
    """Return rows as an Arrow table; keys that are unknown in memory, such as an account, may be
    null in it.
    """
    pa, schema = require("pyarrow"), arrow_schema(table)
    batches = [record_batch(table, columns) for columns in parts]
    for index, field in enumerate(schema):
        if not field.nullable and any(batch.column(index).null_count for batch in batches):
            schema = schema.set(index, field.with_nullable(True))
    return pa.Table.from_batches(
        [pa.RecordBatch.from_arrays(one.columns, schema=schema) for one in batches], schema
    )


def pandas_frame(columns: Sequence[Column], rows: pa.Table) -> pd.DataFrame:
    """Return columns of an Arrow table as a pandas data frame.

    Dates and times are times of seconds, because dates of Arrow or of Python cannot be compared
    with a string or a Timestamp, resampled or drawn. Nested values are Python objects.
    """
    pa = require("pyarrow")
    pd = require("pandas")
    series = {}
    for column in columns:
        values = rows[column.name]
        if column.type in (ColumnType.DATE, ColumnType.DATETIME):
            series[column.name] = values.cast(pa.timestamp("s"), safe=False).to_pandas()
        elif column.type in _NESTED:
            objects = [_as_object(value) for value in values.to_pylist()]
            series[column.name] = pd.Series(objects, dtype=object)
        else:
            series[column.name] = values.to_pandas(types_mapper=pd.ArrowDtype)
    return pd.DataFrame(series)


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
        ColumnType.TAGS: pa.list_(
            pa.struct({"id": pa.int64(), "label": pa.string(), "extra": pa.string()})
        ),
    }
    return types.get(kind, pa.string())


def _tags(pa: Any, values: Sequence[Any]) -> pa.Array:
    # from flat columns, as a list of dicts takes ten times as long
    kind, plain = _type(ColumnType.TAGS), once_each(_plain_tags, values)
    tags, ends = list(chain.from_iterable(plain)), list(accumulate(map(len, plain), initial=0))
    members, fields = zip(*tags, strict=True) if tags else ((), (), ()), list(kind.value_type)
    arrays = [pa.array(one, field.type) for one, field in zip(members, fields, strict=True)]
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), pa.StructArray.from_arrays(arrays, fields=fields), kind
    )


def _plain_tags(tags: tuple[Tag, ...]) -> list[tuple[int, str, str | None]]:
    return [(tag.id, tag.label, as_json(tag.extra) if tag.extra else None) for tag in tags]


_NESTED = (ColumnType.TAGS, ColumnType.FIELDS, ColumnType.ANY)
_NULLABLE = {ColumnType.INTEGER: ("int64", "Int64"), ColumnType.BOOLEAN: ("bool", "boolean")}


def _for_pandas(table: Table) -> dict[str, Any]:
    columns = [
        {
            "name": one.name,
            "field_name": one.name,
            "pandas_type": known[0],
            "numpy_type": known[1],
            "metadata": None,
        }
        for one in table.columns
        if (known := _NULLABLE.get(one.type))
    ]
    return {
        "index_columns": [],
        "column_indexes": [],
        "columns": columns,
        "creator": {"library": "pyarrow"},
    }
