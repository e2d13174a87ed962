"""Tables as JSON lines: one object a row, the same bytes for the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from seorep_async.tables.columns import ColumnType, Table, Values
from seorep_async.tables.json_strings import as_json, plain_tags

_ENCODER = msgspec.json.Encoder()


def rows_as_json_lines(table: Table, rows: Iterable[Values]) -> bytes:
    """Return rows as lines: a member for each column in its order, dates as ISO text, None as null.

    Raises:
        ValueError: a text is not valid Unicode.
    """
    return _ENCODER.encode_lines(_objects(table, rows))


def _objects(table: Table, rows: Iterable[Values]) -> Iterator[dict[str, Any]]:
    names = [column.name for column in table.columns]
    special = [(column.name, _MEMBERS[column.type]) for column in table.columns if column.type in _MEMBERS]
    for values in rows:
        members = dict(zip(names, values, strict=True))
        for name, as_member in special:
            if members[name]:
                members[name] = as_member(members[name])
        yield members


def _fields(fields: Mapping[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(as_json(fields).encode())


_MEMBERS: dict[ColumnType, Callable[[Any], object]] = {ColumnType.TAGS: plain_tags, ColumnType.FIELDS: _fields}
