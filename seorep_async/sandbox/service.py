"""The common ground of all operations: the account, the options, pages, and a cache of recent results."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

import msgspec
from attrs import field, frozen

from seorep_async.sandbox.account import Account
from seorep_async.sandbox.request import INT32, ApiRequest, Fields, Refusal
from seorep_async.sandbox.seeded import Record

T = TypeVar("T")
V = TypeVar("V")

Shape = Literal["nested", "flat", "mixed"]
Rows = Literal["current", "older", "mixed"]

_CACHED_ROWS = 30_000
_CACHED_SELECTIONS = 16

PAGE: Fields = {"page": INT32, "limit": INT32}


class LruCache(Generic[V]):
    """A cache that drops the least recently used values, but never the newest, if their weights exceed `capacity`."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._weight = 0
        self._values: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        """Return the value stored under a key, or None."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def store(self, key: Hashable, value: V, weight: int = 1) -> None:
        """Store a new value."""
        self._values[key] = (value, weight)
        self._weight += weight
        while self._weight > self._capacity and len(self._values) > 1:
            _, (_, dropped) = self._values.popitem(last=False)
            self._weight -= dropped


@frozen
class EncodedFeed:
    """A feed's rows in their sent form, in order and encoded, ready to be cut into pages."""

    rows: tuple[msgspec.Raw, ...]
    totals: msgspec.Raw


@frozen
class Service:
    """The service behind the operations.

    Attributes:
        shape: the envelope of the feeds.
        rows: the format of their rows.
        clock: the date and time of changes.
        default_limit: records a page if a request names no limit.
        failing: campaign ids, each with the status of the responses for its feeds and the campaign itself.
        reports: rows of the test's own, by feed and id.
        encoded: recent feeds.
        selections: the ids of recent lists.
    """

    account: Account
    shape: Shape
    rows: Rows
    clock: Callable[[], datetime]
    default_limit: int
    max_limit: int
    failing: Mapping[int, int]
    reports: Mapping[tuple[str, int], Sequence[Record]]
    encoded: LruCache[EncodedFeed] = field(factory=lambda: LruCache(_CACHED_ROWS))
    selections: LruCache[Sequence[int]] = field(factory=lambda: LruCache(_CACHED_SELECTIONS))

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
