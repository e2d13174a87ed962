"""The whole exception tree on one page: every error is a `SeoRepError`, pickles, and holds no secret.

What is tried again, and how limits are found: the guide `errors-and-limits`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack


class ErrorFields(TypedDict, total=False):
    """The keyword arguments of all errors; the classes say which are theirs."""

    subject: str | None
    method: str | None
    path: str | None
    status: int | None
    attempts: int
    body_excerpt: str | None
    argument: str | None
    location: str | None
    retry_after: float | None
    field_path: str | None
    expected_records: int | None
    received_records: int | None
    page: int | None
    file: Path | None


class SeoRepError(Exception):
    """The base of every error of this package."""

    message: str
    """The problem, in one sentence."""
    subject: str | None = None
    """The object that it concerns, such as `campaign 42`, or None."""
    method: str | None = None
    """HTTP method of the request, or None if there was no request."""
    path: str | None = None
    """Path of the request without its query, or None."""
    status: int | None = None
    """HTTP status of the response, or None if there was none."""
    attempts: int = 0
    """How often the request was sent."""
    body_excerpt: str | None = None
    """The beginning of the response's body, with secrets removed, or None."""
    retryable: bool = False
    """Whether the same request may succeed later, so that a pull tries it once more."""

    def __init__(self, message: str, **fields: Unpack[ErrorFields]) -> None:
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
        string = self._about_subject()
        if facts:
            string += f" [{', '.join(facts)}]"
        if self.body_excerpt:
            string += f" body: {self.body_excerpt}"
        return string

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._about_subject()!r})"

    def _about_subject(self) -> str:
        return f"{self.subject}: {self.message}" if self.subject else self.message

    def evolve(self, **changes: Any) -> Self:
        """Return a copy with other fields, and without traceback, cause and context."""
        fields = vars(self) | changes
        if hasattr(self, "__notes__"):
            fields["__notes__"] = list(self.__notes__)  # a note on one must not appear on the other
        copy = type(self)(fields["message"])
        vars(copy).update(fields)
        return copy


class ConfigurationError(SeoRepError, ValueError):
    """A setting or an argument is wrong, or the client is not open; nothing was sent."""

    argument: str | None = None
    """Name of the wrong setting or argument, such as `snapshot_date`, or None."""


class TransportError(SeoRepError):
    """There was no usable response: the network, the connection or the HTTP framing failed."""


class ConnectionFailedError(TransportError):
    """The connection could not be opened, or broke (refused, DNS, TLS, reset, closed early)."""


class AttemptTimeoutError(TransportError):
    """Every attempt took longer than `Settings.attempt_timeout` (or `connect_timeout`)."""


class ProtocolError(TransportError):
    """The response is not valid HTTP, or should be JSON and is empty, cut short, HTML or something else."""


class BodyTooLargeError(TransportError):
    """The response is larger than `Settings.max_body_bytes`; raise that, or pass a smaller `limit`."""


class RedirectError(TransportError):
    """The service sent a redirect, which the client never follows; put the right address into `base_url`."""

    location: str | None = None
    """The address that the redirect names, without its query, or None."""


class DeadlineExceededError(SeoRepError):
    """The call did not end within `Settings.call_timeout`; `__cause__` is the last failure, if there was one."""

    retryable = True


class StatusError(SeoRepError):
    """The service sent an error: a status that is no success, or an error body under status 200."""

    retry_after: float | None = None
    """Seconds that the service asked to wait, or None."""


class AuthenticationError(StatusError):
    """The API key was refused (401), or may not see this object (403)."""


class NotFoundError(StatusError):
    """The object does not exist (404)."""


class RateLimitedError(StatusError):
    """The service, or a firewall before it, asked to slow down or to wait for longer than the call could.

    The status is 429, or another one with `Retry-After`, or that of a page that is not the service's (403, 404).
    """

    retryable = True


class InvalidRequestError(StatusError):
    """The service refused the request (any other 4xx); its parameters are probably wrong."""


class ServerError(StatusError):
    """The service failed (5xx); a wrong parameter can cause it too."""


class DecodeError(SeoRepError):
    """The response is JSON, but not of a documented shape."""

    field_path: str | None = None
    """The place in the service's own names, for example `data.rows[3].engineARanking`."""


class PaginationError(SeoRepError):
    """The pages of a listing do not add up: rows would be missing or double."""

    expected_records: int | None = None
    """Records that the service announced, or None if it did not."""
    received_records: int | None = None
    """Records that it sent."""
    page: int | None = None
    """Number of the wrong page, or None if only the sum is wrong."""


class OutcomeUnknownError(SeoRepError):
    """A write may have been carried out: it was sent, and the response was lost. Check before you send it again."""


class ExportError(SeoRepError):
    """A target, or the reports stored beside it, could not be written or read; the target is unchanged.

    For example: the disk is full, the folder is read-only, the target is open elsewhere, another pull writes it. The
    reports fetched so far stay stored if that was possible; run the same pull again to resume it.
    """

    file: Path | None = None
    """The file that could not be written or read, or None."""


class PullPausedError(SeoRepError):
    """A pull stopped at its `max_requests`; the fetched reports are stored, and the same pull goes on with the rest."""


_LONGEST_VALUE = 60
"""Characters of a wrong value in a message."""
_STATUS_ERRORS: dict[int, type[StatusError]] = {
    401: AuthenticationError,
    403: AuthenticationError,
    404: NotFoundError,
    429: RateLimitedError,
}


def status_error_type(status: int) -> type[StatusError]:
    """Return the error class for an HTTP status."""
    if status in _STATUS_ERRORS:
        return _STATUS_ERRORS[status]
    if 400 <= status < 500:
        return InvalidRequestError
    return ServerError if status >= 500 else StatusError


def one_line(string: str) -> str:
    """Return a string as one line without control characters, which a service may send."""
    line = " ".join(string.split())
    if line.isprintable():
        return line
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line
    )


def short_repr(value: object) -> str:
    """Quote a wrong value for a message, shortened."""
    try:
        quoted = repr(value)
    except ValueError:  # an integer of thousands of digits
        return f"a huge {type(value).__name__}"
    return quoted if len(quoted) <= _LONGEST_VALUE else f"{quoted[:_LONGEST_VALUE]}…"


def suggestion(name: object, choices: Iterable[str]) -> str:
    """Return the question whether one of the choices was meant, or nothing."""
    word = str(name)
    names = list(choices)
    matches = [choice for choice in names if word and choice.startswith(word)]
    matches = matches or difflib.get_close_matches(word, names, 1)
    return f" Did you mean {one_line(matches[0])}?" if matches else ""


def duration(seconds: float) -> str:
    """Return a time in a person's units: `0.6 s`, `45 s`, `12 min 5 s`, `1 h 5 min`, `2 d 3 h`."""
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    whole_seconds = round(seconds)
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    minutes, rest = divmod(whole_seconds, 60)
    if minutes < 60:
        return _two_units(minutes, "min", rest, "s")
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 24:
        return _two_units(hours, "h", minutes, "min")
    days, hours = divmod(round(seconds / 3600), 24)
    return _two_units(days, "d", hours, "h")


def _two_units(count: int, unit: str, rest: int, rest_unit: str) -> str:
    return f"{count:,} {unit} {rest} {rest_unit}" if rest else f"{count:,} {unit}"
