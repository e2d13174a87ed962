"""Rows 1 to 3, 5, 7, 12 and 26: faults on real sockets, and limits in virtual time."""

import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest

from seorep_async import Attempt, ConnectionFailedError, SeoRepClient, SeoRepError, Settings
from seorep_async.sandbox import Sandbox
from seorep_async.session.failures import Cause, Failure, Sent
from tests.faults.conftest import Check
from tests.faults.run import JANUARY, open_sockets, results_of
from tests.rankings import rankings_of, report_page
from tests.session.simulated_service import (
    ApiRequest,
    Limited,
    SimulatedService,
    pull,
    session_above,
)
from tests.session.virtual_loop import here

pytestmark = pytest.mark.heavy

ROWS = 10  # of a campaign, on pages of two
LIGHT = "resets=5%,500s=5%,cut=2%"


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))]
)
@pytest.mark.parametrize(
    ("row", "faults", "campaigns", "attempt_timeout", "amplification"),
    [
        ("1", LIGHT, 400, 30.0, 1.16),
        ("2", "resets=20%,500s=20%,cut=5%", 400, 30.0, 1.9),
        # A busy machine takes longer for an attempt.
        pytest.param("3", f"{LIGHT},hang=1%", 400, 1.0, 1.17, marks=pytest.mark.alone),
    ],
)
async def test_a_faulty_network_loses_no_row(
    row: str,
    faults: str,
    campaigns: int,
    attempt_timeout: float,
    amplification: float,
    seed: int,
    check: Check,
) -> None:
    attempts: list[Attempt] = []
    sockets = open_sockets()
    tasks = len(asyncio.all_tasks())
    settings = Settings(attempt_timeout=attempt_timeout, page_size=None)
    service = Sandbox(campaigns=campaigns, keywords=ROWS, default_limit=2, faults=faults, seed=seed)
    async with service as sandbox:
        client = SeoRepClient(
            sandbox.base_url, sandbox.api_key, settings=settings, on_attempt=attempts.append
        )
        async with client:
            results = await results_of(client, campaigns)
            permits = client.stats.in_flight
        requests = sandbox.stats.requests
    for campaign_id in range(1, campaigns + 1):
        report: Any = results[campaign_id]
        first_id = campaign_id * 100_000 + 1
        assert [row.keyword_id for row in report.rows] == [*range(first_id, first_id + ROWS)]
    left_over = permits + open_sockets() - sockets + len(asyncio.all_tasks()) - tasks
    check(
        row,
        faults,
        amplification=(requests / (campaigns * ROWS / 2), amplification),
        left_over=(left_over, 0),
        longest_attempt_s=(max(attempt.seconds for attempt in attempts), attempt_timeout + 0.1),
    )


@pytest.mark.parametrize("share", ["100%", "40%"])
async def test_reads_survive_a_server_that_closes_connections(share: str) -> None:
    async with (
        Sandbox(campaigns=20, faults=f"closes={share}") as sandbox,
        SeoRepClient(sandbox.base_url, sandbox.api_key) as client,
    ):
        await asyncio.gather(*(client.campaigns.get(1 + number % 20) for number in range(300)))


@pytest.mark.virtual
@pytest.mark.parametrize("latency", [0.002, 0.02])
async def test_no_request_starts_in_an_announced_wait(latency: float) -> None:
    service = SimulatedService("200/s,burst=40,retry-after=seconds", latency=latency)
    async with session_above(service) as session:
        assert await pull(session, 3000) == []
        assert here().now <= 1.8 * (3000 - 40) / 200
    assert service.attempts <= 1.02 * 3000
    for begin, end in service.announced:
        # Those that started just before arrive a little later.
        assert not [start for start in service.started if begin < start < end - 1e-6]


@pytest.mark.virtual
async def test_a_rate_limit_and_faults_together_lose_nothing() -> None:
    chance = random.Random(7)
    broken = Failure(Sent.MAYBE, Cause.TRANSIENT, ConnectionFailedError("reset"))

    def answer(request: ApiRequest) -> Any:
        return chance.choices([200, 500, broken], [88, 5, 7])[0]

    service = SimulatedService(Limited("200/s,burst=40"), says=answer)
    async with session_above(service) as session:
        assert await pull(session, 3000) == []
    assert service.attempts <= 1.2 * 3000


@pytest.mark.virtual
@pytest.mark.parametrize("is_whole", [False, True], ids=["one page", "everything"])
@pytest.mark.parametrize(
    ("reply", "options"),
    [
        pytest.param(403, {}, id="403"),
        pytest.param(404, {}, id="404"),
        pytest.param(408, {}, id="408"),
        pytest.param(429, {}, id="429"),
        pytest.param(500, {}, id="500"),
        pytest.param(502, {}, id="502"),
        pytest.param(503, {}, id="503"),
        pytest.param(None, {}, id="silence"),
        pytest.param(b"", {}, id="no JSON"),
        pytest.param(429, {"retry_after": 1}, id="429, Retry-After: 1"),
        pytest.param(503, {"retry_after": 3600}, id="503, Retry-After: 3600"),
        pytest.param(report_page([1], 9, 9), {"latency": 0.4}, id="slow"),
        pytest.param(None, {"down": (0, 1e9), "outage": "refused"}, id="refused"),
        pytest.param(None, {"down": (0, 1e9), "outage": "reset"}, id="reset"),
    ],
)
async def test_a_call_with_one_second_ends_in_time(
    reply: Any, options: dict[str, Any], is_whole: bool
) -> None:
    service = SimulatedService(says=lambda path: reply, **options)
    async with rankings_of(service) as (session, rankings):
        report = rankings.campaign(1, *JANUARY)
        with session.call_timeout.limit(1.0), suppress(SeoRepError):
            await (report if is_whole else report.page(1))
        assert here().now <= 1.1
    assert max(service.started) <= 1.0
