"""Conversion of arguments to plain `str`, `int`, `float` and `date` objects.

Callers may pass objects of other types: `StrEnum` members, NumPy numbers, pendulum dates or
freezegun's fakes. Other libraries compare exact types, or use a member's name instead of its value.
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


class _DateClasses(NamedTuple):
    date: type[dt.date]
    datetime: type[dt.datetime]


def _real(kind: type) -> Any:
    """Return the standard library's class, even if freezegun has replaced it with a subclass."""
    return next(base for base in kind.__mro__ if base.__module__ == "datetime")


UNFROZEN = _DateClasses(_real(dt.date), _real(dt.datetime))
"""The real classes. Freezegun replaces module attributes, but not members of a tuple."""
_REAL_NAMES = {
    "dt": SimpleNamespace(date=UNFROZEN.date, datetime=UNFROZEN.datetime),
    "date": UNFROZEN.date,
    "datetime": UNFROZEN.datetime,
}
"""The real classes under the names that annotations use for them."""

SURROGATE = re.compile("[\ud800-\udfff]")
"""A lone surrogate, which JSON and Python strings allow but UTF-8 can't encode."""


def plain(value: Any) -> Any:
    """Convert a string, number or date to the plain type; return other values unchanged."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain_string(value)
    if isinstance(value, float):
        return float.__pos__(value)  # a plain float, even if `value` is of a subclass
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return plain_date(value)
    integer = plain_integer(value)
    return value if integer is None else integer


def plain_string(value: str) -> str:
    """Convert a string to a plain `str`.

    `str(value)` would return the name, such as `Color.RED`, of a member of a `(str, Enum)`.
    """
    return str.__str__(value)


def plain_integer(value: object) -> int | None:
    """Convert an integer of any type to an `int`; return None for a bool or any other value."""
    if isinstance(value, bool):
        return None
    try:
        # `operator.index` may return an instance of a subclass; `int.__index__` makes it plain.
        return int.__index__(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        return None


def plain_date(value: dt.date) -> dt.date:
    """Convert a date to a plain `datetime.date`."""
    return UNFROZEN.date(value.year, value.month, value.day)


def are_dates_frozen() -> bool:
    """Return whether freezegun has replaced the classes in `datetime`."""
    return dt.date is not UNFROZEN.date


@contextmanager
def real_dates() -> Generator[None, None, None]:
    """Put the real classes back into the module `datetime` for the duration of a block.

    Importing pandas while freezegun's fakes are installed crashes the process, because the fakes
    are larger objects.
    """
    previous = _DateClasses(dt.date, dt.datetime)
    try:
        _install(UNFROZEN)
        yield
    finally:
        _install(previous)


def _install(classes: _DateClasses) -> None:
    vars(dt).update(date=classes.date, datetime=classes.datetime)


def field_types(model: type[Any]) -> dict[str, Any]:
    """Resolve the types of a model's fields, with the real date classes under freezegun."""
    attrs.resolve_types(model, localns=_REAL_NAMES)
    return {field.name: field.type for field in attrs.fields(model)}
