"""What a response means: the result that was asked for, or a failure."""

from __future__ import annotations

from typing import Any, TypeVar

import attrs

from seorep_async.errors import (
    DecodeError,
    ProtocolError,
    RateLimitedError,
    RedirectError,
    SeoRepError,
    ServerError,
    StatusError,
    status_error_type,
)
from seorep_async.session.authentication import Authentication
from seorep_async.session.request import Request
from seorep_async.session.retry_policy import Cause, Failure, Sent, Signal, cause_of_status, signal_of_status
from seorep_async.session.scrubbing import Scrubber

T = TypeVar("T")

_EXCERPT = 400  # characters of a body that an error shows
_MESSAGES = {
    401: "the API key was refused",
    403: "the API key was refused",
    404: "there is no such object",
    429: "the service asks for fewer requests",
    500: "the service failed; a bad parameter may be answered like this too",
    503: "the service is not available now",
}


@attrs.define
class Response:
    """A whole response of the service, whatever its status.

    Attributes:
        status: HTTP status.
        chunks: the whole body, decompressed, in the chunks that were received.
        retry_after: seconds that the service asked to wait, or None.
        location: where a redirect points, or None.
    """

    status: int
    chunks: list[bytes | memoryview] = attrs.field(repr=False)
    retry_after: float | None = None
    location: str | None = attrs.field(default=None, repr=False)

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return sum(map(len, self.chunks))

    @property
    def body(self) -> bytes | memoryview:
        """The body as one; large ones are joined each time, as late as can be, so that few are held whole."""
        return self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)

    @property
    def signal(self) -> Signal:
        """What it tells about the state of the service."""
        return signal_of_status(self.status)


class ResponseReader:
    """Reads responses, and keeps secrets out of what it says about them.

    Args:
        authentication: the key, which a service may repeat.
    """

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication

    def read(self, request: Request[T], response: Response) -> T | Failure:
        """Return the result in a response, or the failure that it means."""
        error: SeoRepError
        status = response.status
        if 200 <= status < 300:
            try:
                return request.decode(response.body)
            except ProtocolError as undecodable:
                sent, cause, error = Sent.MAYBE, Cause.TRANSIENT, undecodable
            except StatusError as disguised:
                code = next((c for c in (400, 403, 404, 429, 500) if type(disguised) is status_error_type(c)), 500)
                sent, cause, error = Sent.ANSWERED, cause_of_status(code), disguised
            except SeoRepError as shapeless:
                sent, cause, error = Sent.ANSWERED, Cause.PERMANENT, shapeless
        elif 300 <= status < 400:
            sent, cause, error = (
                Sent.ANSWERED,
                Cause.PERMANENT,
                _redirect(None if request.private else response.location),
            )
        else:
            message = _MESSAGES.get(status, "the service refused" if status < 500 else "the service failed")
            sent, cause, error = Sent.ANSWERED, cause_of_status(status), status_error_type(status)(message)
        error.status = status
        if not request.private:
            error.body_excerpt = self._excerpt(response.body, request)
        elif isinstance(error, DecodeError):
            error.message = f"{error.field_path or 'the answer'}: is not what was expected there"
        elif isinstance(error, StatusError) and status < 300:
            error.message = "the service reported an error in an answer that claims success"
        if response.retry_after is not None and isinstance(error, RateLimitedError | ServerError):
            error.retry_after = response.retry_after
            error.message += f"; it asked to wait {response.retry_after:g} s"
        return Failure(sent, cause, error, response.retry_after)

    def clean(self, error: SeoRepError, request: Request[Any]) -> None:
        """Take out of an error what the service may have put into it, before it is logged, kept or raised."""
        error.message = _printable(self._scrub(error.message, request))
        error.args = (error.message,)
        if isinstance(error, RedirectError) and error.location is not None:
            error.location = _printable(self._scrub(error.location, request))
        error.__cause__ = error.__context__ = None
        error.__traceback__ = None  # frames of decoding hold the body

    def _scrub(self, text: str, request: Request[Any], *, cut: bool = False) -> str:
        if request.secrets:
            text = Scrubber(request.secrets).scrub(text, cut=cut)
        return self._authentication.scrub(text, cut=cut)

    def _excerpt(self, body: bytes | memoryview, request: Request[Any]) -> str | None:
        # scrubbed before it is cut, or half a key could remain at the cut
        beginning = bytes(body[: 8 * _EXCERPT])
        text = self._scrub(beginning.decode(errors="replace"), request, cut=len(beginning) < len(body))
        text = _printable(text)
        return (text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…") or None


def _redirect(location: str | None) -> RedirectError:
    target = location.partition("?")[0] if location else None
    error = RedirectError(
        f"the service redirects to {target or 'another address'}, which is never followed; "
        "put the right address into base_url"
    )
    error.location = target
    return error


def _printable(text: str) -> str:
    text = " ".join(text.split())
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
