"""The whole session above a simulated service, in virtual time: figures of the fault matrix, found without a limit set.

Everything is real but the wire and the time. The same rows on real sockets are slow.
"""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

from seorep_async import DeadlineExceededError, RateLimitedError, SeoRepError, ServerError
from seorep_async.session import Request, Session
from seorep_async.session.flow_control.rate_limiter import RateLimiter
from tests.session.limiters import AtOnce, AtRandom, Changing, FixedWindow, Limiter, SlidingLog, TokenBucket
from tests.session.scenarios import Scenario, rising_limit, scenarios
from tests.session.simulated_service import SimulatedService, pull, session_above, simulate
from tests.session.virtual_loop import here

pytestmark = pytest.mark.virtual

SEED = 21
SLOW = (", 2 ms", ", 50 ms", ", 200 ms", "2 clients", "8 clients", "3 s apart")


def cases() -> Iterator[Any]:
    for scenario in scenarios():
        marks = [pytest.mark.slow] if any(part in scenario.name for part in SLOW) else []
        yield pytest.param(scenario, id=f"row {scenario.row}: {scenario.name}", marks=marks)


@pytest.mark.parametrize("scenario", list(cases()))
def test_figures_of_the_fault_matrix_hold_in_simulation(scenario: Scenario) -> None:
    assert scenario.broken(scenario.measure(SEED)) == {}


def test_limit_without_a_burst_is_no_limit_at_once() -> None:
    for rate, latency in ((20, 0.2), (50, 0.2), (100, 0.2), (100, 0.05)):
        run = simulate(SimulatedService(TokenBucket(rate, 1), latency, status=503), 6 * rate)
        assert run.lost == 0
        assert run.seconds <= 2.3 * max(6, 6 * rate * latency / 16)


def test_outages_at_a_known_limit_cost_about_what_they_last() -> None:
    def often(path: str, now: float) -> bool:
        return now > 20 and now % 20 < 3

    once = simulate(SimulatedService(TokenBucket(200, 40), down=(6, 36)), 4000)
    again = simulate(SimulatedService(TokenBucket(50, 1), 0.05, status=503, dead=often), 2000)
    assert (once.lost, again.lost) == (0, 0)
    assert once.seconds <= 80
    assert again.seconds <= 120


@pytest.mark.parametrize(
    "limiter", [TokenBucket(1, 1), Changing((5, TokenBucket(200, 40)), (math.inf, TokenBucket(1, 1)))]
)
def test_limit_of_one_a_second_that_asks_to_wait_loses_none(limiter: Limiter) -> None:
    run = simulate(SimulatedService(limiter, 0.05, retry_after=1.0), 1200)
    assert run.lost == 0
    assert run.refused <= 0.25


@pytest.mark.parametrize(("wait", "seconds"), [(5.0, 70), (60.0, 480)])
def test_long_waits_are_asked_for_seldom(wait: float, seconds: float) -> None:
    for seed in range(1, 4):
        run = simulate(SimulatedService(TokenBucket(20, 10), 0.05, retry_after=wait, seed=seed), 500)
        assert run.lost == 0
        assert run.seconds <= seconds


@pytest.mark.parametrize("limiter", [TokenBucket(200, 40), TokenBucket(50, 1), SlidingLog(200), AtOnce(8)])
def test_pages_of_one_campaign_find_a_limit_as_those_of_many_do(limiter: Limiter) -> None:
    one, many = (
        simulate(
            SimulatedService(copy.deepcopy(limiter), status=503), [f"{page % campaigns}/1" for page in range(1000)]
        )
        for campaigns in (1, 40)
    )
    assert one.lost == 0
    assert one.refused <= many.refused + 0.02
    assert one.seconds <= 1.1 * many.seconds


def test_chance_refusals_of_a_quarter_leave_a_fast_pull() -> None:
    runs = [simulate(SimulatedService(AtRandom(0.25, seed), seed=seed), 2000) for seed in range(411, 421)]
    rates = [2000 / run.seconds for run in runs]
    assert {run.lost for run in runs} == {0}
    assert min(rates) >= 30
    assert median(rates) >= 100


@pytest.mark.parametrize("rest", [5, 3600])
@pytest.mark.parametrize(("rate", "burst", "pages"), [(200, 40, 1500), (20, 4, 300)])
def test_limit_that_was_found_is_known_after_a_rest(rate: float, burst: float, pages: int, rest: float) -> None:
    again = simulate(SimulatedService(TokenBucket(rate, burst), latency=0.05), pages, rest=rest)
    assert again.lost == 0
    assert again.amplification <= 1.05
    assert again.seconds <= 1.5 * pages / rate


@pytest.mark.parametrize("phase", [0.0, 0.9, 1.8, 2.7])
def test_limit_that_rises_is_followed_whenever_it_does(phase: float) -> None:
    assert simulate(SimulatedService(rising_limit(phase)), 6000).rate(25, 28) >= 0.8 * 400


def test_limit_that_rises_is_followed_by_a_process_that_stalls() -> None:
    for seed, phase in [(3, 2.7), (40, 0.0), (45, 0.9), (115, 2.7)]:
        service = SimulatedService(rising_limit(phase), latency=0.02, seed=seed, stall=0.15)
        assert simulate(service, 6000).rate(25, 28) >= 0.8 * 400


@pytest.mark.parametrize("window", [FixedWindow, SlidingLog, partial(SlidingLog, counts_refused=True)])
def test_window_that_rises_is_followed(window: Callable[[int], Limiter]) -> None:
    for phase in (0.0, 0.9, 1.8, 2.7):
        limiter = Changing((10 + phase, TokenBucket(200, 40)), (20, window(50)), (math.inf, window(400)))
        assert simulate(SimulatedService(limiter, seed=18), 6000).rate(25, 28) >= 0.8 * 400


def test_outage_while_a_limit_is_searched_costs_little() -> None:
    limiter = Changing((6.0, TokenBucket(50, 10)), (math.inf, TokenBucket(400, 40)))
    run = simulate(SimulatedService(limiter, down=(10.5, 13.5)), 4000)
    assert run.seconds <= 32


def test_window_is_found_by_a_process_that_stalls() -> None:
    for seed in range(30, 40):
        run = simulate(SimulatedService(SlidingLog(200), latency=0.05, seed=seed, stall=0.2), 1500)
        assert run.lost == 0
        assert run.seconds <= 1.5 * 7.5


def test_waits_asked_for_again_and_again_are_learnt_from() -> None:
    for seed in range(20):
        service = SimulatedService(SlidingLog(200), latency=0.05, status=503, retry_after=1.0, seed=seed)
        assert simulate(service, 1500).seconds <= 1.6 * 7.5


def test_limit_that_asks_to_wait_is_used_by_one_alone() -> None:
    for seed in range(2):
        run = simulate(SimulatedService(TokenBucket(200, 40), latency=0.02, retry_after=1.0, seed=seed), 6000)
        assert run.seconds <= 1.2 * 30


def test_high_limit_that_asks_to_wait_is_followed_up() -> None:
    limit = Changing((15.0, TokenBucket(400, 80)), (math.inf, TokenBucket(1200, 240)))
    run = simulate(SimulatedService(limit, retry_after=1.0), 42_000)
    assert run.rate(40, 45) >= 1.5 * 400


@pytest.mark.parametrize(("before", "after", "seconds"), [(200, 400, 12), (20, 700, 10), (5, 200, 10)])
def test_risen_limit_that_asks_to_wait_is_used_soon(before: float, after: float, seconds: float) -> None:
    limit = Changing((15.0, TokenBucket(before, before / 5)), (math.inf, TokenBucket(after, after / 5)))
    run = simulate(SimulatedService(limit, retry_after=1.0), round(30 * after))
    assert run.rate(15 + seconds, 21 + seconds) >= 0.8 * after


def asks_to_wait(seed: int) -> SimulatedService:
    """Return a service of 200/s that refuses late and asks to wait 1 s, as the sandbox does."""
    return SimulatedService(TokenBucket(200, 40), retry_after=1.0, late_refusals=True, seed=seed)


def test_processes_share_a_limit_that_asks_to_wait() -> None:
    for seed in range(10, 15):
        run = simulate(asks_to_wait(seed), 1500, clients=4, apart=0.1)
        assert run.seconds <= 1.4 * 30
        assert run.jain >= 0.9


@pytest.mark.parametrize(("seed", "apart"), [(88, 0.1), (108, 0.1), (162, 0.35), (0, 0.1)])
def test_two_processes_share_a_limit_that_asks_to_wait(seed: int, apart: float) -> None:
    run = simulate(asks_to_wait(seed), 3000, clients=2, apart=apart)
    assert run.seconds <= 1.4 * 30
    assert run.jain >= 0.9


@pytest.mark.slow
def test_two_processes_that_are_asked_to_wait_seldom_take_long() -> None:
    times = [simulate(asks_to_wait(seed), 3000, clients=2, apart=0.1).seconds / 30 for seed in range(1000, 1060)]
    assert max(times) <= 1.4
    assert sum(time > 1.3 for time in times) <= 20


def test_waits_asked_for_by_one_dead_campaign_show_no_rate() -> None:
    pages = [f"dead/{number}" if 300 <= number < 340 else str(number) for number in range(6000)]
    for seed in range(8):
        service = SimulatedService(dead=lambda path, now: path.startswith("dead"), retry_after=1.0, seed=seed)
        assert simulate(service, pages).accepted[-1] <= 40


def test_first_campaigns_that_are_dead_cost_the_others_seconds() -> None:
    pages = [f"dead{number}/1" for number in range(8)] + [f"{number // 5}/{number % 5}" for number in range(400)]
    for seed in range(4):
        run = simulate(SimulatedService(dead=lambda path, now: path.startswith("dead"), seed=seed), pages)
        assert run.lost == 8
        assert run.accepted[-1] <= 60


@pytest.mark.parametrize("limit", [6, 8])
def test_limit_at_once_is_kept_where_refusals_come_late(limit: int) -> None:
    service = SimulatedService(AtOnce(limit), latency=0.5, late_refusals=True)
    run = simulate(service, 1000)
    assert run.refused <= 0.05
    assert run.seconds <= 1.1 * 1000 * 0.5 / limit


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("latency", [0.02, 0.05, 0.2])
def test_first_count_that_is_too_high_is_corrected(latency: float, status: int) -> None:
    for seed in range(4):
        service = SimulatedService(AtOnce(8), latency, late_refusals=True, status=status, seed=seed)
        assert simulate(service, 1500).seconds <= 1.3 * 1500 * latency / 8


@pytest.mark.parametrize("refused", [3, 5, 7])
def test_first_refusals_alone_do_not_hold_a_pull_back(refused: int) -> None:
    for seed in range(3):
        first = iter([True] * refused)

        def dead(path: str, now: float, first: Iterator[bool] = first) -> bool:
            return next(first, False)

        service = SimulatedService(latency=0.2, dead=dead, seed=seed)
        assert simulate(service, 1000).seconds <= 1.3 * 1000 * 0.2 / 16


def get(session: Session) -> Request[int]:
    return Request("GET", "/v3/x", len, deadline=session.call_timeout.deadline())


def outage(begin: float, end: float) -> SimulatedService:
    return SimulatedService(down=(begin, end))


async def test_nothing_but_single_probes_goes_out_in_an_outage() -> None:
    service = outage(2, 5)
    async with session_above(service) as session:
        await pull(session, 5000)
    probes = [start for start in service.started if 3 < start < 5]
    assert all(later - earlier > 0.2 for earlier, later in pairwise(probes))


@pytest.mark.parametrize("share", [0.05, 0.1, 0.25])
async def test_chance_refusals_of_slow_calls_after_a_pull_lose_none(share: float) -> None:
    limiter = Changing((10, TokenBucket(200, 40)), (math.inf, AtRandom(share, seed=0)))
    async with session_above(SimulatedService(limiter)) as session:
        assert await pull(session, 1500) == []
        for _ in range(400):
            assert await session.send(get(session)) == 0
            await asyncio.sleep(1)


async def test_service_that_never_comes_back_is_not_hammered() -> None:
    service = outage(0, math.inf)
    async with session_above(service, call_timeout=30) as session:
        results = await asyncio.gather(*(session.send(get(session)) for _ in range(2000)), return_exceptions=True)
        assert here().now <= 30
    assert all(isinstance(result, SeoRepError) for result in results)
    assert service.attempts <= 1.05 * 2000


@pytest.mark.parametrize("latency", [0.3, 2.0])
async def test_no_attempt_starts_after_the_deadline(latency: float) -> None:
    service = SimulatedService(TokenBucket(5, 1), latency)
    async with session_above(service, call_timeout=1, max_concurrency=2) as session:
        results = await asyncio.gather(*(session.send(get(session)) for _ in range(50)), return_exceptions=True)
        assert here().now <= 1
    assert max(service.started) < 1
    assert any(isinstance(result, DeadlineExceededError) for result in results)


async def test_no_attempt_starts_if_the_loop_was_late_with_its_permit() -> None:
    service = SimulatedService()
    async with session_above(service, call_timeout=1, requests_per_second=2) as session:
        _, second = (session.spawn(session.send(get(session))) for _ in range(2))
        await asyncio.sleep(0.1)
        # just after the second was called, and before it runs
        here().call_at(0.48 + 1e-10, lambda: setattr(here(), "now", 3.0))
        with pytest.raises(DeadlineExceededError) as caught:
            await second
    assert (caught.value.attempts, service.attempts) == (0, 1)


@pytest.mark.parametrize("status", [429, 503])
async def test_wait_of_an_hour_ends_every_call_at_once(status: int) -> None:
    service = SimulatedService(TokenBucket(1, 5), latency=0.02, status=status, retry_after=3600)
    async with session_above(service) as session:
        errors = await pull(session, 100)
        assert here().now < 1
    assert {type(error) for error in errors} == {RateLimitedError} | ({ServerError} if status == 503 else set())
    assert service.attempts < 40


@pytest.mark.parametrize("at_once", [1, 16])
@pytest.mark.parametrize("first", [0, 100])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_campaigns_down_for_an_hour_fail_alone(count: int, first: int, at_once: int) -> None:
    dead = range(first, first + count)
    pages = [f"{'dead' if number in dead else 'fine'}{number}/{page}" for number in range(500) for page in range(5)]
    service = SimulatedService(dead=lambda path, now: path.startswith("dead"), retry_after=3600.0)
    assert simulate(service, pages, max_concurrency=at_once).lost == 5 * count


@pytest.mark.parametrize("status", [429, 503])
async def test_calls_refused_until_their_end_speak_of_a_quota(status: int) -> None:
    service = SimulatedService(TokenBucket(0, 100), status=status)
    async with session_above(service) as session:
        errors = await pull(session, 400)
        assert here().now <= 360
    timed_out = [error for error in errors if isinstance(error, DeadlineExceededError)]
    assert len(timed_out) >= 0.9 * len(errors) > 250
    assert all("was refused: a quota may be used up" in error.message for error in timed_out)


async def test_no_burst_beyond_the_cap_follows_a_stall_of_the_loop() -> None:
    service = SimulatedService()
    async with session_above(service, requests_per_second=50) as session:
        here().call_later(2.005, lambda: setattr(here(), "now", here().now + 2))
        await pull(session, 300)
    starts = service.started
    for window in (0, 0.1, 1.0):
        busiest = max(sum(1 for start in starts if begin <= start <= begin + window) for begin in starts)
        assert busiest <= 1 + (window + RateLimiter.CATCH_UP) * 50 + 1e-6


async def test_figures_of_a_client_add_up() -> None:
    service = SimulatedService(TokenBucket(20, 4), latency=0.02)
    async with session_above(service) as session:
        await pull(session, 200)
        stats = session.stats
    assert (stats.requests, stats.attempts, stats.in_flight) == (200, service.attempts, 0)
    assert stats.retries == {"throttle": service.refused}
    assert stats.throttled == service.refused == service.attempts - 200
    assert stats.pace == pytest.approx(20, rel=0.2)
    assert set(stats.waited) <= {"concurrency", "pace", "backoff"}
