"""A `Request`, its `Response`, and a `Call`, which is the state of a request on its way."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from seorep_async.errors import NotFoundError, SeoRepError
from seorep_async.secret import PrivateStruct
from seorep_async.session.failures import Failure
from seorep_async.session.flow_control import Lane
from seorep_async.session.timeouts import Deadline

T = TypeVar("T")
E = TypeVar("E", bound=SeoRepError)
Decode: TypeAlias = Callable[[bytes], T]
"""Turns the body of a successful response into its result, or raises a SeoRepError.

For a page, it is a `FeedPage` or a `ModelPage` (`normalisation/decoder.py`). A `FeedPage` is a
`PageDecoder` (`models/decoding.py`) as well.
"""

_IDEMPOTENT_METHODS = ("GET", "PUT", "DELETE")


# a msgspec struct, because an attrs object takes ten times as long to create for every request
class Request(PrivateStruct, Generic[T]):
    """A request, with how to send it and how to read its response.

    Attributes:
        path: encoded, begins with `/v3`.
        query: encoded, without `?`. It may be private, so it is in no repr.
        body: the encoded body of a write.
        subject: the object's name in errors, such as `campaign 42`.
        priority: the lowest gets its permit first.
        deadline: the call's deadline. None gives the request its own, as in a stream.
        max_attempts: the maximum number of attempts, if it is lower than `Settings.max_attempts`.
        attempt_seconds: the time limit of an attempt, if it is shorter than
            `Settings.attempt_timeout`. An attempt that takes this long is the last.
        lane: the lane of its pull, or None for the lane of single calls and listings.
        first_rows: for a page of a pull, makes a request for that many first rows of the same
            listing.
        secrets: strings of the request that must not appear in an error, such as a password.
        private: whether it asks for new secrets, such as a login grant. It is not repeated, because
            each request may create some, and no error may quote the response.
    """

    method: str
    path: str
    decode: Decode[T]
    """For a page, continue at `FeedPage` or `ModelPage` in `normalisation/decoder.py`."""
    query: str = ""
    body: bytes | None = None
    content_type: str | None = None
    subject: str | None = None
    priority: int = 0
    deadline: Deadline | None = None
    max_attempts: float = math.inf
    attempt_seconds: float = math.inf
    lane: Lane | None = None
    first_rows: Callable[[int], Request[T]] | None = None
    private: bool = False
    secrets: tuple[str, ...] = ()

    @property
    def idempotent(self) -> bool:
        """Whether it may be sent again although the service may have carried it out.

        No operation decides this: a new write is not repeated unless its method allows it.
        """
        return self.method in _IDEMPOTENT_METHODS and not self.private

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return self.method == "GET" and not self.private

    def __repr__(self) -> str:
        # tracebacks show locals; the rest may be private
        return f"Request({self.method} {self.path})"


class Response(PrivateStruct):
    """A complete response of any status, with its body decompressed.

    Attributes:
        chunks: the body in the parts that arrived.
        retry_after: in seconds, or None.
        decoded: the result of a small body, set by the `ResponseReader`.
        size: the number of bytes in the body.
    """

    status: int
    chunks: list[bytes]
    retry_after: float | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    decoded: Any = None
    size: int = 0

    def __post_init__(self) -> None:
        self.size = sum(map(len, self.chunks))

    @property
    def body(self) -> bytes:
        """The whole body. Joining the chunks of a large one takes time."""
        body = b"".join(self.chunks)
        self.chunks = [body]
        return body

    def __repr__(self) -> str:
        return f"Response({self.status})"  # tracebacks show locals; the rest may be private


class Call(msgspec.Struct, Generic[T], eq=False):
    """The changing state of a request on its way.

    Attributes:
        deadline: when the call must have ended.
        idle_since: monotonic time at which its wait began: at its beginning, or at the end of the
            previous attempt.
        started, ended: monotonic times of the last attempt.
        throttled: failed attempts that count as a third each against `max_attempts`: failed
            probes, and those of `Failure.counts_a_third`.
        spent: tokens of the retry quota that its retries cost.
        may_have_run: whether the service may already have carried out the request.
        may_reuse: whether the next attempt may use an idle connection.
        failure: the latest failure, or None.
        response: the complete response to the last attempt, or None.
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
    may_reuse: bool = True
    failure: Failure | None = None
    response: Response | None = None

    def was_deleted_before(self, failure: Failure) -> bool:
        """Return whether an earlier attempt deleted the object, although its response was lost.

        Only the service's own 404 proves it. An ingress without a route sends a 404 as well.
        """
        if self.request.method != "DELETE" or not self.may_have_run:
            return False
        return isinstance(failure.error, NotFoundError) and failure.is_own_json

    def start(self, now: float) -> None:
        """Record the start of an attempt."""
        if self.attempts:
            self.idle_since = self.ended
        self.deadline = self.deadline.begun(now)
        self.started = now
        self.attempts += 1
        self.response = None

    def note(self, failure: Failure, *, counts_a_third: bool) -> None:
        """Record a failed attempt."""
        self.failure = failure
        # After an attempt without a response, the next one opens a connection, because a failover
        # kills all idle ones. If that fails as well, or our process can't open another one, the
        # idle ones are no worse: some firewalls refuse further connections, and the idle ones may
        # be as many as they allow.
        is_lost = failure.has_no_response and not failure.out_of_resources
        self.may_reuse = not (is_lost and self.may_reuse)
        if counts_a_third:
            self.throttled += 1
        if not failure.was_turned_away:
            self.may_have_run = True

    def complete(self, error: E, account: str) -> E:
        """Return a copy of an error with the facts of this call."""
        request = self.request
        completed = error.evolve(
            subject=request.subject,
            method=request.method,
            path=request.path,
            account=account,
            attempts=self.attempts,
        )
        # `evolve` does not copy the cause.
        completed.__cause__ = error.__cause__
        return completed
