"""The token bucket, on a clock of the test's own, and its answer over HTTP."""

from email.utils import parsedate_to_datetime
from typing import Any, Literal

import pytest

from seorep_async.sandbox import RateLimit
from seorep_async.sandbox.rate_limit import TokenBucket
from seorep_async.sandbox.refusals import Refusal
from tests.sandbox.calls import calling


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def let_through(bucket: TokenBucket, tries: int) -> int:
    taken = 0
    for _ in range(tries):
        try:
            bucket.take()
        except Refusal:
            continue
        taken += 1
    return taken


@pytest.mark.parametrize(
    ("limit", "at_once"),
    [
        (RateLimit(20), 4),
        (RateLimit(200, burst=40), 40),
        (RateLimit(1), 1),
        (RateLimit(0.1), 1),
        (RateLimit(5, burst=1), 1),
    ],
)
def test_a_rested_bucket_lets_a_burst_through(limit: RateLimit, at_once: int) -> None:
    assert let_through(TokenBucket(limit, Clock()), 100) == at_once


def test_tokens_come_back_at_the_rate() -> None:
    clock = Clock()
    bucket = TokenBucket(RateLimit(20, burst=10), clock)
    assert let_through(bucket, 100) == 10
    taken = 0
    for _ in range(1000):
        clock.now += 0.01
        taken += let_through(bucket, 3)
    assert taken in (199, 200)


def test_a_long_rest_fills_no_more_than_the_burst() -> None:
    clock = Clock()
    bucket = TokenBucket(RateLimit(20, burst=10), clock)
    clock.now += 3600
    assert let_through(bucket, 100) == 10


@pytest.mark.parametrize(
    ("form", "headers"),
    [(None, {}), ("seconds", {"Retry-After": "2"}), ("date", {"Retry-After": "Thu, 01 Jan 1970 00:00:12 GMT"})],
)
def test_a_refusal_names_a_moment_at_which_a_token_is_there(
    form: Literal["seconds", "date"] | None, headers: dict[str, str]
) -> None:
    clock = Clock()
    bucket = TokenBucket(RateLimit(0.5, retry_after=form), clock, wall_clock=lambda: 9.25)
    bucket.take()
    with pytest.raises(Refusal) as refused:
        bucket.take()
    assert (refused.value.status, refused.value.headers) == (429, headers)
    clock.now += 2
    bucket.take()


@pytest.mark.parametrize(
    "options",
    [
        {"per_second": 0},
        {"per_second": -1},
        {"per_second": float("inf")},
        {"per_second": float("nan")},
        {"per_second": "5"},
        {"per_second": True},
        {"per_second": 5, "burst": 0},
        {"per_second": 5, "burst": 1.5},
        {"per_second": 5, "retry_after": "soon"},
    ],
)
def test_a_limit_out_of_range_is_a_value_error(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=" must be "):
        RateLimit(**options)


async def test_requests_over_the_limit_get_429_with_retry_after() -> None:
    async with calling(rate_limit=RateLimit(0.01, retry_after="date")) as call:
        assert await call.status("/v3/campaigns") == 200
        response = await call.send("/v3/campaigns")
        assert (response.status, response.json()["code"]) == (429, 429)
        assert parsedate_to_datetime(response.headers["Retry-After"]).tzinfo is not None


async def test_a_number_is_a_limit_in_requests_a_second() -> None:
    async with calling(rate_limit=0.01) as call:
        assert [await call.status("/v3/campaigns") for _ in range(3)] == [200, 429, 429]


async def test_a_wrong_key_uses_up_the_limit_too() -> None:
    async with calling(rate_limit=0.01) as call:
        assert (await call.send("/v3/campaigns", authorization="")).status == 403
        assert await call.status("/v3/campaigns") == 429
