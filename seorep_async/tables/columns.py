"""Tables and their columns, and how a model becomes columns and a row."""

from __future__ import annotations

import datetime as dt
import enum
import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import attrs
import msgspec
from msgspec.structs import astuple

from seorep_async.models import Feed, Tag
from seorep_async.models.descriptions import description_of


class ColumnType(enum.Enum):
    """The type of a column's values; any but `TAGS` and `FIELDS` may be None."""

    INTEGER = "integer"
    NUMBER = "number"
    """An integer or a float, as the service sent it."""
    STRING = "string"
    BOOLEAN = "boolean"
    DATE = "date"
    DATETIME = "datetime"
    """A date and a time of day without a zone; the column's description names the zone, if it is known."""
    TAGS = "tags"
    """A tuple of `Tag`."""
    FIELDS = "fields"
    """A mapping of wire fields that no model knows: an `extra`."""
    ANY = "any"
    """Whatever JSON the service sent, as its type is not documented."""


COMPARABLE = {ColumnType.INTEGER, ColumnType.STRING, ColumnType.BOOLEAN, ColumnType.DATE}
"""Types whose values are the same if they are equal, as 1 and 1.0 are not."""
_FEW_ROWS = 16
_TYPES: dict[object, ColumnType] = {
    int: ColumnType.INTEGER,
    float: ColumnType.NUMBER,
    str: ColumnType.STRING,
    bool: ColumnType.BOOLEAN,
    dt.date: ColumnType.DATE,
    dt.datetime: ColumnType.DATETIME,
    tuple[Tag, ...]: ColumnType.TAGS,
    Mapping[str, Any]: ColumnType.FIELDS,
    Any: ColumnType.ANY,
}


@attrs.frozen
class Column:
    """One column of a table.

    Attributes:
        name: its name.
        type: the type of its values.
        description: what it means: unit, null against 0 and sign, as far as they are known.
        nullable: whether a value may be missing.
    """

    name: str
    type: ColumnType
    description: str
    nullable: bool = True


Values: TypeAlias = tuple[Any, ...]


@attrs.frozen(eq=False)
class Table:
    """A table.

    Attributes:
        name: its name in a database, and in the names of files and folders.
        description: what one row is.
        columns: its columns in their order; `account` and `snapshot_date` come first.
        key: the columns that together identify a row.
    """

    name: str
    description: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]


@attrs.frozen(eq=False)
class FeedTable(Table):
    """The table of one feed.

    Its first columns, the lead, name the report that a row belongs to; the others are the row model's.
    """

    feed: Feed
    lead: int
    _model: type

    def column_values(self, rows: Sequence[Any], lead: Values, *, compared: bool) -> list[Sequence[Any]]:
        """Return the values of row models column by column, which is twice as fast as row by row.

        Args:
            rows: models of the feed's row type.
            lead: the values of the lead columns, the same for every row.
            compared: whether changes from the previous period were requested; if not, they are null.
        """
        values = [*([value] * len(rows) for value in lead), *model_columns(self._model, rows)]
        for index in () if compared else _changes(self):
            values[index] = [None] * len(rows)
        return values


@cache
def _changes(table: Table) -> list[int]:
    return [index for index, column in enumerate(table.columns) if is_change(column.name)]


def is_change(name: str) -> bool:
    """Whether a column or an attribute is a change from the previous period."""
    return name.endswith("_ranking_change")


def columns_of_model(model: type) -> Iterator[Column]:
    """Yield a column for each attribute of a model, in their order.

    An attribute that is a model itself becomes one column for each of its attributes, such as `search_location_id`.
    """
    hints = typing.get_type_hints(model)
    for name, held in _attributes(model).items():
        if attrs.has(held):
            for column in columns_of_model(held):
                yield attrs.evolve(column, name=f"{name}_{column.name}", nullable=True)
        else:
            type_ = _TYPES[held]
            optional = types.NoneType in typing.get_args(hints[name])
            nullable = optional or type_ in (ColumnType.FIELDS, ColumnType.ANY)
            yield Column(name, type_, description_of(model, name), nullable)


def model_columns(model: type, rows: Sequence[Any]) -> list[Sequence[Any]]:
    """Return the values of each column of models of one type; any of them may be None."""
    read, absent, nested = _reading(model)
    gaps = any(row is None for row in rows)
    values = (absent if row is None else read(row) for row in rows) if gaps else map(read, rows)
    columns: list[Sequence[Any]]
    if 0 < len(rows) < _FEW_ROWS:
        columns = list(zip(*values, strict=True))
    else:
        flat = list(chain.from_iterable(values))  # of many rows, slices take half the time of `zip`
        columns = [flat[index :: len(absent)] for index in range(len(absent))]
    for index, held in nested:
        columns[index : index + 1] = model_columns(held, columns[index])
    return columns


@cache
def _reading(model: type) -> tuple[Callable[[Any], Values], Values, list[tuple[int, type]]]:
    """Return how to read a model's values, the values of None, and the indices of models among them, the last first."""
    attributes = _attributes(model)
    absent: Values = tuple({} if _TYPES.get(held) is ColumnType.FIELDS else None for held in attributes.values())
    # a struct gives all its values in half the time that they take one by one
    read: Callable[[Any], Values] = astuple if issubclass(model, msgspec.Struct) else attrgetter(*attributes)
    nested = [(index, held) for index, held in enumerate(attributes.values()) if attrs.has(held)]
    return read, absent, nested[::-1]


def is_constant(values: Sequence[Any]) -> bool:
    """Whether strings, integers, booleans or dates are all the same; quick if they are not."""
    first = values[0]
    return values[-1] is first and values[len(values) // 2] is first and values.count(first) == len(values)


@cache
def _attributes(model: type) -> dict[str, Any]:
    """Return attribute name → type without None; a literal of strings is a string."""
    hints = typing.get_type_hints(model)
    return {field.name: _held(hints[field.name]) for field in attrs.fields(model)}


def _held(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
    return str if typing.get_origin(hint) is Literal else hint


_ENCODE = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


def as_json(value: object) -> str:
    """Return a value as a JSON string, for formats without a type for it; the same for equal values."""
    return _ENCODE(value)


def plain_tags(tags: tuple[Tag, ...]) -> list[dict[str, Any]]:
    """Return tags as JSON objects; `extra` is a member only of tags with unknown fields."""
    return [{"id": tag.id, "label": tag.label} | ({"extra": tag.extra} if tag.extra else {}) for tag in tags]
