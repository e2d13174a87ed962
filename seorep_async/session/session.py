"""From a request to its result: leave to send, attempt, decision, wait, and round again."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import aiohttp
import attrs

from seorep_async.errors import AuthenticationError, ConfigurationError, NotFoundError, SeoRepError
from seorep_async.session.authentication import Authentication
from seorep_async.session.base_url import BaseURL
from seorep_async.session.clock import Clock
from seorep_async.session.fair_queue import HUGE, FairQueue
from seorep_async.session.governor import Governor
from seorep_async.session.request import Request
from seorep_async.session.response import Response, ResponseReader
from seorep_async.session.retry_policy import (
    Cause,
    Failure,
    GiveUp,
    Signal,
    certainly_not_executed,
    deadline_exceeded,
    decide,
)
from seorep_async.session.stats import Stats
from seorep_async.session.transport import Transport
from seorep_async.settings import Settings

T = TypeVar("T")

_FIRST = -1  # a retry goes before everything that was not tried yet
_LARGE = 64 * 1024  # bytes of a body whose decoding others on the loop notice
_TURN = 640 * 1024  # bytes that are decoded before others on the loop get their turn
_log = logging.getLogger("seorep_async")


@attrs.frozen
class RawAnswer:
    """An answer as it came.

    Attributes:
        method: HTTP method of the request.
        path: its path, without the query.
        status: HTTP status.
        body: the whole body, decompressed; not in the repr, as it may hold secrets.
    """

    method: str
    path: str
    status: int
    body: bytes = attrs.field(repr=False)


_recordings: ContextVar[tuple[tuple[Session, list[RawAnswer]], ...]] = ContextVar("seorep_async_recordings", default=())


class Session:
    """Sends requests for one client, from opening to closing.

    Args:
        base_url: where requests go.
        authentication: the key.
        settings: limits and choices.
        borrowed: an aiohttp session of the caller's, or None.
        clock: where time and chance come from.
    """

    def __init__(
        self,
        base_url: BaseURL,
        authentication: Authentication,
        settings: Settings,
        borrowed: aiohttp.ClientSession | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock or Clock()
        self.state = "not open yet"
        self._reader = ResponseReader(authentication)
        self._fair_queue = FairQueue(_TURN)
        self._transport = Transport(
            base_url, authentication, settings, self._fair_queue, borrowed, self.clock.wall_clock
        )
        self._governor = Governor(settings, self.clock)
        self._huge = asyncio.Lock()
        self._closing = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._requests = 0
        self._retries: Counter[str] = Counter()
        self._throttled = 0

    async def __aenter__(self) -> Session:
        if self.state != "not open yet":
            raise ConfigurationError(f"this client is {self.state} already; create a new one")
        await self._transport.__aenter__()
        self._loop = asyncio.get_running_loop()
        self.state = "open"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.state == "open":
            self.state = "closed"
            self._governor.close()
            self._closing.set()
            try:
                await cancel_all(self._tasks)
            finally:
                await self._transport.__aexit__(kind, error, traceback)

    @property
    def stats(self) -> Stats:
        """The figures so far."""
        governor = self._governor
        return Stats(
            requests=self._requests,
            attempts=self._transport.attempts,
            retries=dict(self._retries),
            throttled=self._throttled,
            bytes_received=self._transport.bytes_received,
            in_flight=governor.in_flight,
            concurrency=governor.concurrency,
            pace=governor.pace,
            waited=dict(governor.waited),
        )

    def require_open(self) -> None:
        """Raise a ConfigurationError unless requests can be sent from here."""
        self._require_not_closed()
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigurationError("this client was opened in another event loop; open one in each loop")

    def _require_not_closed(self) -> None:
        if self.state != "open":
            raise ConfigurationError(
                f"this client is {self.state}: use it inside `async with SeoRepClient(...) as client:`"
            )

    def spawn(
        self, work: Coroutine[Any, Any, T], when_done: Callable[[asyncio.Task[T]], None] | None = None
    ) -> asyncio.Task[T]:
        """Start a task that ends with this session at the latest, and have a function called when it is done."""

        def done(task: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            if when_done is not None:
                when_done(task)

        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(done)
        return task

    @contextmanager
    def record_answers(self) -> Iterator[list[RawAnswer]]:
        """Collect the answers to all requests that are sent from inside a block."""
        answers: list[RawAnswer] = []
        token = _recordings.set((*_recordings.get(), (self, answers)))
        try:
            yield answers
        finally:
            _recordings.reset(token)

    def deadline(self) -> float:
        """Return the monotonic time at which a call that begins now must have ended."""
        limit = self.settings.call_timeout
        return math.inf if limit is None else self.clock.monotonic() + limit

    async def send(self, request: Request[T]) -> T:
        """Send a request until it succeeds or must be given up.

        Raises:
            SeoRepError: what `decide` gave up with, with method, path and attempts filled in.
        """
        self.require_open()
        self._requests += 1
        governor, clock = self._governor, self.clock.monotonic
        deadline = math.inf if request.deadline is None else request.deadline
        failure: Failure | None = None
        attempts = throttled = spent = 0
        maybe_done = False
        try:
            while True:
                self._check_cancel_scope(request, attempts)
                refused = failure is not None and failure.is_refusal
                permit = governor.try_acquire(deadline, refused=refused)
                if permit is None:
                    try:
                        priority = _FIRST if attempts else request.priority
                        permit = await governor.acquire(priority, deadline, request.cancel_scope, refused=refused)
                    except SeoRepError as error:
                        self._raise(error, request, attempts)
                if permit is None:
                    self._require_not_closed()
                    self._check_cancel_scope(request, attempts)
                    self._raise(deadline_exceeded(failure), request, attempts)
                signal = retry_after = None
                try:
                    self._require_not_closed()
                    self._check_cancel_scope(request, attempts)
                    if request.deadline is None and not attempts:
                        deadline = self.deadline()
                    remaining = deadline - clock()
                    if remaining <= 0:
                        self._raise(deadline_exceeded(failure), request, attempts)
                    attempts += 1
                    result = await self._transport.attempt(request, min(self.settings.attempt_timeout, remaining))
                    signal, retry_after = result.signal, result.retry_after
                    if (
                        signal is Signal.OVERLOADED
                        and isinstance(result, Failure)
                        and remaining < self.settings.attempt_timeout
                    ):
                        signal = None  # it was our own time that was over, which tells nothing about the service
                finally:
                    governor.release(permit, signal, retry_after)
                if isinstance(result, Response):
                    for session, answers in _recordings.get():
                        if session is self:
                            answers.append(RawAnswer(request.method, request.path, result.status, bytes(result.body)))
                    try:
                        read = await self._read(request, result, deadline)
                    except TimeoutError:
                        self._raise(deadline_exceeded(None), request, attempts)
                    if not isinstance(read, Failure):
                        governor.quota.succeed(spent)
                        return read
                    result = read
                    if read.cause is Cause.THROTTLE and signal is Signal.FINE:
                        governor.observe(permit.started, Signal.THROTTLED, retry_after)
                failure = result
                self._reader.clean(failure.error, request)
                if request.cancel_scope is not None and isinstance(failure.error, AuthenticationError):
                    request.cancel_scope.error = request.cancel_scope.error or failure.error
                    governor.withdraw(request.cancel_scope)
                if request.method == "DELETE" and maybe_done and isinstance(failure.error, NotFoundError):
                    governor.quota.succeed(spent)
                    return request.decode(b"")  # what is gone was deleted by an attempt whose answer was lost
                maybe_done = maybe_done or not certainly_not_executed(failure)
                throttled += failure.cause is Cause.THROTTLE
                self._throttled += failure.cause is Cause.THROTTLE
                if _log.isEnabledFor(logging.DEBUG):
                    _log.debug("%s %s: attempt %d: %s", request.method, request.path, attempts, failure.error.message)
                verdict = decide(
                    failure,
                    attempts=attempts,
                    throttled=throttled,
                    idempotent=request.idempotent,
                    remaining=deadline - clock(),
                    tokens=governor.quota.tokens,
                    jitter=self.clock.jitter(),
                    settings=self.settings,
                )
                if isinstance(verdict, GiveUp):
                    self._raise(verdict.error, request, attempts)
                self._require_not_closed()
                governor.quota.spend(verdict.cost)
                spent += verdict.cost
                self._retries[failure.cause.value] += 1
                governor.waited["backoff"] += verdict.delay
                await self._sleep(verdict.delay)
                self._require_not_closed()
        except asyncio.CancelledError:
            governor.quota.give_back(spent)  # that nobody waits any more tells nothing about the service
            raise

    def _check_cancel_scope(self, request: Request[Any], attempts: int) -> None:
        if request.cancel_scope is not None and request.cancel_scope.error is not None:
            self._raise(_cancelled_by(request.cancel_scope.error), request, attempts)

    async def _sleep(self, seconds: float) -> None:
        """Sleep, unless the client is closed before."""
        ends = [asyncio.ensure_future(self.clock.sleep(seconds)), asyncio.ensure_future(self._closing.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    async def _read(self, request: Request[T], response: Response, deadline: float) -> T | Failure:
        size = response.size
        if size <= _LARGE:
            return self._reader.read(request, response)
        if size <= HUGE:
            await self._fair_queue.wait(size)
            return self._reader.read(request, response)
        remaining = None if deadline == math.inf else deadline - self.clock.monotonic()
        async with asyncio.timeout(remaining), self._huge:
            if request.decode_in_steps is not None and response.status == 200:
                value = await self._in_turns(request.decode_in_steps(response.body))
                if value is not None:
                    return value
            return await asyncio.to_thread(self._reader.read, request, response)

    async def _in_turns(self, steps: Generator[None, None, T | None]) -> T | None:
        while True:
            await self._fair_queue.wait(_TURN)
            try:
                next(steps)
            except StopIteration as end:
                value: T | None = end.value
                return value
            except SeoRepError:
                return None

    def _raise(self, error: SeoRepError, request: Request[Any], attempts: int) -> NoReturn:
        error.subject = request.subject
        error.method, error.path, error.attempts = request.method, request.path, attempts
        error.args = (error.message,)
        raise error.with_traceback(None)


def _cancelled_by(refusal: AuthenticationError) -> AuthenticationError:
    error = AuthenticationError("not finished, because the API key was refused to another request")
    error.status = refusal.status
    return error


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended, whatever they end with."""
    pending = list(tasks)
    for task in pending:
        task.cancel()
    if pending:
        await asyncio.wait(pending)
        for task in pending:
            if not task.cancelled():
                task.exception()
