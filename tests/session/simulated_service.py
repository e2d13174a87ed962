"""A service with a rate limit in place of the wire: the whole session runs above it, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from seorep_async import AttemptTimeoutError, SeoRepError, Settings
from seorep_async.session import Authentication, BaseURL, Clock, Request, Session
from seorep_async.session.response import Response
from seorep_async.session.retry_policy import Cause, Failure, Sent
from tests.session.virtual_loop import here


class TokenBucket:
    """Lets `rate` requests a second through, and `burst` at once after a rest."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._filled = 0.0

    def take(self, now: float) -> bool:
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate)
        self._filled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class SimulatedService:
    """Responses attempts after a latency: fine while the bucket has tokens, else 429.

    Attributes:
        started: when attempts started.
        refused: how many were answered with 429.
        announced: the waits asked for, as the times at which they were heard of and at which they end.
        down: from when to when every attempt is answered with 503.
    """

    def __init__(
        self,
        bucket: TokenBucket,
        *,
        latency: float,
        retry_after: float | None = None,
        seed: int = 0,
        down: tuple[float, float] = (0, 0),
    ) -> None:
        self.started: list[float] = []
        self.refused = 0
        self.announced: list[tuple[float, float]] = []
        self.bytes_received = 0
        self.down = down
        self._bucket = bucket
        self._latency = latency
        self._retry_after = retry_after
        self._chance = random.Random(seed)

    @property
    def attempts(self) -> int:
        return len(self.started)

    async def attempt(self, request: Request[Any], remaining: float) -> Response | Failure:
        self.started.append(here().now)
        try:
            async with asyncio.timeout(min(30.0, remaining)):
                return await self._answer()
        except TimeoutError:
            return Failure(Sent.MAYBE, Cause.OVERLOAD, AttemptTimeoutError("no answer"))

    async def _answer(self) -> Response:
        await asyncio.sleep(self._latency / 2 * (1 + 0.2 * self._chance.random()))
        now = here().now
        status = 503 if self.down[0] <= now < self.down[1] else 200 if self._bucket.take(now) else 429
        await asyncio.sleep(self._latency / 2)
        if status != 429:
            return Response(status, [])
        self.refused += 1
        if self._retry_after is not None:
            self.announced.append((here().now, here().now + self._retry_after))
        return Response(429, [], self._retry_after)

    async def __aenter__(self) -> SimulatedService:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@asynccontextmanager
async def session_above(service: SimulatedService, **settings: Any) -> AsyncIterator[Session]:
    """Open a session whose attempts go to a simulated service, on the running virtual loop."""
    clock = Clock(monotonic=here().time, jitter=random.Random(1).random)
    session = Session(BaseURL("https://api.example.com"), Authentication("k"), Settings(**settings), clock=clock)
    session._transport = service  # type: ignore[assignment]  # the wire is the only thing that is not real
    async with session:
        yield session


async def pull(session: Session, pages: int, in_progress: int = 32) -> list[SeoRepError]:
    """Ask for pages as a pull does, some at a time and each until it is there; return what failed."""
    request = Request("GET", "/v3/x", len)
    todo = iter(range(pages))
    errors: list[SeoRepError] = []

    async def work() -> None:
        for _ in todo:
            try:
                await session.send(request)
            except SeoRepError as error:
                errors.append(error)

    await asyncio.gather(*(work() for _ in range(in_progress)))
    return errors
