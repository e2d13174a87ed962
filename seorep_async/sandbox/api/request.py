"""Requests: their fields, the reading of their values, and their refusals.

Each field describes its values in words and as a function. Any other value is a 400.

Writes are understood as a form, as JSON and as query parameters alike; where a field comes both in the body and in the
query, the body's value counts. Of a repeated field the first value counts. Fields that no operation knows are ignored.
A bad id in a path is a 404: no such resource exists.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qs

import msgspec
from attrs import evolve, frozen
from attrs import field as attribute

T = TypeVar("T")

LAST_INT32 = 2**31 - 1
_DIGITS = re.compile("[0-9]{1,10}")
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_RANGE = re.compile(f"({_DAY}) *- *({_DAY})")
_YES_NO = {"true": True, "1": True, "false": False, "0": False}


class Refusal(Exception):
    """An error response: its status, 400 to 599, the caller's mistake in one sentence, and further headers."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message
        self.headers: dict[str, str] = headers or {}


@frozen
class Field(Generic[T]):
    """One field of a request.

    Attributes:
        name: the service's name of it.
        expects: completes the sentence "NAME must be …".
        read: returns the value of a string, or raises ValueError.
        absent: the value if the field is not given.
        many: whether it is an array: `name=a&name=b`, `name[]=a&name[]=b` and `name=a,b` are all understood.
        is_integer: whether JSON holds it as a number.
    """

    name: str
    expects: str
    read: Callable[[str], T]
    absent: Any = None
    required: bool = False
    many: bool = False
    is_integer: bool = False


Fields = tuple[Field[Any], ...]


def required(field: Field[T | None]) -> Field[T]:
    """Return the same field, but required."""
    changed: Any = evolve(field, required=True)
    return changed  # type: ignore[no-any-return]


def string(name: str) -> Field[str | None]:
    """Any string, an empty one too."""
    return Field(name, "a string", str)


def filled(name: str) -> Field[str | None]:
    """Any string that is not empty."""

    def read(value: str) -> str:
        if not value:
            raise ValueError
        return value

    return Field(name, "a string that is not empty", read)


def search(name: str) -> Field[str]:
    """A string to search for; an empty one is in everything."""
    return Field(name, "a string", str, absent="")


def int32(name: str) -> Field[int | None]:
    """An integer in 1..2**31-1."""
    return Field(name, "a positive 32-bit integer", read_int32, is_integer=True)


def day(name: str) -> Field[date | None]:
    """A date, written YYYY-MM-DD."""
    return Field(name, "a date, written YYYY-MM-DD", _read_day)


def days(name: str) -> Field[tuple[date, date] | None]:
    """Two dates with a dash between them, the earlier one first."""

    def read(value: str) -> tuple[date, date]:
        parts = _RANGE.fullmatch(value)
        if not parts:
            raise ValueError
        start, end = _read_day(parts[1]), _read_day(parts[2])
        if end < start:
            raise ValueError
        return start, end

    expects = "a start and an end date with a dash between them: YYYY-MM-DD - YYYY-MM-DD"
    return Field(name, expects, read)


def choice(name: str, allowed: Collection[str]) -> Field[str | None]:
    """One of some strings."""

    def read(value: str) -> str:
        if value not in allowed:
            raise ValueError
        return value

    return Field(name, f"one of {', '.join(allowed)}", read)


def direction(name: str) -> Field[bool]:
    """A sort direction, asc or desc in any case; true if it is descending."""

    def read(value: str) -> bool:
        return ("asc", "desc").index(value.lower()) == 1

    return Field(name, "asc or desc", read, absent=False)


def flag(name: str) -> Field[bool]:
    """Yes or no: true, false, 1 or 0, in any case; no unless given."""

    def read(value: str) -> bool:
        if value.lower() not in _YES_NO:
            raise ValueError
        return _YES_NO[value.lower()]

    return Field(name, "true or false", read, absent=False)


def strings(name: str) -> Field[tuple[str, ...]]:
    """An array of strings."""

    def read(value: str) -> tuple[str, ...]:
        return tuple(part for part in value.split(",") if part)

    return Field(name, "an array of strings", read, absent=(), many=True)


def read_int32(value: str) -> int:
    """Read an integer in 1..2**31-1."""
    number = int(value) if _DIGITS.fullmatch(value) else 0
    if not 1 <= number <= LAST_INT32:
        raise ValueError
    return number


def _read_day(value: str) -> date:
    if not re.fullmatch(_DAY, value):
        raise ValueError
    return date.fromisoformat(value)


Values = Mapping[str, Sequence[str]]
"""The values of each name, in the order of the request."""

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


@frozen
class Body:
    """The fields of a request's body: strings from a form, values of any type from JSON."""

    form: Values = attribute(factory=dict)
    json: Mapping[str, object] = attribute(factory=dict)

    @classmethod
    def read(cls, content_type: str, content: bytes) -> "Body":
        """Read a body; one without content has no fields, whatever its type."""
        if not content:
            return cls()
        if content_type == FORM:
            try:
                return cls(form=parse_qs(content.decode(), keep_blank_values=True))
            except ValueError:
                raise Refusal(400, "the body is not a form in UTF-8") from None
        if content_type == JSON:
            try:
                json = msgspec.json.decode(content)
            except (ValueError, RecursionError, msgspec.MsgspecError):
                raise Refusal(400, "the body is not valid JSON") from None
            if not isinstance(json, dict):
                raise Refusal(400, "the body must be a JSON object")
            return cls(json=json)
        raise Refusal(415, f"the body must be {FORM} or {JSON}")


class ApiRequest:
    """One request to an operation: the values of its known fields, from query and body, and the path's `:id`."""

    def __init__(self, fields: Fields, query: Values, body: Body | None = None, path_id: str = "") -> None:
        self._query = query
        self._body = body or Body()
        self._path_id = path_id
        self._values: dict[str, Any] = {}
        self._given: set[str] = set()
        for field in fields:
            value = self._find(field)
            if value is None or (field.required and not value):
                if field.required:
                    raise Refusal(400, f"{field.name} is required")
                self._values[field.name] = field.absent
            else:
                self._values[field.name] = _read(field, value)
                self._given.add(field.name)

    def __getitem__(self, field: Field[T]) -> T:
        value: T = self._values[field.name]
        return value

    def given(self, fields: Fields) -> dict[str, Any]:
        """Return the values of those of the fields that were given, by name."""
        return {field.name: self[field] for field in fields if field.name in self._given}

    @property
    def id(self) -> int:
        """The path's id."""
        try:
            return read_int32(self._path_id)
        except ValueError:
            raise Refusal(404, "the id in the path is not a positive 32-bit integer") from None

    def _find(self, field: Field[Any]) -> str | None:
        if field.name in self._body.json:
            return _as_string(field, self._body.json[field.name])
        for values in (self._body.form, self._query):
            if field.many:
                parts = [*values.get(field.name, ()), *values.get(f"{field.name}[]", ())]
                if parts:
                    return ",".join(parts)
            elif field.name in values:
                return values[field.name][0]
        return None


def _as_string(field: Field[Any], value: object) -> str:
    if field.is_integer:
        if isinstance(value, float) and value.is_integer():  # 3.0 is an integer in JSON
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value if abs(value) < 2**63 else 0)  # Python writes no number of 5000 digits
    elif isinstance(value, str):
        return value
    raise Refusal(400, f"{field.name} must be {field.expects}")


def _read(field: Field[T], value: str) -> T:
    try:
        return field.read(value)
    except ValueError:
        raise Refusal(400, f"{field.name} must be {field.expects}") from None
