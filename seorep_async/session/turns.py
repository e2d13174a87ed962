"""Work that would hold the event loop up, dealt out over its iterations."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """Lets so much work through in each iteration of the loop, in the order it came, so that others get their turn.

    Args:
        share: how much work an iteration may hold; more than this in one piece has an iteration of its own.
    """

    def __init__(self, share: int) -> None:
        self._share = share
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, amount: int) -> None:
        """Wait until so much work may be done; it is to be done before the next `await`."""
        loop = asyncio.get_running_loop()
        if self._waiting or (self._taken and self._taken + amount > self._share):
            turn = loop.create_future()
            self._waiting.append((amount, turn))
            await turn
        else:
            if not self._taken:
                loop.call_soon(self._next, loop)
            self._taken += amount

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._taken = 0
        while self._waiting:
            amount, turn = self._waiting[0]
            if self._taken and self._taken + amount > self._share:
                break
            self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._taken += amount
        if self._taken:
            loop.call_soon(self._next, loop)
