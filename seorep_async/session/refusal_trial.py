"""Whether refusals come with the rate or by chance."""

from __future__ import annotations

import math


class RefusalTrial:
    """Finds out whether refusals come with the rate or by chance; those by chance are tolerated from then on.

    If some are refused after each of two cuts, the next refusal is answered with a burst at once. A limit that is used
    up refuses most of it, though some room comes back while a refusal is on its way, the more of it the higher the
    limit; chance refuses no more of it than of anything else.
    """

    TOO_MANY = 0.09
    """Share of refusals after a cut that shows that it did not help."""
    SHORTEST, LONGEST = 4, 8
    """Attempts in a burst: as many as start in a third of a second, within these."""
    BY_CHANCE = 2
    """Attempts of a burst that chance may refuse."""
    NEEDED = 2
    """Refusals after cuts that are reason enough for a burst; twice as many after each that was in vain."""
    LEAST = 0.03
    MOST = 0.4
    """A smaller share is no longer tolerated; of a larger one, no more than this."""
    EXCESS = 0.1
    """Part of the other attempts that is refused at least if the rate is the reason too."""
    CERTAINTY = math.log(100)
    """Likelihood of that, rather than chance, at which it is taken for true (as in CUSUM)."""
    ENOUGH = 24
    """Attempts after a cut, after which the share is measured again."""

    def __init__(self) -> None:
        self._tried = self._refused = 0
        self._tried_before = self._refused_before = 0
        self._needed = self.NEEDED
        self._likelihood = 0.0
        self._began = math.inf
        self._size = self._burst_accepted = self._burst_refused = 0
        self.burst: int = 0
        """Attempts of a burst that may start now."""
        self.tolerated: float = 0.0
        """Share of refusals that have nothing to do with the rate."""

    @property
    def is_on(self) -> bool:
        """Whether the responses to a burst are awaited."""
        return self._began < math.inf

    def begin(self, now: float, rate: float) -> bool:
        """Begin a burst if there is reason to, and return whether it began.

        Args:
            now: the time.
            rate: attempts that started a second.
        """
        if self.tolerated or self.is_on or not self._refused or not self._refused_before:
            return False
        if self._refused + self._refused_before < self._needed:
            return False
        self._add_up()
        self._size = self.burst = max(self.SHORTEST, min(self.LONGEST, int(rate / 3)))
        self._began, self._burst_accepted, self._burst_refused = now, 0, 0
        return True

    def end(self) -> None:
        """End a burst, whatever is still awaited."""
        self._began, self.burst = math.inf, 0

    def start(self) -> None:
        """Note that an attempt starts at a rate that is held."""
        self._tried += 1

    def record_success(self, started: float) -> None:
        """Note an accepted attempt."""
        if started >= self._began:
            self._burst_accepted += 1
            if self._burst_accepted >= self._size - self.BY_CHANCE:
                self.end()
                self.tolerated = min(self.MOST, self._refused_before / max(1, self._tried_before))
                self._likelihood = 0.0
        elif self.tolerated:
            accepted = math.log((1 - self._excessive) / (1 - self.tolerated))
            self._likelihood = max(0.0, self._likelihood + accepted)

    def record_refusal(self, started: float) -> bool:
        """Note a refusal, and return whether it is due to the rate."""
        self._refused += 1
        if self.is_on:
            self._burst_refused += started >= self._began
            if self._burst_refused <= self.BY_CHANCE:
                return False
            self.end()
            self._needed *= 2
            self._forget()
            return True
        if self.tolerated:
            self._likelihood += math.log(self._excessive / self.tolerated)
            return self._likelihood >= self.CERTAINTY
        return self._refused >= 2 and self._refused > self.TOO_MANY * self._tried

    @property
    def _excessive(self) -> float:
        """The share that would be refused if the rate were the reason too."""
        return 1.5 * self.tolerated + self.EXCESS * (1 - self.tolerated)

    def judge(self, *, closed: bool) -> None:
        """Judge a held rate as it is about to be cut.

        Args:
            closed: whether nothing was accepted for a while, so that the refusals are not by chance.
        """
        self.end()
        self._likelihood = 0.0
        if self.tolerated:
            if self._tried >= self.ENOUGH:
                self.tolerated = (self.tolerated + min(self.MOST, self._refused / self._tried)) / 2
            if self.tolerated < self.LEAST:
                self.tolerated = 0.0
            self._forget()
        elif closed or not self._refused:
            self._forget()
        else:
            self._add_up()

    def _add_up(self) -> None:
        self._tried_before += self._tried
        self._refused_before += self._refused
        self._tried = self._refused = 0

    def _forget(self) -> None:
        self._tried = self._refused = self._tried_before = self._refused_before = 0
