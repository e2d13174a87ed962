"""seorep_async: `rankings.pull` with all of its checks. Its models are counted and dropped."""

import asyncio
from collections.abc import Iterable

from benchmarks.load import API_KEY, END_DATE, START_DATE, Load
from seorep_async import SeoRepClient, Settings


def pull(address: str, load: Load) -> int:
    """Pull a load."""
    return asyncio.run(pull_rows(address, load, range(1, load.campaigns + 1)))


async def pull_rows(address: str, load: Load, ids: Iterable[int]) -> int:
    """Pull campaigns of a load in a running loop."""
    rows = 0
    async with (
        SeoRepClient(address, API_KEY, settings=Settings(max_concurrency=load.permits)) as client,
        client.rankings.pull(ids, START_DATE, END_DATE) as outcomes,
    ):
        async for outcome in outcomes:
            if outcome.report is None:
                raise outcome.error
            rows += len(outcome.report.rows)
    return rows
