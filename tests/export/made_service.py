"""A service whose answers are made by hand: ids and numbers that the sandbox never gives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
from aiohttp import web
from aiohttp.test_utils import TestServer

from seorep_async import SeoRepClient

TOO_LARGE = 2**70


@attrs.define
class Made:
    """What the service answers.

    Attributes:
        keywords: the keywords of each campaign, in the campaign feed.
        competitors: what the campaign feed tells of each keyword; 1 if it is not named.
        totals: the ranking in the totals of each campaign's feed by date; None if it is not named.
        gone: keywords whose feed is a 404.
        asked: campaigns and keywords that were asked for.
        revoked_after: requests after which the key is refused, or None.
    """

    keywords: dict[int, list[int]]
    competitors: Mapping[int, int] = attrs.field(factory=dict)
    totals: Mapping[int, int] = attrs.field(factory=dict)
    gone: set[int] = attrs.field(factory=set)
    asked: list[str] = attrs.field(factory=list)
    revoked_after: int | None = None

    async def answer(self, request: web.Request) -> web.Response:
        query = request.query
        self.asked.append(query.get("campaign_id") or query.get("keyword_id") or "campaigns")
        if self.revoked_after is not None and len(self.asked) > self.revoked_after:
            return web.json_response({"error": "no"}, status=403)
        totals: object = False
        rows: list[dict[str, Any]]
        if request.path == "/v3/campaigns":
            rows = [{"id": id_, "account_id": 1, "url": "u", "company": "c"} for id_ in self.keywords]
            return web.json_response({"metadata": {"total_pages": 1, "total_records": len(rows)}, "data": rows})
        if request.path.endswith("/campaign"):
            rows = [
                {"keywordId": id_, "keywordPhrase": f"keyword {id_}", "competitors": self.competitors.get(id_, 1)}
                for id_ in self.keywords[int(query["campaign_id"])]
            ]
        else:
            if int(query.get("keyword_id", 0)) in self.gone:
                return web.json_response({"error": "gone"}, status=404)
            rows = [{"date": "2023-01"}]
            ranking = self.totals.get(int(query.get("campaign_id", 0)))
            totals = False if ranking is None else {"engineARanking": {"value": ranking}}
        return web.json_response(
            {"metadata": {"total_pages": 1, "total_records": len(rows)}, "data": {"rows": rows, "totals": totals}}
        )


@asynccontextmanager
async def made(keywords: dict[int, list[int]], **options: Any) -> AsyncIterator[tuple[Made, SeoRepClient]]:
    service = Made(keywords, **options)
    app = web.Application()
    app.router.add_get("/{path:.*}", service.answer)
    async with TestServer(app) as server, SeoRepClient(str(server.make_url("/")), "key") as client:
        yield service, client
