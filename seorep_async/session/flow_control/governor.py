"""Who may send now: one governor a client, which waits for permits in a queue of its own or in a shared one."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict

from seorep_async.errors import RateLimitedError
from seorep_async.session.clock import Clock
from seorep_async.session.flow_control.admission_control import AdmissionControl, Permit
from seorep_async.session.flow_control.limits import Limits, Origin, Outcome, Waiter, asked_to_wait, permit_queue
from seorep_async.session.retry_policy import RetryQuota, Signal
from seorep_async.settings import Settings


class Governor:
    """Gets a permit for each attempt of one client."""

    def __init__(
        self, settings: Settings, clock: Clock, limits: Limits | None = None, origin: Origin | None = None
    ) -> None:
        self._clock = clock
        self._origin = origin
        self._longest_wait = settings.retry_after_max
        self._longest_outage = math.inf if settings.call_timeout is None else settings.call_timeout
        self._queue = permit_queue(settings, clock, limits)
        self._subjects = "" if limits is None else f"{next(self._queue.numbers)}/"  # others have other campaigns
        self.admission: AdmissionControl = self._queue.admission
        self._closed = False
        self._waiting: list[Waiter] = []
        self.in_flight: int = 0
        """Attempts of this client in flight."""
        self.quota: RetryQuota = RetryQuota()
        self.waited: defaultdict[str, float] = defaultdict(float)

    def open(self) -> None:
        """Begin in the running event loop, unless the limits are another's."""
        self.admission = self._queue.join(self._origin, self._clock)
        self._closed = False

    def try_acquire(self, deadline: float, refused: bool = False, subject: str | None = None) -> Permit | None:
        """Return a permit if one is free at once and nobody waits, else None, without awaiting; see `acquire`."""
        admission = self.admission
        if self._queue.turns or self._closed or admission.is_full:
            return None
        now = self._clock.monotonic()
        if now >= deadline or admission.obstacle(now) is not None:
            return None
        self.in_flight += 1
        return admission.start(now, refused, subject and self._subjects + subject)

    async def acquire(
        self, priority: int, deadline: float, group: object = None, refused: bool = False, subject: str | None = None
    ) -> Permit | None:
        """Wait for a permit for one attempt, the lowest priority first, equals in the order of their arrival.

        Return None if the deadline passed, or an outage has lasted for `call_timeout`, or the attempt was withdrawn
        with its group, or the governor closed. Raise a RateLimitedError if the service asked for a pause past the
        deadline, or past `retry_after_max`.
        """
        now = self._clock.monotonic()
        if now >= deadline or self._closed:
            return None
        admission, queue = self.admission, self._queue
        if admission.pause_is_too_long(now, deadline, self._longest_wait):
            raise asked_to_wait(admission.paused_until - now)
        subject = subject and self._subjects + subject
        obstacle = admission.obstacle(now)
        if obstacle is None and not queue.turns:
            self.in_flight += 1
            return admission.start(now, refused, subject)
        reason, moment = obstacle or ("concurrency", now)
        if deadline == math.inf and admission.outage_is_too_long(now, self._longest_outage):
            return None
        turn: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        place, patience = (priority, next(queue.numbers)), (self._longest_wait, self._longest_outage)
        waiter = Waiter(*place, deadline, *patience, group, refused, subject, turn)
        queue.add(waiter, self._waiting)
        if moment < math.inf:  # else there is nothing to do until an attempt ends
            queue.dispatch()
        try:
            return await self._turn_of(waiter, now)
        finally:
            self.waited[reason] += self._clock.monotonic() - now

    async def _turn_of(self, waiter: Waiter, now: float) -> Permit | None:
        """Wait for a waiter's turn, or for its deadline."""
        wait = waiter.deadline - now
        expiry = None if wait == math.inf else self._clock.call_later(wait, lambda: waiter.end(None))
        try:
            outcome = await waiter.turn
        except asyncio.CancelledError:
            turn = waiter.turn
            if turn.done() and not turn.cancelled() and isinstance(permit := turn.result(), Permit):
                self.in_flight += 1
                self.release(permit, None)  # granted as we were cancelled
            raise
        finally:
            if expiry is not None:
                expiry.cancel()
        if isinstance(outcome, RateLimitedError):
            raise outcome
        self.in_flight += outcome is not None
        return outcome

    def courtesy(self, subject: str | None, deadline: float) -> float:
        """Return how many seconds a retry leaves to those that wait for the pace, if its subject alone is refused."""
        remaining = deadline - self._clock.monotonic()
        return self.admission.courtesy(subject and self._subjects + subject, len(self._waiting), remaining)

    def withdraw(self, group: object) -> None:
        """End the waits of a group; its members get no permit."""
        for waiter in self._waiting:
            if waiter.group is group:
                waiter.end(None)
        self._queue.dispatch()

    def close(self) -> None:
        """Stop granting permits and wake all waiters; those of other clients wait on."""
        self._closed = True
        for waiter in self._waiting:
            waiter.end(None)
        self._queue.dispatch()
        self._queue.leave(self._subjects)

    def release(self, permit: Permit, signal: Signal | None, retry_after: float | None = None) -> None:
        """Take a permit back; an attempt that was cancelled has no signal, and `retry_after` is in seconds."""
        now, queue = self._clock.monotonic(), self._queue
        self.in_flight -= 1
        self.admission.end(permit, signal, retry_after, self._longest_wait, now)
        if queue.turns and self.admission is queue.admission:  # else an attempt of a closed loop is collected
            queue.end_hopeless(now)
            queue.dispatch()

    def observe(self, permit: Permit, signal: Signal, retry_after: float | None) -> None:
        """Learn from a response of which the status said nothing; the permit was released."""
        now = self._clock.monotonic()
        self.admission.record(permit, signal, retry_after, self._longest_wait, now)
        self._queue.end_hopeless(now)
