"""Rows 30 to 36 on real sockets: limits as services have them, which nobody told the client about.

The same rows in virtual time, with many more limits, are in `tests/session/scenarios.py`.
"""

import asyncio
import multiprocessing
import time
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from seorep_async import RankingReport, Settings
from seorep_async.sandbox import RateLimit, Sandbox
from tests.faults.conftest import Check
from tests.faults.run import KEY, load_of_the_machine, opened, results_of
from tests.faults.run import pull as pull_from
from tests.faults.server import Plan, ServerProcess

pytestmark = pytest.mark.slow

PAGES = 5


@attrs.frozen
class Pulled:
    """A pull by one client.

    Attributes:
        begun: when it began, on the clock that all processes share.
        ended: when it ended.
        lost: campaigns that failed, or have not all their rows.
    """

    begun: float
    ended: float
    lost: int


async def pull(base_url: str, campaigns: int, permits: int = 16) -> Pulled:
    begun = time.monotonic()
    async with opened(base_url, Settings(max_concurrency=permits)) as client:
        results = await results_of(client, campaigns)
    reports = [report for report in results.values() if isinstance(report, RankingReport)]
    return Pulled(begun, time.monotonic(), campaigns - sum(len(report.rows) == 25 * PAGES for report in reports))


def sandbox_of(campaigns: int, **options: Any) -> Sandbox:
    return Sandbox(campaigns=campaigns, keywords=25 * PAGES, api_key=KEY, **options)


@attrs.frozen
class Scenario:
    """A limit, and what a pull through it may cost.

    Attributes:
        rate_limit: as the sandbox understands it.
        ideal: seconds that a client would need that knew the limit, or None to measure what 8 permits take.
        bounds: the most that figures may be.
    """

    row: str
    rate_limit: str
    campaigns: int
    ideal: float | None
    bounds: Mapping[str, float]


RATE = {"amplification": 1.05, "times ideal": 1.5}
RATE_503 = {"amplification": 1.06, "times ideal": 1.6}
SCENARIOS = [
    Scenario("4", "200/s,burst=40", 600, 15, RATE),
    Scenario("6", "20/s,burst=4", 60, 15, {"amplification": 1.12, "times ideal": 1.5}),
    Scenario("30", "200/s,fixed-window", 300, 7.5, RATE),
    Scenario("30", "200/s,sliding-window", 300, 7.5, RATE),
    Scenario("30", "200/s,sliding-window,counts-refused", 300, 7.5, RATE),
    Scenario("31", "200/s,burst=40,status=503", 600, 15, RATE_503),
    Scenario("31", "20/s,burst=4,status=503", 60, 15, {"amplification": 1.1, "times ideal": 1.6}),
    Scenario("31", "200/s,fixed-window,status=503", 300, 7.5, RATE_503),
    Scenario("31", "200/s,sliding-window,status=503", 300, 7.5, RATE_503),
    Scenario("31", "200/s,burst=40,status=503,retry-after=seconds", 600, 15, RATE_503 | {"times ideal": 1.7}),
    Scenario("32", "100/10s,fixed-window", 100, 50, {"times ideal": 1.3}),
    Scenario("34", "at-once=8", 300, None, {"amplification": 1.05, "times ideal": 1.3}),
    Scenario("34", "at-once=8,status=503", 300, None, {"amplification": 1.05, "times ideal": 1.3}),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"row {scenario.row}-{scenario.rate_limit}")
async def test_limit_is_found_and_kept_to(scenario: Scenario, check: Check) -> None:
    load, ideal = load_of_the_machine(), scenario.ideal
    if ideal is None:
        async with sandbox_of(scenario.campaigns, latency=0.02) as sandbox:
            knowing = await pull(sandbox.base_url, scenario.campaigns, permits=8)
            ideal = knowing.ended - knowing.begun
    async with sandbox_of(scenario.campaigns, rate_limit=scenario.rate_limit, latency=0.02) as sandbox:
        pulled = await pull(sandbox.base_url, scenario.campaigns)
        figures = {
            "amplification": sandbox.stats.requests / (scenario.campaigns * PAGES),
            "times ideal": (pulled.ended - pulled.begun) / ideal,
        }
    over = {name: (figures[name], bound) for name, bound in scenario.bounds.items()}
    check(scenario.row, scenario.rate_limit, load=load, lost=(pulled.lost, 0), **over)


def _pull_in_a_process(base_url: str, campaigns: int) -> Pulled:
    return asyncio.run(pull(base_url, campaigns))


@pytest.mark.parametrize("seed", range(5))
async def test_limit_that_changes_is_followed(seed: int, check: Check) -> None:
    load, sent = load_of_the_machine(), dict[int, int]()
    async with sandbox_of(2000, rate_limit="200/s,burst=40", latency=0.02, seed=seed) as sandbox:
        with multiprocessing.get_context("spawn").Pool(1) as pool:  # or they would take each other's time
            pulling = pool.apply_async(_pull_in_a_process, (sandbox.base_url, 2000))
            while not sandbox.stats.requests:
                assert not pulling.ready()
                await asyncio.sleep(0.01)
            for second, limit in ((10, "50/s,burst=10"), (15, None), (20, "400/s,burst=40"), (25, None), (28, None)):
                await asyncio.sleep(second - max(sent, default=0))
                sent[second] = sandbox.stats.per_status.get(200, 0)
                sandbox.rate_limit = sandbox.rate_limit if limit is None else RateLimit.parse(limit)
    slow, fast = (sent[20] - sent[15]) / 5 / 50, (sent[28] - sent[25]) / 3 / 400
    check("32", "200/s, then 50/s, then 400/s", load=load, missed_of_50=(1 - slow, 0.2), missed_of_400=(1 - fast, 0.2))


@pytest.mark.parametrize(("share", "least"), [(0.03, 20), (0.1, 20), (0.25, 30)])
def test_refusals_by_chance_do_not_slow_a_pull(share: float, least: int, server: ServerProcess, check: Check) -> None:
    run = pull_from(server, Plan(units=400, pages=5, latency=0.02, faults={"429": share}))
    lost, seconds = run.lost_or_double + run.failed, run.seconds / 2000
    check("33", f"{share:.0%} of requests answered 429", lost=(lost, 0), seconds_a_request=(seconds, 1 / least))


# of eight only the median of Jain's index is promised
@pytest.mark.parametrize(("clients", "refused", "unfairness"), [(2, 0.04, 0.25), (4, 0.04, 0.25), (8, 0.07, 1.0)])
@pytest.mark.parametrize("retry_after", ["", ",retry-after=seconds"])
async def test_processes_share_a_limit(
    clients: int, refused: float, unfairness: float, retry_after: str, check: Check
) -> None:
    load, campaigns = load_of_the_machine(), 1200 // clients
    async with sandbox_of(campaigns, rate_limit=f"200/s,burst=40{retry_after}", latency=0.02) as sandbox:
        with multiprocessing.get_context("spawn").Pool(clients) as pool:
            pulls = [(sandbox.base_url, campaigns)] * clients
            pulled: list[Pulled] = await asyncio.to_thread(pool.starmap, _pull_in_a_process, pulls, 1)
        requests = sandbox.stats.requests
    rates = [campaigns / (one.ended - one.begun) for one in pulled]
    jain = sum(rates) ** 2 / (clients * sum(rate * rate for rate in rates))
    seconds = max(one.ended for one in pulled) - min(one.begun for one in pulled)
    check(
        "35",
        f"{clients} processes{retry_after}",
        load=load,
        lost=(sum(one.lost for one in pulled), 0),
        refused=(requests / 6000 - 1, refused),
        times_ideal=(seconds / 30, 1.85),
        unfairness=(1 - jain, unfairness),
    )


@pytest.mark.parametrize("pages", [1, 40])
def test_dead_campaign_holds_no_other_up(pages: int, server: ServerProcess, check: Check) -> None:
    plain = Plan(units=400 if pages == 1 else 50, pages=5 if pages == 1 else 40, latency=0.02)
    begun = pull_from(server, plain).seconds
    run = pull_from(server, attrs.evolve(plain, failing={5: "503"}))
    others = [seen.time for seen in run.history.seen if seen.fate == "served"]
    took = others[-1] - run.history.seen[0].time
    check("36", f"one campaign of {pages} pages always 503", lost=(run.failed, 1), others=(took / begun, 1.3))
