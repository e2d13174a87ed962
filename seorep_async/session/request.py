"""One request, its parameters encoded, built once and passed on unchanged; and its call, the state until it ends."""

from __future__ import annotations

import datetime as dt
import json
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from seorep_async.errors import (
    AttemptTimeoutError,
    ConfigurationError,
    ConnectionFailedError,
    NotFoundError,
    SeoRepError,
)
from seorep_async.session.flow_control import Lane
from seorep_async.session.retry_policy import Failure, certainly_not_executed
from seorep_async.session.timeouts import Deadline
from seorep_async.settings import ArrayEncoding, RequestEncoding

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=SeoRepError)
ParamValue: TypeAlias = str | int | float | bool | dt.date | tuple[str, ...]
Decode: TypeAlias = Callable[[bytes], T]
"""Turns the body of a successful response into its result, or raises a SeoRepError."""


@runtime_checkable
class PageDecoder(Protocol[T_co]):
    """A decoder that reads pages of documented shape faster than others."""

    def documented(self, body: bytes) -> T_co | None:
        """Return the page, or None if its shape is another."""


# objects of every request are msgspec structs: an attrs object takes ten times as long to make
class Request(msgspec.Struct, Generic[T], eq=False):
    """A request, how to read its response, and how it may be sent.

    Attributes:
        path: from `/v3` on.
        query: encoded, without `?`; may hold private text, so it is in no repr.
        body: of a write, encoded.
        subject: its name in errors, such as `campaign 42`.
        priority: the lowest gets its permit first.
        deadline: of the call; None for that of a stream that begins with it.
        idempotent: whether to resend a request that may have been executed.
        max_attempts: if there are to be fewer than `Settings.max_attempts`.
        lane: of the pull that it belongs to; None for the lane of single calls and listings.
        secrets: strings of the request that must not appear in an error, such as a password.
        private: the response holds secrets, so no part of its body goes into an error.
    """

    method: str
    path: str
    decode: Decode[T]
    query: str = ""
    body: bytes | None = None
    content_type: str | None = None
    subject: str | None = None
    priority: int = 0
    deadline: Deadline | None = None
    idempotent: bool = True
    max_attempts: int | None = None
    lane: Lane | None = None
    private: bool = False
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Request({self.method} {self.path})"  # tracebacks show locals; the rest may be private
        )


class Call(msgspec.Struct, Generic[T], eq=False):
    """A request on its way, with its changing state.

    Attributes:
        deadline: when the call must have ended.
        idle_since: monotonic time since which it has waited: its beginning, or the end of the attempt before.
        started, ended: monotonic times of the last attempt.
        throttled: attempts that count as a third: 429, 503 with Retry-After, failed probes.
        spent: tokens of the retry quota that its retries cost.
        may_have_run: whether the service may have carried the request out already.
        failure: the last one, or None.
    """

    request: Request[T]
    deadline: Deadline
    idle_since: float
    started: float = 0.0
    ended: float = 0.0
    attempts: int = 0
    throttled: int = 0
    spent: int = 0
    may_have_run: bool = False
    failure: Failure | None = None

    @property
    def may_reuse(self) -> bool:
        """Whether the next attempt may reuse a connection: not if the last one had no response, of another fault."""
        lost = AttemptTimeoutError, ConnectionFailedError
        return (
            self.failure is None or self.failure.no_room or not isinstance(self.failure.error, lost)
        )

    def was_deleted_before(self, failure: Failure) -> bool:
        """Return whether an earlier attempt, whose response was lost, deleted the missing object."""
        return (
            self.request.method == "DELETE"
            and self.may_have_run
            and isinstance(failure.error, NotFoundError)
            and failure.is_own_json
        )

    def start(self, now: float) -> None:
        """Record the start of an attempt."""
        self.deadline = self.deadline.begun(now)
        self.started = now
        self.attempts += 1

    def note(self, failure: Failure, *, probe: bool) -> None:
        self.failure = failure
        self.throttled += probe or failure.asks_to_wait
        self.may_have_run = self.may_have_run or not certainly_not_executed(failure)

    def complete(self, error: E) -> E:
        """Add the facts of this call to an error."""
        request = self.request
        completed = error.evolve(
            subject=request.subject,
            method=request.method,
            path=request.path,
            attempts=self.attempts,
        )
        completed.__cause__ = error.__cause__
        return completed


def encode_query(values: Mapping[str, ParamValue], arrays: ArrayEncoding) -> str:
    """Return values as a percent-encoded query without `?`."""
    return (
        urllib.parse.urlencode([*_pairs(values, arrays)], quote_via=urllib.parse.quote)
        if values
        else ""
    )


def encode_write(
    values: Mapping[str, ParamValue], encoding: RequestEncoding, arrays: ArrayEncoding
) -> tuple[str, bytes | None, str | None]:
    """Return a write's query, body and media type."""
    match encoding:
        case RequestEncoding.QUERY:
            return encode_query(values, arrays), None, None
        case RequestEncoding.JSON:
            return (
                "",
                json.dumps({name: _json(value) for name, value in values.items()}).encode(),
                "application/json",
            )
        case RequestEncoding.FORM:
            form = urllib.parse.urlencode([*_pairs(values, arrays)])
            return "", form.encode(), "application/x-www-form-urlencoded"


def _pairs(values: Mapping[str, ParamValue], arrays: ArrayEncoding) -> Iterator[tuple[str, str]]:
    """Give names and strings one by one: a traceback with locals would show the secrets in a list of them."""
    for name, value in values.items():
        if not isinstance(value, tuple):
            yield _string(name), _string(value)
        elif arrays is ArrayEncoding.COMMA:
            if any("," in item for item in value):
                problem = f"{name}: a value with a comma can't be sent as ArrayEncoding.COMMA"
                raise ConfigurationError(problem, argument=_string(name))
            if value:
                yield _string(name), ",".join(value)
        else:
            key = _string(name) + ("[]" if arrays is ArrayEncoding.BRACKETS else "")
            yield from ((key, _string(item)) for item in value)


def _string(value: str | float | dt.date) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.date):
        return value.isoformat()
    # str() of an enum's member would be its name
    if isinstance(value, str):
        return str.__str__(value)
    return int.__repr__(value) if isinstance(value, int) else float.__repr__(value)


def _json(value: ParamValue) -> str | float | list[str]:
    if isinstance(value, tuple):
        return list(value)
    # the reference types booleans as strings: "true" and "false" in JSON too
    return (
        value if isinstance(value, int | float) and not isinstance(value, bool) else _string(value)
    )
