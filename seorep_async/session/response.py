"""Read responses: decode a result or report a failure. Large bodies are decoded in turns."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeGuard, TypeVar

from seorep_async.errors import AttemptTimeoutError, ConnectionFailedError, SeoRepError
from seorep_async.session.clock import Clock
from seorep_async.session.error_responses import ErrorReader, Response as Response
from seorep_async.session.request import Call, Decode, PageDecoder, Request
from seorep_async.session.retry_policy import Cause, Failure, Sent
from seorep_async.session.secrets import Authentication

T = TypeVar("T")

SMALL = 4 * 1024
"""A body with more bytes is not an error, so it counts as accepted before it is decoded."""
LARGE = 64 * 1024
"""A body with more bytes than this delays others while it is decoded, so it waits for a turn."""
ODD = 1024 * 1024
"""A feed's page of up to this many bytes is decoded in the loop, whatever its shape."""
DOCUMENTED = 2 * 1024 * 1024
"""A page of documented shape with up to this many bytes is decoded in the loop."""
SHARE = 1024 * 1024
"""The bytes of large bodies decoded in one turn. A single larger body also takes one turn."""
RESTS = 3
"""Iterations of the event loop between two turns, for other work on the loop."""


class DecodeTurns:
    """Lets large bodies be decoded in order of arrival, a limited number of bytes per turn.

    A rest before every body would cost as much as a body of 100 rows.
    """

    def __init__(self) -> None:
        self._bytes_in_turn = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def wait(self, size: int) -> None:
        """Wait until a body of this size may be decoded, which the caller does without an await."""
        if not self._waiting and self._has_room(size):
            self._take_room(size)
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((size, waiter))
        await waiter

    def end_waits(self) -> None:
        """Wake everyone that waits, at once."""
        for _size, waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    def _has_room(self, size: int) -> bool:
        return not self._bytes_in_turn or self._bytes_in_turn + size <= SHARE

    def _take_room(self, size: int) -> None:
        if not self._bytes_in_turn:
            asyncio.get_running_loop().call_soon(self._rest, RESTS)
        self._bytes_in_turn += size

    def _rest(self, iterations: int) -> None:
        """Begin the next turn after some iterations of the loop."""
        if iterations:
            asyncio.get_running_loop().call_soon(self._rest, iterations - 1)
            return
        self._bytes_in_turn = 0
        while self._waiting and self._has_room(self._waiting[0][0]):
            size, waiter = self._waiting.popleft()
            # It may have been cancelled in the meantime.
            if not waiter.done():
                self._take_room(size)
                waiter.set_result(None)


class ResponseReader:
    """Reads responses, and remembers whether the service has answered at this address."""

    def __init__(self, authentication: Authentication, clock: Clock) -> None:
        self.errors: ErrorReader = ErrorReader(authentication)
        self._clock = clock
        self._turns = DecodeTurns()
        # Held while a large body is decoded.
        self._lock = asyncio.Lock()
        # The time limits of calls whose large body waits or is decoded.
        self._time_limits: set[asyncio.Timeout] = set()
        self._is_closed = False
        self._knows_service = False

    def close(self) -> None:
        """End every call whose response waits to be decoded."""
        self._is_closed = True
        self._turns.end_waits()
        for limit in self._time_limits:
            if not limit.expired():
                limit.reschedule(0)  # in the past

    def check(self, request: Request[Any], outcome: Response | Failure) -> Response | Failure:
        """Return a successful response, or its failure without secrets.

        A small body is decoded here, because it may be an error with a successful status.
        """
        if isinstance(outcome, Failure):
            return self.errors.clean(outcome, request)
        if not 200 <= outcome.status < 300:
            return self.errors.failure_of_status(
                request, outcome, knows_service=self._knows_service
            )
        if len(outcome.body) <= SMALL:
            try:
                outcome.decoded = request.decode(outcome.body)
            except SeoRepError as error:
                return self._undecodable(error, request, outcome)
        return outcome

    async def read(self, call: Call[T], response: Response) -> T | Failure:
        """Return the result of a successful response, or its failure.

        A large body waits for its turn until the deadline of the call.
        """
        request = call.request
        size = len(response.body)
        result: T
        try:
            if size <= SMALL:
                result = response.decoded
            elif size <= LARGE:
                result = request.decode(response.body)
            else:
                result = await self._decode_large(call, response.body)
        except SeoRepError as error:
            return self._undecodable(error, request, response)
        except TimeoutError:
            return self._late()
        self._knows_service = True
        return result

    def _undecodable(
        self, error: SeoRepError, request: Request[Any], response: Response
    ) -> Failure:
        return self.errors.failure_of_body(
            error, request, response, knows_service=self._knows_service
        )

    async def _decode_large(self, call: Call[T], body: bytes) -> T:
        """Decode a body in its turn: no other is being decoded, and other work has had its time."""
        decode = call.request.decode
        await self._turns.wait(len(body))
        seconds_left = call.deadline.at - self._clock.monotonic()
        if self._is_closed or seconds_left <= 0:
            raise TimeoutError
        # A time limit and the lock would cost as much as 20 rows. Most pages need neither.
        if _is_quick(decode, body) and not self._lock.locked():
            return decode(body)
        seconds = None if seconds_left == math.inf else seconds_left
        async with asyncio.timeout(seconds) as limit:
            self._time_limits.add(limit)
            try:
                # Nothing else is decoded beside a thread, because both would hold up the loop.
                async with self._lock:
                    return await _decode(decode, body)
            finally:
                self._time_limits.discard(limit)

    def _late(self) -> Failure:
        error: SeoRepError
        if self._is_closed:
            error = ConnectionFailedError("the client was closed before the response was decoded")
            return Failure(Sent.MAYBE, Cause.PERMANENT, error, inconclusive=True)
        error = AttemptTimeoutError("the response was received, but not decoded in time")
        return Failure(Sent.MAYBE, Cause.OVERLOAD, error, inconclusive=True)


def _is_quick(decode: Decode[Any], body: bytes) -> bool:
    """Return whether this is a small page of a feed.

    Whatever its shape, it takes at most three times as long as a documented one.
    """
    return len(body) <= ODD and _is_page_decoder(decode)


def _is_page_decoder(decode: Decode[T]) -> TypeGuard[PageDecoder[T]]:
    # A check of the whole protocol takes as long as 4 rows.
    return hasattr(decode, "documented")


async def _decode(decode: Decode[T], body: bytes) -> T:
    """Decode a body in the loop, or in a thread if it would hold up the loop for too long."""
    # There are four cases:
    # 1. A small page of a feed: in the loop.
    # 2. A larger page of documented shape: in the loop. Nearly all the time is one step of C code,
    #    during which a thread would also hold up the loop.
    # 3. Any other page of a feed: in a thread.
    # 4. A list: in a thread, because its records take ten times as long as rows.
    if _is_quick(decode, body):
        return decode(body)
    if len(body) <= DOCUMENTED and _is_page_decoder(decode):
        return await _decode_page(decode, body)
    return await _in_thread(decode, body)


async def _decode_page(page_decoder: PageDecoder[T], body: bytes) -> T:
    page = page_decoder.documented(body)
    if page is not None:
        return page
    return await _in_thread(page_decoder.odd, body)


async def _in_thread(decode: Decode[T], body: bytes) -> T:
    # A new thread, because the loop's threads may be busy with blocking work of the caller.
    thread = ThreadPoolExecutor(1, "seorep_async decode")
    try:
        result = asyncio.get_running_loop().run_in_executor(thread, decode, body)
    except RuntimeError:
        # No thread can be started. It is better to hold up the loop than to lose the response.
        return decode(body)
    finally:
        # The thread ends after this body.
        thread.shutdown(wait=False)
    return await result
