"""One wire value in, one Python value out, or a ValueError that names the expected one: no silent coercion."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeVar

from seorep_async.plain_values import CALENDAR

D = TypeVar("D")

_SHOWN = 40  # characters of a value in an error message
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})")
_DATE_TIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})[ T]([0-9]{1,2}):([0-9]{2}):([0-9]{2})")
_ZERO_DATE = re.compile(r"0000-00(-00([ T]0?0:00:00)?)?")


def describe(value: object) -> str:
    """Return a short form of a wire value for an error message."""
    if isinstance(value, str):
        shown = value[:_SHOWN] if value[:_SHOWN].isprintable() else ascii(value[:_SHOWN])[1:-1]
        return f'"{shown}"' if len(value) <= _SHOWN else f'"{shown}…"'
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    if (
        isinstance(value, int) and abs(value) >= 10**_SHOWN
    ):  # Python refuses to write out thousands of digits
        return f"an integer of more than {_SHOWN} digits"
    return json.dumps(value)


def refusal(expected: str, value: object) -> ValueError:
    """Return the error for an unexpected value."""
    return ValueError(f"expected {expected}, got {describe(value)}")


def integer(value: object) -> int:
    """Take an integer, or an integer written as a string; never a bool or a float."""
    if type(value) is int:
        return value
    if type(value) is str and _INTEGER.fullmatch(value):
        return int(value)
    raise refusal("an integer", value)


def string(value: object) -> str:
    """Take a string only."""
    if type(value) is str:
        return value
    raise refusal("a string", value)


def boolean(value: object) -> bool:
    """Take true or false, also as a string in any case."""
    if is_boolean(value):
        return str(value).lower() == "true"
    raise refusal("true or false", value)


def is_boolean(value: object) -> bool:
    """Return whether `boolean` takes the value."""
    return type(value) is bool or (type(value) is str and value.lower() in ("true", "false"))


def flag(value: object) -> tuple[bool | None, str | None]:
    """Take null, true or false, also as a string in any case; any other string is the rest."""
    if value is None or (type(value) is str and not is_boolean(value)):
        return None, value
    return boolean(value), None


def date_time(value: object) -> dt.datetime | None:
    """Take `YYYY-MM-DD HH:MM:SS` as a naive datetime; hours may be unpadded; null, "" and zero dates are None."""
    if (moment := _read(_DATE_TIME, CALENDAR.datetime, value)) or _is_no_date(value):
        return moment
    raise refusal('a date-time "YYYY-MM-DD HH:MM:SS"', value)


def day(value: Any) -> tuple[dt.date | None, str | None]:
    """Take `YYYY-MM-DD`, or the day of a date-time, which is the rest if it is not midnight.

    Null, "" and zero dates are None.
    """
    if moment := _read(_DATE_TIME, CALENDAR.datetime, value):
        return moment.date(), None if moment.time() == dt.time() else value
    if (found := _read(_DATE, CALENDAR.date, value)) or _is_no_date(value):
        return found, None
    raise refusal('a date "YYYY-MM-DD"', value)


def period(value: object) -> tuple[dt.date, Literal["month", "day"]]:
    """Take `YYYY-MM` or `YYYY-MM-DD` as a date (the first of the month) and its precision."""
    if month := _read(_MONTH, partial(CALENDAR.date, day=1), value):
        return month, "month"
    if found := _read(_DATE, CALENDAR.date, value):
        return found, "day"
    raise refusal('a period "YYYY-MM" or "YYYY-MM-DD"', value)


def total(value: Any) -> tuple[float | None, dict[str, Any] | None]:
    """Take a total, `{"value": x}`, as x, an int or a finite float; one with more than its value is the rest.

    A null total is None.
    """
    if value is None:
        return None, None
    if not isinstance(value, dict) or "value" not in value:
        raise refusal('an object with "value"', value)
    inner, rest = value["value"], value if len(value) > 1 else None
    if inner is None or (type(inner) is float and math.isfinite(inner)):
        return inner, rest
    try:
        return integer(inner), rest
    except ValueError:
        raise refusal('a number as "value"', inner) from None


def is_no_object(value: object) -> bool:
    """Return whether a value is null, or an empty map, which may be sent as an empty array."""
    return value is None or value in ([], {})


def _read(pattern: re.Pattern[str], make: Callable[..., D], value: object) -> D | None:
    if type(value) is str and (match := pattern.fullmatch(value)):
        with suppress(ValueError):
            return make(*map(int, match.groups()))
    return None


def _is_no_date(value: object) -> bool:
    return value in (None, "") or (type(value) is str and _ZERO_DATE.fullmatch(value) is not None)
