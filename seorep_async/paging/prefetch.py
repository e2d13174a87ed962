"""Pages 2 to the last: fetched concurrently, yielded in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import Generic, TypeVar

from seorep_async.errors import ConfigurationError
from seorep_async.models import Page
from seorep_async.paging.page_window import PageBudget, Slot, Waiter, window_size
from seorep_async.session import Request, Session, cancel_all

T = TypeVar("T")


class Prefetch(Generic[T]):
    """Pages 2 to the last: acquire a slot, start a page, yield the oldest. The first failure ends it at once.

    At most twice `max_concurrency` pages are in flight or wait to be taken. A page holds its slot until it is received,
    but for the waits between its attempts.
    """

    def __init__(
        self, session: Session, request: Callable[[int], Request[Page[T]]], last: int, budget: PageBudget, priority: int
    ) -> None:
        self._session = session
        self._request = request
        self._last = last
        self._budget = budget
        self._priority = priority
        self._limit = window_size(session.settings.max_concurrency)
        self._next = 2
        self._waiter: Waiter | None = None
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
        await cancel_all([page for page in self._pages if not page.done()])

    def _stop(self, error: BaseException | None = None) -> None:
        """Start no more pages."""
        self._error = self._error or error
        self._last = 0
        if self._waiter is not None:
            self._budget.leave(self._waiter)
            self._waiter = None

    def _start_pages(self) -> None:
        """Start pages while there are slots and room; then wait for a slot, if there is none."""
        while self._waiter is None and self._next <= self._last and len(self._pages) < self._limit:
            slot = self._budget.try_acquire(self._priority)
            if slot is None:
                self._waiter = self._budget.queue(self._priority, self._on_slot)
            else:
                self._start_page(slot)

    def _on_slot(self, slot: Slot) -> None:
        self._waiter = None
        self._start_page(slot)
        self._start_pages()

    def _start_page(self, slot: Slot) -> None:
        request = self._request(self._next)
        request.slot = slot
        self._pages.append(self._session.spawn(self._session.send(request), partial(self._on_page, slot)))
        self._next += 1

    def _on_page(self, slot: Slot, page: asyncio.Task[Page[T]]) -> None:
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
        slot.release()  # the next page queues already, and goes before a listing that has yet to start
        if self._is_over() or self._has_oldest():
            self._changed.set()

    def _received(self) -> Iterator[Page[T]]:
        """Take out the pages that are due; each keeps its place until it is used."""
        while self._error is None and self._has_oldest():
            yield self._pages[0].result()
            self._pages.popleft()
            self._start_pages()

    def _has_oldest(self) -> bool:
        """Return whether the oldest page was received; of one that was cancelled, `_on_page` is still to come."""
        return bool(self._pages) and self._pages[0].done() and not self._pages[0].cancelled()

    def _is_over(self) -> bool:
        return self._error is not None or (self._next > self._last and not self._pages)
