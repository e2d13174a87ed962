"""Rows 12, 21 and 26: closed connections, cancelled calls, calls with a short time limit."""

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from seorep_async import SeoRepClient, SeoRepError, Settings
from tests.faults.conftest import Check
from tests.faults.run import JANUARY, KEY, load_of_the_machine, open_sockets
from tests.faults.server import CUTS, LIGHT, Limit, Outage, Plan, ServerProcess

pytestmark = pytest.mark.heavy

slow = pytest.mark.slow
alone = pytest.mark.alone
ENDLESS = float("inf")


async def call(client: SeoRepClient, unit: int = 1) -> SeoRepError | None:
    """Make a call of one request, and return its error."""
    try:
        await client.rankings.campaign(unit, *JANUARY).page(1)
    except SeoRepError as error:
        return error
    return None


# --- Row 12


@pytest.mark.parametrize("share", [1.0, 0.4], ids=["always", "at random"])
async def test_reads_survive_a_server_that_closes_connections(
    share: float, server: ServerProcess, check: Check
) -> None:
    fault = f"closed after {share:.0%} of the answers"
    with server.serving(Plan(faults={"closes": share})) as served:
        async with SeoRepClient(served.base_url, KEY) as client:
            calls = [call(client, 1 + number % 20) for number in range(300)]
            results = await asyncio.gather(*calls)
            attempts = client.stats.attempts
    check(
        "12",
        fault,
        errors=(len(results) - results.count(None), 0),
        counts_differ_by=(abs(attempts - served.history.requests), 0),
    )


# --- Row 21


@pytest.mark.parametrize(("cancels", "slack"), [(60, ENDLESS), pytest.param(1000, 1.0, marks=slow)])
async def test_cancelling_at_any_moment_leaves_nothing_behind(
    cancels: int, slack: float, server: ServerProcess, check: Check
) -> None:
    chance = random.Random(21)
    load = load_of_the_machine()
    seconds_to_cancel = []
    plan = Plan(units=400, pages=3, latency=0.002, faults=LIGHT)
    with server.serving(plan) as served:
        sockets_before = open_sockets()
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
                # Any await may be the one that is cancelled.
                for _ in range(chance.randint(0, 60)):
                    await asyncio.sleep(0)
                await asyncio.sleep(chance.choice([0.0, 0.001, 0.01, 0.05]) * chance.random())
                begun = time.monotonic()
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                seconds_to_cancel.append(time.monotonic() - begun)

            for _ in range(cancels // 4):
                await asyncio.gather(*(until_cancelled() for _ in range(4)))
            in_flight = client.stats.in_flight
            tasks = len(asyncio.all_tasks()) - 1
            after = await seconds_of_100_calls(client)
        async with SeoRepClient(served.base_url, KEY) as fresh:
            before = await seconds_of_100_calls(fresh)
        sockets = open_sockets() - sockets_before
    check(
        "21",
        f"{cancels} cancels at random",
        load=load,
        permits_kept=(in_flight, 0),
        tasks_left=(tasks, 0),
        sockets_left=(sockets + served.history.open_connections, 0),
        seconds_to_cancel=(max(seconds_to_cancel), 0.1 * slack),
        next_100_calls_against_a_fresh_client=(after / before, 2.0 * slack),
    )


async def seconds_of_100_calls(client: SeoRepClient) -> float:
    """Return the seconds that 100 calls take.

    It is the best of three times, because faults and the machine disturb some.
    """
    best = ENDLESS
    for _ in range(3):
        begun = time.monotonic()
        calls = [call(client, unit) for unit in range(1, 101)]
        errors = await asyncio.gather(*calls)
        best = min(best, time.monotonic() - begun)
        assert set(errors) == {None}
    return best


# --- Row 26

BROKEN = ("reset", "closed", "hang", "drip", "closes", *CUTS)
OUTAGES: list[Any] = ["503", "hang", "reset", "refused"]
STATUSES = ("403", "404", "408", "429", "500", "502", "503", "504")
ALWAYS = {fault: Plan(faults={fault: 1.0}) for fault in (*BROKEN, *STATUSES)}
DOWN = {f"outage: {kind}": Plan(outage=Outage(kind, 0, ENDLESS)) for kind in OUTAGES}
PLANS: dict[str, Plan] = ALWAYS | DOWN
PLANS |= {
    "1/s, Retry-After: 1": Plan(limit=Limit(1, 1, "seconds", 1)),
    "1/s, Retry-After: 3600": Plan(limit=Limit(1, 1, "seconds", 3600)),
    "1/s, Retry-After as a date": Plan(limit=Limit(1, 1, "date", 2)),
    "1/s": Plan(limit=Limit(1, 1)),
    "slow": Plan(latency=0.4),
}
CALLS: dict[str, Any] = {
    "one page": lambda client: client.rankings.campaign(1, *JANUARY).page(1),
    "everything": lambda client: client.rankings.campaign(1, *JANUARY),
}


def cases() -> Iterator[Any]:
    """Yield each call under each plan, with its limit in seconds. All but one of them are slow."""
    for fault, name in product(PLANS, CALLS):
        if (fault, name) == ("hang", "everything"):
            # A busy machine wakes a process late. Without a deadline, the call would take the 30
            # seconds of an attempt, so this bound is broken only by a real fault.
            yield pytest.param(fault, name, 10.0, marks=alone)
        yield pytest.param(fault, name, 1.1, marks=slow)


@pytest.mark.parametrize(("fault", "name", "limit"), list(cases()))
async def test_a_call_with_one_second_ends_in_time(
    fault: str, name: str, limit: float, server: ServerProcess, check: Check
) -> None:
    load = load_of_the_machine()
    settings = Settings(call_timeout=1.0)
    with server.serving(PLANS[fault]) as served:
        async with SeoRepClient(served.base_url, KEY, settings=settings) as client:
            begun = time.monotonic()
            with suppress(SeoRepError):
                await CALLS[name](client)
            seconds = time.monotonic() - begun
    starts = [request.time - begun for request in served.history.seen]
    check(
        "26",
        f"a 1 s deadline under any fault, {name}",
        load=load,
        seconds=(seconds, limit),
        last_attempt_started_after_s=(max(starts, default=0.0), limit),
    )
