"""What a failed attempt means and what is done next, without a loop."""

import math
from typing import Any, Literal

import pytest

from seorep_async import (
    DeadlineExceededError,
    OutcomeUnknownError,
    RateLimitedError,
    SeoRepError,
    ServerError,
    Settings,
)
from seorep_async.session.decision import Cause, Failure, GiveUp, Retry, Sent, cause_of_status, decide

SETTINGS = Settings(max_attempts=4, backoff_initial=0.5, backoff_max=1.5, retry_after_max=60)
FINAL = (Cause.AUTHENTICATION, Cause.PERMANENT)
PASSING = (Cause.THROTTLE, Cause.OVERLOAD, Cause.TRANSIENT)


def verdict(
    sent: Sent = Sent.ANSWERED,
    cause: Cause = Cause.TRANSIENT,
    *,
    retry_after: float | None = None,
    resend: Literal["safe", "unsent"] = "safe",
    attempt: int = 1,
    remaining: float = math.inf,
    jitter: float = 1.0,
) -> Retry | SeoRepError:
    decided = decide(
        Failure(sent, cause, ServerError("as it was", status=500, body_excerpt="its body"), retry_after),
        attempt=attempt,
        resend=resend,
        remaining=remaining,
        jitter=jitter,
        settings=SETTINGS,
    )
    return decided.error if isinstance(decided, GiveUp) else decided


@pytest.mark.parametrize(
    ("statuses", "cause"),
    [
        ((401, 403), Cause.AUTHENTICATION),
        ((429,), Cause.THROTTLE),
        ((503,), Cause.OVERLOAD),
        ((408, 500, 502, 504, 507, 520, 599), Cause.TRANSIENT),
        ((400, 402, 404, 405, 409, 410, 413, 418, 422, 451, 499, 501, 505), Cause.PERMANENT),
    ],
)
def test_status_has_cause(statuses: tuple[int, ...], cause: Cause) -> None:
    assert {cause_of_status(status) for status in statuses} == {cause}


@pytest.mark.parametrize("sent", Sent)
@pytest.mark.parametrize("resend", ["safe", "unsent"])
@pytest.mark.parametrize("cause", FINAL)
def test_final_cause_is_never_retried(sent: Sent, resend: Literal["safe", "unsent"], cause: Cause) -> None:
    assert type(verdict(sent, cause, resend=resend)) is ServerError


@pytest.mark.parametrize("sent", Sent)
@pytest.mark.parametrize("cause", PASSING)
def test_safe_request_is_retried_however_far_it_got(sent: Sent, cause: Cause) -> None:
    assert verdict(sent, cause) == Retry(0.5)


@pytest.mark.parametrize(
    ("sent", "cause", "retry_after", "retried"),
    [
        (Sent.NO, Cause.TRANSIENT, None, True),
        (Sent.NO, Cause.OVERLOAD, None, True),
        (Sent.MAYBE, Cause.TRANSIENT, None, False),
        (Sent.MAYBE, Cause.OVERLOAD, None, False),
        (Sent.MAYBE, Cause.OVERLOAD, 1.0, False),
        (Sent.ANSWERED, Cause.THROTTLE, None, True),
        (Sent.ANSWERED, Cause.THROTTLE, 1.0, True),
        (Sent.ANSWERED, Cause.OVERLOAD, None, False),
        (Sent.ANSWERED, Cause.OVERLOAD, 0.0, True),
        (Sent.ANSWERED, Cause.OVERLOAD, 1.0, True),
        (Sent.ANSWERED, Cause.TRANSIENT, None, False),
        (Sent.ANSWERED, Cause.TRANSIENT, 1.0, False),
    ],
)
def test_write_is_retried_only_if_certainly_not_executed(
    sent: Sent, cause: Cause, retry_after: float | None, retried: bool
) -> None:
    decided = verdict(sent, cause, retry_after=retry_after, resend="unsent")
    assert isinstance(decided, Retry if retried else OutcomeUnknownError)


def test_unknown_outcome_tells_what_is_known() -> None:
    error = verdict(Sent.MAYBE, resend="unsent")
    assert isinstance(error, OutcomeUnknownError)
    assert (error.status, error.body_excerpt) == (500, "its body")
    assert isinstance(error.__cause__, ServerError)
    assert "as it was" in error.message


@pytest.mark.parametrize(
    ("attempt", "jitter", "delay"),
    [(1, 1.0, 0.5), (2, 1.0, 1.0), (3, 1.0, 1.5), (1, 0.5, 0.25), (3, 0.5, 0.75), (2, 0.0, 0.0)],
)
def test_back_off_doubles_up_to_its_maximum_and_is_random(attempt: int, jitter: float, delay: float) -> None:
    assert verdict(attempt=attempt, jitter=jitter) == Retry(delay)


def test_last_attempt_ends_with_its_own_error() -> None:
    assert type(verdict(attempt=4)) is ServerError


def test_back_off_of_the_hundredth_attempt_is_finite() -> None:
    failure = Failure(Sent.MAYBE, Cause.TRANSIENT, ServerError("no"))
    most = Settings(max_attempts=100)
    assert decide(failure, attempt=99, resend="safe", remaining=math.inf, jitter=1, settings=most) == Retry(8.0)


@pytest.mark.parametrize(
    ("retry_after", "remaining", "expected"),
    [
        (0.0, math.inf, Retry(0.0)),
        (7.0, math.inf, Retry(7.0)),
        (60.0, math.inf, Retry(60.0)),
        (60.1, math.inf, ServerError),
        (3600.0, math.inf, ServerError),
        (5.0, 4.0, ServerError),
        (5.0, 5.0, DeadlineExceededError),
        (5.0, 5.1, Retry(5.0)),
        (None, 0.5, DeadlineExceededError),
        (None, 0.6, Retry(0.5)),
        (None, 0.0, DeadlineExceededError),
        (None, -1.0, DeadlineExceededError),
    ],
)
def test_wait_fits_its_limits_or_the_call_ends_at_once(
    retry_after: float | None, remaining: float, expected: Any
) -> None:
    decided = verdict(Sent.ANSWERED, Cause.OVERLOAD, retry_after=retry_after, remaining=remaining)
    assert decided == expected or type(decided) is expected


def test_end_of_time_tells_the_last_failure() -> None:
    error = verdict(remaining=0.1)
    assert isinstance(error, DeadlineExceededError)
    assert (error.status, error.body_excerpt) == (500, "its body")
    assert isinstance(error.__cause__, ServerError)
    assert "as it was" in error.message


def test_throttling_on_the_last_attempt_is_told_as_such() -> None:
    throttled = Failure(Sent.ANSWERED, Cause.THROTTLE, RateLimitedError("slow down"), 1.0)
    decided = decide(throttled, attempt=4, resend="unsent", remaining=9, jitter=1, settings=SETTINGS)
    assert decided == GiveUp(throttled.error)
