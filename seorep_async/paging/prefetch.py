"""Pages 2 to the last: fetched concurrently, yielded in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Generic, TypeVar

from seorep_async.errors import ConfigurationError
from seorep_async.models import Page
from seorep_async.paging.page_window import PageBudget, Slot, SlotWaiter, window_size
from seorep_async.session import Request, Session, cancel_all

T = TypeVar("T")


class Prefetch(Generic[T]):
    """Pages 2 to the last: acquire a slot, start a page, yield the oldest. The first failure ends it at once.

    At most twice `max_concurrency` pages are in flight or wait to be taken. A page holds its slot until it is received,
    but for the waits between its attempts. Page 2 takes over the slot of page 1, if there is one.
    """

    def __init__(
        self,
        session: Session,
        request: Callable[[int], Request[Page[T]]],
        last: int,
        budget: PageBudget,
        priority: int = 0,
        slot: Slot | None = None,
    ) -> None:
        self._session = session
        self._request = request
        self._last = last
        self._budget = budget
        self._priority = priority
        self._slot = slot
        self._limit = window_size(session.settings.max_concurrency)
        self._next = 2
        self._waiter: SlotWaiter | None = None
        self._pages: deque[asyncio.Task[Page[T]]] = deque()
        self._failed: asyncio.Task[Page[T]] | None = None
        self._changed = asyncio.Event()

    async def __aiter__(self) -> AsyncGenerator[Page[T], None]:
        try:
            self._start_pages()
            for _ in range(2, self._last + 1):
                yield await self._oldest()
                self._pages.popleft()
                self._start_pages()
        finally:
            self._last = 0
            if self._waiter is not None:
                self._waiter.is_over = True
                self._budget.pass_on()
            await cancel_all([page for page in self._pages if not page.done()])
            if self._slot is not None:
                self._slot.release()

    def _start_pages(self) -> None:
        """Start pages while there are slots and room; the budget calls this once a slot is free."""
        if self._waiter is not None and not self._waiter.is_over:
            return
        while self._next <= self._last and len(self._pages) < self._limit and self._failed is None:
            slot = self._slot or self._budget.try_acquire(self._priority)
            if slot is None:
                self._waiter = self._budget.queue(self._priority, self._start_pages)
                return
            self._slot = None
            request = self._request(self._next)
            request.slot = slot
            self._pages.append(self._session.spawn(self._session.send(request), partial(self._on_page, slot)))
            self._next += 1
        self._budget.pass_on()

    def _on_page(self, slot: Slot, page: asyncio.Task[Page[T]]) -> None:
        if page.cancelled() or page.exception() is not None:
            self._failed = self._failed or page
        if self._failed or (self._pages and self._pages[0].done()):
            self._changed.set()
        slot.release()

    async def _oldest(self) -> Page[T]:
        while not (self._failed or (self._pages and self._pages[0].done())):
            self._changed.clear()
            await self._changed.wait()
        if self._failed is None:
            return self._pages[0].result()
        if self._failed.cancelled():
            raise ConfigurationError("the client was closed while a listing was being read")
        self._failed.result()
        raise AssertionError("a task that failed has an exception")
