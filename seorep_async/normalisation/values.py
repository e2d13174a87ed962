"""One wire value in, one Python value out, or a ValueError that names the expected one: no silent coercion."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any, Literal

_SHOWN = 40  # characters of a value in an error message
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})")
_DATE_TIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})[ T]([0-9]{1,2}):([0-9]{2}):([0-9]{2})")
_ZERO_DATE = re.compile(r"0000-00(-00([ T]0?0:00:00)?)?")


def describe(value: object) -> str:
    """Return a short form of a wire value for an error message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        shown = escape_controls(value[:_SHOWN])
        return f'"{shown}"' if len(value) <= _SHOWN else f'"{shown}…"'
    if isinstance(value, int) and abs(value) >= 10**_SHOWN:  # Python refuses to write out thousands of digits
        return f"an integer of more than {_SHOWN} digits"
    if isinstance(value, int | float):
        return repr(value)
    return "an array" if isinstance(value, list) else "an object"


def escape_controls(value: str) -> str:
    """Escape line breaks and terminal controls of a string, for an error message."""
    return value if value.isprintable() else ascii(value)[1:-1]


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


def number(value: object) -> float:
    """Take an int or a finite float as it is, or an integer written as a string."""
    if type(value) is float and math.isfinite(value):
        return value
    try:
        return integer(value)
    except ValueError:
        raise refusal("a number", value) from None


def string(value: object) -> str:
    """Take a string only."""
    if type(value) is str:
        return value
    raise refusal("a string", value)


def boolean(value: object) -> bool:
    """Take true or false, also as a string in any case; `row_fields` has a faster one for ranking rows."""
    if type(value) is bool:
        return value
    if type(value) is str:
        lowered = value.lower()
        if lowered == "true":
            return True
        if lowered == "false":
            return False
    raise refusal("true or false", value)


def is_boolean(value: object) -> bool:
    """Return whether `boolean` takes the value."""
    return type(value) is bool or (type(value) is str and value.lower() in ("true", "false"))


def date_time(value: object) -> dt.datetime | None:
    """Take `YYYY-MM-DD HH:MM:SS` as a naive datetime; hours may be unpadded; null, "" and zero dates are None."""
    if _is_no_date(value):
        return None
    if type(value) is str and (moment := _moment(value)):
        return moment
    raise refusal('a date-time "YYYY-MM-DD HH:MM:SS"', value)


def date(value: object) -> dt.date | None:
    """Take `YYYY-MM-DD`, or the day of a date-time; null, "" and zero dates are None."""
    if _is_no_date(value):
        return None
    if type(value) is str:
        if match := _DATE.fullmatch(value):
            try:
                return dt.date(*map(int, match.groups()))
            except ValueError:
                pass
        elif moment := _moment(value):
            return moment.date()
    raise refusal('a date "YYYY-MM-DD"', value)


def has_time_of_day(value: object) -> bool:
    """Return whether a value that `date` took has a time other than midnight, which a date can't hold."""
    if type(value) is not str or len(value) <= 10:
        return False
    moment = date_time(value)
    return moment is not None and moment.time() != dt.time()


def period(value: object) -> tuple[dt.date, Literal["month", "day"]]:
    """Take `YYYY-MM` or `YYYY-MM-DD` as a date (the first of the month) and its precision."""
    if type(value) is str:
        try:
            if match := _MONTH.fullmatch(value):
                return dt.date(int(match[1]), int(match[2]), 1), "month"
            if match := _DATE.fullmatch(value):
                return dt.date(*map(int, match.groups())), "day"
        except ValueError:
            pass
    raise refusal('a period "YYYY-MM" or "YYYY-MM-DD"', value)


def metric(value: Any) -> float | None:
    """Take a total, `{"value": x}`, as x; a null total is None."""
    if value is None:
        return None
    if not isinstance(value, dict) or "value" not in value:
        raise refusal('an object with "value"', value)
    inner = value["value"]
    try:
        return None if inner is None else number(inner)
    except ValueError:
        raise refusal('a number as "value"', inner) from None


def _moment(value: str) -> dt.datetime | None:
    if match := _DATE_TIME.fullmatch(value):
        try:
            return dt.datetime(*map(int, match.groups()))  # type: ignore[arg-type]  # six ints, by the pattern
        except ValueError:
            pass
    return None


def _is_no_date(value: object) -> bool:
    return value is None or value == "" or (type(value) is str and _ZERO_DATE.fullmatch(value) is not None)
