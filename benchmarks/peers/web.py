"""aiohttp by hand: a session with the key, and one page at a time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import aiohttp

from benchmarks.load import AUTHORIZATION, END_DATE, PATH, START_DATE, Load
from benchmarks.peers.crawl import Fetch

T = TypeVar("T")

Decode: TypeAlias = Callable[[bytes], tuple[T, int]]
"""Decodes a body; gives its rows or how many it has, and how many pages there are."""

Crawl: TypeAlias = Callable[[Fetch[T], Load], Awaitable[int]]


def pull(address: str, load: Load, decode: Decode[T], order: Crawl[T]) -> int:
    """Pull a load in an order, and drop what was decoded once it is counted."""
    return asyncio.run(_pull(address, load, decode, order))


async def _pull(address: str, load: Load, decode: Decode[T], order: Crawl[T]) -> int:
    connector = aiohttp.TCPConnector(limit=load.permits)
    headers = {"Authorization": AUTHORIZATION, "Accept": "application/json"}
    async with aiohttp.ClientSession(connector=connector, headers=headers, raise_for_status=True) as session:

        async def fetch(campaign: int, page: int) -> tuple[T, int]:
            query = f"campaign_id={campaign}&start_date={START_DATE}&end_date={END_DATE}&page={page}"
            async with session.get(f"{address}{PATH}?{query}") as answer:
                return decode(await answer.read())

        return await order(fetch, load)
