"""The whole session above a simulated service, in virtual time: figures of the fault matrix, found without a limit set.

Everything is real but the wire and the time. The same rows on real sockets are slow.
"""

import asyncio
import copy
import math
from itertools import pairwise
from statistics import median

import pytest

from seorep_async import DeadlineExceededError, RateLimitedError, SeoRepError, ServerError
from seorep_async.session import Request, Session
from tests.session.scenarios import Scenario, scenarios
from tests.session.simulated_service import (
    AtOnce,
    AtRandom,
    Changing,
    Limiter,
    SimulatedService,
    SlidingLog,
    TokenBucket,
    pull,
    session_above,
    simulate,
)
from tests.session.virtual_loop import here

pytestmark = [pytest.mark.virtual, pytest.mark.heavy]

SLOW = (", 2 ms", ", 50 ms", ", 200 ms", "2 clients", "8 clients", "3 s apart")
CASES = [
    pytest.param(
        scenario,
        id=f"row {scenario.row}: {scenario.name}" if scenario.row else scenario.name,
        marks=[pytest.mark.slow] if any(part in scenario.name for part in SLOW) else [],
    )
    for scenario in scenarios()
]


@pytest.mark.parametrize("scenario", CASES)
def test_figures_hold_in_simulation(scenario: Scenario) -> None:
    assert {seed: broken for seed in scenario.seeds if (broken := scenario.broken(seed))} == {}


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
    runs = [simulate(SimulatedService(AtRandom(0.25, seed), seed=seed), 2000) for seed in range(411, 431)]
    rates = [2000 / run.seconds for run in runs]
    assert {run.lost for run in runs} == {0}
    assert min(rates) >= 30
    assert median(rates) >= 100


@pytest.mark.parametrize("rest", [5, 3600])
@pytest.mark.parametrize(("rate", "burst", "pages"), [(200, 40, 1500), (20, 4, 300)])
async def test_limit_that_was_found_is_known_after_a_rest(rate: float, burst: float, pages: int, rest: float) -> None:
    service = SimulatedService(TokenBucket(rate, burst), latency=0.05)
    async with session_above(service) as session:
        assert await pull(session, pages) == []
        await asyncio.sleep(rest)
        begun, before = here().now, service.attempts
        assert await pull(session, pages) == []
    assert service.attempts - before <= 1.05 * pages
    assert here().now - begun <= 1.5 * pages / rate


@pytest.mark.slow
def test_two_processes_that_are_asked_to_wait_seldom_take_long() -> None:
    def seconds(seed: int) -> float:
        service = SimulatedService(TokenBucket(200, 40), retry_after=1.0, late_refusals=True, seed=seed)
        return simulate(service, 3000, clients=2, apart=0.1).seconds

    times = [seconds(seed) / 30 for seed in range(1000, 1060)]
    assert max(times) <= 1.4
    assert sum(time > 1.3 for time in times) <= 20


def get(session: Session) -> Request[int]:
    return Request("GET", "/v3/x", len, deadline=session.call_timeout.deadline())


async def test_nothing_but_single_probes_goes_out_in_an_outage() -> None:
    service = SimulatedService(down=(2, 5))
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


@pytest.mark.parametrize("kind", ["500", "503", "refused", "reset", "hang"])
async def test_service_that_never_comes_back_is_not_hammered(kind: str) -> None:
    service = SimulatedService(down=(0, math.inf), outage=kind)
    async with session_above(service, call_timeout=30, attempt_timeout=1 if kind == "hang" else 30) as session:
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


@pytest.mark.parametrize("status", [429, 503])
async def test_wait_of_an_hour_ends_every_call_at_once(status: int) -> None:
    service = SimulatedService(TokenBucket(1, 5), latency=0.02, status=status, retry_after=3600)
    async with session_above(service) as session:
        errors = await pull(session, 100)
        assert here().now < 1
    assert {type(error) for error in errors} == {RateLimitedError} | ({ServerError} if status == 503 else set())
    assert service.attempts < 40


@pytest.mark.parametrize("status", [429, 503])
async def test_calls_refused_until_their_end_speak_of_a_quota(status: int) -> None:
    service = SimulatedService(TokenBucket(0, 100), status=status)
    async with session_above(service) as session:
        errors = await pull(session, 400)
        assert here().now <= 360
    timed_out = [error for error in errors if isinstance(error, DeadlineExceededError)]
    assert len(timed_out) >= 0.9 * len(errors) > 250
    assert all("was refused: a quota may be used up" in error.message for error in timed_out)
