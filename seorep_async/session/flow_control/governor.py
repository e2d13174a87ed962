"""Who may send now: one governor a client, which grants permits to the most urgent first."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections import defaultdict
from typing import TypeAlias

import msgspec

from seorep_async.errors import RateLimitedError
from seorep_async.session.clock import Alarm, Clock
from seorep_async.session.flow_control.admission_control import AdmissionControl, Permit
from seorep_async.session.retry_policy import RetryQuota, Signal
from seorep_async.settings import Settings

_Outcome: TypeAlias = Permit | RateLimitedError | None


class _Waiter(msgspec.Struct, eq=False):
    """One that waits for a permit."""

    priority: int
    arrival: int
    deadline: float
    group: object
    refused: bool
    subject: str | None
    turn: asyncio.Future[_Outcome]

    def __lt__(self, other: _Waiter) -> bool:
        return (self.priority, self.arrival) < (other.priority, other.arrival)

    def end(self, outcome: _Outcome) -> None:
        """End the wait, if it has not ended."""
        if not self.turn.done():
            self.turn.set_result(outcome)


class Governor:
    """Grants a permit for each attempt as soon as `AdmissionControl` admits one.

    Args:
        settings: `max_concurrency`, `requests_per_second`, `retry_after_max`, `call_timeout`.
        clock: time and alarms.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._clock = clock
        self._longest_wait = settings.retry_after_max
        self._longest_outage = math.inf if settings.call_timeout is None else settings.call_timeout
        self.admission: AdmissionControl = AdmissionControl(settings)
        self._closed = False
        self._waiting: list[_Waiter] = []
        self._arrivals = itertools.count()
        self._alarm: Alarm | None = None
        self.quota: RetryQuota = RetryQuota()
        self.waited: defaultdict[str, float] = defaultdict(float)

    def try_acquire(self, deadline: float, refused: bool = False, subject: str | None = None) -> Permit | None:
        """Return a permit if one is free at once and nobody waits, else None, without awaiting.

        Args:
            deadline: monotonic time after which a permit is of no use.
            refused: whether the request was refused before (429, 503).
            subject: what the request is about, such as a campaign, or None.
        """
        admission = self.admission
        if self._waiting or self._closed or admission.is_full:
            return None
        now = self._clock.monotonic()
        if now >= deadline or admission.obstacle(now) is not None:
            return None
        return admission.start(now, refused, subject)

    async def acquire(
        self,
        priority: int,
        deadline: float,
        group: object = None,
        refused: bool = False,
        subject: str | None = None,
    ) -> Permit | None:
        """Wait for a permit for one attempt.

        Args:
            priority: the lowest is served first, equals in the order of their arrival.
            deadline: monotonic time after which a permit is of no use.
            group: identifies the request for `withdraw`, or None.
            refused: whether the request was refused before (429, 503).
            subject: what the request is about, such as a campaign, or None.

        Returns:
            The permit, to be given to `release`; or None if the deadline passed, or an outage has lasted for
            `call_timeout`, or the attempt was withdrawn, or the governor closed.

        Raises:
            RateLimitedError: the service asked for a pause past the deadline, or past `retry_after_max`.
        """
        now = self._clock.monotonic()
        if now >= deadline or self._closed:
            return None
        if self._pause_is_too_long(now, deadline):
            raise _asked_to_wait(self.admission.paused_until - now)
        obstacle = self.admission.obstacle(now)
        if obstacle is None and not self._waiting:
            return self.admission.start(now, refused, subject)
        reason = "concurrency" if obstacle is None else obstacle[0]
        if deadline == math.inf and self._outage_is_too_long(now):
            return None
        turn: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(priority, next(self._arrivals), deadline, group, refused, subject, turn)
        heapq.heappush(self._waiting, waiter)
        if obstacle is None or obstacle[1] < math.inf:  # else there is nothing to do until an attempt ends
            self._dispatch()
        try:
            outcome = await self._turn_of(waiter, now)
        finally:
            self.waited[reason] += self._clock.monotonic() - now
        if isinstance(outcome, RateLimitedError):
            raise outcome
        return outcome

    async def _turn_of(self, waiter: _Waiter, now: float) -> _Outcome:
        """Wait for a waiter's turn, or for its deadline."""
        wait = waiter.deadline - now
        expiry = None if wait == math.inf else self._clock.call_later(wait, lambda: waiter.end(None))
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            turn = waiter.turn
            if turn.done() and not turn.cancelled() and isinstance(permit := turn.result(), Permit):
                self.release(permit, None)  # granted as we were cancelled
            raise
        finally:
            if expiry is not None:
                expiry.cancel()

    def courtesy(self, subject: str | None, deadline: float) -> float:
        """Return how many seconds a retry leaves to those that wait for the pace, if its subject alone is refused."""
        return self.admission.courtesy(subject, len(self._waiting), deadline - self._clock.monotonic())

    def withdraw(self, group: object) -> None:
        """End the waits of a group; its members get no permit."""
        for waiter in self._waiting:
            if waiter.group is group:
                waiter.end(None)
        self._dispatch()

    def close(self) -> None:
        """Stop granting permits and wake all waiters."""
        self._closed = True
        for waiter in self._waiting:
            waiter.end(None)
        self._dispatch()

    def release(self, permit: Permit, signal: Signal | None, retry_after: float | None = None) -> None:
        """Take a permit back.

        Args:
            permit: from `acquire` or `try_acquire`.
            signal: the attempt's outcome, or None if it was cancelled.
            retry_after: seconds that the service asked to wait, or None.
        """
        now = self._clock.monotonic()
        paused_until = self.admission.paused_until
        self.admission.end(permit, signal, retry_after, now)
        self._end_hopeless(now, paused_until)
        if self._waiting:
            self._dispatch()

    def observe(self, permit: Permit, signal: Signal, retry_after: float | None) -> None:
        """Learn from a response of which the status said nothing; the permit was released.

        Args:
            permit: of the attempt.
            signal: the outcome.
            retry_after: seconds that the service asked to wait, or None.
        """
        now = self._clock.monotonic()
        paused_until = self.admission.paused_until
        self.admission.record(permit, signal, retry_after, now)
        self._end_hopeless(now, paused_until)

    def _end_hopeless(self, now: float, paused_until: float) -> None:
        """End the waits that a longer pause, or a long outage, leaves without hope."""
        if self.admission.paused_until > paused_until:
            for waiter in self._waiting:
                if self._pause_is_too_long(now, waiter.deadline):
                    waiter.end(_asked_to_wait(self.admission.paused_until - now))
        if self._outage_is_too_long(now):
            for waiter in self._waiting:
                if waiter.deadline == math.inf:
                    waiter.end(None)

    def _pause_is_too_long(self, now: float, deadline: float) -> bool:
        return self.admission.paused_until - now > min(self._longest_wait, deadline - now)

    def _outage_is_too_long(self, now: float) -> bool:
        breaker = self.admission.breaker
        return breaker.is_open and now - breaker.opened > self._longest_outage

    def _dispatch(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self._waiting:
            waiter = self._waiting[0]
            if waiter.turn.done():
                heapq.heappop(self._waiting)
                continue
            now = self._clock.monotonic()
            obstacle = self.admission.obstacle(now)
            if obstacle is not None:
                if obstacle[1] < math.inf:
                    self._alarm = self._clock.call_later(obstacle[1] - now, self._dispatch)
                return
            waiter = self._choose_probe() if self.admission.breaker.is_open else heapq.heappop(self._waiting)
            waiter.turn.set_result(self.admission.start(now, waiter.refused, waiter.subject))

    def _choose_probe(self) -> _Waiter:
        """Take out the newest waiter with a clean record as the probe."""
        self._waiting = [waiter for waiter in self._waiting if not waiter.turn.done()]
        is_doubtful = self.admission.is_doubtful
        chosen = max(self._waiting, key=lambda one: (not is_doubtful(one.subject, one.refused), one))
        self._waiting.remove(chosen)
        heapq.heapify(self._waiting)
        return chosen


def _asked_to_wait(seconds: float) -> RateLimitedError:
    message = f"not sent, because the service asked for a pause of another {seconds:.3g} s"
    return RateLimitedError(message, retry_after=seconds)
