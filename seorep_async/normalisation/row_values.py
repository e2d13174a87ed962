"""Convert the values of raw rows that msgspec can't convert: objects, periods and flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeVar

import msgspec

from seorep_async.models import SearchLanguage, SearchLocation, Tag
from seorep_async.models.model import NO_EXTRA
from seorep_async.normalisation import values
from seorep_async.normalisation.values import DATE_TIMES, MIDNIGHT
from seorep_async.plain_values import field_types

M = TypeVar("M")

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


class RankingValues:
    """Converts values of raw keyword rankings.

    Args:
        names: the name on the wire of each attribute.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._dates = [pair for pair in names.items() if pair[0].endswith("_date")]
        self._names = names
        self._days = Memo(lambda wire: values.day(wire)[0])
        self._locations = Memo(partial(_optional_object, SearchLocation))
        self._languages = Memo(partial(_optional_object, SearchLanguage))
        self._tags = Memo(_tags)
        self._flags = Memo(lambda wire: values.boolean(wire) if values.is_boolean(wire) else wire)

    def convert(self, rows: Sequence[Any]) -> None:
        """Replace the JSON of objects with models, and `"true"` and `"false"` with booleans.

        Rows of the older format already have booleans.
        """
        # Each is a `Memo`: looking up an unknown value converts it. They are variables, because
        # looking them up in `self` for each row would cost time.
        locations = self._locations
        tags = self._tags
        flags = self._flags
        last_json = None
        # Raw JSON has no hash. `b"" + raw` makes a key faster than `bytes(raw)`.
        for row in rows:
            row.search_location = locations[b"" + row.search_location]
            # Neighbouring rows nearly always have the same language, and comparing its JSON takes a
            # fraction of the time of a look-up.
            json = row.search_language
            if json != last_json:
                language = self._languages[b"" + json]
                # A language with unknown fields is not shared: users could change its `extra`.
                last_json = json if _may_be_shared(language) else None
            row.search_language = language
            row.tags = tags[b"" + row.tags]
            row.primary_keyword = flags[row.primary_keyword]

    def shorten(self, rows: Sequence[Any]) -> None:
        """Replace date-times with days, and flags that are other strings.

        If a part of a value is lost, such as a time of day, `extra` gets the original.

        Raises:
            ValueError: a value is refused.
        """
        days = self._days
        date_times = [""]
        for row in rows:
            originals = {}
            for attribute, name in self._dates:
                text = getattr(row, attribute) or ""
                if text[10:] in MIDNIGHT:
                    setattr(row, attribute, days[text])
                else:
                    # Only its day is remembered, because times of day may all differ.
                    setattr(row, attribute, days[text[:10]])
                    originals[name] = text
            date_times += originals.values()
            flag = row.primary_keyword
            if type(flag) is str:
                row.primary_keyword = None
                originals[self._names["primary_keyword"]] = flag
            if originals:
                row.extra = row.extra | originals
        # One match of all texts takes a fraction of the time of a match of each.
        lines = "\n".join(date_times)
        if lines.count("\n") >= len(date_times) or not DATE_TIMES.fullmatch(lines):
            raise ValueError("expected date-times")


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
