"""Convert one wire value to a Python value, or raise a ValueError. Nothing is coerced silently.

`flag`, `day` and `total` return a pair: the value, and the original if the conversion loses a part
of it.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec

from seorep_async.plain_values import UNFROZEN  # the real classes, even under freezegun

D = TypeVar("D")

_LONGEST = 40  # characters of a value in an error message
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})")
_DATE_TIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})[ T]([0-9]{1,2}):([0-9]{2}):([0-9]{2})")
_NO_DATE = re.compile(r"(0000-00(-00([ T]0?0:00:00)?)?)?")
"""The forms of a missing date: empty, or a month, a date or a date-time of zeros."""

MIDNIGHT = frozenset({"", " 00:00:00", "T00:00:00", " 0:00:00", "T0:00:00"})
"""The texts that may follow a date, even one of zeros, and can be dropped without loss: an empty
text, or midnight.
"""


def describe(value: object) -> str:
    """Return a short form of a wire value for an error message."""
    if isinstance(value, str):
        # Control characters are escaped. Printable letters of any language stay as they are.
        beginning = json.dumps(value[:_LONGEST], ensure_ascii=not value.isprintable())
        return beginning if len(value) <= _LONGEST else f'{beginning[:-1]}…"'
    if isinstance(value, list):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    # Python refuses to write out thousands of digits.
    if isinstance(value, int) and abs(value) >= 10**_LONGEST:
        return f"an integer of more than {_LONGEST} digits"
    return json.dumps(value)


def refusal(expected: str, value: object) -> ValueError:
    """Return the error for an unexpected value."""
    return ValueError(f"expected {expected}, got {describe(value)}")


def integer(value: object) -> int:
    """Accept an integer, or an integer in a string, but not a boolean or a float."""
    if type(value) is int:
        return value
    if type(value) is str and _INTEGER.fullmatch(value):
        return int(value)
    raise refusal("an integer", value)


def string(value: object) -> str:
    """Accept only a string."""
    if type(value) is str:
        return value
    raise refusal("a string", value)


def boolean(value: object) -> bool:
    """Accept true or false, as a boolean or as a string (upper or lower case does not matter)."""
    if is_boolean(value):
        return str(value).lower() == "true"
    raise refusal("true or false", value)


def is_boolean(value: object) -> bool:
    """Return whether `boolean` accepts the value."""
    # An array may be nested too deeply for `str`.
    return isinstance(value, (bool, str)) and str(value).lower() in ("true", "false")


def flag(value: object) -> tuple[bool | None, str | None]:
    """Accept null, a boolean, or a boolean as a string (upper or lower case does not matter).

    For any other string, return None and the string.
    """
    if value is None:
        return None, None
    if type(value) is str and not is_boolean(value):
        return None, value
    return boolean(value), None


def date_time(value: object) -> dt.datetime | None:
    """Convert `YYYY-MM-DD HH:MM:SS` to a naive datetime. Null, "" and zero dates are None.

    A `T` may replace the space, and hours may be unpadded.
    """
    moment = _read(_DATE_TIME, UNFROZEN.datetime, value)
    if moment is None and not _is_no_date(value):
        raise refusal('a date-time "YYYY-MM-DD HH:MM:SS"', value)
    return moment


def check_date_times(texts: Sequence[str]) -> None:
    """Refuse texts that `date_time` would not convert, in a tenth of the time.

    Raises:
        ValueError: one of the texts is no date-time, or is a zero date.
    """
    joined = "".join(texts)
    # `YYYY-MM-DD HH:MM:SS` has 19 characters. msgspec refuses an hour of one digit, so it gets two.
    if len(joined) < 19 * len(texts):
        texts = [f"{text[:11]}0{text[11:]}" if len(text) < 19 else text for text in texts]
    msgspec.convert(texts, list[UNFROZEN.datetime])  # type: ignore[name-defined]
    # msgspec accepts `t` for T, and longer texts: with fractions of a second, or with a time zone.
    if "t" in joined or len("".join(texts)) > 19 * len(texts):
        raise ValueError("expected date-times")


def day(value: Any) -> tuple[dt.date | None, str | None]:
    """Convert `YYYY-MM-DD`, or the day of a date-time, to a date. Null, "" and zero dates are None.

    If the time of a date-time is not midnight, return the original as well.
    """
    moment = _read(_DATE_TIME, UNFROZEN.datetime, value)
    if moment is not None:
        return moment.date(), None if value[10:] in MIDNIGHT else value
    date = _read(_DATE, UNFROZEN.date, value)
    if date is None and not _is_no_date(value):
        raise refusal('a date "YYYY-MM-DD"', value)
    return date, None


def period(value: object) -> tuple[dt.date, Literal["month", "day"]]:
    """Convert `YYYY-MM` (to the first of the month) or `YYYY-MM-DD` to a date and its precision."""
    # `_read` passes the year and the month.
    month = _read(_MONTH, partial(UNFROZEN.date, day=1), value)
    if month is not None:
        return month, "month"
    date = _read(_DATE, UNFROZEN.date, value)
    if date is not None:
        return date, "day"
    raise refusal('a period "YYYY-MM" or "YYYY-MM-DD"', value)


def total(value: Any) -> tuple[float | None, dict[str, Any] | None]:
    """Return the number of a total `{"value": number}`.

    If the total or its `value` is null, the number is None. If the object has other fields, return
    it as well.
    """
    if value is None:
        return None, None
    if not isinstance(value, dict) or "value" not in value:
        raise refusal('an object with "value"', value)
    original = value if len(value) > 1 else None
    number = value["value"]
    if number is None or (type(number) is float and math.isfinite(number)):
        return number, original
    try:
        return integer(number), original
    except ValueError:
        raise refusal('a number as "value"', number) from None


def is_empty_or_null(value: object) -> bool:
    """Return whether a value is null or an empty object, which may be sent as an empty array."""
    return value in (None, [], {})


def _read(pattern: re.Pattern[str], make: Callable[..., D], value: object) -> D | None:
    """Match a string, and make a value of the numbers in it. Return None if that fails."""
    if type(value) is not str:
        return None
    match = pattern.fullmatch(value)
    if match:
        with suppress(ValueError):
            return make(*map(int, match.groups()))
    return None


def _is_no_date(value: object) -> bool:
    if type(value) is str:
        return bool(_NO_DATE.fullmatch(value))
    return value is None
