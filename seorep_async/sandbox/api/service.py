"""The common ground of all operations: the account, the chosen shapes, page sizes, and a cache of recent responses."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from attrs import field, frozen

from seorep_async.sandbox.api.request import ApiRequest, Refusal, int32
from seorep_async.sandbox.api.shapes import Shapes
from seorep_async.sandbox.data.account import Account, LruCache
from seorep_async.sandbox.data.seeded import Campaign

T = TypeVar("T")

Record = dict[str, Any]

_CACHED_ROWS = 30_000
_CACHED_SELECTIONS = 16

PAGE = int32("page")
LIMIT = int32("limit")


@frozen
class PageRange:
    """A page of records: its number, counted from 1, and its size."""

    number: int
    limit: int

    def cut(self, rows: Sequence[T]) -> Sequence[T]:
        """Return this page's rows, none beyond the end."""
        return rows[(self.number - 1) * self.limit : self.number * self.limit]

    def count(self, records: int) -> int:
        """Return the number of pages for a number of records."""
        return -(-records // self.limit)


@frozen
class ApiResponse:
    """A successful response: JSON or nothing, and its status."""

    body: bytes
    status: int = 200


@frozen
class EncodedFeed:
    """A feed's rows in their sent form, in order and encoded, ready to be cut into pages."""

    rows: tuple[msgspec.Raw, ...]
    totals: msgspec.Raw


@frozen
class Service:
    """The service behind the operations.

    Attributes:
        clock: the date and time of changes.
        default_limit: records a page if a request names no limit.
        failing: campaign ids, each with the status of the responses for its feeds and the campaign itself.
        reports: rows of the test's own, by feed and id.
        encoded: recent feeds.
        selections: the ids of recent lists.
    """

    account: Account
    shapes: Shapes
    clock: Callable[[], datetime]
    default_limit: int
    max_limit: int
    failing: Mapping[int, int]
    reports: Mapping[tuple[str, int], Sequence[Record]]
    encoded: LruCache[Hashable, EncodedFeed] = field(factory=lambda: LruCache(_CACHED_ROWS))
    selections: LruCache[Hashable, Sequence[int]] = field(factory=lambda: LruCache(_CACHED_SELECTIONS))

    def campaign(self, id_: int) -> Campaign:
        """Return a campaign; refuse an unknown or a failing one."""
        if id_ in self.failing:
            status = self.failing[id_]
            problem = "is not one that this API key has access to" if status == 403 else "was asked to fail"
            raise Refusal(status, f"campaign {id_} {problem}")
        campaign = self.account.campaigns.get(id_)
        if campaign is None:
            raise Refusal(404, f"there is no campaign {id_}")
        return campaign

    def now(self) -> datetime:
        """Return the date and time, to the second."""
        return self.clock().replace(microsecond=0, tzinfo=None)

    def page(self, request: ApiRequest) -> PageRange:
        """Return the range of records on a request's page."""
        return PageRange(request[PAGE] or 1, min(request[LIMIT] or self.default_limit, self.max_limit))


def single(record: Record) -> ApiResponse:
    """Return the response of one record."""
    return as_json({"metadata": {"total_pages": 1, "total_records": 1}, "data": record})


def nothing() -> ApiResponse:
    """Return the response without a body."""
    return ApiResponse(b"", 204)


def as_json(body: object) -> ApiResponse:
    """Return a response of any value that JSON can hold."""
    return ApiResponse(msgspec.json.encode(body))


def moment(when: datetime | None) -> str | None:
    """Write a moment in the service's format."""
    return None if when is None else when.isoformat(" ", "seconds")


def matches(string: str, *wanted: str) -> bool:
    """Return whether a string contains each of others, ignoring case."""
    anycase = string.casefold()
    return all(one.casefold() in anycase for one in wanted)


def in_order(rows: Iterable[T], value: Callable[[T], Any], descending: bool) -> list[T]:
    """Sort rows by a value; None goes last either way, and equal rows stay in their order."""
    pairs = [(value(row), row) for row in rows]
    some = sorted((pair for pair in pairs if pair[0] is not None), key=lambda pair: pair[0], reverse=descending)
    return [row for _, row in some] + [row for key, row in pairs if key is None]
