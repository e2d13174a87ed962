"""The common ground of all operations: the account, the options, pages, and recent results."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

from attrs import field, frozen

from seorep_async.sandbox.account import Account, Record
from seorep_async.sandbox.request import ApiRequest, Refusal

T = TypeVar("T")

Shape = Literal["nested", "flat", "mixed"]
Rows = Literal["current", "older", "mixed"]

_MOST_ROWS = 30_000
_MOST_RESULTS = 64


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
    failing: Mapping[int, int]
    reports: Mapping[tuple[str, int], Sequence[Record]]
    recent: dict[Hashable, tuple[Sequence[Any], Any]] = field(factory=dict)

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

    def page(
        self, name: str, request: ApiRequest, find: Callable[[], tuple[Sequence[T], Any]]
    ) -> tuple[dict[str, Any], Sequence[T], Any]:
        """Return the metadata of a result, the rows of one page, none beyond the end, and the totals.

        The rows and totals of all pages are found once.
        """
        question = name, request.question
        rows, totals = self.recent.pop(question, None) or find()
        self.recent[question] = rows, totals  # as the most recent
        kept = [len(rows) for rows, _ in self.recent.values()]
        if len(kept) > _MOST_RESULTS or (len(kept) > 1 and sum(kept) > _MOST_ROWS):
            del self.recent[next(iter(self.recent))]
        limit = min(request["limit"] or self.default_limit, self.max_limit)
        end = (request["page"] or 1) * limit
        return {"total_pages": -(-len(rows) // limit), "total_records": len(rows)}, rows[end - limit : end], totals


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
