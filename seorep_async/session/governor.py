"""Permits: who may send now."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Permits:
    """A semaphore that serves the most urgent waiter first, and equally urgent ones in the order they came.

    Args:
        limit: how many permits there are.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    def take_if_free(self) -> bool:
        """Take a permit if that needs no waiting, and tell whether it did."""
        if self._free > 0:
            self._free -= 1
            return True
        return False

    def take_anyway(self) -> bool:
        """Take a permit beyond the limit; the next ones that come back make up for it."""
        self._free -= 1
        return True

    async def acquire(self, priority: int = 0) -> None:
        """Take a permit, waiting for one if need be; the lowest priority number goes first."""
        if self.take_if_free():
            return
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the permit came as we were cancelled: pass it on
            raise

    def release(self) -> None:
        """Give a permit back."""
        while self._waiting and self._free >= 0:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    @asynccontextmanager
    async def hold(self, priority: int = 0) -> AsyncIterator[None]:
        """Hold a permit for the length of a block."""
        await self.acquire(priority)
        try:
            yield
        finally:
            self.release()
