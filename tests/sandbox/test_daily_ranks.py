"""The option `daily`: ranks that change by day, so that a week can be rehearsed."""

import itertools
from typing import Any

from tests.sandbox.calls import CAMPAIGN, CAMPAIGN_BY_DATE, KEYWORD_BY_DATE, Caller, calling


def month_to(day: str) -> dict[str, str]:
    """Return the parameters of a range that ends on a day of March 2023."""
    return {"start_date": "2023-03-01", "end_date": day}


async def ranks(call: Caller, day: str, **query: Any) -> list[int | None]:
    rows = await call.feed(CAMPAIGN, **(month_to(day) | query))
    return [row["engineARanking"] for row in rows]


async def test_by_default_ranks_change_by_month_only() -> None:
    async with calling() as call:
        assert await ranks(call, "2023-03-14") == await ranks(call, "2023-03-15")


async def test_each_day_of_a_week_has_falls_and_rises() -> None:
    async with calling(daily=True, keywords=100) as call:
        week = [await ranks(call, f"2023-03-{day}") for day in range(20, 27)]
    for before, after in itertools.pairwise(week):
        ranked = [(old, new) for old, new in zip(before, after, strict=True) if old and new]
        assert sum(new > old for old, new in ranked) > 10
        assert sum(new < old for old, new in ranked) > 10


async def test_daily_feeds_of_a_keyword_agree_on_the_last_day() -> None:
    async with calling(daily=True, rows="older") as call:
        for row in await call.feed(CAMPAIGN, **month_to("2023-03-15")):
            query = month_to("2023-03-15") | {"keyword_id": row["keywordId"]}
            last = (await call.feed(KEYWORD_BY_DATE, **query))[-1]
            shared = row.keys() & last.keys()
            assert {name: row[name] for name in shared} == {name: last[name] for name in shared}


async def test_a_full_month_by_date_speaks_of_its_last_day() -> None:
    async with calling(daily=True) as call:
        months = await call.feed(CAMPAIGN_BY_DATE, start_date="2023-02-01", end_date="2023-03-15")
        february = await call.feed(CAMPAIGN_BY_DATE, start_date="2023-02-28", end_date="2023-02-28")
    assert months[0] == february[0]
