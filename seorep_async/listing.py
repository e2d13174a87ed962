"""Listings: page 1, then the rest concurrently in a bounded window, kept in order, checked, given out."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Generator, Hashable
from contextlib import aclosing
from itertools import chain, count, repeat
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from seorep_async.errors import ConfigurationError, NotFoundError, PaginationError
from seorep_async.models import Page
from seorep_async.session import Halt, Request, Session, cancel_all

T = TypeVar("T")
R = TypeVar("R")


class Window:
    """How many pages several listings together may have in progress; the most urgent listing has the first claim.

    A listing begins with a place for its page 1, and needs one for each page in flight. As no other begins while one
    in progress wants a place, many short listings run side by side, but only a few long ones.

    Args:
        limit: how many places there are.
        on_free: called when a place is free that no listing in progress wants.
    """

    def __init__(self, limit: int, on_free: Callable[[], None] = lambda: None) -> None:
        self._free = limit
        self._reserve = 3 * limit // 8  # for further pages, or the first listing would wait for others' first pages
        self._on_free = on_free
        self._wanting: dict[int, Callable[[], None]] = {}

    def enter(self) -> Place | None:
        """Return a place for a listing that is to begin, or None if none is free or one in progress wants it."""
        if self._free <= self._reserve or self._wanting:
            return None
        self._free -= 1
        return Place(self)

    def take(self, priority: int, wake: Callable[[], None]) -> bool:
        """Take the place of a further page, and tell whether it was had; if not, `wake` is called for another try.

        Args:
            priority: of the listing, its own; the lowest is the most urgent.
            wake: tells the listing to try again.
        """
        if self._free > 0 and priority <= min(self._wanting, default=priority):
            self._free -= 1
            self.leave(priority)
            return True
        self._wanting[priority] = wake
        return False

    def leave(self, priority: int) -> None:
        """Want no place any more."""
        self._wanting.pop(priority, None)
        self._wake()

    def release(self) -> None:
        """Give a place back."""
        self._free += 1
        self._wake()

    def _wake(self) -> None:
        if self._free > 0:
            if self._wanting:
                self._wanting[min(self._wanting)]()
            else:
                self._on_free()


class Place:
    """A place in a window, given back once, whoever does it."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._held = True

    def hand_over(self) -> bool:
        """Leave the place to somebody else, who gives it back, and tell whether it was still held."""
        held, self._held = self._held, False
        return held

    def release(self) -> bool:
        """Give the place back if it is still held, and tell whether it was."""
        held = self.hand_over()
        if held:
            self._window.release()
        return held


@attrs.define
class Schedule:
    """How the requests of a listing take their place among others.

    Attributes:
        deadline: monotonic time by which all must be there, or None for `Settings.call_timeout` for each request.
        priority: the lowest is served first.
        window: limits the pages that all listings with this window together have in progress, or None.
        place: the place in the window for page 1, or None.
        halt: stops all requests with this halt once the key is refused to one, or None.
    """

    deadline: float | None = None
    priority: int = 0
    window: Window | None = None
    place: Place | None = None
    halt: Halt | None = None


@attrs.define
class Query(Generic[T]):
    """What a listing asks for, page by page.

    Attributes:
        path: path from `/v3` on.
        query: the encoded query without `page`.
        decode: turns the body and the number of a page into the page.
        key: what tells one item from another, so that a repeated one is noticed.
        subject: what an error should call it, such as `campaign 42`, or None.
        decode_in_steps: does the same for a huge page, as `Request.decode_in_steps` says, or None.
    """

    path: str
    query: str = attrs.field(repr=False)  # may hold private text
    decode: Callable[[bytes | memoryview, int], Page[T]]
    key: Callable[[T], Hashable]
    subject: str | None = None
    decode_in_steps: Callable[[bytes | memoryview, int], Generator[None, None, Page[T] | None]] | None = None

    def page(self, number: int, schedule: Schedule) -> Request[Page[T]]:
        """Return the request for one page."""
        in_steps = self.decode_in_steps
        return Request(
            method="GET",
            path=self.path,
            query=f"{self.query}&page={number}" if self.query else f"page={number}",
            decode=lambda body: self.decode(body, number),
            decode_in_steps=None if in_steps is None else lambda body: in_steps(body, number),
            subject=self.subject,
            deadline=schedule.deadline,
            patient=schedule.deadline is None,
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
        async with aclosing(self.pages()) as pages:
            async for page in pages:
                for item in page.items:
                    yield item

    async def pages(self) -> AsyncGenerator[Page[T], None]:
        """Give the pages, in order; the next ones are fetched ahead in a bounded window.

        Left early it stops by itself; `async with contextlib.aclosing(listing.pages())` says exactly when.
        """
        ledger, first, further = await self._begin(Schedule())
        yield first
        if further is not None:
            async with aclosing(further):
                async for page in further:
                    yield page
        ledger.close()

    async def page(self, number: int) -> Page[T]:
        """Fetch one page.

        Args:
            number: from 1; beyond the end the service decides what comes, an empty page as a rule.

        Raises:
            ConfigurationError: `number` is no integer from 1 on.
        """
        if type(number) is not int or number < 1:
            raise ConfigurationError(f"page must be an integer from 1 on, got {number!r}")
        return await self._session.send(self._query.page(number, Schedule(deadline=self._session.deadline())))

    async def _everything(self) -> R:
        self._session.require_open()
        return await self.collect(Schedule(deadline=self._session.deadline()))

    async def collect(self, schedule: Schedule) -> R:
        """Fetch everything, as one listing among others."""
        ledger, first, further = await self._begin(schedule)
        pages = [first]
        if further is not None:
            async with aclosing(further):
                pages += [page async for page in further]
        ledger.close()
        return self._gather(pages)

    async def _begin(self, schedule: Schedule) -> tuple[Ledger[T], Page[T], AsyncGenerator[Page[T], None] | None]:
        """Fetch page 1, and return with it what checks the pages, and what fetches the others if there are any."""
        query = self._query
        ledger = Ledger(query.key, query.subject, self._session.settings.max_pages)
        first = await self._session.send(query.page(1, schedule))
        last = ledger.open(first)
        if last is None:
            return ledger, first, self._read_on(ledger, schedule)
        return ledger, first, self._fetch_ahead(ledger, last, schedule) if last > 1 else None

    async def _read_on(self, ledger: Ledger[T], schedule: Schedule) -> AsyncGenerator[Page[T], None]:
        """Fetch one page after the other, until there are no more."""
        number = 1
        while ledger.wants_more():
            number += 1
            try:
                page = await self._session.send(self._query.page(number, schedule))
            except NotFoundError:
                if not ledger.has_all_records():
                    raise
                break  # some services have no page beyond the end
            if ledger.add(page):
                yield page

    async def _fetch_ahead(self, ledger: Ledger[T], last: int, schedule: Schedule) -> AsyncGenerator[Page[T], None]:
        """Fetch pages 2 to `last` concurrently and give them out in order; the first failure ends it at once.

        At most twice `max_concurrency` of them are in flight or wait to be taken. Each holds a place in the window from
        being sent to its answer; the place of page 1 passes on to page 2.
        """
        session, query = self._session, self._query
        window, priority = schedule.window or Window(last), schedule.priority
        has_place = schedule.place is not None and schedule.place.hand_over()
        limit = 2 * session.settings.max_concurrency
        fetching: deque[asyncio.Task[Page[T]]] = deque()
        failed: list[asyncio.Task[Page[T]]] = []
        loop = asyncio.get_running_loop()
        changed = loop.create_future()

        def wake() -> None:
            if not changed.done():
                changed.set_result(None)

        def land(task: asyncio.Task[Page[T]]) -> None:
            window.release()
            if not task.cancelled() and task.exception() is not None:
                failed.append(task)
            if failed or number <= last or (fetching and fetching[0].done()):
                wake()

        number = 2
        try:
            while number <= last or fetching:
                changed = loop.create_future()
                while number <= last and len(fetching) < limit and (has_place or window.take(priority, wake)):
                    has_place = False
                    fetching.append(session.spawn(session.send(query.page(number, schedule)), land))
                    number += 1
                if not (failed or (fetching and fetching[0].done())):
                    await changed
                    continue
                task = failed[0] if failed else fetching.popleft()
                if task.cancelled():
                    raise ConfigurationError("the client was closed while a listing was being read")
                page = task.result()
                ledger.add(page)
                yield page
        finally:
            if has_place:
                window.release()
            window.leave(priority)
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
        self._seen: dict[Hashable, None] = {}
        self._received = 0
        self._sizes: list[int] = []
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

    def close(self) -> None:
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
