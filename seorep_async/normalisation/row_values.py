"""Convert the objects, periods and flags of raw rows, which msgspec can't convert."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from seorep_async.models import SearchLanguage, SearchLocation, Tag
from seorep_async.models.model import NO_EXTRA
from seorep_async.normalisation import values
from seorep_async.normalisation.values import MIDNIGHT

M = TypeVar("M")

_MOST_VALUES = 4096
"""The maximum number of values that a `Memo` remembers."""

_LONGEST_KEY = 1024
"""The longest value to remember. Longer values rarely recur, and would fill the memory."""


_DAY = slice(10)
"""The part of a date-time that is a date. A named slice is made once, and `text[:10]` each time."""

_TIME = slice(10, None)
"""The other part of a date-time, which begins with a space or a T."""

_FLAGS = {"true": True, "false": False, True: True, False: False, None: None}
"""The usual values of flags. Rows of the older format have booleans."""


class Memo:
    """Converts values and remembers them. The same few dates and places recur in many rows.

    Attributes:
        remembered: values by their form on the wire. Loops over rows look here first. It is a plain
            dictionary, because a look-up in a subclass takes three times as long.
    """

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self.remembered: dict[Any, Any] = {}
        self._convert = convert

    def new_value(self, wire: str | bytes) -> Any:
        """Convert a value. Remember it if it is short and may be shared."""
        value = self._convert(wire)
        if len(wire) <= _LONGEST_KEY and _may_be_shared(value):
            # Threads may share this: after `clear`, another one only converts some values again.
            if len(self.remembered) >= _MOST_VALUES:
                self.remembered.clear()
            self.remembered[wire] = value
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

    def convert(self, rows: Sequence[Any]) -> None:
        """Replace the JSON of objects with models, and `"true"` and `"false"` with booleans.

        Other strings stay in `primary_keyword` until `shorten` moves them to `extra`.
        """
        locations = self._locations.remembered
        languages = self._languages.remembered
        tags = self._tags.remembered
        last_json = None
        for row in rows:
            # Neighbouring rows nearly always have the same language, and comparing its JSON takes a
            # fraction of the time of a look-up.
            json = row.search_language
            if json != last_json:
                last_json = json
                try:
                    language = languages[b"" + json]
                except KeyError:
                    # A language with unknown fields is never remembered, but converted again for
                    # each row, because users could change its `extra`.
                    language = self._languages.new_value(b"" + json)
                    last_json = None
            row.search_language = language
            # Raw JSON has no hash. `b"" + raw` makes a key faster than `bytes(raw)`.
            key = b"" + row.search_location
            try:
                row.search_location = locations[key]
            except KeyError:
                row.search_location = self._locations.new_value(key)
            key = b"" + row.tags
            try:
                row.tags = tags[key]
            except KeyError:
                row.tags = self._tags.new_value(key)
            flag = row.primary_keyword
            try:
                row.primary_keyword = _FLAGS[flag]
            except KeyError:
                row.primary_keyword = _FLAGS.get(str(flag).lower(), flag)

    def shorten(self, rows: Sequence[Any]) -> None:
        """Replace date-times with days, and flags that are any other string with None.

        If a part of a value is lost, such as a time of day, `extra` gets the original.

        Raises:
            ValueError: a value is refused.
        """
        days = self._days.remembered
        date_times: list[str] = []
        for row in rows:
            originals = {}
            for attribute, name in self._dates:
                text = getattr(row, attribute)
                if text is None:
                    continue
                if text[_TIME] not in MIDNIGHT:
                    originals[name] = text
                    # Only its day is remembered, because times of day may all differ.
                    text = text[_DAY]
                try:
                    day = days[text]
                except KeyError:
                    day = self._days.new_value(text)
                setattr(row, attribute, day)
            date_times += originals.values()
            flag = row.primary_keyword
            if type(flag) is str:
                row.primary_keyword = None
                originals[self._names["primary_keyword"]] = flag
            if originals:
                # Few rows have unknown fields, and joining dictionaries takes as long as looking up
                # five dates.
                row.extra = row.extra | originals if row.extra else originals
        values.check_date_times(date_times)


class PeriodValues:
    """Converts values of raw rows by date."""

    def __init__(self) -> None:
        self._periods = Memo(values.period)

    def convert(self, rows: Sequence[Any]) -> None:
        """Replace a month or a day with a date and its precision."""
        periods = self._periods.remembered
        for row in rows:
            try:
                date, precision = periods[row.date]
            except KeyError:
                date, precision = self._periods.new_value(row.date)
            row.date = date
            # Setting a field takes longer than comparing it with its default.
            if precision != "month":
                row.date_precision = precision


def _may_be_shared(value: Any) -> bool:
    """Return whether rows may share a value. Users could change its `extra`, if it has one."""
    parts = value if isinstance(value, tuple) else (value,)
    return not any(getattr(part, "extra", None) for part in parts)


def _optional_object(model: type[M], json: bytes) -> M | None:
    wire = msgspec.json.decode(json)
    return None if values.is_empty_or_null(wire) else _object(model, wire)


def _tags(json: bytes) -> tuple[Tag, ...]:
    items = msgspec.json.decode(json, type=list | None)
    return tuple([_object(Tag, item) for item in items or ()])


def _object(model: Any, wire: object) -> Any:
    """Make a model whose fields have the same names on the wire."""
    if not isinstance(wire, dict):
        raise ValueError("expected an object")
    # `extra`, the last field, gets the fields that remain in `wire`.
    *names, _extra = model.__struct_fields__
    fields = [_CONVERTERS.get(name, _optional_string)(wire.pop(name, None)) for name in names]
    return model(*fields, wire or NO_EXTRA)


def _optional_string(value: object) -> str | None:
    return None if value is None else values.string(value)


_CONVERTERS: dict[str, Callable[[object], Any]] = {"id": values.integer, "label": values.string}
"""The functions that convert fields of objects. All other fields are optional strings."""
