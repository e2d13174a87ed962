"""Work that would hold the event loop up, dealt out over its iterations."""

from __future__ import annotations

import asyncio
from collections import deque

HUGE = 4 * 1024 * 1024
"""Bytes of an answer with which even copying it holds others up."""


class Turns:
    """Lets so much work through in every other iteration of the loop, in the order it came.

    The iteration in between is for what became possible by it, and for all others on the loop.

    Args:
        share: how much work goes through at once; more than this in one piece goes alone.
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
                loop.call_soon(loop.call_soon, self._next, loop)
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
            loop.call_soon(loop.call_soon, self._next, loop)
