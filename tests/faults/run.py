"""A client's run against a fault server, and what both sides have to say about it afterwards."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import attrs

from seorep_async import SeoRepClient, SeoRepError, Settings, Stats
from tests.faults.plan import History, Plan
from tests.faults.server import ServerProcess

KEY = "canary-7f3d"
JANUARY = ("2023-01-01", "2023-01-31")

_MOST_SECONDS = 300.0


@attrs.frozen(kw_only=True)
class Run:
    """A pull of all units of a plan.

    Attributes:
        delivered: how often each row was delivered, by its key.
        reports: row keys of each unit that ended well, in the order in which they were delivered.
        errors: of the units that failed.
        seconds: how long it took, from the opening of the client to its closing.
        stats: the client's own figures.
        tasks_left: tasks that were still there after the client was closed.
        sockets_left: sockets that were still open then, in our process.
        attempt_seconds: how long each attempt took.
        load: the machine's load average over the last minute, for each of its processors.
    """

    plan: Plan
    history: History
    delivered: Counter[int]
    reports: dict[int, list[int]]
    errors: dict[int, SeoRepError]
    seconds: float
    stats: Stats
    tasks_left: int
    sockets_left: int
    attempt_seconds: tuple[float, ...]
    load: float

    @property
    def lost_or_double(self) -> int:
        """Rows that are missing or came twice, in units without an error; and units of which nothing was heard."""
        wanted = Counter(
            key
            for unit in range(1, self.plan.units + 1)
            if unit not in self.errors
            for key in self.plan.unit_keywords(unit)
        )
        wrong = (wanted - self.delivered).total() + (self.delivered - wanted).total()
        return wrong + self.plan.units - len(self.reports) - len(self.errors)

    @property
    def never_served(self) -> int:
        """Pages of units that ended well which the server never served whole."""
        served = self.history.served
        return sum((unit, page) not in served for unit in self.reports for page in range(1, self.plan.pages + 1))

    @property
    def amplification(self) -> float:
        """Requests that the server counted for each page needed."""
        return self.history.requests / self.plan.pages_needed

    @property
    def left_over(self) -> int:
        """Tasks, permits, sockets and connections that are left."""
        return self.tasks_left + self.stats.in_flight + self.sockets_left + self.history.open_connections

    @property
    def longest_attempt(self) -> float:
        """Seconds that the longest attempt took."""
        return max(self.attempt_seconds, default=0.0)


def pull(process: ServerProcess, plan: Plan, settings: Settings | None = None, ca: bytes | None = None) -> Run:
    """Pull all units of a plan, in an event loop of its own.

    Args:
        ca: certificate of the authority to trust, in PEM, if the plan is served over https.
    """
    return asyncio.run(_pull(process, plan, settings or Settings(), ca))


async def _pull(process: ServerProcess, plan: Plan, settings: Settings, ca: bytes | None) -> Run:
    load = load_of_the_machine()
    reports: dict[int, list[int]] = {}
    errors: dict[int, SeoRepError] = {}
    with process.serving(plan) as served:
        sockets = open_sockets()
        begun = time.monotonic()
        async with asyncio.timeout(_MOST_SECONDS), opened(served.base_url, settings, ca) as client:
            durations = watch_attempts(client)
            async with client.rankings.pull(range(1, plan.units + 1), *JANUARY) as outcomes:
                async for outcome in outcomes:
                    if outcome.report is not None:
                        reports[outcome.id] = [row.keyword_id for row in outcome.report.rows]
                    else:
                        assert outcome.error is not None
                        errors[outcome.id] = outcome.error
            stats = client.stats
        seconds = time.monotonic() - begun
        tasks, sockets = len(asyncio.all_tasks()) - 1, open_sockets() - sockets
    return Run(
        plan=plan,
        history=served.history,
        delivered=Counter(key for keys in reports.values() for key in keys),
        reports=reports,
        errors=errors,
        seconds=seconds,
        stats=stats,
        tasks_left=tasks,
        sockets_left=sockets,
        load=load,
        attempt_seconds=tuple(durations),
    )


@asynccontextmanager
async def opened(
    base_url: str, settings: Settings, ca: bytes | None = None, key: str = KEY
) -> AsyncIterator[SeoRepClient]:
    """Open a client, for https with an authority that is trusted."""
    if ca is None:
        async with SeoRepClient(base_url, key, settings=settings) as client:
            yield client
        return
    trust = ssl.create_default_context(cadata=ca.decode())
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust, limit=0)) as session,
        SeoRepClient(base_url, key, settings=settings, session=session) as client,
    ):
        yield client


def watch_attempts(client: SeoRepClient) -> list[float]:
    """Note how long every attempt of a client takes, in a list that fills up."""
    durations: list[float] = []
    transport = client._session._transport
    attempt = transport.attempt

    async def timed(request: object, remaining: float, may_reuse: bool) -> object:
        begun = time.monotonic()
        try:
            return await attempt(request, remaining, may_reuse)  # type: ignore[arg-type]
        finally:
            durations.append(time.monotonic() - begun)

    transport.attempt = timed  # type: ignore[method-assign,assignment]
    return durations


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
