"""From a response to its result or failure; large bodies are decoded in turns."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Generator, Mapping
from types import GeneratorType
from typing import Any, TypeVar

import attrs
import msgspec

from seorep_async.errors import (
    AttemptTimeoutError,
    DecodeError,
    ProtocolError,
    RateLimitedError,
    RedirectError,
    SeoRepError,
    ServerError,
    StatusError,
    one_line,
    status_error_type,
)
from seorep_async.session.request import Request
from seorep_async.session.retry_policy import Cause, Failure, Sent, cause_of_status, sent_of_status
from seorep_async.session.secrets import Authentication, Scrubber

T = TypeVar("T")

SMALL, LARGE, HUGE = 4 * 1024, 64 * 1024, 4 * 1024 * 1024
"""Bytes of a body up to which it may be an error; from which on its decoding delays others; or outlasts its call."""
SHARE = 640 * 1024
"""Bytes to decode before others on the loop get their turn."""
_EXCERPT = 400  # bytes of a body in an error
_QUOTED = 600  # bytes of a message, a path or an address
_MESSAGES = {
    401: "the API key was refused",
    403: "the API key was refused, or may not see this",
    404: "there is no such object",
    429: "the service asks for fewer requests",
    500: "the service failed; a wrong parameter can cause this too",
    503: "the service is not available now",
}
_WRONG_SERVER = "this does not look like the service; check the address"


class Response(msgspec.Struct, eq=False):
    """A whole response of any status: its decompressed body, its Retry-After in seconds, its headers.

    The reader adds what a small body says.
    """

    status: int
    body: bytes
    retry_after: float | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    decoded: Any = None

    def __repr__(self) -> str:
        return f"Response({self.status})"  # tracebacks show locals; the rest may be private


class DecodeTurns:
    """Runs queued work in FIFO order, at most `share` bytes in every fourth loop iteration; larger work runs alone.

    No work runs at once, so the next request goes before the work on a response. The iterations in between are for
    everything else on the loop: consequences of the work, a timer, and the task that it wakes.
    """

    RESTS = 3
    """Iterations without work that follow each with work."""

    def __init__(self, share: int = SHARE) -> None:
        self._share = share
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._dealing = False

    async def wait(self, amount: int) -> None:
        """Wait for a turn; do the work, `amount` bytes, before awaiting again."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting.append((amount, waiter))
        if not self._dealing:
            self._dealing = True
            loop.call_soon(self._deal, loop)
        await waiter

    def _deal(self, loop: asyncio.AbstractEventLoop, rests: int = 0) -> None:
        if rests:
            loop.call_soon(self._deal, loop, rests - 1)
            return
        dealt = 0
        while self._waiting:
            amount, waiter = self._waiting[0]
            if dealt and dealt + amount > self._share:
                break
            self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                dealt += amount
        self._dealing = dealt > 0
        if self._dealing:
            loop.call_soon(self._deal, loop, self.RESTS)


class ResponseReader:
    """Reads responses, and removes secrets from their errors, as a service may repeat the key."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication
        self._turns = DecodeTurns()
        self._knows_service = False

    def check(self, request: Request[Any], outcome: Response | Failure) -> Response | Failure:
        """Return a successful response, and in place of any other its failure; of a failure, a clean one.

        A small body is decoded, as it may be an error under a success status.
        """
        if isinstance(outcome, Failure):
            return self.clean(outcome, request)
        if not 200 <= outcome.status < 300:
            return self._refusal(request, outcome)
        if len(outcome.body) <= SMALL:
            try:
                decoded: Any = request.decode(outcome.body)
                outcome.decoded = _last(decoded) if isinstance(decoded, GeneratorType) else decoded
            except SeoRepError as error:
                return self._undecodable(error, request, outcome)
        return outcome

    async def read(
        self, request: Request[T], response: Response, remaining: Callable[[], float | None]
    ) -> T | Failure:
        """Return the result of a successful response, or its failure; a large body is decoded in turns with others.

        Steps of decoding a huge one end with the call, which has `remaining` seconds.
        """
        size = len(response.body)
        if size > LARGE:
            await self._turns.wait(min(size, SHARE))
        try:
            decoded: Any = response.decoded if size <= SMALL else request.decode(response.body)
            if isinstance(
                decoded, GeneratorType
            ):  # to ask for the abstract Generator takes four times as long
                async with asyncio.timeout(remaining() if size > HUGE else None):
                    decoded = await self._finished(decoded, size)
        except SeoRepError as error:
            return self._undecodable(error, request, response)
        except TimeoutError:
            late = AttemptTimeoutError("the response was received, but not read in time")
            return Failure(Sent.MAYBE, Cause.OVERLOAD, late, inconclusive=True)
        self._knows_service = True
        result: T = decoded
        return result

    async def _finished(self, steps: Generator[bool, None, T], size: int) -> T:
        """Take the steps of an odd response's decoding, each in its turn, or all in a thread."""
        while True:
            try:
                if next(steps):
                    return await asyncio.to_thread(_last, steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await self._turns.wait(min(size, SHARE))

    def _refusal(self, request: Request[Any], response: Response) -> Failure:
        status = response.status
        if 300 <= status < 400 and "Location" in response.headers:
            location = (
                None if request.private else response.headers["Location"].partition("?")[0] or None
            )
            advice = "the client never follows a redirect; pass the right address as base_url=…"
            error: SeoRepError = RedirectError(
                f"{advice} (here to {location or 'another'})", location=location
            )
        elif status < 400:
            error = StatusError(
                "the service answered with a status that is neither a success nor an error"
            )
        elif status == 403 and self._knows_service and _is_page(response):
            slow_down = RateLimitedError("a firewall in front of the service refused the request")
            return self._failure(Sent.RESPONDED, Cause.THROTTLE, slow_down, request, response)
        elif status == 404 and not self._knows_service and _is_foreign(request, response.body):
            error = status_error_type(status)(_WRONG_SERVER)
        else:
            message = _MESSAGES.get(
                status, "the service refused" if status < 500 else "the service failed"
            )
            error = status_error_type(status)(message)
        return self._failure(
            sent_of_status(status), cause_of_status(status), error, request, response
        )

    def _undecodable(
        self, error: SeoRepError, request: Request[Any], response: Response
    ) -> Failure:
        message = error.message
        if isinstance(error, ProtocolError):
            sent, cause = Sent.MAYBE, Cause.TRANSIENT
        elif isinstance(error, StatusError):
            code = next(
                (c for c in (400, 403, 404, 429, 500) if type(error) is status_error_type(c)), 500
            )
            sent, cause = Sent.RESPONDED, cause_of_status(code)
            if request.private:
                message = "the service reported an error in a response that claims success"
        else:
            sent, cause = Sent.RESPONDED, Cause.PERMANENT
            if request.private and isinstance(error, DecodeError):
                message = f"{error.field_path or 'the response'}: has an unexpected value"
        return self._failure(sent, cause, error.evolve(message=message), request, response)

    def _failure(
        self,
        sent: Sent,
        cause: Cause,
        error: SeoRepError,
        request: Request[Any],
        response: Response,
    ) -> Failure:
        fields: dict[str, Any] = {"status": response.status}
        if not request.private:
            beginning = response.body[: 8 * _EXCERPT]
            text, is_cut = beginning.decode(errors="replace"), len(beginning) < len(response.body)
            fields["body_excerpt"] = self._quoted(text, request, _EXCERPT, is_cut=is_cut) or None
        if response.retry_after is not None and isinstance(error, RateLimitedError | ServerError):
            fields["retry_after"] = response.retry_after
            fields["message"] = (
                f"{error.message}; it asked for a pause of {response.retry_after:g} s"
            )
        return self.clean(
            Failure(sent, cause, error.evolve(**fields), response.retry_after), request
        )

    def clean(self, failure: Failure, request: Request[Any]) -> Failure:
        """Remove secrets and control characters from a failure's error, to be logged, stored or raised."""
        facts = vars(failure.error)
        quoting = {
            name: facts[name] for name in ("message", "location", "field_path") if facts.get(name)
        }
        cleaned = {name: self._quoted(string, request, _QUOTED) for name, string in quoting.items()}
        return attrs.evolve(failure, error=failure.error.evolve(**cleaned))

    def _quoted(
        self, string: str, request: Request[Any], longest: int, *, is_cut: bool = False
    ) -> str:
        """Return a text that may quote the service as one line without secrets, of so many bytes, not to fill a log."""
        # scrub before cutting, or half a key could remain at the cut
        beginning = string[: 8 * longest]
        line = one_line(self.scrub(beginning, request, cut=is_cut or len(beginning) < len(string)))
        encoded = line.encode()
        return line if len(encoded) <= longest else f"{encoded[:longest].decode(errors='ignore')}…"

    def scrub(self, string: str, request: Request[Any], *, cut: bool = False) -> str:
        """Replace the key, and the secrets of a request, in a string of the service's."""
        if request.secrets:
            string = Scrubber(request.secrets).scrub(string, cut=cut)
        return self._authentication.scrub(string, cut=cut)


def _is_page(response: Response) -> bool:
    """Return whether a response is an HTML page, which the service does not send."""
    is_html = "text/html" in response.headers.get("Content-Type", "").lower()
    return is_html and not bytes(response.body[:LARGE]).lstrip().startswith((b"{", b"["))


def _last(steps: Generator[bool, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def _is_foreign(request: Request[Any], body: bytes) -> bool:
    """Return whether a 404 comes from another server: its body is not like this service's, or no object was named.

    The shape of the service's errors is not documented, but it speaks JSON.
    """
    try:
        parsed = json.loads(body[:LARGE]) if body else {"error": ""}
    except (ValueError, RecursionError):
        return True
    if not isinstance(parsed, dict):
        return True
    if parsed.keys() & {"metadata", "data"} or parsed.get("status") in ("error", "fail", "failed"):
        return False
    names_an_object = any(map(str.isdigit, request.subject or request.path.removeprefix("/v3")))
    return not (
        names_an_object and parsed.keys() & {"code", "error", "errors", "message", "messages"}
    )
