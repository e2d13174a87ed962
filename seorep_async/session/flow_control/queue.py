"""The queue for permits: one class decides who may send next, and when."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from typing import TypeAlias

from seorep_async.errors import ConfigurationError, RateLimitedError, SeoRepError, duration
from seorep_async.session.clock import Clock
from seorep_async.session.failures import Cause, Failure
from seorep_async.session.flow_control.breaker import WaitReason
from seorep_async.session.flow_control.lanes import ClientClosed, ClientLanes, Permit, Waiter
from seorep_async.session.flow_control.pace import Pace
from seorep_async.session.flow_control.refusals import Subject
from seorep_async.session.timeouts import Deadline
from seorep_async.settings import Settings

Origin: TypeAlias = tuple[str, str | None, int | None]
"""The scheme, host and port of a service."""

_LONGEST_PAUSE = 3600.0  # seconds; a mistake in a header must not stop everything forever


class PermitQueue:
    """The requests that wait for a permit of one service, and the permits in flight.

    Attributes:
        pace: decides when the next attempt may start.
        latest_failure: the latest failure of any client after which a retry may help, or None.
    """

    def __init__(self, settings: Settings) -> None:
        self.pace: Pace = Pace(settings)
        self.latest_failure: SeoRepError | None = None
        # An ordered set: the client that was served last is at the end.
        self._clients: OrderedDict[ClientLanes, None] = OrderedDict()
        self._in_flight: set[Permit] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._clock = Clock()
        self._origin: Origin | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # Clients

    def join(self, lanes: ClientLanes, origin: Origin | None, clock: Clock) -> None:
        """Add a client, whose requests can then wait for permits in the running event loop.

        Raises:
            ConfigurationError: the client belongs to another service or another event loop.
        """
        loop = asyncio.get_running_loop()
        if self._origin not in (None, origin):
            raise ConfigurationError(
                "limits apply to one service: create others for a client of another base_url"
            )
        if self._loop is not None and self._loop.is_closed():
            # Its clients can no longer leave, so they are removed.
            self._clients.clear()
        if self._clients and loop is not self._loop:
            raise ConfigurationError(
                "limits are in use in another event loop: close the clients there, "
                "or create others in each loop"
            )
        if not self._clients:
            # Nothing of earlier clients is left. Only the limits that they found are kept.
            self._timer = None
            self._in_flight.clear()
            self.pace.restart()
        self._clients[lanes] = None
        self._origin = origin
        self._loop = loop
        self._clock = clock

    def leave(self, lanes: ClientLanes) -> None:
        """End the waits of a closed client. Other clients continue to wait."""
        self._clients.pop(lanes, None)
        for waiter in lanes.all:
            waiter.end(ClientClosed())
        self.dispatch()

    # Waits

    def next_start(self, now: float) -> tuple[WaitReason, float]:
        """Return why the next attempt waits, and when it may start."""
        return self.pace.next_start(now, len(self._in_flight))

    def try_grant(
        self, lanes: ClientLanes, deadline: float, subject: Subject | None
    ) -> Permit | None:
        """Return a permit if one is free at once and nobody waits, otherwise None."""
        # Waiting requests go first.
        if self._next_client() is not None:
            return None
        now = self._clock.monotonic()
        _, moment = self.next_start(now)
        if not moment <= now < deadline:
            return None
        return self._grant(lanes, subject, now)

    def add(self, waiter: Waiter) -> None:
        """Let a request wait for its turn."""
        waiter.lanes.add(waiter)
        # During a long pause, no permit comes back that could end this wait.
        self._end_if_hopeless(waiter, waiter.since)
        self.dispatch()

    def _end_if_hopeless(self, waiter: Waiter, now: float) -> None:
        """End a wait that can only fail.

        Either the service asked for a longer pause than the client accepts or the request has time
        for, or an outage has lasted longer than the request's time limit.
        """
        pause = self.pace.paused_until - now
        # At least 0. After the deadline, the time left is negative, and so is `pause` if there is
        # no pause: such a wait must not end as if there were one.
        if pause > max(0.0, min(waiter.lanes.longest_pause, waiter.deadline.at - now)):
            # `_tell_refusal` may have shortened the pause.
            wait = f"at least another {duration(pause)}"
            problem = f"not sent, because the service asked for a pause of {wait}"
            waiter.end(RateLimitedError(problem, retry_after=pause))
            return
        if self.outage_outlasts(waiter.deadline):
            waiter.expire()

    def outage_outlasts(self, deadline: Deadline) -> bool:
        """Return whether an outage has lasted longer than the time limit of a stream's request.

        False for a request whose clock has started, such as a single call.
        """
        breaker = self.pace.breaker
        limit = deadline.seconds_from_permit
        if not breaker.is_open or limit is None:
            return False
        # An outage that began before the stream counts only from the stream's start, so that such
        # a stream waits as long as one that the outage interrupts.
        counts_from = max(breaker.opened_at, deadline.stream_began)
        return self._clock.monotonic() - counts_from > limit

    def dispatch(self) -> None:
        """Grant the free permits, each to the request whose turn it is.

        Called whenever a wait begins, a permit comes back, or the time for the next one has come.
        """
        while (lanes := self._next_client()) is not None:
            now = self._clock.monotonic()
            _, moment = self.next_start(now)
            # There are four cases:
            #
            # 1. All permits are in flight. `dispatch` runs again when one comes back.
            # 2. The rate is used up, or the service asked for a pause. The timer runs `dispatch`.
            if moment > now:
                self._wake_at(moment, now)
                return
            # 3. The circuit breaker is open. One request tests whether the service accepts
            #    anything again.
            if self.pace.breaker.is_open:
                waiter = self._choose_probe()
            # 4. The client that was served longest ago gets the permit.
            else:
                waiter = lanes.next_waiter(now)
            if waiter.turn.done() or waiter.deadline.at <= now:
                # The waiter was cancelled or timed out, and its task has not run since.
                waiter.expire()
                continue
            waiter.end(self._grant(waiter.lanes, waiter.subject, now))
        self._cancel_timer()

    @property
    def ready(self) -> list[Waiter]:
        """The requests of all clients that may get a permit."""
        return [waiter for lanes in self._clients for waiter in lanes.ready]

    def _next_client(self) -> ClientLanes | None:
        """Return the lanes of the waiting client that was served longest ago."""
        # A grant moves its client to the end of `_clients`, so they are in the order of service.
        for lanes in self._clients:
            if lanes.is_ready():
                return lanes
        return None

    def _choose_probe(self) -> Waiter:
        """Return the waiter that becomes the probe.

        Subjects that were not refused come first, so that a dead campaign does not keep the breaker
        open. Among their waiters, the newest first attempt is chosen, so that no call uses all its
        attempts as probes. If there are only retries, the oldest is chosen. If all subjects were
        refused, the one that was refused longest ago is chosen.
        """
        # reversed, so that of waiters that began at the same moment the last one wins
        return min(reversed(self.ready), key=self._order_of_probes)

    def _order_of_probes(self, waiter: Waiter) -> tuple[float, float]:
        """Return a sort key. The waiter with the lowest one becomes the probe."""
        refused_at = self.pace.refused_subjects.refused_at(waiter.subject)
        # Among retries, the oldest goes first, because it has waited longest.
        if waiter.is_retry:
            return refused_at, waiter.since
        return refused_at, -waiter.since

    def _wake_at(self, moment: float, now: float) -> None:
        """Dispatch again at a moment. An infinite moment needs no timer."""
        self._cancel_timer()
        if moment < math.inf:
            self._timer = self._clock.wake_later(moment - now, self.dispatch)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    # Permits

    def _grant(self, lanes: ClientLanes, subject: Subject | None, now: float) -> Permit:
        """Record the start of an attempt, and return its permit."""
        # Clients take turns, so the one that was just served becomes the last.
        self._clients.move_to_end(lanes)
        # A probe tests whether the service accepts anything again.
        is_probe = self.pace.start(now, subject)
        permit = Permit(lanes, now, is_probe, subject)
        self._in_flight.add(permit)
        lanes.in_flight += 1
        return permit

    def take_back(self, permit: Permit, outcome: object | None) -> None:
        """Take a permit back, learn from its attempt, and let others have the permit.

        Args:
            permit: the permit.
            outcome: a Failure, a response, or None if the attempt says nothing about the service.
        """
        permit.lanes.in_flight -= 1
        if permit not in self._in_flight:
            # The permit's loop was closed, a client that joined later has cleared `_in_flight`, and
            # the garbage collector ends the attempt only now.
            return
        self._in_flight.remove(permit)
        self.pace.breaker.end_attempt(permit.started)
        failure = outcome if isinstance(outcome, Failure) else None
        # a response, or a failure that says something about the service
        if outcome is not None and (failure is None or not failure.inconclusive):
            self._learn(permit, failure)
        self.dispatch()

    def _learn(self, permit: Permit, failure: Failure | None) -> None:
        """Let the pace learn from the end of an attempt, and end waiters that can't succeed.

        A failure of None is a success.
        """
        if failure is not None and failure.cause.retryable:
            self.latest_failure = failure.error
        now = self._clock.monotonic()
        self._tell_pace(permit, failure, now)
        if self.pace.breaker.is_open or self.pace.paused_until > now:
            for waiter in [waiter for lanes in self._clients for waiter in lanes.all]:
                self._end_if_hopeless(waiter, now)

    def _tell_pace(self, permit: Permit, failure: Failure | None, now: float) -> None:
        """Report the end of an attempt to the pace. A failure of None is a success."""
        pace = self.pace
        # A 403, a 404 or a 500 says nothing about the rate: the service accepted the request.
        if failure is None or failure.was_accepted:
            pace.accept(permit.started, permit.subject, now)
        elif failure.by_gateway:
            pace.refuse_by_gateway(permit.started, permit.subject, now)
        elif failure.is_refusal:
            self._tell_refusal(permit, failure, now)
        # Our process, or the machine, has too many open files or threads.
        elif failure.out_of_resources:
            pace.window.keep_to(len(self._in_flight), now)
        elif failure.has_no_response:
            pace.lose(permit.started, now)
        else:
            pace.fail(permit.started, now)

    def _tell_refusal(self, permit: Permit, failure: Failure, now: float) -> None:
        """Report a refusal to the pace, and its Retry-After if that pauses everybody."""
        pause = failure.retry_after
        longest_pause = permit.lanes.longest_pause
        pauses_everybody = False
        if pause is not None and self._pauses_everybody(permit, failure, pause <= longest_pause):
            pauses_everybody = True
            self.pace.pause(now, now + min(pause, max(longest_pause, _LONGEST_PAUSE)))
            permit.paces_retry = True
        self.pace.refuse(permit.started, permit.subject, pauses_everybody, now)

    def _pauses_everybody(self, permit: Permit, failure: Failure, is_short: bool) -> bool:
        """Return whether a refusal (429 or 503) with a Retry-After pauses everybody.

        `is_short` says whether the client's requests accept the pause.
        """
        # 1. A 429 concerns the rate of all requests.
        if failure.cause is Cause.THROTTLE:
            return True
        # 2. A repeated 503, while others are accepted, may concern its subject alone. A pause for
        #    all would then be useless.
        if self.pace.refused_subjects.may_be_cause(permit.subject):
            return False
        # 3. Any other 503 pauses everybody if its pause is short, or if a probe received it. A long
        #    pause may concern its subject alone.
        return is_short or permit.is_probe
