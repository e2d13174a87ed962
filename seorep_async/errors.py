"""The whole exception tree on one page, and what the client does before it raises an error.

Every error is a `SeoRepError`. It says what happened and what to do next, carries the fields that a handler needs,
pickles, and holds no secret.

```python
try:
    campaign = await client.campaigns.get(1_000_000)
except NotFoundError as error:
    print(error.path, error.status)
except SeoRepError as error:
    print(error, "after", error.attempts, "attempts")
```

## What is tried again

- GET, PUT and DELETE: after a connection that failed, a response that is cut short, empty or not JSON, a timeout, 429,
  and most 5xx. The client waits a random, growing time first (`Settings.backoff_initial`, `backoff_max`).
- POST: only if the service certainly did not carry it out: it was not sent, or answered with 429, or with 503 and a
  Retry-After. If it may have been carried out, the error is `OutcomeUnknownError`: check before you send it again.
- `users.login_grant`: not once it may have been sent, because each request makes a new grant.
- Never: other 4xx, redirects, untrusted certificates, bodies that are too large, JSON of an unknown shape.

A 401 stops all requests of a pull, because the key is wrong. A 403 may mean that the key is wrong, or that it may not
see one campaign: if the key works for others, only that campaign fails. For a 404 that this service would not send,
the message says that the base URL may be wrong.

A request has `Settings.max_attempts`; an attempt that was answered with 429 counts as a third. All calls of a client
share a quota of retries, which successful calls refill: if everything fails, each request is tried less often.

A pull does more: if pages repeat, are missing or change while they are read, it reads that campaign again, up to three
times; and at the end it retries once those that failed for a reason that may have passed.

## A time limit for some calls

`Settings.call_timeout` limits every call. A shorter limit, such as that of a web page:

```python
with client.timeout(2.0):
    campaign = await client.campaigns.get(1)
```

It holds for each call that begins inside, also in tasks that are started there; a stream (`async for`, a pull) is one
call. Out of time, a call raises a `DeadlineExceededError` whose `__cause__` is the last failure, such as a
`ConnectionFailedError`; `asyncio.timeout` would hide it. A write that may have been carried out is still an
`OutcomeUnknownError`.

## How limits are found

The client starts with up to `Settings.max_concurrency` requests in flight. When the service refuses, it slows down to
the pace that the service accepts, and then tries carefully to go faster. A `Retry-After` stops all requests of the
client until that time; if it is longer than `Settings.retry_after_max`, or than the call may take, calls fail at once.
A 503 that asks for longer than `retry_after_max` fails its own call alone until eight campaigns or keywords got one and
nothing was accepted meanwhile. When nothing gets through, the client sends one probe at a time, at most 4 s apart,
until the service answers again. A call that times out while all is refused says so: a quota may be used up.
`client.stats` shows requests, attempts, retries by cause, refusals, the current pace, and what requests waited for.

## Limits that clients share

Several clients of one process, such as one for each account, find a limit beside each other, and then many requests are
refused. With the same `Limits` they find it once and take turns:

```python
limits = Limits(max_concurrency=32)
async with SeoRepClient(limits=limits) as one, SeoRepClient(limits=limits) as other:  # each with its own api_key
    await one.campaigns.list()
    await other.campaigns.list()
    print(one.stats.attempts, other.stats.attempts, one.stats.pace == other.stats.pace)
```

Share where the service limits an address. Do not where it limits each key: all would go at the pace of one. To find
out, pull for a minute with one client, then with two that have different keys and share nothing, and compare
`client.stats.pace`: if each keeps the pace of one alone, keys are limited; if each has half of it, the address is; if
it is None, no limit was found. Among clients that share, one whose `client.stats.throttled` grows alone has a limit of
its own, for which the others wait.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self, TypedDict, Unpack


class ErrorFields(TypedDict, total=False):
    """The fields that every error can have, as keyword arguments."""

    subject: str | None
    method: str | None
    path: str | None
    status: int | None
    attempts: int
    body_excerpt: str | None


class SeoRepError(Exception):
    """The base of every error of this package.

    Attributes:
        message: what happened, in one sentence.
        subject: the object that it concerns, such as `campaign 42`, or None.
        method: HTTP method of the request, or None if there was no request.
        path: path of the request without its query, or None.
        status: HTTP status of the response, or None if there was none.
        attempts: how often the request was sent.
        body_excerpt: the beginning of the response's body, with secrets removed, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        subject: str | None = None,
        method: str | None = None,
        path: str | None = None,
        status: int | None = None,
        attempts: int = 0,
        body_excerpt: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.subject = subject
        self.method = method
        self.path = path
        self.status = status
        self.attempts = attempts
        self.body_excerpt = body_excerpt

    def __str__(self) -> str:
        facts = []
        if self.method or self.path:
            facts.append(" ".join(filter(None, (self.method, self.path))))
        if self.status is not None:
            facts.append(f"status {self.status}")
        if self.attempts:
            facts.append("1 attempt" if self.attempts == 1 else f"{self.attempts} attempts")
        shown = f"{self.subject}: {self.message}" if self.subject else self.message
        if facts:
            shown += f" [{', '.join(facts)}]"
        if self.body_excerpt:
            shown += f" body: {self.body_excerpt}"
        return shown

    def evolve(self, **changes: Any) -> Self:
        """Return a copy with other fields, and without traceback, cause and context."""
        fields = vars(self) | changes
        copy = type(self)(fields["message"])
        vars(copy).update(fields)
        return copy


class ConfigurationError(SeoRepError, ValueError):
    """A setting or an argument is wrong, or the client is not open; nothing was sent.

    Attributes:
        argument: name of the wrong setting or argument, such as `snapshot_date`, or None if there is none.
    """

    def __init__(self, message: str, *, argument: str | None = None, **fields: Unpack[ErrorFields]) -> None:
        super().__init__(message, **fields)
        self.argument = argument


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
    """The service sent a redirect, which the client never follows; put the right address into `base_url`.

    Attributes:
        location: the address that the redirect names, without its query, or None.
    """

    def __init__(self, message: str, *, location: str | None = None, **fields: Unpack[ErrorFields]) -> None:
        super().__init__(message, **fields)
        self.location = location


class DeadlineExceededError(SeoRepError):
    """The call did not end within `Settings.call_timeout`; `__cause__` is the last failure, if there was one."""


class StatusError(SeoRepError):
    """The service sent an error: a status that is no success, or an error body under status 200."""


class AuthenticationError(StatusError):
    """The API key was refused (401), or may not see this object (403)."""


class NotFoundError(StatusError):
    """The object does not exist (404)."""


class RateLimitedError(StatusError):
    """The service asked to slow down (429), or for a pause (429, 503), for longer than the call could wait.

    Attributes:
        retry_after: seconds that the service asked to wait, or None.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, **fields: Unpack[ErrorFields]) -> None:
        super().__init__(message, **fields)
        self.retry_after = retry_after


class InvalidRequestError(StatusError):
    """The service refused the request (any other 4xx); its parameters are probably wrong."""


class ServerError(StatusError):
    """The service failed (5xx); a wrong parameter can cause it too.

    Attributes:
        retry_after: seconds that the service asked to wait, or None.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, **fields: Unpack[ErrorFields]) -> None:
        super().__init__(message, **fields)
        self.retry_after = retry_after


class DecodeError(SeoRepError):
    """The response is JSON, but not of a documented shape.

    Attributes:
        field_path: where, in the service's own names, for example `data.rows[3].engineARanking`.
    """

    def __init__(self, message: str, *, field_path: str | None = None, **fields: Unpack[ErrorFields]) -> None:
        super().__init__(message, **fields)
        self.field_path = field_path


class PaginationError(SeoRepError):
    """The pages of a listing do not add up: rows would be missing or double.

    Attributes:
        expected_records: records that the service announced, or None if it did not.
        received_records: records that it sent.
        page: number of the wrong page, or None if only the sum is wrong.
    """

    def __init__(
        self,
        message: str,
        *,
        expected_records: int | None = None,
        received_records: int | None = None,
        page: int | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(message, **fields)
        self.expected_records = expected_records
        self.received_records = received_records
        self.page = page


class OutcomeUnknownError(SeoRepError):
    """A write may have been carried out: it was sent, and the response was lost. Check before you send it again."""


class ExportError(SeoRepError):
    """A target, or the reports stored beside it, could not be written or read; the target is unchanged.

    For example: the disk is full, the folder is read-only, the target is open elsewhere, another pull writes it. The
    reports fetched so far stay stored if that was possible; run the same pull again to resume it.

    Attributes:
        file: the file that could not be written or read, or None.
    """

    def __init__(self, message: str, *, file: Path | None = None, **fields: Unpack[ErrorFields]) -> None:
        super().__init__(message, **fields)
        self.file = file


class PullPausedError(SeoRepError):
    """A pull stopped at its `max_requests`; the fetched reports are stored, and the same pull goes on with the rest."""


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
    return line if line.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def shown(value: object) -> str:
    """Quote a wrong value for a message, shortened."""
    try:
        quoted = repr(value)
    except ValueError:  # an integer of thousands of digits
        return f"a huge {type(value).__name__}"
    return quoted if len(quoted) <= 60 else f"{quoted[:60]}…"
