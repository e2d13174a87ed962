"""Whether refusals come with the rate or by chance."""

from __future__ import annotations

import math


class RandomLoss:
    """Refusals that do not depend on the rate, found by a packet train and tolerated from then on.

    If some attempts are refused while the rate is held after a decrease, and so after the next one, the refusal that
    follows is answered with a packet train. A limit that is used up refuses most of it, though some room comes back
    while a refusal is on its way, the more of it the higher the limit. Random loss refuses no more of it than of
    anything else.
    """

    TOO_MANY = 0.09
    """Share of refusals after a decrease that shows that it did not help."""
    SHORTEST, LONGEST = 4, 8
    """Attempts in a packet train: as many as start in a third of a second, within these."""
    BY_CHANCE = 2
    """Attempts of a train that random loss may refuse."""
    LEAST = 0.03
    MOST = 0.4
    """A smaller share is no longer tolerated; of a larger one, no more than this."""
    EXCESS = 0.1
    """Part of the other attempts that is refused at least if the rate is a cause too."""
    CERTAINTY = math.log(100)
    """Likelihood ratio at which the rate is taken for the cause (as in CUSUM)."""
    ENOUGH = 24
    """Attempts after a decrease, after which the share is measured again."""

    def __init__(self) -> None:
        self._tried = self._refused = 0
        self._tried_before = self._refused_before = 0
        self._needed = 2  # refusals, one after each of two decreases; twice as many after each train in vain
        self._likelihood = 0.0
        self._train_began = math.inf
        self._train_missing = self._train_refused = 0
        self.train_left: int = 0
        """Attempts of a train that may start now."""
        self.share: float = 0.0
        """Share of attempts that is refused whatever the rate."""

    @property
    def is_train_out(self) -> bool:
        """Whether the responses to a train are awaited."""
        return self._train_began < math.inf

    def start_train(self, now: float, rate: float) -> bool:
        """Start a packet train if there is reason to, at a rate a second, and return whether it started."""
        if self.share or self.is_train_out or not self._refused or not self._refused_before:
            return False
        if self._refused + self._refused_before < self._needed:
            return False
        self._add_up()
        self.train_left = max(self.SHORTEST, min(self.LONGEST, int(rate / 3)))
        self._train_missing = self.train_left - self.BY_CHANCE
        self._train_began, self._train_refused = now, 0
        return True

    def _end_train(self) -> None:
        self._train_began, self.train_left = math.inf, 0

    def record_start(self) -> None:
        """Note that an attempt starts at a rate that is held."""
        self._tried += 1

    def record_success(self, started: float) -> None:
        """Note an accepted attempt."""
        if started >= self._train_began:
            self._train_missing -= 1
            if self._train_missing <= 0:
                self._end_train()
                self.share = min(self.MOST, self._refused_before / max(1, self._tried_before))
                self._likelihood = 0.0
        elif self.share:
            accepted = math.log((1 - self._excessive) / (1 - self.share))
            self._likelihood = max(0.0, self._likelihood + accepted)

    def record_refusal(self, started: float) -> bool:
        """Note a refusal, and return whether the rate is its cause."""
        self._refused += 1
        if self.is_train_out:
            self._train_refused += started >= self._train_began
            if self._train_refused <= self.BY_CHANCE:
                return False
            self._end_train()
            self._needed *= 2
            self._reset_counts()
            return True
        if self.share:
            self._likelihood += math.log(self._excessive / self.share)
            return self._likelihood >= self.CERTAINTY
        return self._refused >= 2 and self._refused > self.TOO_MANY * self._tried

    @property
    def _excessive(self) -> float:
        """The share that would be refused if the rate were a cause too."""
        return 1.5 * self.share + self.EXCESS * (1 - self.share)

    def end_round(self, *, was_closed: bool) -> None:
        """Measure the share of refusals before a decrease; random loss does not close a service for a while."""
        self._end_train()
        self._likelihood = 0.0
        if self.share:
            if self._tried >= self.ENOUGH:
                self.share = (self.share + min(self.MOST, self._refused / self._tried)) / 2
            if self.share < self.LEAST:
                self.share = 0.0
            self._reset_counts()
        elif was_closed or not self._refused:
            self._reset_counts()
        else:
            self._add_up()

    def _add_up(self) -> None:
        self._tried_before += self._tried
        self._refused_before += self._refused
        self._tried = self._refused = 0

    def _reset_counts(self) -> None:
        self._tried = self._refused = self._tried_before = self._refused_before = 0
