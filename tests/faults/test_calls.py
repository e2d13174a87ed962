"""Rows 12 and 26: closed connections, calls with a short time limit."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from seorep_async import SeoRepClient, SeoRepError, Settings
from tests.faults.conftest import Check
from tests.faults.run import JANUARY, KEY, load_of_the_machine
from tests.faults.server import CUTS, Limit, Outage, Plan, ServerProcess

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
