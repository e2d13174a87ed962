"""The fields that requests carry: each says what it must look like, in words, as a JSON schema, and as a function."""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import date
from typing import Any, Generic, TypeVar

from attrs import evolve, frozen

T = TypeVar("T")

LAST_INT32 = 2**31 - 1
_DIGITS = re.compile("[0-9]{1,10}")
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_RANGE = re.compile(f"({_DAY}) *- *({_DAY})")
_YES_NO = {"true": True, "1": True, "false": False, "0": False}


@frozen
class Field(Generic[T]):
    """One field of a request.

    Args:
        name: the service's name of it.
        about: what it means.
        expects: completes the sentence "NAME must be …".
        schema: the same as a JSON schema.
        read: gives the value of a text, or raises ValueError.
        absent: the value if the field is not given.
        required: whether it must be given.
        many: whether it is an array: `name=a&name=b`, `name[]=a&name[]=b` and `name=a,b` are all understood.
    """

    name: str
    about: str
    expects: str
    schema: Mapping[str, Any]
    read: Callable[[str], T]
    absent: Any = None
    required: bool = False
    many: bool = False


Fields = tuple[Field[Any], ...]


def required(field: Field[T | None]) -> Field[T]:
    """Return the same field, but required."""
    changed: Any = evolve(field, required=True)
    return changed  # type: ignore[no-any-return]


def text(name: str, about: str) -> Field[str | None]:
    """Any text, an empty one too."""
    return Field(name, about, "a text", {"type": "string"}, str)


def filled(name: str, about: str) -> Field[str | None]:
    """Any text that is not empty."""

    def read(given: str) -> str:
        if not given:
            raise ValueError
        return given

    return Field(name, about, "a text that is not empty", {"type": "string", "minLength": 1}, read)


def search(name: str, about: str) -> Field[str]:
    """A text to search for; an empty one is in everything."""
    return Field(name, about, "a text", {"type": "string"}, str, absent="")


def int32(name: str, about: str, example: int | None = None) -> Field[int | None]:
    """An integer in 1..2**31-1."""
    schema = {"type": "integer", "minimum": 1, "maximum": LAST_INT32}
    if example:
        schema["examples"] = [example]
    return Field(name, about, "a positive 32-bit integer", schema, read_int32)


def day(name: str, about: str) -> Field[date | None]:
    """A date, written YYYY-MM-DD."""
    return Field(name, about, "a date, written YYYY-MM-DD", {"type": "string", "format": "date"}, _read_day)


def days(name: str, about: str) -> Field[tuple[date, date] | None]:
    """Two dates with a dash between them, the earlier one first."""

    def read(given: str) -> tuple[date, date]:
        parts = _RANGE.fullmatch(given)
        if not parts:
            raise ValueError
        start, end = _read_day(parts[1]), _read_day(parts[2])
        if end < start:
            raise ValueError
        return start, end

    expects = "a start and an end date with a dash between them: YYYY-MM-DD - YYYY-MM-DD"
    schema = {"type": "string", "pattern": f"^{_RANGE.pattern}$", "examples": ["2014-01-01 - 2030-12-31"]}
    return Field(name, about, expects, schema, read)


def choice(name: str, about: str, allowed: Collection[str]) -> Field[str | None]:
    """One of some texts."""

    def read(given: str) -> str:
        if given not in allowed:
            raise ValueError
        return given

    return Field(name, about, f"one of {', '.join(allowed)}", {"type": "string", "enum": [*allowed]}, read)


def direction(name: str) -> Field[bool]:
    """A sort direction, asc or desc in any case; true if it is descending."""

    def read(given: str) -> bool:
        return ("asc", "desc").index(given.lower()) == 1

    schema = {"type": "string", "enum": ["asc", "desc", "ASC", "DESC"]}
    return Field(name, "sort direction; ascending unless given", "asc or desc", schema, read, absent=False)


def flag(name: str, about: str) -> Field[bool]:
    """Yes or no: true, false, 1 or 0, in any case; no unless given."""

    def read(given: str) -> bool:
        if given.lower() not in _YES_NO:
            raise ValueError
        return _YES_NO[given.lower()]

    return Field(name, about, "true or false", {"type": "string", "enum": [*_YES_NO]}, read, absent=False)


def texts(name: str, about: str) -> Field[tuple[str, ...]]:
    """An array of texts."""

    def read(given: str) -> tuple[str, ...]:
        return tuple(part for part in given.split(",") if part)

    schema = {"type": "array", "items": {"type": "string"}}
    return Field(name, about, "an array of texts", schema, read, absent=(), many=True)


def read_int32(given: str) -> int:
    """Read an integer in 1..2**31-1."""
    number = int(given) if _DIGITS.fullmatch(given) else 0
    if not 1 <= number <= LAST_INT32:
        raise ValueError
    return number


def _read_day(given: str) -> date:
    if not re.fullmatch(_DAY, given):
        raise ValueError
    return date.fromisoformat(given)
