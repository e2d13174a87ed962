"""The whole session above a simulated service, in virtual time: figures of the fault matrix, found without a limit set.

Everything is real but the wire and the time. The same rows on real sockets are slow.
"""

from __future__ import annotations

import asyncio
import math
from itertools import pairwise

import attrs
import pytest

from seorep_async import DeadlineExceededError, RateLimitedError, SeoRepError
from seorep_async.session import Request, Session
from seorep_async.session.governor import Pace
from tests.session.simulated_service import SimulatedService, TokenBucket, pull, session_above
from tests.session.virtual_loop import here, run, virtual

LATENCIES = [0.002, 0.05]


def get(session: Session) -> Request[int]:
    return Request("GET", "/v3/x", len, deadline=session.deadline())


@attrs.frozen
class Figures:
    """What a pull cost, as the fault matrix measures it."""

    lost: int
    throttled: float
    amplification: float
    times_ideal: float
    started_in_a_wait: int


@attrs.frozen
class Row:
    """A row of the fault matrix: a service, and what a pull may cost at most."""

    pages: int
    rate: float
    burst: float
    retry_after: float | None
    throttled: float
    amplification: float
    times_ideal: float


ROWS = {
    "4": Row(3000, 200, 40, None, throttled=0.03, amplification=1.05, times_ideal=1.5),
    "5": Row(3000, 200, 40, 1.0, throttled=0.02, amplification=1.02, times_ideal=1.8),
    "6": Row(300, 20, 4, None, throttled=0.12, amplification=1.12, times_ideal=1.5),
    "6, large burst": Row(300, 20, 40, None, throttled=0.12, amplification=1.12, times_ideal=1.5),
    "6, no burst": Row(300, 20, 1, None, throttled=0.12, amplification=1.12, times_ideal=2.5),
    "6, with Retry-After": Row(300, 20, 4, 1.0, throttled=0.12, amplification=1.12, times_ideal=2.5),
}


async def figures(row: Row, latency: float, rest: float | None = None) -> Figures:
    """Pull, and again after a rest if there is one; return what the last pull cost."""
    service = SimulatedService(TokenBucket(row.rate, row.burst), latency=latency, retry_after=row.retry_after)
    async with session_above(service) as session:
        began, attempts, refused = 0.0, 0, 0
        errors = await pull(session, row.pages)
        if rest is not None:
            await asyncio.sleep(rest)
            began, attempts, refused = here().now, service.attempts, service.refused
            errors += await pull(session, row.pages)
    return Figures(
        lost=len(errors),
        throttled=(service.refused - refused) / row.pages,
        amplification=(service.attempts - attempts) / row.pages,
        times_ideal=(here().now - began) / (row.pages / row.rate),
        started_in_a_wait=sum(
            1 for start in service.started for heard, end in service.announced if heard < start < end
        ),
    )


@pytest.mark.parametrize("latency", LATENCIES)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_limit_that_nobody_told_is_found_and_kept(row: Row, latency: float) -> None:
    measured = run(figures(row, latency))
    assert measured.lost == measured.started_in_a_wait == 0
    assert measured.throttled <= row.throttled
    assert measured.amplification <= row.amplification
    assert measured.times_ideal <= row.times_ideal


@pytest.mark.parametrize("rest", [5, 3600])
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_limit_that_was_found_is_known_after_a_rest(row: Row, rest: float) -> None:
    again = run(figures(row, 0.05, rest))
    assert again.lost == again.started_in_a_wait == 0
    assert again.amplification <= 1.03
    assert again.times_ideal <= 1.5


def unlimited() -> TokenBucket:
    return TokenBucket(1e9, 1e9)


def outage(begin: float, end: float) -> SimulatedService:
    return SimulatedService(unlimited(), latency=0.02, down=(begin, end))


@virtual
async def test_outage_costs_little_and_ends_soon_after_it_is_over() -> None:
    service = outage(2, 5)
    async with session_above(service) as session:
        assert await pull(session, 5000) == []
    assert service.attempts <= 1.06 * 5000
    assert min(start for start in service.started if start >= 5) <= 5.5


@virtual
async def test_nothing_but_single_probes_goes_out_in_an_outage() -> None:
    service = outage(2, 5)
    async with session_above(service) as session:
        await pull(session, 5000)
    probes = [start for start in service.started if 3 < start < 5]
    assert all(later - earlier > 0.35 for earlier, later in pairwise(probes))


@virtual
async def test_service_that_never_comes_back_is_not_hammered() -> None:
    service = outage(0, math.inf)
    async with session_above(service, call_timeout=30) as session:
        results = await asyncio.gather(*(session.send(get(session)) for _ in range(2000)), return_exceptions=True)
        assert here().now <= 30
    assert all(isinstance(result, SeoRepError) for result in results)
    assert service.attempts <= 1.05 * 2000


@pytest.mark.parametrize("latency", [0.3, 2.0])
@virtual
async def test_no_attempt_starts_after_the_deadline(latency: float) -> None:
    service = SimulatedService(TokenBucket(5, 1), latency=latency)
    async with session_above(service, call_timeout=1, max_concurrency=2) as session:
        results = await asyncio.gather(*(session.send(get(session)) for _ in range(50)), return_exceptions=True)
        assert here().now <= 1
    assert max(service.started) < 1
    assert any(isinstance(result, DeadlineExceededError) for result in results)


@virtual
async def test_attempt_does_not_start_when_the_loop_was_late_with_its_leave() -> None:
    service = SimulatedService(unlimited(), latency=0.02)
    async with session_above(service, call_timeout=1, requests_per_second=2) as session:
        _, second = (session.spawn(session.send(get(session))) for _ in range(2))
        await asyncio.sleep(0.1)
        # just after the second was called, and before it runs
        here().call_at(0.48 + 1e-10, lambda: setattr(here(), "now", 3.0))
        with pytest.raises(DeadlineExceededError) as caught:
            await second
    assert (caught.value.attempts, service.attempts) == (0, 1)


@virtual
async def test_wait_of_an_hour_ends_every_call_at_once() -> None:
    service = SimulatedService(TokenBucket(1, 5), latency=0.02, retry_after=3600)
    async with session_above(service) as session:
        errors = await pull(session, 100)
        assert here().now < 1
    assert {type(error) for error in errors} == {RateLimitedError}
    assert service.attempts < 40


@virtual
async def test_no_burst_beyond_the_hard_cap_follows_a_stall_of_the_loop() -> None:
    service = SimulatedService(unlimited(), latency=0.02)
    async with session_above(service, requests_per_second=50) as session:
        here().call_later(2.005, lambda: setattr(here(), "now", here().now + 2))
        await pull(session, 300)
    starts = service.started
    for window in (0, 0.1, 1.0):
        busiest = max(sum(1 for start in starts if begin <= start <= begin + window) for begin in starts)
        assert busiest <= 1 + (window + Pace.CATCH_UP) * 50 + 1e-6


@virtual
async def test_figures_of_a_client_add_up() -> None:
    service = SimulatedService(TokenBucket(20, 4), latency=0.02)
    async with session_above(service) as session:
        await pull(session, 100)
        stats = session.stats
    assert (stats.requests, stats.attempts, stats.in_flight) == (100, service.attempts, 0)
    assert stats.retries == {"throttle": service.refused}
    assert stats.throttled == service.refused == service.attempts - 100
    assert stats.pace == pytest.approx(20, rel=0.2)
    assert set(stats.waited) <= {"concurrency", "pace", "backoff"}
