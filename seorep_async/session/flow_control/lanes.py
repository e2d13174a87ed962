"""The lanes in which requests wait for a permit."""

from __future__ import annotations

import asyncio
import bisect
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator

import msgspec

from seorep_async.session.flow_control.breaker import WaitReason
from seorep_async.session.flow_control.refusals import Subject
from seorep_async.session.timeouts import Deadline

_BETWEEN_RETRIES = (1, 2, 3)
"""The number of other requests of a client between two retries. It varies.

With a fixed number, every second or third request of a client would be a retry. A service that
refuses every second or third request, such as one with a broken backend, would refuse all retries.
"""
_arrivals = itertools.count()
"""Numbers the waiters in the order of their arrival."""


class ClientClosed(Exception):
    """The client was closed before a request got a permit."""


class WaitTimeout(Exception):
    """A request got no permit in time.

    Attributes:
        seconds: how long it waited.
        reason: why it waited, or None if it did not.
    """

    def __init__(self, seconds: float = 0.0, reason: WaitReason | None = None) -> None:
        super().__init__(seconds, reason)
        self.seconds = seconds
        self.reason = reason


class Permit(msgspec.Struct, eq=False):
    """A permit for one attempt.

    Attributes:
        started: when it was granted.
        is_probe: whether the attempt tests if the service accepts anything again.
        subject: the subject of the attempt.
        seconds_waited: how long the request waited for it.
        reason: why the request waited, or None if it did not.
        paces_retry: whether a refused request returns to the queue at once, because the pace
            decides when it goes. If it slept through the pause, others would take its place, and
            it would be refused again and again.
    """

    started: float
    is_probe: bool
    subject: Subject | None
    seconds_waited: float = 0.0
    reason: WaitReason | None = None
    paces_retry: bool = False


class Waiter(msgspec.Struct, order=True):
    """A request that waits for a permit, ordered by priority and arrival.

    Attributes:
        priority: the lowest goes first: the place in its pull, or the deadline of a retry.
        arrival: a number that grows with each waiter.
        since: when its wait began.
        turn: its permit, or the error that ended its wait.
        is_retry: whether the request was sent before.
    """

    priority: float
    arrival: int
    since: float
    deadline: Deadline
    subject: Subject | None
    lanes: ClientLanes
    lane: Lane
    turn: asyncio.Future[Permit | Exception]
    is_retry: bool

    def end(self, outcome: Permit | Exception) -> None:
        """Remove the waiter from its lane and end its wait, unless that has already ended."""
        self.lanes.remove(self)
        if not self.turn.done():
            self.turn.set_result(outcome)

    def expire(self) -> None:
        self.end(WaitTimeout())


def _do_nothing() -> None:
    pass


class Lane:
    """The waiting requests of a pull, or those of all single calls and listings of a client.

    Attributes:
        waiters: requests that were not sent before, in order.
        retries: requests that were sent before, in order.
        on_retry: called in the task of a request that is about to be tried again.
    """

    def __init__(self) -> None:
        self.waiters: list[Waiter] = []
        self.retries: list[Waiter] = []
        self.on_retry: Callable[[], None] = _do_nothing

    def add(self, waiter: Waiter) -> None:
        bisect.insort(self._waiters_like(waiter), waiter)

    def remove(self, waiter: Waiter) -> None:
        """Remove a waiter if it is here."""
        waiters = self._waiters_like(waiter)
        place = bisect.bisect_left(waiters, waiter)
        if waiters[place : place + 1] == [waiter]:
            del waiters[place]

    def _waiters_like(self, waiter: Waiter) -> list[Waiter]:
        return self.retries if waiter.is_retry else self.waiters


class ClientLanes:
    """The lanes of one client.

    Attributes:
        client: the client.
        longest_pause: the longest pause, in seconds, that its requests wait out;
            `retry_after_max`.
        calls: the lane of its single calls and listings.
    """

    def __init__(self, client: object, longest_pause: float) -> None:
        self.client = client
        self.longest_pause = longest_pause
        self.calls: Lane = Lane()
        self._between_retries = itertools.cycle(_BETWEEN_RETRIES)
        self._until_retry = 0  # permits for others before the next retry
        # The next in turn comes first.
        self._in_turn: OrderedDict[Lane, None] = OrderedDict()  # have waiters, and are not held
        self._retry_in_turn: OrderedDict[Lane, None] = OrderedDict()  # have retries
        self._held: set[Lane] = set()

    def __bool__(self) -> bool:
        """Return whether a request is ready for a permit."""
        return bool(self._in_turn or self._retry_in_turn)

    def __iter__(self) -> Iterator[Waiter]:
        """Iterate over all waiters."""
        yield from self.ready
        for lane in self._held:
            yield from lane.waiters

    @property
    def ready(self) -> Iterator[Waiter]:
        """The retries, and the waiters in lanes that are not held."""
        for lane in self._retry_in_turn:
            yield from lane.retries
        for lane in self._in_turn:
            yield from lane.waiters

    def hold(self, lane: Lane) -> None:
        """Give a lane no permits until it is released. Its retries continue."""
        self._held.add(lane)
        self._in_turn.pop(lane, None)

    def release(self, lane: Lane) -> None:
        self._held.discard(lane)
        if lane.waiters:
            self._in_turn.setdefault(lane)

    def is_held(self, lane: Lane | None) -> bool:
        return lane in self._held

    def waiter(
        self,
        priority: float,
        lane: Lane,
        deadline: Deadline,
        subject: Subject | None,
        now: float,
        *,
        is_retry: bool,
    ) -> Waiter:
        """Create a waiter without adding it to its lane."""
        turn: asyncio.Future[Permit | Exception] = asyncio.get_running_loop().create_future()
        arrival = next(_arrivals)
        return Waiter(priority, arrival, now, deadline, subject, self, lane, turn, is_retry)

    def add(self, waiter: Waiter) -> None:
        waiter.lane.add(waiter)
        # An empty lane becomes the last in turn; others keep their place.
        if waiter.is_retry:
            self._retry_in_turn.setdefault(waiter.lane)
        elif waiter.lane not in self._held:
            self._in_turn.setdefault(waiter.lane)

    def remove(self, waiter: Waiter) -> None:
        lane = waiter.lane
        lane.remove(waiter)
        if not lane.waiters:
            self._in_turn.pop(lane, None)
        if not lane.retries:
            self._retry_in_turn.pop(lane, None)

    def next_waiter(self, now: float) -> Waiter:
        """Return the waiter whose turn it is."""
        # 1. A retry goes first, but not every time: dead campaigns must not hold up others.
        lane = self._next_lane_of_retry(now)
        if lane is not None:
            self._until_retry = next(self._between_retries)
            self._retry_in_turn.move_to_end(lane)
            return lane.retries[0]
        # 2. The lanes take turns, so that a pull beside many calls gets every second permit.
        self._until_retry -= 1
        lane = next(iter(self._in_turn))
        self._in_turn.move_to_end(lane)
        return lane.waiters[0]

    def _next_lane_of_retry(self, now: float) -> Lane | None:
        """Return the lane whose retry is next, or None if it is not the turn of a retry."""
        # The lanes take turns here as well.
        if self._until_retry <= 0 or not self._in_turn:
            return next(iter(self._retry_in_turn), None)
        # At a low limit, others would hold up a retry until its time is over. A retry that has
        # waited for a third of the time that it had goes first, whichever lane's turn it is.
        lanes = [lane for lane in self._retry_in_turn if _is_urgent(lane.retries[0], now)]
        return min(lanes, key=lambda lane: lane.retries[0].priority, default=None)


def _is_urgent(retry: Waiter, now: float) -> bool:
    """Return whether a retry has waited for a third of the time that it had."""
    return now - retry.since > (retry.deadline.at - now) / 2
