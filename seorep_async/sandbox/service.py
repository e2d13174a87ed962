"""The service behind the operations: its options, its account, and pages of results."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

from attrs import field, frozen

from seorep_async.sandbox.account import Account
from seorep_async.sandbox.request import ApiRequest, NoResponseError, Refusal, found_record
from seorep_async.sandbox.seeds import RecordData

T = TypeVar("T")
Shape = Literal["nested", "flat", "mixed"]
Rows = Literal["current", "older", "mixed"]
LargeLimit = Literal[
    "lowered", "ignored", "refused", "failing", "hanging", "misannounced", "whole-report"
]

_MOST_ROWS = 30_000
_MOST_RESULTS = 64


@frozen
class SandboxService:
    """The service behind the operations, with the options of the sandbox.

    `failing` has the statuses of campaigns, 403 for forbidden ones. `recent` has recent results by
    their questions: the rows of feeds, encoded, and their totals; the ids of lists.
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
    reports: Mapping[tuple[str, int], Sequence[RecordData]]
    recent: dict[Hashable, tuple[Sequence[Any], Any]] = field(factory=dict)

    def campaign(self, campaign_id: int) -> RecordData:
        """Return a campaign. Refuse an unknown or a failing one."""
        status = self.failing.get(campaign_id)
        if status == 403:
            raise Refusal(403, f"campaign {campaign_id} is not one that this API key has access to")
        if status is not None:
            raise Refusal(status, f"campaign {campaign_id} was asked to fail")
        return found_record("campaign", campaign_id, self.account.campaigns.get(campaign_id))

    def now(self) -> datetime:
        """Return the date and time, to the second."""
        return self.clock().replace(microsecond=0, tzinfo=None)

    def page(
        self, name: str, request: ApiRequest, find: Callable[[], tuple[Sequence[T], Any]]
    ) -> tuple[dict[str, Any], Sequence[T], Any]:
        """Return the metadata of a result, the rows of one page, and the totals.

        A page beyond the end has no rows. The rows and totals of all pages are found once.
        """
        rows, totals = self._result((name, request.question), find)
        limit = request["limit"] or self.default_limit
        size = self._page_size(limit, len(rows))
        announced_size = size
        if limit > self.max_limit and self.large_limit == "whole-report":
            rows = rows[:limit]
        elif limit > self.max_limit and self.large_limit == "misannounced":
            announced_size = self.default_limit
        # Rounded up.
        total_pages = -(-len(rows) // announced_size)
        metadata = {"total_pages": total_pages, "total_records": len(rows)}
        end = (request["page"] or 1) * size
        return metadata, rows[end - size : end], totals

    def _result(
        self, question: Hashable, find: Callable[[], tuple[Sequence[T], Any]]
    ) -> tuple[Sequence[T], Any]:
        result = self.recent.pop(question, None) or find()
        self.recent[question] = result  # as the most recent
        # Only lists take memory: ids may be a range, or made when they are read.
        kept = [len(rows) if isinstance(rows, list) else 0 for rows, _ in self.recent.values()]
        is_too_large = len(kept) > 1 and sum(kept) > _MOST_ROWS
        if len(kept) > _MOST_RESULTS or is_too_large:
            oldest = next(iter(self.recent))
            del self.recent[oldest]
        return result

    def _page_size(self, limit: int, records: int) -> int:
        """Return the records of a page. Refuse or ignore a limit above the maximum."""
        if limit <= self.max_limit:
            return limit
        if self.large_limit == "lowered":
            return self.max_limit
        if self.large_limit == "ignored":
            return self.default_limit
        if self.large_limit == "refused":
            raise Refusal(400, f"limit must be at most {self.max_limit}")
        # A service that breaks on large pages breaks only where a page really is large.
        is_large = records > self.max_limit
        if is_large and self.large_limit == "failing":
            raise Refusal(500, "the page is too large")
        if is_large and self.large_limit == "hanging":
            raise NoResponseError
        return limit


def contains_all(text: str, searches: Iterable[str]) -> bool:
    """Return whether a text contains every search, ignoring case."""
    folded = text.casefold()
    return all(search.casefold() in folded for search in searches)


def in_order(items: Iterable[T], value_of: Callable[[T], Any], descending: bool) -> list[T]:
    """Sort items by a value.

    None goes last either way, and equal items stay in their order.
    """
    with_value = []
    without_value = []
    for item in items:
        if value_of(item) is None:
            without_value.append(item)
        else:
            with_value.append(item)
    return sorted(with_value, key=value_of, reverse=descending) + without_value
