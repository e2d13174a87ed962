"""Plain values: at the border, instances of subclasses become `str`, `int`, `float` and `date`.

Callers pass members of a `StrEnum`, numpy's numbers, pendulum's dates, and under freezegun its fakes. Libraries further
down compare exact types, or take a member's name for its value.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import attrs


class _Calendar(NamedTuple):
    date: type[dt.date]
    datetime: type[dt.datetime]


def _real(kind: type) -> Any:
    """Return the standard library's class, also where freezegun has replaced it by a subclass."""
    return next(base for base in kind.__mro__ if base.__module__ == "datetime")


CALENDAR = _Calendar(_real(dt.date), _real(dt.datetime))
"""The real classes: freezegun replaces module attributes, but no members of a tuple."""
_REAL_NAMES = {
    "dt": SimpleNamespace(date=CALENDAR.date, datetime=CALENDAR.datetime),
    "date": CALENDAR.date,
    "datetime": CALENDAR.datetime,
}


SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which JSON and Python's strings may hold, and UTF-8 can't encode."""


def plain(value: Any) -> Any:
    """Return a string, number or date of a subclass as its plain value, and anything else unchanged."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain_string(value)
    if isinstance(value, float):
        return float.__pos__(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return plain_date(value)
    integer = plain_integer(value)
    return value if integer is None else integer


def plain_string(value: str) -> str:
    """Return a string of a subclass as a `str`. `str(value)` would give an enum member's name."""
    return str.__str__(value)


def plain_integer(value: object) -> int | None:
    """Return an integer of any type as an `int`, or None for a bool or any other value."""
    if isinstance(value, bool):
        return None
    try:
        return int.__index__(operator.index(value))  # type: ignore[arg-type]  # it raises a TypeError
    except TypeError:
        return None


def plain_date(value: dt.date) -> dt.date:
    """Return a date of a subclass as a `datetime.date`."""
    return CALENDAR.date(value.year, value.month, value.day)


def are_dates_frozen() -> bool:
    """Return whether the module `datetime` holds fakes now."""
    return dt.date is not CALENDAR.date


@contextmanager
def real_dates() -> Generator[None, None, None]:
    """Put the real classes back into the module `datetime` for the time of a block.

    An import of pandas crashes the process if it finds freezegun's fakes there, which are larger.
    """
    found = _Calendar(dt.date, dt.datetime)
    try:
        _install(CALENDAR)
        yield
    finally:
        _install(found)


def _install(calendar: _Calendar) -> None:
    vars(dt).update(date=calendar.date, datetime=calendar.datetime)


def field_types(model: type[Any]) -> dict[str, Any]:
    """Resolve and return the types of a model's fields: with real dates, also where freezegun is active."""
    attrs.resolve_types(model, localns=_REAL_NAMES)
    return {field.name: field.type for field in attrs.fields(model)}
