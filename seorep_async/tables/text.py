"""CSV and JSON lines: equal rows give equal bytes. Also JSON for people and agents."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from json.encoder import encode_basestring
from typing import Any

import msgspec

from seorep_async.errors import ConfigurationError, counted
from seorep_async.models import Tag
from seorep_async.tables.columns import (
    Columns,
    ColumnType,
    Table,
    as_json,
    is_constant,
    once_each,
    plain_tags,
)

_JSON = msgspec.json.Encoder()
_LINE_END = "\r\n"
LONGEST = 20_000
"""The largest excerpt, in bytes of UTF-8."""
_LONGEST_VALUE = 500
_ROOM_FOR_OMISSIONS = 500
"""The number of bytes reserved for the description of omissions."""


def csv_lines(table: Table, columns: Columns) -> list[str]:
    """Return columns of values as lines of CSV (RFC 4180), without a header.

    Numbers, strings and dates (ISO) are unchanged. Booleans become `true` and `false`; tags and
    unknown fields become JSON. None becomes an empty cell, and so does an empty `extra`.
    """
    cells = [
        _cells(column.type, values) for column, values in zip(table.columns, columns, strict=True)
    ]
    # joining the cells of each row takes a third of the time of `csv.writer`
    return [",".join(row) + _LINE_END for row in zip(*cells, strict=True)]


def _cells(column_type: ColumnType, values: Sequence[Any]) -> list[str]:
    """Return a column as cells. If all values are equal, only one is converted."""
    if is_constant(column_type, values):
        return _cells(column_type, values[:1]) * len(values)
    return _CSV[column_type](values)


def csv_header(table: Table) -> bytes:
    """Return the names of a table's columns as a line of CSV."""
    names = ",".join(column.name for column in table.columns)
    return (names + _LINE_END).encode()


def _each(as_string: Callable[[Any], str], values: Sequence[Any]) -> list[str]:
    return ["" if value is None else as_string(value) for value in values]


def _integers(values: Sequence[Any]) -> list[str]:
    """Write integers as digits, and None as an empty string."""
    try:
        # encoding all values at once takes half the time of `str` for each
        digits = _JSON.encode(values)[1:-1].decode().replace("null", "")
        return digits.split(",") if values else []
    # msgspec can't encode integers beyond 64 bits
    except OverflowError:
        return _each(str, values)


def _dates(values: Sequence[Any]) -> list[str]:
    # the same few dates occur in many rows
    strings = {value: str(value) for value in set(values)}
    strings[None] = ""
    return list(map(strings.__getitem__, values))


def _quoted(values: Sequence[str | None]) -> list[str]:
    """Return strings as cells. Only strings that need quotes get them."""
    strings = [value or "" for value in values]
    # one check of the joined strings is faster than a check of each
    if not _needs_quotes("".join(strings)):
        return strings
    return list(map(_quoted_if_needed, strings))


def _quoted_if_needed(string: str) -> str:
    if not _needs_quotes(string):
        return string
    doubled = string.replace('"', '""')
    return f'"{doubled}"'


def _needs_quotes(string: str) -> bool:
    return "," in string or '"' in string or "\n" in string or "\r" in string


def _tag_list(tags: tuple[Tag, ...]) -> str:
    """Write tags as a JSON array."""
    if any(tag.extra for tag in tags):
        return as_json(plain_tags(tags))
    # every row has tags, and `as_json` would take six times as long
    objects = []
    for tag in tags:
        label = encode_basestring(tag.label)
        objects.append(f'{{"id": {tag.id}, "label": {label}}}')
    return f"[{', '.join(objects)}]"


def _extra_cells(values: Sequence[Any]) -> list[str]:
    # rows almost never have unknown fields
    if not any(values):
        return [""] * len(values)
    return _quoted([as_json(extra) if extra else "" for extra in values])


def _extra_members(values: Sequence[Any]) -> list[msgspec.Raw | None]:
    # null instead of `{}`, because a file with `{}` in every line can't become Parquet
    return [msgspec.Raw(as_json(extra).encode()) if extra else None for extra in values]


_CSV: dict[ColumnType, Callable[[Sequence[Any]], list[str]]] = {
    ColumnType.INTEGER: _integers,
    ColumnType.NUMBER: partial(_each, str),
    ColumnType.STRING: _quoted,
    ColumnType.BOOLEAN: partial(_each, {True: "true", False: "false"}.__getitem__),
    ColumnType.DATE: _dates,
    ColumnType.DATETIME: partial(_each, dt.datetime.isoformat),
    ColumnType.TAGS: partial(once_each, lambda tags: _quoted([_tag_list(tags)])[0]),
    ColumnType.FIELDS: _extra_cells,
    ColumnType.ANY: lambda values: _quoted(_each(as_json, values)),
}
"""For each type, the function that turns the values of a column into cells."""


def json_rows(table: Table, columns: Columns) -> list[msgspec.Struct]:
    """Return columns of values as rows for `as_json_lines`."""
    members = []
    for column, values in zip(table.columns, columns, strict=True):
        as_members = _MEMBERS.get(column.type)
        members.append(values if as_members is None else as_members(values))
    # structs are encoded twice as fast as dictionaries
    return list(map(_line_type(table), *members))


def as_json_lines(rows: Sequence[msgspec.Struct]) -> bytes:
    """Return rows as lines of JSON. Invalid Unicode raises a ValueError.

    Dates are ISO dates, and None is null.
    """
    return _JSON.encode_lines(rows)


@cache
def _line_type(table: Table) -> type[msgspec.Struct]:
    return msgspec.defstruct("Line", [(column.name, Any) for column in table.columns], gc=False)


_MEMBERS: dict[ColumnType, Callable[[Sequence[Any]], Sequence[Any]]] = {
    ColumnType.TAGS: partial(once_each, plain_tags),
    ColumnType.FIELDS: _extra_members,
}
"""For each type that is not written to JSON lines as it is, the function that converts it."""


def printable_json(
    value: object, *, indent: int | None = None, default: Callable[[Any], object] | None = None
) -> str:
    """Return JSON with control characters escaped, because terminals would obey them.

    The arguments are those of `json.dumps`.
    """
    encoded = json.dumps(value, ensure_ascii=False, indent=indent, default=default)
    # usually everything is printable, and no character has to be checked separately
    if encoded.replace("\n", "").isprintable():
        return encoded
    return "".join(map(_escaped, encoded))


def _escaped(letter: str) -> str:
    if letter.isprintable() or letter == "\n":
        return letter
    return json.dumps(letter)[1:-1]


def excerpt(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    left_out: Sequence[str] = (),
    advice: Callable[[int], str],
    **facts: Any,
) -> str:
    """Return facts, columns and rows as JSON for agents, which pay for each character.

    Its length is limited. The member `left_out` says which rows or values are missing.

    Args:
        columns: the names of the columns.
        rows: a list or an iterator; it is read only as far as its rows fit.
        left_out: the caller's own descriptions of omissions.
        advice: takes the number of rows that fit, and returns how to get the rest.
        facts: further members, which come first. Members that are None are omitted.

    Raises:
        ConfigurationError: the columns and other members leave no room for rows.
    """
    names = [_cut(name) for name in columns]
    members = {name: value for name, value in facts.items() if value is not None}
    smallest = {**members, "left_out": list(left_out), "columns": names, "rows": []}
    # the bytes that are left for rows
    room = LONGEST - _ROOM_FOR_OMISSIONS - _byte_count(smallest)
    if room < 0:
        raise ConfigurationError(f"an answer has no room for {len(names)} columns; select fewer")
    rows_with_room: list[list[Any]] = []
    omissions = list(left_out)
    cut_values = 0
    for row in rows:
        values = [_cut(value) for value in row]
        # a comma and a space separate two rows
        room -= _byte_count(values) + 2
        if room < 0:
            omissions.append(_omitted_rows(rows, len(rows_with_room), advice))
            break
        rows_with_room.append(values)
        cut_values += sum(map(_is_cut, values, row))
    if cut_values:
        values_cut = f"{counted(cut_values, 'value')} cut at {_LONGEST_VALUE} characters"
        omissions.append(f"{values_cut}; a cut value ends in … and its length")
    if omissions:
        members["left_out"] = omissions
    return _printable({**members, "columns": names, "rows": rows_with_room})


def _omitted_rows(rows: Iterable[Sequence[Any]], kept: int, advice: Callable[[int], str]) -> str:
    """Return the description of the rows that do not fit."""
    # an iterator does not say how many rows it has
    number = "further rows"
    if isinstance(rows, list):
        number = f"{len(rows) - kept} of {len(rows)} rows"
    return f"{number}, because an answer has at most {LONGEST:,} bytes: {advice(kept)}"


def _is_cut(value: object, whole: object) -> bool:
    # an infinite float becomes a string without loss
    return value is not whole and not isinstance(whole, float)


def _printable(value: Any) -> str:
    return printable_json(value, default=_json_default)


def _json_default(value: Any) -> Any:
    if isinstance(value, Tag):
        return {"id": value.id, "label": value.label}
    return str(value)


def _byte_count(value: Any) -> int:
    return len(_printable(value).encode())


def _cut(value: Any) -> Any:
    """Return a value, or the beginning of a long one as a string."""
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no infinite numbers
        return str(value)
    string = value if isinstance(value, str) else _printable(value)
    if len(string) <= _LONGEST_VALUE:
        return value
    return f"{string[:_LONGEST_VALUE]}… ({len(string)} characters)"
