"""Decide what follows a failed attempt. `Session.send` acts on the decision.

This module is pure: nothing here reads a clock or draws a random number.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from seorep_async.errors import DeadlineExceededError, OutcomeUnknownError, SeoRepError
from seorep_async.session.failures import Failure
from seorep_async.session.request import Call
from seorep_async.session.retry_quota import REFUSED_COST, TRANSIENT_COST
from seorep_async.settings import Settings

E = TypeVar("E", bound=SeoRepError)


class Retry(msgspec.Struct, frozen=True):
    """A retry after `delay` seconds, which costs `cost` tokens of the retry quota.

    Attributes:
        is_last: whether the call ends if this attempt fails and counts in full.
    """

    delay: float
    cost: int
    is_last: bool = False


def decide(  # noqa: C901, PLR0912, the whole decision, from top to bottom
    call: Call[Any],
    failure: Failure,
    *,
    counts_a_third: bool,
    is_probe: bool,
    now: float,
    tokens: int,
    jitter: float,
    pace: float | None,
    settings: Settings,
) -> Retry | SeoRepError | None:
    """Return the retry after a failed attempt, or the error that ends the call.

    Return None if the call times out before the next attempt.

    Args:
        call: the call. It has already counted the failed attempt.
        failure: the failed attempt.
        counts_a_third: whether it counts as a third (`Call.throttled`).
        is_probe: whether it was a probe.
        now: monotonic time.
        tokens: remaining tokens of the retry quota.
        jitter: a random number from 0 to 1.
        pace: attempts per second that may start, or None if no limit is known.
        settings: the client's settings.
    """
    request = call.request
    if not request.idempotent and failure.may_have_been_executed:
        return _outcome_unknown(failure.error)
    if not failure.cause.retryable:
        return failure.error
    if not request.idempotent and failure.error.status == 403:
        # A 403 with Retry-After refuses the write for now. The caller decides whether to send it
        # again.
        return failure.error
    # Only questions about the page size (`paging/page_size.py`) have this time limit. A longer wait
    # for an answer would cost more than the answer saves.
    if now - call.started >= request.attempt_seconds:
        return failure.error
    remaining = call.deadline.at - now
    pause = failure.retry_after
    if pause is not None and pause > min(settings.retry_after_max, remaining):
        return failure.error
    if remaining <= 0:
        return None

    # A throttled attempt counts as a third of a failed one: with max_attempts=8, the eighth failed
    # or the 22nd throttled attempt is the last.
    failed = call.attempts - call.throttled
    max_attempts = min(settings.max_attempts, request.max_attempts, failure.most_attempts)
    thirds_left = 3 * (max_attempts - 1 - failed) - call.throttled
    if thirds_left < 0:
        return failure.error
    cost = REFUSED_COST if failure.is_refusal else TRANSIENT_COST
    if is_probe:
        cost = 0
    if cost > tokens:
        problem = f"{failure.error.message}; not retried: this client's retry quota is used up"
        return failure.error.evolve(message=problem)

    if pause is None:
        # Refusals and faults have separate back-offs, because one says nothing about the other.
        attempts_of_kind = call.throttled if counts_a_third else failed
        first_backoff = settings.backoff_initial
        if pace is not None:
            # At a low limit, earlier retries would be refused until the call has no attempts left.
            first_backoff = max(first_backoff, 1 / pace)
        backoff = min(settings.backoff_max, first_backoff * 2 ** (attempts_of_kind - 1))
        delay = jitter * backoff
    else:
        delay = pause
    return Retry(delay, cost, is_last=thirds_left < 3) if delay < remaining else None


def _outcome_unknown(cause: SeoRepError) -> OutcomeUnknownError:
    problem = f"whether the request was carried out is not known ({cause.message})"
    advice = "get the object that it changes, or look for a new one in the list"
    message = f"{problem}; before you send it again, {advice}, by filter or username"
    return _caused_by(cause, OutcomeUnknownError, message)


def deadline_exceeded(
    cause: SeoRepError | None, *, was_sent: bool, wait: str
) -> DeadlineExceededError:
    """Return the error for a call that timed out, or whose next attempt would come too late.

    Args:
        cause: the last failure of the call. If the call was not sent, the last failure of other
            calls. None without a failure.
        was_sent: whether the call had an attempt.
        wait: the last wait of its request and the reason, in words, or an empty string.
    """
    message = "the call timed out"
    if wait:
        message += f", {wait}"
    if not was_sent:
        message += "; this request was not sent"
    if cause is None:
        message += "; raise Settings.call_timeout, or the seconds of client.timeout()"
        return DeadlineExceededError(message)
    message += f"; last error: {cause.message}"
    if was_sent:
        return _caused_by(cause, DeadlineExceededError, message)
    # The cause is from another call, perhaps of another account, so its excerpt is removed.
    error = DeadlineExceededError(message)
    error.__cause__ = cause.evolve(body_excerpt=None)
    return error


def _caused_by(cause: SeoRepError, error_type: type[E], message: str) -> E:
    error = error_type(message, status=cause.status, body_excerpt=cause.body_excerpt)
    error.__cause__ = cause
    return error
