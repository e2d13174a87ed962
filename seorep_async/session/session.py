"""Send requests: get a permit, make an attempt, decide, back off, and retry."""

from __future__ import annotations

import asyncio
import enum
import math
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar
from weakref import WeakSet

import aiohttp
import msgspec

from seorep_async.errors import ConfigurationError, DeadlineExceededError, SeoRepError
from seorep_async.session import clock as clocks
from seorep_async.session.base_url import BaseURL
from seorep_async.session.failures import Cause, Failure
from seorep_async.session.flow_control import (
    ClientClosed,
    Limits,
    Permit,
    Share,
    WaitReason,
    WaitTimeout,
)
from seorep_async.session.observation import Observer, OnAttempt, Stats
from seorep_async.session.request import Call, Request, Response
from seorep_async.session.response import ResponseReader
from seorep_async.session.retry_policy import Retry, deadline_exceeded, decide
from seorep_async.session.secrets import Authentication
from seorep_async.session.timeouts import CallTimeout, TimeLimits
from seorep_async.session.transport import Transport
from seorep_async.settings import Settings

T = TypeVar("T")

_LAST_ITERATIONS = 5
"""Iterations of the event loop after closing, in which the calls that it woke can end."""

_MOST_REPEATED_ROWS = 10
"""The most rows to ask for when an accepted request is repeated."""


class SessionState(enum.Enum):
    """The state of a session. Messages contain the values."""

    NEW = "not open yet"
    OPEN = "open"
    CLOSED = "closed"
    INHERITED = "open in the parent process"


class Session:
    """Sends requests for one client, from opening to closing.

    It opens its own aiohttp sessions, unless one is `borrowed`.
    """

    def __init__(
        self,
        base_url: BaseURL,
        authentication: Authentication,
        settings: Settings,
        borrowed: aiohttp.ClientSession | None = None,
        clock: clocks.Clock | None = None,
        limits: Limits | None = None,
        on_attempt: OnAttempt | None = None,
        account: str = "",
    ) -> None:
        self.settings = settings
        self.clock: clocks.Clock = clock or clocks.SYSTEM
        self.state: SessionState = SessionState.NEW
        self.call_timeout: CallTimeout = CallTimeout(settings.call_timeout, self.clock.monotonic)
        self._time_limits = TimeLimits()
        self._reader = ResponseReader(authentication, self.clock, self._time_limits)
        self.observer: Observer = Observer(on_attempt, self._reader.errors.scrub, account)
        self._transport = Transport(
            base_url,
            authentication,
            settings,
            borrowed,
            self._time_limits,
            self.clock.wall_clock,
        )
        self.share: Share = Share(settings, self.clock, limits, base_url.origin, account)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        # For `stats`. The page sizes are those that `paging` has found, by the endpoint's path.
        self.page_sizes: dict[str, int] = {}
        self._requests = 0
        self._retries: Counter[str] = Counter()
        self._throttled = 0
        # `Request.first_rows` of the last request of any pull that the service accepted. It finds
        # out whether the key is refused (`pull.py`), or everything is (`_repeat_accepted_request`).
        self.accepted_first_rows: Callable[[int], Request[Any]] | None = None
        self._accepted_repetitions = 0

    # Opening and closing

    async def __aenter__(self) -> Session:
        if self.state is not SessionState.NEW:
            problem = f"this client is {self.state.value} already; create a new one"
            raise ConfigurationError(problem)
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            # for example, anyio's pytest plugin also runs each test with trio
            problem = "no asyncio event loop is running; with anyio, use its asyncio backend"
            raise ConfigurationError(problem) from None
        self.share.open()
        try:
            self._transport.open()
        except BaseException:
            # A client that failed to open is never closed, so it leaves the queue here.
            self.share.close()
            raise
        self.state = SessionState.OPEN
        _opened_sessions.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.state is not SessionState.OPEN or self._loop is None:
            return
        if self._loop is not asyncio.get_running_loop() and not self._loop.is_closed():
            raise ConfigurationError("this client was opened in another event loop; close it there")
        self.state = SessionState.CLOSED
        try:
            # If the client's loop is closed, everything that ran there has ended.
            if not self._loop.is_closed():
                await self._end_calls()
        finally:
            await self._transport.close()
            for _iteration in range(_LAST_ITERATIONS):
                await asyncio.sleep(0)

    async def _end_calls(self) -> None:
        """End all calls, whether they wait for a permit, for a response, or in back-off."""
        # Calls in the caller's own tasks end with the error that the client is closed.
        self.share.close()
        self._time_limits.close()
        # Workers of pulls are cancelled in the same iteration of the loop, before this error can
        # reach them. The crawl reports each of their listings as failed.
        await cancel_all(self._tasks)

    @property
    def is_open(self) -> bool:
        return self.state is SessionState.OPEN

    def require_open(self) -> None:
        """Raise a ConfigurationError unless the session is open in the running event loop."""
        if self.state is not SessionState.OPEN:
            raise self._closed_error(None)
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigurationError(
                "this client was opened in another event loop: open one client in each loop (in a "
                "web framework, in its lifespan; with pytest-asyncio, give the fixture and the "
                "test the same loop_scope)"
            )

    def _closed_error(self, failure: Failure | None) -> SeoRepError:
        """Return the error for a call while the session is not open.

        Args:
            failure: the last failure of the call, or None.
        """
        if failure is not None:
            message = f"{failure.error.message}; not retried: the client was closed"
            return failure.error.evolve(message=message)
        advice = "use it inside `async with SeoRepClient(...) as client:`"
        # A closed client can't be opened again.
        if self.state is SessionState.NEW:
            advice += ", or `await client.open()` first"
        elif self.state is SessionState.INHERITED:
            advice = "create another one in this process"
        return ConfigurationError(f"this client is {self.state.value}: {advice}")

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task. It is cancelled if this session is closed before it ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def stats(self) -> Stats:
        """A snapshot of the requests so far, and of the current limits."""
        return Stats(
            requests=self._requests,
            attempts=self._transport.attempts,
            retries=dict(self._retries),
            throttled=self._throttled,
            bytes_received=self._transport.bytes_received,
            in_flight=self.share.in_flight,
            concurrency=self.share.concurrency,
            pace=self.share.pace,
            waited={reason.value: seconds for reason, seconds in self.share.waited.items()},
            account=self.observer.account,
            page_sizes=dict(self.page_sizes),
            outage=self.share.outage_seconds,
        )

    # One call

    async def send(self, request: Request[T]) -> T:
        """Send a request until it succeeds or must be given up.

        Raises:
            SeoRepError: the last failure, with the request's subject, method, path and the number
                of attempts.
        """
        self.require_open()
        self._requests += 1
        deadline = request.deadline or self.call_timeout.stream_deadline()
        call = Call(request, deadline, self.clock.monotonic())
        try:
            while True:
                # Usually a permit is free at once, and no place in the queue is needed.
                permit = self.share.try_acquire(call.deadline, request.subject, request.lane)
                if permit is None:
                    permit = await self._wait_for_permit(call)
                result = await self._attempt(call, permit)
                if not isinstance(result, Failure):
                    # The call gets back the tokens of the retry quota that its retries cost.
                    self.share.quota.succeed(call.spent)
                    if request.first_rows is not None:
                        self.accepted_first_rows = request.first_rows
                    return result
                await self._prepare_retry(call, result, permit)
        except SeoRepError as error:
            completed = call.complete(error, self.observer.account)
            # The queue keeps the latest failure. Its traceback would keep the pull and its consumer
            # in memory.
            error.__traceback__ = None
        except asyncio.CancelledError:
            # The end of a cancelled call says nothing about the service.
            self.share.quota.give_back(call.spent)
            raise
        # raised here, so that the original error is not its context
        raise completed

    async def _wait_for_permit(self, call: Call[Any]) -> Permit:
        """Wait for a permit. Turn the errors of the queue into those for callers."""
        request = call.request
        try:
            return await self.share.acquire(
                call.deadline,
                request.subject,
                request.lane,
                request.priority,
                is_retry=call.attempts > 0,
            )
        except WaitTimeout as timeout:
            error = self._timeout_error(call, str(timeout))
            # The cause remains the last failure, not the `WaitTimeout`.
            raise error from error.__cause__
        except ClientClosed:
            raise self._closed_error(call.failure) from None

    def _timeout_error(self, call: Call[Any], wait: str) -> DeadlineExceededError:
        """Return the error for a call that timed out after a last `wait` for a permit, in words."""
        cause = self.share.latest_failure if call.failure is None else call.failure.error
        return deadline_exceeded(cause, was_sent=call.attempts > 0, wait=wait)

    async def _attempt(self, call: Call[T], permit: Permit) -> T | Failure:
        """Make one attempt, read the response, and report the attempt."""
        call.start(self.clock.monotonic())
        result: T | Failure
        try:
            outcome = await self._send_once(call, permit)
            if isinstance(outcome, Failure):
                result = outcome
            else:
                result = await self._reader.read(call, outcome)
        except BaseException as error:
            # A cancelled attempt is reported as well.
            self.observer.report(call, error)
            raise
        self.observer.report(call, result)
        if isinstance(result, Failure) and call.was_deleted_before(result):
            # The object is gone, so this is a success. Its response usually has no body.
            return call.request.decode(b"")
        return result

    async def _send_once(self, call: Call[Any], permit: Permit) -> Response | Failure:
        """Send the request once. Return a successful response, or the failure.

        The permit ends with the last byte of the response. There is no await between that and the
        end of this function, because the attempt that gets the permit next must know the outcome.
        """
        seconds = min(call.deadline.at - call.started, call.request.attempt_seconds)
        # The outcome stays None if the attempt is cancelled or a decoder has a defect, because
        # neither says anything about the service.
        outcome = None
        try:
            received = await self._transport.attempt(call.request, seconds, call.may_reuse)
            if isinstance(received, Response):
                call.response = received
            outcome = self._reader.check(call.request, received)
        finally:
            call.ended = self.clock.monotonic()
            self.share.take_back(permit, outcome)
        if isinstance(outcome, Failure) or self.observer.has_logged_outage:
            self.observer.log_outage(call, outcome, self.share)
        return outcome

    async def _prepare_retry(self, call: Call[Any], failure: Failure, permit: Permit) -> None:
        """Pay for a retry and back off before it, or raise the last error."""
        retry = self._retry_or_raise(call, failure, permit)
        # In a closed client, the next wait would fail and hide this failure.
        if self.state is not SessionState.OPEN:
            raise self._closed_error(failure)
        self._charge_retry(call, failure, retry)
        if retry.is_last and failure.retry_after is None:
            await self._wait_until_anything_is_accepted(call)
        elif permit.is_probe:
            await self._repeat_accepted_request(call, is_last_try=False)
        # If the refusal paused everybody, the retry waits in the queue instead of sleeping.
        if not permit.paces_retry:
            await self._back_off(call, retry.delay)

    async def _wait_until_anything_is_accepted(self, call: Call[Any]) -> None:
        """Wait before the last attempt of a call, until an accepted request is accepted again.

        If a call is refused without a Retry-After, its attempts are over within seconds, but the
        limit may last longer.
        """
        while await self._repeat_accepted_request(call, is_last_try=True):
            # The service refuses everything, so the attempts of this call failed only because they
            # came too early. Each now counts as a third of a failed attempt.
            call.throttled = call.attempts
            # Without a deadline, nothing else would end this wait.
            if call.deadline.at == math.inf:
                return

    async def _repeat_accepted_request(self, call: Call[Any], *, is_last_try: bool) -> bool:
        """Request the first rows of an accepted report, if only refused campaigns are left.

        If the service accepts it again, the breaker closes, and dead campaigns soon use up their
        attempts. Return whether the service refused it.
        """
        if self.accepted_first_rows is None:
            return False
        # In an outage, a cache may answer what was accepted before. So after each acceptance, the
        # next repetition asks for another number of rows. They are few: a service may refuse many.
        rows = 1 + self._accepted_repetitions % _MOST_REPEATED_ROWS
        accepted = self.accepted_first_rows(rows)
        # Each endpoint may have an outage of its own.
        if accepted.path != call.request.path:
            return False
        subject = call.request.subject
        if not self.share.claim_repetition(subject, call.idle_since, is_last_try=is_last_try):
            return False
        # It becomes the next probe, because its subject, None, was not refused.
        repetition = msgspec.structs.replace(accepted, deadline=call.deadline, max_attempts=1)
        try:
            await self.send(repetition)
        except SeoRepError as error:
            return error.status in (429, 503)
        self._accepted_repetitions += 1
        return False

    def _retry_or_raise(self, call: Call[Any], failure: Failure, permit: Permit) -> Retry:
        """Record a failed attempt. Return its retry, or raise the last error."""
        others_refused = self.share.rate_refused_since(call.idle_since)
        was_too_early = failure.counts_a_third(others_refused=others_refused)
        counts_a_third = permit.is_probe or was_too_early
        call.note(failure, counts_a_third=counts_a_third)
        if failure.cause is Cause.THROTTLE:
            self._throttled += 1
        decision = decide(
            call,
            failure,
            counts_a_third=counts_a_third,
            is_probe=permit.is_probe,
            now=self.clock.monotonic(),
            tokens=self.share.quota.tokens,
            jitter=self.clock.jitter(),
            pace=self.share.pace,
            settings=self.settings,
        )
        if decision is None:
            decision = self._timeout_error(call, permit.wait)
        if isinstance(decision, SeoRepError):
            raise decision
        return decision

    def _charge_retry(self, call: Call[Any], failure: Failure, retry: Retry) -> None:
        """Count a retry, take its cost from the retry quota, and notify the pull.

        `call.spent` is the cost of all its retries. A success returns it to the quota.
        """
        self.share.quota.tokens -= retry.cost
        call.spent += retry.cost
        self._retries[failure.cause.value] += 1
        self.observer.log_retry(call, failure, retry.delay)
        lane = call.request.lane
        if lane is not None and lane.on_retry is not None:
            lane.on_retry()

    async def _back_off(self, call: Call[Any], seconds: float) -> None:
        """Sleep before a retry. Closing the client ends the sleep."""
        # Since the decision, an accepted request may have been repeated. That took time, and the
        # client may have been closed.
        seconds = min(seconds, call.deadline.at - self.clock.monotonic())
        if not self.is_open or seconds <= 0:
            return
        self.share.waited[WaitReason.BACKOFF] += seconds
        sleep = self.spawn(self.clock.sleep(seconds))
        try:
            # Closing the client cancels `sleep`, and `wait` does not raise that cancellation.
            await asyncio.wait([sleep])
        finally:
            sleep.cancel()


_opened_sessions: WeakSet[Session] = WeakSet()


def _refuse_inherited() -> None:
    """Refuse all calls of the parent's clients in a forked process.

    Both processes would read from the same connections, and take responses for those to their own
    requests.
    """
    for session in _opened_sessions:
        if session.is_open:
            session.state = SessionState.INHERITED


# Windows has no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_refuse_inherited)


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended, with any result."""
    pending = list(tasks)
    for task in pending:
        task.cancel()
    if pending:
        await asyncio.wait(pending)
    for task in pending:
        # asyncio would log an exception that nobody retrieves.
        if not task.cancelled():
            task.exception()
