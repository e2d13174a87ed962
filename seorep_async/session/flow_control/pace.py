"""Adaptive pacing: when the next attempt may start, learnt from what the service accepts.

Callers pass the time in; nothing here reads a clock or draws a random number. There are seven
rules. A comment marks each one at the line that applies it, here or in another file:

1. A 429 or a 503 is a refusal. Its Retry-After pauses everybody, unless it is a 503 that one
   subject receives again while others are accepted.
2. The concurrency window (`window`) grows with each accepted attempt and shrinks with
   timeouts and lost connections.
3. Refusals beyond a tolerated share add up to an excess (`refusals`).
4. Too much excess opens the circuit breaker (`breaker`), and so do `FAILURES_THAT_OPEN` failures
   in a row. Then only probes go out until one is accepted. A probe that fails, but is not refused,
   shows an outage, whose seconds say nothing about the rate.
5. If the breaker was open for more than a second, the rate delivered before is the limit. But an
   outage may have opened it, so the limit is at least half of the previous one. If the breaker was
   open for less, the limit lies between the delivered rate and the rate at which attempts started.
   If it was open for less than a second at the previous cut and for longer at this one, an outage
   opened it: the limit is at least the previous one, or the current rate if that is lower.
   The rate (`rate`) drops to 80 % of the limit, is held for a while, and is then raised by each
   accepted attempt. The first opening shows no limit if most attempts that started after a refused
   one were accepted.
6. The rate doubles while no limit is known, or once enough attempts were accepted above the last.
7. If a lower rate does not make refusals rarer, they are random, and are tolerated. But if the
   delivered rate was the same before several cuts in a row, it is a limit.
"""

from __future__ import annotations

import math

from seorep_async.session.flow_control.breaker import Circuit, CircuitBreaker, WaitReason
from seorep_async.session.flow_control.rate import SPAN, DeliveredRate, Rate
from seorep_async.session.flow_control.refusals import (
    LARGEST_DROP,
    ExcessRefusals,
    LaterAttempts,
    RefusedSubjects,
    Subject,
)
from seorep_async.session.flow_control.window import ConcurrencyWindow
from seorep_async.settings import Settings


class Pace:
    """Decides when the next attempt may start, for all clients with common limits.

    The queue asks the pace before each permit, and reports the end of each attempt to it.
    """

    def __init__(self, settings: Settings) -> None:
        self.window: ConcurrencyWindow = ConcurrencyWindow(settings.max_concurrency)
        self.rate: Rate = Rate(cap=settings.requests_per_second or math.inf)
        self.delivered: DeliveredRate = DeliveredRate()
        self.breaker: CircuitBreaker = CircuitBreaker()
        self.refusals: ExcessRefusals = ExcessRefusals()
        # the attempts that started after the first refused one
        self.later_attempts: LaterAttempts = LaterAttempts()
        self.refused_subjects: RefusedSubjects = RefusedSubjects()
        self.last_start: float = -math.inf
        self.paused_until: float = -math.inf
        # when the rate, and not a subject, was last found to be the cause of a refusal
        self.rate_refused_at: float = -math.inf

    def next_start(self, now: float, in_flight: int) -> tuple[WaitReason, float]:
        """Return why the next attempt waits, and when it may start."""
        is_open = self.breaker.is_open
        # Probes are few, so the window does not limit them.
        most_in_flight = self.window.ceiling if is_open else self.window.size
        if in_flight + 1 > most_in_flight:
            # It may start when a permit comes back, and no time is known for that.
            return WaitReason.CONCURRENCY, math.inf
        if self.paused_until > now:
            return WaitReason.PAUSE, self.paused_until
        if is_open:
            return self.breaker.wait_reason, self.breaker.probe_due()
        # While no limit is known, this is a time in the past.
        return WaitReason.PACE, self.rate.next_start

    def start(self, now: float, subject: Subject | None) -> bool:
        """Record the start of an attempt. Return whether it is a probe."""
        if self.breaker.is_open:
            # Rule 4: only probes go out.
            is_dead = self.refused_subjects.is_cause(subject)
            self.breaker.start_probe(self.rate.interval, now, tells_of_service=not is_dead)
            self.last_start = now
            # While no limit is known, an attempt for a dead campaign, whose requests are always
            # refused, is not called a probe. Otherwise its call would get three times as many
            # attempts.
            return not is_dead or self.rate.is_limited
        # After an idle time, the attempts accepted before it no longer show a rate.
        if now > max(self.rate.next_start, self.last_start) + SPAN:
            self.delivered.restart(now)
        self.last_start = now
        if self.rate.is_limited:
            self.rate.set_next_start(now)
        return False

    def accept(self, started: float, subject: Subject | None, now: float) -> None:
        """Record that the service accepted an attempt."""
        self.window.accept()
        self.delivered.accepted += 1
        self.rate.accepted_in_a_row += 1
        self.refusals.accept(is_held=now < self.rate.held_until)
        if self.refused_subjects.accept(subject, started, is_limited=self.rate.is_limited):
            # The subject was not the cause of its refusals, so the rate was.
            self.rate_refused_at = now
        if self.breaker.accept(started, now):
            if self.breaker.state is Circuit.OPEN_BY_REFUSALS:
                self._cut(now)
            else:
                self.delivered.restart(now)
            self.breaker.close()
            return
        if started > self.later_attempts.first_refused_start:
            # A probe that closes the breaker is not counted: after a pause, it shows no rate.
            self.later_attempts.balance += 1
        # An attempt that was in flight when the breaker opened was sent at an earlier rate.
        if started > self.breaker.opened_at:
            self._raise_rate(now)

    def _raise_rate(self, now: float) -> None:
        """Raise the rate unless it is held."""
        # Rule 5: accepted attempts raise the rate. If attempts raised it as they start, refused
        # ones would raise it as well, and the limit would be estimated too high.
        if not self.rate.may_rise(now):
            return
        # Rule 6: once enough attempts were accepted above the last limit, the rate doubles.
        if self.rate.outgrew_limit():
            self.rate.slow_start = True
            self.delivered.begin_doubling(now)
        self.rate.grow()

    def _cut(self, now: float) -> None:
        """Set the rate when the breaker closes."""
        self.refusals.end_hold()
        was_paused = self.paused_until > self.breaker.opened_at
        seconds_open = now - max(self.breaker.opened_at, self.paused_until)
        if seconds_open > SPAN:
            # Everything was refused, so these refusals say nothing about their subjects. If the
            # subjects were remembered, further refusals of theirs would not count. But those that
            # were refused before may be dead campaigns. If they were forgotten as well, a pull at
            # a low limit could take three times as long.
            self.refused_subjects.forget_since(self.breaker.opened_at)
        if self.rate.is_limited:
            delivered = self._delivered_since_cut(now, seconds_open)
            self.rate.cut(delivered, seconds_open, self.last_start, now, was_paused=was_paused)
        else:
            self._set_first_rate(now)

    def _set_first_rate(self, now: float) -> None:
        """Set the rate when the breaker closes and no limit is known yet."""
        # Rule 5: until the breaker opened, the service delivered its limit. It may have let
        # through a burst, so a second is the shortest span.
        delivered = self.delivered.per_second(now)
        # But if most attempts that started after a refused one were accepted, only a few dead
        # campaigns were refused. Attempts may then go on at the rate so far.
        if self.later_attempts.balance > 0:
            delivered = max(delivered, self.delivered.per_second_until(self.breaker.opened_at))
        self.later_attempts.begin(math.inf)
        self.rate.start_from(delivered, self.last_start)
        self.delivered.restart(now)

    def _delivered_since_cut(self, now: float, seconds_open: float) -> float | None:
        """Return the delivered rate, or None if it was measured for less than a second."""
        # There are three cases:
        # 1. The caller's own cap was the rate, so it is a good guess of the limit. The first cut of
        #    a client with a cap comes here, because `learnt` is still infinite.
        if self.rate.learnt > self.rate.cap:
            self.rate.learnt = self.rate.cap
            self.delivered.restart(now)
            return self.rate.cap
        # 2. Since the breaker last closed, or slow start began, less than a second has passed.
        if self.delivered.seconds_of_doubling(now) < SPAN:
            return None
        # 3. The service refused because its limit was reached. Rule 5: whether the delivered rate
        #    is the limit, or lies below it, depends on `seconds_open`, and `Rate.cut` decides it.
        delivered = self.delivered.per_second(now)
        if seconds_open > SPAN:
            # An outage that answers 503 looks like a very low limit. It may also begin before the
            # first rate was ever cut.
            limit_before = self.refusals.delivered_before or self.rate.refused_at
            delivered = max(delivered, LARGEST_DROP * limit_before)
            # A limiter that accepted again soon at the last cut would do so now. So this is an
            # outage, and the limit is still the one found at that cut.
            if self.rate.accepted_soon:
                delivered = max(delivered, self.rate.refused_at)
        self.refusals.compare_delivered(delivered)
        self.delivered.restart(now)
        return delivered

    def pause(self, now: float, until: float) -> None:
        """Obey a Retry-After."""
        # Rule 1: it pauses everybody. Overlapping pauses count once, and one that would end before
        # the present pause adds nothing.
        begins = max(now, self.paused_until)
        self.delivered.paused += max(0.0, until - begins)
        self.paused_until = max(self.paused_until, until)

    def refuse(
        self, started: float, subject: Subject | None, pauses_everybody: bool, now: float
    ) -> None:
        """Record a refusal, after `pause` if it pauses everybody."""
        is_first = subject not in self.refused_subjects
        self.refused_subjects.refuse(subject, started, now)
        self.later_attempts.refuse(started)
        # An attempt that was in flight when the breaker opened is already accounted for.
        if started <= self.breaker.opened_at:
            return
        # A refused probe leaves the breaker open, and changes nothing else.
        if self.breaker.is_open or self._may_be_ignored(subject, pauses_everybody):
            return
        if is_first:
            self.rate_refused_at = now
        self.rate.accepted_in_a_row = 0
        if not self.rate.is_limited and self.refusals.excess == 0:
            self.later_attempts.begin(started)
        too_many = self.refusals.refuse(is_held=now < self.rate.held_until)
        # Rule 4: too much excess opens the breaker. Once a limit is known, so does each pause.
        if too_many or (pauses_everybody and self.rate.is_limited):
            self._open(Circuit.OPEN_BY_REFUSALS, now)
        else:
            # Rule 4: enough failures in a row open the breaker as well.
            self.fail(started, now)
            # A random refusal raises the rate as well, or the rate would stay too low.
            if self.refusals.are_random and not self.breaker.is_open:
                self._raise_rate(now)

    def _may_be_ignored(self, subject: Subject | None, pauses_everybody: bool) -> bool:
        """Return whether a refusal may be about its subject, and not about the rate."""
        # Rule 3: another refusal of a subject does not count if attempts that started after its
        # first refused one were accepted. The subject may then be the cause. A refusal that pauses
        # everybody may be repeated by chance, so it counts until the subject is surely the cause.
        if pauses_everybody:
            return self.refused_subjects.is_cause(subject)
        return self.refused_subjects.may_be_cause(subject)

    def refuse_by_gateway(self, started: float, subject: Subject | None, now: float) -> None:
        """Record the page of a firewall or an ingress, which says nothing about the rate."""
        # A second page for one subject may concern only that subject, so it is no failure of the
        # service. Only pages for many subjects in a row are an outage.
        is_repeated = subject in self.refused_subjects
        self.refused_subjects.refuse(subject, started, now)
        if not is_repeated:
            self.fail(started, now)

    def lose(self, started: float, now: float) -> None:
        """Record that an attempt lost its connection, or had no response in time."""
        self.window.lose(started, now)
        self.fail(started, now)

    def fail(self, started: float, now: float) -> None:
        """Record that an attempt failed for another reason."""
        if self.breaker.fail(started):
            self._open(Circuit.OPEN_BY_OUTAGE, now)

    def _open(self, state: Circuit, now: float) -> None:
        self.breaker.open(state, self.rate.interval, now)
        self.refusals.excess = 0.0

    def restart(self) -> None:
        """Start again at the known rate, because an outage may have ended."""
        self.breaker.reset()
        self.refused_subjects.clear()
        # The last attempt may have been a probe, which does not move the next start.
        self.rate.next_start = max(self.rate.next_start, self.last_start + self.rate.interval)
