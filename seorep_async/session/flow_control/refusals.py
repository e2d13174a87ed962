"""Which refusals count, and whether they are too many."""

from __future__ import annotations

import math
from typing import TypeAlias

import msgspec

Subject: TypeAlias = tuple[object, str]
"""The subject of an attempt: a client, and the name of its campaign."""

_TOLERATED = 0.03  # share of refusals that adds no excess
_TOO_MANY = 1.5  # excess that opens the breaker
_TOO_MANY_WHILE_HELD = 3.0  # the same while a rate is held
_ENOUGH_HELD = 20  # attempts, at least, over which a share of refusals is taken
_SAME = 0.6  # a cut helped if the share of refusals fell below this part of the share before
_MOST = 0.3  # the largest share that is put down to chance
_CHANCE = 1.5  # times the share by chance that is tolerated
_REPEATS = 2  # refusals while others are accepted that show a cause
_SUBJECTS = 1000  # refused subjects that are remembered


class ExcessRefusals(msgspec.Struct, eq=False):
    """Adds up the refusals beyond a tolerated share (CUSUM).

    Attributes:
        excess: refusals beyond the tolerated share, never below 0.
        tolerated: the share of refusals that adds nothing.
        share_before: the share of refusals while the rate before was held.
        started_while_held: attempts that started since the rate is held.
        refused_while_held: attempts refused since the rate is held.
    """

    excess: float = 0.0
    tolerated: float = _TOLERATED
    share_before: float = 0.0
    started_while_held: int = 0
    refused_while_held: int = 0

    def accept(self) -> None:
        self.excess = max(0.0, self.excess - self.tolerated)

    def refuse(self, *, is_held: bool) -> bool:
        """Add a refusal. Return whether refusals are too many now."""
        self.excess += 1 - self.tolerated
        if is_held:
            self.refused_while_held += 1
            return self.excess > _TOO_MANY_WHILE_HELD
        return self.excess > _TOO_MANY

    def end_hold(self) -> None:
        """Decide, before a cut, whether the refusals of the last held rate came by chance."""
        share = self.refused_while_held / max(_ENOUGH_HELD, self.started_while_held)
        was_chance = self.tolerated > _TOLERATED
        did_not_help = share > _SAME * self.share_before > 0
        if share > _TOLERATED and (was_chance or did_not_help):
            # Rule 7: a cut did not make refusals rarer, so they come by chance. Half as many
            # again are tolerated.
            self.tolerated = _TOLERATED + _CHANCE * min(_MOST, share)
        else:
            self.tolerated = _TOLERATED
        self.share_before = share
        self.started_while_held = 0
        self.refused_while_held = 0


class LaterAttempts(msgspec.Struct, eq=False):
    """Counts how attempts ended that started after a refused one, while no limit is known.

    Attributes:
        first_refused: when the refused attempt started; infinite if there was none.
        accepted: later attempts that were accepted.
        refused: later attempts that were refused.
    """

    first_refused: float = math.inf
    accepted: int = 0
    refused: int = 0

    def begin(self, first_refused: float) -> None:
        self.first_refused = first_refused
        self.accepted = 0
        self.refused = 0

    def accept(self, started: float) -> None:
        if started > self.first_refused:
            self.accepted += 1

    def refuse(self, started: float) -> None:
        # Attempts that started together with the refused one may be part of a burst.
        if started >= self.first_refused:
            self.refused += 1

    @property
    def were_accepted(self) -> bool:
        """Whether most of them were accepted, so that no limit was reached."""
        return self.accepted > self.refused


class RefusedSubject(msgspec.Struct, eq=False):
    """A subject that was refused and not accepted since.

    Attributes:
        last_refused_at: when it was refused last.
        accepted_before: attempts of any subject accepted before it was refused first.
        repeats: refusals of it since others were accepted.
    """

    last_refused_at: float
    accepted_before: int
    repeats: int = 0


class RefusedSubjects:
    """The subjects that were refused and not accepted since, the latest last."""

    def __init__(self) -> None:
        self._refused: dict[Subject | None, RefusedSubject] = {}
        self._accepted = 0

    def __contains__(self, subject: Subject | None) -> bool:
        return subject in self._refused

    def __len__(self) -> int:
        return len(self._refused)

    def refused_at(self, subject: Subject | None) -> float:
        """Return when a subject was refused last, or minus infinity if it was not."""
        refused = self._refused.get(subject)
        return -math.inf if refused is None else refused.last_refused_at

    def may_be_cause(self, subject: Subject | None) -> bool:
        """Return whether others were accepted since a subject was refused: it may be the cause."""
        # Only its own acceptance ends this. Time does not: a dead campaign is as dead after hours,
        # and a rate limiter accepts one of its requests sooner or later.
        refused = self._refused.get(subject)
        return refused is not None and self._accepted > refused.accepted_before

    def is_cause(self, subject: Subject | None) -> bool:
        """Return whether a subject was refused often while others were accepted."""
        refused = self._refused.get(subject)
        return refused is not None and refused.repeats >= _REPEATS

    def accept(self, subject: Subject | None) -> None:
        self._accepted += 1
        if subject is not None:
            self._refused.pop(subject, None)

    def refuse(self, subject: Subject | None, now: float) -> None:
        if subject is None:
            return
        # Without the removal it would keep its old place in the order.
        refused = self._refused.pop(subject, None)
        if refused is None:
            refused = RefusedSubject(now, self._accepted)
        if self._accepted > refused.accepted_before:
            refused.repeats += 1
        refused.last_refused_at = now
        self._refused[subject] = refused
        if len(self._refused) > _SUBJECTS:
            oldest = next(iter(self._refused))
            del self._refused[oldest]

    def forget(self, client: object) -> None:
        """Forget the subjects of a closed client."""
        for subject in list(self._refused):
            if subject is not None and subject[0] is client:
                del self._refused[subject]

    def clear(self) -> None:
        self._refused.clear()
