"""The limits that a client obeys, and how it finds them out: small rules without a clock, the time is an argument.

A 429 and a 503 both mean too fast, too many at once, or down; what else is accepted meanwhile shows which. So:

1. A refusal that is news opens the `CircuitBreaker`: single probes, until an attempt that started later is accepted.
2. Then the cause is judged. If the attempts in flight were accepted in part, and as many were not accepted before, that
   part may be in flight from now on (`AdaptiveConcurrency`, which begins with a few); refused again soon, or else, the
   rate is a little less than what was accepted lately.
3. `RateLimiter` holds a rate for a while, then raises it: by the same step for all, so that processes converge, and
   fast where nothing was refused yet, or not for long. A closed time is counted, so the rate of a windowed limit comes
   out right.
4. A refusal is no news if it is about one request or campaign (`Suspects`), if it was under way when the breaker
   opened, if it is the first in a long time, or a rare one while a rate is held: another process has caused it. The
   second Retry-After is news, since the last cut or the start: to tolerate it would cost a wait again and again.
5. If cuts do not help, a burst shows whether a limit is used up or refusals are by chance (`RefusalTrial`).
"""

from __future__ import annotations

import math
from collections import deque

from seorep_async.session.refusal_trial import RefusalTrial


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
        self._is_guess = False
        self._together = self._accepted_together = 0
        self._enough_together = 0.0
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
        self._together = in_flight if in_flight >= self.TOGETHER * self.limit else 0
        self._enough_together = self._together * (1.0 if self._is_start else self.TOGETHER)
        self.end_start()
        self._accepted_together = 0

    def record_success_of_watched(self) -> None:
        """Count one of them."""
        self._accepted_together += 1

    def judge(self) -> bool:
        """Return whether there were too many at once, and limit them if so; a first guess may be corrected once."""
        accepted, together = self._accepted_together, self._together
        if self._maximum == self._ceiling:
            is_proven = self._accepted_at_ceiling >= self.PROOF
            self._is_guess = is_reason = not is_proven and 0 < accepted < self._enough_together
        else:
            is_reason = self._is_guess and together / 2 <= accepted < together
            self._is_guess = False
        self._forget()
        self._accepted_at_ceiling = 0
        self._set_maximum(accepted if is_reason else self._ceiling)
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


class RateLimiter:
    """Attempts that may start a second: any number at first, then a little less than was accepted, then slowly more.

    Args:
        cap: never more than this, or None.
    """

    BACK_OFF = 0.8
    """Part of the accepted rate that remains after a cut."""
    BACK_OFF_SEARCH = 0.9
    """The same after a search, which goes beyond the limit for a moment only."""
    HOLD = 1.5
    """Seconds, or as long as 20 attempts take, for which a rate is held after a cut."""
    STEP = 8.0
    """Attempts a second by which the rate grows in a second, unless it is so small that a fifth is less."""
    ENOUGH = 90
    """Attempts accepted in a row, at least, that show that a limit rose."""
    QUIET = 2.0
    """As many as start in so many seconds at the rate that was refused."""
    SPAN = 1.0
    """Seconds over which accepted attempts are counted, or longer: 16 attempts, or 8 times what it was closed."""
    FEW = 8
    """Fewer accepted attempts show no rate."""
    SLOWEST = 0.2
    FIRST = 5.0
    """Attempts a second that are tried in any case, in the end and at first."""
    LONG = 32
    """Accepted attempts after which a refusal is the first in a long time."""
    CATCH_UP = 0.02
    """Seconds that late timers may make up for; what a longer stall cost stays lost, or there would be a burst."""
    REST = 1.0
    """Seconds without any attempt after which earlier ones show no rate."""

    def __init__(self, cap: float | None) -> None:
        self._cap = math.inf if cap is None else cap
        self._known = math.inf
        self._searching = False
        self._refused_at = math.inf
        self._next = self._last = self._since = self._held_until = -math.inf
        self._accepted_at: deque[float] = deque(maxlen=4096)
        self._accepted = self._refused = self._doubts = 0
        self._accepted_in_a_row = 0
        self._went_too_far = False
        self._trial = RefusalTrial()

    @property
    def rate(self) -> float:
        """Attempts a second that may start now; infinite where no limit is known."""
        return min(self._cap, self._known)

    @property
    def is_known(self) -> bool:
        """Whether the service was found to limit the rate."""
        return self._known < math.inf

    @property
    def is_unproven(self) -> bool:
        """Whether the rate is no more than a first guess."""
        return self._searching

    def next_start(self, now: float) -> float:
        """Return the time from which the next attempt may start."""
        return now if self._known == self._cap == math.inf else self._next

    def start(self, now: float, *, probe: bool = False) -> None:
        """Note that an attempt starts; before a probe nothing may start, which is no rest."""
        if not probe and now > max(self._next, self._last) + self.REST:
            self._since = now
            self._accepted_at.clear()
        self._last = now
        if self._known == self._cap == math.inf:
            return
        if self._trial.burst:
            self._trial.burst -= 1
            self._next = now + 1 / (self._cap if self._trial.burst else self.rate)
            return
        due = now - self.CATCH_UP
        is_idle, is_held = self._next < due, self._is_held(now)
        if is_idle:
            self._held_until += due - self._next  # idle time must not raise the rate
            self._next = due
        elif not is_held:
            self._grow()
        if is_held and not is_idle:
            self._trial.start()
        self._next += 1 / self.rate

    def _is_held(self, now: float) -> bool:
        return now < self._held_until and not self._searching

    def _is_search(self) -> bool:
        """Whether the limit is not known yet, or was found to be higher."""
        is_quiet = self._accepted_in_a_row > max(self.ENOUGH, self.QUIET * self._refused_at)
        return self._searching or (is_quiet and self._known > 1.1 * self._refused_at)

    def _grow(self) -> None:
        rate = self._known
        if self._is_search() or self._trial.tolerated:
            self._known += min(1.0, rate / 4)
        else:
            self._known += min(rate / 4, 0.2, self.STEP / rate)

    def record_success(self, started: float, now: float) -> None:
        """Note an accepted attempt."""
        self._accepted_at.append(now)
        self._accepted += 1
        self._accepted_in_a_row += 1
        self._last = now
        self._trial.record_success(started)

    def record_refusal(self, started: float, now: float, *, suspect: bool, again: bool) -> bool:
        """Note a refusal, and return whether it is news.

        Args:
            now: the time.
            suspect: whether it may be about the request alone.
            again: whether nothing of its subject was accepted since the last refusal.
        """
        self._refused += 1
        if not suspect:
            self._went_too_far = self._went_too_far or self._is_search()
            self._accepted_in_a_row = 0
        if self._trial.is_on:
            return self._trial.record_refusal(started)
        if self._trial.tolerated:
            return self._trial.record_refusal(started) and not suspect
        if self._refused >= 4 and self._refused > 2 * self._accepted:
            return True
        if self._is_held(now):
            return self._trial.record_refusal(started) and not suspect
        if self.is_known or suspect or again:
            return self.is_known and not suspect
        doubts, self._doubts = self._doubts, self._accepted + self.LONG
        return self._accepted < doubts

    def begin_trial(self, now: float) -> bool:
        """Begin a burst in place of a cut if there is reason to, and return whether it began."""
        if not self.is_known or self._searching or not self._trial.begin(now, self._known):
            return False
        self._next = now + 1 / self._cap
        return True

    def forget(self) -> None:
        """Count accepted and refused attempts from zero again."""
        self._accepted = self._refused = self._doubts = 0

    def slow_down(self, opened: float, now: float, excused: float) -> None:
        """Cut the rate to a little less than what was accepted lately.

        Args:
            opened: when the breaker opened.
            now: when it closed.
            excused: seconds of it in which nothing was tried that could have been accepted.
        """
        closed, elapsed, waited = now - opened, now - self._since, excused
        hold = 4 * (closed - excused) + 3 * excused
        if not self.is_known:
            span = elapsed = max(elapsed, self.SPAN)  # a burst is no rate
            excused = 0.0
        else:
            excused = excused if elapsed > closed + self.SPAN / 2 else 0.0
            span = min(elapsed, max(self.SPAN, 16 / self._known, 8 * (closed - excused)) + excused)
        if len(self._accepted_at) == self._accepted_at.maxlen:
            span = min(span, now - self._accepted_at[0])
        accepted = sum(moment > now - span for moment in self._accepted_at)
        seen = accepted / max(span - excused, self.CATCH_UP)
        least = self.FIRST
        if self.is_known:
            if accepted < self.FEW:  # a share of the rate, which no wait distorts
                seen, waited = self._known * self._accepted / max(1, self._accepted + self._refused), 0.0
            least = self.SLOWEST if self._searching and elapsed - waited >= self.SPAN else self._known / 2
        self._trial.judge(closed=closed - excused > self.SPAN / 2 + 2 / self._known)
        back_off = self.BACK_OFF_SEARCH if self._went_too_far and not self._searching else self.BACK_OFF
        self._searching, self._refused_at = not self.is_known, min(self._known, seen)
        self._known = max(self.SLOWEST, least, min(self._known, back_off * seen / (1 - self._trial.tolerated)))
        self._held_until = now + max(min(elapsed, self.HOLD), hold, min(10.0, 20 / self._known))
        self._since, self._went_too_far = now, False
        self._next = now + 1 / self.rate
