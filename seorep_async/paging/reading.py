"""One listing while it is read. It decides which page is next, and whether the pages add up."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

import msgspec

from seorep_async.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    PaginationError,
    RateLimitedError,
    SeoRepError,
    ServerError,
    TransportError,
)
from seorep_async.models import Page
from seorep_async.paging.checks import Ledger, is_whole
from seorep_async.paging.page_size import PageSize
from seorep_async.paging.query import PageRequests
from seorep_async.session import Request, Session

T = TypeVar("T")

_FAILURES_OF_LARGE_PAGES = (
    DeadlineExceededError,
    InvalidRequestError,
    PaginationError,
    RateLimitedError,
    ServerError,
    TransportError,
)
"""Errors that smaller pages might avoid."""


class Reading(msgspec.Struct, Generic[T], eq=False):
    """One listing while it is being read.

    Attributes:
        session: sends its requests.
        page_size: finds the size of all pages when page 1 is requested. If None, the limit in the
            query applies, or else the service's default.
        blamed: the `page_size` whose large pages may have caused an earlier failure, or None.
        earlier_error: the failure of an earlier reading of this listing, or None.
        requested: the number of the last requested page.
        checked: the number of the last page that was received and checked.
        early: pages that arrived while a page with a lower number is missing, by number.
        pages: page 1, and the other checked pages with items. Only `store` adds to them.
        ledger: checks the pages. None before page 1, and if page 1 `is_whole`.
        is_complete: whether all pages are there and add up.
        is_given_up: whether nobody waits for its pages any more.
    """

    requests: PageRequests[T]
    session: Session
    page_size: PageSize | None = None
    blamed: PageSize | None = None
    earlier_error: SeoRepError | None = None
    requested: int = 0
    checked: int = 0
    early: dict[int, Page[T]] = msgspec.field(default_factory=dict)
    pages: list[Page[T]] = msgspec.field(default_factory=list)
    ledger: Ledger[T] | None = None
    is_complete: bool = False
    is_given_up: bool = False

    def may_be_too_large(self, error: SeoRepError) -> bool:
        """Return whether pages larger than the default may have caused a failure."""
        return self.requests.limit is not None and isinstance(error, _FAILURES_OF_LARGE_PAGES)

    def failure(self, error: SeoRepError) -> SeoRepError:
        """Return the error of a failed page.

        If its request was not sent in time, return the earlier error, which says why the listing
        was read again.
        """
        is_late = isinstance(error, DeadlineExceededError | RateLimitedError)
        was_sent = error.attempts > 0 or not is_late
        return error if was_sent else self.earlier_error or error

    def at_default_size(self, error: SeoRepError) -> Reading[T]:
        """Return a reading of the same listing from page 1, at the service's default size."""
        again = self.again(error)
        again.page_size = None
        again.blamed = self.page_size
        return again

    def again(self, error: SeoRepError) -> Reading[T]:
        """Return a reading of the same listing from page 1, after a failure.

        If there is a `page_size`, it finds the size of the pages again.
        """
        requests = msgspec.structs.replace(self.requests, limit=None)
        return Reading(requests, self.session, self.page_size, self.blamed, earlier_error=error)

    @property
    def last_page(self) -> int | None:
        """The number of the last page.

        None if page 1 has not arrived, did not announce a number, or is the whole listing.
        """
        return None if self.ledger is None else self.ledger.last_page

    @property
    def wants_request(self) -> bool:
        """Whether the page after the last requested one may be requested now."""
        if self.is_complete or self.is_given_up:
            return False
        if self.ledger is None:
            # Page 1 comes first, because it may announce the number of pages.
            return self.requested == 0
        if self.ledger.last_page is None:
            # Without a total, each page says whether there is another.
            return self.requested == self.checked
        # Early pages take memory, and are wasted if the missing page fails. Shared limits may have
        # more permits than the settings.
        most_ahead = 2 * self.session.share.max_concurrency
        return self.requested < min(self.ledger.last_page, self.checked + most_ahead)

    @property
    def arrived(self) -> int:
        """The number of received pages, including early ones."""
        return self.checked + len(self.early)

    @property
    def in_progress(self) -> int:
        """The number of pages requested but not received."""
        return self.requested - self.arrived

    def take_number(self) -> int:
        """Return the number of the next page to request, and count that page as requested."""
        self.requested += 1
        return self.requested

    def request(self, number: int) -> Request[Page[T]]:
        """Return the request of a page, with the page size of this listing."""
        return self.requests.page(number, self.requests.limit)

    def fetch(self, number: int) -> Coroutine[Any, Any, Page[T]]:
        """Request a page. Page 1 decides the size of all pages."""
        if number == 1 and self.page_size is not None:
            return self.page_size.first_page(self.requests)
        return self.session.send(self.request(number))

    def store(self, number: int, page: Page[T]) -> None:
        """Store a page, and check all pages that are next in order.

        Raises:
            PaginationError: the pages do not add up.
        """
        self.early[number] = page
        while self.checked + 1 in self.early:
            due_page = self.early.pop(self.checked + 1)
            self.check(due_page)
            if due_page.items or not self.pages:
                self.pages.append(due_page)

    def check(self, page: Page[T]) -> None:
        """Check the next page in order.

        Raises:
            PaginationError: the page does not belong to the listing that page 1 announced.
        """
        self.checked += 1
        query = self.requests.query
        if self.ledger is not None:
            self.ledger.add(page)
        elif is_whole(page, query.key):
            # Most listings have one page, and need no ledger.
            self._complete()
            return
        else:
            most_pages = self.session.settings.max_pages
            self.ledger = Ledger(page, query.key, query.subject, most_pages)
        if not self.ledger.wants_more():
            self.ledger.finish()
            self._complete()

    def _complete(self) -> None:
        self.is_complete = True
        if self.blamed is not None:
            # This listing failed at the large size, but succeeded at the default size.
            self.blamed.count_failure()
