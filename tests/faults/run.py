"""Pull with a client, and measure both sides."""

import asyncio
import contextlib
import os
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import attrs

from seorep_async import (
    Attempt,
    AuthenticationError,
    RankingReport,
    SeoRepClient,
    SeoRepError,
    Settings,
)
from tests.faults.server import History, Plan, ServerProcess

KEY = "canary-7f3d"
JANUARY = ("2023-01-01", "2023-01-31")
Results: TypeAlias = dict[int, RankingReport[Any] | SeoRepError | None]

_MOST_SECONDS = 300.0


@asynccontextmanager
async def opened(
    base_url: str, settings: Settings, ca: bytes | None = None, key: str = KEY, **options: Any
) -> AsyncIterator[SeoRepClient]:
    """Open a client, for https with a certificate authority that it trusts."""
    if ca is None:
        async with SeoRepClient(base_url, key, settings=settings, **options) as client:
            yield client
        return
    trust = ssl.create_default_context(cadata=ca.decode())
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust, limit=0)) as session,
        SeoRepClient(base_url, key, settings=settings, session=session, **options) as client,
    ):
        yield client


async def results_of(client: SeoRepClient, campaigns: int) -> Results:
    """Pull the campaigns from 1 on, and return the report or the error of each."""
    results: Results = {}
    # A key that is refused for everything raises at the end.
    with contextlib.suppress(AuthenticationError):
        async with client.rankings.pull(range(1, campaigns + 1), *JANUARY) as outcomes:
            async for outcome in outcomes:
                results[outcome.id] = outcome.error or outcome.report
    return results


@attrs.frozen(kw_only=True)
class Run:
    """A pull of all units of a plan.

    `reports` has the row keys of each unit that ended well, in order. `left_over` counts tasks,
    permits, sockets and connections. `load` is the machine's for each of its processors.
    """

    plan: Plan
    history: History
    reports: dict[int, list[int]]
    failed: int
    seconds: float
    left_over: int
    longest_attempt: float
    load: float

    @property
    def lost_or_double(self) -> int:
        """Missing and repeated rows of units without an error, and units without an outcome."""
        delivered: Counter[int] = Counter()
        expected: Counter[int] = Counter()
        for unit, keys in self.reports.items():
            delivered.update(keys)
            expected.update(self.plan.keywords(unit))
        missing = (expected - delivered).total()
        repeated = (delivered - expected).total()
        without_outcome = self.plan.units - len(self.reports) - self.failed
        return missing + repeated + without_outcome

    @property
    def never_served(self) -> int:
        """Pages of successful units that the server never served completely."""
        pages = set(product(self.reports, range(1, self.plan.pages + 1)))
        return len(pages - self.history.served)

    @property
    def amplification(self) -> float:
        return self.history.requests / self.plan.pages_needed


def pull(process: ServerProcess, plan: Plan, settings: Settings) -> Run:
    """Pull all units of a plan, in an event loop of its own."""
    return asyncio.run(_pull(process, plan, settings))


async def _pull(process: ServerProcess, plan: Plan, settings: Settings) -> Run:
    load = load_of_the_machine()
    attempts: list[Attempt] = []
    with process.serving(plan) as served:
        sockets_before = open_sockets()
        begun = time.monotonic()
        async with asyncio.timeout(_MOST_SECONDS):
            async with opened(served.base_url, settings, on_attempt=attempts.append) as client:
                results = await results_of(client, plan.units)
                in_flight = client.stats.in_flight
        seconds = time.monotonic() - begun
        tasks = len(asyncio.all_tasks()) - 1
        sockets = open_sockets() - sockets_before
    reports: dict[int, list[int]] = {}
    for unit, result in results.items():
        if isinstance(result, RankingReport):
            reports[unit] = [row.keyword_id for row in result.rows]
    return Run(
        plan=plan,
        history=served.history,
        reports=reports,
        failed=len(results) - len(reports),
        seconds=seconds,
        left_over=in_flight + tasks + sockets + served.history.open_connections,
        longest_attempt=max((attempt.seconds for attempt in attempts), default=0.0),
        load=load,
    )


def open_sockets() -> int:
    """Count the sockets that this process has open."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            count += os.readlink(descriptor).startswith("socket:")
        except OSError:
            continue
    return count


def load_of_the_machine() -> float:
    """Return the load average over the last minute, for each processor."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)
