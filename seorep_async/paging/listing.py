"""Listings: page 1, then the rest concurrently in a bounded window, kept in order, checked, given out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Hashable
from contextlib import aclosing
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from seorep_async.errors import ConfigurationError, NotFoundError
from seorep_async.models import Page
from seorep_async.paging.budget import PageBudget, Slot
from seorep_async.paging.checks import Ledger
from seorep_async.session import CancelScope, Request, Session, cancel_all

T = TypeVar("T")
R = TypeVar("R")


@attrs.define
class Schedule:
    """How the requests of a listing take their place among others.

    Attributes:
        deadline: monotonic time by which all must be there, or None for `Settings.call_timeout` for each request.
        priority: the lowest is served first.
        window: limits the pages that all listings with this window together have in progress, or None.
        place: the place in the window for page 1, or None.
        cancel_scope: stops all requests of this scope once the key is refused to one, or None.
    """

    deadline: float | None = None
    priority: int = 0
    window: PageBudget | None = None
    place: Slot | None = None
    cancel_scope: CancelScope | None = None


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
            priority=schedule.priority,
            cancel_scope=schedule.cancel_scope,
        )


class Listing(Generic[T, R]):
    """A listing that was asked for and not yet fetched: await it, iterate over it, or take single pages.

    - `await listing` gives everything, in the service's order: every item exactly once, or an error.
    - `async for item in listing` gives items one at a time, as pages arrive.
    - `listing.pages()` gives pages, `await listing.page(3)` one page.

    Every use asks the service anew. All raise SeoRepError; PaginationError where the pages do not add up.
    """

    def __init__(self, session: Session, query: Query[T], assemble: Callable[[list[Page[T]]], R]) -> None:
        self._session = session
        self._query = query
        self._assemble = assemble

    def __await__(self) -> Generator[Any, None, R]:
        return self._fetch_all().__await__()

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
        ledger.finish()

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

    async def _fetch_all(self) -> R:
        self._session.require_open()
        return await self.fetch_all(Schedule(deadline=self._session.deadline()))

    async def fetch_all(self, schedule: Schedule) -> R:
        """Fetch everything, as one listing among others."""
        ledger, first, further = await self._begin(schedule)
        pages = [first]
        if further is not None:
            async with aclosing(further):
                pages += [page async for page in further]
        ledger.finish()
        return self._assemble(pages)

    async def _begin(self, schedule: Schedule) -> tuple[Ledger[T], Page[T], AsyncGenerator[Page[T], None] | None]:
        """Fetch page 1, and return with it what checks the pages, and what fetches the others if there are any."""
        query = self._query
        ledger = Ledger(query.key, query.subject, self._session.settings.max_pages)
        first = await self._session.send(query.page(1, schedule))
        last = ledger.start(first)
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
        window, priority = schedule.window or PageBudget(last), schedule.priority
        has_place = schedule.place is not None and schedule.place.transfer()
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
