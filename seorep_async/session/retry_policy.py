"""Decide what follows a failed attempt, and parse Retry-After. `Session.send` acts on the decision.

This module is pure: nothing here reads a clock or draws a random number.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import enum
import re
import sys
from typing import TypeVar

import attrs
import msgspec

from seorep_async.errors import (
    DeadlineExceededError,
    OutcomeUnknownError,
    SeoRepError,
    duration,
)
from seorep_async.settings import Settings

E = TypeVar("E", bound=SeoRepError)

TRANSIENT_COST = 14
"""The cost of a retry, in tokens of the retry quota."""
REFUSED_COST = 5
"""The cost of a retry after a refusal (429, 503). After a failed probe, a retry is free."""
MANY_REFUSED = 10
"""The number of refusals in a row from which the error of a timed-out call mentions them."""
_MOST_DOUBLINGS = 30
_SECONDS = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


class Sent(enum.Enum):
    """How far a request got."""

    NO = "no"
    """It was certainly not executed: there was no connection."""
    MAYBE = "maybe"
    """Some or all of it was sent. The response was lost, or a gateway had none (502, 504)."""
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

    Attributes:
        error: the caller's error, if this was the last attempt.
        retry_after: seconds that the service asked the client to wait, or None.
        inconclusive: whether it says nothing about the service, because the call's time was over
            or our event loop was blocked.
        no_room: whether our process, or the machine, has too many open files or threads.
        most_attempts: a limit on the request's attempts below `Settings.max_attempts`, or None.
        is_own_json: whether the service itself reported it, in JSON.
        by_gateway: whether a page of a server in front of the service reported it.
        is_postponed: whether it would be final without its Retry-After.
    """

    sent: Sent
    cause: Cause
    error: SeoRepError
    retry_after: float | None = None
    inconclusive: bool = False
    no_room: bool = False
    most_attempts: int | None = None
    is_own_json: bool = False
    by_gateway: bool = False
    is_postponed: bool = False

    def __attrs_post_init__(self) -> None:
        self.error.retryable = self.cause.retryable

    @property
    def is_refusal(self) -> bool:
        """Whether the service responded that there are too many requests (429, 503)."""
        if self.cause is Cause.OVERLOAD:
            return self.sent is Sent.RESPONDED
        return self.cause is Cause.THROTTLE

    @property
    def is_answer(self) -> bool:
        """Whether the service accepted the request, although it answered with an error."""
        if self.cause.retryable:
            return self.cause is Cause.TRANSIENT and self.sent is Sent.RESPONDED
        return self.sent is not Sent.NO

    @property
    def asks_to_wait(self) -> bool:
        """Whether the service asked the client to try again later (429, 503 with Retry-After)."""
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
    def certainly_not_executed(self) -> bool:
        """Whether the service certainly did not carry out the request.

        Of the responses, only a 429 and a 503 with Retry-After prove it. With another status,
        Retry-After is no proof. A gateway's page doesn't say how far the request got.
        """
        return self.was_turned_away and not self.by_gateway and not self.is_postponed

    def counts_a_third(self, *, others_refused: bool) -> bool:
        """Return whether the attempt counts as a third, because it seems to be only too early.

        That is a 429, or another refusal with a Retry-After. A service that is down also sends a
        503 without Retry-After. It counts as a third only if the rate was refused as well.

        Args:
            others_refused: see `Share.rate_refused_since`.
        """
        if self.by_gateway:
            return False
        return self.asks_to_wait or (others_refused and self.is_refusal)


@attrs.frozen
class Verdict:
    """The meaning of an error response for the next attempt.

    Attributes:
        cause: the kind of failure.
        most_attempts: a limit on the request's attempts, or None for the usual one.
        is_postponed: whether the failure would be final without its Retry-After.
    """

    cause: Cause
    most_attempts: int | None = None
    is_postponed: bool = False


@attrs.frozen
class _StatusRule:
    """The verdicts on a status without and with Retry-After, and after a write.

    If `on_write` is None, a write is judged like a read.
    """

    without: Verdict
    with_retry_after: Verdict
    on_write: Verdict | None = None


_FINAL = Verdict(Cause.PERMANENT)
_ABOUT_KEY = Verdict(Cause.AUTHENTICATION)
_TRANSIENT = Verdict(Cause.TRANSIENT)
_ONCE_MORE = Verdict(Cause.TRANSIENT, most_attempts=2)
_SLOWER = Verdict(Cause.THROTTLE)
_OVERLOADED = Verdict(Cause.OVERLOAD)
_LATER = Verdict(Cause.TRANSIENT, is_postponed=True)
_LATER_AND_SLOWER = Verdict(Cause.THROTTLE, is_postponed=True)

_RULES: dict[int, _StatusRule] = {
    400: _StatusRule(_FINAL, _LATER_AND_SLOWER, on_write=_FINAL),
    401: _StatusRule(_ABOUT_KEY, _ABOUT_KEY),
    # Many services refuse a rate or a quota with a 403.
    403: _StatusRule(_ABOUT_KEY, _LATER_AND_SLOWER),
    404: _StatusRule(_FINAL, _FINAL),
    405: _StatusRule(_FINAL, _FINAL),
    408: _StatusRule(_TRANSIENT, _TRANSIENT),
    410: _StatusRule(_FINAL, _FINAL),
    # An old status for a rate limit, from before there was 429.
    420: _StatusRule(_FINAL, _LATER_AND_SLOWER, on_write=_FINAL),
    425: _StatusRule(_ONCE_MORE, _LATER, on_write=_FINAL),
    429: _StatusRule(_SLOWER, _SLOWER),
    501: _StatusRule(_FINAL, _FINAL),
    503: _StatusRule(_OVERLOADED, _OVERLOADED),
    505: _StatusRule(_FINAL, _FINAL),
}
# For example a lock (409, 423). It concerns only this object, so nothing else slows down.
_OTHER_4XX = _StatusRule(_FINAL, _LATER, on_write=_FINAL)
_OTHER_5XX = _StatusRule(_TRANSIENT, _TRANSIENT)


class Retry(msgspec.Struct, frozen=True):
    """A retry after `delay` seconds, which costs `cost` tokens of the retry quota."""

    delay: float
    cost: int


def sent_of_status(status: int) -> Sent:
    """Return how far a request with an error response got."""
    return Sent.MAYBE if status in (502, 504) else Sent.RESPONDED


def cause_of_status(status: int) -> Cause:
    """Classify the status of an error response to a read without Retry-After."""
    return verdict_on_status(status, has_retry_after=False, is_read=True).cause


def verdict_on_status(status: int, *, has_retry_after: bool, is_read: bool) -> Verdict:
    """Decide whether an error response may be followed by a retry.

    Args:
        status: the status, 400 or more.
        has_retry_after: whether the response has a valid Retry-After.
        is_read: whether the request was a GET.
    """
    rule = _RULES.get(status, _OTHER_4XX if status < 500 else _OTHER_5XX)
    if not is_read and rule.on_write is not None:
        return rule.on_write
    return rule.with_retry_after if has_retry_after else rule.without


def parse_retry_after(header: str, date: str | None, wall_time: float) -> float | None:
    """Return the seconds to wait, finite and not negative, or None if the header is invalid.

    Args:
        header: an HTTP date, or seconds with or without a fraction.
        date: the response's header Date, which a date in the header is compared with, or None.
        wall_time: our clock in seconds since the epoch, for a response without a Date.
    """
    header = header.strip()
    if _SECONDS.fullmatch(header):
        return max(0.0, min(float(header), sys.float_info.max))
    moment = seconds_since_epoch(header)
    if moment is None:
        return None
    now = seconds_since_epoch(date or "")
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


def decide(  # noqa: C901, PLR0912, the whole decision, from top to bottom
    failure: Failure,
    *,
    attempts: int,
    throttled: int,
    probe: bool = False,
    others_refused: bool = False,
    idempotent: bool,
    remaining: float,
    tokens: int,
    jitter: float,
    refused_in_a_row: int = 0,
    wait: str = "",
    settings: Settings,
) -> Retry | SeoRepError:
    """Return the retry after a failed attempt, or the error that ends the call.

    Args:
        failure: the failed attempt.
        attempts: the number of attempts so far, including the failed one.
        throttled: how many of them were throttled or were probes. Each of these counts as a third.
        probe: whether the failed one was a probe.
        others_refused: see `Share.rate_refused_since`.
        idempotent: whether the request may be executed twice.
        remaining: seconds until the call's deadline, possibly infinite.
        tokens: remaining tokens of the retry quota.
        jitter: a random number from 0 to 1.
        refused_in_a_row: the number of this client's latest attempts that were all refused.
        wait: how long the call waited for a permit, and for what.
        settings: the client's settings.
    """
    if not idempotent and _may_have_been_executed(failure):
        return _outcome_unknown(failure.error)
    if not failure.cause.retryable:
        return failure.error
    if not idempotent and not failure.certainly_not_executed:
        # The service refused it for now. The caller can best decide what to do.
        return failure.error
    pause = failure.retry_after
    if pause is not None and pause > min(settings.retry_after_max, remaining):
        return failure.error
    if remaining <= 0:
        return deadline_exceeded(failure, refused_in_a_row, wait=wait)

    # Three throttled attempts count as one failed one: with max_attempts=8, the eighth failed or
    # the 22nd throttled attempt is the last.
    failed = attempts - throttled
    if 3 * failed + throttled > 3 * (settings.max_attempts - 1):
        return failure.error
    if failure.most_attempts is not None and attempts >= failure.most_attempts:
        return failure.error
    cost = _cost_of_retry(failure, probe=probe)
    if cost > tokens:
        problem = f"{failure.error.message}; not retried: this client's retry quota is used up"
        return failure.error.evolve(message=problem)

    if pause is None:
        # Refusals and faults have separate back-offs, because one says nothing about the other.
        is_throttled = probe or failure.counts_a_third(others_refused=others_refused)
        attempts_of_kind = throttled if is_throttled else failed
        doublings = min(attempts_of_kind - 1, _MOST_DOUBLINGS)
        longest = min(settings.backoff_max, settings.backoff_initial * 2**doublings)
        delay = jitter * longest
    else:
        delay = pause
    if delay >= remaining:
        return deadline_exceeded(failure, refused_in_a_row, wait=wait, seconds_left=remaining)
    return Retry(delay, cost)


def _may_have_been_executed(failure: Failure) -> bool:
    if failure.certainly_not_executed or failure.cause is Cause.AUTHENTICATION:
        return False
    if failure.is_postponed:
        return False
    # A final refusal, such as a 400, proves that nothing was executed.
    return failure.sent is Sent.MAYBE or failure.cause.retryable


def _cost_of_retry(failure: Failure, *, probe: bool) -> int:
    if probe:
        return 0
    return REFUSED_COST if failure.is_refusal else TRANSIENT_COST


def _outcome_unknown(cause: SeoRepError) -> OutcomeUnknownError:
    problem = f"whether the request was carried out is not known ({cause.message})"
    advice = "if it creates an object, look for it in the list, by filter or username"
    message = f"{problem}; {advice}, before you send it again"
    return _caused_by(cause, OutcomeUnknownError, message)


def deadline_exceeded(  # noqa: C901, PLR0912, the parts of one message
    last: Failure | None,
    refused_in_a_row: int = 0,
    others: SeoRepError | None = None,
    wait: str = "",
    seconds_left: float = 0.0,
) -> DeadlineExceededError:
    """Return the error for a call that timed out, or whose next attempt would come too late.

    Args:
        last: its last failure, which is the error's cause, or None if nothing was sent.
        refused_in_a_row: the number of this client's latest attempts that were all refused.
        others: the latest failure of other calls, which is the cause if nothing was sent.
        wait: how long the call waited for its last turn, and for what.
        seconds_left: the time left in the call, if it is too short for another attempt.
    """
    if seconds_left > 0:
        left = duration(seconds_left)
        message = f"the call was given up: the next attempt would not begin in the {left} left"
    elif last is None:
        message = "the call timed out before its turn came"
    else:
        message = "the call timed out before it succeeded"
    if wait:
        message += f", after a wait of {wait}"
    if last is None:
        message += "; nothing was sent"
    if refused_in_a_row >= MANY_REFUSED:
        message += f"; each of the last {refused_in_a_row} requests was refused"
        message += ": a quota may be used up, or the service is down"
    elif last is None and others is None:
        message += "; raise Settings.call_timeout, or the seconds of client.timeout()"
    elif last is None and others is not None:
        message += f"; other calls also fail: {others.message}"
    if last is not None:
        message += f"; last error: {last.error.message}"
        return _caused_by(last.error, DeadlineExceededError, message)
    error = DeadlineExceededError(message)
    error.__cause__ = others
    return error


def _caused_by(cause: SeoRepError, error_type: type[E], message: str) -> E:
    error = error_type(message, status=cause.status, body_excerpt=cause.body_excerpt)
    error.__cause__ = cause
    return error


class RetryQuota:
    """Tokens for retries, shared by all calls. A successful call gives back all that it spent.

    A budget that is a share of requests would end calls even while faults are random and rare. This
    quota ends retries only in a lasting outage.
    """

    CAPACITY = 500

    def __init__(self) -> None:
        self.tokens: int = self.CAPACITY

    def give_back(self, spent: int) -> None:
        """Give back the tokens of a cancelled call, which says nothing about the service."""
        self.tokens = min(self.CAPACITY, self.tokens + spent)

    def succeed(self, spent: int) -> None:
        """Give back the tokens of a successful call, and the cost of one more retry.

        While half of the attempts succeed, the tokens can't run out, no matter how many calls wait
        for a retry.
        """
        self.give_back(spent + TRANSIENT_COST)
