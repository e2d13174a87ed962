"""The pages of a listing must add up: every row once, as many as announced. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from seorep_async.errors import PaginationError
from seorep_async.models import Page

T = TypeVar("T")


def is_whole(page: Page[T], key: Callable[[T], Hashable]) -> bool:
    """Return whether page 1 is the only one and adds up; if not, a `Ledger` says why."""
    rows = len(page.items)
    return (
        page.total_pages == 1
        and page.total_records == rows
        and len(set(map(key, page.items))) == rows
    )


class Ledger(Generic[T]):
    """Checks the pages of one listing, in order; `last_page` is None if only reading on can find it."""

    def __init__(
        self, first: Page[T], key: Callable[[T], Hashable], subject: str | None, max_pages: int
    ) -> None:
        self._key = key
        self._subject = subject
        self._max_pages = max_pages
        self._page_of: dict[Hashable, int] = {}
        self._sizes: list[int] = []  # rows of each page
        self._received = 0
        self._ended = False
        announced = first.total_pages
        self._records = records = first.total_records
        makes_sense = (
            announced is not None
            and 1 <= announced <= max_pages
            and (records is None or announced <= max(records, 1))
        )
        self.last_page: int | None = announced if makes_sense else None
        self.add(first)

    def add(self, page: Page[T]) -> bool:
        """Add the next page and return whether it holds anything new.

        Raises a PaginationError if the page can't belong to the listing that page 1 announced.
        """
        keys = list(map(self._key, page.items))
        numbered = dict.fromkeys(keys, page.number)
        if (
            self.last_page is None
            and self.has_all_records()
            and numbered.keys() <= self._page_of.keys()
        ):
            self._ended = True  # some services repeat the last page beyond the end
            return False
        self._sizes.append(len(keys))
        self._received += len(keys)
        if len(numbered) < len(keys) or not self._page_of.keys().isdisjoint(numbered):
            raise self._error(f"page {page.number} {self._repetition(keys)}", page.number)
        self._page_of |= numbered
        if not page.items:
            self._ended = True
            if self.last_page is not None and self.last_page > 1 and not self.has_all_records():
                raise self._error(f"page {page.number} of {self.last_page} is empty", page.number)
        if self._records is None:
            self._records = page.total_records
        if page.total_records is not None and page.total_records != self._records:
            problem = f"{self._records} records were announced at first, {page.total_records} by page {page.number}"
            raise self._error(problem, page.number)
        if (
            self.last_page is not None
            and page.total_pages is not None
            and page.total_pages != self.last_page
        ):
            problem = (
                f"page 1 announced {self.last_page} pages, page {page.number} {page.total_pages}"
            )
            raise self._error(problem, page.number)
        return bool(page.items)

    def has_all_records(self) -> bool:
        """Return whether all announced records were received."""
        return self._received == self._records

    def wants_more(self) -> bool:
        """Return whether to read another page; past `Settings.max_pages`, raise a PaginationError."""
        pages = len(self._sizes)
        if self.last_page is not None:
            return pages < self.last_page
        if self._ended or (self._records is not None and self._received > self._records):
            return False
        if self.has_all_records() and self._sizes[-1] < self._sizes[0]:
            return False  # a short page is the last; after a full one, the announced records may be too few
        if pages >= self._max_pages:
            raise self._error(f"still no end after {pages} pages (Settings.max_pages)", pages)
        return True

    def finish(self) -> None:
        """Check the sum after the last page, and raise a PaginationError if it is not the announced one.

        If none was announced, all pages but the last must be equally long.
        """
        if self._records is None:
            largest = max(self._sizes)
            for number, size in enumerate(
                [*filter(None, self._sizes)][:-1], 1
            ):  # an empty page can only be the last
                if size < largest:
                    raise self._error(
                        f"page {number} has {size} records, another has {largest}", number
                    )
        elif not self.has_all_records():
            raise self._error(
                f"the service announced {self._records} records but sent {self._received}", None
            )

    def _repetition(self, keys: list[Hashable]) -> str:
        """Name the first repeated key of a page."""
        key, times = next(
            (key, n) for key, n in Counter(keys).items() if n > 1 or key in self._page_of
        )
        if times > 1:
            return f"holds {_shown(key)} more than once"
        return f"repeats {_shown(key)} of page {self._page_of[key]}"

    def _error(self, problem: str, page: int | None) -> PaginationError:
        return PaginationError(
            f"the pages do not add up: {problem}",
            subject=self._subject,
            expected_records=self._records,
            received_records=self._received,
            page=page,
        )


def _shown(key: Hashable) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple) else repr(key)
