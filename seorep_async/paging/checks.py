"""The pages of a listing must add up: every row once, and as many as announced. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from itertools import chain, count, repeat
from typing import Generic, TypeVar

from seorep_async.errors import PaginationError
from seorep_async.models import Page

T = TypeVar("T")


class Ledger(Generic[T]):
    """Checks that the pages of a listing add up; pure.

    Args:
        key: what tells one item from another.
        subject: what an error should call the listing.
        max_pages: more pages than this are never read.
    """

    def __init__(self, key: Callable[[T], Hashable], subject: str | None, max_pages: int) -> None:
        self._key = key
        self._subject = subject
        self._max_pages = max_pages
        self._seen: dict[Hashable, None] = {}
        self._received = 0
        self._sizes: list[int] = []
        self._ended = False

    def start(self, first: Page[T]) -> int | None:
        """Take page 1, and return the number of the last page, or None if that can only be found by reading on."""
        announced, records = first.total_pages, first.total_records
        self._records = records
        makes_sense = (
            announced is not None
            and 1 <= announced <= self._max_pages
            and (records is None or announced <= max(records, 1))
        )
        self._last = announced if makes_sense else None
        self.add(first)
        return self._last

    def add(self, page: Page[T]) -> bool:
        """Take the next page, and tell whether it holds anything new.

        Raises:
            PaginationError: the page can't belong to the listing that page 1 announced.
        """
        if self._last is None and self._received == self._records and self._is_known(page):
            self._ended = True  # all was there; beyond the end some services give the last page again
            return False
        self._sizes.append(len(page.items))
        self._received += len(page.items)
        self._seen.update(zip(map(self._key, page.items), repeat(None)))
        if len(self._seen) < self._received:
            raise self._repetition(page)
        if not page.items:
            self._ended = True
            if self._last is not None and self._last > 1:
                raise self._error(f"page {page.number} of {self._last} is empty", page.number)
        if self._records is None:
            self._records = page.total_records
        if page.total_records is not None and page.total_records != self._records:
            raise self._error(
                f"{self._records} records were announced at first, {page.total_records} by page {page.number}",
                page.number,
            )
        if self._last is not None and page.total_pages is not None and page.total_pages != self._last:
            raise self._error(
                f"page 1 announced {self._last} pages, page {page.number} {page.total_pages}", page.number
            )
        return bool(page.items)

    def has_all_records(self) -> bool:
        """Tell whether as many records came as were announced."""
        return self._received == self._records

    def wants_more(self) -> bool:
        """Tell, where no number of pages is known, whether another page must be read.

        Raises:
            PaginationError: the listing does not end within `Settings.max_pages`.
        """
        if self._ended or (self._records is not None and self._received > self._records):
            return False
        if self._received == self._records and self._sizes[-1] < self._sizes[0]:
            return False  # a page that is not full is the last; after a full one the records may be too few by pages
        pages = len(self._sizes)
        if pages >= self._max_pages:
            raise self._error(f"still no end after {pages} pages (Settings.max_pages)", pages)
        return True

    def finish(self) -> None:
        """Check the sum, after the last page.

        Raises:
            PaginationError: other than the announced number of records came; or none was announced, and a page is
                shorter than another though it is not the last.
        """
        if self._records is not None and self._received != self._records:
            raise self._error(f"the service announced {self._records} records, {self._received} came", None)
        if self._records is None:
            *before_last, last = [size for size in self._sizes if size] or [0]
            full = max([*before_last, last])
            for number, size in enumerate(before_last, 1):
                if size < full:
                    raise self._error(f"page {number} has {size} records, another has {full}", number)

    def _is_known(self, page: Page[T]) -> bool:
        return self._seen.keys() >= set(map(self._key, page.items))

    def _repetition(self, page: Page[T]) -> PaginationError:
        """Find out what the last page holds that came before; the order in which keys were first seen tells where."""
        earlier = dict(zip(self._seen, chain.from_iterable(map(repeat, count(1), self._sizes[:-1])), strict=False))
        for key, times in Counter(map(self._key, page.items)).items():
            if times > 1:
                return self._error(f"page {page.number} holds {key!r} more than once", page.number)
            if key in earlier:
                return self._error(f"page {page.number} repeats {key!r} of page {earlier[key]}", page.number)
        raise AssertionError("no key was repeated")

    def _error(self, problem: str, page: int | None) -> PaginationError:
        error = PaginationError(f"the pages do not add up: {problem}", subject=self._subject)
        error.expected_records, error.received_records, error.page = self._records, self._received, page
        return error
