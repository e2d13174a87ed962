"""Listings: page 1, then the rest concurrently in a bounded window, kept in order, checked, given out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Hashable, Iterator
from contextlib import aclosing
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from seorep_async.errors import ConfigurationError, PaginationError
from seorep_async.models import Page
from seorep_async.session import Halt, Permits, Request, Session, cancel_all

T = TypeVar("T")
R = TypeVar("R")


@attrs.frozen
class Schedule:
    """How the requests of a listing take their place among others.

    Attributes:
        deadline: monotonic time by which all must be there, or None for `Settings.call_timeout` for each request.
        priority: the lowest is served first.
        window: limits the pages that all listings with this window together fetch ahead; None for one of its own.
        halt: stops all requests with this halt once the key is refused to one, or None.
    """

    deadline: float | None = None
    priority: int = 0
    window: Permits | None = None
    halt: Halt | None = None


@attrs.frozen
class Query(Generic[T]):
    """What a listing asks for, page by page.

    Attributes:
        path: path from `/v3` on.
        query: the encoded query without `page`.
        decode: turns the body and the number of a page into the page.
        key: what tells one item from another, so that a repeated one is noticed.
        subject: what an error should call it, such as `campaign 42`, or None.
    """

    path: str
    query: str
    decode: Callable[[bytes, int], Page[T]]
    key: Callable[[T], Hashable]
    subject: str | None = None

    def page(self, number: int, schedule: Schedule) -> Request[Page[T]]:
        """Return the request for one page."""
        return Request(
            method="GET",
            path=self.path,
            query=f"{self.query}&page={number}" if self.query else f"page={number}",
            decode=lambda body: self.decode(body, number),
            subject=self.subject,
            deadline=schedule.deadline,
            priority=schedule.priority,
            halt=schedule.halt,
        )


class Listing(Generic[T, R]):
    """A listing that was asked for and not yet fetched: await it, iterate over it, or take single pages.

    - `await listing` gives everything, in the service's order: every item exactly once, or an error.
    - `async for item in listing` gives items one at a time, as pages arrive.
    - `listing.pages()` gives pages, `await listing.page(3)` one page.

    Every use asks the service anew. All raise SeoRepError; PaginationError where the pages do not add up.
    """

    def __init__(self, session: Session, query: Query[T], gather: Callable[[list[Page[T]]], R]) -> None:
        self._session = session
        self._query = query
        self._gather = gather

    def __await__(self) -> Generator[Any, None, R]:
        return self._everything().__await__()

    async def __aiter__(self) -> AsyncGenerator[T, None]:
        async with aclosing(self._pages()) as pages:
            async for page in pages:
                for item in page.items:
                    yield item

    def pages(self) -> AsyncIterator[Page[T]]:
        """Return an iterator over the pages, in order; the next ones are fetched ahead in a bounded window."""
        return self._pages()

    async def page(self, number: int) -> Page[T]:
        """Fetch one page.

        Args:
            number: from 1; beyond the end the service decides what comes, an empty page as a rule.

        Raises:
            ConfigurationError: `number` is no integer from 1 on.
        """
        if type(number) is not int or number < 1:
            raise ConfigurationError(f"page must be an integer from 1 on, got {number!r}")
        return await self._session.send(self._query.page(number, Schedule()))

    async def _everything(self) -> R:
        self._session.require_open()
        return await self.collect(Schedule(deadline=self._session.deadline()))

    async def collect(self, schedule: Schedule) -> R:
        """Fetch everything, as one listing among others."""
        async with aclosing(self._pages(schedule)) as pages:
            return self._gather([page async for page in pages])

    async def _pages(self, schedule: Schedule = Schedule()) -> AsyncGenerator[Page[T], None]:  # immutable
        session, query = self._session, self._query
        ledger = Ledger(query.key, query.subject, session.settings.max_pages)
        first = await session.send(query.page(1, schedule))
        last = ledger.open(first)
        yield first
        if last is None:
            number = 1
            while ledger.wants_more():
                number += 1
                page = await session.send(query.page(number, schedule))
                ledger.add(page)
                if page.items:
                    yield page
        elif last > 1:
            requests = (query.page(number, schedule) for number in range(2, last + 1))
            async with aclosing(self._fetch_ahead(requests, schedule.window)) as pages:
                async for page in pages:
                    ledger.add(page)
                    yield page
        ledger.close()

    async def _fetch_ahead(
        self, requests: Iterator[Request[Page[T]]], window: Permits | None
    ) -> AsyncGenerator[Page[T], None]:
        """Fetch pages concurrently and give them out in order; the first failure of any ends it at once."""
        session = self._session
        if window is None:
            window = Permits(2 * session.settings.max_concurrency)
        fetching: deque[asyncio.Task[Page[T]]] = deque()
        failed: list[asyncio.Task[Page[T]]] = []
        loop = asyncio.get_running_loop()
        landed = loop.create_future()

        def land(task: asyncio.Task[Page[T]]) -> None:
            window.release()
            if not task.cancelled() and task.exception() is not None:
                failed.append(task)
            if not landed.done():
                landed.set_result(None)

        try:
            more = True
            while True:
                # one page is always fetched, or a full window shared with others could stop us for good
                while more and (window.take_if_free() or (not fetching and window.take_anyway())):
                    request = next(requests, None)
                    if request is None:
                        window.release()
                        more = False
                    else:
                        task = session.spawn(session.send(request))
                        task.add_done_callback(land)
                        fetching.append(task)
                if not fetching:
                    return
                while not (fetching[0].done() or failed):
                    landed = loop.create_future()
                    await landed
                task = failed[0] if failed else fetching.popleft()
                if task.cancelled():
                    raise ConfigurationError("the client was closed while a listing was being read")
                yield task.result()
        finally:
            await cancel_all(fetching)


ModelListing: TypeAlias = Listing[T, list[T]]


def all_items(pages: list[Page[T]]) -> list[T]:
    """Return the items of all pages as one list."""
    return [item for page in pages for item in page.items]


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
        self._page_of: dict[Hashable, int] = {}
        self._received = 0
        self._pages = 0
        self._ended = False

    def open(self, first: Page[T]) -> int | None:
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

    def add(self, page: Page[T]) -> None:
        """Take the next page.

        Raises:
            PaginationError: the page can't belong to the listing that page 1 announced.
        """
        self._pages += 1
        self._received += len(page.items)
        for item in page.items:
            seen_on = self._page_of.setdefault(self._key(item), page.number)
            if seen_on != page.number:
                raise self._error(f"page {page.number} repeats {self._key(item)!r} of page {seen_on}", page.number)
        if not page.items:
            self._ended = True
            if self._last is not None and self._last > 1:
                raise self._error(f"page {page.number} of {self._last} is empty", page.number)
        if page.total_records is not None and self._records is not None and page.total_records != self._records:
            raise self._error(
                f"page 1 announced {self._records} records, page {page.number} {page.total_records}", page.number
            )
        if self._last is not None and page.total_pages is not None and page.total_pages != self._last:
            raise self._error(
                f"page 1 announced {self._last} pages, page {page.number} {page.total_pages}", page.number
            )

    def wants_more(self) -> bool:
        """Tell, where no number of pages is known, whether another page must be read.

        Raises:
            PaginationError: the listing does not end within `Settings.max_pages`.
        """
        if self._ended or (self._records is not None and self._received >= self._records):
            return False
        if self._pages >= self._max_pages:
            raise self._error(f"still no end after {self._pages} pages (Settings.max_pages)", self._pages)
        return True

    def close(self) -> None:
        """Check the sum, after the last page.

        Raises:
            PaginationError: other than the announced number of records came.
        """
        if self._records is not None and self._received != self._records:
            raise self._error(f"the service announced {self._records} records, {self._received} came", None)

    def _error(self, problem: str, page: int | None) -> PaginationError:
        error = PaginationError(f"the pages do not add up: {problem}", subject=self._subject)
        error.expected_records, error.received_records, error.page = self._records, self._received, page
        return error
