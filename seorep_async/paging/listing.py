"""Listings: page 1, then the others concurrently, in order, each checked; `PageCount` limits those of a pull."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Iterator
from contextlib import aclosing
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar

import msgspec

from seorep_async.errors import ConfigurationError, NotFoundError
from seorep_async.models import Page
from seorep_async.paging.checks import Ledger, is_whole
from seorep_async.session import Deadline, Decode, Lane, Request, Session, cancel_all
from seorep_async.tables.tabular import ModelList

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class PageCount(msgspec.Struct, eq=False):
    """How many pages a pull, or a listing by itself, may have in progress: asked for, in back-off or not taken yet.

    Every listing in progress has one of them for itself, so that it goes on. The `free` ones go to the first of those
    that still have pages to ask for, by their priorities.
    """

    free: int
    asking: list[int] = []


class Schedule(msgspec.Struct, eq=False):
    """The place of a listing's requests among others.

    Attributes:
        deadline: of the listing, or of each of its requests.
        count: of the pages in progress of all its listings together.
        priority: the lowest is served first.
        lane: of the pull; None for a listing by itself.
    """

    deadline: Deadline
    count: PageCount
    priority: int = 0
    lane: Lane | None = None

    @classmethod
    def of(cls, session: Session, deadline: Deadline, listings: int) -> Schedule:
        """Return the schedule of listings that begin now, none yet or one by itself: two pages for each permit."""
        return cls(deadline, PageCount(2 * session.settings.max_concurrency - listings))


class Query(msgspec.Struct, Generic[T], eq=False):
    """The request of a listing, page by page.

    Attributes:
        path: from `/v3` on.
        query: encoded, without `page`.
        decode: returns the decoder of a page's body from the page's number.
        key: identifies an item, to find repeated ones.
        subject: its name in errors, such as `campaign 42`, or None.
        secrets: strings of the query that must not appear in an error.
    """

    path: str
    query: str
    decode: Callable[[int], Decode[Page[T]]]
    key: Callable[[T], Hashable]
    subject: str | None = None
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Query({self.path})"  # tracebacks show locals; the query may be private

    def page(self, number: int, schedule: Schedule) -> Request[Page[T]]:
        return Request(
            method="GET",
            path=self.path,
            query=f"{self.query}&page={number}" if self.query else f"page={number}",
            secrets=self.secrets,
            decode=self.decode(number),
            subject=self.subject,
            deadline=schedule.deadline,
            priority=schedule.priority,
            lane=schedule.lane,
        )


class Listing(Generic[T, R_co]):
    """A listing that is fetched when it is used: await it, iterate over it, or take single pages.

    - `await listing` gives everything, in the service's order: as many items as it announces, none twice, or an error.
    - `async for item in listing` gives items one at a time, as pages arrive.
    - `listing.pages()` gives pages, `await listing.page(3)` one page.

    Every use fetches it again. Each raises SeoRepErrors, and PaginationError if the pages do not add up.
    """

    def __init__(
        self, session: Session, query: Query[T], assemble: Callable[[list[Page[T]]], R_co]
    ) -> None:
        self._session = session
        self.query: Query[T] = query
        self._assemble = assemble

    def __await__(self) -> Generator[Any, None, R_co]:
        return self.fetch_all().__await__()

    async def __aiter__(self) -> AsyncGenerator[T, None]:
        async with aclosing(self.pages()) as pages:
            async for page in pages:
                for item in page.items:
                    yield item

    async def pages(self) -> AsyncGenerator[Page[T], None]:
        """Give the pages, in order; the next ones are fetched ahead in a bounded window.

        If you leave it early, it stops by itself; `async with contextlib.aclosing(listing.pages())` says exactly when.
        """
        schedule = Schedule.of(self._session, self._session.call_timeout.stream_deadline(), 1)
        first = await self._session.send(self.query.page(1, schedule))
        ledger = self._ledger(first)
        yield first
        prefetch = self._prefetch(ledger, schedule)
        async with aclosing(
            self._read_on(ledger, schedule) if prefetch is None else aiter(prefetch)
        ) as further:
            async for page in further:
                if ledger.add(page):
                    yield page
        ledger.finish()

    async def page(self, number: int) -> Page[T]:
        """Fetch one page.

        Args:
            number: from 1; beyond the end most services send an empty page.

        Raises:
            ConfigurationError: `number` is not an integer from 1.
        """
        if type(number) is not int or number < 1:
            raise ConfigurationError(
                f"page must be an integer from 1, got {number!r}", argument="number"
            )
        schedule = Schedule.of(self._session, self._session.call_timeout.deadline(), 1)
        return await self._session.send(self.query.page(number, schedule))

    async def fetch_all(self, schedule: Schedule | None = None) -> R_co:
        """Fetch everything, by itself or scheduled among others."""
        schedule = schedule or Schedule.of(self._session, self._session.call_timeout.deadline(), 1)
        pages = [await self._session.send(self.query.page(1, schedule))]
        if not is_whole(pages[0], self.query.key):
            await self._add_further(pages, schedule)
        return self._assemble(pages)

    async def _add_further(self, pages: list[Page[T]], schedule: Schedule) -> None:
        ledger = self._ledger(pages[0])

        def add(page: Page[T]) -> None:
            if ledger.add(page):
                pages.append(page)

        if prefetch := self._prefetch(ledger, schedule):
            await prefetch.add_all(add)
        else:
            async with aclosing(self._read_on(ledger, schedule)) as further:
                async for page in further:
                    add(page)
        ledger.finish()

    def _ledger(self, first: Page[T]) -> Ledger[T]:
        return Ledger(first, self.query.key, self.query.subject, self._session.settings.max_pages)

    def _prefetch(self, ledger: Ledger[T], schedule: Schedule) -> Prefetch[T] | None:
        """Return the pages after page 1, or None if they can only be read one after the other."""
        last = ledger.last_page
        return (
            None
            if last is None or last == 1
            else Prefetch(self._session, self.query, schedule, last)
        )

    async def _read_on(
        self, ledger: Ledger[T], schedule: Schedule
    ) -> AsyncGenerator[Page[T], None]:
        """Fetch one page after the other, to the end; add each to the ledger before the next."""
        for number in count(2):
            if not ledger.wants_more():
                return
            try:
                page = await self._session.send(self.query.page(number, schedule))
            except NotFoundError:
                if not ledger.has_all_records():
                    raise
                return  # some services have no page beyond the end
            yield page

    def __repr__(self) -> str:
        return f"<Listing of {self.query.subject or self.query.path}, not fetched: await it, or use `async for`>"

    if not TYPE_CHECKING:  # a forgotten `await`; type checkers find it themselves

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"a Listing has no {name!r}; if its result has, `await` is missing: (await listing).{name}",
                name=name,
                obj=self,
            )

        def _refuse(self, *_: object) -> NoReturn:
            raise TypeError(repr(self))

        __iter__ = __len__ = __getitem__ = __contains__ = _refuse


ModelListing: TypeAlias = Listing[T, ModelList[T]]


class Prefetch(Generic[T]):
    """Pages 2 to the last: start pages, yield the oldest. The first failure ends it at once.

    A page counts until it is taken, in its turn.
    """

    def __init__(self, session: Session, query: Query[T], schedule: Schedule, last: int) -> None:
        self._session = session
        self._query = query
        self._schedule = schedule
        self._last = last
        self._count, self._priority = schedule.count, schedule.priority
        insort(self._count.asking, self._priority)
        self._next = 2
        self._pages: deque[asyncio.Task[Page[T]]] = deque()
        self._add: Callable[[Page[T]], object] | None = None
        self._error: BaseException | None = None
        self._changed = asyncio.Event()

    async def __aiter__(self) -> AsyncGenerator[Page[T], None]:
        try:
            self._start_pages()
            while not self._is_over():
                self._changed.clear()
                await self._changed.wait()
                for page in self._received():
                    yield page
            if self._error is not None:
                raise self._error
        finally:
            await self._end()

    async def add_all(self, add: Callable[[Page[T]], object]) -> None:
        """Have a function called with each page, in order, as it arrives; its error ends it, too.

        No task waits for the pages one by one, which would cost as much as a permit.
        """
        self._add = add
        try:
            self._start_pages()
            await self._changed.wait()
            if self._error is not None:
                raise self._error
        finally:
            await self._end()

    async def _end(self) -> None:
        self._stop()
        self._add = None  # a circle: it holds what holds us, and so every row
        self._count.free += max(0, len(self._pages) - 1)
        pages, self._pages = self._pages, deque()
        await cancel_all([page for page in pages if not page.done()])

    def _stop(self, error: BaseException | None = None) -> None:
        """Start no more pages."""
        self._error = self._error or error
        if self._next <= self._last:
            self._count.asking.remove(self._priority)
        self._last = 0

    def _start_pages(self) -> None:
        count = self._count
        while self._next <= self._last and (
            not self._pages or (count.free > 0 and count.asking[0] == self._priority)
        ):
            count.free -= bool(self._pages)
            work = self._session.send(self._query.page(self._next, self._schedule))
            self._pages.append(self._session.spawn(work, self._on_page))
            self._next += 1
            if self._next > self._last:
                count.asking.remove(self._priority)

    def _on_page(self, page: asyncio.Task[Page[T]]) -> None:
        closed = "the client was closed while a listing was being read"
        error = (
            ConfigurationError(closed) if page.cancelled() else page.exception()
        )  # asked, or asyncio warns
        if error is not None:
            self._stop(error)
        if self._add is not None:
            try:
                for received in self._received():
                    self._add(received)
            except Exception as refusal:  # whatever the caller raises ends it
                self._stop(refusal)
        if self._is_over() or self._has_oldest():
            self._changed.set()

    def _received(self) -> Iterator[Page[T]]:
        """Take out the pages that are due; each keeps its place until it is used."""
        while self._error is None and self._has_oldest():
            yield self._pages[0].result()
            self._pages.popleft()
            self._count.free += bool(self._pages)
            self._start_pages()

    def _has_oldest(self) -> bool:
        """Return whether the oldest page was received; of one that was cancelled, `_on_page` is still to come."""
        return bool(self._pages) and self._pages[0].done() and not self._pages[0].cancelled()

    def _is_over(self) -> bool:
        return self._error is not None or (self._next > self._last and not self._pages)
