"""The meaning of a failed attempt, and the decision that follows, without a loop."""

import math
from typing import Any

import attrs
import pytest

from seorep_async import Settings
from seorep_async.errors import SeoRepError, ServerError
from seorep_async.session.failures import Cause, Failure, Sent, sent_of_status
from seorep_async.session.request import Call, Request
from seorep_async.session.retry_policy import Retry, deadline_exceeded, decide
from seorep_async.session.retry_quota import RetryQuota
from seorep_async.session.timeouts import Deadline

SETTINGS = Settings(max_attempts=4, backoff_initial=0.5, backoff_max=1.5, retry_after_max=60)


PASSING = (Cause.THROTTLE, Cause.OVERLOAD, Cause.TRANSIENT)
COST = {Cause.THROTTLE: 5, Cause.OVERLOAD: 5, Cause.TRANSIENT: 14}
"""Tokens for a retry after an answer."""


def failure(sent: Sent, cause: Cause, retry_after: float | None = None) -> Failure:
    error = ServerError("as it was", status=500, body_excerpt="its body")
    return Failure(sent, cause, error, retry_after)


def verdict(
    sent: Sent = Sent.RESPONDED,
    cause: Cause = Cause.TRANSIENT,
    *,
    retry_after: float | None = None,
    attempts: int = 1,
    throttled: int = 0,
    remaining: float = math.inf,
    tokens: int = 500,
    jitter: float = 1.0,
    pace: float | None = None,
    is_probe: bool = False,
    settings: Settings = SETTINGS,
) -> Retry | SeoRepError | None:
    request: Request[Any] = Request("GET", "/v3/campaigns", str)
    call = Call(request, Deadline(remaining), 0.0, attempts=attempts, throttled=throttled)
    attempt = failure(sent, cause, retry_after)
    return decide(
        call,
        attempt,
        counts_a_third=is_probe or attempt.counts_a_third(others_refused=False),
        is_probe=is_probe,
        now=0.0,
        tokens=tokens,
        jitter=jitter,
        pace=pace,
        settings=settings,
    )


@pytest.mark.parametrize(("status", "was_accepted"), [(500, True), (502, False), (504, False)])
def test_a_gateway_without_an_answer_is_no_sign_of_life(status: int, was_accepted: bool) -> None:
    assert failure(sent_of_status(status), Cause.TRANSIENT).was_accepted is was_accepted


@pytest.mark.parametrize("cause", PASSING)
def test_retry_of_a_failed_probe_is_free(cause: Cause) -> None:
    assert verdict(Sent.NO, cause, attempts=3, throttled=2, is_probe=True, tokens=0) == Retry(
        1.0, 0
    )


@pytest.mark.parametrize(
    ("ends", "tokens"),
    [
        ((), 500),
        (("spend",), 486),
        (("spend", "give_back"), 500),
        (("spend", "spend", "succeed"), 500),
        (("spend", "spend", "spend", "succeed"), 486),
        (("succeed",), 500),
    ],
)
def test_a_call_returns_its_tokens_and_a_success_more(ends: tuple[str, ...], tokens: int) -> None:
    quota = RetryQuota()
    for end in ends:
        if end == "spend":
            quota.tokens -= 14
        else:
            getattr(quota, end)(14)
    assert quota.tokens == tokens


@pytest.mark.parametrize(
    ("delay", "facts", "is_last"),
    [
        (0.5, {"attempts": 1}, False),
        (1.0, {"attempts": 2}, False),
        (1.5, {"attempts": 3}, True),
        (0.25, {"attempts": 1, "jitter": 0.5}, False),
        (0.75, {"attempts": 3, "jitter": 0.5}, True),
        (0.0, {"attempts": 2, "jitter": 0.0}, False),
        (1.0, {"attempts": 2, "cause": Cause.OVERLOAD}, False),
        (0.5, {"attempts": 4, "throttled": 3}, False),
        (1.0, {"attempts": 4, "throttled": 2}, True),
        (0.5, {"attempts": 3, "throttled": 1, "cause": Cause.THROTTLE}, True),
        (1.0, {"attempts": 3, "throttled": 2, "cause": Cause.THROTTLE}, False),
        (1.5, {"attempts": 3, "throttled": 3, "cause": Cause.THROTTLE}, False),
        (0.5, {"attempts": 1, "pace": 20.0}, False),
        (1.0, {"attempts": 1, "pace": 1.0}, False),
        (1.5, {"attempts": 1, "pace": 0.2}, False),
        (
            7.0,
            {
                "attempts": 99,
                "settings": Settings(max_attempts=100, backoff_initial=0.5, backoff_max=7.0),
            },
            True,
        ),
    ],
)
def test_back_off_doubles_with_failures_of_a_kind_and_is_random(
    delay: float, facts: dict[str, Any], is_last: bool
) -> None:
    assert verdict(**facts) == Retry(delay, COST[facts.get("cause", Cause.TRANSIENT)], is_last)


@pytest.mark.parametrize(
    ("throttled", "last"),
    [(0, 3), (1, 3), (2, 4), (3, 5), (9, 9)],  # of 4 attempts, three throttled ones count as one
)
def test_throttled_attempt_counts_as_a_third(throttled: int, last: int) -> None:
    assert isinstance(verdict(attempts=last, throttled=throttled), Retry)
    assert isinstance(verdict(attempts=last + 1, throttled=throttled), ServerError)


@pytest.mark.parametrize(
    ("sent", "cause", "retry_after", "before", "after"),
    [
        pytest.param(Sent.RESPONDED, Cause.THROTTLE, None, True, True, id="429"),
        pytest.param(Sent.RESPONDED, Cause.OVERLOAD, 1.0, True, True, id="503 with Retry-After"),
        pytest.param(Sent.RESPONDED, Cause.OVERLOAD, None, False, True, id="503"),
        pytest.param(Sent.MAYBE, Cause.TRANSIENT, None, False, False, id="502"),
        pytest.param(Sent.MAYBE, Cause.TRANSIENT, 1.0, False, False, id="504 with Retry-After"),
        pytest.param(Sent.RESPONDED, Cause.TRANSIENT, None, False, False, id="500"),
        pytest.param(Sent.MAYBE, Cause.OVERLOAD, None, False, False, id="no answer in time"),
    ],
)
def test_a_503_counts_as_a_third_if_others_are_refused(
    sent: Sent, cause: Cause, retry_after: float | None, before: bool, after: bool
) -> None:
    result = failure(sent, cause, retry_after)
    assert result.counts_a_third(others_refused=False) == before
    assert result.counts_a_third(others_refused=True) == after


def test_a_page_of_a_firewall_never_counts_as_a_third() -> None:
    page = attrs.evolve(failure(Sent.RESPONDED, Cause.THROTTLE), by_gateway=True)
    assert not page.counts_a_third(others_refused=True)


@pytest.mark.parametrize("cause", PASSING)
def test_retries_end_with_the_retry_quota(cause: Cause) -> None:
    assert isinstance(verdict(cause=cause, throttled=1, attempts=2, tokens=COST[cause]), Retry)
    refused = verdict(cause=cause, throttled=1, attempts=2, tokens=COST[cause] - 1)
    assert isinstance(refused, ServerError)
    assert refused.message == "as it was; not retried: this client's retry quota is used up"


@pytest.mark.parametrize(
    ("retry_after", "remaining", "expected"),
    [
        (0.0, math.inf, Retry(0.0, 5)),
        (7.0, math.inf, Retry(7.0, 5)),
        (60.0, math.inf, Retry(60.0, 5)),
        (60.1, math.inf, ServerError),
        (3600.0, math.inf, ServerError),
        (5.0, 4.0, ServerError),
        (5.0, 5.0, None),
        (5.0, 5.1, Retry(5.0, 5)),
        (None, 0.5, None),
        (None, 0.6, Retry(0.5, 5)),
        (None, 0.0, None),
        (None, -1.0, None),
    ],
)
def test_wait_fits_its_limits_or_the_call_ends_at_once(
    retry_after: float | None, remaining: float, expected: Any
) -> None:
    decided = verdict(Sent.RESPONDED, Cause.OVERLOAD, retry_after=retry_after, remaining=remaining)
    assert decided == expected or type(decided) is expected


def test_error_of_an_unsent_call_has_no_response_of_another() -> None:
    others = failure(Sent.RESPONDED, Cause.OVERLOAD).error
    error = deadline_exceeded(others, was_sent=False, wait="")
    assert error.message == "the call timed out; this request was not sent; last error: as it was"
    assert isinstance(error.__cause__, ServerError)
    for each in (error, error.__cause__):
        assert each.body_excerpt is None
    assert error.status is None
