"""Error responses: who sent them, whether to retry, and the error for the caller.

`sender_of` decides whether the service itself answered. The table in `retry_policy.py` decides
which failures are retried.
"""

from __future__ import annotations

import enum
import json
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any

import attrs
import msgspec

from seorep_async.errors import (
    DecodeError,
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
from seorep_async.session.request import Request
from seorep_async.session.retry_policy import (
    Cause,
    Failure,
    Sent,
    Verdict,
    cause_of_status,
    sent_of_status,
    verdict_on_status,
)
from seorep_async.session.secrets import Authentication, Scrubber

_LONGEST_EXCERPT = 400
"""The most bytes of a body in an error."""
_LONGEST_QUOTE = 600
"""The most bytes of a message, a path or an address in an error."""
_MESSAGES = {
    401: "the API key was refused",
    403: "no access: the API key may not see this, or was refused",
    404: "there is no such object",
    429: "the service asks for fewer requests",
    503: "the service is not available now",
}
_FORBIDDEN = "not open to this API key"
_WRONG_SERVER = "this does not look like the service; check the address"
_NOT_THE_SERVICE = "something in front of the service answered, not the service"
_ENCODINGS = ("identity", "gzip", "deflate")
_BLOCKING_STATUSES = frozenset({404, 405, 406, 410, 418, 451})
"""The statuses of firewalls and ingresses, besides 403.

Others, such as 400 and 413, mean the same from any sender.
"""
_ABSENT = (404, 410)
"""The statuses that the service may send without a body."""
_PAGING = ("page", "limit", "")
"""The client's own parameters. An empty query has the empty name."""
_NOT_JSON = object()
"""The result of parsing a body that is not JSON. None is the value of JSON's `null`."""
_AT_FIRST_CONTACT = 2
"""The most attempts if an HTML page answers before the key has worked."""


class Response(msgspec.Struct, eq=False):
    """A complete response of any status, with its body decompressed.

    Attributes:
        retry_after: in seconds, or None.
        decoded: the result in a small body, added by the `ResponseReader`.
    """

    status: int
    body: bytes
    retry_after: float | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    decoded: Any = None

    def __repr__(self) -> str:
        return f"Response({self.status})"  # tracebacks show locals; the rest may be private


class Sender(enum.Enum):
    """The sender of an error response."""

    SERVICE = "service"
    GATEWAY = "gateway"  # in front of the service: a firewall, an ingress, a balancer
    STRANGER = "stranger"  # another server, at an address that is probably wrong


def sender_of(response: Response, request: Request[Any], *, knows_service: bool) -> Sender:
    """Find out who sent an error response.

    The shape of errors is not documented, but the service sends JSON. The sender matters for some
    statuses. A 403 or 404 of the service concerns the key or an object. The other statuses of a
    firewall's pages are final if the service sends them.

    Args:
        response: the response.
        request: the request.
        knows_service: whether the key has worked, so that the service is at this address.
    """
    # There are five cases:
    # 1. A 403 with an HTML page comes from a firewall. Before any success it may concern the key.
    # 2. Another status of firewalls comes from one, or from an ingress without a route, if the body
    #    is not JSON. nginx sends a 451 without a body.
    # 3. But many servers forbid a method with a page and a 405, and trying again would not help.
    # 4. Before any success, a 404 that is not JSON of the service's shape comes from a stranger:
    #    the address may be wrong.
    # 5. Anything else comes from the service itself.
    status = response.status
    if status == 403 and knows_service and is_page(response):
        return Sender.GATEWAY
    forbids_method = status == 405 and request.method != "GET"
    if status in _BLOCKING_STATUSES and knows_service and not forbids_method:
        is_about_object = _is_empty(response.body) and status in _ABSENT
        if not is_about_object and not _is_json(response.body):
            return Sender.GATEWAY
    if status == 404 and not knows_service and not _may_be_of_service(request, response.body):
        return Sender.STRANGER
    return Sender.SERVICE


def is_page(response: Response) -> bool:
    """Return whether a response is an HTML page, which the service does not send."""
    if _begins_like_json(response.body):
        return False  # PHP sends JSON as text/html by default
    is_called_html = "text/html" in response.headers.get("Content-Type", "").lower()
    return is_called_html or _beginning(response.body) == b"<"


def _is_empty(body: bytes) -> bool:
    # some servers end even an empty body with a line break
    return not body.strip()


def _begins_like_json(body: bytes) -> bool:
    return _beginning(body) in (b"{", b"[")


def _beginning(body: bytes) -> bytes:
    """Return the first character of a body, after a byte order mark and spaces."""
    return body[:LARGEST_BODY].removeprefix(BOM_UTF8).lstrip()[:1]


def _is_json(body: bytes) -> bool:
    # PHP frameworks in debug mode add long traces to their errors
    if len(body) > LARGEST_BODY:
        return _begins_like_json(body)
    return _parsed(body) is not _NOT_JSON


def _parsed(body: bytes) -> Any:
    if len(body) > LARGEST_BODY:
        return _NOT_JSON
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _may_be_of_service(request: Request[Any], body: bytes) -> bool:
    """Return whether a 404 before any success may be about an object that the request names."""
    is_long_json = len(body) > LARGEST_BODY and _begins_like_json(body)
    parsed = _parsed(body)
    # A long body is not parsed. It counts as a JSON error, and so does an empty body.
    if is_long_json or _is_empty(body):
        parsed = {"error": ""}
    if not isinstance(parsed, dict):
        return False
    if parsed.keys() & {"metadata", "data"} or parsed.get("status") in ("error", "fail", "failed"):
        return True
    names_an_object = any(map(str.isdigit, request.subject or request.path.removeprefix("/v3")))
    has_reason = parsed.keys() & {"code", "error", "errors", "message", "messages"}
    return names_an_object and bool(has_reason)


class ErrorReader:
    """Turns error responses into failures without secrets. A service may echo the key."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication

    def failure_of_status(
        self, request: Request[Any], response: Response, *, knows_service: bool
    ) -> Failure:
        """Return the failure for a response with an unsuccessful status."""
        status = response.status
        if 300 <= status < 400 and "Location" in response.headers:
            error = _redirect_error(request, response)
            # web applications answer a form that they have carried out with one of these two
            sent = Sent.MAYBE if status in (302, 303) else Sent.RESPONDED
            return self._failure(sent, Cause.PERMANENT, error, request, response)
        if status < 400:
            problem = "the service answered with a status that is neither a success nor an error"
            error = StatusError(problem)
            return self._failure(Sent.MAYBE, Cause.PERMANENT, error, request, response)
        sender = sender_of(response, request, knows_service=knows_service)
        if sender is Sender.GATEWAY:
            error = RateLimitedError(_NOT_THE_SERVICE)
            failure = self._failure(Sent.RESPONDED, Cause.THROTTLE, error, request, response)
            return attrs.evolve(failure, by_gateway=True)
        has_retry_after = response.retry_after is not None
        verdict = verdict_on_status(
            status, has_retry_after=has_retry_after, is_read=request.method == "GET"
        )
        failure = self._failure(
            sent_of_status(status),
            verdict.cause,
            _status_error(request, response, sender, verdict, knows_service=knows_service),
            request,
            response,
        )
        is_own_json = sender is Sender.SERVICE and not _is_empty(response.body)
        return attrs.evolve(
            failure,
            most_attempts=verdict.most_attempts,
            is_postponed=verdict.is_postponed,
            is_own_json=is_own_json,
        )

    def failure_of_body(
        self,
        error: SeoRepError,
        request: Request[Any],
        response: Response,
        *,
        knows_service: bool,
    ) -> Failure:
        """Return the failure for a successful status whose body is an error or can't be decoded."""
        if isinstance(error, ProtocolError):
            encoding = response.headers.get("Content-Encoding", "identity")
            # A proxy that adds its own compression will do so again.
            if encoding.lower() not in _ENCODINGS:
                problem = "the response has a Content-Encoding that this client did not ask for"
                error = error.evolve(message=f"{problem} ({encoding})")
                return self._failure(Sent.MAYBE, Cause.PERMANENT, error, request, response)
            if knows_service or not is_page(response):
                return self._failure(Sent.MAYBE, Cause.TRANSIENT, error, request, response)
            error = error.evolve(message=_WRONG_SERVER)
            failure = self._failure(Sent.MAYBE, Cause.TRANSIENT, error, request, response)
            return attrs.evolve(failure, most_attempts=_AT_FIRST_CONTACT)
        if isinstance(error, StatusError):
            cause = cause_of_status(_status_of(error))
            if request.private:
                problem = "the service reported an error in a response that claims success"
                error = error.evolve(message=problem)
            return self._failure(Sent.RESPONDED, cause, error, request, response)
        if request.private and isinstance(error, DecodeError):
            problem = f"{error.field_path or 'the response'}: has an unexpected value"
            error = error.evolve(message=problem)
        return self._failure(Sent.RESPONDED, Cause.PERMANENT, error, request, response)

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
            beginning = response.body[: 8 * _LONGEST_EXCERPT]
            is_cut = len(beginning) < len(response.body)
            text = beginning.decode(errors="replace")
            excerpt = self._quoted(text, request, _LONGEST_EXCERPT, is_cut=is_cut)
            fields["body_excerpt"] = excerpt or None
        if response.retry_after is not None and isinstance(error, RateLimitedError | ServerError):
            pause = f"it asked for a pause of {duration(response.retry_after)}"
            fields["retry_after"] = response.retry_after
            fields["message"] = f"{error.message}; {pause}"
        failure = Failure(sent, cause, error.evolve(**fields), response.retry_after)
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
        """Return a string that may quote the service as one line without secrets.

        The line has at most `longest` bytes.
        """
        # scrub before cutting, because half a key could remain at the cut
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
    location = None
    if not request.private:
        location = response.headers["Location"].partition("?")[0] or None
    advice = "the client never follows a redirect; pass the right address as base_url=…"
    return RedirectError(f"{advice} (here to {location or 'another'})", location=location)


def _status_error(
    request: Request[Any],
    response: Response,
    sender: Sender,
    verdict: Verdict,
    *,
    knows_service: bool,
) -> SeoRepError:
    """Return the error for a status of 400 or more, with the service's own reason."""
    status = response.status
    error_type = status_error_type(status)
    if sender is Sender.STRANGER:
        return error_type(_WRONG_SERVER)
    default = "the service refused" if status < 500 else "the service failed"
    message = _MESSAGES.get(status, default)
    if verdict.is_postponed:
        # the rate or the time is the problem, not the key or the parameters
        error_type = RateLimitedError
        message = "the service asks to try again later"
    elif status == 403 and request.subject is not None:
        # a key that has worked is good, so only this campaign, or another object, is closed to it
        message = _FORBIDDEN if knows_service else f"{_FORBIDDEN}, or the key itself was refused"
    elif status == 500 and _has_parameters(request):
        message = f"{message}; a wrong parameter can cause this too"
    reason = "" if request.private else reason_in_body(response.body)
    if reason:
        message = f"{message}; the service said: {reason}"
    return error_type(message)


def _has_parameters(request: Request[Any]) -> bool:
    """Return whether the caller's parameters may be the cause.

    In a pull they are not: all its requests have the same ones, and would all fail.
    """
    if request.lane is not None:
        return False
    names = {parameter.partition("=")[0] for parameter in request.query.split("&")}
    return request.body is not None or bool(names.difference(_PAGING))


def _status_of(error: StatusError) -> int:
    """Return a status for the class of an error that arrived with status 200."""
    for status in (400, 403, 404, 429, 500):
        if type(error) is status_error_type(status):
            return status
    return 500
