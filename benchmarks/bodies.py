"""Bodies of ranking pages, as the sandbox sends them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import aiohttp

from benchmarks.load import END_DATE, PATH, START_DATE, Load
from seorep_async.sandbox import Sandbox

Rows = Literal["current", "older"]

PATHS = {
    "campaign": PATH,
    "campaign-by-date": f"{PATH}/date",
    "keyword-by-date": "/v3/resources/rankings/keyword/date",
}
"""The path of each feed."""

_IDS = {
    "campaign": "campaign_id",
    "campaign-by-date": "campaign_id",
    "keyword-by-date": "keyword_id",
}
_FIRST_KEYWORD = 100_001


def build(load: Load) -> list[list[bytes]]:
    """Return the pages of each campaign that has bodies of its own."""
    return asyncio.run(_build(load))


def page(rows: int, feed: str = "campaign", variant: Rows = "current") -> bytes:
    """Return one page of a feed with this number of rows."""
    return asyncio.run(_page(rows, feed, variant))


async def _build(load: Load) -> list[list[bytes]]:
    campaigns = []
    async with _sandbox(load.distinct, load.rows * load.pages, load.rows, "current") as get:
        for campaign in range(1, load.distinct + 1):
            query = {"campaign_id": campaign, "start_date": START_DATE, "end_date": END_DATE}
            query["compare_previous_period"] = "true"
            campaigns.append(
                [await get(PATH, query | {"page": number}) for number in range(1, load.pages + 1)]
            )
    return campaigns


async def _page(rows: int, feed: str, variant: Rows) -> bytes:
    query: dict[str, Any] = {_IDS[feed]: _FIRST_KEYWORD if feed == "keyword-by-date" else 1}
    first_year = 2022 - rows // 12  # a row for each month
    query |= {
        "start_date": f"{first_year}-01-01" if feed != "campaign" else START_DATE,
        "end_date": END_DATE,
    }
    async with _sandbox(1, rows if feed == "campaign" else 1, rows, variant) as get:
        body: bytes = await get(PATHS[feed], query | {"compare_previous_period": "true"})
        return body


@asynccontextmanager
async def _sandbox(campaigns: int, keywords: int, limit: int, variant: Rows) -> AsyncIterator[Any]:
    """Start a sandbox, and yield a function that fetches a body from it."""
    sandbox = Sandbox(
        campaigns=campaigns, keywords=keywords, rows=variant, default_limit=limit, max_limit=limit
    )
    key = aiohttp.encode_basic_auth("", sandbox.api_key)
    async with (
        sandbox,
        aiohttp.ClientSession(headers={"Authorization": key}, raise_for_status=True) as session,
    ):

        async def get(path: str, query: dict[str, Any]) -> bytes:
            async with session.get(f"{sandbox.base_url}{path}", params=query) as response:
                return await response.read()

        yield get
