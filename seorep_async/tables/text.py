"""CSV and JSON lines: the same bytes for the same rows; JSON that is printed, and of a limited
length.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import groupby
from json.encoder import encode_basestring
from typing import Any

import msgspec

from seorep_async.errors import ConfigurationError
from seorep_async.models import Tag
from seorep_async.tables.columns import (
    Column,
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
"""The longest excerpt, in bytes of UTF-8."""
_LONGEST_VALUE, _NOTES = 500, 300
_EMPTY: tuple[object, ...] = (None, (), {})


def csv_cells(columns: Sequence[Column], values: Columns) -> list[Sequence[str]]:
    """Return columns of values as columns of cells, for `csv_lines`.

    Numbers, strings and dates (ISO) stay as they are, booleans become `true` and `false`, tags and
    unknown fields JSON; None and no unknown fields become empty cells.
    """
    return [_cells(column.type, some) for column, some in zip(columns, values, strict=True)]


def _cells(kind: ColumnType, values: Sequence[Any]) -> list[str]:
    if is_constant(kind, values):
        return _cells(kind, values[:1]) * len(values)
    return _CSV[kind](values)


def csv_lines(cells: Sequence[Sequence[str]]) -> bytes:
    """Return cells as lines of CSV (RFC 4180, UTF-8); invalid Unicode raises a ValueError."""
    columns: list[Sequence[str]] = []
    for constant, some in groupby(cells, partial(is_constant, ColumnType.STRING)):
        group = list(some)
        columns += (
            [[",".join(column[0] for column in group)] * len(group[0])] if constant else group
        )
    # joining cells and separators in one step takes a third of the time of `csv.writer`
    step = 2 * len(columns)
    flat = [","] * (step * len(cells[0]))
    for index, column in enumerate(columns):
        flat[2 * index :: step] = column
    flat[step - 1 :: step] = [_LINE_END] * len(cells[0])
    return "".join(flat).encode()


def _each(as_string: Callable[[Any], str], values: Sequence[Any]) -> list[str]:
    return ["" if value is None else as_string(value) for value in values]


def _integers(values: Sequence[Any]) -> list[str]:
    try:
        found = _JSON.encode(values)[1:-1].decode().replace("null", "")  # in half the time of `str`
        return found.split(",") if values else []
    except OverflowError:
        return _each(str, values)


def _dates(values: Sequence[Any]) -> list[str]:
    strings = {
        value: "" if value is None else str(value) for value in set(values)
    }  # few, and they recur
    return list(map(strings.__getitem__, values))


def _quoted(values: Sequence[str | None]) -> list[str]:
    strings = [value or "" for value in values]
    if not _needs_quotes("".join(strings)):
        return strings
    return [
        '"' + string.replace('"', '""') + '"' if _needs_quotes(string) else string
        for string in strings
    ]


def _needs_quotes(string: str) -> bool:
    return "," in string or '"' in string or "\n" in string or "\r" in string


def _tag_list(tags: tuple[Tag, ...]) -> str:
    if any(tag.extra for tag in tags):
        return as_json(plain_tags(tags))
    # the same string, six times as fast: there are tags in every row
    return (
        "["
        + ", ".join(
            [f'{{"id": {tag.id}, "label": {encode_basestring(tag.label)}}}' for tag in tags]
        )
        + "]"
    )


_CSV: dict[ColumnType, Callable[[Sequence[Any]], list[str]]] = {
    ColumnType.INTEGER: _integers,
    ColumnType.NUMBER: partial(_each, str),
    ColumnType.STRING: _quoted,
    ColumnType.BOOLEAN: partial(_each, {True: "true", False: "false"}.__getitem__),
    ColumnType.DATE: _dates,
    ColumnType.DATETIME: partial(_each, dt.datetime.isoformat),
    ColumnType.TAGS: partial(once_each, lambda tags: _quoted([_tag_list(tags)])[0]),
    ColumnType.FIELDS: lambda values: (
        _quoted([as_json(one) if one else "" for one in values])
        if any(values)
        else [""] * len(values)
    ),
    ColumnType.ANY: lambda values: _quoted(_each(as_json, values)),
}


def columns_as_json_lines(table: Table, columns: Columns) -> bytes:
    """Return columns of values as lines of JSON, dates as ISO, None as null; invalid Unicode raises
    a ValueError.
    """
    members = [
        _MEMBERS[column.type](values) if column.type in _MEMBERS else values
        for column, values in zip(table.columns, columns, strict=True)
    ]
    # structs are encoded twice as fast as dictionaries
    return _JSON.encode_lines(list(map(_line(table), *members)))


@cache
def _line(table: Table) -> type[msgspec.Struct]:
    return msgspec.defstruct("Line", [(column.name, Any) for column in table.columns], gc=False)


_MEMBERS: dict[ColumnType, Callable[[Sequence[Any]], Sequence[Any]]] = {
    ColumnType.TAGS: partial(once_each, plain_tags),
    # null if there are none: a file with `{}` in every line can't become Parquet
    ColumnType.FIELDS: lambda values: [
        msgspec.Raw(as_json(one).encode()) if one else None for one in values
    ],
}


def printable_json(
    value: object, *, indent: int | None = None, default: Callable[[Any], object] | None = None
) -> str:
    """Return JSON with control characters escaped, so that no terminal obeys them; arguments are
    those of `json`.
    """
    encoded = json.dumps(value, ensure_ascii=False, indent=indent, default=default)
    if encoded.replace("\n", "").isprintable():
        return encoded
    return "".join(
        letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1]
        for letter in encoded
    )


def excerpt(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    left_out: Sequence[str] = (),
    **facts: Any,
) -> str:
    """Return JSON for readers that pay for each character, with facts, columns and rows; it says
    what it leaves out.

    `left_out` names what the caller has left out already.

    Of a list of rows, columns without any value are only named.

    ConfigurationError: there are too many columns.
    """
    names = list(map(_cut, columns))
    if isinstance(rows, list) and rows:
        kept = [
            place
            for place, one in enumerate(zip(*rows, strict=True))
            if any(value not in _EMPTY for value in one)
        ]
        facts["columns_without_values"] = [
            name for place, name in enumerate(names) if place not in kept
        ] or None
        names, *rows = ([row[place] for place in kept] for row in (names, *rows))
    facts = {name: value for name, value in facts.items() if value is not None}
    room = (
        LONGEST - _NOTES - _size(facts | {"left_out": list(left_out), "columns": names, "rows": []})
    )
    if room < 0:
        raise ConfigurationError(f"an answer has no room for {len(names)} columns; select fewer")
    shown: list[list[Any]] = []
    omissions = list(left_out)
    shortened = 0
    for row in rows:
        values = list(map(_cut, row))
        room -= _size(values) + 2
        if room < 0:
            which = (
                f"{len(rows) - len(shown)} of {len(rows)} rows"
                if isinstance(rows, list)
                else "further rows"
            )
            omissions.append(
                f"{which}, as answers have {LONGEST} bytes at most; ask for fewer rows or columns"
            )
            break
        shown.append(values)
        pairs = zip(values, row, strict=True)
        shortened += sum(
            value is not whole and not isinstance(whole, float) for value, whole in pairs
        )
    if shortened:
        omissions.append(
            f"the ends of values longer than {_LONGEST_VALUE} characters, each marked by …: {shortened}"
        )
    return _printable(
        facts | ({"left_out": omissions} if omissions else {}) | {"columns": names, "rows": shown}
    )


def _printable(value: Any) -> str:
    return printable_json(value, default=_plain)


def _plain(value: Any) -> Any:
    return {"id": value.id, "label": value.label} if isinstance(value, Tag) else str(value)


def _size(value: Any) -> int:
    return len(_printable(value).encode())


def _cut(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    string = value if isinstance(value, str) else _printable(value)
    return (
        value
        if len(string) <= _LONGEST_VALUE
        else f"{string[:_LONGEST_VALUE]}… ({len(string)} characters)"
    )
