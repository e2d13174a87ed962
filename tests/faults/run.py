"""Pull with a client, and count what it leaves open."""

import contextlib
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp

from seorep_async import (
    AuthenticationError,
    RankingReport,
    SeoRepClient,
    SeoRepError,
    Settings,
)
from tests.session.calls import KEY

JANUARY = ("2023-01-01", "2023-01-31")
Results: TypeAlias = dict[int, RankingReport[Any] | SeoRepError | None]


@asynccontextmanager
async def opened(
    base_url: str, ca: bytes | None = None, **settings: Any
) -> AsyncIterator[SeoRepClient]:
    """Open a client, for https with a certificate authority that it trusts."""
    if ca is None:
        async with SeoRepClient(base_url, KEY, settings=Settings(**settings)) as client:
            yield client
        return
    trust = ssl.create_default_context(cadata=ca.decode())
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust, limit=0)) as session,
        SeoRepClient(base_url, KEY, session=session, settings=Settings(**settings)) as client,
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
