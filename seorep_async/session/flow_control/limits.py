"""The order in which attempts start, also those of clients that share limits: they take turns."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections import deque
from typing import NoReturn, TypeAlias

import attrs
import msgspec

from seorep_async.errors import ConfigurationError, RateLimitedError
from seorep_async.session.clock import Alarm, Clock
from seorep_async.session.flow_control.admission_control import AdmissionControl, Permit
from seorep_async.settings import Settings

Outcome: TypeAlias = Permit | RateLimitedError | None
Origin: TypeAlias = tuple[str, str | None, int | None]


class Waiter(msgspec.Struct, order=True):
    """One that waits for a permit, for as long as its client would; in the order of priority and arrival."""

    priority: int
    arrival: int
    deadline: float
    longest_wait: float
    longest_outage: float
    group: object
    refused: bool
    subject: str | None
    turn: asyncio.Future[Outcome]

    def end(self, outcome: Outcome) -> None:
        """End the wait, if it has not ended."""
        if not self.turn.done():
            self.turn.set_result(outcome)


class PermitQueue:
    """Grants permits to the clients of one service as soon as `AdmissionControl` admits an attempt."""

    def __init__(self, admission: AdmissionControl, clock: Clock) -> None:
        self.admission: AdmissionControl = admission
        self._clock = clock
        self.numbers: itertools.count[int] = itertools.count()
        """Number waiters by their arrival, and clients."""
        self.turns: deque[list[Waiter]] = deque()
        """Of each client that waits, a heap of its waiters; the first is next."""
        self._served: list[Waiter] | None = None
        self._alarm: Alarm | None = None
        self._clients = 0
        self._origin: Origin | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def join(self, origin: Origin | None, clock: Clock) -> AdmissionControl:
        """Let in a client that opens, if it is of the same service and event loop; those of a closed loop are gone."""
        loop = asyncio.get_running_loop()
        if self._origin not in (None, origin):
            raise ConfigurationError(
                "limits are those of one service: create others for a client with another base_url"
            )
        if self._loop is not None and self._loop.is_closed():
            self._clients = 0
        if self._clients and loop is not self._loop:
            raise ConfigurationError(
                "limits are in use in another event loop: close the clients there, or create others in each loop"
            )
        if not self._clients:
            self.admission, self.turns, self._alarm = self.admission.without_attempts(), deque(), None
        self._clients += 1
        self._origin, self._loop, self._clock = origin, loop, clock
        return self.admission

    def leave(self, subjects: str) -> None:
        """Let out a client that closed, and forget its subjects, which begin so."""
        self._clients -= 1
        self.admission.failing.forget(subjects)

    def add(self, waiter: Waiter, waiting: list[Waiter]) -> None:
        """Add a waiter; a client that begins to wait is last, but before one that was served just now."""
        if not waiting:
            self.turns.insert(len(self.turns) - bool(self.turns and self.turns[-1] is self._served), waiting)
        heapq.heappush(waiting, waiter)

    def dispatch(self) -> None:
        """Grant the permits that are free."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        admission = self.admission
        while self.turns:
            waiting = self.turns[0]
            if waiting[0].turn.done():
                heapq.heappop(waiting)
                if not waiting:
                    self.turns.popleft()
                continue
            now = self._clock.monotonic()
            obstacle = admission.obstacle(now)
            if obstacle is not None:
                if obstacle[1] < math.inf:
                    self._alarm = self._clock.call_later(obstacle[1] - now, self.dispatch)
                return
            waiter = self._take_probe() if admission.breaker.is_open else self._take_next()
            waiter.turn.set_result(admission.start(now, waiter.refused, waiter.subject))

    def _take_next(self) -> Waiter:
        """Take out the most urgent waiter of the client whose turn it is."""
        self._served = waiting = self.turns.popleft()
        waiter = heapq.heappop(waiting)
        if waiting:
            self.turns.append(waiting)
        return waiter

    def _take_probe(self) -> Waiter:
        """Take out the newest waiter with a clean record, of any client."""
        is_doubtful = self.admission.is_doubtful
        waiters = [waiter for waiting in self.turns for waiter in waiting if not waiter.turn.done()]
        chosen = max(waiters, key=lambda one: (not is_doubtful(one.subject, one.refused), one))
        for waiting in self.turns:
            waiting[:] = [waiter for waiter in waiting if waiter is not chosen and not waiter.turn.done()]
            heapq.heapify(waiting)
        self.turns = deque(filter(None, self.turns))
        return chosen

    def end_hopeless(self, now: float) -> None:
        """End the waits that a long pause, or a long outage, leaves without hope."""
        admission = self.admission
        if admission.paused_until <= now and not admission.breaker.is_open:
            return
        for waiter in itertools.chain.from_iterable(self.turns):
            if admission.pause_is_too_long(now, waiter.deadline, waiter.longest_wait):
                waiter.end(asked_to_wait(admission.paused_until - now))
            elif waiter.deadline == math.inf and admission.outage_is_too_long(now, waiter.longest_outage):
                waiter.end(None)


def asked_to_wait(seconds: float) -> RateLimitedError:
    """Return the error of a request that the service's pause leaves without hope."""
    message = f"not sent, because the service asked for a pause of another {seconds:.3g} s"
    return RateLimitedError(message, retry_after=seconds)


class Limits:
    """The limits of one service, shared by clients of one process: `SeoRepClient(url, key, limits=limits)`.

    Clients that share them find the service's limits once and keep to them together: the rate, the requests in flight,
    the pause of a Retry-After, the probes of an outage. They take turns, so that one with many requests holds up no
    other. Each has its own key, retries, retry quota and `stats`, of which `pace` and `concurrency` are those of all.
    `help(seorep_async.errors)` says which clients should share. Clients of another event loop may once all are closed,
    or their loop is.

    Args:
        max_concurrency: requests of all clients in flight at once, 1 to 1024.
        requests_per_second: a hard cap on the rate of all, or None to let them find the service's limit.

    Raises:
        ConfigurationError: a value is out of its range or of the wrong type.
    """

    def __init__(self, *, max_concurrency: int = 16, requests_per_second: float | None = None) -> None:
        self._settings = Settings(max_concurrency=max_concurrency, requests_per_second=requests_per_second)
        self._queue = PermitQueue(AdmissionControl(self._settings), Clock())

    def __repr__(self) -> str:
        numbers = self._settings
        return f"Limits(max_concurrency={numbers.max_concurrency}, requests_per_second={numbers.requests_per_second})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("limits cannot be pickled or copied: they hold for one process; create them in each")


def settings_within(settings: Settings, limits: Limits | None) -> Settings:
    """Return a client's settings with the numbers of the limits that it shares; others of its own are refused."""
    if limits is None:
        return settings
    if not isinstance(limits, Limits):
        raise ConfigurationError(f"limits must be a Limits, got {type(limits).__name__}", argument="limits")
    shared = {name: getattr(limits._settings, name) for name in ("max_concurrency", "requests_per_second")}
    for name, value in shared.items():
        if (own := getattr(settings, name)) not in (value, getattr(Settings(), name)):
            raise ConfigurationError(
                f"Settings({name}={own}) contradicts limits, which hold for all their clients: "
                f"create them as Limits({name}={own}), or leave {name} out of the settings",
                argument="limits",
            )
    return attrs.evolve(settings, **shared)


def permit_queue(settings: Settings, clock: Clock, limits: Limits | None) -> PermitQueue:
    """Return the queue of shared limits, or a client's own."""
    return PermitQueue(AdmissionControl(settings), clock) if limits is None else limits._queue
