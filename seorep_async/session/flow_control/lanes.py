"""The lanes in which requests wait for a permit."""

from __future__ import annotations

import asyncio
import bisect
import itertools
import operator
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from seorep_async.session.flow_control.refusals import Subject
from seorep_async.session.timeouts import Deadline

_BETWEEN_RETRIES = (1, 2, 3)
"""The number of other requests of a client between two retries. It varies.

With a fixed number, every second or third request of a client would be a retry. A service that
refuses every second or third request, such as one with a broken backend, would refuse all retries.
"""


class ClientClosed(Exception):
    """The client was closed before a request got a permit."""


class WaitTimeout(Exception):
    """A request got no permit in time. The message describes its wait (`Permit.wait`)."""


class Permit(msgspec.Struct, eq=False):
    """A permit for one attempt.

    Attributes:
        lanes: the lanes of its client.
        started: when it was granted.
        is_probe: whether the attempt tests if the service accepts anything again.
        subject: the subject of the attempt.
        wait: how long the request waited for it and for what, in words. Empty after a short wait.
        paces_retry: whether a refused request returns to the queue at once, because the pace
            decides when it goes. If it slept through the pause, others would take its place, and
            it would be refused again and again.
    """

    lanes: ClientLanes
    started: float
    is_probe: bool
    subject: Subject | None
    wait: str = ""
    paces_retry: bool = False


class Waiter(msgspec.Struct, eq=False):
    """A request that waits for a permit.

    Attributes:
        priority: the position in its pull, or the deadline of a retry. The lowest goes first.
        since: when its wait began.
        turn: resolves to its permit, to the error that ended its wait, or to None if its time is
            over.
        is_retry: whether the request was sent before.
    """

    priority: float
    since: float
    deadline: Deadline
    subject: Subject | None
    lanes: ClientLanes
    lane: Lane
    turn: asyncio.Future[Permit | Exception | None]
    is_retry: bool

    def end(self, outcome: Permit | Exception | None) -> None:
        """Remove the waiter from its lane and end its wait, unless that has already ended."""
        self.lanes.remove(self)
        if not self.turn.done():
            self.turn.set_result(outcome)

    def expire(self) -> None:
        self.end(None)


class Lane:
    """The waiting requests of a pull, or of all single calls and listings of a client.

    Attributes:
        waiters: requests that were not sent before, in order.
        retries: requests that were sent before, in order.
        is_held: whether only its retries get permits.
        on_retry: called in the task of a request that is about to be tried again. While a pull
            runs, this is `Crawl._on_retry` (`paging/crawl.py`). Otherwise it is None.
    """

    def __init__(self) -> None:
        self.waiters: list[Waiter] = []
        self.retries: list[Waiter] = []
        self.is_held: bool = False
        self.on_retry: Callable[[], None] | None = None

    @property
    def ready(self) -> list[Waiter]:
        """The requests, without retries, that may get a permit."""
        return [] if self.is_held else self.waiters

    def list_for(self, waiter: Waiter) -> list[Waiter]:
        """Return the list in which a waiter belongs."""
        return self.retries if waiter.is_retry else self.waiters


class ClientLanes:
    """The lanes of one client.

    Attributes:
        longest_pause: the longest pause, in seconds, that its requests accept;
            `retry_after_max`.
        calls: the lane of its single calls and listings.
        in_flight: its permits in flight.
    """

    def __init__(self, longest_pause: float) -> None:
        self.longest_pause = longest_pause
        self.in_flight: int = 0
        self.calls: Lane = Lane()
        self._between_retries = itertools.cycle(_BETWEEN_RETRIES)
        self._others_before_retry = 0  # permits for others before the next retry
        # The lanes with waiting requests. The next lane in turn comes first.
        self._lanes: OrderedDict[Lane, None] = OrderedDict()

    def is_ready(self) -> bool:
        """Return whether a request is ready for a permit."""
        for lane in self._lanes:  # noqa: SIM110, a generator would slow down each attempt
            if lane.retries or lane.ready:
                return True
        return False

    @property
    def all(self) -> list[Waiter]:
        """All waiters."""
        return [waiter for lane in self._lanes for waiter in lane.retries + lane.waiters]

    @property
    def ready(self) -> list[Waiter]:
        """The retries, and the waiters in lanes that are not held."""
        return [waiter for lane in self._lanes for waiter in lane.retries + lane.ready]

    def add(self, waiter: Waiter) -> None:
        # `insort` puts it behind the waiters of the same priority.
        bisect.insort(waiter.lane.list_for(waiter), waiter, key=_PRIORITY)
        # An empty lane becomes the last in turn; others keep their place.
        self._lanes.setdefault(waiter.lane)

    def remove(self, waiter: Waiter) -> None:
        """Remove a waiter from its lane, if it still waits there."""
        lane = waiter.lane
        waiters = lane.list_for(waiter)
        if waiter in waiters:
            waiters.remove(waiter)
        # Only lanes with waiting requests take turns.
        if not lane.waiters and not lane.retries:
            self._lanes.pop(lane, None)

    def next_waiter(self, now: float) -> Waiter:
        """Return the waiter whose turn it is, and end the turn of its lane."""
        # 1. A retry goes first, but not every time: campaigns whose requests always fail must not
        #    hold up others.
        lane = self._next_lane_of_retry(now)
        if lane is not None:
            self._others_before_retry = next(self._between_retries)
            waiter = lane.retries[0]
        # 2. The lanes take turns, so that a pull beside many calls gets every second permit.
        else:
            self._others_before_retry -= 1
            lane = next(lane for lane in self._lanes if lane.ready)
            waiter = lane.waiters[0]
        self._lanes.move_to_end(lane)
        return waiter

    def _next_lane_of_retry(self, now: float) -> Lane | None:
        """Return the lane whose retry is next, or None if it is not the turn of a retry."""
        lanes = [lane for lane in self._lanes if lane.retries]
        # One to three other requests go between two retries. While it is still their turn and one
        # of them is ready, only an urgent retry goes first, whichever lane's turn it is: one that
        # has waited for a third of its time. At a low limit, others would otherwise hold up a retry
        # until its time is over.
        if lanes and self._others_before_retry > 0 and any(lane.ready for lane in self._lanes):
            urgent = [lane for lane in lanes if _is_urgent(lane.retries[0], now)]
            return min(urgent, key=lambda lane: lane.retries[0].priority, default=None)
        return next(iter(lanes), None)


_PRIORITY = operator.attrgetter("priority")


def _is_urgent(retry: Waiter, now: float) -> bool:
    """Return whether a retry has waited for a third of the time that it had."""
    return now - retry.since > (retry.deadline.at - now) / 2
