"""The queue for permits: who may send next, in turns between clients, and between the pulls and calls of each."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import math
from bisect import insort
from collections import OrderedDict, defaultdict
from typing import NoReturn, TypeAlias

import msgspec

from seorep_async.errors import ConfigurationError, RateLimitedError
from seorep_async.session.clock import Clock
from seorep_async.session.flow_control.pace import Pace, Subject
from seorep_async.session.retry_policy import Cause, Failure, RetryQuota
from seorep_async.settings import Settings

Origin: TypeAlias = tuple[str, str | None, int | None]
LONGEST_PAUSE = 3600.0  # seconds for which a refusal can stop everything; no mistake in a header should for ever
FOR_OLDEST = (
    4  # every so many permits of a client, one goes to the oldest taker: a pull beside calls
)
_log = logging.getLogger("seorep_async")


class Permit(msgspec.Struct, eq=False):
    """A permit for one attempt; `probe` if the attempt finds out whether the service accepts anything again."""

    started: float
    probe: bool
    subject: Subject | None
    ended: bool = False
    wait: tuple[float, str] = (0.0, "")  # for it: seconds, and the reason


class Waiter(msgspec.Struct, order=True):
    """One that waits for a permit, in the order of priority and arrival; retries have a negative priority."""

    priority: int
    arrival: int
    since: float
    deadline: float
    subject: Subject | None
    client: Governor
    taker: Taker | None
    turn: asyncio.Future[Permit | Exception | None]

    def end(self, outcome: Exception | None) -> None:
        """End the wait without a permit, if it has not ended."""
        if not self.turn.done():
            self.turn.set_result(outcome)

    def end_if_hopeless(self, now: float, pace: Pace) -> None:
        """End the wait if a pause lasts longer than its client waits; or an outage, and its clock has not started."""
        pause, (longest_pause, longest_outage) = pace.paused_until - now, self.client.patience
        if pause > min(longest_pause, self.deadline - now):
            reason = "not sent, because the service asked for a pause of another"
            self.end(RateLimitedError(f"{reason} {pause:.3g} s", retry_after=pause))
        elif pace.gate and self.deadline == math.inf and now - pace.closed_at > longest_outage:
            self.end(TimeoutError())


class Taker(msgspec.Struct, eq=False):
    """A pull, a listing or a single call: what takes turns. Its own requests go by their priority."""

    born: int = msgspec.field(default_factory=itertools.count().__next__)
    waiting: list[Waiter] = []  # in order


class Limits:
    """The limits of one service, shared by clients of one process: `SeoRepClient(url, key, limits=limits)`.

    Clients that share them find the service's limits once, keep to them together, and take turns. Each has its own key,
    retries, retry quota and `stats`, of which `pace` and `concurrency` are those of all. Clients of another event loop
    may use them once all are closed, or their loop is.

    Args:
        max_concurrency: requests of all clients in flight at once, 1 to 1024.
        requests_per_second: a hard cap on the rate of all, or None to let them find the service's limit.

    Raises:
        ConfigurationError: a value is out of its range or of the wrong type.
    """

    def __init__(
        self, *, max_concurrency: int = 16, requests_per_second: float | None = None
    ) -> None:
        Settings(
            max_concurrency=max_concurrency, requests_per_second=requests_per_second
        )  # checks them
        self.max_concurrency: int = max_concurrency
        self.requests_per_second: float | None = requests_per_second
        self._pace = Pace(
            max_concurrency, math.inf if requests_per_second is None else requests_per_second
        )
        self._clients: list[Governor] = []
        self._numbers = itertools.count()  # of arrivals and turns
        self._in_flight: set[Permit] = set()
        self._alarm: asyncio.TimerHandle | None = None
        self._clock = Clock()
        self._origin: Origin | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _join(self, client: Governor, origin: Origin | None, clock: Clock) -> None:
        loop = asyncio.get_running_loop()
        if self._origin not in (None, origin):
            raise ConfigurationError(
                "limits are those of one service: create others for a client of another base_url"
            )
        if self._loop is not None and self._loop.is_closed():
            self._clients.clear()
        if self._clients and loop is not self._loop:
            problem = "limits are in use in another event loop: close the clients there, or create others in each loop"
            raise ConfigurationError(problem)
        if not self._clients:  # the limits that were found stay
            self._alarm, self._in_flight = None, set()
            self._pace.reopen()
        self._clients.append(client)
        self._origin, self._loop, self._clock = origin, loop, clock

    def _obstacle(self, now: float) -> tuple[str, float]:
        return self._pace.next_start(now, len(self._in_flight))

    def _start(self, now: float, client: Governor, subject: Subject | None) -> Permit:
        client.served = next(self._numbers)
        permit = Permit(now, self._pace.start(now, subject), subject)
        self._in_flight.add(permit)
        return permit

    def _dispatch(self) -> None:
        """Grant the permits that are free, and come back for the next."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        while clients := [client for client in self._clients if client.waits]:
            now = self._clock.monotonic()
            if (moment := self._obstacle(now)[1]) > now:
                self._alarm = (
                    None
                    if moment == math.inf
                    else self._clock.call_later(moment - now, self._dispatch)
                )
                return
            waiter = self._probe() if self._pace.gate else None
            waiter = waiter or min(clients, key=lambda client: client.served).take()
            if waiter is not None:  # else all have ended just now
                waiter.turn.set_result(self._start(now, waiter.client, waiter.subject))

    def _waiters(self) -> list[Waiter]:
        return [one for client in self._clients for one in client.waiters()]

    def _probe(self) -> Waiter | None:
        """Return the newest waiter with a subject that was not refused, or else the one that was refused longest ago.

        A dead campaign must not keep the gate closed, nor one call spend its attempts as every probe.
        """
        refused = self._pace.doubtful

        def place(one: Waiter) -> tuple[float, int]:
            return refused.get(
                one.subject, -math.inf
            ), one.arrival if one.priority < 0 else -one.arrival

        return min(self._waiters(), key=place, default=None)

    def __repr__(self) -> str:
        return f"Limits(max_concurrency={self.max_concurrency}, requests_per_second={self.requests_per_second})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "limits cannot be pickled or copied: they hold for one process; create them in each"
        )


class Governor:
    """Gets a permit for each attempt of one client, from limits of its own or shared ones, and learns from it."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        limits: Limits | None = None,
        origin: Origin | None = None,
    ) -> None:
        most, cap = settings.max_concurrency, settings.requests_per_second
        self._limits = limits or Limits(max_concurrency=most, requests_per_second=cap)
        self._clock, self._origin = clock, origin
        self.patience: tuple[float, float] = (
            settings.retry_after_max,
            settings.call_timeout or math.inf,
        )  # as `Waiter`
        self._retries: dict[int, Waiter] = {}  # by arrival
        self._turns: OrderedDict[Taker, None] = OrderedDict()  # those that wait; the first is next
        self._ages: list[tuple[int, int, Taker]] = []  # a heap, also of some that wait no longer
        self._granted = 0
        self._alarm: asyncio.TimerHandle | None = None
        self.served: int = -1  # the number of the last permit
        self.in_flight: int = 0
        self.refused_in_a_row: int = 0  # attempts that ended last, if all of them were refused
        self.quota: RetryQuota = RetryQuota()
        self.waited: defaultdict[str, float] = defaultdict(float)

    @property
    def pace(self) -> float | None:
        """Attempts a second that may start now, or None where no limit is known."""
        return None if (rate := self._limits._pace.rate) == math.inf else rate

    @property
    def concurrency(self) -> int:
        """Attempts that may be in flight, once the window has opened."""
        pace = self._limits._pace
        return pace.ceiling if pace.shrunk_at == -math.inf else int(pace.window)

    @property
    def only_probes(self) -> bool:
        """Whether nothing but probes goes out, as the service refuses or fails."""
        return bool(self._limits._pace.gate)

    @property
    def waits(self) -> bool:
        """Whether anything waits for a permit."""
        return bool(self._turns or self._retries)

    def waiters(self) -> list[Waiter]:
        """Return all that wait for a permit."""
        all_of_them = itertools.chain(
            self._retries.values(), *(taker.waiting for taker in self._turns)
        )
        return [waiter for waiter in all_of_them if not waiter.turn.done()]

    def in_words(self, seconds: float, reason: str) -> str:
        """Say how long an attempt waited, and for what, or nothing if it did not."""
        pace = self._limits._pace
        what = (
            "the service to accept anything again"
            if pace.gate or reason == "outage"
            else "its turn"
        )
        if reason == "asked to wait":
            what = "the end of the pause that the service asked for"
        elif reason == "concurrency" and self.concurrency == pace.ceiling:
            what = f"its turn: the {pace.ceiling} requests of max_concurrency were in flight"
        elif reason == "concurrency":
            what = f"its turn: {self.concurrency} requests at once are as many as went well"
        elif reason == "pace" and not pace.gate and pace.known > pace.cap:
            what = f"its turn, at your own cap of requests_per_second={pace.cap:g}"
        elif reason == "pace" and not pace.gate and pace.known < math.inf:
            what = f"its turn, at the {pace.rate:.3g} requests a second that the service accepts"
        return f"{seconds:.3g} s for {what}" if seconds > 0.001 else ""

    def open(self) -> None:
        """Begin in the running event loop."""
        self._limits._join(self, self._origin, self._clock)

    def close(self) -> None:
        """Stop granting permits and wake all waiters; those of other clients wait on."""
        self._limits._clients = [one for one in self._limits._clients if one is not self]
        self._limits._pace.forget(self)
        self.withdraw()
        if self._alarm is not None:
            self._alarm.cancel()

    def withdraw(self) -> None:
        """End all waits; they get no permit."""
        for waiter in self.waiters():
            waiter.end(None)
        self._limits._dispatch()

    def take(self) -> Waiter | None:
        """Take out who is next, or None if nobody waits: retries first, then takers in turn, and the oldest often."""
        while self._retries:
            waiter = self._retries.pop(next(iter(self._retries)))
            if not waiter.turn.done():
                return waiter
        self._granted += 1
        while self._turns:
            while self._ages[0][2] not in self._turns:
                heapq.heappop(self._ages)
            taker = self._ages[0][2] if self._granted % FOR_OLDEST == 0 else next(iter(self._turns))
            self._turns.move_to_end(taker)
            waiter = taker.waiting[0]
            self._leave(waiter)
            if not waiter.turn.done():
                return waiter
        return None

    def try_acquire(self, deadline: float, subject: str | None = None) -> Permit | None:
        """Return a permit if one is free at once and nobody waits, else None, without awaiting; see `acquire`."""
        limits, now = self._limits, self._clock.monotonic()
        is_free = limits._obstacle(now)[1] <= now < deadline
        if not is_free or any(client.waits for client in limits._clients):
            return None
        self.in_flight += 1
        return limits._start(now, self, (self, subject) if subject else None)

    async def acquire(
        self, priority: int, deadline: float, subject: str | None = None, taker: Taker | None = None
    ) -> Permit | None:
        """Wait for a permit for one attempt: takers in turns, and of one the lowest priority first.

        Return None if the waits were withdrawn. Raise a TimeoutError, with any reason, past the deadline or an outage
        of `call_timeout`; a RateLimitedError if the service asks for a pause past the deadline or `retry_after_max`.
        """
        now, limits = self._clock.monotonic(), self._limits
        if now >= deadline:
            raise TimeoutError
        reason, _ = limits._obstacle(now)
        waiter = self._queue(
            now, priority, deadline, subject, None if priority < 0 else taker or Taker()
        )
        waiter.end_if_hopeless(now, limits._pace)
        limits._dispatch()
        has_end = deadline < math.inf
        expiry = (
            self._clock.call_later(deadline - now, lambda: waiter.end(TimeoutError()))
            if has_end
            else None
        )
        outcome: Permit | Exception | None = None
        try:
            outcome = await waiter.turn
        except asyncio.CancelledError:
            if not waiter.turn.cancelled() and isinstance(granted := waiter.turn.result(), Permit):
                self.in_flight += 1
                self.release(granted, None)  # granted as we were cancelled
            raise
        finally:
            self.waited[reason] += self._clock.monotonic() - now
            if expiry is not None:
                expiry.cancel()
            if not isinstance(outcome, Permit) or outcome.probe:  # `take` did not take it out
                self._leave(waiter)
        if isinstance(outcome, Exception):
            raise (
                TimeoutError(limits._pace.gate or reason)
                if isinstance(outcome, TimeoutError)
                else outcome
            )
        if outcome is not None:
            self.in_flight += 1
            outcome.wait = self._clock.monotonic() - now, reason
        return outcome

    def _queue(
        self, now: float, priority: int, deadline: float, subject: str | None, taker: Taker | None
    ) -> Waiter:
        number, turn = next(self._limits._numbers), asyncio.get_running_loop().create_future()
        waiter = Waiter(
            priority, number, now, deadline, (self, subject) if subject else None, self, taker, turn
        )
        if taker is None:
            self._retries[number] = waiter
            return waiter
        if not taker.waiting:
            self._turns[taker] = None
            heapq.heappush(self._ages, (taker.born, number, taker))
            if len(self._ages) > 2 * len(self._turns) + 64:
                self._ages = sorted((one.born, place, one) for place, one in enumerate(self._turns))
        insort(taker.waiting, waiter)
        if deadline == math.inf and self._alarm is None and self.patience[1] < math.inf:
            self._alarm = self._clock.call_later(self.patience[1], self._warn)
        return waiter

    def _leave(self, waiter: Waiter) -> None:
        """Take a waiter out of the queue, if it is still there."""
        self._retries.pop(waiter.arrival, None)
        if (taker := waiter.taker) is not None and waiter in taker.waiting:
            taker.waiting.remove(waiter)
            if not taker.waiting:
                del self._turns[taker]

    def _warn(self) -> None:
        """Warn once if a request has waited for `call_timeout` before its clock started, as no error will say so."""
        since = min(
            (one.since for one in self.waiters() if one.deadline == math.inf), default=math.inf
        )
        now, longest = self._clock.monotonic(), self.patience[1]
        if now - since >= longest:
            waited = self.in_words(now - since, self._limits._obstacle(now)[0])
            _log.warning("a request has waited %s; nothing was sent", waited)
        else:
            self._alarm = (
                None
                if since == math.inf
                else self._clock.call_later(since + longest - now, self._warn)
            )

    def end(self, permit: Permit) -> None:
        """Take a permit back; `release` lets others have it."""
        self.in_flight -= 1
        if (
            permit in self._limits._in_flight
        ):  # else the garbage collector ends an attempt of a closed loop
            self._limits._in_flight.remove(permit)
            self._limits._pace.probes -= (
                permit.probe and permit.started > self._limits._pace.closed_at
            )
            permit.ended = True

    def release(self, permit: Permit, outcome: object | None) -> None:
        """End a permit, and learn from its attempt: a Failure, a response, or None if it was cancelled."""
        if not permit.ended:
            self.end(permit)
        if permit.ended:
            if outcome is not None:
                self._learn(permit, outcome if isinstance(outcome, Failure) else None)
            self._limits._dispatch()

    def _learn(self, permit: Permit, failure: Failure | None) -> None:
        """Learn from a failure, or from None, a success."""
        limits, pace, now = self._limits, self._limits._pace, self._clock.monotonic()
        if failure is not None and failure.inconclusive:
            return
        self.refused_in_a_row = (
            self.refused_in_a_row + 1 if failure is not None and failure.is_refusal else 0
        )
        if failure is None or failure.is_answer:
            pace.accept(permit.started, permit.subject, now)
        elif failure.is_refusal:
            seconds, longest = failure.retry_after, self.patience[0]
            # a 503 that asks for longer than calls wait may be about its subject alone, except of a probe
            of_all = failure.cause is Cause.THROTTLE or permit.probe
            if waits := seconds is not None and (of_all or seconds <= longest):
                pace.pause(now, now + min(seconds, max(longest, LONGEST_PAUSE)))
            pace.refuse(permit.started, permit.subject, waits, now)
        elif failure.no_room:
            pace.make_do(len(limits._in_flight), now)
        elif failure.cause is Cause.OVERLOAD:
            pace.time_out(permit.started, now)
        else:
            pace.fail(now)
        if pace.gate or pace.paused_until > now:
            for waiter in limits._waiters():
                waiter.end_if_hopeless(now, pace)
