"""What all operations share: the reading of requests, the refusals, the service's options, pages and recent results.

Writes are understood as a form, as JSON and as query parameters alike; where a field comes both in the body and in the
query, the body's value counts. Of a repeated field the first value counts. Fields that no operation knows are ignored.
A bad id in a path is a 404: no such resource exists.
"""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qs

import msgspec
from attrs import define, field, frozen

from seorep_async.sandbox.account import Account, Record

T = TypeVar("T")

Shape = Literal["nested", "flat", "mixed"]
Rows = Literal["current", "older", "mixed"]
LargeLimit = Literal[
    "lowered", "ignored", "refused", "failing", "hanging", "misannounced", "whole-report"
]

_MOST_ROWS = 30_000
_MOST_RESULTS = 64

LAST_INT32 = 2**31 - 1
_DIGITS = re.compile("0*[1-9][0-9]{0,9}")
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_RANGE = re.compile(f"({_DAY.pattern}) *- *({_DAY.pattern})")
_FILLED = re.compile(".+", re.DOTALL)
_YES_NO = {"true": True, "1": True, "false": False, "0": False}


@define(eq=False)
class Refusal(Exception):
    """An error response: its status, 400 to 599, the caller's mistake in one sentence, and further headers."""

    status: int
    message: str
    headers: dict[str, str] = field(factory=dict)


class NoResponseError(Exception):
    """The service answers this request never."""


@frozen
class Field:
    """The values that a field of a request takes.

    `expects` completes the sentence "NAME must be …"; `read` returns the value of a string, or raises ValueError or
    KeyError. Of `many`, `name=a&name=b`, `name[]=a&name[]=b` and `name=a,b` are all understood.
    """

    expects: str
    read: Callable[[str], Any]
    absent: Any = None
    many: bool = False
    is_integer: bool = False


Fields = Mapping[str, Field]
"""The fields of an operation, by the service's names for them."""


def _matched(pattern: re.Pattern[str], value: str) -> re.Match[str]:
    if not (found := pattern.fullmatch(value)):
        raise ValueError
    return found


def _read_int32(value: str) -> int:
    return range(LAST_INT32 + 1).index(int(_matched(_DIGITS, value)[0]))


def _read_day(value: str) -> str:
    return date.fromisoformat(_matched(_DAY, value)[0]).isoformat()


def _read_days(value: str) -> tuple[str, str]:
    start, end = map(_read_day, _matched(_RANGE, value).groups())
    if end < start:
        raise ValueError
    return start, end


FILLED = Field("a string that is not empty", lambda value: _matched(_FILLED, value)[0])
STRING = Field("a string", str, absent="")
CLEARABLE = Field("a string", lambda value: value or None)
STRINGS = Field(
    "an array of strings", lambda value: tuple(filter(None, value.split(","))), absent=(), many=True
)
INT32 = Field("a positive 32-bit integer", _read_int32, is_integer=True)
DAY = Field("a date, written YYYY-MM-DD", _read_day)
DAYS = Field(
    "a start and an end date with a dash between them: YYYY-MM-DD - YYYY-MM-DD", _read_days
)
FLAG = Field("true or false", lambda value: _YES_NO[value.lower()], absent=False)
DIRECTION = Field(
    "asc or desc", lambda value: {"asc": False, "desc": True}[value.lower()], absent=False
)


def choice(allowed: Collection[str]) -> Field:
    return Field(f"one of {', '.join(allowed)}", {one: one for one in allowed}.__getitem__)


PAGE: Fields = {"page": INT32, "limit": INT32}

Values = Mapping[str, Sequence[str]]
"""The values of each name, in the order of the request."""

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


@frozen
class Operation:
    """One operation, with its path from the reference.

    The handler returns what JSON can hold, or None for no body, or raises `Refusal`; it never waits, so nothing comes
    between.
    """

    method: str
    path: str
    handler: "Callable[[Service, ApiRequest], Any]"
    fields: Fields = field(factory=dict)
    required: Collection[str] = ()


class ApiRequest:
    """One request to an operation: the values of its fields, from query and body, and the path's `:id`.

    `given` has the values of those fields that were given. A body without content has no fields, whatever its type.
    """

    def __init__(
        self, operation: Operation, path_id: str, query: Values, media_type: str, body: bytes
    ) -> None:
        self._path_id = path_id
        self.given: dict[str, Any] = {}
        form, json = _read_body(media_type, body) if body else ({}, {})
        strings = {**query, **form}
        for name, known in operation.fields.items():
            try:
                value = (
                    _as_string(known, json[name]) if name in json else _find(name, known, strings)
                )
                if not value and name in operation.required:
                    raise Refusal(400, f"{name} is required")
                if value is not None:
                    self.given[name] = known.read(value)
            except (ValueError, KeyError):
                raise Refusal(400, f"{name} must be {known.expects}") from None
        self._values = {name: known.absent for name, known in operation.fields.items()} | self.given

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    @property
    def question(self) -> Hashable:
        """The values of all fields but those that choose a page."""
        return tuple(value for name, value in self._values.items() if name not in ("page", "limit"))

    @property
    def id(self) -> int:
        """The path's id."""
        try:
            return _read_int32(self._path_id)
        except ValueError:
            raise Refusal(404, "the id in the path is not a positive 32-bit integer") from None


def _read_body(media_type: str, body: bytes) -> tuple[Values, Mapping[str, object]]:
    """Return the fields of a form, which are strings, and those of JSON, of any type."""
    if media_type not in (FORM, JSON):
        raise Refusal(415, f"the body must be {FORM} or {JSON}")
    try:
        if media_type == FORM:
            return parse_qs(body.decode(), keep_blank_values=True), {}
        return {}, msgspec.json.decode(body, type=dict[str, Any])
    except (ValueError, RecursionError):
        raise Refusal(400, "the body must be a form in UTF-8, or a JSON object") from None


def _find(name: str, known: Field, strings: Values) -> str | None:
    if known.many:
        return ",".join((*strings.get(name, ()), *strings.get(f"{name}[]", ()))) or None
    return strings[name][0] if name in strings else None


def _as_string(known: Field, value: object) -> str:
    if type(value) is not (int if known.is_integer else str):
        raise ValueError
    return str(value)


@frozen
class Service:
    """The service behind the operations, with the options of the sandbox.

    `failing` has campaigns' statuses, 403 for forbidden ones. `recent` has recent results by their questions: the rows
    of feeds, encoded, and their totals; the ids of lists.
    """

    account: Account
    shape: Shape
    rows: Rows
    clock: Callable[[], datetime]
    default_limit: int
    max_limit: int
    large_limit: LargeLimit
    daily: bool
    failing: Mapping[int, int]
    reports: Mapping[tuple[str, int], Sequence[Record]]
    recent: dict[Hashable, tuple[Sequence[Any], Any]] = field(factory=dict)

    def campaign(self, id_: int) -> Record:
        """Return a campaign; refuse an unknown or a failing one."""
        if id_ in self.failing:
            status = self.failing[id_]
            problem = (
                "is not one that this API key has access to"
                if status == 403
                else "was asked to fail"
            )
            raise Refusal(status, f"campaign {id_} {problem}")
        return found("campaign", id_, self.account.campaigns.get(id_))

    def now(self) -> datetime:
        """Return the date and time, to the second."""
        return self.clock().replace(microsecond=0, tzinfo=None)

    def page(
        self, name: str, request: ApiRequest, find: Callable[[], tuple[Sequence[T], Any]]
    ) -> tuple[dict[str, Any], Sequence[T], Any]:
        """Return the metadata of a result, the rows of one page, none beyond the end, and the totals.

        The rows and totals of all pages are found once.
        """
        question = name, request.question
        rows, totals = self.recent.pop(question, None) or find()
        self.recent[question] = rows, totals  # as the most recent
        # Only lists take memory: ids may be a range, or made when they are read.
        kept = [len(rows) if isinstance(rows, list) else 0 for rows, _ in self.recent.values()]
        if len(kept) > _MOST_RESULTS or (len(kept) > 1 and sum(kept) > _MOST_ROWS):
            del self.recent[next(iter(self.recent))]
        size = self._page_size(request["limit"] or self.default_limit, len(rows))
        announced_size = size
        if size > self.max_limit:
            if self.large_limit == "whole-report":
                rows = rows[:size]
            elif self.large_limit == "misannounced":
                announced_size = self.default_limit
        metadata = {
            "total_pages": -(-len(rows) // announced_size),
            "total_records": len(rows),
        }
        end = (request["page"] or 1) * size
        return metadata, rows[end - size : end], totals

    def _page_size(self, limit: int, records: int) -> int:
        """Return the records of a page, or refuse or ignore a limit above the maximum."""
        if limit <= self.max_limit:
            return limit
        if self.large_limit == "lowered":
            return self.max_limit
        if self.large_limit == "ignored":
            return self.default_limit
        if self.large_limit == "refused":
            raise Refusal(400, f"limit must be at most {self.max_limit}")
        # A service that breaks on large pages breaks on those only that really are large.
        is_large = records > self.max_limit
        if is_large and self.large_limit == "failing":
            raise Refusal(500, "the page is too large")
        if is_large and self.large_limit == "hanging":
            raise NoResponseError
        return limit


def found(kind: str, id_: int, record: T | None) -> T:
    """Return a record that was found; refuse a missing one."""
    if record is None:
        raise Refusal(404, f"there is no {kind} {id_}")
    return record


def matches(string: str, *wanted: str) -> bool:
    """Return whether a string contains each of others, ignoring case."""
    anycase = string.casefold()
    return all(one.casefold() in anycase for one in wanted)


def in_order(rows: Iterable[T], value: Callable[[T], Any], descending: bool) -> list[T]:
    """Sort rows by a value; None goes last either way, and equal rows stay in their order."""
    pairs = [(value(row), row) for row in rows]
    some = sorted(
        (pair for pair in pairs if pair[0] is not None),
        key=lambda pair: pair[0],
        reverse=descending,
    )
    return [row for _, row in some] + [row for key, row in pairs if key is None]
