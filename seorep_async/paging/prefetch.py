"""Pages 2 to the last: fetched concurrently, yielded in order."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Generic, TypeVar

import msgspec

from seorep_async.errors import ConfigurationError
from seorep_async.models import Page
from seorep_async.session import Request, Session, cancel_all

T = TypeVar("T")


class PageCount(msgspec.Struct, eq=False):
    """How many pages a pull, or a listing by itself, may have in progress: asked for, in back-off or not taken yet.

    Every listing in progress has one of them for itself, so that it goes on. The `free` ones go to the first of those
    that still have pages to ask for, by their priorities.
    """

    free: int
    asking: list[int] = msgspec.field(default_factory=list)

    @classmethod
    def of(cls, max_concurrency: int) -> PageCount:
        """Count two pages for each permit."""
        return cls(2 * max_concurrency)


class Prefetch(Generic[T]):
    """Pages 2 to the last: start pages, yield the oldest. The first failure ends it at once.

    A page counts until it is taken, in its turn.
    """

    def __init__(
        self, session: Session, request: Callable[[int], Request[Page[T]]], last: int, count: PageCount, priority: int
    ) -> None:
        self._session = session
        self._request = request
        self._last = last
        self._count = count
        self._priority = priority
        insort(count.asking, priority)
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
        """Start pages while the count allows."""
        count = self._count
        while self._next <= self._last and (not self._pages or (count.free > 0 and count.asking[0] == self._priority)):
            count.free -= bool(self._pages)
            work = self._session.send(self._request(self._next))
            self._pages.append(self._session.spawn(work, self._on_page))
            self._next += 1
            if self._next > self._last:
                count.asking.remove(self._priority)

    def _on_page(self, page: asyncio.Task[Page[T]]) -> None:
        closed = "the client was closed while a listing was being read"
        error = ConfigurationError(closed) if page.cancelled() else page.exception()  # asked, or asyncio warns
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
