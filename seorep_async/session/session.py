"""From a request to its result: permit, attempt, decision, back-off, and round again."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, TypeVar, cast

import aiohttp
import msgspec

from seorep_async.errors import (
    AttemptTimeoutError,
    AuthenticationError,
    ConfigurationError,
    DeadlineExceededError,
    SeoRepError,
)
from seorep_async.session.base_url import BaseURL
from seorep_async.session.call import Call
from seorep_async.session.clock import Clock
from seorep_async.session.fair_queue import HUGE, FairQueue
from seorep_async.session.flow_control import Governor, Limits, Permit
from seorep_async.session.key_refusal import CancelScope, Step
from seorep_async.session.observation import Observer, OnAttempt, Stats, log_retry
from seorep_async.session.request import Request
from seorep_async.session.response import Response, ResponseReader
from seorep_async.session.retry_policy import Cause, Failure, Retry, Sent, Signal, deadline_exceeded, decide
from seorep_async.session.secrets import Authentication
from seorep_async.session.timeouts import CallTimeout
from seorep_async.session.transport import Transport
from seorep_async.settings import Settings

T = TypeVar("T")

_LAST_ITERATIONS = 5  # of the loop, in which calls that backed off end, and the tasks and sockets that they cancelled
_log = logging.getLogger("seorep_async")


class Session:
    """Sends requests for one client, from opening to closing, by its own aiohttp session or a `borrowed` one."""

    def __init__(
        self,
        base_url: BaseURL,
        authentication: Authentication,
        settings: Settings,
        borrowed: aiohttp.ClientSession | None = None,
        clock: Clock | None = None,
        limits: Limits | None = None,
        on_attempt: OnAttempt | None = None,
    ) -> None:
        self.settings = settings
        self.clock: Clock = clock or Clock()
        self.state: str = "not open yet"
        self.call_timeout: CallTimeout = CallTimeout(settings.call_timeout, self.clock.monotonic)
        self._fair_queue = FairQueue()
        self._reader = ResponseReader(authentication, self._fair_queue)
        self.observer: Observer = Observer(on_attempt, self._reader.scrub, settings)
        self._transport = Transport(base_url, authentication, settings, borrowed, self.clock.wall_clock)
        self.governor: Governor = Governor(settings, self.clock, limits, base_url.origin)
        self._reading_huge = asyncio.Lock()
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
            await self._transport.__aenter__()
        except BaseException:  # no client would close it
            self.governor.close()
            raise
        self._loop = asyncio.get_running_loop()
        self.state = "open"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.state == "open":
            if self._loop is not asyncio.get_running_loop() and not self._loop.is_closed():
                raise ConfigurationError("this client was opened in another event loop; close it there")
            self.state = "closed"
            try:
                if not self._loop.is_closed():  # else all that ran there is gone
                    self.governor.close()
                    await cancel_all(self._tasks)
            finally:
                await self._transport.__aexit__(kind, error, traceback)
                for _ in range(_LAST_ITERATIONS):
                    await asyncio.sleep(0)

    @property
    def stats(self) -> Stats:
        """The figures so far."""
        governor = self.governor
        return Stats(
            requests=self._requests,
            attempts=self._transport.attempts,
            retries=dict(self._retries),
            throttled=self._throttled,
            bytes_received=self._transport.bytes_received,
            in_flight=governor.in_flight,
            concurrency=governor.admission.concurrency,
            pace=governor.admission.pace,
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

    def _require_not_closed(self) -> None:
        if self.state != "open":
            raise ConfigurationError(
                f"this client is {self.state}: use it inside `async with SeoRepClient(...) as client:`"
            )

    def spawn(
        self, work: Coroutine[Any, Any, T], when_done: Callable[[asyncio.Task[T]], None] | None = None
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
        call = Call(request, math.inf if request.deadline is None else request.deadline, self.clock.monotonic())
        try:
            while True:
                about = call.was_refused, request.subject
                permit = self.governor.try_acquire(call.deadline, *about) if self._may_start(call) else None
                if permit is None:
                    permit = await self._acquire_permit(call)
                result = await self._attempt(call, permit)
                if isinstance(result, Failure) and call.was_deleted_before(result):
                    result = cast("T", request.decode(b""))
                if not isinstance(result, Failure):
                    self.governor.quota.succeed(call.spent)
                    if call.failure is not None:
                        self.observer.log_limits(call, self.governor.admission)
                    return result
                await self._back_off(call, result, self._decide(call, result, probe=permit.probe))
        except SeoRepError as error:
            completed = call.complete(error)
        except asyncio.CancelledError:
            self.governor.quota.give_back(call.spent)  # its end says nothing about the service
            raise
        raise completed

    def _decide(self, call: Call[Any], failure: Failure, *, probe: bool) -> Retry:
        """Record a failed attempt, and return the retry; raise the failure's error if there is none."""
        call.note(failure, probe=probe)
        self._throttled += failure.cause is Cause.THROTTLE
        self.observer.log_limits(call, self.governor.admission)
        if failure.cause.may_pass and not failure.inconclusive:
            self._latest_failure = failure.error
        decision = decide(
            failure,
            attempts=call.attempts,
            throttled=call.throttled,
            probe=probe,
            idempotent=call.request.idempotent,
            remaining=call.deadline - self.clock.monotonic(),
            tokens=self.governor.quota.tokens,
            jitter=self.clock.jitter(),
            refused_in_a_row=self.governor.admission.refused_in_a_row,
            settings=self.settings,
        )
        if isinstance(decision, SeoRepError):
            raise decision
        return decision

    async def _acquire_permit(self, call: Call[Any]) -> Permit:
        """Wait until the call may make an attempt."""
        governor, scope = self.governor, call.request.cancel_scope
        while True:
            self._require_not_closed()
            if scope is not None and not scope.may_go:
                await self._judge_key(call, scope)
            about = call.was_refused, call.request.subject
            permit = await governor.acquire(call.priority, call.deadline, scope, *about)
            if permit is None:
                if self.state == "open" and (scope is None or scope.error is None):
                    raise self._deadline_exceeded(call)
            elif self._may_start(call) and self.clock.monotonic() < call.deadline:
                return permit
            else:
                governor.release(permit, None)

    def _deadline_exceeded(self, call: Call[Any]) -> DeadlineExceededError:
        """Return the error for a call that timed out in a wait."""
        admission = self.governor.admission
        others = self._latest_failure if admission.breaker.is_open else None
        return deadline_exceeded(call.failure, admission.refused_in_a_row, others)

    def _may_start(self, call: Call[Any]) -> bool:
        """Return whether nothing forbids the attempt, also after a wait for its permit."""
        scope = call.request.cancel_scope
        return (scope is None or scope.may_go) and self.state == "open"

    async def _judge_key(self, call: Call[Any], scope: CancelScope) -> None:
        """Wait until it is known whether the key still works, and send the probe if it takes one."""
        try:
            async with asyncio.timeout(self._remaining(call)):
                while (step := scope.next_step) in (Step.WAIT, Step.PROBE):
                    if step is Step.PROBE:
                        scope.start_probe()
                        scope.probe = self.spawn(self._probe(call.request, scope))  # not ours, which may be cancelled
                    await scope.wait()
        except TimeoutError:
            late = self._deadline_exceeded(call)
            raise late from late.__cause__
        if scope.error is not None:
            status = scope.error.status
            raise AuthenticationError("stopped, because the API key was refused for another request", status=status)

    async def _probe(self, request: Request[Any], scope: CancelScope) -> None:
        """Ask for something that the key should be good for; only another refusal condemns it."""
        refusal = None
        path, query = scope.target
        try:
            probe = msgspec.structs.replace(request, path=path, query=query, subject=None, cancel_scope=None, slot=None)
            await self.send(probe)
        except AuthenticationError as error:
            refusal = error.evolve()
        except Exception:  # it says nothing about the key
            _log.debug("the probe of the key failed for another reason")
        finally:
            scope.end_probe(refusal)
            if refusal is not None:
                self.governor.withdraw(scope)

    async def _attempt(self, call: Call[T], permit: Permit) -> T | Failure:
        """Make one attempt, give its permit back, and read the response."""
        request, scope = call.request, call.request.cancel_scope
        outcome = signal = retry_after = None
        number = 0 if scope is None else scope.start()
        call.start(self.clock.monotonic(), self.call_timeout.seconds)
        try:
            try:
                outcome = await self._transport.attempt(request, call.deadline - call.started, call.may_reuse)
                signal, retry_after = outcome.signal, outcome.retry_after
            finally:
                call.ended = self.clock.monotonic()
                self.governor.release(permit, signal, retry_after)
                if request.slot is not None:
                    request.slot.land()
            if isinstance(outcome, Failure):
                result: T | Failure = self._reader.clean(outcome, request)
            else:
                self.observer.record(call, outcome)
                if outcome.size > HUGE:
                    result = await self._read_huge(call, outcome)
                else:
                    result = await self._reader.read(request, outcome)
                if isinstance(result, Failure) and result.cause is Cause.THROTTLE and signal is Signal.FINE:
                    self.governor.observe(permit, Signal.THROTTLED, retry_after)
                if scope is not None:
                    self._report_to(scope, number, request, result)
        except BaseException as error:  # a cancelled attempt is reported, too
            self.observer.report(call, outcome, error)
            raise
        else:
            if self.observer.on_attempt is not None:
                self.observer.report(call, outcome, result)
            return result
        finally:
            if scope is not None:
                scope.end(number)

    async def _read_huge(self, call: Call[T], response: Response) -> T | Failure:
        """Read a huge response, one at a time, by the call's deadline."""
        try:
            async with asyncio.timeout(self._remaining(call)), self._reading_huge:
                return await self._reader.read(call.request, response)
        except TimeoutError:
            late = AttemptTimeoutError("the response was received, but not read in time")
            return Failure(Sent.MAYBE, Cause.OVERLOAD, late, inconclusive=True)

    def _report_to(self, scope: CancelScope, number: int, request: Request[Any], result: object) -> None:
        if not isinstance(result, Failure):
            scope.succeed(number, (request.path, request.query))
        elif isinstance(result.error, AuthenticationError):
            if result.error.status == 401:
                scope.cancel(result.error)
                self.governor.withdraw(scope)
            else:
                scope.forbid(number)

    async def _back_off(self, call: Call[Any], failure: Failure, retry: Retry) -> None:
        """Pay for a retry and sleep before it, unless the client is closed."""
        self._require_not_closed()
        self.governor.quota.spend(retry.cost)
        call.spent += retry.cost
        self._retries[failure.cause.value] += 1
        delay = max(retry.delay, self.governor.courtesy(call.request.subject, call.deadline))
        log_retry(call, failure, delay)
        self.governor.waited["backoff"] += delay
        slot = call.request.slot
        if slot is not None:
            slot.release()
        sleep = self.spawn(self.clock.sleep(delay))  # closing ends it
        try:
            await asyncio.wait([sleep])
        finally:
            sleep.cancel()
        if slot is not None:
            await slot.take_back()

    def _remaining(self, call: Call[Any]) -> float | None:
        return None if call.deadline == math.inf else call.deadline - self.clock.monotonic()


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
