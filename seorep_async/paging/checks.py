"""Check whether the pages of a listing add up. Nothing here does I/O.

They add up if no record is repeated, and as many records arrive as were announced.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from seorep_async.errors import PaginationError
from seorep_async.models import Page

T = TypeVar("T")


def is_whole(page: Page[T], key: Callable[[T], Hashable]) -> bool:
    """Return whether page 1 is the only page, and its records add up.

    A `Ledger` checks any other listing.
    """
    records = len(page.items)
    if page.total_pages != 1 or page.total_records != records:
        return False
    return len(set(map(key, page.items))) == records


class Ledger(Generic[T]):
    """Checks the pages of one listing, in order.

    Attributes:
        last_page: the number of the last page, or None if it is known only at the end.
    """

    def __init__(
        self, first: Page[T], key: Callable[[T], Hashable], subject: str | None, max_pages: int
    ) -> None:
        self._key = key
        self._subject = subject
        self._max_pages = max_pages
        self._keys: set[Hashable] = set()
        self._sizes: list[int] = []  # records of each page
        self._received = 0
        self._ended = False
        self._records = first.total_records  # the announced number, or None
        self.last_page: int | None = None
        if self._makes_sense(first.total_pages):
            self.last_page = first.total_pages
        self.add(first)

    def _makes_sense(self, pages: int | None) -> bool:
        """Return whether page 1 announced a plausible number of pages."""
        if pages is None or not 1 <= pages <= self._max_pages:
            return False
        # Each page has at least one record, unless it is the only page.
        return self._records is None or pages <= max(self._records, 1)

    def add(self, page: Page[T]) -> None:
        """Add the next page.

        Raises:
            PaginationError: the page can't belong to the listing that page 1 announced.
        """
        keys = list(map(self._key, page.items))
        distinct_keys = set(keys)
        self._sizes.append(len(keys))
        self._received += len(keys)
        if len(distinct_keys) < len(keys) or not self._keys.isdisjoint(distinct_keys):
            repeated = next(key for key in keys if key in self._keys or keys.count(key) > 1)
            raise self._error(f"page {page.number} repeats {_key_in_words(repeated)}", page.number)
        self._keys |= distinct_keys
        if not page.items:
            self._end_at(page)
        self._compare_totals(page)

    def _end_at(self, page: Page[T]) -> None:
        """Treat an empty page as the end.

        Raises:
            PaginationError: several pages were announced, and records are or may be missing.
        """
        self._ended = True
        # If page 1 announced a single page, or did not say how many there are, an empty page is not
        # an error yet: `finish` compares the number of records.
        if self.last_page is None or self.last_page == 1:
            return
        # If all announced records have arrived, an empty page is not a gap.
        if not self.has_all_records():
            raise self._error(f"page {page.number} of {self.last_page} is empty", page.number)

    def _compare_totals(self, page: Page[T]) -> None:
        """Raise an error if a page announces totals that differ from earlier ones."""
        if self._records is None:
            self._records = page.total_records
        if page.total_records is not None and page.total_records != self._records:
            announced = f"{self._records} records were announced first"
            problem = f"{announced}, but page {page.number} announced {page.total_records}"
            raise self._error(problem, page.number)
        if self.last_page is None or page.total_pages is None:
            return
        if page.total_pages != self.last_page:
            announced = f"page 1 announced {self.last_page} pages"
            problem = f"{announced}, but page {page.number} announced {page.total_pages}"
            raise self._error(problem, page.number)

    def has_all_records(self) -> bool:
        """Return whether all announced records were received."""
        return self._received == self._records

    def wants_more(self) -> bool:
        """Return whether to read another page.

        Raises:
            PaginationError: there is no end within `Settings.max_pages`.
        """
        pages = len(self._sizes)
        if self.last_page is not None:
            return pages < self.last_page
        if self._ended:
            return False
        if self._records is not None and self._received > self._records:
            return False  # too many: `finish` raises the error
        # If all announced records have arrived, a short page is the end. After a full page, there
        # may be more than were announced, so the next page is read as well.
        if self.has_all_records() and self._sizes[-1] < self._sizes[0]:
            return False
        if pages >= self._max_pages:
            error = self._error(f"still no end after {pages} pages (Settings.max_pages)", pages)
            raise error.evolve(retryable=False)
        return True

    def finish(self) -> None:
        """After the last page, check the number of records.

        Raises:
            PaginationError: the number of records is not the announced one; or none was announced,
                and a page before the last has fewer records than another.
        """
        if self._records is None:
            self._require_full_pages()
        elif not self.has_all_records():
            sent = f"sent {self._received}"
            raise self._error(f"the service announced {self._records} records but {sent}")

    def _require_full_pages(self) -> None:
        """Raise an error unless all pages but the last have the same size."""
        largest = max(self._sizes)
        # An empty page can only be the last.
        sizes = [size for size in self._sizes if size]
        for number, size in enumerate(sizes[:-1], 1):
            if size < largest:
                problem = f"page {number} has {size} records, another has {largest}"
                raise self._error(problem, number)

    def _error(self, problem: str, page: int | None = None) -> PaginationError:
        return PaginationError(
            f"the pages do not add up: {problem}",
            subject=self._subject,
            expected_records=self._records,
            received_records=self._received,
            page=page,
        )


def _key_in_words(key: Hashable) -> str:
    if isinstance(key, tuple):
        return " ".join(map(str, key))
    return repr(key)
