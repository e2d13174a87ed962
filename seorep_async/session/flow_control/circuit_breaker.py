"""Stops a client while nothing is accepted, and tells which campaigns fail alone."""

from __future__ import annotations

import math


class CircuitBreaker:
    """Lets nothing through after a refusal or a row of failures but one probe at a time, until one is accepted."""

    ROW = 10
    """Failures in a row that open it."""
    SHORTEST = 0.1
    LONGEST = 4.0
    """Seconds from one probe to the next: a quarter of the time that it has been open, within these."""

    def __init__(self) -> None:
        self._row = 0
        self._row_began = -math.inf
        self._probing = False
        self._next_probe = 0.0
        self.reason: str = ""
        """Why only probes go out: `pace` after a refusal, also in an outage; `outage` after a row of failures."""
        self.opened: float = -math.inf
        """When it opened last."""
        self.probes: int = 0
        """How many probes went out since then."""

    @property
    def is_open(self) -> bool:
        """Whether only probes go out."""
        return self.reason != ""

    def next_start(self, now: float) -> float:
        """Return the time from which the next attempt may start; infinite while a probe is out."""
        if not self.reason:
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

    def open(self, reason: str, now: float, interval: float = 0.0) -> None:
        """Let only probes through, the first after an interval in seconds."""
        self.reason = reason
        self.opened = now
        self.probes = 0
        self._next_probe = now + max(self.SHORTEST, interval)

    def record_success(self, started: float) -> str:
        """Note an accepted attempt, and return the reason if it closed the breaker.

        One that started before the breaker opened can't; one that started before the row of failures only makes up for
        one of them.
        """
        if not self.reason:
            if self._row:
                self._row = 0 if started > self._row_began else self._row - 1
            return ""
        if started <= self.opened:
            return ""
        reason, self.reason = self.reason, ""
        self._row = 0
        return reason

    def record_failure(self, now: float) -> None:
        """Note a failure."""
        if not self._row:
            self._row_began = now
        self._row += 1
        if self._row >= self.ROW and not self.is_open:
            self.open("outage", now)


class FailingSubjects:
    """Subjects, such as campaigns, that fail while others succeed."""

    STREAK = 3
    """Refusals of one subject in a row, with others accepted meanwhile, that make it a failing one."""
    EVERYWHERE = 8
    """Subjects, one after the other and nothing accepted meanwhile, whose long waits are those of the whole service."""

    def __init__(self) -> None:
        self._streaks: dict[str, tuple[int, int]] = {}
        self._accepted = 0
        self._long_waits: set[str | None] = set()
        self._heard_of_long_wait = -math.inf

    def has(self, subject: str | None) -> bool:
        """Return whether a refusal may be about this subject alone."""
        streak, since = self._streaks.get(subject or "", (0, 0))
        return (streak >= self.STREAK and self._accepted > since) or subject in self._long_waits

    def record_success(self, subject: str | None) -> None:
        """Note an accepted attempt."""
        self._accepted += 1
        self._long_waits.clear()
        if self._streaks and subject is not None:
            self._streaks.pop(subject, None)

    def record_refusal(self, subject: str | None) -> bool:
        """Note a refusal, and return whether the last attempt about its subject was refused too."""
        if subject is None:
            return False
        streak, since = self._streaks.get(subject, (0, self._accepted))
        self._streaks[subject] = streak + 1, since
        return streak > 0

    def forget(self, prefix: str) -> None:
        """Forget the subjects that begin so, as nobody will ask about them again."""
        self._streaks = {subject: streak for subject, streak in self._streaks.items() if not subject.startswith(prefix)}

    def record_long_wait(self, subject: str | None, started: float, now: float) -> bool:
        """Note an overload that lasts longer than calls wait, and return whether the whole service is overloaded."""
        if started > self._heard_of_long_wait:
            self._long_waits.add(subject)
            self._heard_of_long_wait = now
        return len(self._long_waits) >= self.EVERYWHERE
