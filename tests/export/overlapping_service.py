"""A service where a keyword belongs to two campaigns and another one always fails, which the sandbox has not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from seorep_async import SeoRepClient

KEYWORDS = {"1": [10, 11], "2": [11, 12]}
GONE = "12"


async def _answer(request: web.Request) -> web.Response:
    query = request.query
    rows: list[dict[str, Any]]
    if "campaign_id" in query:
        rows = [{"keywordId": id_, "keywordPhrase": f"keyword {id_}"} for id_ in KEYWORDS[query["campaign_id"]]]
    elif query["keyword_id"] == GONE:
        return web.json_response({"error": "gone"}, status=404)
    else:
        rows = [{"date": "2023-01"}]
    return web.json_response({"metadata": {"total_pages": 1, "total_records": len(rows)}, "data": {"rows": rows}})


@asynccontextmanager
async def overlapping() -> AsyncIterator[SeoRepClient]:
    app = web.Application()
    app.router.add_get("/{path:.*}", _answer)
    async with TestServer(app) as server, SeoRepClient(str(server.make_url("/")), "key") as client:
        yield client
