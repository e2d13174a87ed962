"""Refusals that are not due to the rate: nothing gets through, one object alone fails, or some fail by chance."""

from __future__ import annotations

import math


class CircuitBreaker:
    """Lets nothing through after a refusal or a row of failures but one probe at a time, until one is accepted."""

    ROW = 10
    """Failures in a row that open it."""
    SHORTEST = 0.1
    LONGEST = 1.0
    """Seconds from one probe to the next: a quarter of the time that it has been open, within these."""

    def __init__(self) -> None:
        self._row = 0
        self._row_began = -math.inf
        self._probing = False
        self._next_probe = 0.0
        self.is_open: bool = False
        """Whether only probes go out."""
        self.opened: float = -math.inf
        """When it opened last."""
        self.probes: int = 0
        """How many probes went out since then."""

    def next_start(self, now: float) -> float:
        """Return the time from which the next attempt may start; infinite while a probe is out."""
        if not self.is_open:
            return now
        return math.inf if self._probing else self._next_probe

    def start_probe(self, now: float) -> None:
        """Note that a probe starts."""
        self._probing = True
        self.probes += 1
        self._next_probe = now + min(self.LONGEST, max(self.SHORTEST, (now - self.opened) / 4))

    def end_probe(self) -> None:
        """Note that the probe is over, whatever its outcome."""
        self._probing = False

    def open(self, now: float, interval: float = 0.0) -> None:
        """Let only probes through, the first after an interval in seconds."""
        self.is_open = True
        self.opened = now
        self.probes = 0
        self._next_probe = now + max(self.SHORTEST, interval)

    def record_success(self, started: float) -> bool:
        """Note an accepted attempt, and return whether it closed the breaker.

        One that started before the breaker opened can't; one that started before the row of failures only makes up for
        one of them.
        """
        if not self.is_open:
            if self._row:
                self._row = 0 if started > self._row_began else self._row - 1
            return False
        if started <= self.opened:
            return False
        self.is_open = False
        self._row = 0
        return True

    def record_failure(self, now: float) -> None:
        """Note a failure."""
        if not self._row:
            self._row_began = now
        self._row += 1
        if self._row >= self.ROW and not self.is_open:
            self.open(now)


class Suspects:
    """Requests whose refusal may be about themselves: refused before, or of a subject refused while others are not."""

    STREAK = 3
    """Refusals of one subject in a row, with others accepted meanwhile, that make it suspect."""

    def __init__(self) -> None:
        self._streaks: dict[str, tuple[int, int]] = {}
        self._accepted = 0

    def is_suspect(self, subject: str | None, *, refused: bool) -> bool:
        """Return whether a refusal may be about the request alone.

        Args:
            subject: what the request is about, such as a campaign, or None.
            refused: whether the request was refused before.
        """
        streak, since = self._streaks.get(subject or "", (0, 0))
        return refused or (streak >= self.STREAK and self._accepted > since)

    def record_success(self, subject: str | None) -> None:
        """Note an accepted attempt."""
        self._accepted += 1
        if self._streaks and subject is not None:
            self._streaks.pop(subject, None)

    def record_refusal(self, subject: str | None) -> bool:
        """Note a refusal, and return whether the last attempt about its subject was refused too."""
        if subject is None:
            return False
        streak, since = self._streaks.get(subject, (0, self._accepted))
        self._streaks[subject] = streak + 1, since
        return streak > 0


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
                self.tolerated = min(self.MOST, self._refused_before / self._tried_before)
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
