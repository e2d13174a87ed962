"""Rows as JSON of a limited length, which says what it leaves out: for readers that pay for each character."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from seorep_async.errors import ConfigurationError
from seorep_async.models import Tag
from seorep_async.tables.text import printable_json

LONGEST = 20_000
"""The longest excerpt, in bytes of UTF-8."""
_LONGEST_VALUE, _NOTES = 500, 300
_EMPTY: tuple[object, ...] = (None, (), {})


def excerpt(columns: Sequence[str], rows: Iterable[Sequence[Any]], **facts: Any) -> str:
    """Return an object with facts, columns and rows; of a list of rows, columns without any value are only named.

    ConfigurationError: there are too many columns.
    """
    names = list(map(_cut, columns))
    if isinstance(rows, list) and rows:
        kept = [place for place, one in enumerate(zip(*rows, strict=True)) if any(value not in _EMPTY for value in one)]
        facts["columns_without_values"] = [name for place, name in enumerate(names) if place not in kept] or None
        names, *rows = ([row[place] for place in kept] for row in (names, *rows))
    facts = {name: value for name, value in facts.items() if value is not None}
    room = LONGEST - _NOTES - _size(facts | {"columns": names, "rows": []})
    if room < 0:
        raise ConfigurationError(f"an answer has no room for {len(names)} columns; select fewer")
    shown: list[list[Any]] = []
    left_out: list[str] = []
    shortened = 0
    for row in rows:
        values = list(map(_cut, row))
        room -= _size(values) + 2
        if room < 0:
            which = f"{len(rows) - len(shown)} of {len(rows)} rows" if isinstance(rows, list) else "further rows"
            left_out.append(f"{which}, as answers have {LONGEST} bytes at most; ask for fewer rows or columns")
            break
        shown.append(values)
        pairs = zip(values, row, strict=True)
        shortened += sum(value is not whole and not isinstance(whole, float) for value, whole in pairs)
    if shortened:
        left_out.append(f"the ends of values longer than {_LONGEST_VALUE} characters, each marked by …: {shortened}")
    return _json(facts | ({"left_out": left_out} if left_out else {}) | {"columns": names, "rows": shown})


def _json(value: Any) -> str:
    return printable_json(value, default=_plain)


def _plain(value: Any) -> Any:
    return {"id": value.id, "label": value.label} if isinstance(value, Tag) else str(value)


def _size(value: Any) -> int:
    return len(_json(value).encode())


def _cut(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    string = value if isinstance(value, str) else _json(value)
    return value if len(string) <= _LONGEST_VALUE else f"{string[:_LONGEST_VALUE]}… ({len(string)} characters)"
