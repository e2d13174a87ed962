"""A service in virtual time instead of the network, with the rate limiters of real services."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl

import attrs
import msgspec

from seorep_async import (
    AttemptTimeoutError,
    ConnectionFailedError,
    Limits,
    SeoRepClient,
    SeoRepError,
    Settings,
)
from seorep_async.sandbox import rate_limit as sandbox
from seorep_async.sandbox.rate_limit import RateLimit
from seorep_async.session import Authentication, BaseURL, Clock, Lane, Request, Session
from seorep_async.session.failures import Cause, Failure, Sent
from seorep_async.session.request import Response
from tests.session.virtual_loop import here, run

ADDRESS = "https://api.example.com"
Reply = Response | Failure


class ApiRequest(msgspec.Struct, frozen=True, gc=False):
    """A received request. The garbage collector does not track it."""

    path: str
    query: str

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return parse_qsl(self.query, keep_blank_values=True, strict_parsing=True)

    @property
    def page(self) -> int:
        return self._number("page")

    @property
    def limit(self) -> int:
        return self._number("limit")

    @property
    def id(self) -> int:
        """The id of the campaign or keyword, or 0 without one."""
        return self._number("campaign_id") or self._number("keyword_id")

    def _number(self, name: str) -> int:
        return int(dict(parse_qsl(self.query)).get(name, 0))


class Limiter:
    """Accepts all requests.

    Attributes:
        retry_after: seconds that its last refusal asks to wait, or None.
    """

    retry_after: float | None = None

    def take(self) -> bool:
        """Return whether a request that arrives now is accepted."""
        return True

    def give_back(self) -> None:
        """Record the answer to an accepted request."""


class Limited(Limiter):
    """A limit as the sandbox takes it, such as `200/s,retry-after=seconds`.

    The seed says when its first window ends.
    """

    def __init__(
        self, limit: str, seed: int = 0, clock: Callable[[], float] = lambda: here().now
    ) -> None:
        rate_limit = RateLimit.parse(limit)
        self._before = 0.0
        self._clock = clock
        self._limiter = sandbox.Limiter(rate_limit, self._time)
        self._before = rate_limit.window * (1 - (0.37 + 0.618 * seed) % 1)

    def _time(self) -> float:
        # The limiter is made at 0, so that its first window ends at a time of the seed's choice.
        return self._clock() + self._before if self._before else 0.0

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
    """Refuses a share of the requests, regardless of their rate."""

    def __init__(self, share: float, seed: int = 0) -> None:
        self._share = share
        self._chance = random.Random(seed)

    def take(self) -> bool:
        return self._chance.random() >= self._share


class Changing(Limiter):
    """Several limiters, each until a time."""

    def __init__(self, *limiters: tuple[float, Limiter]) -> None:
        self._limiters = limiters

    def take(self) -> bool:
        current = next(limiter for until, limiter in self._limiters if here().now < until)
        return current.take()


@attrs.define(slots=False)
class SimulatedService:
    """Answers attempts after a latency, successfully if the limiter accepts them. A refusal comes
    sooner, after a fifth of the latency.

    Attributes:
        limiter: lets attempts through, or a limit of the sandbox. All pass by default.
        latency: seconds that an answer takes.
        jitter: the part of the latency that an answer takes more or less.
        status: of a refusal, 429 or 503.
        retry_after: seconds that a refusal asks to wait, or None to leave it to the limiter.
        down: begin and end of an outage.
        outage: a status, `refused` (no connection), `reset` (it breaks), or `hang` (no answer).
        says: the answer to a request: a reply, a status, or a body that may be parsed. None is
            silence, and 200 asks the limiter.
        started, requests: the times at which attempts started, and their requests.
        accepted: the times at which attempts were let through, by client.
        refused: how many attempts the limiter refused.
        announced: the waits that clients were asked for, with begin and end.
    """

    limiter: Limiter | str = attrs.field(factory=Limiter)
    latency: float = 0.02
    jitter: float = 0.2
    status: int = 429
    retry_after: float | None = None
    seed: int = 0
    down: tuple[float, float] = (0, 0)
    outage: str = "503"
    says: Callable[[ApiRequest], Any] = lambda request: 200
    started: list[float] = attrs.field(factory=list)
    requests: list[ApiRequest] = attrs.field(factory=list)
    accepted: defaultdict[int, list[float]] = attrs.field(factory=lambda: defaultdict(list))
    refused: int = 0
    announced: list[tuple[float, float]] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.limiter, str):
            self._limiter: Limiter = Limited(self.limiter, self.seed)
        else:
            self._limiter = self.limiter
        self._chance = random.Random(self.seed)

    @property
    def attempts(self) -> int:
        return len(self.started)

    @property
    def pages(self) -> list[int]:
        """The numbers of the requested pages."""
        return [request.page for request in self.requests]

    def attempt(self, client: int, request: Request[Any], timeout: float) -> asyncio.Future[Reply]:
        """Start an attempt of a client, and return its future answer."""
        self.started.append(here().now)
        self.requests.append(ApiRequest(request.path, request.query))
        said = self.says(self.requests[-1])
        answer: asyncio.Future[Reply] = here().create_future()
        took = self.latency * (1 - self.jitter + 2 * self.jitter * self._chance.random())

        def finish() -> None:
            self._limiter.give_back()
            self._reply_after(0.1 * took, answer, Response(200, [b""]))

        def arrive() -> None:
            if self._is_down:
                reply = self._reply_of_outage()
                if reply is not None:
                    self._reply_after(0.1 * took, answer, reply)
            elif said is None:
                pass
            elif said != 200:
                self._reply_after(0.8 * took, answer, self._whole(said))
            elif self._limiter.take():
                self.accepted[client].append(here().now)
                here().call_later(0.8 * took, finish)
            else:
                self.refused += 1
                seconds = self.retry_after or self._limiter.retry_after
                self._reply_after(0.1 * took, answer, Response(self.status, [b""], seconds))

        silence = Failure(Sent.MAYBE, Cause.OVERLOAD, AttemptTimeoutError("no answer"))
        self._reply_after(timeout, answer, silence)
        here().call_later(0.1 * took, arrive)
        return answer

    @property
    def _is_down(self) -> bool:
        begin, end = self.down
        return begin <= here().now < end

    def _reply_of_outage(self) -> Reply | None:
        if self.outage == "hang":
            return None
        if self.outage.isdigit():
            return Response(int(self.outage), [b""])
        sent = Sent.NO if self.outage == "refused" else Sent.MAYBE
        return Failure(sent, Cause.TRANSIENT, ConnectionFailedError(self.outage))

    def _whole(self, said: int | bytes | dict[str, Any] | Reply) -> Reply:
        if isinstance(said, int):
            return Response(said, [b""], self.retry_after)
        if isinstance(said, bytes):
            return Response(200, [said])
        if isinstance(said, dict):
            return Response(200, [json.dumps(said).encode()])
        return said

    def _reply_after(self, seconds: float, answer: asyncio.Future[Reply], reply: Reply) -> None:
        """Answer an attempt in a moment, unless it has ended by then."""

        def send() -> None:
            if answer.done():
                return
            if isinstance(reply, Response) and reply.retry_after is not None:
                end = here().now + reply.retry_after
                self.announced.append((here().now, end))
            answer.set_result(reply)

        here().call_later(seconds, send)


class _Wire:
    """Stands in for the transport of a session."""

    def __init__(self, service: SimulatedService, client: int, timeout: float) -> None:
        self._service = service
        self._client = client
        self._timeout = timeout
        self._running: set[asyncio.Future[Reply]] = set()
        self.attempts = 0
        self.bytes_received = 0

    async def attempt(self, request: Request[Any], remaining: float, may_reuse: bool) -> Reply:
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
    session = Session(
        BaseURL(ADDRESS),
        Authentication("k"),
        Settings(**settings),
        clock=_clock(service, client),
        limits=limits,
    )
    # Only the network is simulated.
    wire = _Wire(service, client, session.settings.attempt_timeout)
    session._transport = wire  # type: ignore[assignment]
    async with session:
        yield session


def _clock(service: SimulatedService, client: int) -> Clock:
    chance = random.Random(1000 * service.seed + client)
    return Clock(monotonic=here().time, jitter=chance.random)


@asynccontextmanager
async def client_above(service: SimulatedService, **settings: Any) -> AsyncIterator[SeoRepClient]:
    """Open a client whose attempts go to a simulated service, on the running virtual loop."""
    with patch("seorep_async.session.clock.SYSTEM", _clock(service, 0)):
        client = SeoRepClient(ADDRESS, "canary-7", settings=Settings(**settings))
    wire = _Wire(service, 0, client.settings.attempt_timeout)
    client._session._transport = wire  # type: ignore[assignment]
    async with client:
        yield client


async def pull(
    session: Session, pages: int | Iterable[str], in_progress: int = 32
) -> list[SeoRepError]:
    """Request pages or paths like a pull, a few at a time, and return the errors."""
    paths = map(str, range(pages)) if isinstance(pages, int) else pages
    errors: list[SeoRepError] = []
    room = asyncio.Semaphore(in_progress)
    lane = Lane()

    async def work(number: int, path: str) -> None:
        subject = path.partition("/")[0] if "/" in path else f"campaign {int(path) // 5}"

        def first_rows(limit: int) -> Request[int]:
            return Request("GET", "/page", len, f"limit={limit}&page=1&{path}")

        request = Request(
            "GET",
            "/page",
            len,
            path,
            subject=subject,
            priority=number,
            lane=lane,
            first_rows=first_rows,
        )
        try:
            await session.send(request)
        except SeoRepError as error:
            errors.append(error)
        finally:
            room.release()

    async with asyncio.TaskGroup() as group:
        for number, path in enumerate(paths):
            await room.acquire()
            group.create_task(work(number, path))
    return errors


@attrs.frozen
class Figures:
    """The cost of pulls.

    Attributes:
        lost: how many requests failed.
        refused: attempts that the limiter refused, for each request.
        seconds: until the last client ended.
        jain: Jain's index of the clients' requests a second; 1 is fair.
        started_in_a_wait: attempts that started in a wait that the service had asked for.
        accepted: the times at which attempts were let through.
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


@attrs.frozen
class _Visit:
    """The pull of one client."""

    seconds: float
    lost: int


def simulate(
    service: SimulatedService,
    pages: int | list[str],
    *,
    clients: int = 1,
    apart: float = 0.0,
    limits: Limits | None = None,
    **settings: Any,
) -> Figures:
    """Pull the pages with each client, and start the clients `apart` seconds from each other."""

    async def pull_as(client: int) -> _Visit:
        await asyncio.sleep(client * apart)
        begun = here().now
        async with session_above(service, client, limits=limits, **settings) as session:
            errors = await pull(session, pages)
        return _Visit(here().now - begun, len(errors))

    async def pull_with_all() -> tuple[list[_Visit], float]:
        visits = await asyncio.gather(*map(pull_as, range(clients)))
        return visits, here().now

    visits, seconds = run(pull_with_all())
    page_count = pages if isinstance(pages, int) else len(pages)
    return Figures(
        lost=sum(visit.lost for visit in visits),
        refused=service.refused / (clients * page_count),
        seconds=seconds,
        jain=_jain_index([1 / max(1e-9, visit.seconds) for visit in visits]),
        started_in_a_wait=_started_in_a_wait(service),
        accepted=sorted(itertools.chain(*service.accepted.values())),
    )


def _jain_index(rates: list[float]) -> float:
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares)


def _started_in_a_wait(service: SimulatedService) -> int:
    count = 0
    for start in service.started:
        if any(begin <= start < end for begin, end in service.announced):
            count += 1
    return count
