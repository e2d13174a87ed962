"""Failed attempts: how far they got, their causes, and Retry-After. No I/O, no clock."""

from __future__ import annotations

import datetime as dt
import email.utils
import enum
import math
import re
import sys

import attrs

from seorep_async.errors import AttemptTimeoutError, ConnectionFailedError, SeoRepError

TOO_EARLY = 425
"""The status of a request that came too early. One more attempt may succeed."""
UNREQUESTED_ENCODING = "the response has a Content-Encoding that this client did not ask for"
PROXY_ADVICE = "; check user and password in Settings.proxy"
_FINAL = (404, 405, 410, 501, 505)
"""The statuses that a retry will not change, even after a Retry-After."""
_SECONDS = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
"""A Retry-After that is a number of seconds."""


class Sent(enum.Enum):
    """How far a request got."""

    NO = "no"
    """It was certainly not executed, because there was no connection."""
    MAYBE = "maybe"
    """Some or all of it was sent. The response was lost or can't be decoded, or a gateway had none
    (502, 504).
    """
    RESPONDED = "responded"
    """The service responded with a status."""


class Cause(enum.Enum):
    """The kind of failure."""

    THROTTLE = "throttle"
    """The rate is too high (429)."""
    OVERLOAD = "overload"
    """The service can't keep up (503, a timeout)."""
    TRANSIENT = "transient"
    """It may succeed next time (reset, cut body, other 5xx)."""
    AUTHENTICATION = "authentication"
    """The key was refused."""
    PERMANENT = "permanent"
    """Retrying will not help."""

    @property
    def retryable(self) -> bool:
        """Whether a retry may help."""
        return self not in (Cause.AUTHENTICATION, Cause.PERMANENT)


@attrs.frozen
class Failure:
    """A failed attempt.

    Cause and `sent` decide `is_refusal`, `was_accepted`, `was_turned_away` and
    `may_have_been_executed`:

                           cause           sent       refusal  accepted  turned away  executed
        429                throttle        responded  yes      no        yes          no
        503                overload        responded  yes      no        no (1)       maybe (1)
        500, 408           transient       responded  no       yes       no           maybe
        502, 504           transient       maybe      no       no        no           maybe
        no answer in time  overload        maybe      no       no        no           maybe
        a cut response     transient       maybe      no       no        no           maybe
        no connection      transient       no         no       no        yes          no
        401, 403           authentication  responded  no       yes       no           no
        400, 404           permanent       responded  no       yes       no           no

    (1) With a Retry-After, a 503 was turned away and not executed. The row of a 429 also
    holds for a gateway's page, except that the request may have been executed.

    Attributes:
        error: the caller's error, if this was the last attempt.
        retry_after: seconds that the service asked the client to wait, or None.
        inconclusive: whether the failure says nothing about the service, because the call's time
            was over, the client was closed, or our event loop was blocked.
        out_of_resources: whether our process, or the machine, has too many open files or threads.
        most_attempts: the maximum number of the request's attempts, if it is lower than
            `Settings.max_attempts`.
        is_own_json: whether the service itself reported the failure, in JSON.
        by_gateway: whether a page of a server in front of the service reported the failure.
    """

    sent: Sent
    cause: Cause
    error: SeoRepError
    retry_after: float | None = None
    inconclusive: bool = False
    out_of_resources: bool = False
    most_attempts: float = math.inf
    is_own_json: bool = False
    by_gateway: bool = False

    def __attrs_post_init__(self) -> None:
        self.error.retryable = self.cause.retryable

    @property
    def reported_cause(self) -> str:
        """The cause for statistics and logs, which must not blame the service without proof."""
        return "inconclusive" if self.inconclusive else self.cause.value

    @property
    def is_refusal(self) -> bool:
        """Whether the service responded that there are too many requests (429, 503)."""
        if self.cause is Cause.OVERLOAD:
            return self.sent is Sent.RESPONDED
        return self.cause is Cause.THROTTLE

    @property
    def was_accepted(self) -> bool:
        """Whether the service itself worked on the request, although it responded with an error."""
        if self.cause.retryable:
            return self.cause is Cause.TRANSIENT and self.sent is Sent.RESPONDED
        return self.sent is not Sent.NO

    @property
    def has_no_response(self) -> bool:
        """Whether the connection failed, or no response was received in time."""
        return isinstance(self.error, AttemptTimeoutError | ConnectionFailedError)

    @property
    def asks_to_wait(self) -> bool:
        """Whether the service refused the rate, or sent a 503 with a Retry-After."""
        if self.retry_after is None:
            return self.cause is Cause.THROTTLE
        return self.is_refusal

    @property
    def was_turned_away(self) -> bool:
        """Whether the request seems to have been turned away before it was carried out."""
        if self.sent is Sent.RESPONDED:
            return self.asks_to_wait
        return self.sent is Sent.NO

    @property
    def may_have_been_executed(self) -> bool:
        """Whether the service may have carried out the request.

        A final refusal, such as a 400, proves that it did not. A gateway's page does not say how
        far the request got.
        """
        if self.was_turned_away and not self.by_gateway:
            return False
        return self.cause.retryable or self.sent is Sent.MAYBE

    def counts_a_third(self, *, others_refused: bool) -> bool:
        """Return whether the attempt counts as only a third of a failed one.

        It does in `retry_policy.decide` if it was probably only too early: after a 429, or another
        refusal with a Retry-After. A 503 without Retry-After may also mean an outage, so it
        counts as a third only if the rate was refused as well. A gateway's page counts in full.

        Args:
            others_refused: see `Share.rate_refused_since`.
        """
        if self.by_gateway:
            return False
        return self.asks_to_wait or (others_refused and self.is_refusal)


def sent_of_status(status: int) -> Sent:
    """Return how far a request with an error response got."""
    return Sent.MAYBE if status in (502, 504) else Sent.RESPONDED


def cause_of_status(status: int, *, has_retry_after: bool = False, is_read: bool = True) -> Cause:
    """Classify the status of an error response.

    Args:
        status: the status, 400 or more.
        has_retry_after: whether the response has a valid Retry-After.
        is_read: whether the request only reads, so that it may be sent again.
    """
    # Many services refuse a rate or a quota with a 403 and Retry-After, some with a 400 or 420.
    may_refuse_rate = status == 403 or (status in (400, 420) and is_read)
    if status == 429 or (may_refuse_rate and has_retry_after):
        return Cause.THROTTLE
    if status == 503:
        return Cause.OVERLOAD
    if status in (401, 403):
        return Cause.AUTHENTICATION
    if status in _FINAL:
        return Cause.PERMANENT
    if status >= 500 or status == 408:
        return Cause.TRANSIENT
    # Any other refused read is retried only after a Retry-After, or if it came too early (425). The
    # cause may be a lock on this object (409, 423), so other requests are not slowed down.
    if is_read and (has_retry_after or status == TOO_EARLY):
        return Cause.TRANSIENT
    return Cause.PERMANENT


def parse_retry_after(header: str, date: str | None, wall_time: float) -> float | None:
    """Return the seconds to wait, finite and not negative, or None if the header is invalid.

    Args:
        header: the value of Retry-After: an HTTP date, or seconds with or without a fraction.
        date: the response's own Date, or None. An HTTP date is compared with it.
        wall_time: our clock in seconds since the epoch, for a response without a Date.
    """
    header = header.strip()
    if _SECONDS.fullmatch(header):
        # a number with very many digits becomes infinity
        return max(0.0, min(float(header), sys.float_info.max))
    moment = seconds_since_epoch(header)
    if moment is None:
        return None
    now = seconds_since_epoch(date or "")
    # a moment in the past means no wait
    return max(0.0, moment - (wall_time if now is None else now))


def seconds_since_epoch(date: str) -> float | None:
    """Parse an HTTP date. Return None if the text is not a date."""
    try:
        moment = email.utils.parsedate_to_datetime(date)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        return moment.timestamp()
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
