"""The next step after a failed attempt, and what Retry-After means: values in, values out; `Session.send` acts."""

from __future__ import annotations

import datetime as dt
import email.utils
import enum
import re
import sys
from typing import TypeVar

import attrs
import msgspec

from seorep_async.errors import DeadlineExceededError, OutcomeUnknownError, SeoRepError
from seorep_async.settings import Settings

E = TypeVar("E", bound=SeoRepError)

TRANSIENT_COST = 14
REFUSED_COST = 5
"""Tokens of the retry quota that a retry costs, and one after a refusal (429, 503); after a failed probe it is free."""
MANY_REFUSED = 10
"""Refusals in a row from which on the error of a call that times out mentions them."""
_SECONDS = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


class Sent(enum.Enum):
    """How far a request got."""

    NO = "no"  # certainly not executed: there was never a connection
    MAYBE = "maybe"  # sent in part or whole; the response was lost, or a gateway could not get it (502, 504)
    RESPONDED = "responded"  # the service responded with a status


class Cause(enum.Enum):
    """The kind of failure."""

    THROTTLE = "throttle"  # the rate is too high (429)
    OVERLOAD = "overload"  # the service can't keep up (503, a timeout)
    TRANSIENT = "transient"  # it may succeed next time (reset, cut body, other 5xx)
    AUTHENTICATION = "authentication"  # the key was refused
    PERMANENT = "permanent"  # it would fail again

    @property
    def retryable(self) -> bool:
        """Whether to try again."""
        return self not in (Cause.AUTHENTICATION, Cause.PERMANENT)


@attrs.frozen
class Failure:
    """A failed attempt.

    Attributes:
        error: for the caller, if this was the last attempt.
        retry_after: seconds that the service asked to wait, or None.
        inconclusive: whether it says nothing about the service, as the call's time was over or our loop stood still.
        no_room: whether our process, or the machine, has too many open files.
        most_attempts: attempts of the request in all, if fewer than `Settings.max_attempts`.
        is_own_json: whether the service itself said so, in JSON.
        by_gateway: whether a page of a server in front of the service said so.
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

    def __attrs_post_init__(self) -> None:
        self.error.retryable = self.cause.retryable

    @property
    def is_refusal(self) -> bool:
        """Whether the service responded with 429 or 503."""
        return self.cause is Cause.THROTTLE or (
            self.cause is Cause.OVERLOAD and self.sent is Sent.RESPONDED
        )

    @property
    def is_answer(self) -> bool:
        """Whether the service answered, though with an error, so that it accepted the request."""
        if self.cause.retryable:
            return self.cause is Cause.TRANSIENT and self.sent is Sent.RESPONDED
        return self.sent is not Sent.NO

    @property
    def asks_to_wait(self) -> bool:
        """Whether the service asked to try again later (429, or 503 with Retry-After)."""
        return self.cause is Cause.THROTTLE or (self.is_refusal and self.retry_after is not None)

    @property
    def counts_a_third(self) -> bool:
        """Whether the attempt counts as a third, because the service asked to wait, not to stop."""
        return self.asks_to_wait and not self.by_gateway


@attrs.frozen
class Verdict:
    """What an error response means for the next attempt.

    Attributes:
        cause: the kind of failure.
        most_attempts: attempts of the request in all, if fewer than otherwise.
        is_postponed: whether only Retry-After makes it a refusal for now, not for good.
    """

    cause: Cause
    most_attempts: int | None = None
    is_postponed: bool = False


_FINAL = Verdict(Cause.PERMANENT)
_ABOUT_KEY = Verdict(Cause.AUTHENTICATION)
_TRANSIENT = Verdict(Cause.TRANSIENT)
_ONCE_MORE = Verdict(Cause.TRANSIENT, most_attempts=2)
_SLOWER = Verdict(Cause.THROTTLE)
_OVERLOADED = Verdict(Cause.OVERLOAD)
_LATER = Verdict(Cause.TRANSIENT, is_postponed=True)
_LATER_AND_SLOWER = Verdict(Cause.THROTTLE, is_postponed=True)

# the verdict without Retry-After, the verdict with it, and whether the latter is for reads alone
_VERDICTS: dict[int, tuple[Verdict, Verdict, bool]] = {
    400: (_FINAL, _LATER_AND_SLOWER, True),
    401: (_ABOUT_KEY, _ABOUT_KEY, False),
    # many services refuse a rate or a quota like this
    403: (_ABOUT_KEY, _LATER_AND_SLOWER, False),
    404: (_FINAL, _FINAL, False),
    405: (_FINAL, _FINAL, False),
    408: (_TRANSIENT, _TRANSIENT, False),
    410: (_FINAL, _FINAL, False),
    420: (_FINAL, _LATER_AND_SLOWER, True),  # a rate limit's status before there was 429
    425: (_ONCE_MORE, _LATER, True),
    429: (_SLOWER, _SLOWER, False),
    501: (_FINAL, _FINAL, False),
    503: (_OVERLOADED, _OVERLOADED, False),
    505: (_FINAL, _FINAL, False),
}
_OTHERS: dict[int, tuple[Verdict, Verdict, bool]] = {
    4: (_FINAL, _LATER, True),  # for example a lock (409, 423), which holds for this object alone
    5: (_TRANSIENT, _TRANSIENT, False),
}
"""The same for the statuses that are not listed, by their hundreds."""


class Retry(msgspec.Struct, frozen=True):
    """Send again after `delay` seconds, for `cost` tokens of the retry quota."""

    delay: float
    cost: int


def sent_of_status(status: int) -> Sent:
    """Return how far a request got that had an error response."""
    return Sent.MAYBE if status in (502, 504) else Sent.RESPONDED


def cause_of_status(status: int) -> Cause:
    """Classify the status of an error response without Retry-After."""
    return verdict_on_status(status, has_retry_after=False, is_read=True).cause


def verdict_on_status(status: int, *, has_retry_after: bool, is_read: bool) -> Verdict:
    """Decide whether an error response may be followed by a retry.

    Args:
        status: the status, from 400 on.
        has_retry_after: whether the service named the time of a retry.
        is_read: whether the request was a GET.
    """
    verdict, later, is_for_reads = _VERDICTS.get(status, _OTHERS[min(status // 100, 5)])
    may_obey = has_retry_after and (is_read or not is_for_reads)
    return later if may_obey else verdict


def parse_retry_after(header: str, date: str | None, wall_time: float) -> float | None:
    """Return the seconds to wait, finite and not negative, or None if the header makes no sense.

    The header holds seconds, also a fraction, or an HTTP date: by the service's clock (the response's header Date) or,
    without one, by ours (`wall_time`, seconds since the epoch).
    """
    header = header.strip()
    if _SECONDS.fullmatch(header):
        return max(0.0, min(float(header), sys.float_info.max))
    moment, now = seconds_since_epoch(header), seconds_since_epoch(date or "")
    return None if moment is None else max(0.0, moment - (wall_time if now is None else now))


def seconds_since_epoch(date: str) -> float | None:
    """Return the moment of an HTTP date, or None if it is none."""
    try:
        moment = email.utils.parsedate_to_datetime(date)
        return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()
    except (ValueError, IndexError, TypeError, OverflowError):
        return None


def decide(
    failure: Failure,
    *,
    attempts: int,
    throttled: int,
    probe: bool = False,
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
        attempts: attempts so far, the failed one included.
        throttled: how many of them were throttled or probes; these count as a third, because the service asked to
            wait, not to stop.
        probe: whether the failed one was a probe, which tests for all others whether the service accepts anything.
        remaining: seconds until the call's deadline, possibly infinite.
        tokens: remaining tokens of the retry quota.
        jitter: a random number from 0 to 1.
        refused_in_a_row: the latest attempts of this client, if all were refused.
        wait: how long the call waited for a permit, and for what.
    """
    is_lost = failure.sent is Sent.MAYBE and failure.cause is not Cause.AUTHENTICATION
    if (
        not idempotent
        and not certainly_not_executed(failure)
        and (is_lost or failure.cause.retryable)
    ):
        problem = "whether the request was carried out is not known"
        advice = "if it creates an object, look for it in the list, by filter or username, before you send it again"
        return _caused_by(
            failure.error, OutcomeUnknownError, f"{problem} ({failure.error.message}); {advice}"
        )
    asked = failure.retry_after
    if not failure.cause.retryable or (
        asked is not None and asked > min(settings.retry_after_max, remaining)
    ):
        return failure.error
    if remaining <= 0:
        return deadline_exceeded(failure, refused_in_a_row, wait=wait)
    if failure.most_attempts is not None and attempts >= failure.most_attempts:
        return failure.error
    counts_a_third = probe or failure.counts_a_third
    if 3 * (attempts - throttled) + throttled > 3 * (settings.max_attempts - 1):
        return failure.error
    cost = 0 if probe else REFUSED_COST if failure.is_refusal else TRANSIENT_COST
    if cost > tokens:
        reason = "not tried again, as too many calls of this client failed"
        return failure.error.evolve(message=f"{failure.error.message}; {reason}")
    doublings = min((throttled if counts_a_third else attempts - throttled) - 1, 30)
    back_off = jitter * min(settings.backoff_max, settings.backoff_initial * 2**doublings)
    delay = back_off if asked is None else asked
    if delay >= remaining:
        return deadline_exceeded(failure, refused_in_a_row, wait=wait)
    return Retry(delay, cost)


def deadline_exceeded(
    last: Failure | None,
    refused_in_a_row: int = 0,
    others: SeoRepError | None = None,
    wait: str = "",
) -> DeadlineExceededError:
    """Return the error for a call that timed out, caused by its last failure, or else by that of `others`.

    `wait` says how long it waited for its last turn, and for what.
    """
    message = f"the call timed out before {'its turn came' if last is None else 'it succeeded'}"
    message += f", after a wait of {wait}" if wait else ""
    message += "; nothing was sent" if last is None else ""
    if refused_in_a_row >= MANY_REFUSED:
        message += f"; each of the last {refused_in_a_row} requests was refused"
        message += ": a quota may be used up, or the service is down"
    elif last is None:
        advice = "raise Settings.call_timeout, or the seconds of client.timeout()"
        message += f"; {advice if others is None else f'other calls fail, too: {others.message}'}"
    if last is not None:
        return _caused_by(
            last.error, DeadlineExceededError, f"{message}; last error: {last.error.message}"
        )
    error = DeadlineExceededError(message)
    error.__cause__ = others
    return error


def certainly_not_executed(failure: Failure) -> bool:
    """Return whether the service certainly did not carry out a failed request."""
    return failure.sent is Sent.NO or (failure.sent is Sent.RESPONDED and failure.asks_to_wait)


def _caused_by(cause: SeoRepError, kind: type[E], message: str) -> E:
    error = kind(message, status=cause.status, body_excerpt=cause.body_excerpt)
    error.__cause__ = cause
    return error


class RetryQuota:
    """Tokens for retries, shared by all calls: a call that succeeds in the end gives back all it spent.

    Unlike a budget by share of requests, this drops no call while faults are random and survivable; a lasting outage
    still ends the retries.
    """

    CAPACITY = 500

    def __init__(self) -> None:
        self.tokens: int = self.CAPACITY

    def give_back(self, spent: int) -> None:
        """Give back the tokens of a cancelled call, which says nothing about the service."""
        self.tokens = min(self.CAPACITY, self.tokens + spent)

    def succeed(self, spent: int) -> None:
        """Give back the tokens of a successful call, and the price of a retry for a call that failed.

        While half of the attempts succeed, the tokens can't run out, however many calls wait for a retry.
        """
        self.give_back(spent + TRANSIENT_COST)
