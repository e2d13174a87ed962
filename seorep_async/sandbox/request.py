"""Requests to operations. A wrong request is refused.

A write may be a form, a JSON object or a query. If a field is both in the body and in
the query, the body's value counts. If a field is repeated, its first value counts. Unknown fields
are ignored. A bad id in a path is a 404, because no such resource exists.
"""

import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from datetime import date
from typing import Any, TypeVar
from urllib.parse import parse_qs

import msgspec
from attrs import define, field, frozen

T = TypeVar("T")
ParameterValues = Mapping[str, Sequence[str]]
"""The values of each name, in the order of the request."""

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
METHODS_WITH_BODY = ("POST", "PUT", "PATCH")

_LAST_INT32 = 2**31 - 1
_DIGITS = re.compile("0*[1-9][0-9]{0,9}")
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_RANGE = re.compile(f"({_DAY.pattern}) *- *({_DAY.pattern})")
_BOOLEANS = {"true": True, "false": False}
_IS_DESCENDING = {"asc": False, "desc": True}


@define(eq=False)
class Refusal(Exception):
    """An error response. The message names the caller's mistake in one sentence."""

    status: int
    message: str
    headers: dict[str, str] = field(factory=dict)


def found_record(kind: str, record_id: int, record: T | None) -> T:
    """Return a record that was found. Refuse a missing one."""
    if record is None:
        raise Refusal(404, f"there is no {kind} {record_id}")
    return record


@frozen
class Field:
    """The values that a field of a request takes.

    `expects` completes the sentence "NAME must be …". `read` returns the value of a string, or
    raises ValueError or KeyError. A field of `many` values understands `name=a&name=b`,
    `name[]=a&name[]=b` and `name=a,b`.
    """

    expects: str
    read: Callable[[str], Any]
    absent: Any = None
    many: bool = False

    def value_of(self, name: str, string: str) -> Any:
        """Return the value of a string. Refuse an invalid string."""
        try:
            return self.read(string)
        except (ValueError, KeyError):
            raise Refusal(400, f"{name} must be {self.expects}") from None


Fields = Mapping[str, Field]
"""The fields of an operation, by the service's names for them."""


def _read_int32(value: str) -> int:
    if not _DIGITS.fullmatch(value) or int(value) > _LAST_INT32:
        raise ValueError
    return int(value)


def _read_day(value: str) -> str:
    if not _DAY.fullmatch(value):
        raise ValueError
    return date.fromisoformat(value).isoformat()


def _read_days(value: str) -> tuple[str, str]:
    """Read the first and the last day of a range, in this order."""
    days = _RANGE.fullmatch(value)
    if not days:
        raise ValueError
    start = _read_day(days[1])
    end = _read_day(days[2])
    if end < start:
        raise ValueError
    return start, end


def _read_filled(value: str) -> str:
    if not value:
        raise ValueError
    return value


def _read_strings(value: str) -> tuple[str, ...]:
    return tuple(part for part in value.split(",") if part)


FILLED = Field("a non-empty string", _read_filled)
STRING = Field("a string", str, absent="")
CLEARABLE = Field("a string", lambda value: value or None)  # an empty string means null
STRINGS = Field("an array of strings", _read_strings, absent=(), many=True)
INT32 = Field("a positive 32-bit integer", _read_int32)
DAY = Field("a date, written YYYY-MM-DD", _read_day)
DAYS = Field(
    "a start and an end date with a dash between them: YYYY-MM-DD - YYYY-MM-DD", _read_days
)
FLAG = Field("true or false", lambda value: _BOOLEANS[value.lower()], absent=False)
DIRECTION = Field("asc or desc", lambda value: _IS_DESCENDING[value.lower()], absent=False)
PAGE: Fields = {"page": INT32, "limit": INT32}


def field_names(text: str) -> tuple[str, ...]:
    """Return the names in a text, which spaces or line ends separate."""
    return tuple(text.split())


def choice(allowed: Collection[str]) -> Field:
    """Return a field that takes one of the allowed strings."""
    values = {value: value for value in allowed}
    return Field(f"one of {', '.join(allowed)}", values.__getitem__)


@frozen
class Operation:
    """One operation, with its path from the reference.

    The handler takes the service and an `ApiRequest`. It returns data for a JSON body, or None
    for no body, or raises `Refusal`. It never waits, so no request comes between.
    """

    method: str
    path: str
    handler: Callable[[Any, "ApiRequest"], Any]
    fields: Fields = field(factory=dict)
    required: Collection[str] = ()


class ApiRequest:
    """One request to an operation. It has the values of the fields, and the id in the path.

    `sent` has the values of those fields that the request names. A body without content has no
    fields, whatever its type.
    """

    def __init__(
        self,
        operation: Operation,
        path_id: str,
        query: ParameterValues,
        media_type: str,
        body: bytes,
    ) -> None:
        self._path_id = path_id
        self.sent: dict[str, Any] = {}
        body_values: ParameterValues = {}
        if body and media_type == JSON:
            body_values = _read_json(body)
        elif body and media_type == FORM:
            body_values = _read_form(body)
        elif body:
            raise Refusal(415, f"the body must be {FORM} or {JSON}")
        # If both have a value, the body's value counts.
        strings_by_name = {**query, **body_values}
        for name, expected in operation.fields.items():
            strings = [
                *strings_by_name.get(name, ()),
                *strings_by_name.get(f"{name}[]", ()),
            ]
            string = ",".join(strings if expected.many else strings[:1])
            if not string and name in operation.required:
                raise Refusal(400, f"{name} is required")
            if strings:
                self.sent[name] = expected.value_of(name, string)
        self._values = {name: expected.absent for name, expected in operation.fields.items()}
        self._values.update(self.sent)

    def __getitem__(self, name: str) -> Any:
        """Return the value of a field, or the field's `absent` value."""
        return self._values[name]

    @property
    def result_key(self) -> Hashable:
        """The values of all fields that select and order the result; `page` and `limit` don't."""
        return tuple(value for name, value in self._values.items() if name not in PAGE)

    @property
    def id(self) -> int:
        """The id in the path."""
        try:
            return _read_int32(self._path_id)
        except ValueError:
            raise Refusal(404, "the id in the path is not a positive 32-bit integer") from None


def _wrong_body() -> Refusal:
    return Refusal(
        400, "the body must be a form in UTF-8, or a JSON object of strings and integers"
    )


def _read_json(body: bytes) -> ParameterValues:
    try:
        values = msgspec.json.decode(body, type=dict[str, int | str])
    except (ValueError, RecursionError):
        raise _wrong_body() from None
    return {name: [str(value)] for name, value in values.items()}


def _read_form(body: bytes) -> ParameterValues:
    try:
        return parse_qs(body.decode(), keep_blank_values=True)
    except ValueError:
        raise _wrong_body() from None
