"""Tables, their columns, and the columns of models."""

from __future__ import annotations

import enum
import json
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import attrs
import msgspec
from msgspec.structs import astuple

from seorep_async.models import Feed, Tag
from seorep_async.models.descriptions import description_of
from seorep_async.plain_values import UNFROZEN, field_types


class ColumnType(enum.Enum):
    """The type of a column's values. Values of all types but `TAGS` and `FIELDS` may be None."""

    INTEGER = "integer"
    NUMBER = "number"
    """The integer or the float that the service sent."""
    STRING = "string"
    BOOLEAN = "boolean"
    DATE = "date"
    DATETIME = "datetime"
    """A date and a time of day without a zone; the column's description names the zone, if it is
    known.
    """
    TAGS = "tags"
    """A tuple of `Tag`."""
    FIELDS = "fields"
    """The mapping of unknown wire fields in a model's `extra`."""
    STRINGS = "strings"
    """A tuple of strings, such as the kinds of a change. No table of a pull has such a column."""
    ANY = "any"
    """Any JSON, because its type is not documented."""


_COMPARABLE = {ColumnType.INTEGER, ColumnType.STRING, ColumnType.BOOLEAN, ColumnType.DATE}
"""Types in which equal values have the same text, unlike the numbers 1 and 1.0."""
_TYPES = {
    int: ColumnType.INTEGER,
    float: ColumnType.NUMBER,
    str: ColumnType.STRING,
    bool: ColumnType.BOOLEAN,
    UNFROZEN.date: ColumnType.DATE,
    UNFROZEN.datetime: ColumnType.DATETIME,
    tuple[Tag, ...]: ColumnType.TAGS,
    Mapping[str, Any]: ColumnType.FIELDS,
    tuple[str, ...]: ColumnType.STRINGS,
    Any: ColumnType.ANY,
}


@attrs.frozen
class Column:
    """One column of a table.

    Its description explains the unit, the sign, and the meanings of null and 0 if they are known.
    """

    name: str
    type: ColumnType
    description: str
    nullable: bool = True


Values: TypeAlias = tuple[Any, ...]
"""The values of one row, by column."""
Columns: TypeAlias = Sequence[Sequence[Any]]
"""The values of several rows. Each column has a value for each row."""


@attrs.frozen(eq=False)
class Table:
    """A table, with the same name and columns in databases and files.

    `description` says what a row is, and `key` names the columns that together identify one. The
    first `lead` columns say which account, snapshot date and report a row belongs to.
    """

    name: str
    description: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    lead: int = attrs.field(default=0, kw_only=True)


@attrs.frozen(eq=False)
class FeedTable(Table):
    """The table of one feed. The row model's columns follow the leading ones."""

    feed: Feed
    _model: type

    def column_values(self, rows: Sequence[Any], *, compared: bool) -> list[Sequence[Any]]:
        """Return the values of row models by column, without the leading columns.

        Changes from the previous period are null unless `compared`.
        """
        values = model_columns(self._model, rows)
        if not compared:
            for index, column in enumerate(self.columns[self.lead :]):
                if is_change(column.name):
                    values[index] = [None] * len(rows)
        return values


def is_change(name: str) -> bool:
    """Return whether a column or an attribute is a change from the previous period."""
    return name.endswith("_ranking_change")


def columns_of_model(model: type) -> Iterator[Column]:
    """Yield a column for each attribute of a model.

    Nested models become columns such as `search_location_id`.
    """
    for name, (value_type, is_optional) in _attributes(model).items():
        if attrs.has(value_type):
            # the nested model itself may be None
            for column in columns_of_model(value_type):
                yield attrs.evolve(column, name=f"{name}_{column.name}", nullable=True)
        else:
            column_type = _TYPES[value_type]
            # tables have null in place of an empty `extra`
            nullable = is_optional or column_type in (ColumnType.FIELDS, ColumnType.ANY)
            yield Column(name, column_type, description_of(model, name), nullable)


def model_columns(model: type, rows: Sequence[Any]) -> list[Sequence[Any]]:
    """Return the values of each column for models of one type. A row may be None.

    A nested model is replaced by its own columns, as in `columns_of_model`.
    """
    read, absent, nested = _model_reader(model)
    column_count = len(absent)
    values: Iterable[Values] = map(read, rows)
    # `None in rows` would call `__eq__` of each row.
    if types.NoneType in map(type, rows):
        values = (absent if row is None else read(row) for row in rows)
    # Slices take half the time of `zip`, and return columns even if there are no rows.
    flat = list(chain.from_iterable(values))
    columns: list[Sequence[Any]] = [flat[index::column_count] for index in range(column_count)]
    # In reverse, because each nested model turns one column into several.
    for index, nested_model in reversed(nested):
        columns[index : index + 1] = model_columns(nested_model, columns[index])
    return columns


@cache
def _model_reader(model: type) -> tuple[Callable[[Any], Values], Values, list[tuple[int, type]]]:
    """Return the parts with which `model_columns` reads models of a type.

    Returns:
        A function that reads the values of a model, the values of an absent model, and the columns
        with nested models: the index of each, and the type of its models.
    """
    absent: list[Any] = []
    nested = []
    for index, (value_type, _is_optional) in enumerate(_attributes(model).values()):
        absent.append({} if _TYPES.get(value_type) is ColumnType.FIELDS else None)
        if attrs.has(value_type):
            nested.append((index, value_type))
    read: Callable[[Any], Values] = attrgetter(*_attributes(model))
    # Reading all values of a struct at once takes half the time.
    if issubclass(model, msgspec.Struct):
        read = astuple
    return read, tuple(absent), nested


def is_constant(column_type: ColumnType, values: Sequence[Any]) -> bool:
    """Return whether there are several strings, integers, booleans or dates, all equal.

    Equal values may give False: the middle and the last must be the same object as the first.
    """
    if len(values) < 2 or column_type not in _COMPARABLE:
        return False
    first_value = values[0]
    # The middle and the end reveal most columns that vary.
    if values[-1] is not first_value or values[len(values) // 2] is not first_value:
        return False
    return values.count(first_value) == len(values)


@cache
def _attributes(model: type) -> dict[str, tuple[Any, bool]]:
    """Return each attribute's type without None, and whether the attribute may be None.

    A literal counts as a string, a tuple of literals as a tuple of strings. Secrets are omitted.
    """
    attributes = {}
    types_of_fields = field_types(model)
    for field in attrs.fields(model):
        # a field with `repr=False` is a secret (`User.password`), and gets no column
        if not field.repr:
            continue
        hint = types_of_fields[field.name]
        is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
        parts = typing.get_args(hint) if is_union else (hint,)
        value_type = next(part for part in parts if part is not types.NoneType)
        if typing.get_origin(value_type) is Literal:
            value_type = str
        elif typing.get_origin(value_type) is tuple:
            item_type = typing.get_args(value_type)[0]
            if typing.get_origin(item_type) is Literal:
                value_type = tuple[str, ...]
        attributes[field.name] = (value_type, types.NoneType in parts)
    return attributes


_ENCODE = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


def fits(number: int) -> bool:
    """Return whether an integer has at most 64 bits, the limit of databases and Arrow."""
    return -(2**63) <= number < 2**63


def as_json(value: object) -> str:
    """Return a value as a JSON string, with the fields of its objects sorted by name."""
    return _ENCODE(value)


def once_each(function: Callable[[Any], Any], column: Sequence[Any]) -> list[Any]:
    """Return a function's results for a column. Call it once for each distinct object.

    Rows often share a tuple of tags.
    """
    # objects are found by identity, because comparing tuples of tags costs more than encoding them
    objects = {id(value): value for value in column}
    results = {key: function(value) for key, value in objects.items()}
    return [results[id(value)] for value in column]


def plain_tags(tags: tuple[Tag, ...]) -> list[dict[str, Any]]:
    """Return tags as JSON objects. Only tags with unknown fields have `extra`."""
    plain = []
    for tag in tags:
        plain_tag = {"id": tag.id, "label": tag.label}
        if tag.extra:
            plain_tag["extra"] = tag.extra
        plain.append(plain_tag)
    return plain
