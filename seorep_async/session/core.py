"""From a request to its result: gate, permit, attempt, decision, wait, and round again."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Generic, NoReturn, TypeVar

import aiohttp
import attrs

from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    DecodeError,
    ProtocolError,
    RedirectError,
    SeoRepError,
    StatusError,
    status_error_type,
)
from seorep_async.session.attempt import Answer, Transport
from seorep_async.session.authentication import Authentication
from seorep_async.session.base_url import BaseURL
from seorep_async.session.decision import (
    Cause,
    Failure,
    GiveUp,
    Sent,
    cause_of_status,
    deadline_exceeded,
    decide,
    with_retry_after,
)
from seorep_async.session.governor import Permits
from seorep_async.session.request import Request
from seorep_async.settings import Settings

T = TypeVar("T")

_EXCERPT_BYTES = 400
_FIRST = -1  # a retry goes before everything that was not tried yet
_log = logging.getLogger("seorep_async")

_STATUS_MESSAGES = {
    401: "the API key was refused",
    403: "the API key was refused",
    404: "there is no such object",
    429: "the service asks for fewer requests",
    500: "the service failed; a bad parameter may be answered like this too",
    503: "the service is not available now",
}


@attrs.frozen
class Timing:
    """Where time and chance come from, so that tests can put their own in.

    Attributes:
        clock: monotonic seconds.
        sleep: waits for a number of seconds.
        wall_clock: seconds since the epoch; asked only to read HTTP dates.
        jitter: a random number from 0 to 1.
    """

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    wall_clock: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random


class Session:
    """Sends requests for one client, from opening to closing.

    Args:
        base_url: where requests go.
        authentication: the key.
        settings: limits and choices.
        borrowed: an aiohttp session of the caller's, or None.
        timing: where time and chance come from.
    """

    def __init__(
        self,
        base_url: BaseURL,
        authentication: Authentication,
        settings: Settings,
        borrowed: aiohttp.ClientSession | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.settings = settings
        self.timing = timing or Timing()
        self._authentication = authentication
        self._transport = Transport(base_url, authentication, settings, borrowed, self.timing.wall_clock)
        self.state = "not open yet"
        self._tasks: set[asyncio.Task[Any]] = set()
        self.requests = 0

    async def __aenter__(self) -> Session:
        if self.state != "not open yet":
            raise ConfigurationError(f"this client is {self.state} already; create a new one")
        await self._transport.__aenter__()
        self._loop = asyncio.get_running_loop()
        self._permits = Permits(self.settings.max_concurrency)
        self.state = "open"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.state == "open":
            self.state = "closed"
            await cancel_all(self._tasks)
            await self._transport.__aexit__(kind, error, traceback)

    @property
    def attempts(self) -> int:
        """Attempts made on the wire so far."""
        return self._transport.attempts

    def require_open(self) -> None:
        """Raise a ConfigurationError unless requests can be sent from here."""
        if self.state != "open":
            raise ConfigurationError(
                f"this client is {self.state}: use it inside `async with SeoRepClient(...) as client:`"
            )
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigurationError("this client was opened in another event loop; open one in each loop")

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that ends with this session at the latest."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def deadline(self) -> float:
        """Return the monotonic time at which a call that begins now must have ended."""
        limit = self.settings.call_timeout
        return math.inf if limit is None else self.timing.clock() + limit

    async def send(self, request: Request[T]) -> T:
        """Send a request until it succeeds or must be given up.

        Raises:
            SeoRepError: what `decide` gave up with, with method, path and attempts filled in.
        """
        self.require_open()
        self.requests += 1
        deadline = self.deadline() if request.deadline is None else request.deadline
        failure: Failure | None = None
        attempt = 0
        while True:
            remaining = deadline - self.timing.clock()
            if remaining <= 0 or not await self._permit(_FIRST if attempt else request.priority, remaining):
                self._raise(deadline_exceeded(failure), request, attempt)
            try:
                remaining = deadline - self.timing.clock()
                if remaining <= 0:
                    self._raise(deadline_exceeded(failure), request, attempt)
                if request.halt is not None and request.halt.error is not None:
                    self._raise(_halted(request.halt.error), request, attempt)
                attempt += 1
                result = await self._transport.attempt(request, min(self.settings.attempt_timeout, remaining))
            finally:
                self._permits.release()
            if isinstance(result, Answer):
                read = self._read(request, result)
                if not isinstance(read, Failure):
                    return read.value
                result = read
            failure = result
            if request.halt is not None and isinstance(failure.error, AuthenticationError):
                request.halt.error = request.halt.error or failure.error
            if _log.isEnabledFor(logging.DEBUG):
                _log.debug("%s %s: attempt %d failed: %s", request.method, request.path, attempt, failure.error.message)
            verdict = decide(
                failure,
                attempt=attempt,
                resend=request.resend,
                remaining=deadline - self.timing.clock(),
                jitter=self.timing.jitter(),
                settings=self.settings,
            )
            if isinstance(verdict, GiveUp):
                self._raise(verdict.error, request, attempt)
            await self.timing.sleep(verdict.delay)

    async def _permit(self, priority: int, remaining: float) -> bool:
        if self._permits.take_if_free():
            return True
        try:
            async with asyncio.timeout(None if remaining == math.inf else remaining):
                await self._permits.acquire(priority)
        except TimeoutError:
            return False
        return True

    def _read(self, request: Request[T], answer: Answer) -> _Value[T] | Failure:
        error: SeoRepError
        status = answer.status
        if 200 <= status < 300:
            try:
                return _Value(request.decode(answer.body))
            except ProtocolError as undecodable:
                sent, cause, error = Sent.MAYBE, Cause.TRANSIENT, undecodable
            except StatusError as disguised:
                code = next((c for c in (403, 404, 429, 500) if type(disguised) is status_error_type(c)), 500)
                sent, cause, error = Sent.ANSWERED, cause_of_status(code), disguised
            except SeoRepError as shapeless:
                sent, cause, error = Sent.ANSWERED, Cause.PERMANENT, shapeless
        elif 300 <= status < 400:
            location = answer.location.partition("?")[0] if answer.location else None
            redirect = RedirectError(
                f"the service redirects to {location}, which is never followed; put the right address into base_url"
            )
            redirect.location = location
            sent, cause, error = Sent.ANSWERED, Cause.PERMANENT, redirect
        else:
            message = _STATUS_MESSAGES.get(status, "the service refused" if status < 500 else "the service failed")
            sent, cause, error = Sent.ANSWERED, cause_of_status(status), status_error_type(status)(message)
        error.status = status
        if not request.private:
            error.body_excerpt = self._excerpt(answer.body)
        elif isinstance(error, DecodeError):
            error.message = f"{error.field_path or 'the answer'}: is not what was expected there"
        elif isinstance(error, StatusError) and status < 300:
            error.message = "the service reported an error in an answer that claims success"
        return Failure(sent, cause, with_retry_after(error, answer.retry_after), answer.retry_after)

    def _excerpt(self, body: bytes) -> str | None:
        # scrubbed before it is cut, or half a key could remain at the cut
        beginning = body[: 8 * _EXCERPT_BYTES]
        text = self._authentication.scrub(beginning.decode(errors="replace"), cut=len(beginning) < len(body))
        text = " ".join(text.split())
        return (text if len(text) <= _EXCERPT_BYTES else f"{text[:_EXCERPT_BYTES]}…") or None

    def _raise(self, error: SeoRepError, request: Request[Any], attempts: int) -> NoReturn:
        error.subject = request.subject
        error.method, error.path, error.attempts = request.method, request.path, attempts
        error.message = self._authentication.scrub(error.message)
        error.args = (error.message,)
        raise error.with_traceback(None)


@attrs.frozen
class _Value(Generic[T]):
    value: T


def _halted(refusal: AuthenticationError) -> AuthenticationError:
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
