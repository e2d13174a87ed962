"""The common ground of all operations: the account, the options, pages, and a cache of recent results."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
from attrs import field, frozen

from seorep_async.sandbox.account import Account
from seorep_async.sandbox.request import INT32, ApiRequest, Fields, Refusal
from seorep_async.sandbox.seeded import Record

T = TypeVar("T")
V = TypeVar("V")

Shape = Literal["nested", "flat", "mixed"]
Rows = Literal["current", "older", "mixed"]

_MOST_ROWS = 30_000
_MOST_RESULTS = 64

PAGE: Fields = {"page": INT32, "limit": INT32}


class EncodedFeed(NamedTuple):
    """A feed's rows in their sent form, in order and encoded, ready to be cut into pages."""

    rows: tuple[msgspec.Raw, ...]
    totals: msgspec.Raw


@frozen
class Service:
    """The service behind the operations, with the options of the sandbox.

    `failing` has campaigns' statuses, 403 for forbidden ones; `recent` has recent feeds, and the ids of recent lists.
    """

    account: Account
    shape: Shape
    rows: Rows
    clock: Callable[[], datetime]
    default_limit: int
    max_limit: int
    failing: Mapping[int, int]
    reports: Mapping[tuple[str, int], Sequence[Record]]
    recent: dict[Any, Any] = field(factory=dict)

    def campaign(self, id_: int) -> Record:
        """Return a campaign; refuse an unknown or a failing one."""
        if id_ in self.failing:
            status = self.failing[id_]
            problem = "is not one that this API key has access to" if status == 403 else "was asked to fail"
            raise Refusal(status, f"campaign {id_} {problem}")
        return found("campaign", id_, self.account.campaigns.get(id_))

    def now(self) -> datetime:
        """Return the date and time, to the second."""
        return self.clock().replace(microsecond=0, tzinfo=None)

    def page(self, request: ApiRequest, rows: Sequence[T]) -> tuple[dict[str, Any], Sequence[T]]:
        """Return the metadata of a result and its rows on the requested page, none beyond the end."""
        limit = min(request["limit"] or self.default_limit, self.max_limit)
        end = (request["page"] or 1) * limit
        return {"total_pages": -(-len(rows) // limit), "total_records": len(rows)}, rows[end - limit : end]

    def once(self, name: str, request: ApiRequest, answer: Callable[[], V]) -> V:
        """Return the answer to a question, which is found once for all its pages."""
        question = (name, self.account.writes, request.question)
        found: V | None = self.recent.pop(question, None)
        if found is None:
            found = answer()
        self.recent[question] = found  # as the most recent
        feeds = [one for one in self.recent.values() if isinstance(one, EncodedFeed)]
        if len(self.recent) > _MOST_RESULTS or (len(feeds) > 1 and sum(len(one.rows) for one in feeds) > _MOST_ROWS):
            del self.recent[next(iter(self.recent))]
        return found


@frozen
class Operation:
    """One operation, with its path from the reference.

    The handler returns what JSON can hold, or None for no body, or raises `Refusal`; it never waits, so nothing comes
    between.
    """

    method: str
    path: str
    handler: Callable[[Service, ApiRequest], Any]
    fields: Fields = field(factory=dict)
    required: Collection[str] = ()


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
    some = sorted((pair for pair in pairs if pair[0] is not None), key=lambda pair: pair[0], reverse=descending)
    return [row for _, row in some] + [row for key, row in pairs if key is None]
