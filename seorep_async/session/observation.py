"""What the caller may see: figures of a client, and of its attempts `on_attempt`, recorded responses, log records."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import math
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

import attrs
from multidict import CIMultiDict

from seorep_async.errors import ConfigurationError, shown
from seorep_async.session.flow_control import Share
from seorep_async.session.request import Call, Request
from seorep_async.session.response import Response
from seorep_async.session.retry_policy import Failure
from seorep_async.session.timeouts import Block, Blocks
from seorep_async.settings import Settings

N = TypeVar("N", int, float)

_SECRET_HEADERS = re.compile(  # links may hold a login URL
    "cookie|authorization|authentication-info|(token|secret|password|api-?key)$|location$|^(link|refresh)$",
    re.IGNORECASE,
)
_log = logging.getLogger("seorep_async")
_recordings: ContextVar[Blocks[list[RawAnswer]]] = ContextVar("seorep_async_recordings", default=())


@attrs.frozen(slots=False)  # twice as fast to make
class Attempt:
    """One attempt of a request, after its end.

    Attributes:
        method: HTTP method.
        path: path of the request, without its query.
        subject: the object that it concerns, such as `campaign 42`, or None.
        number: its number among the attempts of the request, from 1.
        status: HTTP status, or None if no whole response was received.
        error: class of the error, such as `ServerError`, or `asyncio.CancelledError` if the attempt was cancelled; None
            after a success.
        cause: `throttle`, `overload` or `transient`, which are retried within the limits of the call;
            `authentication` or `permanent`, which are not; or None after a success or a cancellation.
        bytes: bytes of the body, decompressed; 0 if no whole response was received.
        seconds: from its start to the last byte of the response, or to the failure.
        waited: seconds between the beginning of the request, or the end of its previous attempt, and its start.
    """

    method: str
    path: str
    subject: str | None
    number: int
    status: int | None
    error: type[BaseException] | None
    cause: str | None
    bytes: int
    seconds: float
    waited: float


OnAttempt: TypeAlias = Callable[[Attempt], object]


@attrs.frozen
class RawAnswer:
    """A response as the service sent it.

    Attributes:
        method: HTTP method of the request.
        path: its path, without the query.
        status: HTTP status.
        body: the whole body, decompressed; not in the repr, as it may hold secrets.
        headers: by names in any case, repeated ones joined by commas; without cookies, tokens and links, and with the
            key replaced by `***`.
        number: number of the attempt among those of its request, from 1.
        seconds: from the start of the attempt to the last byte.
    """

    method: str
    path: str
    status: int
    body: bytes = attrs.field(repr=False)
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False, eq=False)
    number: int = 1
    seconds: float = attrs.field(default=0.0, eq=False)


@attrs.frozen
class Stats:
    """What a client has done since it was opened: a snapshot.

    Where clients share `Limits`, `concurrency` and `pace` are those of all, everything else is the client's own.

    Attributes:
        requests: requests that calls needed, one for each page.
        attempts: requests that were sent, retries included: what the service sees.
        retries: attempts that were repeats, by cause: `throttle`, `overload`, `transient`.
        throttled: responses with status 429.
        bytes_received: bytes of all bodies, decompressed.
        in_flight: attempts in flight now.
        concurrency: attempts that may be in flight; but 8 at first, until as many were accepted or one waited 0.1 s.
        pace: attempts a second that may start now, or None if no limit is known.
        waited: seconds that requests waited before an attempt, in all, by reason: `concurrency` (others were in
            flight), `pace` (the service's rate), `asked to wait` (Retry-After), `outage` (nothing got through),
            `backoff` (before a retry).
    """

    requests: int
    attempts: int
    retries: Mapping[str, int]
    throttled: int
    bytes_received: int
    in_flight: int
    concurrency: int
    pace: float | None
    waited: Mapping[str, float]

    def since(self, earlier: Stats) -> Stats:
        """Return what the client has done since an earlier snapshot; the limits stay those of now."""
        return attrs.evolve(
            self,
            requests=self.requests - earlier.requests,
            attempts=self.attempts - earlier.attempts,
            retries=_grown(self.retries, earlier.retries),
            throttled=self.throttled - earlier.throttled,
            bytes_received=self.bytes_received - earlier.bytes_received,
            waited=_grown(self.waited, earlier.waited),
        )


def _grown(now: Mapping[str, N], before: Mapping[str, N]) -> dict[str, N]:
    return {
        name: value - before.get(name, 0)
        for name, value in now.items()
        if value != before.get(name)
    }


class Observer:
    """Passes what a client's attempts show to `on_attempt`, to recordings and to the log."""

    def __init__(
        self,
        on_attempt: OnAttempt | None,
        scrub: Callable[[str, Request[Any]], str],
        settings: Settings,
    ) -> None:
        self.on_attempt: OnAttempt | None = on_attempt
        self._scrub = scrub
        self._pace = (
            math.inf if settings.requests_per_second is None else settings.requests_per_second
        )
        self._concurrency = settings.max_concurrency

    def record_answers(self) -> Block[list[RawAnswer]]:
        """Collect the responses to all requests that are sent from inside a block."""
        return Block(_recordings, self, [])

    def record(self, call: Call[Any], response: Response) -> None:
        """Add a response to the recordings that it belongs to."""
        for block in _recordings.get():
            if block.owner is self:
                block.value.append(self._raw_answer(call, response))

    def _raw_answer(self, call: Call[Any], response: Response) -> RawAnswer:
        request = call.request
        headers = CIMultiDict[str]()
        for name, value in response.headers.items():
            if not _SECRET_HEADERS.search(name):
                scrubbed = self._scrub(value, request)
                headers[name] = f"{headers[name]}, {scrubbed}" if name in headers else scrubbed
        body, seconds = response.body, call.ended - call.started
        return RawAnswer(
            request.method, request.path, response.status, body, headers, call.attempts, seconds
        )

    def report(self, call: Call[Any], response: object, result: object) -> None:
        """Call `on_attempt`; `result` is the failure, the exception that ended the attempt, or that of a success."""
        if self.on_attempt is None or isinstance(
            result, ConfigurationError
        ):  # raised before anything was sent
            return
        status, size = (
            (response.status, len(response.body)) if isinstance(response, Response) else (None, 0)
        )
        failed, cause = (
            (result.error, result.cause.value) if isinstance(result, Failure) else (result, None)
        )
        error = type(failed) if isinstance(failed, BaseException) else None
        request, started = call.request, call.started
        attempt = Attempt(
            *(
                request.method,
                request.path,
                request.subject,
                call.attempts,
                status,
                error,
                cause,
                size,
            ),
            *(call.ended - started, started - call.idle_since),
        )
        call.idle_since = call.ended
        try:
            self.on_attempt(attempt)
        except (Exception, asyncio.CancelledError):
            _log.exception("on_attempt failed", extra=_log_fields(call, status=status, cause=cause))

    def log_limits(self, call: Call[Any], share: Share) -> None:
        """Log the first decrease of the pace, and the first limit of attempts in flight."""
        pace, concurrency = share.pace, share.concurrency
        if pace is not None and pace < self._pace:
            self._pace = 0.0
            message = "the service refuses requests: slowed down to %.3g a second"
            _log.info(message, pace, extra=_log_fields(call, pace=pace))
        if concurrency < self._concurrency:
            self._concurrency = 0
            message = "fewer requests at once are accepted: %d from now on"
            _log.info(message, concurrency, extra=_log_fields(call, concurrency=concurrency))


def log_retry(call: Call[Any], failure: Failure, delay: float) -> None:
    """Log that a request will be tried again after `delay` seconds."""
    if _log.isEnabledFor(logging.DEBUG):
        about = call.request.subject or f"{call.request.method} {call.request.path}"
        what = about, call.attempts, failure.error.message, delay
        _log.debug(
            "%s: attempt %d: %s; retried in %.3g s", *what, extra=_log_fields(call, delay=delay)
        )


def _log_fields(call: Call[Any], **more: object) -> dict[str, object]:
    failure = call.failure
    return {
        "method": call.request.method,
        "path": call.request.path,
        "subject": call.request.subject,
        "status": None if failure is None else failure.error.status,
        "attempt": call.attempts,
        "cause": None if failure is None else failure.cause.value,
        "seconds": call.ended - call.started,
        **more,
    }


def check_callback(name: str, function: object, takes: str) -> None:
    """Raise a ConfigurationError unless an argument is None or a callable that is not async."""
    unwrapped = function
    while isinstance(unwrapped, functools.partial):
        unwrapped = unwrapped.func
    called = unwrapped, type(unwrapped).__call__
    is_async = any(map(inspect.iscoroutinefunction, called)) or any(
        map(inspect.isasyncgenfunction, called)
    )
    if function is not None and (not callable(function) or is_async):
        problem = f"{name} must be a function that takes {takes}, and not an async one, got {shown(function)}"
        raise ConfigurationError(problem, argument=name)
