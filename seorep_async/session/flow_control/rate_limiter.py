"""How many attempts may start a second: a rate that is cut, held and raised, the time is given."""

from __future__ import annotations

import enum
import math
from collections import deque

from seorep_async.session.flow_control.random_loss import RandomLoss


class _Cut(enum.Enum):
    """What the last cut followed, which decides how the rate grows from there."""

    REFUSAL = enum.auto()
    WAIT = enum.auto()
    """A long wait that the service asked for."""
    RISE = enum.auto()
    """A search that went far beyond the rate that was refused before."""


class RateLimiter:
    """Attempts that may start a second: any number at first, then a little less than was accepted, then slowly more.

    A search raises the rate by one with each attempt (slow start): at first, and once a limit seems to have risen.

    Args:
        cap: never more than this, or None.
    """

    BACK_OFF = 0.8
    """Part of the accepted rate that remains after a cut."""
    BACK_OFF_SEARCH = 0.9
    """The same after a later search, if no long wait was asked for since the last cut: it went too far for a moment."""
    RISEN = 3.0
    """If a search without a long wait reached so many times the rate that was refused before, all remains: the rate
    rose while it was counted. If it is refused again soon, what another search would have left remains."""
    HOLD = 1.5
    """Seconds for which a rate is held after a cut; or as 20 attempts take, or four times what the breaker was open."""
    STEP = 8.0
    """Attempts a second by which the rate grows in a second, unless it is so small that a fifth is less."""
    STEP_AFTER_WAIT = 600.0
    """After a long wait it grows by this divided by the rate: half of `STEP` at least, and two fifths of the rate at
    most."""
    ENOUGH = 90
    """Attempts accepted in a row, at least, that show that a limit rose."""
    QUIET, QUIET_AFTER_WAIT = 2.0, 7.0
    """The same in seconds at the rate that was refused; a limit seems higher while other processes wait."""
    HIGHER, HIGHER_AFTER_WAIT = 1.1, 1.05
    """A limit is searched again only if the rate is at least so many times the one that was refused, too."""
    SEARCH_STEP_AFTER_WAIT = 0.2
    """A step of a search after a long wait, times the rate divided by the one that was refused; at most that of other
    searches, and at least as the rate grows anyway: overshooting costs all a wait, and the first search begins low."""
    SPAN = 1.0
    """Seconds over which accepted attempts are counted, or longer: 16 attempts, or 8 times what it was closed. After
    a rest of as many, earlier ones show no rate; a wait of half of them is a long one."""
    FEW = 8
    """Fewer accepted attempts show no rate."""
    SLOWEST = 0.2
    FIRST = 5.0
    """Attempts a second: the least that any cut leaves, and the least that the first one does."""
    LONG = 32
    """Accepted attempts after which a refusal is the first in a long time."""
    CATCH_UP = 0.02
    """Seconds that late timers may make up for; what a longer stall cost stays lost, or there would be a burst."""

    def __init__(self, cap: float | None) -> None:
        self._cap = math.inf if cap is None else cap
        self._known = self._refused_at = math.inf
        self._next = self._last = self._since = -math.inf
        self._held_until = -math.inf  # and as long as the rate is a first guess
        self._accepted_at: deque[float] = deque(maxlen=4096)
        self._accepted = self._refused = self._grace_until = self._accepted_in_a_row = 0
        self._went_too_far = False
        self._last_cut = _Cut.REFUSAL
        self._waits: deque[tuple[float, float]] = deque(maxlen=64)
        self.waits_until: float = -math.inf
        """The end of the wait that the service asked for last."""
        self._loss = RandomLoss()

    @property
    def rate(self) -> float:
        """Attempts a second that may start now; infinite where no limit is known."""
        return min(self._cap, self._known)

    @property
    def is_known(self) -> bool:
        """Whether the service was found to limit the rate."""
        return self._known < math.inf

    @property
    def is_first_guess(self) -> bool:
        """Whether the first cut is not confirmed by a second; until then the limit is searched, and no rate held."""
        return self._held_until == -math.inf and self.is_known

    @property
    def waits(self) -> int:
        """How often the service asked to wait since the start or the last cut."""
        return len(self._waits)

    def next_start(self, now: float) -> float:
        """Return the time from which the next attempt may start."""
        return now if self._known == self._cap == math.inf else self._next

    def start(self, now: float, *, probe: bool = False) -> None:
        """Note that an attempt starts; before a probe nothing may start, which is no rest."""
        if not probe and now > max(self._next, self._last) + self.SPAN:
            self._since = now
            self._accepted_at.clear()
        self._last = now
        if self._known == self._cap == math.inf:
            return
        if self._loss.train_left:
            self._loss.train_left -= 1
            self._next = now + 1 / (self._cap if self._loss.train_left else self.rate)
            return
        due = now - self.CATCH_UP
        if self._next < due:
            self._held_until += due - self._next  # idle time must not raise the rate
            self._next = due
        elif not self._is_held(now):
            self._grow()
        if self._is_held(now):
            self._loss.record_start()
        self._next += 1 / self.rate

    def _is_held(self, now: float) -> bool:
        return now < self._held_until

    def _is_search(self) -> bool:
        """Whether the limit is not known yet, or was found to be higher."""
        quiet, higher = self.QUIET, self.HIGHER
        if self._last_cut is _Cut.WAIT:
            quiet, higher = self.QUIET_AFTER_WAIT, self.HIGHER_AFTER_WAIT
        is_quiet = self._accepted_in_a_row > max(self.ENOUGH, quiet * self._refused_at)
        return self.is_first_guess or (is_quiet and self._known > higher * self._refused_at)

    def _grow(self) -> None:
        rate, search_step = self._known, 1.0
        step = min(0.2, self.STEP / rate)
        if self._last_cut is _Cut.WAIT:
            step = min(0.4, max(self.STEP_AFTER_WAIT / rate, self.STEP / 2) / rate)
            slow = self.SEARCH_STEP_AFTER_WAIT * rate / max(self.SLOWEST, self._refused_at)
            search_step = min(1.0, max(step, slow))
        if self.is_first_guess or self._loss.share:
            step = 1.0
        elif self._is_search():
            step = search_step
        self._known += min(step, rate / 4)

    def record_success(self, started: float, now: float) -> None:
        """Note an accepted attempt."""
        self._accepted_at.append(now)
        self._accepted += 1
        self._accepted_in_a_row += 1
        self._last = now
        self._loss.record_success(started)

    def record_refusal(self, started: float, now: float, *, is_doubtful: bool, same_subject: bool) -> bool:
        """Note a refusal, and return whether it counts.

        It is doubtful if it may be about the request alone, and of the same subject if nothing of that was accepted
        since its last refusal.
        """
        self._refused += 1
        if not is_doubtful:
            self._went_too_far = self._went_too_far or self._is_search()
            self._accepted_in_a_row = 0
        if self._loss.is_train_out:
            return self._loss.record_refusal(started)
        if self._refuses_nearly_all:
            return True
        if self._loss.share or self._is_held(now):
            counts = self._loss.record_refusal(started)
        elif self.is_known:
            counts = True
        else:
            counts = not (is_doubtful or same_subject) and self._ends_grace()
        return counts and not is_doubtful

    @property
    def _refuses_nearly_all(self) -> bool:
        return not self._loss.share and self._refused >= 4 and self._refused > 2 * self._accepted

    def _ends_grace(self) -> bool:
        """Return whether a refusal is not the first in a long time; if it is, the next one counts for a while."""
        grace_until, self._grace_until = self._grace_until, self._accepted + self.LONG
        return self._accepted < grace_until

    def record_wait(self, begin: float, end: float) -> None:
        """Note a wait that the service asked for, or that it asked to wait longer."""
        end = max(end, self.waits_until)
        if begin >= self.waits_until:
            self._waits.append((begin, end))
        elif self._waits:
            self._waits[-1] = (self._waits[-1][0], end)
        self.waits_until = end

    def start_train(self, now: float) -> bool:
        """Begin a burst in place of a cut if there is reason to, and return whether it began."""
        if not self.is_known or self.is_first_guess or not self._loss.start_train(now, self._known):
            return False
        self._next = now + 1 / self._cap
        return True

    def reset_counts(self) -> None:
        """Count accepted and refused attempts from zero again."""
        self._accepted = self._refused = self._grace_until = 0

    def _tolerated_waits(self, opened: float, begin: float) -> float:
        """Return how many seconds of waits without a cut lie after a time; each makes that time as much earlier."""
        waits = [wait for wait in self._waits if self._since <= wait[0] and wait[1] <= opened]
        if opened - self._since < 3 * sum(until - start for start, until in waits):
            return 0.0  # most of what was accepted was saved up meanwhile
        seconds = 0.0
        for start, until in reversed(waits):
            seconds += (until - start) * (until > begin - seconds)
        return seconds

    def _count_accepted(self, opened: float, now: float, idle: float) -> tuple[int, float]:
        """Return how many attempts were accepted lately, and how many a second without idle ones before `now`."""
        if self.is_known:
            span = max(self.SPAN, 16 / self._known, 8 * (now - opened - idle)) + idle
            tolerated = self._tolerated_waits(opened, now - span)
            span = min(now - self._since, span + tolerated)
        else:
            span, tolerated = max(now - self._since, self.SPAN), 0.0  # a burst is no rate
        if len(self._accepted_at) == self._accepted_at.maxlen and now - span < self._accepted_at[0]:
            span, tolerated = now - self._accepted_at[0], 0.0
        accepted = sum(moment > now - span for moment in self._accepted_at)
        return accepted, accepted / max(span - idle - tolerated, self.CATCH_UP)

    def decrease(self, opened: float, now: float, idle_time: float) -> None:
        """Cut the rate to a little less than what was accepted lately, as the breaker closes.

        It was open for a time, of which in `idle_time` no attempt was allowed to start.
        """
        closed, elapsed, was_known = now - opened, now - self._since, self.is_known
        idle = idle_time if was_known and elapsed > closed + self.SPAN / 2 else 0.0
        seen, least = self._accepted_rate(opened, now, idle, idle_time)
        back_off, least = self._end_search(elapsed, closed - idle, least)
        self._loss.end_round(was_closed=closed - idle > self.SPAN / 2 + 2 / self._known)
        remaining = back_off * seen / (1 - self._loss.share)
        hold = max(min(elapsed, self.HOLD), 4 * (closed - idle_time) + 3 * idle_time)
        self._refused_at = min(self._known, seen)
        self._known = max(self.SLOWEST, least, min(self._known, remaining))
        self._held_until = now + max(hold, min(10.0, 20 / self._known)) if was_known else -math.inf
        self._since, self._went_too_far = now, False
        self._waits.clear()
        self._next = now + 1 / self.rate

    def _accepted_rate(self, opened: float, now: float, idle: float, idle_time: float) -> tuple[float, float]:
        """Return how many attempts a second were accepted lately, and the least rate that a cut leaves."""
        accepted, seen = self._count_accepted(opened, now, idle)
        if not self.is_known:
            return seen, self.FIRST
        elapsed = now - self._since
        tried = elapsed - idle_time
        if accepted < self.FEW:  # use the acceptance ratio, which is independent of pauses
            seen, tried = self._known * self._accepted / max(1, self._accepted + self._refused), elapsed
        return seen, self.SLOWEST if self.is_first_guess and tried >= self.SPAN else self._known / 2

    def _end_search(self, elapsed: float, closed: float, least: float) -> tuple[float, float]:
        """Return the part of the accepted rate that a cut leaves, and the least rate, which a search changes."""
        had_risen = self._last_cut is _Cut.RISE
        self._last_cut = _Cut.WAIT if self._waited_long else _Cut.REFUSAL
        if self.is_first_guess or not self._went_too_far:
            if had_risen and elapsed < 2 * self.HOLD:
                least = max(least, self.BACK_OFF_SEARCH * self._refused_at)
            return self.BACK_OFF, least
        if closed < self.CATCH_UP:  # else the count is too low
            least = self._refused_at / 2
            if self._last_cut is _Cut.REFUSAL and self._known > self.RISEN * self._refused_at:
                self._last_cut = _Cut.RISE
        if self._last_cut is _Cut.WAIT:
            return self.BACK_OFF, least
        return 1.0 if self._last_cut is _Cut.RISE else self.BACK_OFF_SEARCH, least

    @property
    def _waited_long(self) -> bool:
        return any(end - begin >= self.SPAN / 2 for begin, end in self._waits)
