"""When an attempt may start, and what its outcome changes: the only caller of the rules, the time is given."""

from __future__ import annotations

import copy
import math

import msgspec

from seorep_async.session.flow_control.circuit_breaker import CircuitBreaker, FailingSubjects
from seorep_async.session.flow_control.concurrency_limit import ConcurrencyLimit
from seorep_async.session.flow_control.rate_limiter import RateLimiter
from seorep_async.session.retry_policy import Signal
from seorep_async.settings import Settings


class Permit(msgspec.Struct, eq=False):
    """A permit for one attempt; release it with the attempt's outcome."""

    started: float
    probe: bool
    """Whether the attempt finds out if the service accepts anything again."""
    refused: bool
    """Whether the request was refused before."""
    subject: str | None
    """What the request is about, such as a campaign."""


class AdmissionControl:
    """Admits attempts at the rate and in the number that the service accepts."""

    LONGEST_PAUSE = 3600.0
    """Seconds for which a refusal can stop everything; no mistake in a header should do so for ever."""
    MOST_COURTEOUS = 10.0
    """Seconds for which a retry lets others go first, at most."""

    def __init__(self, settings: Settings) -> None:
        self._concurrency = ConcurrencyLimit(settings.max_concurrency)
        self._rate = RateLimiter(settings.requests_per_second)
        self.failing: FailingSubjects = FailingSubjects()
        self.breaker: CircuitBreaker = CircuitBreaker()
        self.in_flight: int = 0
        """Attempts in flight."""
        self.refused_in_a_row: int = 0
        """Attempts that ended last, if all of them were refused."""

    def without_attempts(self) -> AdmissionControl:
        """Return one that begins again with the pause and the limits that were found; an outage may have ended."""
        successor = copy.copy(self)
        successor.failing, successor.breaker = FailingSubjects(), CircuitBreaker()
        successor.in_flight = successor.refused_in_a_row = 0
        return successor

    @property
    def paused_until(self) -> float:
        """The end of the pause that the service asked for last."""
        return self._rate.waits_until

    @property
    def concurrency(self) -> int:
        """Attempts that may be in flight once the start is over."""
        return self._concurrency.limit_after_start

    @property
    def pace(self) -> float | None:
        """Attempts a second that may start now, or None where no limit is known."""
        return None if self._rate.rate == math.inf else self._rate.rate

    @property
    def is_full(self) -> bool:
        """Whether as many attempts are in flight as may be now."""
        return self.in_flight + 1 > self._concurrency.window

    def is_doubtful(self, subject: str | None, refused: bool) -> bool:
        """Return whether a refusal may be about the request alone."""
        return refused or self.failing.has(subject)

    def courtesy(self, subject: str | None, waiting: int, remaining: float) -> float:
        """Return how many seconds a retry leaves to the waiting ones, if its subject alone is refused."""
        if not (self._rate.is_known and self.failing.has(subject)):
            return 0.0
        return min(waiting / self._rate.rate, self.MOST_COURTEOUS, remaining / 4)

    def pause_is_too_long(self, now: float, deadline: float, longest_wait: float) -> bool:
        """Return whether the service asked for a pause beyond a deadline, or of more seconds than a client waits."""
        return self.paused_until - now > min(longest_wait, deadline - now)

    def outage_is_too_long(self, now: float, longest: float) -> bool:
        """Return whether nothing was accepted for more seconds than the longest outage."""
        return self.breaker.is_open and now - self.breaker.opened > longest

    def obstacle(self, now: float) -> tuple[str, float] | None:
        """Return why no attempt may start now, and when to look again; None where one may."""
        if self.is_full and (moment := self._concurrency.next_start(now)) > now:
            return "concurrency", moment
        if (moment := self._rate.waits_until) > now:
            return "asked to wait", moment
        if (moment := self.breaker.next_start(now)) > now:
            return self.breaker.reason, moment
        if (moment := self._rate.next_start(now)) > now:
            return "pace", moment
        return None

    def start(self, now: float, refused: bool, subject: str | None) -> Permit:
        """Note that an attempt starts."""
        is_probe = self.breaker.is_open
        self.in_flight += 1
        self._rate.start(now, probe=is_probe)
        if is_probe:
            self.breaker.start_probe(now)
        return Permit(now, is_probe, refused, subject)

    def end(
        self, permit: Permit, signal: Signal | None, retry_after: float | None, longest_wait: float, now: float
    ) -> None:
        """Note that an attempt ended, and learn from its outcome; None if it was cancelled."""
        if signal is not None:
            self.record(permit, signal, retry_after, longest_wait, now)
        self.in_flight -= 1
        if permit.probe:
            self.breaker.end_probe()

    def record(
        self, permit: Permit, signal: Signal, retry_after: float | None, longest_wait: float, now: float
    ) -> None:
        """Learn from an outcome; waits are in seconds, and the client waits for `longest_wait` at most."""
        if signal is Signal.FINE:
            self.refused_in_a_row = 0
            self._record_success(permit, now)
        elif signal in (Signal.THROTTLED, Signal.OVERLOADED):
            self.refused_in_a_row += 1
            if retry_after is not None:
                self._pause(permit, signal, retry_after, longest_wait, now)
            self._record_refusal(permit, now)
        else:
            self.refused_in_a_row = 0
            if signal is Signal.TIMED_OUT:
                self._concurrency.record_timeout(permit.started, now)
            self.breaker.record_failure(now)

    def _record_success(self, permit: Permit, now: float) -> None:
        breaker, concurrency = self.breaker, self._concurrency
        self.failing.record_success(permit.subject)
        self._rate.record_success(permit.started, now)
        concurrency.record_success(self.in_flight)
        if permit.started <= breaker.opened and breaker.is_open:
            concurrency.count_in_sample()
        if breaker.record_success(permit.started) == "pace":
            self._decrease(now)

    def _decrease(self, now: float) -> None:
        """Judge the cause of the refusal that opened the breaker, as it closes."""
        breaker, rate = self.breaker, self._rate
        if rate.is_known or self.paused_until > breaker.opened or not self._concurrency.end_sample():
            resumed = now if breaker.probes == 1 else max(breaker.opened, min(now, self.paused_until))
            rate.decrease(breaker.opened, now, resumed - breaker.opened)
        rate.reset_counts()

    def _record_refusal(self, permit: Permit, now: float) -> None:
        breaker, concurrency = self.breaker, self._concurrency
        is_first_guess = self._rate.is_first_guess or concurrency.is_first_guess
        is_doubtful = not is_first_guess and self.is_doubtful(permit.subject, permit.refused)
        counts = self._counts(permit, now, is_doubtful)
        if permit.started <= breaker.opened:
            return
        if counts and not breaker.is_open and not concurrency.step_back(permit.started, now, self.in_flight):
            if self.paused_until > now or not self._rate.start_train(now):
                concurrency.start_sample(self.in_flight)
                breaker.open("pace", now, 1 / self._rate.rate)
        elif not is_doubtful or permit.probe:
            breaker.record_failure(now)

    def _counts(self, permit: Permit, now: float, is_doubtful: bool) -> bool:
        """Return whether a refusal says something about the rate or the attempts in flight."""
        rate = self._rate
        same_subject = self.failing.record_refusal(permit.subject)
        if rate.record_refusal(permit.started, now, is_doubtful=is_doubtful, same_subject=same_subject):
            return True
        waits_again = rate.waits > 1 and self.paused_until > now and (rate.is_known or not same_subject)
        return not is_doubtful and (self._concurrency.is_known or waits_again)

    def _pause(self, permit: Permit, signal: Signal, seconds: float, longest_wait: float, now: float) -> None:
        """Obey Retry-After; a 503 that asks for longer than calls wait may be about its subject alone."""
        is_long = signal is Signal.OVERLOADED and seconds > longest_wait
        if not is_long or self.failing.record_long_wait(permit.subject, permit.started, now):
            longest = max(longest_wait, self.LONGEST_PAUSE)
            self._rate.record_wait(now, now + min(seconds, longest))
