"""The requests that wait for a permit, in their lanes."""

from __future__ import annotations

import asyncio
import bisect
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator

import msgspec

from seorep_async.session.flow_control.refusals import Subject
from seorep_async.session.timeouts import Deadline

_BETWEEN_RETRIES = (1, 2, 3)
"""Permits for other requests of a client between its retries, in turn.

With a fixed number, retries would be each second or third request of a client. A service that
refuses each second or third request, such as one with a broken backend, would refuse them all.
"""
_arrivals = itertools.count()


class ClientClosed(Exception):
    """A request got no permit because its client was closed."""


class WaitTimeout(Exception):
    """A request got no permit in its time.

    Attributes:
        seconds: how long it waited.
        reason: why it waited, as `Pace.next_start` says it.
    """

    def __init__(self, seconds: float = 0.0, reason: str = "") -> None:
        super().__init__(seconds, reason)
        self.seconds = seconds
        self.reason = reason


class Permit(msgspec.Struct, eq=False):
    """A permit for one attempt.

    Attributes:
        started: when it was granted.
        is_probe: whether the attempt finds out if the service accepts anything again.
        subject: the subject of the attempt.
        seconds_waited: how long its request waited for it.
        reason: why it waited, as `Pace.next_start` says it.
        paces_retry: whether its request queues again at once if it was refused, because the pace
            says when it goes. A sleep of its own would end after the pause, when others have
            taken its place: it would be refused again, and again.
    """

    started: float
    is_probe: bool
    subject: Subject | None
    seconds_waited: float = 0.0
    reason: str = ""
    paces_retry: bool = False


class Waiter(msgspec.Struct, order=True):
    """A request that waits for a permit, ordered by priority and arrival.

    Attributes:
        priority: the lowest goes first.
        arrival: its number among all that ever waited.
        since: when its wait began.
        turn: its permit, or the error that ended its wait.
    """

    priority: int
    arrival: int
    since: float
    deadline: Deadline
    subject: Subject | None
    lanes: ClientLanes
    lane: Lane
    turn: asyncio.Future[Permit | Exception]

    @property
    def is_retry(self) -> bool:
        return self.lane is self.lanes.retries

    def end(self, outcome: Permit | Exception) -> None:
        """Take it out of its lane and end its wait, unless it has ended."""
        self.lanes.remove(self)
        if not self.turn.done():
            self.turn.set_result(outcome)

    def expire(self) -> None:
        self.end(WaitTimeout())


class Lane:
    """The waiting requests of a pull, or those of all single calls and listings of a client.

    Attributes:
        waiters: these requests, in order.
        on_retry: is called by the task of a request that is about to be tried again.
    """

    def __init__(self) -> None:
        self.waiters: list[Waiter] = []
        self.on_retry: Callable[[], None] | None = None

    def add(self, waiter: Waiter) -> None:
        bisect.insort(self.waiters, waiter)

    def remove(self, waiter: Waiter) -> None:
        """Take a waiter out if it is here."""
        place = bisect.bisect_left(self.waiters, waiter)
        if self.waiters[place : place + 1] == [waiter]:
            del self.waiters[place]


class ClientLanes:
    """The part of a queue that belongs to one client.

    Attributes:
        client: the client.
        longest_pause: seconds that its requests wait for the end of a pause; `retry_after_max`.
        calls: the lane of its single calls and listings.
        retries: the lane of the requests that were sent before, which goes first.
    """

    def __init__(self, client: object, longest_pause: float) -> None:
        self.client = client
        self.longest_pause = longest_pause
        self.calls: Lane = Lane()
        self.retries: Lane = Lane()
        self._between_retries = itertools.cycle(_BETWEEN_RETRIES)
        self._until_retry = 0  # permits for others before the next retry
        self._in_turn: OrderedDict[Lane, None] = OrderedDict()  # not empty, and not held
        self._held: set[Lane] = set()

    def __bool__(self) -> bool:
        """Return whether a request may have a permit."""
        return bool(self._in_turn or self.retries.waiters)

    def __iter__(self) -> Iterator[Waiter]:
        """Iterate over all that wait."""
        lanes = itertools.chain([self.retries], self._in_turn, self._held)
        return itertools.chain.from_iterable(lane.waiters for lane in lanes)

    @property
    def ready(self) -> Iterator[Waiter]:
        """Those that wait in lanes that are not held."""
        lanes = itertools.chain([self.retries], self._in_turn)
        return itertools.chain.from_iterable(lane.waiters for lane in lanes)

    def hold(self, lane: Lane) -> None:
        """Let a lane have no permits until it is released. Its retries go on."""
        self._held.add(lane)
        self._in_turn.pop(lane, None)

    def release(self, lane: Lane) -> None:
        self._held.discard(lane)
        if lane.waiters:
            self._in_turn.setdefault(lane)

    def is_held(self, lane: Lane | None) -> bool:
        return lane in self._held

    def waiter(
        self, priority: int, lane: Lane, deadline: Deadline, subject: Subject | None, now: float
    ) -> Waiter:
        """Return a waiter that is not in its lane yet."""
        turn: asyncio.Future[Permit | Exception] = asyncio.get_running_loop().create_future()
        return Waiter(priority, next(_arrivals), now, deadline, subject, self, lane, turn)

    def add(self, waiter: Waiter) -> None:
        waiter.lane.add(waiter)
        if not waiter.is_retry and waiter.lane not in self._held:
            # A lane that was empty goes to the end of the round; others keep their place.
            self._in_turn.setdefault(waiter.lane)

    def remove(self, waiter: Waiter) -> None:
        waiter.lane.remove(waiter)
        if not waiter.lane.waiters:
            self._in_turn.pop(waiter.lane, None)

    def next_waiter(self) -> Waiter:
        """Return the waiter whose turn it is."""
        # 1. A retry goes first, but not each time: dead campaigns must not hold up others.
        is_turn_of_retry = self._until_retry <= 0 or not self._in_turn
        if self.retries.waiters and is_turn_of_retry:
            self._until_retry = next(self._between_retries)
            return self.retries.waiters[0]
        # 2. The lanes take turns, so that a pull beside many calls gets every second permit.
        self._until_retry -= 1
        lane = next(iter(self._in_turn))
        self._in_turn.move_to_end(lane)
        return lane.waiters[0]
