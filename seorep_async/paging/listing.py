"""Listings: page 1, then the others concurrently, in order, each checked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Hashable
from contextlib import aclosing
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar

import msgspec

from seorep_async.errors import ConfigurationError, NotFoundError
from seorep_async.models import Page
from seorep_async.paging.checks import Ledger, is_whole
from seorep_async.paging.prefetch import PageCount, Prefetch
from seorep_async.session import Decode, Request, Session, Taker
from seorep_async.tables.tabular import ModelList

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class Schedule(msgspec.Struct, eq=False):
    """The place of a listing's requests among others.

    Attributes:
        deadline: monotonic end of the listing, or None for `Settings.call_timeout` for each request.
        count: of the pages in progress of all its listings together.
        priority: the lowest is served first.
        refusals: of the key, before it began.
        taker: takes turns with those of other listings, pulls and calls.
    """

    deadline: float | None
    count: PageCount
    refusals: int
    priority: int = 0
    taker: Taker = msgspec.field(default_factory=Taker)


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
        """Return the request for one page."""
        return Request(
            method="GET",
            path=self.path,
            query=f"{self.query}&page={number}" if self.query else f"page={number}",
            secrets=self.secrets,
            decode=self.decode(number),
            subject=self.subject,
            deadline=schedule.deadline,
            priority=schedule.priority,
            refusals=schedule.refusals,
            taker=schedule.taker,
        )


class Listing(Generic[T, R_co]):
    """A listing that is fetched when it is used: await it, iterate over it, or take single pages.

    - `await listing` gives everything, in the service's order: every item exactly once, or an error.
    - `async for item in listing` gives items one at a time, as pages arrive.
    - `listing.pages()` gives pages, `await listing.page(3)` one page.

    Every use fetches it again. Each raises SeoRepErrors, and PaginationError if the pages do not add up.
    """

    def __init__(self, session: Session, query: Query[T], assemble: Callable[[list[Page[T]]], R_co]) -> None:
        self._session = session
        self._query = query
        self._assemble = assemble

    def __await__(self) -> Generator[Any, None, R_co]:
        return self._fetch_all().__await__()

    async def __aiter__(self) -> AsyncGenerator[T, None]:
        async with aclosing(self.pages()) as pages:
            async for page in pages:
                for item in page.items:
                    yield item

    async def pages(self) -> AsyncGenerator[Page[T], None]:
        """Give the pages, in order; the next ones are fetched ahead in a bounded window.

        If you leave it early, it stops by itself; `async with contextlib.aclosing(listing.pages())` says exactly when.
        """
        schedule = self._schedule(self._session.call_timeout.stream_deadline())
        first = await self._session.send(self._query.page(1, schedule))
        ledger = self._ledger(first)
        yield first
        prefetch = self._prefetch(ledger, schedule)
        async with aclosing(self._read_on(ledger, schedule) if prefetch is None else aiter(prefetch)) as further:
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
            raise ConfigurationError(f"page must be an integer from 1, got {number!r}", argument="number")
        schedule = self._schedule(self._session.call_timeout.deadline())
        return await self._session.send(self._query.page(number, schedule))

    async def _fetch_all(self) -> R_co:
        self._session.require_open()
        return await self.fetch_all(self._schedule(self._session.call_timeout.deadline()))

    async def fetch_all(self, schedule: Schedule) -> R_co:
        """Fetch everything, scheduled among others."""
        pages = [await self._session.send(self._query.page(1, schedule))]
        if not is_whole(pages[0], self._query.key):
            await self._add_further(pages, schedule)
        return self._assemble(pages)

    async def _add_further(self, pages: list[Page[T]], schedule: Schedule) -> None:
        """Fetch the pages after page 1."""
        ledger = self._ledger(pages[0])
        if (prefetch := self._prefetch(ledger, schedule)) is None:
            async with aclosing(self._read_on(ledger, schedule)) as further:
                pages += [page async for page in further if ledger.add(page)]
        else:

            def add(page: Page[T]) -> None:
                ledger.add(page)
                pages.append(page)

            await prefetch.add_all(add)
        ledger.finish()

    def _ledger(self, first: Page[T]) -> Ledger[T]:
        return Ledger(first, self._query.key, self._query.subject, self._session.settings.max_pages)

    def _prefetch(self, ledger: Ledger[T], schedule: Schedule) -> Prefetch[T] | None:
        """Return the pages after page 1, or None if they can only be read one after the other."""
        last = ledger.last_page
        if last is None or last == 1:
            return None
        request = partial(self._query.page, schedule=schedule)
        return Prefetch(self._session, request, last, schedule.count, schedule.priority)

    def _schedule(self, deadline: float | None) -> Schedule:
        """Return the schedule of a listing by itself."""
        count = PageCount.of(self._session.settings.max_concurrency)
        count.free -= 1
        return Schedule(deadline, count, self._session.key.refusals)

    async def _read_on(self, ledger: Ledger[T], schedule: Schedule) -> AsyncGenerator[Page[T], None]:
        """Fetch one page after the other, to the end; add each to the ledger before the next."""
        for number in count(2):
            if not ledger.wants_more():
                return
            try:
                page = await self._session.send(self._query.page(number, schedule))
            except NotFoundError:
                if not ledger.has_all_records():
                    raise
                return  # some services have no page beyond the end
            yield page

    def __repr__(self) -> str:
        return f"<Listing of {self._query.subject or self._query.path}, not fetched: await it, or use `async for`>"

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


def all_items(pages: list[Page[T]]) -> list[T]:
    """Return the items of all pages as one list."""
    return [item for page in pages for item in page.items]
