"""How many pages several listings together may have in progress: a priority semaphore."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count
from typing import Literal


class PageBudget:
    """Slots for pages in progress, shared by listings; a listing in progress goes before one that has yet to start.

    A listing needs a slot for its first page, and one for each further page. As a first page waits for all further
    pages that wait, many short listings run side by side, but only a few long ones.

    Args:
        limit: number of slots.

    Attributes:
        first_pages: as many slots first pages may have; with all, the first listing would wait for others' first pages.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._reserve = 3 * limit // 8
        self.first_pages: int = limit - self._reserve
        self._waiting: list[tuple[tuple[bool, int], int, asyncio.Future[None]]] = []
        self._arrivals = count()

    async def acquire(self, priority: int, *, first: bool = False) -> Slot:
        """Wait for a slot.

        Args:
            priority: of the listing; the lowest is served first.
            first: the slot is for a first page.
        """
        claim = first, priority
        while not self._has_slot_for(claim):
            turn = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (claim, next(self._arrivals), turn))
            try:
                await turn
            except asyncio.CancelledError:
                turn.cancel()
                self._wake()
                raise
        self._free -= 1
        if self._waiting:
            self._wake()
        return Slot(self, priority)

    def release(self) -> None:
        """Give one slot back."""
        self._free += 1
        if self._waiting:
            self._wake()

    def _has_slot_for(self, claim: tuple[bool, int]) -> bool:
        if self._free <= (self._reserve if claim[0] else 0):
            return False
        return not self._waiting or claim <= self._waiting[0][0]

    def _wake(self) -> None:
        """Give the most urgent that waits its turn; it may take more than one slot before others have theirs."""
        waiting = self._waiting
        while waiting and waiting[0][2].done():
            heapq.heappop(waiting)
        if waiting and self._has_slot_for(waiting[0][0]):
            waiting[0][2].set_result(None)


class Slot:
    """One slot of a budget; however often it is released, it goes back once."""

    __slots__ = ("_budget", "_priority", "_state")

    def __init__(self, budget: PageBudget, priority: int) -> None:
        self._budget = budget
        self._priority = priority
        self._state: Literal["held", "lent", "released"] = "held"

    def lend(self) -> None:
        """Let another page have the slot, until it is taken back."""
        if self._state == "held":
            self._state = "lent"
            self._budget.release()

    async def take_back(self) -> None:
        """Wait for a slot in place of the one that was lent."""
        if self._state == "lent":
            await self._budget.acquire(self._priority)
            self._state = "held"

    def release(self) -> None:
        """Give the slot back, if it is still held."""
        was_held, self._state = self._state == "held", "released"
        if was_held:
            self._budget.release()
