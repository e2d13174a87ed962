"""Who may send now: one governor a client, which asks all rules before an attempt starts."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections import defaultdict
from typing import TypeAlias

import msgspec

from seorep_async.errors import RateLimitedError
from seorep_async.session.adaptive_concurrency import AdaptiveConcurrency
from seorep_async.session.circuit_breaker import CircuitBreaker, Suspects
from seorep_async.session.clock import Alarm, Clock
from seorep_async.session.rate_limiter import RateLimiter
from seorep_async.session.retry_policy import RetryQuota, Signal
from seorep_async.settings import Settings


class Permit(msgspec.Struct, eq=False):
    """A permit for one attempt; release it with the attempt's outcome.

    Attributes:
        started: when it was given.
        probe: whether the attempt finds out if the service accepts anything again.
        refused: whether the request was refused before.
        subject: what the request is about, such as a campaign, or None.
    """

    started: float
    probe: bool
    refused: bool
    subject: str | None


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
    """Lets attempts start when all rules allow it, the most urgent first.

    Args:
        settings: `max_concurrency`, `requests_per_second`, `retry_after_max`.
        clock: time and alarms.
    """

    LONGEST_PAUSE = 3600.0
    """Seconds for which a refusal can stop everything; no mistake in a header should do so for ever."""
    MOST_COURTEOUS = 10.0
    """Seconds for which a retry lets others go first, at most."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._clock = clock
        self._longest_wait = settings.retry_after_max
        self._longest_outage = math.inf if settings.call_timeout is None else settings.call_timeout
        self._concurrency = AdaptiveConcurrency(settings.max_concurrency)
        self._rate = RateLimiter(settings.requests_per_second)
        self._breaker = CircuitBreaker()
        self._suspects = Suspects()
        self._paused_until = -math.inf
        self._refusal_to_judge = False
        self.in_flight: int = 0
        """Attempts in flight."""
        self.refused_in_a_row: int = 0
        """Attempts that ended last, if all of them were refused."""
        self._closed = False
        self._waiting: list[_Waiter] = []
        self._arrivals = itertools.count()
        self._alarm: Alarm | None = None
        self.quota: RetryQuota = RetryQuota()
        self.waited: defaultdict[str, float] = defaultdict(float)

    def inherit(self, earlier: Governor) -> None:
        """Begin with the limits that a governor that was closed had found; an outage may have ended since."""
        self._concurrency, self._rate = earlier._concurrency, earlier._rate
        self._suspects, self._paused_until = earlier._suspects, earlier._paused_until

    @property
    def concurrency(self) -> int:
        """Attempts that may be in flight once the start is over."""
        return self._concurrency.limit_after_start

    @property
    def pace(self) -> float | None:
        """Attempts a second that may start now, or None where no limit is known."""
        return None if self._rate.rate == math.inf else self._rate.rate

    def try_acquire(self, deadline: float, refused: bool = False, subject: str | None = None) -> Permit | None:
        """Return a permit if one is free at once and nobody waits, else None: the way without a coroutine.

        Args:
            deadline: monotonic time after which a permit is of no use.
            refused: whether the request was refused before (429, 503).
            subject: what the request is about, such as a campaign, or None.
        """
        if self._waiting or self._closed or self.in_flight >= self._concurrency.limit:
            return None
        now = self._clock.monotonic()
        if now >= deadline or self._obstacle(now) is not None:
            return None
        return self._start(now, refused, subject)

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
            raise _asked_to_wait(self._paused_until - now)
        obstacle = self._obstacle(now)
        if obstacle is None and not self._waiting:
            return self._start(now, refused, subject)
        reason = "concurrency" if obstacle is None else obstacle[0]
        if self._breaker.is_open and deadline == math.inf and self._outage_is_too_long(now):
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
        if not (self._rate.is_known and self._suspects.is_suspect(subject, refused=False)):
            return 0.0
        return min(len(self._waiting) / self._rate.rate, self.MOST_COURTEOUS, (deadline - self._clock.monotonic()) / 4)

    def withdraw(self, group: object) -> None:
        """End the waits of a group; its members get no permit."""
        for waiter in self._waiting:
            if waiter.group is group:
                waiter.end(None)
        self._dispatch()

    def close(self) -> None:
        """Give no permits any more, nor to those that wait."""
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
        if permit.probe:
            self._breaker.end_probe()
        if signal is not None:
            self.observe(permit, signal, retry_after)
        self.in_flight -= 1
        if self._waiting:
            self._dispatch()

    def observe(self, permit: Permit, signal: Signal, retry_after: float | None) -> None:
        """Learn from an attempt's outcome.

        Args:
            permit: of the attempt.
            signal: the outcome.
            retry_after: seconds that the service asked to wait, or None.
        """
        now = self._clock.monotonic()
        is_refusal = signal in (Signal.THROTTLED, Signal.OVERLOADED)
        self.refused_in_a_row = self.refused_in_a_row + 1 if is_refusal else 0
        if signal is Signal.FINE:
            self._record_success(permit, now)
            return
        if is_refusal:
            is_long = signal is Signal.OVERLOADED and (retry_after or 0) > self._longest_wait
            is_for_all = not is_long or self._suspects.record_long_wait(permit.subject, permit.started, now)
            if retry_after is not None and is_for_all:
                self._pause(retry_after, now)
            self._record_refusal(permit, now)
        else:
            if signal is Signal.TIMED_OUT:
                self._concurrency.record_timeout(permit.started, now)
            self._breaker.record_failure(now)
        if self._breaker.is_open and self._outage_is_too_long(now):
            for waiter in self._waiting:
                if waiter.deadline == math.inf:
                    waiter.end(None)

    def _record_success(self, permit: Permit, now: float) -> None:
        breaker, concurrency, rate = self._breaker, self._concurrency, self._rate
        self._suspects.record_success(permit.subject)
        rate.record_success(permit.started, now)
        concurrency.record_success(self.in_flight)
        if breaker.is_open and permit.started <= breaker.opened:
            concurrency.record_success_of_watched()
        if breaker.record_success(permit.started) and self._refusal_to_judge:
            self._refusal_to_judge = False
            if rate.is_known or self._paused_until > breaker.opened or not concurrency.judge():
                resumed = now if breaker.probes == 1 else max(breaker.opened, min(now, self._paused_until))
                rate.slow_down(breaker.opened, now, excused=resumed - breaker.opened)
            rate.forget()

    def _record_refusal(self, permit: Permit, now: float) -> None:
        breaker, concurrency, rate = self._breaker, self._concurrency, self._rate
        suspect = self._suspects.is_suspect(permit.subject, refused=permit.refused)
        suspect = suspect and not (rate.is_unproven or concurrency.is_unproven)
        again = self._suspects.record_refusal(permit.subject)
        is_news = rate.record_refusal(permit.started, now, suspect=suspect, again=again)
        waits_again = rate.waits > 1 and self._paused_until > now and (rate.is_known or not again)
        is_news = is_news or (not suspect and (concurrency.has_maximum or waits_again))
        if permit.started <= breaker.opened:
            return
        if is_news and not breaker.is_open and not concurrency.step_back(permit.started, now, self.in_flight):
            if self._paused_until <= now and rate.begin_trial(now):
                return
            self._refusal_to_judge = True
            concurrency.watch(self.in_flight)
            breaker.open(now, 1 / rate.rate)
        elif not suspect or permit.probe:
            breaker.record_failure(now)

    def _pause(self, seconds: float, now: float) -> None:
        self._paused_until = max(self._paused_until, now + min(seconds, max(self._longest_wait, self.LONGEST_PAUSE)))
        self._rate.record_wait(now, self._paused_until)
        for waiter in self._waiting:
            if self._pause_is_too_long(now, waiter.deadline):
                waiter.end(_asked_to_wait(self._paused_until - now))

    def _pause_is_too_long(self, now: float, deadline: float) -> bool:
        return self._paused_until - now > min(self._longest_wait, deadline - now)

    def _outage_is_too_long(self, now: float) -> bool:
        return now - self._breaker.opened > self._longest_outage

    def _obstacle(self, now: float) -> tuple[str, float] | None:
        """Return why nothing may start now, and when to look again; None where something may."""
        concurrency = self._concurrency
        if self.in_flight >= concurrency.limit and not concurrency.try_to_grow(now):
            return "concurrency", concurrency.grows_at
        if self._paused_until > now:
            return "asked to wait", self._paused_until
        if (moment := self._breaker.next_start(now)) > now:
            return "pace" if self._refusal_to_judge else "outage", moment
        if (moment := self._rate.next_start(now)) > now:
            return "pace", moment
        return None

    def _start(self, now: float, refused: bool, subject: str | None) -> Permit:
        self.in_flight += 1
        self._rate.start(now, probe=self._breaker.is_open)
        if self._breaker.is_open:
            self._breaker.start_probe(now)
        return Permit(now, self._breaker.is_open, refused, subject)

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
            obstacle = self._obstacle(now)
            if obstacle is not None:
                if obstacle[1] < math.inf:
                    self._alarm = self._clock.call_later(obstacle[1] - now, self._dispatch)
                return
            waiter = self._choose_probe() if self._breaker.is_open else heapq.heappop(self._waiting)
            waiter.turn.set_result(self._start(now, waiter.refused, waiter.subject))

    def _choose_probe(self) -> _Waiter:
        """Take out the last that is not suspect: it has least in common with those that were refused."""
        self._waiting = [waiter for waiter in self._waiting if not waiter.turn.done()]
        is_suspect = self._suspects.is_suspect
        chosen = max(self._waiting, key=lambda one: (not is_suspect(one.subject, refused=one.refused), one))
        self._waiting.remove(chosen)
        heapq.heapify(self._waiting)
        return chosen


def _asked_to_wait(seconds: float) -> RateLimitedError:
    message = f"not sent, because the service asked for a pause of another {seconds:.3g} s"
    return RateLimitedError(message, retry_after=seconds)
