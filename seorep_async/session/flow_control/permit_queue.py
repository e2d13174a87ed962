"""The order in which attempts start: clients take turns, each with its most urgent request."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections import deque
from typing import TypeAlias

import msgspec

from seorep_async.errors import ConfigurationError, RateLimitedError
from seorep_async.session.clock import Alarm, Clock
from seorep_async.session.flow_control.admission_control import AdmissionControl, Permit

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

    def join(self, origin: Origin | None, clock: Clock) -> None:
        """Let in a client that opens.

        Raises:
            ConfigurationError: the limits are those of another service, or in use in another event loop.
        """
        loop = asyncio.get_running_loop()
        if self._origin not in (None, origin):
            raise ConfigurationError(
                "limits are those of one service: create others for a client with another base_url"
            )
        if self._clients and loop is not self._loop:
            raise ConfigurationError(
                "limits are in use in another event loop: close the clients there, or create others in each loop"
            )
        if not self._clients:
            self.admission.forget_outage()
        self._clients += 1
        self._origin, self._loop, self._clock = origin, loop, clock

    def leave(self, subjects: str) -> None:
        """Let out a client that closed, and forget its subjects, which begin so."""
        self._clients -= 1
        self.admission.forget_subjects(subjects)

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
