"""A client's share of the limits. It grants permits, and has the retry quota and statistics."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict
from functools import partial

from seorep_async.errors import SeoRepError, duration
from seorep_async.session.clock import Clock
from seorep_async.session.flow_control.breaker import FAILURES_THAT_OPEN, Circuit, WaitReason
from seorep_async.session.flow_control.lanes import (
    ClientClosed,
    ClientLanes,
    Lane,
    Permit,
    Waiter,
    WaitTimeout,
)
from seorep_async.session.flow_control.limits import Limits
from seorep_async.session.flow_control.queue import Origin, PermitQueue
from seorep_async.session.flow_control.rate import SPAN
from seorep_async.session.flow_control.refusals import Subject
from seorep_async.session.retry_quota import RetryQuota
from seorep_async.session.timeouts import Deadline
from seorep_async.settings import Settings

_LOW_RATE = 10.0  # requests per second
_LONG_WINDOW = 60.0  # seconds; refusals that last longer count as an outage
_SHORTEST_WAIT = 0.1  # seconds; a shorter wait is not mentioned
_SECONDS_WITHOUT_DEADLINE = 60.0  # a retry without a deadline is sorted as if this were left
_log = logging.getLogger("seorep_async")


class Share:
    """Gets a permit for each attempt of one client, from its own or shared limits.

    Attributes:
        quota: the retry quota.
        waited: the total seconds that requests waited, by reason.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        limits: Limits | None = None,
        origin: Origin | None = None,
        account: str = "",
    ) -> None:
        if limits is None:
            self._queue = PermitQueue(settings)
        else:
            self._queue = limits.queue
        self._clock = clock
        self._origin = origin
        self._account = account
        self._lanes = ClientLanes(settings.retry_after_max)
        self._has_warned = False
        self._is_closed = False
        self.quota: RetryQuota = RetryQuota()
        self.waited: defaultdict[WaitReason, float] = defaultdict(float)

    @property
    def in_flight(self) -> int:
        """Permits of this client in flight."""
        return self._lanes.in_flight

    @property
    def pace(self) -> float | None:
        """Attempts per second that may start now, or None if no limit is known."""
        rate = self._queue.pace.rate.current
        return None if rate == math.inf else rate

    @property
    def knows_limit(self) -> bool:
        """Whether a limit of the service was found."""
        return self._queue.pace.rate.learnt < math.inf

    def rate_refused_since(self, moment: float) -> bool:
        """Return whether the limit is low, and a refusal since `moment` likely concerned the rate.

        There are two signs of such a refusal: a subject was refused for the first time since it was
        last accepted, or a subject was accepted that had seemed to cause its own refusals. `Pace`
        records when it last saw one. At a higher limit, the signs don't matter, because a call is
        unlikely to be refused many times in a row by chance.
        """
        pace = self._queue.pace
        return pace.rate.learnt < _LOW_RATE and pace.rate_refused_at >= moment

    @property
    def max_concurrency(self) -> int:
        """The maximum number of attempts in flight, however much the window grows."""
        return self._queue.pace.window.ceiling

    @property
    def concurrency(self) -> int:
        """Attempts that may be in flight, once the window has grown to its full size."""
        return self._queue.pace.window.will_open_to

    @property
    def only_probes(self) -> bool:
        """Whether only probes go out, because the service refuses or fails."""
        return self._queue.pace.breaker.is_open

    @property
    def outage_seconds(self) -> float | None:
        """The seconds since an outage began, or None without an outage.

        In an outage, only probes go out.
        """
        breaker = self._queue.pace.breaker
        if breaker.state is Circuit.CLOSED:
            return None
        seconds = self._clock.monotonic() - breaker.opened_at
        if breaker.state is Circuit.OPEN_BY_REFUSALS:
            # Refusals may be about the rate. They mean an outage if probes were refused for a
            # minute, which is the longest window of most limits. While no limit is known, 503s
            # mean one after a second. A time without probes says nothing.
            failure = self._queue.latest_failure
            is_unavailable = failure is not None and failure.status == 503
            shortest = SPAN if is_unavailable and not self.knows_limit else _LONG_WINDOW
            if breaker.last_probe - breaker.opened_at < shortest:
                return None
        return seconds

    def claim_repetition(self, subject: str | None, since: float, *, is_last_try: bool) -> bool:
        """Return whether to repeat an accepted request, after a refused one.

        If its subject and those of all waiting requests were refused, a few campaigns may be dead,
        or there may be an outage or a limit. Only a request that was accepted before can show
        which.

        Args:
            subject: the campaign of the refused request.
            since: when that request began to wait for its attempt.
            is_last_try: whether its next attempt is the last.
        """
        breaker = self._queue.pace.breaker
        refused = self._queue.pace.refused_subjects
        # If others are accepted, the service refuses only some requests. The refusal of a repeated
        # one would count against the rate, and slow the others down.
        if not breaker.is_open and refused.newest_accepted_start > since:
            return False
        # At a limit, each repetition takes the place of another request, so only one is allowed
        # each time the breaker opens, unless no other request waits. But a last try needs it.
        subjects = {waiter.subject for waiter in self._queue.ready}
        if breaker.has_repeated and subjects and not is_last_try:
            return False
        subjects.add(self._subject(subject))
        # So many campaigns are unlikely to be dead at once. And in an outage, a cache may still
        # answer for the campaign of the repeated request, which would prove nothing.
        if len(subjects) >= FAILURES_THAT_OPEN:
            return False
        if not all(other in refused for other in subjects):
            return False
        breaker.has_repeated = True
        return True

    @property
    def latest_failure(self) -> SeoRepError | None:
        """The latest failure of any client with the same limits, if only probes go out."""
        return self._queue.latest_failure if self.only_probes else None

    def open(self) -> None:
        """Start in the running event loop."""
        self._queue.join(self._lanes, self._origin, self._clock)
        # A client that failed to open can be opened again.
        self._is_closed = False

    def close(self) -> None:
        """Grant no more permits and end all waits. Other clients are not affected."""
        self._is_closed = True
        self._queue.leave(self._lanes)

    def hold(self, lane: Lane) -> None:
        """Let no new request of a pull start until `release`."""
        lane.is_held = True

    def release(self, lane: Lane) -> None:
        lane.is_held = False
        self._queue.dispatch()

    def try_acquire(
        self, deadline: Deadline, subject: str | None = None, lane: Lane | None = None
    ) -> Permit | None:
        """Return a permit if one is free at once and nobody waits, otherwise None.

        A closed client and a held lane get none: they start no new requests.
        """
        if self._is_closed or (lane is not None and lane.is_held):
            return None
        return self._queue.try_grant(self._lanes, deadline.at, self._subject(subject))

    async def acquire(
        self,
        deadline: Deadline,
        subject: str | None = None,
        lane: Lane | None = None,
        priority: float = 0,
        *,
        is_retry: bool = False,
    ) -> Permit:
        """Wait for a permit for one attempt.

        Args:
            deadline: the deadline of the call.
            subject: the name of the call's campaign.
            lane: the lane of the call's pull, or None for single calls and listings.
            priority: the position in the lane. The lowest number goes first.
            is_retry: whether the request was sent before. In each lane, retries go before
                other requests, the one with the earliest deadline first. But after each retry, one
                to three other requests may go.

        Raises:
            WaitTimeout: the deadline passed, or an outage outlasted the call's time.
            RateLimitedError: the service asked for a pause past the deadline or longer than
                `retry_after_max`.
            ClientClosed: the client was closed.
        """
        if self._is_closed:
            raise ClientClosed
        since = self._clock.monotonic()
        if is_retry:
            priority = _priority_of_retry(deadline, since)
        reason, _ = self._queue.next_start(since)
        waiter = Waiter(
            priority,
            since,
            deadline,
            self._subject(subject),
            self._lanes,
            lane or self._lanes.calls,
            asyncio.get_running_loop().create_future(),
            is_retry,
        )
        self._queue.add(waiter)
        timers = self._timers(waiter)
        try:
            outcome = await waiter.turn
        except asyncio.CancelledError:
            self._leave(waiter)
            raise
        finally:
            now = self._clock.monotonic()
            seconds = now - since
            self.waited[reason] += seconds
            for timer in timers:
                timer.cancel()
        if isinstance(outcome, Exception):
            raise outcome
        wait = self._wait_in_words(seconds, reason)
        if outcome is None or self._comes_too_late(outcome, deadline, now):
            raise WaitTimeout(wait)
        outcome.wait = wait
        return outcome

    def _comes_too_late(self, permit: Permit, deadline: Deadline, now: float) -> bool:
        """Return whether a granted permit comes too late.

        It does if its request would start after the deadline. The permit is then taken back.

        Raises:
            ClientClosed: the client was closed after the grant. The permit is taken back here as
                well.
        """
        if self._is_closed:
            # The connections are being closed.
            self.take_back(permit)
            raise ClientClosed
        # The loop may have been blocked after the grant. Nothing may be sent after the deadline.
        if now >= deadline.at:
            self.take_back(permit)
            return True
        return False

    def _timers(self, waiter: Waiter) -> list[asyncio.TimerHandle]:
        """Start the timers of a wait. One is for its deadline, and one warns that it is long."""
        timers = []
        deadline = waiter.deadline
        if deadline.at < math.inf:
            timers.append(self._clock.call_later(deadline.at - waiter.since, waiter.expire))
        limit = deadline.seconds_from_permit
        if limit is not None:
            timers.append(self._clock.call_later(limit, partial(self._warn, waiter.since)))
        return timers

    def _leave(self, waiter: Waiter) -> None:
        """Remove a cancelled request. A permit that it just got goes to the next request."""
        self._lanes.remove(waiter)
        if not waiter.turn.cancelled():
            # its turn came just before the cancellation: it has a permit, an error or None
            outcome = waiter.turn.result()
            if isinstance(outcome, Permit):
                self.take_back(outcome)

    def _subject(self, name: str | None) -> Subject | None:
        return (self._lanes, name) if name else None

    def take_back(self, permit: Permit, outcome: object | None = None) -> None:
        """Take a permit back, learn from its attempt, and let others have the permit.

        `outcome` is a Failure, a response, or None if the attempt says nothing about the service.
        """
        self._queue.take_back(permit, outcome)

    # The reasons of waits

    def _warn(self, since: float) -> None:
        """Warn once if a request has waited for its whole time limit without a permit.

        Its clock has not started, so no error will report it.
        """
        if self._has_warned:
            return
        self._has_warned = True
        now = self._clock.monotonic()
        reason, _ = self._queue.next_start(now)
        waited = f"{duration(now - since)} for {self._awaited(reason)}"
        prefix = f"{self._account}: " if self._account else ""
        fields = {"account": self._account}
        _log.warning("%sa request has waited %s; nothing was sent", prefix, waited, extra=fields)

    def _wait_in_words(self, seconds: float, reason: WaitReason) -> str:
        """Return how long a request waited and for what, in words. Empty after a short wait."""
        if seconds <= _SHORTEST_WAIT:
            return ""
        return f"after a wait of {duration(seconds)} for {self._awaited(reason)}"

    def _awaited(self, reason: WaitReason) -> str:
        """Return what a request waits for, in words."""
        rate = self._queue.pace.rate
        if reason is WaitReason.PAUSE:
            return "the end of the pause that the service asked for"
        if reason is WaitReason.OUTAGE or self.only_probes:
            return "the service to accept anything again"
        if reason is WaitReason.CONCURRENCY or rate.current == math.inf:
            return (
                f"its turn: at most {self.concurrency} requests may be in flight "
                f"(max_concurrency={self.max_concurrency})"
            )
        turn = f"its turn, at the {rate.current:.3g} requests a second that"
        if rate.learnt > rate.cap:
            return f"{turn} your own requests_per_second allows"
        # A limit of concurrent requests refuses in the same way, and the client doesn't search for
        # it.
        return f"{turn} the service allows (if it limits concurrent requests, set max_concurrency)"


def _priority_of_retry(deadline: Deadline, now: float) -> float:
    """Return the deadline of a retry. The retry with the earliest one goes first."""
    if deadline.at < math.inf:
        return deadline.at
    # With no deadline, it would wait forever behind retries that have one.
    return now + _SECONDS_WITHOUT_DEADLINE
