"""Convert the values of raw rows that msgspec can't convert: objects, periods and flags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeVar

import msgspec

from seorep_async.models import SearchLanguage, SearchLocation, Tag
from seorep_async.models.model import NO_EXTRA
from seorep_async.normalisation import values
from seorep_async.plain_values import field_types

M = TypeVar("M")
_FLAGS = {"true": True, "false": False}

_MOST_VALUES = 4096
"""The maximum number of values in a memo."""

_LONGEST_KEY = 1024
"""The longest value to remember. Longer values rarely recur, and would fill the memory."""


class Memo(dict[Any, Any]):
    """Converts values and remembers them: the same few dates and places recur in many rows."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, wire: Any) -> Any:
        value = self._convert(wire)
        is_long = isinstance(wire, (str, bytes)) and len(wire) > _LONGEST_KEY
        if not is_long and _may_be_shared(value):
            # Another thread may use this memo. It then only converts some values again.
            if len(self) >= _MOST_VALUES:
                self.clear()
            self[wire] = value
        return value


class DayMemo(Memo):
    """Converts dates and date-times, and remembers the days: their times of day may all differ."""

    def __missing__(self, wire: Any) -> Any:
        if wire and values.AFTER_MIDNIGHT.fullmatch(wire):
            day, _original = self[wire[:10]]
            return day, wire
        return super().__missing__(wire)


class RankingValues:
    """Converts values of raw keyword rankings."""

    def __init__(self) -> None:
        self._locations = Memo(partial(_optional_object, SearchLocation))
        self._languages = Memo(partial(_optional_object, SearchLanguage))
        self._tags = Memo(_tags)
        # Faster than `_FLAGS.get` for every row.
        self._flags = Memo(lambda wire: _FLAGS.get(wire, wire))

    def convert(self, rows: Sequence[Any]) -> None:
        """Replace the JSON of objects with models, and `"true"` and `"false"` with booleans.

        Rows of the older format already have booleans.
        """
        # Looking up an attribute for each row would cost time.
        locations = self._locations
        languages = self._languages
        tags = self._tags
        flags = self._flags
        # Raw JSON has no hash. `b"" + raw` makes a key faster than `bytes(raw)`.
        for row in rows:
            row.search_location = locations[b"" + row.search_location]
            row.search_language = languages[b"" + row.search_language]
            row.tags = tags[b"" + row.tags]
            row.primary_keyword = flags[row.primary_keyword]


class PeriodValues:
    """Converts values of raw rows by date."""

    def __init__(self) -> None:
        self._periods = Memo(values.period)

    def convert(self, rows: Sequence[Any]) -> None:
        """Replace a month or a day with a date and its precision."""
        periods = self._periods
        for row in rows:
            row.date, row.date_precision = periods[row.date]


def _may_be_shared(value: Any) -> bool:
    """Return whether rows may share a value. Users could change its `extra`, if it has one."""
    parts = value if isinstance(value, tuple) else (value,)
    return not any(getattr(part, "extra", None) for part in parts)


def _optional_object(model: type[M], json: bytes) -> M | None:
    wire = msgspec.json.decode(json)
    return None if values.is_no_object(wire) else _object(model, wire)


def _tags(json: bytes) -> tuple[Tag, ...]:
    wire = msgspec.json.decode(json)
    if wire is None:
        return ()
    if not isinstance(wire, list):
        raise values.refusal("an array", wire)
    return tuple([_object(Tag, item) for item in wire])


def _object(model: Any, wire: object) -> Any:
    """Make a model whose fields have the same names on the wire."""
    if not isinstance(wire, dict):
        raise values.refusal("an object", wire)
    converters = _converters_of(model)
    fields = {name: convert(wire.pop(name, None)) for name, convert in converters.items()}
    return model(**fields, extra=wire or NO_EXTRA)


@cache
def _converters_of(model: type) -> dict[str, Callable[[object], Any]]:
    types = field_types(model)
    return {name: _CONVERTERS[types[name]] for name in types if name != "extra"}


_CONVERTERS: dict[Any, Callable[[object], Any]] = {
    int: values.integer,
    str: values.string,
    str | None: lambda value: None if value is None else values.string(value),
}
"""For each type of a field, the function that converts its value on the wire."""
