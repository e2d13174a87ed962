"""A service in virtual time in place of the wire: rate limiters as services have them, and pulls through them."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import attrs

from seorep_async import AttemptTimeoutError, ConnectionFailedError, Limits, SeoRepError, Settings
from seorep_async.sandbox import rate_limit as sandbox
from seorep_async.sandbox.rate_limit import RateLimit
from seorep_async.session import Authentication, BaseURL, Clock, Lane, Request, Session
from seorep_async.session.response import Response
from seorep_async.session.retry_policy import Cause, Failure, Sent
from tests.session.virtual_loop import here, run


class Limiter:
    """Lets requests through: all of them.

    Attributes:
        retry_after: seconds that its last refusal asks to wait, or None.
    """

    retry_after: float | None = None

    def take(self) -> bool:
        """Tell whether a request that arrives now is let through."""
        return True

    def give_back(self) -> None:
        """Note that a request that was let through was answered."""


class Limited(Limiter):
    """A limit as the sandbox takes it, such as `200/s,retry-after=seconds`.

    The seed says when its first window ends.
    """

    def __init__(
        self, limit: str, seed: int = 0, clock: Callable[[], float] = lambda: here().now
    ) -> None:
        read = RateLimit.parse(limit)
        self._before = 0.0
        self._limiter = sandbox.Limiter(
            read, lambda: clock() + self._before if self._before else 0.0
        )
        self._before = read.window * (1 - (0.37 + 0.618 * seed) % 1)

    def take(self) -> bool:
        refusal = self._limiter.acquire()
        if refusal is None:
            return True
        if "Retry-After" in refusal.headers:
            self.retry_after = float(refusal.headers["Retry-After"])
        return False

    def give_back(self) -> None:
        self._limiter.release()


class AtRandom(Limiter):
    """Refuses a share of the requests, whatever their rate."""

    def __init__(self, share: float, seed: int = 0) -> None:
        self._share = share
        self._chance = random.Random(seed)

    def take(self) -> bool:
        return self._chance.random() >= self._share


class Changing(Limiter):
    """One limiter after the other, each until a time."""

    def __init__(self, *limiters: tuple[float, Limiter]) -> None:
        self._limiters = limiters

    def take(self) -> bool:
        return next(limiter for until, limiter in self._limiters if here().now < until).take()


@attrs.define(slots=False)
class SimulatedService:
    """Answers attempts after a latency: fine if the limiter lets them through.

    A refusal comes sooner than an answer, after a fifth of the latency.

    Attributes:
        limiter: what lets attempts through, or a limit as the sandbox takes it; all unless given.
        latency: seconds that an answer takes.
        jitter: the part of the latency that an answer takes more or less.
        status: what a refusal says, 429 or 503.
        retry_after: seconds that a refusal asks to wait, or None to leave it to the limiter.
        down: from when to when nothing is answered as it should be.
        outage: what happens then: a status, `refused` (no connection), `reset` (it breaks), `hang` (no answer).
        says: what a path, with its query, is answered, as a status or whole; None is silence; 200 asks the limiter.
        stall: seconds that all stands still at most, the client and the service, every few seconds.
        started, paths: when attempts started, and of what.
        accepted: when attempts were let through, by client.
        refused: how many were refused by the limiter.
        announced: waits asked for, as the times at which they were heard of and at which they end.
    """

    limiter: Limiter | str = attrs.field(factory=Limiter)
    latency: float = 0.02
    jitter: float = 0.2
    status: int = 429
    retry_after: float | None = None
    seed: int = 0
    down: tuple[float, float] = (0, 0)
    outage: str = "503"
    says: Callable[[str], int | Response | Failure | None] = lambda path: 200
    stall: float = 0.0
    started: list[float] = attrs.field(factory=list)
    paths: list[str] = attrs.field(factory=list)
    accepted: defaultdict[int, list[float]] = attrs.field(factory=lambda: defaultdict(list))
    refused: int = 0
    announced: list[tuple[float, float]] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self._limiter = (
            Limited(self.limiter, self.seed) if isinstance(self.limiter, str) else self.limiter
        )
        self._chance = random.Random(self.seed)
        self._next_stall = self._chance.random() if self.stall else math.inf

    @property
    def attempts(self) -> int:
        return len(self.started)

    def reply_after(
        self, seconds: float, answer: asyncio.Future[Response | Failure], reply_: Response | Failure
    ) -> None:
        """Answer an attempt in a moment, unless it has ended by then."""

        def reply() -> None:
            if not answer.done():
                if isinstance(reply_, Response) and reply_.retry_after is not None:
                    self.announced.append((here().now, here().now + reply_.retry_after))
                answer.set_result(reply_)

        here().call_later(seconds, reply)

    def attempt(
        self, client: int, request: Request[Any], timeout: float
    ) -> asyncio.Future[Response | Failure]:
        loop = here()
        path = f"{request.path}?{request.query}".rstrip("?")
        self.started.append(loop.now)
        self.paths.append(path)
        said = self.says(path)
        answer: asyncio.Future[Response | Failure] = loop.create_future()
        took = self.latency * (1 - self.jitter + 2 * self.jitter * self._chance.random())

        def finish() -> None:
            self._limiter.give_back()
            self.reply_after(0.1 * took, answer, Response(200, b""))

        def arrive() -> None:
            now = loop.now
            if now > self._next_stall:
                self._next_stall = now + 5 * self._chance.random()
                loop.now += self.stall * self._chance.random()
            reply: Response | Failure = Response(self.status, b"", self.retry_after)
            if self.down[0] <= now < self.down[1]:
                if self.outage == "hang":
                    return
                sent = Sent.NO if self.outage == "refused" else Sent.MAYBE
                reply = Failure(sent, Cause.TRANSIENT, ConnectionFailedError(self.outage))
                if self.outage.isdigit():
                    reply = Response(int(self.outage), b"")
            elif said != 200:
                if said is not None:
                    whole = Response(said, b"", self.retry_after) if isinstance(said, int) else said
                    self.reply_after(0.8 * took, answer, whole)
                return
            elif self._limiter.take():
                self.accepted[client].append(now)
                loop.call_later(0.8 * took, finish)
                return
            else:
                self.refused += 1
                seconds = self.retry_after or self._limiter.retry_after
                reply = Response(self.status, b"", seconds)
            self.reply_after(0.1 * took, answer, reply)

        self.reply_after(
            timeout, answer, Failure(Sent.MAYBE, Cause.OVERLOAD, AttemptTimeoutError("no answer"))
        )
        loop.call_later(0.1 * took, arrive)
        return answer


class _Wire:
    """What a session has in place of its transport."""

    def __init__(self, service: SimulatedService, client: int, timeout: float) -> None:
        self._service = service
        self._client = client
        self._timeout = timeout
        self._running: set[asyncio.Future[Response | Failure]] = set()
        self.attempts = self.bytes_received = 0

    async def attempt(
        self, request: Request[Any], remaining: float, may_reuse: bool
    ) -> Response | Failure:
        self.attempts += 1
        seconds = min(self._timeout, remaining)
        answer = self._service.attempt(self._client, request, seconds)
        self._running.add(answer)
        answer.add_done_callback(self._running.discard)
        return await answer

    def open(self) -> None:
        pass

    async def close(self) -> None:
        closed = ConnectionFailedError("the client was closed")
        for answer in self._running:
            if not answer.done():
                failure = Failure(Sent.MAYBE, Cause.PERMANENT, closed, inconclusive=True)
                answer.set_result(failure)


@asynccontextmanager
async def session_above(
    service: SimulatedService, client: int = 0, *, limits: Limits | None = None, **settings: Any
) -> AsyncIterator[Session]:
    """Open a session whose attempts go to a simulated service, on the running virtual loop."""
    chance = random.Random(1000 * service.seed + client)
    clock = Clock(monotonic=here().time, jitter=chance.random)
    address = BaseURL("https://api.example.com")
    session = Session(
        address, Authentication("k"), Settings(**settings), clock=clock, limits=limits
    )
    session._transport = _Wire(service, client, session.settings.attempt_timeout)  # type: ignore[assignment]  # the wire is all that is not real
    async with session:
        yield session


async def pull(
    session: Session, pages: int | Iterable[str], in_progress: int = 32
) -> list[SeoRepError]:
    """Ask for some pages, or those of some paths, as a pull does, a few at a time; return what failed."""
    errors: list[SeoRepError] = []
    room = asyncio.Semaphore(in_progress)
    lane = Lane()

    async def work(number: int, path: str) -> None:
        subject = path.partition("/")[0] if "/" in path else f"campaign {int(path) // 5}"
        try:
            await session.send(
                Request("GET", path, len, subject=subject, priority=number, lane=lane)
            )
        except SeoRepError as error:
            errors.append(error)
        finally:
            room.release()

    async with asyncio.TaskGroup() as group:
        for number, path in enumerate(map(str, range(pages)) if isinstance(pages, int) else pages):
            await room.acquire()
            group.create_task(work(number, path))
    return errors


@attrs.frozen
class Figures:
    """What pulls cost: lost requests, attempts that the limiter refused for each request, the time, and fairness.

    `jain` is Jain's index of the clients' requests a second; 1 is fair. `started_in_a_wait` counts the attempts that
    started in a wait that was asked for. `accepted` is when attempts were let through.
    """

    lost: int
    refused: float
    seconds: float
    jain: float
    started_in_a_wait: int
    accepted: list[float] = attrs.field(repr=False)

    def rate(self, begin: float, end: float) -> float:
        """Return how many attempts a second were let through from one time to another."""
        return sum(begin <= moment < end for moment in self.accepted) / (end - begin)


def simulate(
    service: SimulatedService,
    pages: int | list[str],
    *,
    clients: int = 1,
    apart: float = 0.0,
    limits: Limits | None = None,
    **settings: Any,
) -> Figures:
    """Pull `pages` with each of some clients, which start `apart` seconds from each other, in virtual time."""
    count = clients * (pages if isinstance(pages, int) else len(pages))

    async def pull_as(client: int) -> tuple[float, float, int]:
        await asyncio.sleep(client * apart)
        begun = here().now
        async with session_above(service, client, limits=limits, **settings) as session:
            errors = await pull(session, pages)
        return begun, here().now, len(errors)

    async def all_of_them() -> list[tuple[float, float, int]]:
        return await asyncio.gather(*map(pull_as, range(clients)))

    ends = run(all_of_them())
    rates = [1 / max(1e-9, end - begun) for begun, end, _ in ends]
    return Figures(
        lost=sum(lost for *_, lost in ends),
        refused=service.refused / count,
        seconds=max(end for _, end, _ in ends),
        jain=sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates)),
        started_in_a_wait=sum(
            any(begin <= start < end for begin, end in service.announced)
            for start in service.started
        ),
        accepted=sorted(itertools.chain(*service.accepted.values())),
    )
