"""Arrow schemas and tables, and pandas frames made of them."""

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
    """Return a table's schema.

    Each field has its description as metadata. Metadata for pandas makes integers and booleans
    nullable, so pandas does not turn them into floats.
    """
    pa = require("pyarrow")
    fields = []
    for column in table.columns:
        description = {"description": column.description}
        fields.append(pa.field(column.name, _arrow_type(column.type), column.nullable, description))
    metadata = {"description": table.description, "pandas": json.dumps(_pandas_metadata(table))}
    return pa.schema(fields, metadata=metadata)


def record_batch(table: Table, columns: Columns) -> pa.RecordBatch:
    """Return columns as one record batch.

    Tags become structs of id, label and extra. Unknown fields, including those of tags, become JSON
    strings or null.

    Raises:
        OverflowError: an integer needs more than 64 bits.
        ValueError: a string is not valid Unicode.
    """
    pa = require("pyarrow")
    arrays = []
    for column, values in zip(table.columns, columns, strict=True):
        try:
            arrays.append(_arrow_array(pa, column.type, values))
        except OverflowError:
            problem = f"{column.name}: an integer needs more than 64 bits"
            raise OverflowError(problem) from None
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(table))


def _arrow_array(pa: Any, column_type: ColumnType, values: Sequence[Any]) -> pa.Array:
    """Return a column's values. A column of type `FIELDS` or `ANY` becomes JSON text."""
    if column_type is ColumnType.TAGS:
        return _tag_array(pa, values)
    if column_type is ColumnType.FIELDS:
        values = [as_json(value) if value else None for value in values]
    elif column_type is ColumnType.ANY:
        values = [None if value is None else as_json(value) for value in values]
    elif column_type is ColumnType.NUMBER:
        values = [None if value is None else float(value) for value in values]
    elif is_constant(column_type, values):
        # repeating one value takes Arrow a fraction of the time of reading all values
        return pa.repeat(pa.scalar(values[0], _arrow_type(column_type)), len(values))
    return pa.array(values, _arrow_type(column_type))


def arrow_table(table: Table, parts: Iterable[Columns]) -> pa.Table:
    """Return rows as an Arrow table. A column with nulls is nullable, even if it is a key."""
    pa = require("pyarrow")
    schema = arrow_schema(table)
    batches = [record_batch(table, columns) for columns in parts]
    # key columns may contain nulls in a report in memory, but never in a pulled file
    for index, field in enumerate(schema):
        has_nulls = any(batch.column(index).null_count for batch in batches)
        if has_nulls and not field.nullable:
            schema = schema.set(index, field.with_nullable(True))
    batches = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches]
    return pa.Table.from_batches(batches, schema)


def pandas_frame(columns: Sequence[Column], rows: pa.Table) -> pd.DataFrame:
    """Return columns of an Arrow table as a pandas data frame.

    Dates and times are `datetime64[s]`, because pandas can't resample or plot dates of Arrow or
    Python, or compare them with a string or a Timestamp. Nested values are Python objects.
    """
    pa = require("pyarrow")
    pd = require("pandas")
    series = {}
    for column in columns:
        values = rows[column.name]
        if column.type in (ColumnType.DATE, ColumnType.DATETIME):
            series[column.name] = values.cast(pa.timestamp("s"), safe=False).to_pandas()
        elif column.type is ColumnType.STRINGS:
            # lists of strings contain no JSON, so nothing is decoded
            series[column.name] = pd.Series(values.to_pylist(), dtype=object)
        elif column.type in _NESTED:
            objects = [_as_object(value) for value in values.to_pylist()]
            series[column.name] = pd.Series(objects, dtype=object)
        else:
            series[column.name] = values.to_pandas(types_mapper=pd.ArrowDtype)
    return pd.DataFrame(series)


def _as_object(value: Any) -> Any:
    """Return a nested value as Python objects, decoded from Arrow's JSON."""
    if value is None:
        return None
    if not isinstance(value, list):
        return json.loads(value)
    for tag in value:
        extra = tag.pop("extra")
        if extra is not None:
            tag["extra"] = json.loads(extra)
    return value


@cache
def _arrow_type(column_type: ColumnType) -> pa.DataType:
    """Return the type of a column in Arrow."""
    pa = require("pyarrow")
    match column_type:
        case ColumnType.INTEGER:
            return pa.int64()
        case ColumnType.NUMBER:
            return pa.float64()
        case ColumnType.BOOLEAN:
            return pa.bool_()
        case ColumnType.DATE:
            return pa.date32()
        case ColumnType.DATETIME:
            return pa.timestamp("us")
        case ColumnType.TAGS:
            tag = {"id": pa.int64(), "label": pa.string(), "extra": pa.string()}
            return pa.list_(pa.struct(tag))
        case ColumnType.STRINGS:
            return pa.list_(pa.string())
    # all other columns are strings; some of them contain JSON
    return pa.string()


def _tag_array(pa: Any, values: Sequence[Any]) -> pa.Array:
    """Return the tags of each row as a list of structs."""
    # built from flat columns, because a list of dictionaries takes ten times as long
    lists_of_tags = once_each(_tag_fields, values)
    offsets = accumulate(map(len, lists_of_tags), initial=0)
    tags = list(chain.from_iterable(lists_of_tags))
    array_type = _arrow_type(ColumnType.TAGS)
    fields = list(array_type.value_type)
    arrays = []
    for index, field in enumerate(fields):
        members = [tag[index] for tag in tags]
        arrays.append(pa.array(members, field.type))
    structs = pa.StructArray.from_arrays(arrays, fields=fields)
    return pa.ListArray.from_arrays(pa.array(list(offsets), pa.int32()), structs, array_type)


def _tag_fields(tags: tuple[Tag, ...]) -> list[tuple[int, str, str | None]]:
    """Return the fields of each tag. Unknown fields become JSON, or None."""
    fields_of_tags = []
    for tag in tags:
        extra = as_json(tag.extra) if tag.extra else None
        fields_of_tags.append((tag.id, tag.label, extra))
    return fields_of_tags


_NESTED = (ColumnType.TAGS, ColumnType.FIELDS, ColumnType.ANY)
_PANDAS_TYPES = {
    ColumnType.INTEGER: ("int64", "Int64"),
    ColumnType.BOOLEAN: ("bool", "boolean"),
    # fastparquet can't open a file in which a date has no type
    ColumnType.DATE: ("date", "datetime64[us]"),
    ColumnType.DATETIME: ("datetime", "datetime64[us]"),
}
"""The names of a type in pandas. The second name allows nulls."""


def _pandas_metadata(table: Table) -> dict[str, Any]:
    """Return metadata that makes pandas read integers and booleans as nullable."""
    columns = []
    for column in table.columns:
        if column.type in _PANDAS_TYPES:
            pandas_type, numpy_type = _PANDAS_TYPES[column.type]
            columns.append(
                {
                    "name": column.name,
                    "field_name": column.name,
                    "pandas_type": pandas_type,
                    "numpy_type": numpy_type,
                    "metadata": None,
                }
            )
    return {
        "index_columns": [],
        "column_indexes": [],
        "columns": columns,
        "creator": {"library": "pyarrow"},
    }
