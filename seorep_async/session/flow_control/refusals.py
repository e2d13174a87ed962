"""Decide which refusals count, and whether there are too many.

Rules are listed in `pace.py`.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import msgspec

Subject: TypeAlias = tuple[object, str]
"""The client and the name of the campaign that an attempt is about."""

LARGEST_DROP = 0.5
"""If everything was refused for more than a second, the new limit is at least this part of the
previous one, because it may be an outage.
"""
ATTEMPTS_OF_HOLD = 20
"""A lower rate is held until this many attempts show how many of them are refused."""
_USUALLY_TOLERATED = 0.03  # share of refusals that adds no excess
_TOO_MANY = 1.5  # excess that opens the breaker
_TOO_MANY_WHILE_HELD = 3.0  # the same while a rate is held
# If any fall counted as help, calls would be lost where two fifths are refused at random.
_HELPED_BELOW = 0.6  # a cut helped if the share of refusals fell below this part of the last one
_LARGEST_RANDOM_SHARE = 0.3  # the largest share that is attributed to chance
_TOLERANCE_FACTOR = 1.5  # a random share of refusals is tolerated up to this multiple
_SAME_LIMIT = 0.03  # two limits are the same if they differ by no more than this part …
_ENOUGH_SAME = 2  # … and a limit is real if it was the same this many times in a row
_REPEATS = 2  # refusals while others are accepted that prove a subject to be the cause
_MOST_SUBJECTS = 1000  # the most refused subjects that are remembered


class ExcessRefusals(msgspec.Struct, eq=False):
    """Adds up refusals beyond a tolerated share (CUSUM), and decides whether there are too many.

    The pace asks at each refusal that counts. At each cut, it lets this class decide whether the
    refusals were random, and how many to tolerate.

    Attributes:
        excess: refusals beyond the tolerated share, never below 0.
        tolerated: the share of refusals that adds nothing.
        share_before: the share of refusals while the previous rate was held.
        accepted_while_held: attempts that were accepted while the current rate was held.
        refused_while_held: attempts that were refused while the current rate was held.
        delivered_before: the rate delivered before the previous cut, in attempts per second.
        same_limits: cuts in a row that found about the same rate as the cut before.
    """

    excess: float = 0.0
    tolerated: float = _USUALLY_TOLERATED
    share_before: float = 0.0
    accepted_while_held: int = 0
    refused_while_held: int = 0
    delivered_before: float = 0.0
    same_limits: int = 0

    @property
    def are_random(self) -> bool:
        """Whether refusals are taken for random."""
        return self.tolerated > _USUALLY_TOLERATED

    def accept(self, *, is_held: bool) -> None:
        if is_held:
            self.accepted_while_held += 1
        # The excess never falls below 0, so earlier acceptances are no credit for later refusals.
        if self.excess > 0:
            self.excess = max(0.0, self.excess - self.tolerated)

    def refuse(self, *, is_held: bool) -> bool:
        """Add a refusal. Return whether there are now too many."""
        self.excess += 1 - self.tolerated
        if is_held:
            self.refused_while_held += 1
            return self.excess > _TOO_MANY_WHILE_HELD
        return self.excess > _TOO_MANY

    def end_hold(self) -> None:
        """Set the share of refusals to tolerate, before a cut, and begin to count again."""
        attempts = self.accepted_while_held + self.refused_while_held
        # A hold with fewer attempts proves little, so the missing ones count as accepted.
        share = self.refused_while_held / max(ATTEMPTS_OF_HOLD, attempts)
        did_not_help = self.share_before > 0 and share > _HELPED_BELOW * self.share_before
        if share > _USUALLY_TOLERATED and (self.are_random or did_not_help):
            # Rule 7: these refusals are random, because the previous cut did not make them rarer,
            # or they were tolerated already. Tolerate the usual share plus 1.5 times the share of
            # this hold, which counts as at most 30 %.
            random_share = min(_LARGEST_RANDOM_SHARE, share)
            self.tolerated = _USUALLY_TOLERATED + _TOLERANCE_FACTOR * random_share
        else:
            self.tolerated = _USUALLY_TOLERATED
        self.share_before = share
        self.accepted_while_held = 0
        self.refused_while_held = 0

    def compare_delivered(self, delivered: float) -> None:
        """Compare the rate delivered before this cut and the previous one.

        If several cuts in a row find the same rate, it is a limit: tolerate only the usual share of
        refusals again.
        """
        if abs(delivered - self.delivered_before) <= _SAME_LIMIT * self.delivered_before:
            self.same_limits += 1
        else:
            self.same_limits = 0
        self.delivered_before = delivered
        # Rule 7: between random refusals, the delivered rate differs each time. At a real limit, it
        # is the same. With more tolerance, the rate would rise so far above the limit that attempts
        # would be refused even after a cut. Those refusals would look random, and be tolerated.
        if self.same_limits >= _ENOUGH_SAME:
            self.tolerated = _USUALLY_TOLERATED


class LaterAttempts(msgspec.Struct, eq=False):
    """Decides, while no limit is known, whether refusals show a limit or a few dead campaigns.

    A dead campaign is one whose requests are always refused. But a limiter that refused one attempt
    refuses most of those that start later. `Pace` asks when the breaker closes.

    Attributes:
        first_refused_start: when the first refused attempt started; infinite if there was none.
        balance: later attempts that were accepted, minus later attempts that were refused.
    """

    first_refused_start: float = math.inf
    balance: int = 0

    def begin(self, first_refused_start: float) -> None:
        self.first_refused_start = first_refused_start
        self.balance = 0

    def refuse(self, started: float) -> None:
        # Attempts that started at the same time count as well: a limiter refuses the rest of a
        # burst.
        if started >= self.first_refused_start:
            self.balance -= 1


class RefusedSubject(msgspec.Struct, eq=False):
    """A subject that was refused, and that no acceptance has cleared yet.

    Attributes:
        first_refused_start: when its first refused attempt started.
        last_refused_at: when it was last refused.
        repeats: its refusals since another attempt, which started after its first refused one, was
            accepted; minus its own acceptances since then.
    """

    first_refused_start: float
    last_refused_at: float
    repeats: int = 0


class RefusedSubjects:
    """Decides whether a refusal is about its subject, and not about the rate.

    There are three degrees of suspicion. Accepted attempts of the subject clear it, and so does a
    longer time in which everything was refused (`forget_since`):

    1. It was refused (`in`). A firewall's page for it then no longer counts as a failure.
    2. It may be the cause, because attempts that started later were accepted. Its refusals no
       longer count, unless they pause everybody.
    3. It is the cause, because it was refused repeatedly since then. Its refusals that pause
       everybody no longer count either. While no limit is known, each acceptance takes back only
       one of these refusals: page 1 of a campaign may be accepted although its other pages are
       dead.

    The pace asks at each start and each refusal. The queue asks when it chooses a probe.
    """

    def __init__(self) -> None:
        self._refused: dict[Subject | None, RefusedSubject] = {}
        # when the newest accepted attempt started
        self.newest_accepted_start: float = -math.inf

    def __contains__(self, subject: Subject | None) -> bool:
        return subject in self._refused

    def refused_at(self, subject: Subject | None) -> float:
        """Return when a subject was last refused, or minus infinity if it was not."""
        refused = self._refused.get(subject)
        return -math.inf if refused is None else refused.last_refused_at

    def may_be_cause(self, subject: Subject | None) -> bool:
        """Return whether a subject may be the cause of its refusals.

        It may be if attempts that started later were accepted.
        """
        # Acceptances of earlier attempts say nothing: when a burst has used up a limiter's window,
        # they may arrive after the first refusals.
        # There is no time limit: a dead campaign stays dead for hours, and a rate limiter accepts
        # one of the subject's requests sooner or later.
        refused = self._refused.get(subject)
        return refused is not None and self.newest_accepted_start > refused.first_refused_start

    def is_cause(self, subject: Subject | None) -> bool:
        """Return whether a subject was repeatedly refused while others were accepted."""
        refused = self._refused.get(subject)
        return refused is not None and refused.repeats >= _REPEATS

    def accept(self, subject: Subject | None, started: float, *, is_limited: bool) -> bool:
        """Record an acceptance. Return whether the subject had seemed to cause its refusals."""
        was_suspected = self.may_be_cause(subject)
        # A limiter accepts and refuses the same subjects. If its refusals were not forgotten, more
        # and more would not count, and nothing would lower the rate.
        if self.is_cause(subject) and not is_limited:
            self._refused[subject].repeats -= 1
        else:
            self._refused.pop(subject, None)
        self.newest_accepted_start = max(self.newest_accepted_start, started)
        return was_suspected

    def refuse(self, subject: Subject | None, started: float, now: float) -> None:
        """Record a refusal of a subject. A refusal without a subject is not recorded."""
        if subject is None:
            return
        # Popped and stored again: the dict is then ordered by the last refusal, oldest first.
        refused = self._refused.pop(subject, None)
        if refused is None:
            refused = RefusedSubject(started, now)
        if self.newest_accepted_start > refused.first_refused_start:
            refused.repeats += 1
        refused.last_refused_at = now
        self._refused[subject] = refused
        if len(self._refused) > _MOST_SUBJECTS:
            oldest = next(iter(self._refused))
            del self._refused[oldest]

    def forget_since(self, moment: float) -> None:
        """Forget the subjects that were refused after a moment."""
        for subject, refused in list(self._refused.items()):
            if refused.last_refused_at > moment:
                del self._refused[subject]

    def clear(self) -> None:
        self._refused.clear()
