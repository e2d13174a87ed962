"""Everything that callers can observe: statistics, attempts, recorded responses, log records."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

import attrs
from multidict import CIMultiDict

from seorep_async.errors import ConfigurationError, duration, short_repr
from seorep_async.session.failures import Failure
from seorep_async.session.flow_control import Share
from seorep_async.session.request import Call, Request, Response
from seorep_async.session.timeouts import ContextBlock, ContextBlocks

N = TypeVar("N", int, float)

# `Location`, `Link` and `Refresh` may contain a login URL
_SECRET_HEADERS = re.compile(
    "cookie|authorization|authentication-info"
    "|(token|secret|password|api-?key)$|location$|^(link|refresh)$",
    re.IGNORECASE,
)
_log = logging.getLogger("seorep_async")
_OUTAGE_SECONDS = 5.0
"""An outage that has lasted for this time is logged."""
_recordings: ContextVar[ContextBlocks[list[RawAnswer]]] = ContextVar(
    "seorep_async_recordings", default=()
)
"""The blocks of `client.record_answers()` around the current code, of all clients."""


@attrs.frozen(slots=False)  # without slots, making one is twice as fast
class Attempt:
    """One finished attempt of a request. `seorep guide observability` lists its fields."""

    method: str
    """HTTP method."""
    path: str
    """Path of the request without its query."""
    subject: str | None
    """The object of the request, such as `campaign 42`, or None."""
    number: int
    """Number of the attempt within its request, from 1."""
    status: int | None
    """HTTP status, or None if no complete response was received."""
    error: type[BaseException] | None
    """Class of the error, such as `ServerError`, or None after a success. For a cancelled attempt,
    it is `asyncio.CancelledError`."""
    cause: str | None
    """Cause of the failure, or None after a success or a cancellation. `throttle`, `overload` and
    `transient` are retried within the limits of the call; `authentication` and `permanent` are
    not. `inconclusive` says nothing about the service: the call's own time limit ended the attempt,
    the client was closed, or the event loop was blocked."""
    bytes: int
    """Bytes of the decompressed body, or 0 if no complete response was received."""
    seconds: float
    """Seconds from the start of the attempt to the last byte of the response, or to the failure."""
    waited: float
    """Seconds that the request waited before the attempt, since its beginning or its previous
    attempt."""
    account: str = ""
    """The client's account."""


OnAttempt: TypeAlias = Callable[[Attempt], object]


@attrs.frozen
class RawAnswer:
    """A response exactly as the service sent it."""

    method: str
    """HTTP method of the request."""
    path: str
    """Path of the request without its query."""
    status: int
    """HTTP status."""
    body: bytes = attrs.field(repr=False)
    """The complete, decompressed body. It may contain secrets, so it is not in the repr."""
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False, eq=False)
    """Headers by case-insensitive name, without cookies, tokens and links. Repeated headers are
    joined by commas, and the key is replaced by `***`."""
    number: int = 1
    """Number of the attempt within its request, from 1."""
    seconds: float = attrs.field(default=0.0, eq=False)
    """Seconds from the start of the attempt to the last byte."""


@attrs.frozen
class Stats:
    """A snapshot of a client's statistics since it was opened.

    If clients share `Limits`, `concurrency`, `pace` and `outage` apply to all of them. Everything
    else belongs to this client. `seorep guide observability` lists the fields.
    """

    requests: int
    """Requests that calls needed, and repetitions of accepted ones, not counting retries. Each page
    is one request."""
    attempts: int
    """Requests sent, including retries. This is the number that the service sees."""
    retries: Mapping[str, int]
    """Retries, by cause: `throttle`, `overload`, `transient`."""
    throttled: int
    """Responses that refused a request because of the rate: 429; 400, 403 or 420 with Retry-After;
    a firewall's page."""
    bytes_received: int
    """Bytes of all bodies, decompressed."""
    in_flight: int
    """Attempts in flight now."""
    concurrency: int
    """The maximum number of attempts in flight. A client begins with at most 8."""
    pace: float | None
    """Attempts per second that may start, or None if no limit is known."""
    waited: Mapping[str, float]
    """Total seconds that requests waited before attempts, by reason: `concurrency` (others were in
    flight), `pace` (the service's rate), `asked to wait` (Retry-After), `outage` (nothing got
    through), `backoff` (before a retry)."""
    account: str = ""
    """The client's account."""
    page_sizes: Mapping[str, int] = attrs.field(factory=dict)
    """The page sizes that the client has found, by endpoint path. See `Settings.page_size`."""
    outage: float | None = None
    """Seconds since an outage began, or None without one. Refusals (429, 503) count as an outage if
    probes were refused for a minute. 503s count after a second if no limit is known. In an
    outage, only probes are sent. A new call waits until a probe succeeds, or for its time limit."""

    def since(self, earlier: Stats) -> Stats:
        """Return the increase since an earlier snapshot. The limits are the current ones."""
        return attrs.evolve(
            self,
            requests=self.requests - earlier.requests,
            attempts=self.attempts - earlier.attempts,
            retries=_difference(self.retries, earlier.retries),
            throttled=self.throttled - earlier.throttled,
            bytes_received=self.bytes_received - earlier.bytes_received,
            waited=_difference(self.waited, earlier.waited),
        )


def _difference(now: Mapping[str, N], before: Mapping[str, N]) -> dict[str, N]:
    return {
        name: value - before.get(name, 0)
        for name, value in now.items()
        if value != before.get(name)
    }


class Observer:
    """Passes a client's attempts to `on_attempt`, to recordings and to the log."""

    def __init__(
        self,
        on_attempt: OnAttempt | None,
        scrub: Callable[[str, Request[Any]], str],
        account: str,
    ) -> None:
        self.on_attempt: OnAttempt | None = on_attempt
        self.account = account
        self._prefix = f"{account}: " if account else ""
        self._scrub = scrub
        self.has_logged_outage: bool = False

    def record_answers(self) -> ContextBlock[list[RawAnswer]]:
        """Collect the responses to all requests sent inside a block."""
        return ContextBlock(_recordings, self, [])

    def _record(self, call: Call[Any], response: Response) -> None:
        """Add a response to the recordings of this client's blocks around the current code."""
        for block in _recordings.get():
            if block.owner is self:
                block.value.append(self._raw_answer(call, response))

    def _raw_answer(self, call: Call[Any], response: Response) -> RawAnswer:
        """Return a response for a recording, without its secret headers."""
        request = call.request
        headers = CIMultiDict[str]()
        for name, value in response.headers.items():
            if _SECRET_HEADERS.search(name):
                continue
            scrubbed = self._scrub(value, request)
            headers[name] = f"{headers[name]}, {scrubbed}" if name in headers else scrubbed
        return RawAnswer(
            request.method,
            request.path,
            response.status,
            response.body,
            headers,
            call.attempts,
            call.ended - call.started,
        )

    def report(self, call: Call[Any], result: object) -> None:
        """Record the response of an attempt, and call `on_attempt`.

        Args:
            call: the call of the attempt.
            result: the result, the failure, or the exception that ended the attempt.
        """
        response = call.response
        if response is not None and _recordings.get():
            self._record(call, response)
        if self.on_attempt is None or isinstance(result, ConfigurationError):
            return  # a ConfigurationError is raised before anything is sent
        status = None
        size = 0
        if response is not None:
            status = response.status
            size = response.size
        error = result
        cause = None
        if isinstance(result, Failure):
            error = result.error
            cause = result.reported_cause
        request = call.request
        attempt = Attempt(
            request.method,
            request.path,
            request.subject,
            number=call.attempts,
            status=status,
            error=type(error) if isinstance(error, BaseException) else None,
            cause=cause,
            bytes=size,
            seconds=call.ended - call.started,
            waited=call.started - call.idle_since,
            account=self.account,
        )
        try:
            self.on_attempt(attempt)
        except (Exception, asyncio.CancelledError):
            fields = self._log_fields(call, status=status, cause=cause)
            _log.exception("%son_attempt failed", self._prefix, extra=fields)

    def log_outage(self, call: Call[Any], result: object, share: Share) -> None:
        """Log an outage once, after an attempt that shows that it continues, and log its end."""
        seconds = share.outage_seconds
        if seconds is None:
            if self.has_logged_outage:
                self.has_logged_outage = False
                message = "%sthe service accepts requests again"
                _log.info(message, self._prefix, extra={"account": self.account})
            return
        if seconds > _OUTAGE_SECONDS and isinstance(result, Failure) and not self.has_logged_outage:
            self.has_logged_outage = True
            message = "%sno request has been accepted for %s: %s"
            facts = duration(seconds), result.error.message
            _log.warning(message, self._prefix, *facts, extra=self._log_fields(call))

    def log_retry(self, call: Call[Any], failure: Failure, delay: float) -> None:
        """Log that a request will be retried after `delay` seconds."""
        if _log.isEnabledFor(logging.DEBUG):
            request = call.request
            subject = request.subject or f"{request.method} {request.path}"
            facts = subject, call.attempts, failure.error.message, duration(delay)
            fields = self._log_fields(call, delay=delay)
            message = "%s%s: attempt %d: %s; retried in %s"
            _log.debug(message, self._prefix, *facts, extra=fields)

    def _log_fields(self, call: Call[Any], **more: object) -> dict[str, object]:
        """Return the fields of a log record. `more` adds fields, or replaces them."""
        failure = call.failure
        return {
            "account": self.account,
            "method": call.request.method,
            "path": call.request.path,
            "subject": call.request.subject,
            "status": None if failure is None else failure.error.status,
            "attempt": call.attempts,
            "cause": None if failure is None else failure.reported_cause,
            "seconds": call.ended - call.started,
            **more,
        }


def check_callback(name: str, function: object, takes: str) -> None:
    """Raise a ConfigurationError unless an argument is None or a synchronous callable."""
    if function is None:
        return
    if not callable(function) or inspect.iscoroutinefunction(function):
        problem = f"{name} must be a function that takes {takes}, and not an async one"
        raise ConfigurationError(f"{problem}, got {short_repr(function)}", argument=name)
