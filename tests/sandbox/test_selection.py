"""Filtering, ordering, and the limits of a page."""

import tracemalloc
from typing import Any

import pytest

from tests.sandbox.calls import (
    BACKLINKS,
    CAMPAIGN,
    CAMPAIGNS,
    FEEDS,
    KEYWORD_BY_DATE,
    LINKS,
    USERS,
    Caller,
    calling,
    rows_of,
)


@pytest.mark.parametrize("name", ["filter", "search"])
async def test_the_campaign_feed_is_searched_by_either_name(name: str, call: Caller) -> None:
    every_row = await call.feed(CAMPAIGN)
    search = every_row[0]["keywordPhrase"][1:]
    rows = await call.feed(CAMPAIGN, **{name: search.upper()})
    assert rows == [row for row in every_row if search in row["keywordPhrase"]]


async def test_filter_and_search_must_both_be_met(call: Caller) -> None:
    rows = await call.feed(KEYWORD_BY_DATE, filter="2022-1", search="2")
    assert [row["date"] for row in rows] == ["2022-10", "2022-11", "2022-12"]


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


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (CAMPAIGNS, "company"),
        (CAMPAIGNS, "url"),
        (USERS, "first_name"),
        (USERS, "last_name"),
        (USERS, "username"),
        (USERS, "email"),
        (BACKLINKS, "title"),
        (BACKLINKS, "url"),
        (BACKLINKS, "notes"),
    ],
)
async def test_records_are_found_by_part_of_a_field_in_any_case(
    path: str, field: str, call: Caller
) -> None:
    created = await call.create(path, **{field: "x-Ünlikely-x"})
    if path == BACKLINKS:
        page = await call.get(LINKS, search="ÜNLIKELY", campaign_id=2, limit=1)
    else:
        page = await call.get(path, filter="ÜNLIKELY", limit=1)
    assert [record["id"] for record in page["data"]] == [created["id"]]
    assert page["metadata"]["total_records"] == 1


async def test_keywords_of_a_campaign_are_those_listed_with_its_id(call: Caller) -> None:
    every_keyword = await call.data("/v3/keywords", limit=500)
    keywords = await call.data("/v3/keywords", limit=500, campaign_id=4)
    assert keywords == [keyword for keyword in every_keyword if keyword["campaign_id"] == 4]
    assert len(keywords) == 40


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


# --- The list of a campaign's backlinks


MANY = {"backlinks": 40, "max_limit": 100, "default_limit": 100}


async def listed(call: Any, **query: Any) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = await call.data(LINKS, campaign_id=2, **query)
    return records


async def test_the_list_is_narrowed_by_fields() -> None:
    queries = [
        {"status": "published"},
        {"status": "unpublished"},
        {"link_type": "guest post"},
        {"status": "published", "link_type": "guest post"},
    ]
    async with calling(**MANY) as call:
        every_backlink = await listed(call)
        assert len(every_backlink) == 40
        assert await listed(call, link_type="all") == every_backlink
        for query in queries:
            backlinks = await listed(call, **query)
            assert 0 < len(backlinks) < 40
            matching = [
                backlink for backlink in every_backlink if query.items() <= backlink.items()
            ]
            assert backlinks == matching


@pytest.mark.parametrize("dash", ["-", " - ", " -", "  -  "])
async def test_the_list_is_narrowed_to_days_of_publication(dash: str) -> None:
    async with calling(**MANY) as call:
        every_backlink = await listed(call)
        days = sorted(backlink["date_published"] for backlink in every_backlink)
        first = days[10]
        last = days[20]
        backlinks = await listed(call, date_string=f"{first}{dash}{last}")
    assert len(backlinks) >= 11
    in_range = [
        backlink for backlink in every_backlink if first <= backlink["date_published"] <= last
    ]
    assert backlinks == in_range
