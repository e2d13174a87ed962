"""Ordering, and the limits of a page. `requests.txt` has searches and filters."""

import tracemalloc
from typing import Any

import pytest

from tests.sandbox.calls import (
    CAMPAIGN,
    CAMPAIGNS,
    FEEDS,
    KEYWORD_BY_DATE,
    LINKS,
    calling,
    rows_of,
)


@pytest.mark.parametrize("direction", ["asc", "DESC"])
@pytest.mark.parametrize(
    ("path", "field"),
    [
        (CAMPAIGN, "engineARanking"),
        (CAMPAIGN, "lastEngineAPlacesRankingDate"),
        (KEYWORD_BY_DATE, "date"),
        (KEYWORD_BY_DATE, "engineAPlacesRanking"),
        (CAMPAIGNS, "company"),
        (CAMPAIGNS, "date_modified"),
        (LINKS, "domain_authority"),
        (LINKS, "date_published"),
    ],
)
async def test_results_are_sorted_nulls_last_ties_kept_before_paging(
    path: str, field: str, direction: str
) -> None:
    query = FEEDS.get(path, {"campaign_id": 2})
    if path == CAMPAIGNS:
        sort = {"order_by": field, "order_direction": direction}
    else:
        sort = {"sort_metric": field, "sort_direction": direction}
    ordered: list[Any] = []
    async with calling(campaigns=50, backlinks=50) as call:
        unordered = rows_of(await call.get(path, **query, limit=50))
        for number in (1, 2, 3):
            page = await call.get(path, **query, **sort, limit=20, page=number)
            ordered += rows_of(page)
    with_value = [record for record in unordered if record[field] is not None]
    without_value = [record for record in unordered if record[field] is None]
    with_value.sort(key=lambda record: record[field], reverse=direction == "DESC")
    assert ordered == with_value + without_value


@pytest.mark.parametrize(
    ("limit", "records"), [({}, 25), ({"limit": 30}, 30), ({"limit": 60}, 60), ({"limit": 61}, 60)]
)
@pytest.mark.parametrize("path", [CAMPAIGN, "/v3/keywords"])
async def test_a_limit_has_a_default_and_a_maximum(
    path: str, limit: dict[str, Any], records: int
) -> None:
    async with calling(keywords=100, max_limit=60) as call:
        page = await call.get(path, **FEEDS.get(path, {"campaign_id": 1}), **limit)
    assert len(rows_of(page)) == records
    assert page["metadata"] == {"total_pages": -(-100 // records), "total_records": 100}


async def test_a_page_of_many_keywords_needs_little_memory() -> None:
    async with calling(campaigns=21_473, keywords=2000) as call:
        tracemalloc.start()
        try:
            page = await call.get("/v3/keywords", limit=1, page=40_000_000)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert page["metadata"]["total_records"] == 21_473 * 2000
    assert [keyword["id"] for keyword in page["data"]] == [2_000_002_000]
    assert peak < 30_000_000
