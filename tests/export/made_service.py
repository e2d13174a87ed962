"""Campaigns, keywords and numbers made by hand, which the sandbox never gives: served by a scripted API."""

from __future__ import annotations

import datetime as dt
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
        asked: campaigns and keywords that were asked for.
        revoked_after: requests after which the key is refused, or None.
    """

    keywords: dict[int, list[int]]
    competitors: Mapping[int, int] = attrs.field(factory=dict)
    totals: Mapping[int, int] = attrs.field(factory=dict)
    gone: set[int] = attrs.field(factory=set)
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


CAMPAIGNS = (1, 2, 3, 4)
MONTHLY = 4
"""The campaign of which the service knows months only."""
FIRST_NIGHT = dt.date(2023, 3, 24)
Key = tuple[Any, ...]


@attrs.define
class Numbered:
    """Serves numbers that change with every answer, and notes what a reader should find of them."""

    night: dt.date = FIRST_NIGHT
    failing: frozenset[int] = frozenset()
    answers: int = 0
    periods: dict[Key, dict[str, int]] = attrs.field(factory=dict)
    snapshots: dict[Key, dict[int, int]] = attrs.field(factory=dict)

    def answer(self, asked: Asked) -> object:
        if asked.path == "/v3/campaigns":
            found = [{"id": one, "account_id": 1, "url": "u", "company": f"Company {one}"} for one in CAMPAIGNS]
            return {"metadata": {"total_pages": 1, "total_records": len(found)}, "data": found}
        campaign_id = asked.id if asked.id < 10 else asked.id // 10
        if campaign_id in self.failing:
            return 404
        self.answers += 1
        rows = self.snapshot(campaign_id) if asked.path.endswith("/campaign") else self.dates(asked, campaign_id)
        return {"metadata": {"total_pages": 1, "total_records": len(rows)}, "data": {"rows": rows, "totals": False}}

    def snapshot(self, campaign_id: int) -> list[dict[str, Any]]:
        served = {campaign_id * 10 + number: self.answers * 10 + number for number in (1, 2)}
        self.snapshots[self.night, campaign_id] = served
        return [{"keywordId": id_, "keywordPhrase": f"k{id_}", "competitors": value} for id_, value in served.items()]

    def dates(self, asked: Asked, campaign_id: int) -> list[dict[str, Any]]:
        days = dict(asked.pairs)
        first, last = dt.date.fromisoformat(days["start_date"]), dt.date.fromisoformat(days["end_date"])
        window = [first + dt.timedelta(days=number) for number in range((last - first).days + 1)]
        # each night the service has no row of some day that it had one of before
        dates = (
            [f"{first:%Y-%m}"]
            if campaign_id == MONTHLY
            else [str(day) for day in window if day.day % 5 != last.day % 5]
        )
        served = {date: self.answers * 100 + number for number, date in enumerate(dates)}
        held = self.periods.setdefault((asked.path.split("/")[-2], asked.id), {})
        for date in (*dates[:1], *map(str, window)):
            held.pop(date, None)
        held.update(served)
        return [{"date": date, "competitors": value} for date, value in served.items()]
