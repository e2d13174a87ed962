"""When a received body may be decoded: work that would block the event loop, spread over its iterations."""

from __future__ import annotations

import asyncio
from collections import deque

SHARE = 640 * 1024
"""Bytes to decode before others on the loop get their turn."""


class DecodeTurns:
    """Runs queued work in FIFO order, at most `share` bytes in every fourth loop iteration; larger work runs alone.

    No work runs at once, so the next request goes before the work on a response. The iterations in between are for
    everything else on the loop: consequences of the work, a timer, and the task that it wakes.
    """

    RESTS = 3
    """Iterations without work that follow each with work."""

    def __init__(self, share: int = SHARE) -> None:
        self._share = share
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._dealing = False

    async def wait(self, amount: int) -> None:
        """Wait for a turn; do the work, `amount` bytes, before awaiting again."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting.append((amount, waiter))
        if not self._dealing:
            self._dealing = True
            loop.call_soon(self._deal, loop)
        await waiter

    def _deal(self, loop: asyncio.AbstractEventLoop, rests: int = 0) -> None:
        if rests:
            loop.call_soon(self._deal, loop, rests - 1)
            return
        dealt = 0
        while self._waiting:
            amount, waiter = self._waiting[0]
            if dealt and dealt + amount > self._share:
                break
            self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                dealt += amount
        self._dealing = dealt > 0
        if self._dealing:
            loop.call_soon(self._deal, loop, self.RESTS)
