"""Bodies of ranking pages, as the sandbox words them."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgspec

from benchmarks.load import END_DATE, PATH, START_DATE, Load
from seorep_async.sandbox import Sandbox


def build(load: Load) -> list[list[bytes]]:
    """Return the pages of each campaign that has its own."""
    return asyncio.run(_build(load))


def page(rows: int, *, older: bool = False, unknown: bool = False) -> bytes:
    """Return one page of so many rows."""
    return build(Load(campaigns=1, pages=1, rows=rows, older=older, unknown=unknown))[0][0]


def openapi() -> bytes:
    """Return the description that the sandbox gives of itself."""
    return asyncio.run(_openapi())


async def _build(load: Load) -> list[list[bytes]]:
    sandbox = Sandbox(
        campaigns=load.distinct,
        keywords=load.rows * load.pages,
        rows="older" if load.older else "current",
        default_limit=load.rows,
        max_limit=load.rows,
    )
    campaigns = []
    async with sandbox, _session(sandbox) as session:
        for campaign in range(1, load.distinct + 1):
            asked = {"campaign_id": campaign, "start_date": START_DATE, "end_date": END_DATE}
            pages = []
            for number in range(1, load.pages + 1):
                query = asked | {"page": number, "compare_previous_period": "true"}
                body = await _get(session, f"{sandbox.base_url}{PATH}", query)
                pages.append(_with_unknown(body) if load.unknown else body)
            campaigns.append(pages)
    return campaigns


async def _openapi() -> bytes:
    async with Sandbox(campaigns=1) as sandbox, _session(sandbox) as session:
        return await _get(session, f"{sandbox.base_url}/openapi.json", {})


def _session(sandbox: Sandbox) -> aiohttp.ClientSession:
    key = aiohttp.encode_basic_auth("", sandbox.api_key)
    return aiohttp.ClientSession(headers={"Authorization": key}, raise_for_status=True)


async def _get(session: aiohttp.ClientSession, url: str, query: dict[str, Any]) -> bytes:
    async with session.get(url, params=query) as answer:
        return await answer.read()


def _with_unknown(body: bytes) -> bytes:
    answer = msgspec.json.decode(body)
    for row in answer["data"]["rows"]:
        row["type"] = "real"
    return msgspec.json.encode(answer)
