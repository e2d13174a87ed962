"""How many attempts may be in flight: a congestion window, without a clock."""

from __future__ import annotations

import math


class ConcurrencyLimit:
    """Attempts that may be in flight: few at first, then as many as the service accepts at once.

    Args:
        ceiling: never more than this.
    """

    FIRST = 8
    """The window at the start, until as many were accepted: an unknown limit would reject the excess."""
    PAUSE = 0.1
    """Seconds after which the start ends anyway, from when an attempt has to wait for it."""
    CUT = 0.7
    """Part of the window that remains after a timeout."""
    SHARE = 0.75
    """Below this accepted share of the attempts in flight the service limits concurrency; at the start, below all.

    A known limit of which less was accepted is given up, not corrected.
    """
    FEWEST = 3
    """Fewer accepted attempts show no limit: one of the rate without a burst accepts one or two as well."""
    STEP = 128
    """Accepted attempts after which one more is tried."""
    QUICK_ROUNDS = 2
    """The same in rounds of attempts, `FIRST` at least, until a step was refused: the first guess may be too low."""
    PROOF = 24
    """Attempts accepted while the ceiling was in flight, which show that it is not too high."""
    SOON = 48
    """Accepted attempts within which a refusal is due to a step; later refusals have another cause."""

    def __init__(self, ceiling: int) -> None:
        self._ceiling = self._maximum = ceiling
        self.window: float = float(min(ceiling, self.FIRST))
        """Attempts that may be in flight now, and a part of the next one."""
        self._start_ends = math.inf if ceiling > self.FIRST else -math.inf
        self._last_cut = self._last_step = -math.inf
        self._accepted = self._accepted_at_ceiling = 0
        self._accepted_at_step = -math.inf
        self._was_step_refused = False
        self._sample, self._enough = 0, 0.0

    @property
    def limit(self) -> int:
        """Attempts that may be in flight now, at least 1."""
        return int(self.window)

    @property
    def limit_after_start(self) -> int:
        """Attempts that may be in flight now, or as soon as the start is over."""
        return self._ceiling if self._is_start else self.limit

    @property
    def _is_start(self) -> bool:
        return self._start_ends > -math.inf

    @property
    def is_known(self) -> bool:
        """Whether the service was found to limit the attempts in flight."""
        return self._maximum < self._ceiling

    @property
    def is_first_guess(self) -> bool:
        """Whether that was found out only just now."""
        return self.is_known and self._accepted < self.STEP

    def record_success(self, in_flight: int) -> None:
        """Raise the window to the maximum by one a round, and try one more after `STEP` accepted attempts."""
        self._accepted += 1
        self._accepted_at_ceiling += in_flight >= self._ceiling
        if self._is_start:
            if self._accepted >= self.FIRST:
                self._end_start()
        elif self.window < self._maximum:
            self.window = min(self._maximum, self.window + 1 / self.window)
        elif self.window < self._ceiling and self._accepted >= self._next_step:
            self._accepted_at_step = self._accepted
            self._maximum += 1
            self.window = self._maximum

    @property
    def _next_step(self) -> float:
        """Attempts accepted at which one more is tried."""
        quick_step = max(self.FIRST, self.QUICK_ROUNDS * self._maximum)
        return max(0, self._accepted_at_step) + (self.STEP if self._was_step_refused else quick_step)

    def next_start(self, now: float) -> float:
        """Return when an attempt beyond the limit may start: infinite, or when the start has lasted long enough."""
        if not self._is_start:
            return math.inf
        self._start_ends = min(self._start_ends, now + self.PAUSE)
        if now < self._start_ends:
            return self._start_ends
        self._end_start()
        return now

    def _end_start(self) -> None:
        if self._is_start:
            self._start_ends, self.window = -math.inf, self._ceiling

    def record_timeout(self, started: float, now: float) -> None:
        """Cut the window, unless the attempt started before the last cut."""
        if started > self._last_cut:
            self._last_cut = now
            self._end_start()
            self.window = max(1.0, self.window * self.CUT)

    def step_back(self, started: float, now: float, in_flight: int) -> bool:
        """Take the last step back if a refusal is due to it, and return whether it is."""
        if not self.is_known:
            return False
        if started > self._last_step:
            if self._accepted - self._accepted_at_step >= self.SOON or in_flight < self._maximum or self._maximum == 1:
                return False
            self._last_step, self._was_step_refused = now, True
            self._reset_counts()
            self._maximum -= 1
            self.window = min(self.window, self._maximum)
        return True

    def start_sample(self, in_flight: int) -> None:
        """Begin to count the accepted ones of the attempts in flight, unless they are too few to judge."""
        size = in_flight if in_flight >= self.SHARE * self.limit else 0
        self._enough = size * (1.0 if self._is_start else self.SHARE)
        self._end_start()
        self._sample = 0

    def count_in_sample(self) -> None:
        """Count an accepted one."""
        self._sample += 1

    def end_sample(self) -> bool:
        """Limit the attempts in flight, and return whether they were the cause; if not, give a known limit up."""
        if self.is_known:
            is_cause = self.SHARE * self._maximum <= self._sample < self._maximum
        else:
            is_unproven = self._accepted_at_ceiling < self.PROOF
            is_cause = is_unproven and self.FEWEST <= self._sample < self._enough
        self._reset_counts()
        self._accepted_at_ceiling = 0
        self.window = self._maximum = self._sample if is_cause else self._ceiling
        return self.is_known

    def _reset_counts(self) -> None:
        self._accepted, self._accepted_at_step = 0, -math.inf
