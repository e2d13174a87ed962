"""The rate at which attempts may start, and the delivered rate from which it is learnt.

Rules are listed in `pace.py`.
"""

from __future__ import annotations

import math

import msgspec

from seorep_async.session.flow_control.refusals import ATTEMPTS_OF_HOLD

SPAN = 1.0
"""The shortest time, in seconds, over which a delivered rate is measured."""
_SHORTEST_SPAN = 0.1
"""The shortest time, in seconds, over which `per_second_until` measures. No limit was reached then.
"""
_DECREASE = 0.8  # a cut reduces the rate to this part of the delivered rate
_DECREASE_AFTER_PAUSE = 0.93  # the same if the service asked for a pause
_SHORTEST_HOLD = 1.5  # seconds that a rate is held after a cut, at least …
_LONGEST_HOLD = 12.0  # … and at most
_STEP = 8.0  # the increase of the rate in one second, in attempts per second
_LARGEST_STEP = 0.2  # the largest increase with one attempt
_DOUBLING_STEP = 1.0  # the same in slow start
_ENOUGH_ACCEPTED = 90  # more attempts in a row than this, all accepted, prove a higher limit …
_HIGHER = 1.1  # … if the rate is above this multiple of the refused rate
_SLOWEST = 0.2  # the lowest rate, in attempts per second
_LOWEST_FIRST = 3.0  # the lowest first rate
_CATCH_UP = 0.02  # seconds; a start that is later than this is not put down to a slow timer


class DeliveredRate(msgspec.Struct, eq=False):
    """Measures the rate of accepted attempts. The pace asks when the breaker closes.

    Attributes:
        since: when the counts began.
        accepted: attempts accepted since then.
        paused: seconds since then during which the service had asked for a pause.
        doubling_since: when slow start began, or `since`.
        accepted_before: `accepted` at that moment.
        paused_before: `paused` at that moment.
    """

    since: float = 0.0
    accepted: int = 0
    paused: float = 0.0
    doubling_since: float = 0.0
    accepted_before: int = 0
    paused_before: float = 0.0

    def restart(self, now: float) -> None:
        """Begin to count again from 0."""
        self.since = now
        self.accepted = 0
        self.paused = 0.0
        # until slow start begins, both rates of `per_second` are counted from `since`
        self.begin_doubling(now)

    def begin_doubling(self, now: float) -> None:
        """Note the counts with which slow start begins."""
        self.doubling_since = now
        self.accepted_before = self.accepted
        self.paused_before = self.paused

    def seconds_of_doubling(self, now: float) -> float:
        return now - self.doubling_since - self.paused + self.paused_before

    def per_second(self, now: float) -> float:
        """Return the accepted attempts per second, not counting pauses.

        This is the rate since the counts began, or since slow start began if that rate is higher.
        """
        overall = self.accepted / max(SPAN, now - self.since - self.paused)
        accepted_doubling = self.accepted - self.accepted_before
        # Without `doubling`, a rise of the limit would be averaged with the lower rate before it.
        # Without `overall`, a slow start at the end of a limiter's window would find too low a
        # limit.
        doubling = accepted_doubling / max(SPAN, self.seconds_of_doubling(now))
        return max(overall, doubling)

    def per_second_until(self, end: float) -> float:
        """Return the accepted attempts per second, which all started before `end`."""
        return self.accepted / max(_SHORTEST_SPAN, end - self.since - self.paused)


class Rate(msgspec.Struct, eq=False):
    """Decides how far apart attempts start. The rate is learnt, held, and then raised.

    The pace asks before each attempt, and sets the rate when the breaker closes.

    Attributes:
        cap: the caller's own limit, `requests_per_second`.
        learnt: attempts per second that the service accepts; infinite until a limit is found.
        refused_at: the rate at which the service last refused.
        next_start: when the next attempt may start.
        held_until: when the rate stops being held.
        slow_start: whether the rate doubles in about a second.
        accepted_in_a_row: attempts accepted since the last refusal.
        accepted_soon: whether, at the last cut, the service accepted again within a second.
        is_used: whether the last attempt started as soon as the rate allowed.
    """

    cap: float = math.inf
    learnt: float = math.inf
    refused_at: float = math.inf
    next_start: float = 0.0
    held_until: float = 0.0
    slow_start: bool = True
    accepted_in_a_row: int = 0
    accepted_soon: bool = False
    is_used: bool = False

    @property
    def current(self) -> float:
        """Attempts per second that may start now."""
        return min(self.learnt, self.cap)

    @property
    def interval(self) -> float:
        """Seconds between the starts of two attempts, or 0 while no limit is known."""
        return 1 / min(self.learnt, self.cap)

    @property
    def is_limited(self) -> bool:
        """Whether a limit is known, either the service's or the caller's own."""
        return self.learnt < math.inf or self.cap < math.inf

    def set_next_start(self, now: float) -> None:
        """Decide, as an attempt starts, when the next one may start."""
        late_by = now - self.next_start
        self.is_used = late_by <= _CATCH_UP
        if not self.is_used:
            # After an idle time, the next start is counted from now. Otherwise the next attempt
            # would follow too soon, and a limiter that admits one at a time would refuse it.
            self.next_start = now
            # An idle time does not use up the time for which the rate is held.
            self.held_until += late_by
        # A start that is at most `_CATCH_UP` late is put down to a slow timer: the next one is
        # counted from the planned time, so that the rate is fully used.
        self.next_start += self.interval

    def may_rise(self, now: float) -> bool:
        """Return whether the rate is fully used and no longer held."""
        # An idle time must not raise the rate.
        return self.is_limited and self.is_used and now >= self.held_until

    def outgrew_limit(self) -> bool:
        """Return whether enough attempts were accepted above the last limit to disprove it."""
        enough = self.accepted_in_a_row > max(_ENOUGH_ACCEPTED, 2 * self.refused_at)
        return enough and not self.slow_start and self.learnt > _HIGHER * self.refused_at

    def grow(self) -> None:
        """Raise the rate by one step."""
        if self.slow_start:
            # Rule 6: adding one per second with each attempt doubles the rate in about a second.
            step = _DOUBLING_STEP
        else:
            # Rule 5: `learnt` attempts per second, each adding `_STEP / learnt`, raise the rate by
            # `_STEP` in a second. That is the same in every process, so their rates converge. Only
            # rates below 40 grow more slowly, because of `_LARGEST_STEP`.
            step = min(_LARGEST_STEP, _STEP / self.learnt)
        # One attempt raises a very low rate by a quarter at most.
        self.learnt += min(step, self.learnt / 4)

    def start_from(self, delivered: float, last_start: float) -> None:
        """Set the first rate, from the rate delivered until the breaker closed.

        Args:
            delivered: accepted attempts per second.
            last_start: when the last attempt started.
        """
        self.refused_at = delivered
        # A lower first rate is not believed, because few attempts show it.
        self.learnt = max(_LOWEST_FIRST, _DECREASE * delivered)
        self.slow_start = True
        self.held_until = -math.inf
        self._begin(last_start)

    def cut(
        self,
        delivered: float | None,
        seconds_open: float,
        last_start: float,
        now: float,
        *,
        was_paused: bool,
    ) -> None:
        """Lower the rate when the breaker closes.

        Args:
            delivered: accepted attempts per second, or None if too little time has passed to
                measure a rate.
            seconds_open: seconds since the breaker opened, or since the end of a pause if that came
                later.
            last_start: when the last attempt started.
            now: the time.
            was_paused: whether the service asked for a pause since the breaker opened.
        """
        if delivered is None:
            # A second refusal so soon proves only that the rate is still too high.
            delivered = _DECREASE * self.learnt
        delivered = min(self.learnt, delivered)
        self.accepted_soon = seconds_open <= SPAN
        if not self.accepted_soon:
            self.refused_at = delivered
        else:
            # Rule 5: the service accepted attempts again soon, so the rate had only just reached
            # its limit. The limit lies between the rate and the delivered rate.
            self.refused_at = (self.learnt + delivered) / 2
        # Rule 5: the rate is cut, and held for a while. A pause costs more than a slightly low
        # rate, so after a pause the rate is held as long as possible.
        if was_paused:
            self.learnt = max(_SLOWEST, _DECREASE_AFTER_PAUSE * self.refused_at)
            seconds = _LONGEST_HOLD
        else:
            self.learnt = max(_SLOWEST, _DECREASE * self.refused_at)
            seconds = min(_LONGEST_HOLD, ATTEMPTS_OF_HOLD / self.learnt)
        self.slow_start = False
        self.held_until = now + max(_SHORTEST_HOLD, seconds)
        self._begin(last_start)

    def _begin(self, last_start: float) -> None:
        """Begin a new rate. The next attempt starts one interval after the last one."""
        self.accepted_in_a_row = 0
        # The accepted probe was the first attempt at this rate.
        self.next_start = last_start + self.interval
