"""Rows as JSON of a limited length, which says what it leaves out: for readers that pay for each character."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seorep_async.errors import ConfigurationError
from seorep_async.models import Tag
from seorep_async.tables.text import printable_json

LONGEST = 20_000
"""The longest excerpt, in bytes of UTF-8."""
_LONGEST_VALUE, _NOTES = 500, 300


def excerpt(columns: Sequence[str], rows: Iterable[Sequence[Any]], **facts: Any) -> str:
    """Return an object with facts, columns and rows; of a list of rows, columns without any value are only named.

    ConfigurationError: there are too many columns.
    """
    facts, names = {name: value for name, value in facts.items() if value is not None}, [_cut(one) for one in columns]
    if isinstance(rows, list) and rows:
        has_value = [any(value not in (None, (), {}) for value in values) for values in zip(*rows, strict=True)]
        if not all(has_value):
            facts["columns_without_values"] = [one for one, has in zip(names, has_value, strict=True) if not has]
            names = [one for one, has in zip(names, has_value, strict=True) if has]
            rows = [[value for value, has in zip(row, has_value, strict=True) if has] for row in rows]
    room = LONGEST - _NOTES - _size(facts | {"columns": names, "rows": []})
    if room < 0:
        raise ConfigurationError(f"an answer has no room for {len(names)} columns; select fewer")
    shown: list[list[Any]] = []
    left_out: list[str] = []
    cut = 0
    for row in rows:
        values = [_cut(value) for value in map(_plain, row)]
        room -= _size(values) + 2
        if room < 0:
            which = f"{len(rows) - len(shown)} of {len(rows)} rows" if isinstance(rows, list) else "further rows"
            left_out.append(f"{which}, as answers have {LONGEST} bytes at most; ask for fewer rows or columns")
            break
        shown.append(values)
        cut += sum(isinstance(value, _Beginning) for value in values)
    if cut:
        left_out.append(f"the ends of values longer than {_LONGEST_VALUE} characters, each marked by …: {cut}")
    return printable_json(facts | ({"left_out": left_out} if left_out else {}) | {"columns": names, "rows": shown})


class _Beginning(str):
    """The beginning of a value that is too long."""

    __slots__ = ()


def _size(value: Any) -> int:
    return len(printable_json(value).encode())


def _cut(value: Any) -> Any:
    string = value if isinstance(value, str) else printable_json(value)
    whole = len(string) <= _LONGEST_VALUE
    return value if whole else _Beginning(f"{string[:_LONGEST_VALUE]}… ({len(string)} characters)")


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    match value:
        case None | bool() | int() | str():
            return value
        case float() if math.isfinite(value):
            return value
        case list() | tuple():
            return [_plain(one) for one in value]
        case Mapping():
            return {str(name): _plain(one) for name, one in value.items()}
        case Tag():
            return {"id": value.id, "label": value.label}
    return str(value)
