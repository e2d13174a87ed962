"""The limit of pages in progress that listings share: a priority semaphore."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

import msgspec


def window_size(max_concurrency: int) -> int:
    """Return the limit of pages in flight or waiting to be taken, of a listing or a pull: two for each permit."""
    return 2 * max_concurrency


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
        self._waiting: list[tuple[tuple[bool, int], int, SlotWaiter]] = []
        self._arrivals = count()

    async def acquire(self, priority: int, *, first: bool = False) -> Slot:
        """Wait for a slot; the lowest priority is served first, and first pages last."""
        while (slot := self.try_acquire(priority, first=first)) is None:
            woken = asyncio.Event()
            waiter = self.queue(priority, woken.set, first=first)
            try:
                await woken.wait()
            except asyncio.CancelledError:
                waiter.is_over = True
                self.pass_on()
                raise
            waiter.is_over = True
        self.pass_on()
        return slot

    def try_acquire(self, priority: int, *, first: bool = False) -> Slot | None:
        """Return a slot if one is free and no more urgent page waits, else None; once woken, call `pass_on` at last."""
        if not self._has_slot_for((first, priority)):
            return None
        self._free -= 1
        self._may_fly -= 1
        return Slot(self, priority)

    def queue(self, priority: int, wake: Callable[[], None], *, first: bool = False) -> SlotWaiter:
        """Call a function once a slot is free; it may acquire several, and then calls `pass_on`."""
        waiter = SlotWaiter(wake)
        heapq.heappush(self._waiting, ((first, priority), next(self._arrivals), waiter))
        return waiter

    def pass_on(self) -> None:
        """Wake the most urgent waiter if a slot is free for it, unless it was woken and has yet to run."""
        waiting = self._waiting
        while waiting and waiting[0][2].is_over:
            heapq.heappop(waiting)
        if waiting and not waiting[0][2].is_woken and self._has_slot_for(waiting[0][0]):
            waiter = waiting[0][2]
            waiter.is_woken = True
            waiter.wake()

    def land(self) -> None:
        """Note that the response of a page came."""
        self._may_fly += 1
        self.pass_on()

    def release(self) -> None:
        """Return one slot."""
        self._free += 1
        self.pass_on()

    def _has_slot_for(self, claim: tuple[bool, int]) -> bool:
        if (self._free <= self._reserve) if claim[0] else (self._free <= 0 or self._may_fly <= 0):
            return False
        return not self._waiting or claim <= self._waiting[0][0]


class SlotWaiter(msgspec.Struct, eq=False):
    """One waiter for a slot; once woken, it sets `is_over`, and to give up, it calls `PageBudget.pass_on`, too."""

    wake: Callable[[], None]
    is_woken: bool = False
    is_over: bool = False


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
