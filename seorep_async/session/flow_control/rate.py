"""How many attempts a second may start: the rate, and the delivered rate that teaches it."""

from __future__ import annotations

import math

import msgspec

SPAN = 1.0
"""Seconds, at least, over which a delivered rate is measured."""
_SHORTEST_SPAN = 0.1  # the same if no burst was accepted
_DECREASE = 0.8  # the part of the delivered rate that a cut leaves
_DECREASE_AFTER_PAUSE = 0.93  # the same if the service asked for a pause
_SHORTEST_HOLD = 1.5  # seconds that a rate is held after a cut, at least …
_LONGEST_HOLD = 10.0  # … and at most
_ENOUGH_HELD = 20  # attempts that it is held, between these seconds
_STEP = 8.0  # attempts a second by which the rate grows in a second
_LARGEST_STEP = 0.2  # attempts a second by which it grows with one attempt, at most
_DOUBLING_STEP = 1.0  # the same in slow start
_ENOUGH_ACCEPTED = 90  # attempts in a row that show that the limit rose
_HIGHER = 1.1  # times the refused rate at which they show it
_SLOWEST = 0.2  # the lowest rate, attempts a second
_GUESS = 3.0  # the least first rate, unless the service refused for more than a second
_CATCH_UP = 0.02  # seconds that late timers may make up for


class DeliveredRate(msgspec.Struct, eq=False):
    """Counts what the service accepted since the breaker closed last, or since slow start.

    Attributes:
        since: when the counts began.
        accepted: attempts accepted since then.
        refused: attempts refused since then.
        paused: seconds since then when the service had asked us to wait.
        doubling_since: when slow start began, or `since`.
        accepted_before: `accepted` at that moment.
        paused_before: `paused` at that moment.
    """

    since: float = 0.0
    accepted: int = 0
    refused: int = 0
    paused: float = 0.0
    doubling_since: float = 0.0
    accepted_before: int = 0
    paused_before: float = 0.0

    def restart(self, now: float) -> None:
        self.since = now
        self.accepted = 0
        self.refused = 0
        self.paused = 0.0
        self.begin_doubling(now)

    def begin_doubling(self, now: float) -> None:
        self.doubling_since = now
        self.accepted_before = self.accepted
        self.paused_before = self.paused

    def seconds_of_doubling(self, now: float) -> float:
        return now - self.doubling_since - self.paused + self.paused_before

    def per_second(self, now: float) -> float:
        """Return the attempts accepted a second, pauses left out: of all, or of slow start."""
        overall = self.accepted / max(SPAN, now - self.since - self.paused)
        accepted_doubling = self.accepted - self.accepted_before
        doubling = accepted_doubling / max(SPAN, self.seconds_of_doubling(now))
        return max(overall, doubling)

    def per_second_until(self, end: float) -> float:
        """Return the attempts accepted a second of those that started by a time."""
        return self.accepted / max(_SHORTEST_SPAN, end - self.since - self.paused)


class Rate(msgspec.Struct, eq=False):
    """The rate at which attempts start: learnt, held, then raised.

    Attributes:
        cap: the caller's own limit, `requests_per_second`.
        learnt: attempts a second that the service accepts; infinite before a limit was found.
        refused_at: the rate at which it refused last.
        next_start: when the next attempt may start.
        held_until: until when the rate is not raised.
        slow_start: whether it doubles in about a second.
        accepted_in_a_row: attempts accepted since the last refusal.
    """

    cap: float = math.inf
    learnt: float = math.inf
    refused_at: float = math.inf
    next_start: float = 0.0
    held_until: float = 0.0
    slow_start: bool = True
    accepted_in_a_row: int = 0

    @property
    def current(self) -> float:
        """Attempts a second that may start now."""
        return min(self.learnt, self.cap)

    def idle(self, now: float) -> float:
        """Return the seconds in which an attempt might have started, or 0."""
        seconds = now - self.next_start
        # Late timers are made up for, so that the rate is used whole. A rest is not: the attempt
        # after it would start too early for a limiter that lets through one at a time.
        return seconds if seconds > _CATCH_UP else 0.0

    def skip(self, idle: float) -> None:
        """Leave out seconds without work: they must not raise the rate."""
        self.next_start += idle
        self.held_until += idle

    def outgrew_limit(self) -> bool:
        """Return whether the attempts accepted above the last limit show that it rose."""
        enough = self.accepted_in_a_row > max(_ENOUGH_ACCEPTED, 2 * self.refused_at)
        return enough and not self.slow_start and self.learnt > _HIGHER * self.refused_at

    def grow(self) -> None:
        """Raise the rate as an attempt starts."""
        if self.slow_start:
            # Rule 6: one more a second with each attempt doubles the rate in about a second.
            step = _DOUBLING_STEP
        else:
            # Rule 5: each process takes the same step a second, so that they converge.
            step = min(_LARGEST_STEP, _STEP / self.learnt)
        # At a very low rate, a whole step would be too much at once.
        self.learnt += min(step, self.learnt / 4)

    def start_from(
        self, delivered: float, accepted: int, seconds_open: float, last_start: float
    ) -> None:
        """Set the first rate by the rate that was delivered until the first refusals.

        Args:
            delivered: accepted attempts a second.
            accepted: the number of these attempts.
            seconds_open: how long nothing but probes went out, the pauses left out.
            last_start: when the last attempt started.
        """
        # Neither the accepted probe alone nor less than a second shows a low rate.
        shows_rate = accepted > 1 and seconds_open > SPAN
        least = _SLOWEST if shows_rate else _GUESS
        self.refused_at = delivered
        self.learnt = max(least, _DECREASE * delivered)
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
        """Lower the rate after the breaker was open for some seconds, pauses left out.

        `delivered` is None if too little time passed to show a rate.
        """
        if delivered is None:
            # A second refusal so soon shows only that the rate is still too high.
            delivered = _DECREASE * self.learnt
        delivered = min(self.learnt, delivered)
        if seconds_open > SPAN:
            self.refused_at = delivered
        else:
            # Rule 5: a limiter that refuses at once delivered less than its limit, because the
            # rate had only just come near it. The limit lies between the two.
            self.refused_at = (self.learnt + delivered) / 2
        # Rule 5: the rate is cut, and held for a while. A pause costs more than a rate that is a
        # little too low, so it is held as long as possible then.
        if was_paused:
            self.learnt = max(_SLOWEST, _DECREASE_AFTER_PAUSE * self.refused_at)
            seconds = _LONGEST_HOLD
        else:
            self.learnt = max(_SLOWEST, _DECREASE * self.refused_at)
            seconds = min(_LONGEST_HOLD, _ENOUGH_HELD / self.learnt)
        self.slow_start = False
        self.held_until = now + max(_SHORTEST_HOLD, seconds)
        self._begin(last_start)

    def _begin(self, last_start: float) -> None:
        self.accepted_in_a_row = 0
        # The probe that was accepted was the first attempt at this rate.
        self.next_start = last_start + 1 / self.current
