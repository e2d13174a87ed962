"""aiohttp by hand: a session with the key, and one page at a time."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import aiohttp

from benchmarks.load import AUTHORIZATION, END_DATE, PATH, START_DATE, Load
from benchmarks.peers.crawl import crawl

Decode: TypeAlias = Callable[[bytes], tuple[int, int]]
"""Decodes a body, and returns its number of rows and the number of pages."""


def pull(address: str, load: Load, decode: Decode) -> int:
    """Pull a load. Decoded rows are dropped once they are counted."""
    return asyncio.run(_pull(address, load, decode))


async def _pull(address: str, load: Load, decode: Decode) -> int:
    connector = aiohttp.TCPConnector(limit=load.permits)
    headers = {"Authorization": AUTHORIZATION, "Accept": "application/json"}
    async with aiohttp.ClientSession(
        connector=connector, headers=headers, raise_for_status=True
    ) as session:

        async def fetch(campaign: int, page: int) -> tuple[int, int]:
            query = (
                f"campaign_id={campaign}&start_date={START_DATE}&end_date={END_DATE}&page={page}"
            )
            async with session.get(f"{address}{PATH}?{query}") as answer:
                return decode(await answer.read())

        return await crawl(fetch, load)
