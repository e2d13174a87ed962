"""Limits on a clock of the test's own, their strings, their refusals over HTTP, and `stats`."""

import asyncio
from types import SimpleNamespace
from typing import Literal

import pytest

from seorep_async.sandbox import Faults, RateLimit
from seorep_async.sandbox.rate_limit import Limiter
from tests.sandbox.calls import CAMPAIGN, FEEDS, Caller, calling, in_flight


def let_through(limiter: Limiter, tries: int) -> int:
    """Return the number of accepted requests, sent one after another."""
    accepted = 0
    for _ in range(tries):
        if limiter.acquire() is None:
            limiter.release()
            accepted += 1
    return accepted


@pytest.fixture
def clock() -> SimpleNamespace:
    """Return a clock that a test moves on by hand."""
    return SimpleNamespace(now=1000.0)


@pytest.mark.parametrize(
    ("limit", "steps"),
    [
        # A rested limit lets a burst through.
        (RateLimit(20), [(3600, 100, 4)]),
        (RateLimit(200, burst=40), [(3600, 100, 40)]),
        (RateLimit(0.1), [(3600, 100, 1)]),
        (RateLimit(20, kind="fixed-window"), [(3600, 100, 20)]),
        (RateLimit(10, kind="sliding-window", window=5), [(3600, 100, 50)]),
        # A fixed window counts from zero when the next begins: at even distances, whenever
        # requests come.
        (
            RateLimit(10, kind="fixed-window", window=2),
            [(1.75, 30, 20), (0.125, 30, 0), (0.125, 30, 20), (7, 30, 20), (1, 30, 20)],
        ),
        # A sliding window frees each place a window later.
        (
            RateLimit(4, kind="sliding-window"),
            [(0, 3, 3), (0.5, 3, 1), (0.5, 9, 3), (0.5, 9, 1)],
        ),
    ],
)
def test_a_limit_lets_the_right_number_of_requests_through(
    clock: SimpleNamespace, limit: RateLimit, steps: list[tuple[float, int, int]]
) -> None:
    limiter = Limiter(limit, lambda: clock.now)
    for seconds, tries, through in steps:
        clock.now += seconds
        assert let_through(limiter, tries) == through


@pytest.mark.parametrize(("counts_refused", "expected"), [(True, 4), (False, 8)])
def test_refused_requests_keep_a_window_full_where_they_count(
    clock: SimpleNamespace, counts_refused: bool, expected: int
) -> None:
    limit = RateLimit(4, kind="sliding-window", counts_refused=counts_refused)
    limiter = Limiter(limit, lambda: clock.now)
    accepted = 0
    for _ in range(8):
        accepted += let_through(limiter, 2)
        clock.now += 0.25
    assert accepted == expected


@pytest.mark.parametrize(
    ("limit", "left"), [(RateLimit(at_once=2), 5), (RateLimit(5, burst=4, at_once=2), 2)]
)
def test_a_limit_at_once_refuses_until_one_is_answered(limit: RateLimit, left: int) -> None:
    limiter = Limiter(limit, lambda: 1000.0)
    for _ in range(2):
        limiter.acquire()
    assert let_through(limiter, 5) == 0
    limiter.release()
    # A request that is refused for their number at once costs no token.
    assert let_through(limiter, 5) == left


@pytest.mark.parametrize("kind", ["bucket", "fixed-window", "sliding-window"])
def test_a_refusal_names_a_moment_that_lets_one_through(
    clock: SimpleNamespace, kind: Literal["bucket", "fixed-window", "sliding-window"]
) -> None:
    limit = RateLimit(0.5, kind=kind, window=2, status=503, retry_after="seconds")
    limiter = Limiter(limit, lambda: clock.now)
    assert limiter.acquire() is None
    refusal = limiter.acquire()
    assert refusal is not None
    assert (refusal.status, refusal.headers) == (503, {"Retry-After": "2"})
    clock.now += 2
    assert limiter.acquire() is None


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("200", RateLimit(200)),
        (" 200/s , burst=40", RateLimit(200, burst=40)),
        ("30/m", RateLimit(0.5)),
        (
            "100/10s,fixed-window,status=503",
            RateLimit(10, kind="fixed-window", window=10, status=503),
        ),
        ("7200/h,sliding-window", RateLimit(2, kind="sliding-window", window=3600)),
        (
            "5,sliding-window,counts-refused,retry-after=seconds",
            RateLimit(5, kind="sliding-window", counts_refused=True, retry_after="seconds"),
        ),
        ("at-once=8,retry-after=seconds", RateLimit(at_once=8, retry_after="seconds")),
        ("20/s,at-once=8", RateLimit(20, at_once=8)),
    ],
)
def test_a_limit_is_read_from_a_string(text: str, limit: RateLimit) -> None:
    assert RateLimit.parse(text) == limit


@pytest.mark.parametrize("limit", [0.01, "36/h", RateLimit(0.01, burst=1)], ids=str)
async def test_requests_over_the_limit_get_429(limit: float | str | RateLimit) -> None:
    async with calling(rate_limit=limit) as call:
        assert await call.status("/v3/campaigns") == 200
        reply = await call.send("/v3/campaigns")
    assert (reply.status, reply.json()["code"]) == (429, 429)


async def test_the_rate_limit_can_be_changed_at_run_time() -> None:
    async with calling(rate_limit=0.01) as call:
        assert [await call.status("/v3/campaigns") for _ in range(2)] == [200, 429]
        call.sandbox.rate_limit = RateLimit(0.01, burst=2, status=503)
        assert [await call.status("/v3/campaigns") for _ in range(3)] == [200, 200, 503]
        call.sandbox.rate_limit = None
        assert await call.status("/v3/campaigns") == 200


async def test_at_once_counts_a_request_until_it_is_answered() -> None:
    async with calling(rate_limit="at-once=1,status=503", faults="hang=100%") as call:
        first = asyncio.create_task(call.send("/v3/campaigns"))
        await in_flight(call, 1)
        assert await call.status("/v3/campaigns") == 503
        first.cancel()
        await in_flight(call, 0)
        call.sandbox.faults = Faults()
        assert await call.status("/v3/campaigns") == 200


# --- What `stats` counts


async def test_requests_are_counted_by_operation(call: Caller) -> None:
    for path in ("/v3/campaigns/1", "/v3/campaigns/2", "/v3/campaigns/99", "/nowhere"):
        await call.send(path)
    await call.send("/v3/keywords", method="POST")
    await call.send("/v3/campaigns/3", method="DELETE")
    stats = call.sandbox.stats
    assert stats.requests == 6
    assert stats.per_operation == {
        "GET /v3/campaigns/:id": 3,
        "DELETE /v3/campaigns/:id": 1,
        "unknown": 2,
    }


async def test_the_most_in_flight_is_kept_and_all_leave_in_the_end() -> None:
    async with calling(latency=0.5) as call:
        await asyncio.gather(*(call.get("/v3/campaigns") for _ in range(16)))
        stats = call.sandbox.stats
    assert (stats.in_flight, stats.most_in_flight) == (0, 16)


async def test_each_answer_takes_the_latency_at_least() -> None:
    loop = asyncio.get_running_loop()
    async with calling(latency=0.03) as call:
        start = loop.time()
        await call.get(CAMPAIGN, **FEEDS[CAMPAIGN])
        assert loop.time() - start >= 0.03
