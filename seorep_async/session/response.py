"""From a response to its result or failure; large bodies are decoded in turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import attrs
import msgspec

from seorep_async.errors import (
    AttemptTimeoutError,
    ConnectionFailedError,
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
from seorep_async.session.request import Decode, PageDecoder, Request
from seorep_async.session.retry_policy import Cause, Failure, Sent, cause_of_status, sent_of_status
from seorep_async.session.secrets import Authentication, Scrubber

T = TypeVar("T")

SMALL = 4 * 1024
"""Bytes of a body up to which it may be an error."""
LARGE = 64 * 1024
"""Bytes of a body from which on its decoding delays others."""
ODD = 1024 * 1024
"""Bytes of a feed's page up to which it is decoded in the loop, whatever its shape."""
DOCUMENTED = 2 * 1024 * 1024
"""Bytes of a page up to which it is decoded in the loop if its shape is documented."""
RESTS = 3
"""Iterations of the loop that others have before each large body is decoded."""
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


class ResponseReader:
    """Reads responses, and removes secrets from their errors, as a service may repeat the key."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication
        self._turn = asyncio.Lock()
        self._time_limits: set[asyncio.Timeout] = set()
        self._is_closed = False
        self._knows_service = False

    def close(self) -> None:
        """End every call that waits for its response to be decoded."""
        self._is_closed = True
        for limit in self._time_limits:
            if not limit.expired():
                limit.reschedule(0)  # a time that has passed

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
                outcome.decoded = request.decode(outcome.body)
            except SeoRepError as error:
                return self._undecodable(error, request, outcome)
        return outcome

    async def read(
        self, request: Request[T], response: Response, remaining: Callable[[], float | None]
    ) -> T | Failure:
        """Return the result of a successful response, or its failure.

        A large body waits for its turn, at most for the seconds that its call has `remaining`.
        """
        size = len(response.body)
        result: T
        try:
            if size <= SMALL:
                result = response.decoded
            elif size <= LARGE:
                result = request.decode(response.body)
            else:
                result = await self._decode_large(request, response.body, remaining())
        except SeoRepError as error:
            return self._undecodable(error, request, response)
        except TimeoutError:
            return self._late()
        self._knows_service = True
        return result

    async def _decode_large(self, request: Request[T], body: bytes, seconds: float | None) -> T:
        """Decode a body in its turn: when no other is decoded and the loop has done other work."""
        async with asyncio.timeout(seconds) as limit:
            self._time_limits.add(limit)
            try:
                async with self._turn:
                    for _rest in range(RESTS):
                        await asyncio.sleep(0)
                    return await _decode(request.decode, body)
            finally:
                self._time_limits.discard(limit)

    def _late(self) -> Failure:
        error: SeoRepError
        if self._is_closed:
            error = ConnectionFailedError("the client was closed before the response was decoded")
            return Failure(Sent.MAYBE, Cause.PERMANENT, error, inconclusive=True)
        error = AttemptTimeoutError("the response was received, but not decoded in time")
        return Failure(Sent.MAYBE, Cause.OVERLOAD, error, inconclusive=True)

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


async def _decode(decode: Decode[T], body: bytes) -> T:
    """Decode a body in the loop, or in a thread if that would hold the loop up for long."""
    # There are four cases:
    # 1. A page of documented shape: in the loop. Nearly all the time is one step of C code, during
    #    which a thread would hold up the loop as long.
    # 2. A small page of a feed, whatever its shape: in the loop. It takes at most three times as
    #    long as a documented one.
    # 3. Any other page of a feed: in a thread.
    # 4. A list, whose records take ten times as long as rows: in a thread.
    if isinstance(decode, PageDecoder):
        if len(body) <= ODD:
            return decode(body)
        if len(body) <= DOCUMENTED:
            page: T | None = decode.documented(body)
            if page is not None:
                return page
    return await _in_thread(decode, body)


async def _in_thread(decode: Decode[T], body: bytes) -> T:
    # The thread is new: those of the loop may be busy with the caller's blocking work.
    thread = ThreadPoolExecutor(1, "seorep_async decode")
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, decode, body)
    finally:
        thread.shutdown(wait=False)


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
