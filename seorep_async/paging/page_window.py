"""The limit of pages in progress that listings share: a priority semaphore."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable
from itertools import count
from typing import TypeAlias

import msgspec


def window_size(max_concurrency: int) -> int:
    """Return the limit of pages in flight or waiting to be taken, of a listing or a pull: two for each permit."""
    return 2 * max_concurrency


Waiter: TypeAlias = tuple[bool, int, int, Callable[["Slot"], object]]
"""One that waits for a slot: whether for a first page, its priority, its arrival, and how to grant it."""


class PageBudget:
    """Slots for pages in progress, shared by listings; a listing in progress goes before one that has yet to start.

    A listing needs a slot for each page in progress. As first pages wait for all other pages, many short listings run
    side by side, but only a few long ones. `first_pages` is the number of slots open to first pages; the rest is
    reserved so that started listings can finish. Of further pages, at most `in_flight` wait for their response: more
    would only wait for permits, which costs as much as a tenth of a small page.
    """

    def __init__(self, limit: int, in_flight: int | None = None) -> None:
        self._free = limit
        self._may_fly = limit if in_flight is None else in_flight
        self._reserve = 3 * limit // 8
        self.first_pages: int = limit - self._reserve
        self._waiting: list[Waiter] = []
        self._arrivals = count()

    async def acquire(self, priority: int, *, first: bool = False) -> Slot:
        """Wait for a slot; the lowest priority is served first, and first pages last."""
        if (slot := self.try_acquire(priority, first=first)) is not None:
            return slot
        granted: asyncio.Queue[Slot] = asyncio.Queue()
        waiter = self.queue(priority, granted.put_nowait, first=first)
        try:
            return await granted.get()
        except asyncio.CancelledError:
            if granted.empty():
                self.leave(waiter)
            else:
                granted.get_nowait().release()
            raise

    def try_acquire(self, priority: int, *, first: bool = False) -> Slot | None:
        """Return a slot if one is free and no more urgent page waits, else None."""
        if (self._free <= self._reserve) if first else (self._free <= 0 or self._may_fly <= 0):
            return None
        if self._waiting and self._waiting[0][:2] < (first, priority):
            return None
        self._free -= 1
        self._may_fly -= 1
        return Slot(self, priority)

    def queue(self, priority: int, grant: Callable[[Slot], object], *, first: bool = False) -> Waiter:
        """Have a function called with a slot as soon as one is free; it may acquire more at once, or queue again."""
        waiter = (first, priority, next(self._arrivals), grant)
        insort(self._waiting, waiter)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Take a waiter out that was not granted a slot."""
        self._waiting.remove(waiter)
        self._pass_on()

    def _pass_on(self) -> None:
        """Grant free slots, each to the most urgent waiter."""
        while self._waiting:
            first, priority, _, grant = self._waiting[0]
            if (slot := self.try_acquire(priority, first=first)) is None:
                return
            del self._waiting[0]
            grant(slot)

    def land(self) -> None:
        """Note that the response of a page came."""
        self._may_fly += 1
        self._pass_on()

    def release(self) -> None:
        """Return one slot."""
        self._free += 1
        self._pass_on()


class Slot(msgspec.Struct, eq=False):
    """One slot of a budget; repeated releases return it once."""

    _budget: PageBudget
    _priority: int
    _is_held: bool = True
    _in_flight: bool = True

    def land(self) -> None:
        """Let another page be sent, as the response was received."""
        if self._in_flight:
            self._in_flight = False
            self._budget.land()

    def release(self) -> None:
        """Return the slot if it is held, for good or until it is taken back."""
        self.land()
        if self._is_held:
            self._is_held = False
            self._budget.release()

    async def take_back(self) -> None:
        """Wait for a slot in place of the one that was released."""
        await self._budget.acquire(self._priority)
        self._is_held = self._in_flight = True
