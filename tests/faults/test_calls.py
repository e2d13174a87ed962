"""Rows 12, 21 and 26: closed connections, cancelled calls, calls with little time."""

import asyncio
import random
import time
from contextlib import suppress
from typing import Any

import pytest

from seorep_async import SeoRepClient, SeoRepError, Settings
from tests.faults.conftest import Check
from tests.faults.run import JANUARY, KEY, load_of_the_machine, open_sockets
from tests.faults.server import CUTS, LIGHT, Limit, Outage, Plan, ServerProcess

pytestmark = pytest.mark.heavy

slow, alone = pytest.mark.slow, pytest.mark.alone
ENDLESS = float("inf")


async def call(client: SeoRepClient, unit: int = 1) -> SeoRepError | None:
    """Make one call that is one request, and return its error."""
    try:
        await client.rankings.campaign(unit, *JANUARY).page(1)
    except SeoRepError as error:
        return error
    return None


# --- Row 12


@pytest.mark.parametrize("share", [1.0, 0.4], ids=["always", "at random"])
async def test_a_server_that_closes_connections_costs_no_read(
    share: float, server: ServerProcess, check: Check
) -> None:
    fault = f"closed after {share:.0%} of the answers"
    with server.serving(Plan(faults={"closes": share})) as served:
        async with SeoRepClient(served.base_url, KEY) as client:
            errors = await asyncio.gather(*(call(client, 1 + number % 20) for number in range(300)))
            attempts = client.stats.attempts
    check(
        *("12", fault),
        errors=(sum(error is not None for error in errors), 0),
        counts_differ_by=(abs(attempts - served.history.requests), 0),
    )


# --- Row 21


@pytest.mark.parametrize(("cancels", "slack"), [(60, ENDLESS), pytest.param(1000, 1.0, marks=slow)])
async def test_cancelling_at_any_moment_leaves_nothing_behind(
    cancels: int, slack: float, server: ServerProcess, check: Check
) -> None:
    chance = random.Random(21)
    load, took = load_of_the_machine(), []
    plan = Plan(units=400, pages=3, latency=0.002, faults=LIGHT)
    with server.serving(plan) as served:
        sockets = open_sockets()
        async with SeoRepClient(served.base_url, KEY) as client:

            async def work() -> None:
                if chance.random() < 0.5:
                    await client.rankings.campaign(chance.randint(1, plan.units), *JANUARY)
                    return
                ids = chance.sample(range(1, plan.units + 1), 5)
                async with client.rankings.pull(ids, *JANUARY) as outcomes:
                    async for outcome in outcomes:
                        assert outcome.ok, outcome.error

            async def until_cancelled() -> None:
                task = asyncio.create_task(work())
                for _ in range(chance.randint(0, 60)):
                    await asyncio.sleep(0)  # any await may be the one that is cancelled
                await asyncio.sleep(chance.choice([0.0, 0.001, 0.01, 0.05]) * chance.random())
                begun = time.monotonic()
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                took.append(time.monotonic() - begun)

            for _ in range(cancels // 4):
                await asyncio.gather(*(until_cancelled() for _ in range(4)))
            in_flight, tasks = client.stats.in_flight, len(asyncio.all_tasks()) - 1
            after = await seconds_of_100_calls(client)
        async with SeoRepClient(served.base_url, KEY) as fresh:
            before = await seconds_of_100_calls(fresh)
        left = open_sockets() - sockets
    check(
        "21",
        f"{cancels} cancels at random",
        load=load,
        permits_kept=(in_flight, 0),
        tasks_left=(tasks, 0),
        sockets_left=(left + served.history.open_connections, 0),
        seconds_to_cancel=(max(took), 0.1 * slack),
        next_100_calls_against_a_fresh_client=(after / before, 2.0 * slack),
    )


async def seconds_of_100_calls(client: SeoRepClient) -> float:
    """Return how long 100 calls take, the best of three times, as faults and the machine disturb some."""
    best = ENDLESS
    for _ in range(3):
        begun = time.monotonic()
        errors = await asyncio.gather(*(call(client, unit) for unit in range(1, 101)))
        best = min(best, time.monotonic() - begun)
        assert not any(errors), next(filter(None, errors))
    return best


# --- Row 26

BROKEN = ("reset", "closed", "hang", "drip", "closes", *CUTS)
OUTAGES: list[Any] = ["503", "hang", "reset", "refused"]
STATUSES = ("403", "404", "408", "429", "500", "502", "503", "504")
LITTLE_TIME: dict[str, Plan] = {
    **{fault: Plan(faults={fault: 1.0}) for fault in (*BROKEN, *STATUSES)},
    **{f"outage: {kind}": Plan(outage=Outage(kind, 0, ENDLESS)) for kind in OUTAGES},
    "1/s, Retry-After: 1": Plan(limit=Limit(1, 1, "seconds", 1)),
    "1/s, Retry-After: 3600": Plan(limit=Limit(1, 1, "seconds", 3600)),
    "1/s, Retry-After as a date": Plan(limit=Limit(1, 1, "date", 2)),
    "1/s": Plan(limit=Limit(1, 1)),
    "slow": Plan(latency=0.4),
}
WAYS: dict[str, Any] = {
    "one page": lambda client: client.rankings.campaign(1, *JANUARY).page(1),
    "everything": lambda client: client.rankings.campaign(1, *JANUARY),
}


@pytest.mark.parametrize(
    ("fault", "way"),
    [
        pytest.param(fault, way, marks=alone if (fault, way) == ("hang", "everything") else slow)
        for fault in LITTLE_TIME
        for way in WAYS
    ],
)
async def test_a_call_with_one_second_ends_in_time(
    fault: str, way: str, server: ServerProcess, check: Check
) -> None:
    load = load_of_the_machine()
    with server.serving(LITTLE_TIME[fault]) as served:
        async with SeoRepClient(
            served.base_url, KEY, settings=Settings(call_timeout=1.0)
        ) as client:
            begun = time.monotonic()
            with suppress(SeoRepError):
                await WAYS[way](client)
            took = time.monotonic() - begun
    check(
        "26",
        f"a 1 s deadline under any fault, {way}",
        load=load,
        seconds=(took, 1.1),
        last_attempt_started_after_s=(
            max((seen.time - begun for seen in served.history.seen), default=0.0),
            1.01,
        ),
    )
