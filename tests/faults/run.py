"""A client's pull, and what both sides have to say about it afterwards."""

import asyncio
import contextlib
import os
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
    with contextlib.suppress(
        AuthenticationError
    ):  # at the end, if the key is refused for everything
        async with client.rankings.pull(range(1, campaigns + 1), *JANUARY) as outcomes:
            async for outcome in outcomes:
                results[outcome.id] = outcome.error or outcome.report
    return results


@attrs.frozen(kw_only=True)
class Run:
    """A pull of all units of a plan: the row keys of each that ended well, in order, how many failed, how long it took.

    `left_over` are tasks, permits, sockets and connections, `load` is the machine's for each of its processors.
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
        """Rows that are missing or came twice, in units without an error; and units of which nothing was heard."""
        delivered = Counter(key for keys in self.reports.values() for key in keys)
        wanted = Counter(key for unit in self.reports for key in self.plan.keywords(unit))
        wrong = (wanted - delivered).total() + (delivered - wanted).total()
        return wrong + self.plan.units - len(self.reports) - self.failed

    @property
    def never_served(self) -> int:
        """Pages of units that ended well which the server never served whole."""
        served = self.history.served
        return sum(
            (unit, page) not in served
            for unit in self.reports
            for page in range(1, self.plan.pages + 1)
        )

    @property
    def amplification(self) -> float:
        return self.history.requests / self.plan.pages_needed


def pull(
    process: ServerProcess, plan: Plan, settings: Settings | None = None, ca: bytes | None = None
) -> Run:
    """Pull all units of a plan, in an event loop of its own; `ca` is the authority to trust for https."""
    return asyncio.run(_pull(process, plan, settings or Settings(), ca))


async def _pull(process: ServerProcess, plan: Plan, settings: Settings, ca: bytes | None) -> Run:
    load = load_of_the_machine()
    attempts: list[Attempt] = []
    with process.serving(plan) as served:
        sockets, begun = open_sockets(), time.monotonic()
        async with asyncio.timeout(_MOST_SECONDS):
            async with opened(served.base_url, settings, ca, on_attempt=attempts.append) as client:
                results = await results_of(client, plan.units)
                in_flight = client.stats.in_flight
        seconds = time.monotonic() - begun
        left = in_flight + len(asyncio.all_tasks()) - 1 + open_sockets() - sockets
    reports = {unit: found for unit, found in results.items() if isinstance(found, RankingReport)}
    return Run(
        plan=plan,
        history=served.history,
        reports={unit: [row.keyword_id for row in report.rows] for unit, report in reports.items()},
        failed=len(results) - len(reports),
        seconds=seconds,
        left_over=left + served.history.open_connections,
        longest_attempt=max((one.seconds for one in attempts), default=0.0),
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
