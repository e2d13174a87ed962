"""Campaigns, keywords and numbers made by hand, which the sandbox never gives: served by a scripted API."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs

from seorep_async import SeoRepClient
from tests.scripted_api import Asked, serving

TOO_LARGE = 2**70


@attrs.define
class Made:
    """What the service answers.

    Attributes:
        keywords: the keywords of each campaign, in the campaign feed.
        competitors: what the campaign feed tells of each keyword; 1 if it is not named.
        totals: the ranking in the totals of each campaign's feed by date; None if it is not named.
        gone: keywords whose feed is a 404.
        failing: campaigns whose feeds are a 404.
        asked: campaigns and keywords that were asked for.
        revoked_after: requests after which the key is refused, or None.
    """

    keywords: dict[int, list[int]]
    competitors: Mapping[int, int] = attrs.field(factory=dict)
    totals: Mapping[int, int] = attrs.field(factory=dict)
    gone: set[int] = attrs.field(factory=set)
    failing: set[int] = attrs.field(factory=set)
    asked: list[str] = attrs.field(factory=list)
    revoked_after: int | None = None

    def answer(self, asked: Asked) -> object:
        id_ = None if asked.path == "/v3/campaigns" else asked.id
        self.asked.append("campaigns" if id_ is None else str(id_))
        if self.revoked_after is not None and len(self.asked) > self.revoked_after:
            return 403
        if id_ is None:
            campaigns = [{"id": one, "account_id": 1, "url": "u", "company": "c"} for one in self.keywords]
            return {"metadata": {"total_pages": 1, "total_records": len(campaigns)}, "data": campaigns}
        if id_ in self.failing and "/campaign" in asked.path:
            return 404
        totals: object = False
        rows: list[dict[str, Any]] = [{"date": "2023-01"}]
        if asked.path.endswith("/campaign"):
            rows = [
                {"keywordId": one, "keywordPhrase": f"keyword {one}", "competitors": self.competitors.get(one, 1)}
                for one in self.keywords[id_]
            ]
        elif asked.path.endswith("/keyword/date"):
            if id_ in self.gone:
                return 404
        elif id_ in self.totals:
            totals = {"engineARanking": {"value": self.totals[id_]}}
        return {"metadata": {"total_pages": 1, "total_records": len(rows)}, "data": {"rows": rows, "totals": totals}}


@asynccontextmanager
async def made(keywords: dict[int, list[int]], **options: Any) -> AsyncIterator[tuple[Made, SeoRepClient]]:
    service = Made(keywords, **options)
    async with serving(service.answer) as (client, _):
        yield service, client
