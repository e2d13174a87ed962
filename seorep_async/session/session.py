"""From a request to its result: permit, attempt, decision, back-off, and round again."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import aiohttp

from seorep_async.errors import ConfigurationError, SeoRepError
from seorep_async.session import clock as clocks
from seorep_async.session.base_url import BaseURL
from seorep_async.session.flow_control import Limits, Permit, Share
from seorep_async.session.observation import Observer, OnAttempt, Stats
from seorep_async.session.request import Call, Request
from seorep_async.session.response import Response, ResponseReader
from seorep_async.session.retry_policy import Cause, Failure, Retry, deadline_exceeded, decide
from seorep_async.session.secrets import Authentication
from seorep_async.session.timeouts import CallTimeout
from seorep_async.session.transport import Transport
from seorep_async.settings import Settings

T = TypeVar("T")

_LAST_ITERATIONS = 5  # of the loop, in which calls that backed off end, and the tasks and sockets that they cancelled


class Session:
    """Sends requests for one client, from opening to closing, by its own aiohttp session or a `borrowed` one."""

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
        self.state: str = "not open yet"
        self.call_timeout: CallTimeout = CallTimeout(settings.call_timeout, self.clock.monotonic)
        self._reader = ResponseReader(authentication)
        self.observer: Observer = Observer(on_attempt, self._reader.errors.scrub, settings, account)
        self._transport = Transport(
            base_url, authentication, settings, borrowed, self.clock.wall_clock
        )
        self.share: Share = Share(settings, self.clock, limits, base_url.origin, account)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._requests = 0
        self._retries: Counter[str] = Counter()
        self._throttled = 0
        self._latest_failure: SeoRepError | None = None

    async def __aenter__(self) -> Session:
        if self.state != "not open yet":
            raise ConfigurationError(f"this client is {self.state} already; create a new one")
        self.share.open()
        try:
            self._transport.open()
        except BaseException:  # no client would close it
            self.share.close()
            raise
        self._loop = asyncio.get_running_loop()
        self.state = "open"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.state == "open":
            if self._loop is not asyncio.get_running_loop() and not self._loop.is_closed():
                raise ConfigurationError(
                    "this client was opened in another event loop; close it there"
                )
            self.state = "closed"
            try:
                if not self._loop.is_closed():  # else all that ran there is gone
                    self.share.close()
                    self._reader.close()
                    await cancel_all(self._tasks)
            finally:
                await self._transport.close()
                for _iteration in range(_LAST_ITERATIONS):
                    await asyncio.sleep(0)

    @property
    def stats(self) -> Stats:
        share = self.share
        return Stats(
            requests=self._requests,
            attempts=self._transport.attempts,
            retries=dict(self._retries),
            throttled=self._throttled,
            bytes_received=self._transport.bytes_received,
            in_flight=share.in_flight,
            concurrency=share.concurrency,
            pace=share.pace,
            waited=dict(share.waited),
            account=self.observer.account,
        )

    def require_open(self) -> None:
        """Raise a ConfigurationError unless requests can be sent from here."""
        self._require_not_closed()
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigurationError(
                "this client was opened in another event loop: open one in each loop, in a web framework in its "
                "lifespan; with pytest-asyncio, give fixture and test the same loop_scope"
            )

    def _require_not_closed(self, last: Failure | None = None) -> None:
        if self.state != "open" and last is not None:
            raise last.error.evolve(
                message=f"{last.error.message}; not tried again, as the client was closed"
            )
        if self.state != "open":
            advice = "use it inside `async with SeoRepClient(...) as client:`"
            raise ConfigurationError(f"this client is {self.state}: {advice}")

    def spawn(
        self,
        work: Coroutine[Any, Any, T],
        when_done: Callable[[asyncio.Task[T]], None] | None = None,
    ) -> asyncio.Task[T]:
        """Start a task that ends with this session at the latest, and have a function called when it is done."""

        def done(task: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            if when_done is not None:
                when_done(task)

        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(done)
        return task

    async def send(self, request: Request[T]) -> T:
        """Send a request until it succeeds or must be given up.

        Raises:
            SeoRepError: the last failure, with the request's subject, method, path and the number of attempts.
        """
        self.require_open()
        self._requests += 1
        deadline = request.deadline or self.call_timeout.stream_deadline()
        call = Call(request, deadline, self.clock.monotonic())
        try:
            while True:
                permit = (
                    self.share.try_acquire(deadline, request.subject)
                    if self.state == "open"
                    else None
                )
                if permit is None:
                    permit = await self._acquire_permit(call)
                result = await self._attempt(call, permit)
                if isinstance(result, Failure) and call.was_deleted_before(result):
                    result = request.decode(b"")
                if not isinstance(result, Failure):
                    self.share.quota.succeed(call.spent)
                    if call.failure is not None:
                        self.observer.log_limits(call, self.share)
                    return result
                await self._back_off(call, result, self._decide(call, result, permit))
        except SeoRepError as error:
            completed = call.complete(error)
        except asyncio.CancelledError:
            self.share.quota.give_back(call.spent)  # its end says nothing about the service
            raise
        raise completed

    def _decide(self, call: Call[Any], failure: Failure, permit: Permit) -> Retry:
        """Record a failed attempt, and return the retry; raise the failure's error if there is none."""
        call.note(failure, probe=permit.is_probe)
        self._throttled += failure.cause is Cause.THROTTLE
        self.observer.log_limits(call, self.share)
        if failure.cause.retryable and not failure.inconclusive:
            self._latest_failure = failure.error
        decision = decide(
            failure,
            attempts=call.attempts,
            throttled=call.throttled,
            probe=permit.is_probe,
            idempotent=call.request.idempotent,
            remaining=call.deadline.at - self.clock.monotonic(),
            tokens=self.share.quota.tokens,
            jitter=self.clock.jitter(),
            refused_in_a_row=self.share.refused_in_a_row,
            wait=self.share.wait_in_words(permit.seconds_waited, permit.reason),
            settings=self.settings,
        )
        if isinstance(decision, SeoRepError):
            raise decision
        return decision

    async def _acquire_permit(self, call: Call[Any]) -> Permit:
        request, share, since, reason = call.request, self.share, self.clock.monotonic(), ""
        while True:
            self._require_not_closed(call.failure)
            try:
                permit = await share.acquire(
                    call.deadline,
                    request.subject,
                    request.lane,
                    request.priority,
                    is_retry=call.attempts > 0,
                )
            except TimeoutError as end:
                others = self._latest_failure if share.only_probes else None
                wait = share.wait_in_words(self.clock.monotonic() - since, *end.args or (reason,))
                late = deadline_exceeded(call.failure, share.refused_in_a_row, others, wait)
                raise late from late.__cause__
            if permit is not None:
                reason = permit.reason
                permit.seconds_waited = self.clock.monotonic() - since
                if self.state == "open" and self.clock.monotonic() < call.deadline.at:
                    return permit
                share.give_back(permit)

    async def _attempt(self, call: Call[T], permit: Permit) -> T | Failure:
        """Make one attempt, give its permit back, read the response, and report all of it."""
        call.start(self.clock.monotonic())
        received: Response | Failure | None = None
        try:
            received = await self._receive(call, permit)
            result = await self._read(call, permit, received)
        except BaseException as error:
            # A cancelled attempt is reported as well.
            self.observer.report(call, received, error)
            raise
        self.observer.report(call, received, result)
        return result

    async def _receive(self, call: Call[Any], permit: Permit) -> Response | Failure:
        """Send the request once. The permit ends with the last byte of the response."""
        seconds = call.deadline.at - call.started
        try:
            received = await self._transport.attempt(call.request, seconds, call.may_reuse)
        except BaseException:
            # The end of a cancelled attempt says nothing about the service.
            call.ended = self.clock.monotonic()
            self.share.give_back(permit)
            raise
        call.ended = self.clock.monotonic()
        self.share.take_back(permit)
        return received

    async def _read(
        self, call: Call[T], permit: Permit, received: Response | Failure
    ) -> T | Failure:
        """Learn from the response, and decode it."""
        try:
            outcome = self._reader.check(call.request, received)
        except BaseException:
            # A defect of a decoder must not keep others waiting for this permit.
            self.share.learn(permit, None)
            raise
        self.share.learn(permit, outcome)
        if isinstance(received, Response):
            self.observer.record(call, received)
        if isinstance(outcome, Failure):
            return outcome
        return await self._reader.read(
            call.request, outcome, lambda: self._remaining(call.deadline.at)
        )

    async def _back_off(self, call: Call[Any], failure: Failure, retry: Retry) -> None:
        """Pay for a retry and sleep before it, unless the client is closed."""
        self._require_not_closed(failure)
        self.share.quota.tokens -= retry.cost
        call.spent += retry.cost
        self._retries[failure.cause.value] += 1
        self.observer.log_retry(call, failure, retry.delay)
        self.share.waited["backoff"] += retry.delay
        sleep = self.spawn(self.clock.sleep(retry.delay))  # closing ends it
        try:
            await asyncio.wait([sleep])
        finally:
            sleep.cancel()

    def _remaining(self, deadline: float) -> float | None:
        return None if deadline == math.inf else deadline - self.clock.monotonic()


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended, whatever they end with."""
    pending = list(tasks)
    for task in pending:
        task.cancel()
    if pending:
        await asyncio.wait(pending)
        for task in pending:
            if not task.cancelled():
                task.exception()
