"""Who may send now: one governor a client, which finds out by itself what the service can take.

Five small rules, and the `Governor` that asks them all before it lets an attempt start:

- `Concurrency`: how many attempts may be in flight; cut when the service is overloaded, grown back step by step.
- `Pace`: how many attempts may start a second; armed by the first 429, then follows what the service accepts.
- the gate: nothing starts inside a wait that the service asked for.
- `Breaker`: when nothing gets through, one probe at a time goes out instead of everybody's retries.
- `RetryQuota`: what all calls together may spend on retries that don't end well.

The rules hold no clock: the time is an argument.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections import defaultdict, deque
from typing import TypeAlias

import attrs

from seorep_async.errors import RateLimitedError
from seorep_async.session.clock import Alarm, Clock
from seorep_async.session.retry_policy import TRANSIENT_COST, Signal
from seorep_async.settings import Settings


class Concurrency:
    """Attempts that may be in flight: one cut for each bout of overload, one more for each round without.

    Args:
        ceiling: never more than this.
    """

    CUT = 0.7

    def __init__(self, ceiling: int) -> None:
        self._ceiling = ceiling
        self._limit = float(ceiling)
        self._last_cut = -math.inf

    @property
    def limit(self) -> int:
        """Attempts that may be in flight now, at least 1."""
        return int(self._limit)

    def grow(self) -> None:
        """Note a success: as many of them as the limit raise it by one."""
        if self._limit < self._ceiling:
            self._limit = min(self._ceiling, self._limit + 1 / self._limit)

    def cut(self, started: float, now: float) -> None:
        """Note an overload, unless the attempt started before the last cut and so tells nothing new."""
        if started > self._last_cut:
            self._last_cut = now
            self._limit = max(1.0, self._limit * self.CUT)


class Pace:
    """Attempts that may start a second: free until the first 429, then what the service was seen to accept.

    The first 429 sets the pace to what was accepted in the second before, which is far too little if the limit was
    met in the first burst; so the pace doubles every second until the next 429. From then on the rate that the
    service accepted just before a 429 is its limit as far as we know: the pace falls a little below it, is back
    there after `PLATEAU` seconds, and only then looks for more, slowly at first (the shape of TCP CUBIC).

    Args:
        cap: never more than this, or None.
    """

    SEEN = 1.0
    """Seconds before a 429 over which accepted attempts are counted."""
    FEW = 5
    """Fewer accepted attempts than this tell no rate."""
    AFTER_SEARCH = 0.8
    """Part of the accepted rate that is taken as the limit when doubling has overshot it."""
    DIP = 0.12
    """Part of the limit by which the pace falls below it after a 429."""
    PLATEAU = 3.0
    SLOWEST = 0.2
    """Attempts a second that are tried in any case."""
    CATCH_UP = 0.02
    """Seconds that late timers may make up for; what a longer stall cost stays lost, or there would be a burst."""

    def __init__(self, cap: float | None) -> None:
        self._cap = math.inf if cap is None else cap
        self._armed = False
        self._searching = True
        self._known = 0.0
        self._since = 0.0
        self._last_cut = -math.inf
        self._next = -math.inf
        self._accepted: deque[float] = deque(maxlen=10_000)

    def rate(self, now: float) -> float:
        """Attempts a second that may start now; infinite where no limit is known."""
        if not self._armed:
            return self._cap
        elapsed = max(0.0, now - self._since)
        if self._searching:
            rate = self._known * math.exp2(min(elapsed, 100.0))
        else:
            rate = self._known * (1 + self.DIP * min((elapsed / self.PLATEAU - 1) ** 3, 1e6))
        return min(self._cap, max(rate, self.SLOWEST))

    @property
    def _is_free(self) -> bool:
        return not self._armed and self._cap == math.inf

    def next_start(self, now: float) -> float:
        """Return the time from which the next attempt may start."""
        return now if self._is_free else self._next

    def start(self, now: float) -> None:
        """Note that an attempt starts."""
        if self._is_free:
            return
        due = now - self.CATCH_UP
        self._since += max(0.0, due - max(self._next, self._since))  # a time that nobody used tells nothing
        rate = self.rate(now)
        if rate < math.inf:
            self._next = max(self._next, due) + 1 / rate

    def accept(self, now: float) -> None:
        """Note that the service accepted an attempt."""
        self._accepted.append(now)
        while self._accepted[0] <= now - self.SEEN:
            self._accepted.popleft()

    def slow_down(self, started: float, now: float, resume: float) -> None:
        """Note a 429, unless the attempt started before the last one and so tells nothing new.

        Args:
            started: when the attempt started.
            now: the time.
            resume: when attempts start again: now, or the end of the wait that the service asked for.
        """
        if started <= self._last_cut:
            return
        window = min(self.SEEN, now - self._since) if self._armed else self.SEEN
        accepted = sum(1 for moment in self._accepted if moment > now - window)
        if not self._armed:
            self._armed = True
            self._known = max(1.0, accepted / window)
        elif accepted < self.FEW:
            self._known = max(self.SLOWEST, self._known / 2 if self._searching else 0.7 * self.rate(now))
        else:
            seen = min(accepted / window, self.rate(now))
            self._known = max(self.SLOWEST, seen * self.AFTER_SEARCH if self._searching else seen)
            self._searching = False
        self._last_cut, self._since = now, resume


class Breaker:
    """Opens after a row of failures without contact; then one probe at a time goes out, until one gets an answer."""

    ROW = 10
    """Failures in a row that open it."""
    FIRST_PAUSE = 0.1
    LONGEST_PAUSE = 0.4
    """Seconds between the starts of two probes, doubled from the first to the longest."""

    def __init__(self) -> None:
        self._row = 0
        self.since: float = -math.inf
        """When the row of failures began."""
        self._probing = False
        self._pause = self.FIRST_PAUSE
        self._next_probe = 0.0

    @property
    def is_open(self) -> bool:
        """Whether only probes go out."""
        return self._row >= self.ROW

    def next_start(self, now: float) -> float:
        """Return the time from which the next attempt may start; infinite while a probe is out."""
        if not self.is_open:
            return now
        return math.inf if self._probing else self._next_probe

    def start(self, now: float) -> bool:
        """Note that an attempt starts, and tell whether it is a probe."""
        if self.is_open:
            self._probing = True
            self._next_probe = now + self._pause
            self._pause = min(self.LONGEST_PAUSE, 2 * self._pause)
        return self.is_open

    def end_probe(self) -> None:
        """Note that the probe is over, whatever came of it."""
        self._probing = False

    def contact(self, started: float) -> None:
        """Note an answer; to an attempt that started before the row of failures began it only makes up for one."""
        if started > self.since:
            self._row = 0
            self._pause = self.FIRST_PAUSE
        elif not self.is_open:
            self._row = max(0, self._row - 1)

    def no_contact(self, now: float) -> None:
        """Note a failure without contact."""
        self._row += 1
        if self._row == 1:
            self.since = now
        if self._row == self.ROW:
            self._next_probe = now + self._pause


class RetryQuota:
    """Tokens for retries, shared by all calls: a call that succeeds in the end gives back all it spent.

    A share of the requests as a budget would drop calls just when faults are random and survivable; this drops none
    then, and still ends the retries of a lasting outage.
    """

    CAPACITY = 500

    def __init__(self) -> None:
        self._tokens = self.CAPACITY

    @property
    def tokens(self) -> int:
        """Tokens that are left."""
        return self._tokens

    def spend(self, cost: int) -> None:
        """Take the tokens for a retry."""
        self._tokens -= cost

    def give_back(self, spent: int) -> None:
        """Give back what a call had spent that was cancelled: that tells nothing about the service."""
        self._tokens = min(self.CAPACITY, self._tokens + spent)

    def succeed(self, spent: int) -> None:
        """Give back what a call had spent, and the price of a retry, for those whose calls did not succeed.

        While half of the attempts succeed the tokens can't run out, however many calls wait for a retry at once.
        """
        self._tokens = min(self.CAPACITY, self._tokens + spent + TRANSIENT_COST)


@attrs.define
class Permit:
    """A permit for one attempt; release it with the attempt's outcome.

    Attributes:
        started: when it was given.
        probe: whether the attempt finds out if an outage is over.
    """

    started: float
    probe: bool


_Turn: TypeAlias = "asyncio.Future[Permit | RateLimitedError | None]"


class Governor:
    """Lets attempts start when all rules allow it, the most urgent first.

    Args:
        settings: `max_concurrency`, `requests_per_second`, `retry_after_max`.
        clock: time and alarms.
    """

    LONGEST_GATE = 3600.0
    """Seconds for which a 429 can stop everything."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._clock = clock
        self._longest_gate = settings.retry_after_max
        self._concurrency = Concurrency(settings.max_concurrency)
        self._pace = Pace(settings.requests_per_second)
        self._breaker = Breaker()
        self._gate = -math.inf
        self._in_flight = 0
        self._closed = False
        self._patience = math.inf if settings.call_timeout is None else settings.call_timeout
        self._groups: dict[_Turn, object] = {}
        self._waiting: list[tuple[int, int, float, _Turn]] = []  # priority, arrival, deadline
        self._arrivals = itertools.count()
        self._alarm: Alarm | None = None
        self.quota: RetryQuota = RetryQuota()
        self.waited: defaultdict[str, float] = defaultdict(float)

    @property
    def in_flight(self) -> int:
        """Attempts in flight."""
        return self._in_flight

    @property
    def concurrency(self) -> int:
        """Attempts that may be in flight now."""
        return self._concurrency.limit

    @property
    def pace(self) -> float | None:
        """Attempts a second that may start now, or None where no limit is known."""
        rate = self._pace.rate(self._clock.monotonic())
        return None if rate == math.inf else rate

    def try_acquire(self, deadline: float, *, refused: bool = False) -> Permit | None:
        """Return a permit if one is free at once and nobody waits, else None: the way without a coroutine.

        Args:
            deadline: monotonic time after which a permit is of no use.
            refused: whether the request was refused before (429, 503).
        """
        if self._waiting or self._closed:
            return None
        now = self._clock.monotonic()
        if now >= deadline or self._obstacle(now)[0] is not None:
            return None
        return self._start(now)

    async def acquire(
        self, priority: int, deadline: float, group: object = None, *, refused: bool = False
    ) -> Permit | None:
        """Wait for a permit for one attempt.

        Args:
            priority: the lowest is served first, equals in the order they came.
            deadline: monotonic time after which a permit is of no use.
            group: what `withdraw` knows the attempt by, or None.
            refused: whether the request was refused before (429, 503).

        Returns:
            The permit, to be given to `release`; or None if the deadline passed, or an outage has lasted for
            `call_timeout`, or the attempt was withdrawn, or the governor closed.

        Raises:
            RateLimitedError: the service asked to wait past the deadline, or past `retry_after_max`.
        """
        now = self._clock.monotonic()
        if now >= deadline or self._closed:
            return None
        if self._gate_is_too_far(now, deadline):
            raise _asked_to_wait(self._gate - now)
        reason, _ = self._obstacle(now)
        if reason is None and not self._waiting:
            return self._start(now)
        if reason == "outage" and deadline == math.inf and self._outage_is_too_long(now):
            return None
        turn: _Turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._arrivals), deadline, turn))
        expiry = None if deadline == math.inf else self._clock.call_later(deadline - now, lambda: _end(turn, None))
        self._groups[turn] = group
        if reason != "concurrency":  # else there is nothing to do until an attempt ends
            self._dispatch()
        try:
            outcome = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and isinstance(permit := turn.result(), Permit):
                self.release(permit, None)  # leave came as we were cancelled
            raise
        finally:
            del self._groups[turn]
            if expiry is not None:
                expiry.cancel()
            self.waited[reason or "concurrency"] += self._clock.monotonic() - now
        if isinstance(outcome, RateLimitedError):
            raise outcome
        return outcome

    def withdraw(self, group: object) -> None:
        """End the waits of a group; its members get no leave."""
        for turn, member in self._groups.items():
            if member is group:
                _end(turn, None)
        self._dispatch()

    def close(self) -> None:
        """Give no leave any more: whoever waits gets none."""
        self._closed = True
        for *_, turn in self._waiting:
            _end(turn, None)
        self._dispatch()

    def release(self, permit: Permit, signal: Signal | None, retry_after: float | None = None) -> None:
        """Give a permit back.

        Args:
            permit: from `acquire` or `try_acquire`.
            signal: what the attempt told, or None if it was cancelled.
            retry_after: seconds that the service asked to wait, or None.
        """
        self._in_flight -= 1
        if permit.probe:
            self._breaker.end_probe()
        if signal is not None:
            self.observe(permit.started, signal, retry_after)
        self._dispatch()

    def observe(self, started: float, signal: Signal, retry_after: float | None) -> None:
        """Take note of what an attempt told.

        Args:
            started: when it started.
            signal: what it told.
            retry_after: seconds that the service asked to wait, or None.
        """
        now = self._clock.monotonic()
        if retry_after is not None and signal in (Signal.THROTTLED, Signal.OVERLOADED):
            # an overload may be about one object only; and no mistake in a header should stop the client for ever
            longest = self._longest_gate if signal is Signal.OVERLOADED else max(self._longest_gate, self.LONGEST_GATE)
            self._gate = max(self._gate, now + min(retry_after, longest))
            for _, _, deadline, turn in self._waiting:
                if self._gate_is_too_far(now, deadline):
                    _end(turn, _asked_to_wait(self._gate - now))
        if signal is Signal.FINE:
            self._breaker.contact(started)
            self._concurrency.grow()
            self._pace.accept(now)
        elif signal is Signal.THROTTLED:
            self._breaker.contact(started)
            self._concurrency.cut(started, now)
            self._pace.slow_down(started, now, max(now, self._gate))
        elif signal is Signal.OVERLOADED:
            self._breaker.no_contact(now)
            self._concurrency.cut(started, now)
        elif signal is Signal.UNREACHABLE:
            self._breaker.no_contact(now)

        if self._breaker.is_open and self._outage_is_too_long(now):
            for _, _, until, turn in self._waiting:
                if until == math.inf:
                    _end(turn, None)

    def _outage_is_too_long(self, now: float) -> bool:
        return now - self._breaker.since > self._patience

    def _gate_is_too_far(self, now: float, deadline: float) -> bool:
        return self._gate - now > min(self._longest_gate, deadline - now)

    def _obstacle(self, now: float) -> tuple[str | None, float]:
        """Return why nothing may start now, and when to look again; None where something may."""
        if self._in_flight >= self._concurrency.limit:
            return "concurrency", math.inf
        if self._gate > now:
            return "asked to wait", self._gate
        if (moment := self._breaker.next_start(now)) > now:
            return "outage", moment
        if (moment := self._pace.next_start(now)) > now:
            return "pace", moment
        return None, now

    def _start(self, now: float) -> Permit:
        self._in_flight += 1
        self._pace.start(now)
        return Permit(now, self._breaker.start(now))

    def _dispatch(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self._waiting:
            turn = self._waiting[0][-1]
            if turn.done():
                heapq.heappop(self._waiting)
                continue
            now = self._clock.monotonic()
            reason, moment = self._obstacle(now)
            if reason is not None:
                if moment < math.inf:
                    self._alarm = self._clock.call_later(moment - now, self._dispatch)
                return
            heapq.heappop(self._waiting)
            turn.set_result(self._start(now))


def _end(turn: _Turn, outcome: RateLimitedError | None) -> None:
    if not turn.done():
        turn.set_result(outcome)


def _asked_to_wait(seconds: float) -> RateLimitedError:
    message = f"not sent, because the service asked to wait for another {seconds:.3g} s"
    return RateLimitedError(message, retry_after=seconds)
