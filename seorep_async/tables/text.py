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
_LONGEST_VALUE = 500
_NOTES = 500
"""The room that is kept for what `left_out` says in the end."""
_EMPTY: tuple[object, ...] = (None, (), {})


def csv_cells(columns: Sequence[Column], values: Columns) -> list[Sequence[str]]:
    """Return columns of values as columns of cells, for `csv_lines`.

    Numbers, strings and dates (ISO) stay as they are, booleans become `true` and `false`, tags and
    unknown fields JSON. None and no unknown fields become empty cells.
    """
    return [
        _cells(column.type, of_column) for column, of_column in zip(columns, values, strict=True)
    ]


def _cells(column_type: ColumnType, values: Sequence[Any]) -> list[str]:
    if is_constant(column_type, values):
        return _cells(column_type, values[:1]) * len(values)
    return _CSV[column_type](values)


def csv_lines(cells: Sequence[Sequence[str]]) -> bytes:
    """Return cells as lines of CSV (RFC 4180, UTF-8); invalid Unicode raises a ValueError."""
    columns: list[Sequence[str]] = []
    for constant, neighbours in groupby(cells, partial(is_constant, ColumnType.STRING)):
        group = list(neighbours)
        if constant:
            # Columns that never change are joined once for all rows.
            joined = ",".join(column[0] for column in group)
            columns.append([joined] * len(cells[0]))
        else:
            columns += group
    # Joining cells and separators in one step takes a third of the time of `csv.writer`.
    step = 2 * len(columns)
    flat = [","] * (step * len(cells[0]))
    for place, column in enumerate(columns):
        flat[2 * place :: step] = column
    flat[step - 1 :: step] = [_LINE_END] * len(cells[0])
    return "".join(flat).encode()


def _each(as_string: Callable[[Any], str], values: Sequence[Any]) -> list[str]:
    return ["" if value is None else as_string(value) for value in values]


def _integers(values: Sequence[Any]) -> list[str]:
    try:
        # In half the time of `str`.
        digits = _JSON.encode(values)[1:-1].decode().replace("null", "")
        return digits.split(",") if values else []
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
    # The same string, six times as fast: there are tags in every row.
    objects = [f'{{"id": {tag.id}, "label": {encode_basestring(tag.label)}}}' for tag in tags]
    return f"[{', '.join(objects)}]"


def _extra_cells(values: Sequence[Any]) -> list[str]:
    if not any(values):
        return [""] * len(values)
    return _quoted([as_json(extra) if extra else "" for extra in values])


def _extra_members(values: Sequence[Any]) -> list[msgspec.Raw | None]:
    # Null without unknown fields: a file with `{}` in every line cannot become Parquet.
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


def columns_as_json_lines(table: Table, columns: Columns) -> bytes:
    """Return columns of values as lines of JSON; invalid Unicode raises a ValueError.

    Dates are ISO dates, and None is null.
    """
    members: list[Sequence[Any]] = []
    for column, values in zip(table.columns, columns, strict=True):
        as_members = _MEMBERS.get(column.type)
        members.append(values if as_members is None else as_members(values))
    # Structs are encoded twice as fast as dictionaries.
    return _JSON.encode_lines(list(map(_line(table), *members)))


@cache
def _line(table: Table) -> type[msgspec.Struct]:
    return msgspec.defstruct("Line", [(column.name, Any) for column in table.columns], gc=False)


_MEMBERS: dict[ColumnType, Callable[[Sequence[Any]], Sequence[Any]]] = {
    ColumnType.TAGS: partial(once_each, plain_tags),
    ColumnType.FIELDS: _extra_members,
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
    advice: Callable[[int], str],
    **facts: Any,
) -> str:
    """Return facts, columns and rows as JSON of a limited length, which says what it leaves out.

    Args:
        columns: the names of the columns; of a list of rows, those without values are only named.
        rows: the rows; of an iterator, no more are read than there is room for.
        left_out: what the caller has left out already.
        advice: says how to get the other rows, if there is only room for this number of rows.
        facts: further members; None is left out.

    Raises:
        ConfigurationError: there are too many columns.
    """
    names = [_cut(name) for name in columns]
    facts = {name: value for name, value in facts.items() if value is not None}
    total = None
    if isinstance(rows, list) and rows:
        total = len(rows)
        places = _places_with_values(rows)
        if len(places) < len(names):
            absent = [name for place, name in enumerate(names) if place not in places]
            facts["columns_without_values"] = absent
        names = [names[place] for place in places]
        rows = [[row[place] for place in places] for row in rows]
    omissions = list(left_out)
    size = _size(facts | {"left_out": omissions, "columns": names, "rows": []})
    room = LONGEST - _NOTES - size
    if room < 0:
        raise ConfigurationError(f"an answer has no room for {len(names)} columns; select fewer")
    cut_rows, is_whole, shortened = _rows_within(room, rows)
    if not is_whole:
        count = "further" if total is None else f"{total - len(cut_rows)} of {total}"
        reason = f"an answer has {LONGEST:,} bytes at most"
        omissions.append(f"{count} rows, because {reason}: {advice(len(cut_rows))}")
    if shortened:
        marked = f"the ends of values longer than {_LONGEST_VALUE} characters, each marked by …"
        omissions.append(f"{marked}: {shortened}")
    if omissions:
        facts["left_out"] = omissions
    return _printable(facts | {"columns": names, "rows": cut_rows})


def _rows_within(room: int, rows: Iterable[Sequence[Any]]) -> tuple[list[list[Any]], bool, int]:
    """Return the first rows, as many as fit, whether these are all, and the shortened values."""
    fitting: list[list[Any]] = []
    shortened = 0
    for row in rows:
        values = [_cut(value) for value in row]
        room -= _size(values) + 2
        if room < 0:
            return fitting, False, shortened
        fitting.append(values)
        for value, whole in zip(values, row, strict=True):
            # infinity as text is whole
            if value is not whole and not isinstance(whole, float):
                shortened += 1
    return fitting, True, shortened


def _places_with_values(rows: Sequence[Sequence[Any]]) -> list[int]:
    places = []
    for place, values in enumerate(zip(*rows, strict=True)):
        if any(value not in _EMPTY for value in values):
            places.append(place)
    return places


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
