"""Fetch all pages of all campaigns with a pool of workers, in the leanest way by hand."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from benchmarks.load import Load

Fetch: TypeAlias = Callable[[int, int], Awaitable[tuple[int, int]]]
"""Fetches a page of a campaign, and returns its number of rows and the number of pages."""


async def crawl(fetch: Fetch, load: Load) -> int:
    """Fetch the first page of every campaign, then all others, and count the rows."""
    rows, rest = 0, list[tuple[int, int]]()

    async def work(jobs: Iterable[tuple[int, int]]) -> None:
        nonlocal rows
        for campaign, page in jobs:
            page_rows, pages = await fetch(campaign, page)
            rows += page_rows
            if page == 1:
                rest.extend((campaign, number) for number in range(2, pages + 1))

    first = iter([(campaign, 1) for campaign in range(1, load.campaigns + 1)])
    await asyncio.gather(*(work(first) for _ in range(load.permits)))
    others = iter(rest)
    await asyncio.gather(*(work(others) for _ in range(load.permits)))
    return rows
