"""Read responses: decode a result, or return a failure. Large bodies are decoded one at a time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from seorep_async.errors import AttemptTimeoutError, ConnectionFailedError, SeoRepError
from seorep_async.models.decoding import PageDecoder
from seorep_async.session.clock import Clock
from seorep_async.session.error_responses import ErrorReader
from seorep_async.session.failures import Cause, Failure, Sent
from seorep_async.session.request import Call, Decode, Request, Response
from seorep_async.session.secrets import Authentication
from seorep_async.session.timeouts import TimeLimit, TimeLimits

T = TypeVar("T")

_LARGEST_ERROR = 4096
"""The maximum size, in bytes, of a body that may be an error. A larger body counts as accepted by
the service before it is decoded.
"""
_LARGEST_AT_ONCE = 64 * 1024
"""The maximum size, in bytes, of a body that is decoded immediately. A larger body would delay
other work, so it waits for its turn.
"""
_LARGEST_IN_LOOP = 2 * 1024 * 1024
"""The maximum size, in bytes, of a feed's page to decode in the loop if its rows are alike."""
_BYTES_BETWEEN_RESTS = 512 * 1024
"""The bytes of large bodies that are decoded between two rests. A rest before each body would cost
as much as a body of 100 rows.
"""
_ITERATIONS_OF_REST = 3
"""Iterations of the event loop that a rest leaves to other work."""


class ResponseReader:
    """Reads responses. The result is decoded in one of three places, by the size of the body.

    A body of up to 4 KiB is decoded in `check`, because it may be an error. A body of up to 64 KiB
    is decoded in `read`, at once. Larger bodies take turns in `_decode_large`.
    """

    def __init__(
        self, authentication: Authentication, clock: Clock, time_limits: TimeLimits
    ) -> None:
        self.errors: ErrorReader = ErrorReader(authentication)
        self._clock = clock
        self._time_limits = time_limits
        self._bytes_since_rest = 0  # of large bodies that were decoded in the loop
        # Held while a large body is decoded. When it is released, the next call goes on in a later
        # iteration of the loop, so that other work runs between two bodies.
        self._turn = asyncio.Lock()

    def check(self, request: Request[Any], outcome: Response | Failure) -> Response | Failure:
        """Return a successful response, or its failure without secrets.

        A small body is decoded here, because it may be an error with a successful status.
        """
        if isinstance(outcome, Failure):
            return self.errors.clean(outcome, request)
        if not 200 <= outcome.status < 300:
            return self.errors.failure_of_status(request, outcome)
        if outcome.size <= _LARGEST_ERROR:
            try:
                outcome.decoded = request.decode(outcome.body)
            except SeoRepError as error:
                return self.errors.failure_of_body(error, request, outcome)
        return outcome

    async def read(self, call: Call[T], response: Response) -> T | Failure:
        """Return the result of a successful response, or its failure.

        A large body waits for its turn until the deadline of the call.
        """
        try:
            if response.size > _LARGEST_AT_ONCE:
                result = await self._decode_large(call, response)
            elif response.size > _LARGEST_ERROR:
                result = call.request.decode(response.body)
            else:
                # `check` has already decoded a small body.
                result = response.decoded
        except SeoRepError as error:
            return self.errors.failure_of_body(error, call.request, response)
        except TimeoutError:
            return self._undecoded_failure()
        # The address is right, so errors no longer suggest that it may be wrong.
        self.errors.knows_service = True
        return result

    async def _decode_large(self, call: Call[T], response: Response) -> T:
        """Decode a large body, one at a time, in the loop or in a thread."""
        # There are three cases:
        # 1. A page whose rows are alike: in the loop. Nearly all the time is one step of C code,
        #    during which a thread would also hold up the loop.
        # 2. Any other page of a feed, and any very large page: in a thread.
        # 3. A list: in a thread, because its records take ten times as long as rows.
        decode = call.request.decode
        # A blocked loop gets no extra time here, because the response has already arrived.
        with TimeLimit(self._time_limits, self._seconds_left(call), extensions=0):
            async with self._turn:
                if isinstance(decode, PageDecoder) and response.size <= _LARGEST_IN_LOOP:
                    if self._bytes_since_rest + response.size > _BYTES_BETWEEN_RESTS:
                        # Let other work run first.
                        for _ in range(_ITERATIONS_OF_REST):
                            await asyncio.sleep(0)
                        self._seconds_left(call)  # raises if the call is out of time
                        self._bytes_since_rest = 0
                    # Right after a rest, even a body above the limit is decoded.
                    self._bytes_since_rest += response.size
                    page = decode.documented(response.body)
                    if page is not None:
                        return page
                    # The rows differ, so the page takes longer.
                    decode = decode.odd
                return await _in_thread(decode, response.body)

    def _seconds_left(self, call: Call[Any]) -> float:
        """Return the seconds until the deadline of a call.

        Raises:
            TimeoutError: the deadline is over, or the client was closed.
        """
        seconds_left = call.deadline.at - self._clock.monotonic()
        if self._time_limits.is_closed or seconds_left <= 0:
            raise TimeoutError
        return seconds_left

    def _undecoded_failure(self) -> Failure:
        """Return the failure of a response whose call ended before it was decoded."""
        cause = Cause.OVERLOAD
        error: SeoRepError = AttemptTimeoutError(
            "the response was received, but not decoded in time"
        )
        if self._time_limits.is_closed:
            cause = Cause.PERMANENT
            error = ConnectionFailedError("the client was closed before the response was decoded")
        return Failure(Sent.MAYBE, cause, error, inconclusive=True)


async def _in_thread(decode: Decode[T], body: bytes) -> T:
    """Decode a body in a thread of its own."""
    # A new thread, because the loop's threads may be busy with blocking work of the caller.
    thread = ThreadPoolExecutor(1, "seorep_async decode")
    try:
        result = asyncio.get_running_loop().run_in_executor(thread, decode, body)
    except RuntimeError:
        # No thread can be started, for example in a container that allows few. Decoding here holds
        # up the loop, but the response is not lost.
        return decode(body)
    finally:
        # The thread ends after this body.
        thread.shutdown(wait=False)
    return await result
