"""The service behind the operations. It has the account, and divides results into pages."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from seorep_async.sandbox.account import Account
from seorep_async.sandbox.options import Options
from seorep_async.sandbox.request import ApiRequest, Refusal, found_record
from seorep_async.sandbox.seeds import RecordData

T = TypeVar("T")

_MOST_ROWS = 30_000


class SandboxService:
    """The service behind the operations."""

    def __init__(self, options: Options) -> None:
        self.options: Options = options
        self.account: Account = Account(
            options.seed, options.campaigns, options.keywords, options.users, options.backlinks
        )
        # Recent results, by operation and `ApiRequest.result_key`: for a feed, its encoded rows and
        # totals; for a list, its ids and None.
        self._recent: dict[Hashable, tuple[Sequence[Any], Any]] = {}

    def campaign(self, campaign_id: int) -> RecordData:
        """Return a campaign. Refuse an unknown, forbidden or failing campaign."""
        failing = self.options.failing
        if campaign_id in self.options.forbidden:
            raise Refusal(403, f"campaign {campaign_id} is not one that this API key has access to")
        if campaign_id in failing:
            status = failing[campaign_id] if isinstance(failing, Mapping) else 500
            raise Refusal(status, f"campaign {campaign_id} was asked to fail")
        return found_record("campaign", campaign_id, self.account.campaigns.get(campaign_id))

    def now(self) -> datetime:
        """Return the date and time, to the second."""
        return self.options.clock().replace(microsecond=0)

    def page(
        self, name: str, request: ApiRequest, find: Callable[[], tuple[Sequence[T], Any]]
    ) -> tuple[dict[str, Any], Sequence[T], Any]:
        """Return the metadata of a result, the rows of one page, and the totals.

        A page beyond the end has no rows. The rows and totals of all pages are found once.
        """
        rows, totals = self._result((name, request.result_key), find)
        limit = request["limit"] or self.options.default_limit
        limit = min(limit, self.options.max_limit)
        # Rounded up.
        total_pages = -(-len(rows) // limit)
        metadata = {"total_pages": total_pages, "total_records": len(rows)}
        end = (request["page"] or 1) * limit
        positions = range(len(rows))[end - limit : end]
        return metadata, [rows[position] for position in positions], totals

    def forget_results(self) -> None:
        """Forget all results, because a write may have changed any of them."""
        self._recent.clear()

    def _result(
        self, key: Hashable, find: Callable[[], tuple[Sequence[T], Any]]
    ) -> tuple[Sequence[T], Any]:
        """Return the recent result with the same key, or find it."""
        result = self._recent.pop(key, None) or find()
        self._recent[key] = result  # the most recent is the last
        # A result without rows takes memory as well.
        sizes = [1 + len(rows) for rows, _ in self._recent.values()]
        if len(sizes) > 1 and sum(sizes) > _MOST_ROWS:
            oldest = next(iter(self._recent))
            del self._recent[oldest]
        return result


def contains_all(text: str, searches: Iterable[str]) -> bool:
    """Return whether a text contains every search, ignoring case."""
    folded = text.casefold()
    return all(search.casefold() in folded for search in searches)


def in_order(items: Sequence[T], value_of: Callable[[T], Any], *, descending: bool) -> list[T]:
    """Sort items by a value.

    None goes last either way, and equal items stay in their order.
    """
    with_value = [item for item in items if value_of(item) is not None]
    without_value = [item for item in items if value_of(item) is None]
    return sorted(with_value, key=value_of, reverse=descending) + without_value
