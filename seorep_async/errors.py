"""Every exception that this package raises.

All of them derive from `SeoRepError`, can be pickled, and contain no secrets. The guide
`errors-and-limits` explains which failures are retried and how rate limits are found.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

SERVICE_REASON = "the service said: "
"""In a message, the service's own reason follows these words."""


class SeoRepError(Exception):
    """The base class of every error that this package raises."""

    message: str
    """A one-sentence description of the problem."""
    subject: str | None = None
    """The object that the request was about, such as `campaign 42`, or None."""
    method: str | None = None
    """The HTTP method of the request, or None if there was no request."""
    path: str | None = None
    """The path of the request without its query, or None."""
    status: int | None = None
    """The HTTP status of the response, or None if there was no response."""
    account: str | None = None
    """The client's account, or None if there was no request."""
    attempts: int = 0
    """How many times the request was sent."""
    body_excerpt: str | None = None
    """The beginning of the response body with secrets removed, or None."""
    retryable: bool = False
    """Whether the same request may succeed later. A pull tries such a request once more."""

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        for name, value in fields.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
            setattr(self, name, value)

    def __str__(self) -> str:
        facts = []
        if self.method or self.path:
            facts.append(" ".join(filter(None, (self.method, self.path))))
        if self.status is not None:
            facts.append(f"status {self.status}")
        if self.attempts:
            facts.append("1 attempt" if self.attempts == 1 else f"{self.attempts} attempts")
        string = self._message_with_subject()
        if facts:
            string += f" [{', '.join(facts)}]"
        # A message with the service's own reason already quotes the body.
        if self.body_excerpt and SERVICE_REASON not in self.message:
            string += f" body: {self.body_excerpt}"
        return string

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._message_with_subject()!r})"

    def _message_with_subject(self) -> str:
        return f"{self.subject}: {self.message}" if self.subject else self.message

    @property
    def is_of_wrong_address(self) -> bool:
        """Whether another server answered, because the address is wrong."""
        return is_of_wrong_address(type(self).__name__, self.status)

    def evolve(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, without the traceback, cause and context."""
        fields = vars(self) | changes
        if hasattr(self, "__notes__"):
            # A note that is added to the copy must not appear in the original.
            fields["__notes__"] = list(self.__notes__)
        copy = type(self)(fields["message"])
        vars(copy).update(fields)
        return copy


class ConfigurationError(SeoRepError, ValueError):
    """A setting or argument is invalid, or the client is not open. Nothing was sent."""

    argument: str | None = None
    """The name of the invalid setting or argument, such as `snapshot_date`, or None."""


class TransportError(SeoRepError):
    """The client did not receive a usable HTTP response."""


class ConnectionFailedError(TransportError):
    """The connection could not be opened (refused, DNS, TLS), was reset or was closed early."""


class AttemptTimeoutError(TransportError):
    """Every attempt exceeded `Settings.attempt_timeout` or `Settings.connect_timeout`."""


class ProtocolError(TransportError):
    """The response is not valid HTTP, or its body is not JSON: empty, truncated or HTML."""


class BodyTooLargeError(TransportError):
    """The response is larger than `Settings.max_body_bytes`.

    Raise that setting, or pass a smaller `limit`.
    """


class RedirectError(TransportError):
    """The service sent a redirect, which the client never follows.

    Set `base_url` to the correct address.
    """

    location: str | None = None
    """The target address of the redirect without its query, or None."""


class DeadlineExceededError(SeoRepError):
    """The call did not finish within `Settings.call_timeout`.

    If an attempt failed before, `__cause__` is its error.
    """

    retryable = True


class StatusError(SeoRepError):
    """The service returned an error status, or status 200 with an error in the body."""

    retry_after: float | None = None
    """The number of seconds that the service asked the client to wait, or None."""


class AuthenticationError(StatusError):
    """The API key was refused (401), or doesn't give access to this object (403)."""


class NotFoundError(StatusError):
    """The object does not exist (404)."""


class RateLimitedError(StatusError):
    """The service or a firewall refused the request for now, and the client stopped retrying.

    The attempts or the retry quota were used up, the pause would have outlasted the call, or the
    request was a write that must not be repeated. The status is 429. It can also be most other 4xx,
    if there is a `Retry-After` header, or a 403 or 404 whose body did not come from the service
    itself. It is None if the request was not sent because of a pause.
    """

    retryable = True


class InvalidRequestError(StatusError):
    """The service refused the request (any other 4xx). Its parameters are probably invalid."""


class ServerError(StatusError):
    """The service failed (5xx). An invalid parameter can also cause this."""


class DecodeError(SeoRepError):
    """The response is JSON, but does not have the documented structure."""

    field_path: str | None = None
    """The JSON path of the unexpected value, for example `data.rows[3].engineARanking`."""


class PaginationError(SeoRepError):
    """The pages of a listing don't add up: some rows would be missing or duplicated.

    Usually the rows changed while they were read. After more than `Settings.max_pages` pages,
    it is not `retryable`.
    """

    retryable = True
    expected_records: int | None = None
    """The number of records that the service announced, or None if it announced no number."""
    received_records: int | None = None
    """The number of records that the service sent."""
    page: int | None = None
    """The number of the inconsistent page, or None if only the total is wrong."""


class OutcomeUnknownError(SeoRepError):
    """A write was sent, but its response was lost, so the service may have carried it out.

    Check before you send it again.
    """


class ExportError(SeoRepError):
    """The target file or its staged reports could not be read or written. The target is unchanged.

    For example, the disk is full, the folder is read-only, the target is open in another program,
    or another pull is writing it. Reports that could be staged are kept: run the same pull again
    to resume it.
    """

    file: Path | None = None
    """The file that could not be read or written, or None."""


class PullPausedError(SeoRepError):
    """A pull stopped because it had sent `max_requests` requests.

    The reports fetched so far are stored. Run the same pull again to fetch the rest.
    """


_LONGEST_VALUE = 60
"""The maximum length of an invalid value in a message."""
_STATUS_ERRORS = {
    401: AuthenticationError,
    403: AuthenticationError,
    404: NotFoundError,
    429: RateLimitedError,
}


def is_of_wrong_address(class_name: str, status: int | None) -> bool:
    """Return whether an error of this class and status means that the address is wrong."""
    return class_name == "RedirectError" or (class_name, status) == ("ProtocolError", 404)


def status_error_type(status: int) -> type[StatusError]:
    """Return the error class for an HTTP status."""
    if status in _STATUS_ERRORS:
        return _STATUS_ERRORS[status]
    if 400 <= status < 500:
        return InvalidRequestError
    return ServerError if status >= 500 else StatusError


def one_line(string: str) -> str:
    """Return a string on one line, with any control characters replaced."""
    line = " ".join(string.split())
    if line.isprintable():
        return line
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line
    )


def short_repr(value: object) -> str:
    """Return the repr of an invalid value, shortened for use in a message."""
    # The values of a mapping, or of several in a list, may be passwords.
    items = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(item, Mapping) for item in items):
        return f"a value of type {type(value).__name__}"
    try:
        quoted = repr(value)
    except ValueError:  # an integer of thousands of digits
        return f"a huge {type(value).__name__}"
    return quoted if len(quoted) <= _LONGEST_VALUE else f"{quoted[:_LONGEST_VALUE]}…"


def suggestion(name: object, choices: Iterable[str]) -> str:
    """Return a question such as " Did you mean csv?", or "" if no choice is similar."""
    word = str(name).casefold()
    names = {choice.casefold(): choice for choice in choices}
    matches = [folded for folded in names if word and folded.startswith(word)]
    # at difflib's own 0.6, `losers` would be close to `rose`
    matches = matches or difflib.get_close_matches(word, names, 1, 0.65)
    return f" Did you mean {one_line(names[matches[0]])}?" if matches else ""


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return a number with its word in singular or plural, by default with an s."""
    word = singular
    if count != 1:
        word = plural or f"{singular}s"
    return f"{count:,} {word}"


def duration(seconds: float) -> str:
    """Format a number of seconds as `0.6 s`, `45 s`, `12 min 5 s`, `1 h 5 min` or `2 d 3 h`."""
    # 9.95 and more would be rounded to 10
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    whole_seconds = round(seconds)
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    minutes, rest = divmod(whole_seconds, 60)
    if minutes < 60:
        return _two_units(minutes, "min", rest, "s")
    # Each unit is rounded from the seconds, so that 3,599.6 s is 1 h.
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 24:
        return _two_units(hours, "h", minutes, "min")
    days, hours = divmod(round(seconds / 3600), 24)
    return _two_units(days, "d", hours, "h")


def _two_units(count: int, unit: str, rest: int, rest_unit: str) -> str:
    return f"{count:,} {unit} {rest} {rest_unit}" if rest else f"{count:,} {unit}"
