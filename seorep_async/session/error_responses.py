"""Error responses: who sent them, whether to retry, and the error for the caller.

`is_of_gateway` decides whether something in front of the service answered. `cause_of_status` in
`failures.py` decides which statuses are retried.
"""

from __future__ import annotations

import math
from codecs import BOM_UTF8
from typing import Any

import attrs

from seorep_async.errors import (
    SERVICE_REASON,
    AuthenticationError,
    ConnectionFailedError,
    ProtocolError,
    RateLimitedError,
    RedirectError,
    SeoRepError,
    ServerError,
    StatusError,
    duration,
    one_line,
    status_error_type,
)
from seorep_async.reasons import LARGEST_BODY, reason_in_body
from seorep_async.session.failures import (
    PROXY_ADVICE,
    TOO_EARLY,
    UNREQUESTED_ENCODING,
    Cause,
    Failure,
    Sent,
    cause_of_status,
    sent_of_status,
)
from seorep_async.session.request import Request, Response
from seorep_async.session.secrets import Authentication, Scrubber

_LONGEST_EXCERPT = 400
"""The maximum length of a body in an error, in bytes."""
_LONGEST_QUOTE = 600
"""The maximum length of a message, a path or an address in an error, in bytes."""
_MESSAGES = {
    401: "the API key was refused",
    403: "no access: the API key has no permission for this, or was refused",
    404: "there is no such object",
    429: "the service asks for fewer requests",
    503: "the service is currently unavailable",
}
"""The messages for statuses."""
_FORBIDDEN = "this API key has no access to it"
"""The message for a 403 about one object, once the key has worked."""
_PRIVATE = (
    "the response is an error or has an unexpected value; it is not shown, because it may contain "
    "secrets"
)
_WRONG_SERVER = "this does not look like the service; check the address"
_NOT_THE_SERVICE = "something in front of the service answered, not the service"
_REVOKED_OR_FOREIGN = f"{_NOT_THE_SERVICE}, or the key was revoked"
"""The message for the page of a 403: a gateway can also turn the service's refusal into a page."""
_MISSING_OR_FOREIGN = f"{_NOT_THE_SERVICE}, or {_MESSAGES[404]}"
"""The message for the page of a 404 for one object."""
_PROXY_REFUSED = f"the proxy refused the request{PROXY_ADVICE}"
_LISTS = ("/v3/campaigns", "/v3/users", "/v3/keywords", "/v3/backlinks")
"""Paths that exist for every key, so a 404 for one of them means that the address is wrong."""
_UNREAD_ENCODINGS = ("br", "compress", "x-gzip", "zstd")
"""Encodings that the client never asks for and can't decode."""
_TWO_ATTEMPTS = 2
"""The first attempt and one retry. This is the maximum after a 425 without Retry-After, and after
an HTML page with a status of 2xx if no earlier request has succeeded.
"""


def is_of_gateway(response: Response) -> bool:
    """Return whether a server in front of the service, such as a firewall, sent this refusal.

    The service usually sends its errors as JSON. Its 403 or 404 concerns the key or an object; a
    403 or 404 of another server does not. Other statuses mean the same from any sender.
    """
    # A 403 in plain text may be the service's own.
    if response.status == 403:
        return is_page(response)
    # The service's own 404 is JSON, or empty except for a line break. Plain text comes from another
    # server, such as an ingress.
    if response.status != 404 or not response.body.strip():
        return False
    return not is_json(response.body)


def is_page(response: Response) -> bool:
    """Return whether a response is an HTML page, which the service does not send."""
    if is_json(response.body):
        return False  # PHP sends JSON as text/html by default
    is_called_html = "text/html" in response.headers.get("Content-Type", "").lower()
    return is_called_html or _beginning(response.body) == b"<"


def is_json(body: bytes) -> bool:
    """Return whether a body begins like JSON. It may be too large to parse here."""
    return _beginning(body) in (b"{", b"[", b'"')


def _beginning(body: bytes) -> bytes:
    """Return the first character of a body, after a byte order mark and spaces."""
    return body[:LARGEST_BODY].removeprefix(BOM_UTF8).lstrip()[:1]


class ErrorReader:
    """Turns error responses into failures without secrets. A service may echo the key.

    Attributes:
        knows_service: whether a request to this address has succeeded. Until then, the address may
            be wrong.
    """

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication
        self.knows_service: bool = False

    def failure_of_status(self, request: Request[Any], response: Response) -> Failure:
        """Return the failure for a response with an unsuccessful status."""
        status = response.status
        if status < 400:
            error = _redirect_error(request, response)
            # Web applications send a 302 or 303 after they have processed a form, so a write may
            # have been carried out.
            sent = Sent.RESPONDED if status in (301, 307, 308) else Sent.MAYBE
            return self._failure(sent, Cause.PERMANENT, error, request, response)
        # Once a request has succeeded, a gateway's response is a temporary refusal. Before that,
        # the address may be wrong, or the response may concern the key.
        if self.knows_service and is_of_gateway(response):
            message = _NOT_THE_SERVICE
            if status == 403:
                message = _REVOKED_OR_FOREIGN
            elif status == 404 and request.subject is not None:
                message = _MISSING_OR_FOREIGN
            error = RateLimitedError(message)
            return self._failure(
                Sent.RESPONDED, Cause.THROTTLE, error, request, response, by_gateway=True
            )
        has_retry_after = response.retry_after is not None
        cause = cause_of_status(status, has_retry_after=has_retry_after, is_read=request.is_read)
        error = self._status_error(request, response, cause)
        is_early = status == TOO_EARLY and not has_retry_after
        return self._failure(
            sent_of_status(status),
            cause,
            error,
            request,
            response,
            most_attempts=_TWO_ATTEMPTS if is_early else math.inf,
            is_own_json=is_json(response.body),
        )

    def _status_error(self, request: Request[Any], response: Response, cause: Cause) -> SeoRepError:
        """Return the error for a status of 400 or more, with the service's own reason."""
        status = response.status
        error_type = status_error_type(status)
        is_list = request.method == "GET" and request.path in _LISTS
        may_be_wrong_address = is_list and not self.knows_service
        if status == 404 and (may_be_wrong_address or is_of_gateway(response)):
            # A 404 of another server does not mean that the object is missing.
            return ProtocolError(_WRONG_SERVER)
        if status == 407:
            # Only proxies send this status.
            return ConnectionFailedError(_PROXY_REFUSED)
        default = "the service refused the request" if status < 500 else "the service failed"
        message = _MESSAGES.get(status, default)
        is_postponed = cause.retryable and response.retry_after is not None
        if is_postponed and status < 500 and status != 429:
            # The rate or the time is the problem, not the key or the parameters.
            error_type = RateLimitedError
            message = "the service asks to try again later"
        elif status == 403 and request.subject is not None and self.knows_service:
            message = _FORBIDDEN
        reason = "" if request.private else reason_in_body(response.body)
        if reason:
            message = f"{message}; {SERVICE_REASON}{reason}"
        error = error_type(message)
        if error_type is AuthenticationError and not self.knows_service:
            error.add_note("pass another api_key, set SEOREP_API_KEY, or run `seorep login`")
        return error

    def failure_of_body(
        self, error: SeoRepError, request: Request[Any], response: Response
    ) -> Failure:
        """Return the failure for a response with a successful status, but a wrong body.

        The body is an error or can't be decoded.
        """
        if isinstance(error, ProtocolError):
            # The body is not complete JSON. Usually it was cut short, and a retry may help.
            cause = Cause.TRANSIENT
            most_attempts = math.inf
            encoding = response.headers.get("Content-Encoding", "").strip().lower()
            if encoding in _UNREAD_ENCODINGS:
                error = error.evolve(message=f"{UNREQUESTED_ENCODING} ({encoding})")
                cause = Cause.PERMANENT
            elif not self.knows_service and is_page(response):
                error = error.evolve(message=_WRONG_SERVER)
                most_attempts = _TWO_ATTEMPTS
            return self._failure(
                Sent.MAYBE, cause, error, request, response, most_attempts=most_attempts
            )
        # A response that can't be decoded counts as lost. The service accepted the request, so a
        # write was probably carried out.
        sent = Sent.MAYBE
        cause = Cause.PERMANENT
        if isinstance(error, StatusError):
            sent = Sent.RESPONDED
            cause = cause_of_status(_status_of(error))
        # Unlike a `ProtocolError`, these errors may quote values of the response.
        if request.private:
            error = error.evolve(message=_PRIVATE)
        return self._failure(sent, cause, error, request, response, is_own_json=True)

    def _failure(
        self,
        sent: Sent,
        cause: Cause,
        error: SeoRepError,
        request: Request[Any],
        response: Response,
        **facts: Any,
    ) -> Failure:
        """Add an excerpt of the response and its Retry-After to an error. Return the failure.

        `facts` are further fields of the `Failure`.
        """
        fields: dict[str, Any] = {"status": response.status}
        if not request.private:
            # More than the excerpt needs, because masking secrets and collapsing white space
            # shorten the text.
            beginning = response.body[: 8 * _LONGEST_EXCERPT]
            is_cut = len(beginning) < len(response.body)
            text = beginning.decode(errors="replace")
            excerpt = self._quoted(text, request, _LONGEST_EXCERPT, is_cut=is_cut)
            fields["body_excerpt"] = excerpt or None
        if response.retry_after is not None and isinstance(error, RateLimitedError | ServerError):
            pause = f"it asked for a pause of {duration(response.retry_after)}"
            fields["retry_after"] = response.retry_after
            fields["message"] = f"{error.message}; {pause}"
        failure = Failure(sent, cause, error.evolve(**fields), response.retry_after, **facts)
        return self.clean(failure, request)

    def clean(self, failure: Failure, request: Request[Any]) -> Failure:
        """Remove secrets and control characters from a failure's error."""
        facts = vars(failure.error)
        cleaned = {
            name: self._quoted(facts[name], request, _LONGEST_QUOTE)
            for name in ("message", "location", "field_path")
            if facts.get(name)
        }
        return attrs.evolve(failure, error=failure.error.evolve(**cleaned))

    def _quoted(
        self, string: str, request: Request[Any], longest: int, *, is_cut: bool = False
    ) -> str:
        """Return a string as one line without secrets, cut after `longest` bytes.

        A cut line ends with "…", which is not counted. `is_cut` says whether the string is only the
        beginning of another.
        """
        # Secrets are masked before the line is cut to `longest` bytes, because half a secret would
        # not be recognised. It is enough to mask eight times as many characters, although masking
        # secrets and collapsing white space shorten the text.
        beginning = string[: 8 * longest]
        is_cut = is_cut or len(beginning) < len(string)
        line = one_line(self.scrub(beginning, request, cut=is_cut))
        encoded = line.encode()
        if len(encoded) <= longest:
            return line
        return f"{encoded[:longest].decode(errors='ignore')}…"

    def scrub(self, string: str, request: Request[Any], *, cut: bool = False) -> str:
        """Replace the key, and the secrets of a request, in a string from the service."""
        if request.secrets:
            string = Scrubber(request.secrets).scrub(string, cut=cut)
        return self._authentication.scrub(string, cut=cut)


def _redirect_error(request: Request[Any], response: Response) -> SeoRepError:
    """Return the error for a status that is neither a success nor an error."""
    location = response.headers.get("Location")
    if location is None:
        return StatusError("the service answered with neither a success nor an error")
    # The address may contain a secret. So its query is dropped, and a private request's address
    # is dropped as a whole.
    location = None if request.private else location.partition("?")[0] or None
    advice = "the client never follows a redirect; pass the right address as base_url=…"
    target = location or "another address"
    return RedirectError(f"{advice} (the redirect leads to {target})", location=location)


def _status_of(error: StatusError) -> int:
    """Return the usual status for an error that arrived with status 200."""
    statuses = {status_error_type(status): status for status in (400, 403, 404, 429)}
    return statuses.get(type(error), 500)
