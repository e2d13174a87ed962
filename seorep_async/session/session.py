"""From a request to its result: permit, attempt, decision, back-off, and round again."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar, cast

import aiohttp

from seorep_async.errors import ConfigurationError, SeoRepError
from seorep_async.session import clock as clocks
from seorep_async.session.base_url import BaseURL
from seorep_async.session.flow_control.permits import Governor, Limits, Permit
from seorep_async.session.observation import Observer, OnAttempt, Stats, log_retry
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
    ) -> None:
        self.settings = settings
        self.clock: clocks.Clock = clock or clocks.SYSTEM
        self.state: str = "not open yet"
        self.call_timeout: CallTimeout = CallTimeout(settings.call_timeout, self.clock.monotonic)
        self._reader = ResponseReader(authentication)
        self.observer: Observer = Observer(on_attempt, self._reader.scrub, settings)
        self._transport = Transport(
            base_url, authentication, settings, borrowed, self.clock.wall_clock
        )
        self.governor: Governor = Governor(settings, self.clock, limits, base_url.origin)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._requests = 0
        self._retries: Counter[str] = Counter()
        self._throttled = 0
        self._latest_failure: SeoRepError | None = None

    async def __aenter__(self) -> Session:
        if self.state != "not open yet":
            raise ConfigurationError(f"this client is {self.state} already; create a new one")
        self.governor.open()
        try:
            self._transport.open()
        except BaseException:  # no client would close it
            self.governor.close()
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
                    self.governor.close()
                    await cancel_all(self._tasks)
            finally:
                await self._transport.close()
                for _iteration in range(_LAST_ITERATIONS):
                    await asyncio.sleep(0)

    @property
    def stats(self) -> Stats:
        governor = self.governor
        return Stats(
            requests=self._requests,
            attempts=self._transport.attempts,
            retries=dict(self._retries),
            throttled=self._throttled,
            bytes_received=self._transport.bytes_received,
            in_flight=governor.in_flight,
            concurrency=governor.concurrency,
            pace=governor.pace,
            waited=dict(governor.waited),
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
        call = Call(request, request.deadline, self.clock.monotonic())
        try:
            while True:
                permit = (
                    self.governor.try_acquire(request.deadline, request.subject)
                    if self.state == "open"
                    else None
                )
                if permit is None:
                    permit = await self._acquire_permit(call)
                result = await self._attempt(call, permit)
                if isinstance(result, Failure) and call.was_deleted_before(result):
                    result = cast("T", request.decode(b""))
                if not isinstance(result, Failure):
                    self.governor.quota.succeed(call.spent)
                    if call.failure is not None:
                        self.observer.log_limits(call, self.governor)
                    return result
                await self._back_off(call, result, self._decide(call, result, permit))
        except SeoRepError as error:
            completed = call.complete(error)
        except asyncio.CancelledError:
            self.governor.quota.give_back(call.spent)  # its end says nothing about the service
            raise
        raise completed

    def _decide(self, call: Call[Any], failure: Failure, permit: Permit) -> Retry:
        """Record a failed attempt, and return the retry; raise the failure's error if there is none."""
        call.note(failure, probe=permit.probe)
        self._throttled += failure.cause is Cause.THROTTLE
        self.observer.log_limits(call, self.governor)
        if failure.cause.may_pass and not failure.inconclusive:
            self._latest_failure = failure.error
        decision = decide(
            failure,
            attempts=call.attempts,
            throttled=call.throttled,
            probe=permit.probe,
            idempotent=call.request.idempotent,
            remaining=call.deadline - self.clock.monotonic(),
            tokens=self.governor.quota.tokens,
            jitter=self.clock.jitter(),
            refused_in_a_row=self.governor.refused_in_a_row,
            wait=self.governor.in_words(*permit.wait),
            settings=self.settings,
        )
        if isinstance(decision, SeoRepError):
            raise decision
        return decision

    async def _acquire_permit(self, call: Call[Any]) -> Permit:
        request, governor, since, reason = call.request, self.governor, self.clock.monotonic(), ""
        while True:
            self._require_not_closed(call.failure)
            try:
                permit = await governor.acquire(
                    call.priority, call.deadline, request.subject, request.taker
                )
            except TimeoutError as end:
                others = self._latest_failure if governor.only_probes else None
                wait = governor.in_words(self.clock.monotonic() - since, *end.args or (reason,))
                late = deadline_exceeded(call.failure, governor.refused_in_a_row, others, wait)
                raise late from late.__cause__
            if permit is not None:
                reason = permit.wait[1]
                permit.wait = self.clock.monotonic() - since, reason
                if self.state == "open" and self.clock.monotonic() < call.deadline:
                    return permit
                governor.release(permit, None)

    async def _attempt(self, call: Call[T], permit: Permit) -> T | Failure:
        """Make one attempt, give its permit back, and read the response."""
        request, response, outcome = call.request, None, None
        call.start(self.clock.monotonic(), self.call_timeout.seconds)
        try:
            try:
                try:
                    response = await self._transport.attempt(
                        request, call.deadline - call.started, call.may_reuse
                    )
                finally:
                    call.ended = self.clock.monotonic()
                    self.governor.end(permit)
                outcome = self._reader.check(request, response)
            finally:
                self.governor.release(permit, outcome)
            if isinstance(response, Response):
                self.observer.record(call, response)
            if isinstance(outcome, Failure):
                result: T | Failure = outcome
            else:
                result = await self._reader.read(
                    request, outcome, lambda: self._remaining(call.deadline)
                )
        except BaseException as error:  # a cancelled attempt is reported, too
            self.observer.report(call, response, error)
            raise
        self.observer.report(call, response, result)
        return result

    async def _back_off(self, call: Call[Any], failure: Failure, retry: Retry) -> None:
        """Pay for a retry and sleep before it, unless the client is closed."""
        self._require_not_closed(failure)
        self.governor.quota.tokens -= retry.cost
        call.spent += retry.cost
        self._retries[failure.cause.value] += 1
        log_retry(call, failure, retry.delay)
        self.governor.waited["backoff"] += retry.delay
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
