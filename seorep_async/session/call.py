"""The state of one call, from its request to its last attempt."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from seorep_async.errors import AttemptTimeoutError, ConnectionFailedError, NotFoundError, SeoRepError
from seorep_async.session.request import Request
from seorep_async.session.retry_policy import Failure, certainly_not_executed

T = TypeVar("T")

_FIRST = -1  # retries go before first attempts


class Call(msgspec.Struct, Generic[T], eq=False):
    """A request on its way, with its changing state.

    Attributes:
        deadline: monotonic time at which the call must have ended; infinite before the first send if it starts there.
        refusals: of the key, before it began.
        idle_since: monotonic time since which it has waited: its beginning, or the end of the attempt before.
        started, ended: monotonic times of the last attempt.
        throttled: attempts that count as a third: 429, 503 with Retry-After, failed probes.
        spent: tokens of the retry quota that its retries cost.
        may_have_run: whether the service may have carried the request out already.
        failure: the last one, or None.
    """

    request: Request[T]
    deadline: float
    refusals: int
    idle_since: float
    started: float = 0.0
    ended: float = 0.0
    attempts: int = 0
    throttled: int = 0
    spent: int = 0
    may_have_run: bool = False
    failure: Failure | None = None

    @property
    def priority(self) -> int:
        """Its place in the queue for permits."""
        return _FIRST if self.attempts else self.request.priority

    @property
    def may_reuse(self) -> bool:
        """Whether the next attempt may reuse a connection: not if the last one had no response, of another fault."""
        lost = AttemptTimeoutError, ConnectionFailedError
        return self.failure is None or self.failure.no_room or not isinstance(self.failure.error, lost)

    def was_deleted_before(self, failure: Failure) -> bool:
        """Return whether an earlier attempt, whose response was lost, deleted the missing object."""
        return self.request.method == "DELETE" and self.may_have_run and isinstance(failure.error, NotFoundError)

    def start(self, now: float, longest: float) -> None:
        """Record the start of an attempt; from the first one, the call may take `longest` seconds."""
        if not self.attempts:
            self.deadline = min(self.deadline, now + longest)
        self.started = now
        self.attempts += 1

    def note(self, failure: Failure, *, probe: bool) -> None:
        """Record a failed attempt."""
        self.failure = failure
        self.throttled += probe or failure.asks_to_wait
        self.may_have_run = self.may_have_run or not certainly_not_executed(failure)

    def complete(self, error: SeoRepError) -> SeoRepError:
        """Add the facts of this call to an error."""
        request = self.request
        completed = error.evolve(
            subject=request.subject, method=request.method, path=request.path, attempts=self.attempts
        )
        completed.__cause__ = error.__cause__
        return completed
