"""How many attempts may be in flight, and how a client finds that out: rules without a clock, the time is given."""

from __future__ import annotations

import math


class AdaptiveConcurrency:
    """Attempts that may be in flight: few at first, then as many as the service takes at once, and more now and then.

    Args:
        ceiling: never more than this.
    """

    FIRST = 8
    """So many at once at first, until as many were accepted: a limit that is not known refuses what is too many."""
    PAUSE = 0.1
    """Seconds for which this lasts at most, from when one has to wait for it."""
    CUT = 0.7
    """Part of the limit that remains after a timeout."""
    TOGETHER = 0.75
    """If a smaller part of the attempts in flight was accepted, there were too many; at the start, if not all were."""
    FEWEST = 3
    """Fewer accepted of them show no limit: a limit of the rate that allows no burst accepts one or two as well."""
    STEP = 128
    """Accepted attempts after which one more is tried."""
    QUICK_STEP, QUICK_ROUNDS = 8, 2
    """The same, at least and in rounds of attempts, until a step is refused: the first refusals may have passed."""
    PROOF = 24
    """Attempts accepted while the whole ceiling was in flight: so many show that it is not too high."""
    SOON = 48
    """Accepted attempts within which a refusal is due to such a step; any other is due to something else."""

    def __init__(self, ceiling: int) -> None:
        self._ceiling = self._maximum = ceiling
        self._limit = float(min(ceiling, self.FIRST))
        self._is_start = ceiling > self.FIRST
        self._last_cut = self._last_step = -math.inf
        self._accepted = self._accepted_at_ceiling = 0
        self._accepted_at_step, self._next_step = -math.inf, 0
        self._was_step_refused = False
        self._accepted_together, self._enough_together = 0, 0.0
        self.limit: int = int(self._limit)
        """Attempts that may be in flight now, at least 1."""
        self.grows_at: float = math.inf
        """When as many as the ceiling may start, unless one is refused before."""

    @property
    def limit_after_start(self) -> int:
        """Attempts that may be in flight now, or as soon as the start is over."""
        return self._ceiling if self._is_start else self.limit

    @property
    def has_maximum(self) -> bool:
        """Whether the service was found to limit the attempts in flight."""
        return self._maximum < self._ceiling

    @property
    def is_unproven(self) -> bool:
        """Whether that was found out only just now."""
        return self.has_maximum and self._accepted < self.STEP

    def record_success(self, in_flight: int) -> None:
        """Raise the limit up to the maximum, by one for each round of attempts, and that after `STEP` of them."""
        self._accepted += 1
        self._accepted_at_ceiling += in_flight >= self._ceiling
        if self._is_start:
            if self._accepted >= self.FIRST:
                self.end_start()
        elif self._limit < self._maximum:
            self._set(min(self._maximum, self._limit + 1 / self._limit))
        elif self._limit < self._ceiling and self._accepted >= self._next_step:
            self._accepted_at_step = self._accepted
            self._set_maximum(self._maximum + 1)
            self._set(self._maximum)

    def try_to_grow(self, now: float) -> bool:
        """End the start if it lasted long enough, and return whether it ended so."""
        if not self._is_start:
            return False
        self.grows_at = min(self.grows_at, now + self.PAUSE)
        if now < self.grows_at:
            return False
        self.end_start()
        return True

    def end_start(self) -> None:
        """Let as many be in flight as the ceiling says, unless the start is over."""
        if self._is_start:
            self._is_start, self.grows_at = False, math.inf
            self._set(self._ceiling)

    def record_timeout(self, started: float, now: float) -> None:
        """Cut the limit, unless the attempt started before the last cut, and so is no news."""
        if started > self._last_cut:
            self._last_cut = now
            self.end_start()
            self._set(max(1.0, self._limit * self.CUT))

    def step_back(self, started: float, now: float, in_flight: int) -> bool:
        """Take the last step back if a refusal is due to it, and return whether it is."""
        if self._maximum == self._ceiling:
            return False
        if started > self._last_step:
            if self._accepted - self._accepted_at_step >= self.SOON or in_flight < self._maximum or self._maximum == 1:
                return False
            self._last_step, self._was_step_refused = now, True
            self._forget()
            self._set_maximum(self._maximum - 1)
            self._set(min(self._limit, self._maximum))
        return True

    def watch(self, in_flight: int) -> None:
        """Begin to count how many of the attempts in flight are accepted, unless they are too few to judge."""
        together = in_flight if in_flight >= self.TOGETHER * self.limit else 0
        self._enough_together = together * (1.0 if self._is_start else self.TOGETHER)
        self.end_start()
        self._accepted_together = 0

    def record_success_of_watched(self) -> None:
        """Count one of them."""
        self._accepted_together += 1

    def judge(self) -> bool:
        """Return whether there were too many at once, and limit them if so; a limit that fails is not found again."""
        is_reason = (
            self._maximum == self._ceiling
            and self._accepted_at_ceiling < self.PROOF
            and self.FEWEST <= self._accepted_together < self._enough_together
        )
        self._forget()
        self._accepted_at_ceiling = 0
        self._set_maximum(self._accepted_together if is_reason else self._ceiling)
        self._set(self._maximum)
        return self._maximum < self._ceiling

    def _forget(self) -> None:
        self._accepted, self._accepted_at_step = 0, -math.inf

    def _set_maximum(self, maximum: int) -> None:
        self._maximum = maximum
        quick_step = max(self.QUICK_STEP, self.QUICK_ROUNDS * maximum)
        self._next_step = self._accepted + (self.STEP if self._was_step_refused else quick_step)

    def _set(self, limit: float) -> None:
        self._limit = limit
        self.limit = int(limit)
