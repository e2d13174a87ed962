"""A few dead campaigns, which are always refused, do not delay others. Low limits lose nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cache
from random import Random
from statistics import median

import pytest

from benchmarks.low_limits import Cell
from seorep_async import DeadlineExceededError
from seorep_async.session import Deadline, Request
from seorep_async.session.request import Response
from tests.rankings import rankings_of, report_page
from tests.session.simulated_service import (
    ApiRequest,
    AtRandom,
    SimulatedService,
    pull,
    session_above,
    simulate,
)
from tests.session.virtual_loop import here, run

pytestmark = pytest.mark.virtual

CAMPAIGNS = 100
PAGE = {"Content-Type": "text/html"}
UNAVAILABLE = Response(503, [b""])
MISSING = Response(404, [b"<html><h1>Not Found</h1></html>"], None, PAGE)
FORBIDDEN = Response(403, [b"<html><h1>403 Forbidden</h1></html>"], None, PAGE)


async def pull_all(
    dead: Collection[int],
    refusal: Response,
    pages: int,
    first_dead_page: int = 1,
    campaigns: int = CAMPAIGNS,
) -> tuple[float, float, int]:
    """Pull from a service that always refuses pages of some campaigns after its first answer.

    Return when the last good report came, when the pull ended, and the most attempts.
    """

    def says(request: ApiRequest) -> Response:
        is_dead = request.id in dead and request.page >= first_dead_page
        if is_dead and len(service.requests) > 1:
            return refusal
        return report_page([request.id * 100 + request.page], pages, pages)

    service = SimulatedService(says=says, latency=0.05)
    last_good = 0.0
    most_attempts = 0
    async with rankings_of(service) as (_, rankings):
        campaign_ids = range(1, campaigns + 1)
        async with rankings.pull(campaign_ids, "2023-01-01", "2023-01-31") as outcomes:
            async for outcome in outcomes:
                assert outcome.ok is (outcome.id not in dead)
                if outcome.error is None:
                    last_good = here().now
                else:
                    most_attempts = max(most_attempts, outcome.error.attempts)
        return last_good, here().now, most_attempts


@cache
def seconds_alone(pages: int) -> float:
    """Return how long the pull takes without dead campaigns."""
    return run(pull_all((), UNAVAILABLE, pages))[1]


def choose_dead(seed: int, count: int = 9, campaigns: int = CAMPAIGNS) -> list[int]:
    return Random(seed).sample(range(2, campaigns + 1), count)


@pytest.mark.parametrize(("status", "pause"), [(423, 5.0), (423, 3600.0), (503, 3600.0)])
def test_a_campaign_with_a_long_pause_delays_no_other(status: int, pause: float) -> None:
    locked = Response(status, [b""], pause)
    last_good, _, _ = run(pull_all({20}, locked, pages=5))
    assert last_good <= 1.2 * seconds_alone(5)


@pytest.mark.parametrize(("pages", "worst"), [(1, 6.0), (5, 3.0)])
def test_dead_campaigns_slow_the_others_little(pages: int, worst: float) -> None:
    times = []
    for seed in range(200, 206):
        dead = choose_dead(seed)
        last_good, end, _ = run(pull_all(dead, UNAVAILABLE, pages))
        times.append(last_good / seconds_alone(pages))
        assert end <= 90
    assert median(times) <= 3
    assert max(times) <= worst


@pytest.mark.parametrize("page", [FORBIDDEN, MISSING], ids=["403", "404"])
@pytest.mark.parametrize(
    ("seconds", "is_hit"),
    [
        pytest.param(10, lambda id_, chance: chance < 0.5, id="half of the requests"),
        pytest.param(10, lambda id_, chance: True, id="all"),
        pytest.param(2, lambda id_, chance: id_ % 2 == 0, id="half of the campaigns"),
    ],
)
def test_a_rollout_loses_no_campaign(
    page: Response, seconds: float, is_hit: Callable[[int, float], bool]
) -> None:
    random = Random(5)

    def says(request: ApiRequest) -> Response:
        if 0.1 < here().now < seconds and is_hit(request.id, random.random()):
            return page
        return report_page([7], 1, 1)

    async def main() -> None:
        async with rankings_of(SimulatedService(says=says)) as (_, rankings):
            outcomes = await rankings.pull(range(1, 301), "2023-01", "2023-01")
            assert outcomes.failures == []

    run(main())


@pytest.mark.parametrize("pause", [None, 1.0])
@pytest.mark.parametrize(("pages", "first_dead_page"), [(2, 2), (5, 2), (10, 2), (5, 3), (10, 5)])
@pytest.mark.parametrize("dead", [{51}, {23, 81}, {9, 88, 99}], ids=len)
def test_campaigns_whose_later_pages_are_dead_end_in_time(
    dead: set[int], pages: int, first_dead_page: int, pause: float | None
) -> None:
    # Their page 1 is accepted again in their second try, after all other campaigns. This must not
    # look like an outage, in which the pull would wait for five minutes.
    refusal = Response(503, [b""], pause)
    last_good, end, _ = run(pull_all(dead, refusal, pages, first_dead_page))
    assert last_good <= seconds_alone(pages) + 1.5 * len(dead)
    assert end <= 60


@pytest.mark.parametrize(
    ("campaigns", "dead_count", "seed"),
    [(100, 2, 904), (100, 2, 916), (100, 2, 918), (30, 9, 701), (30, 9, 703), (30, 9, 705)],
)
def test_dead_campaigns_near_the_end_end_in_time(
    campaigns: int, dead_count: int, seed: int
) -> None:
    dead = choose_dead(seed, dead_count, campaigns)
    _, end, most_attempts = run(pull_all(dead, UNAVAILABLE, 1, campaigns=campaigns))
    assert most_attempts <= 8
    assert end <= 20 + 5 * dead_count


@pytest.mark.parametrize(
    ("says", "pages", "max_concurrency"),
    [
        pytest.param(  # This is row 61 of the fault matrix.
            lambda service, _: FORBIDDEN if service.attempts in range(40, 61) else 200,
            60,
            1,
            id="pages of a firewall after a success",
        ),
        pytest.param(
            lambda _, request: 503 if here().now < 60 <= int(request.query) else 200,
            120,
            16,
            id="an outage behind a cache",
        ),
        pytest.param(
            lambda _, request: (
                503 if here().now < 60 and request.query not in map(str, range(112)) else 200
            ),
            120,
            16,
            id="a cache, and few reports left",
        ),
    ],
)
async def test_refusals_of_all_that_is_new_lose_nothing(
    says: Callable[[SimulatedService, ApiRequest], Response | int], pages: int, max_concurrency: int
) -> None:
    service = SimulatedService(says=lambda request: says(service, request), latency=0.05)
    async with session_above(service, max_concurrency=max_concurrency) as session:
        assert await pull(session, pages, in_progress=60) == []


@pytest.mark.parametrize(
    "dead",
    [
        pytest.param(range(20, 101, 10), id="every tenth"),
        pytest.param(choose_dead(3), id="at random"),
    ],
)
def test_pages_of_a_firewall_for_nine_campaigns_slow_no_other(dead: Collection[int]) -> None:
    last_good, _, _ = run(pull_all(dead, FORBIDDEN, pages=1))
    assert last_good <= 2 * seconds_alone(1)


@pytest.mark.parametrize("pages", [1, 5])
def test_a_dead_campaign_pauses_the_others_once(pages: int) -> None:
    refusal = Response(503, [b""], 1.0)
    for seed in range(300, 304):
        dead = choose_dead(seed)
        last_good, end, _ = run(pull_all(dead, refusal, pages))
        assert last_good <= 1.6 * len(dead)
        assert end <= 30


@pytest.mark.parametrize(
    ("cell", "seed"),
    [
        (Cell("sliding window of a second", 2, False, 0.02, 300), 300),
        (Cell("bucket of one", 2, True, 0.2, 60), 300),
        (Cell("bucket of one", 5, True, 0.02, 60), 301),
        (Cell("bucket of one", 1, False, 0.02, 60), 301),
        (Cell("bucket of five", 1, False, 0.02, 300, status=503), 40003),
        (Cell("bucket of five", 1, False, 0.02, 300, status=503), 40006),
        (Cell("bucket of five", 2, False, 0.2, 300, status=503), 40004),
        (Cell("sliding window of a second", 2, False, 0.02, 300, status=503), 40002),
        (Cell("sliding window of a minute", 1, False, 0.2, 1500, status=503), 53001),
        (Cell("sliding window of a minute", 1, False, 0.02, 1500, status=503), 54023),
        # The last request is alone. It would use up its attempts within the minute.
        (Cell("fixed window of a minute", 1, False, 0.2, 241, status=503), 140000),
        (Cell("sliding window of a minute", 1, False, 0.2, 301, status=503), 140024),
        (Cell("sliding window of a minute", 3, False, 0.02, 181, status=503), 260011),
        (Cell("sliding window of a minute", 4, False, 0.02, 241, status=503), 260019),
        (Cell("fixed window of a minute", 2, False, 0.02, 121, status=503), 260008),
        # At the end, all requests were refused before. Hardly any is refused for the first time.
        (Cell("bucket of one", 2, False, 0.02, 60, status=503), 52012),
        (Cell("bucket of one", 2, False, 0.2, 60, status=503), 52016),
        (Cell("bucket of one", 2, False, 0.02, 60, status=503), 90096),
    ],
    ids=str,
)
def test_a_low_limit_loses_nothing(cell: Cell, seed: int) -> None:
    assert cell.run(seed).lost == 0


@pytest.mark.parametrize(("limit", "seed"), [("1/s,burst=5", 0), ("2/s,burst=5", 3)])
def test_two_campaigns_at_a_low_limit_lose_nothing(limit: str, seed: int) -> None:
    service = SimulatedService(limit, status=503, seed=seed)
    # If their acceptances did not end suspicion at a known limit, they would be suspected forever.
    assert simulate(service, [f"c{page % 2}/{page}" for page in range(300)]).lost == 0


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("requests_a_minute", [12, 20, 30])
def test_a_pull_that_outlasts_a_minutes_window_loses_nothing(
    requests_a_minute: int, status: int
) -> None:
    limit = f"{requests_a_minute}/60s,sliding-window"
    # At its end, only requests are left that were refused while the window was used up.
    service = SimulatedService(limit, latency=0.2, status=status, seed=2)
    assert simulate(service, [f"c{number}/1" for number in range(60)]).lost == 0


@pytest.mark.parametrize(
    ("seconds_down", "timeout", "closes_after"),
    [(3.0, 90, 90), (1e9, 90, 90), (1e9, 21.5, 90), (1e9, 90, 18)],
    ids=["for three seconds", "for good", "timeout", "closing"],
)
@pytest.mark.parametrize("limit", ["50/s,burst=5", "2/s,fixed-window", "1/s,burst=5"])
async def test_one_dead_campaign_at_a_known_limit_ends_in_time(
    limit: str, seconds_down: float, timeout: float, closes_after: float
) -> None:
    service = SimulatedService(limit, latency=0.05)
    async with session_above(service) as session:
        assert await pull(session, 60) == []
        assert session.stats.pace is not None
        began = here().now
        service.says = lambda request: (
            503 if "dead" in request.query and here().now < began + seconds_down else 200
        )
        with session.call_timeout.limit(timeout):
            pulling = asyncio.create_task(pull(session, ["dead/0"]))
        await asyncio.wait([pulling], timeout=closes_after)
    assert len(await pulling) == (seconds_down > 3)
    assert 3 <= here().now - began <= min(timeout, closes_after)


async def test_a_cache_answers_no_repetition_in_a_later_outage() -> None:
    cached: set[str] = set()

    def says(request: ApiRequest) -> int:
        if request.query in cached:
            return 200
        if "dead" in request.query or here().now < down_until:
            return 503
        cached.add(request.query)
        return 200

    down_until = 0.0
    service = SimulatedService(says=says)
    async with session_above(service) as session:
        for page in range(11):
            assert len(await pull(session, [f"a/{page}", "dead/0"])) == 1
        down_until = here().now + 60
        assert await pull(session, ["b/0"]) == []
    # A service may refuse a larger limit.
    assert max(request.limit for request in service.requests) == 10


async def test_an_endpoint_that_is_down_slows_no_other() -> None:
    service = SimulatedService(latency=0.05)
    async with session_above(service) as session:
        assert await pull(session, 60) == []
        service.says = lambda request: 503 if request.path == "/page" else 200
        pulling = asyncio.create_task(pull(session, ["a/1", "b/1", "c/1"]))
        while not pulling.done():
            begun = here().now
            await session.send(Request("GET", "/other", len))
            assert here().now - begun < 1
            await asyncio.sleep(3)


async def test_an_outage_ends_a_call_without_a_time_limit() -> None:
    service = SimulatedService()
    async with session_above(service, call_timeout=None) as session, asyncio.timeout(300):
        assert await pull(session, 60) == []
        service.says = lambda _: 503
        assert len(await pull(session, ["a/1"])) == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_calls_beside_a_pull_at_a_low_limit_wait_little(status: int) -> None:
    service = SimulatedService("1/s,burst=5", latency=0.05, status=status, seed=611)
    waits = []
    async with session_above(service) as session:

        async def call(path: str) -> None:
            begun = here().now
            await session.send(Request("GET", path, len, subject=path))
            waits.append(here().now - begun)

        async with asyncio.TaskGroup() as group:
            pulling = group.create_task(pull(session, [f"c{number}/1" for number in range(150)]))
            while not pulling.done():
                group.create_task(call(f"/{len(waits)}"))
                await asyncio.sleep(3)
    assert pulling.result() == []
    # A call that was refused once does not wait for all retries of the pull. It would take more
    # than a minute.
    assert max(waits) <= 50


async def test_pulls_beside_calls_at_a_low_limit_lose_few_reports() -> None:
    service = SimulatedService("12/60s,fixed-window", latency=0.05, seed=1)
    async with session_above(service) as session:

        async def call(path: str) -> None:
            deadline = Deadline.of_call(here().now + 200)
            with suppress(DeadlineExceededError):
                await session.send(Request("GET", path, len, subject=path, deadline=deadline))

        async with asyncio.TaskGroup() as group:
            pulls = [group.create_task(pull(session, 60)) for _ in range(3)]
            while not all(pulling.done() for pulling in pulls):
                group.create_task(call(f"/{here().now}"))
                await asyncio.sleep(25)
    # A retry whose time is nearly over goes first. Otherwise, 46 of 180 reports would be lost.
    assert sum(len(pulling.result()) for pulling in pulls) <= 15


def test_a_limit_found_again_and_again_is_not_random() -> None:
    figures = Cell("fixed window of a second", 2, False, 0.02, 1500).run(21008)
    assert figures.lost == 0
    # Refusals that were taken for random doubled the number of attempts.
    assert figures.refused <= 0.25


@pytest.mark.parametrize(
    ("share", "seed", "least"), [(0.1, 1, 25), (0.1, 5, 25), (0.25, 0, 5), (0.25, 5, 5)]
)
def test_random_refusals_slow_a_pull_little(share: float, seed: int, least: float) -> None:
    figures = simulate(SimulatedService(AtRandom(share, seed)), 500)
    assert figures.lost == 0
    # If they were taken for a limit, this was 13 a second at 0.1, and 1 at 0.25.
    assert 500 / figures.seconds >= least


def test_a_cap_equal_to_the_limit_is_used() -> None:
    cell = Cell("bucket of one", 5, True, 0.02, 120, cap=5.0)
    figures = cell.run(300)
    assert figures.lost == 0
    assert figures.seconds <= 1.22 * cell.ideal(300)


@pytest.mark.parametrize("seed", range(4))
def test_a_strict_limit_with_retry_after_is_used_at_four_fifths(seed: int) -> None:
    # Refused attempts must not raise the rate. When they did, this was 3.9 a second.
    figures = Cell("bucket of one", 5, True, 0.004, 121).run(seed)
    assert figures.lost == 0
    assert 121 / figures.seconds >= 4
