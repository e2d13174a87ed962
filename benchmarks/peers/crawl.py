"""Fetching all pages of all campaigns from a pool of workers: the leanest way by hand."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from benchmarks.load import Load

T = TypeVar("T")

Fetch: TypeAlias = Callable[[int, int], Awaitable[tuple[T, int]]]
"""Fetches a page of a campaign; gives its rows or how many it has, and how many pages there are."""


async def crawl(fetch: Fetch[int], load: Load) -> int:
    """Fetch the first page of every campaign, then all others, and count the rows."""
    rows, rest = 0, list[tuple[int, int]]()

    async def work(jobs: Iterable[tuple[int, int]]) -> None:
        nonlocal rows
        for campaign, page in jobs:
            came, pages = await fetch(campaign, page)
            rows += came
            if page == 1:
                rest.extend((campaign, number) for number in range(2, pages + 1))

    first = iter([(campaign, 1) for campaign in range(1, load.campaigns + 1)])
    await asyncio.gather(*(work(first) for _ in range(load.permits)))
    others = iter(rest)
    await asyncio.gather(*(work(others) for _ in range(load.permits)))
    return rows


async def crawl_whole(fetch: Fetch[list[Any]], load: Load) -> int:
    """Fetch one campaign after the other, keep the rows of each until it is whole, and count them."""
    rows = 0
    campaigns = iter(range(1, load.campaigns + 1))
    pages = deque[tuple[int, int]]()
    parts: dict[int, list[list[Any]]] = {}

    async def work() -> None:
        nonlocal rows
        while job := pages.popleft() if pages else next(((one, 1) for one in campaigns), None):
            campaign, page = job
            came, last = await fetch(campaign, page)
            parts.setdefault(campaign, []).append(came)
            if page == 1:
                pages.extend((campaign, number) for number in range(2, last + 1))
            if len(parts[campaign]) == last:
                rows += sum(map(len, parts.pop(campaign)))

    await asyncio.gather(*(work() for _ in range(load.permits)))
    return rows
