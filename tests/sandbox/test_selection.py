"""Filtering, ordering, and the limits of a page."""

import tracemalloc
from typing import Any

import pytest

from tests.sandbox.calls import (
    BACKLINKS,
    CAMPAIGN,
    CAMPAIGN_BY_DATE,
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
    everything = await call.feed(CAMPAIGN)
    wanted = everything[0]["keywordPhrase"][1:]
    found = await call.feed(CAMPAIGN, **{name: wanted.upper()})
    assert found == [row for row in everything if wanted in row["keywordPhrase"]]


async def test_filter_and_search_must_both_be_met(call: Caller) -> None:
    rows = await call.feed(KEYWORD_BY_DATE, filter="2022-1", search="2")
    assert [row["date"] for row in rows] == ["2022-10", "2022-11", "2022-12"]


@pytest.mark.parametrize("path", [CAMPAIGN_BY_DATE, KEYWORD_BY_DATE])
async def test_by_date_feeds_search_the_date_s_string(path: str, call: Caller) -> None:
    assert [row["date"] for row in await call.feed(path, search="-0")] == [
        f"2022-0{month}" for month in range(1, 10)
    ]


@pytest.mark.parametrize("direction", ["asc", "DESC"])
@pytest.mark.parametrize(
    ("path", "field"),
    [
        *(
            (CAMPAIGN, field)
            for field in ("engineARanking", "keywordPhrase", "lastEngineAPlacesRankingDate")
        ),
        *(
            (CAMPAIGN_BY_DATE, "engineBRankings_51"),
            (KEYWORD_BY_DATE, "date"),
            (KEYWORD_BY_DATE, "engineAPlacesRanking"),
        ),
        *((CAMPAIGNS, field) for field in ("company", "date_modified", "id", "group_title")),
        *((LINKS, field) for field in ("domain_authority", "title", "date_published", "id")),
    ],
)
async def test_results_are_sorted_nulls_last_ties_kept_before_paging(
    path: str, field: str, direction: str
) -> None:
    order = (
        ("order_by", "order_direction") if path == CAMPAIGNS else ("sort_metric", "sort_direction")
    )
    asked, sort = (
        FEEDS.get(path, {"campaign_id": 2}),
        dict(zip(order, (field, direction), strict=True)),
    )
    async with calling(campaigns=50, backlinks=50) as call:
        natural = rows_of(await call.get(path, **asked, limit=50))
        pages = [
            rows_of(await call.get(path, **asked, **sort, limit=20, page=page))
            for page in (1, 2, 3)
        ]
    some = [one for one in natural if one[field] is not None]
    expected = sorted(some, key=lambda one: one[field], reverse=direction == "DESC")
    assert [one for page in pages for one in page] == expected + [
        one for one in natural if one[field] is None
    ]


@pytest.mark.parametrize(
    ("limit", "records"), [({}, 25), ({"limit": 30}, 30), ({"limit": 60}, 60), ({"limit": 61}, 60)]
)
@pytest.mark.parametrize("path", [CAMPAIGN, "/v3/keywords"])
async def test_a_limit_has_a_default_and_a_maximum(
    path: str, limit: dict[str, Any], records: int
) -> None:
    async with calling(keywords=100, max_limit=60) as call:
        answer = await call.get(path, **FEEDS.get(path, {"campaign_id": 1}), **limit)
    assert len(rows_of(answer)) == records
    assert answer["metadata"] == {"total_pages": -(-100 // records), "total_records": 100}


async def test_campaigns_are_listed_oldest_first() -> None:
    async with calling(campaigns=300) as call:
        campaigns = (await call.get("/v3/campaigns", limit=500))["data"]
    assert [one["id"] for one in campaigns] == list(range(1, 301))
    assert [one["date_created"] for one in campaigns] == sorted(
        one["date_created"] for one in campaigns
    )


@pytest.mark.parametrize(
    ("path", "field"),
    [
        *((CAMPAIGNS, field) for field in ("company", "url")),
        *((USERS, field) for field in ("first_name", "last_name", "username", "email")),
        *((BACKLINKS, field) for field in ("title", "url", "notes")),
    ],
)
async def test_records_are_found_by_part_of_a_field_in_any_case(
    path: str, field: str, call: Caller
) -> None:
    created = await call.create(path, **{field: "x-Ünlikely-x"})
    listing, query = (
        (path, {"filter": "ÜNLIKELY"}) if path != BACKLINKS else (LINKS, {"search": "ÜNLIKELY"})
    )
    found = await call.get(listing, **query, campaign_id=2, limit=1)
    assert ([one["id"] for one in found["data"]], found["metadata"]["total_records"]) == (
        [created["id"]],
        1,
    )


async def test_keywords_of_a_campaign_are_those_listed_with_its_id(call: Caller) -> None:
    everything = (await call.get("/v3/keywords", limit=500))["data"]
    some = (await call.get("/v3/keywords", limit=500, campaign_id=4))["data"]
    assert some == [one for one in everything if one["campaign_id"] == 4]
    assert len(some) == 40


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


@pytest.mark.parametrize(
    "query", [{"filter": "shoes"}, {"order_by": "keyword_phrase"}, {"order_direction": "desc"}]
)
async def test_too_many_keywords_are_neither_searched_nor_sorted(query: dict[str, str]) -> None:
    async with calling(campaigns=5001, keywords=100) as call:
        refusal = await call.send("/v3/keywords", query)
        assert refusal.status == 400
        assert "searches and sorts at most 500,000 records" in refusal.json()["message"]
        assert await call.status("/v3/keywords", **query, campaign_id=5001) == 200


async def test_keywords_of_deleted_campaigns_are_left_out(call: Caller) -> None:
    await call.send("/v3/campaigns/2", method="DELETE")
    await call.create("/v3/campaigns")
    every_keyword = await call.get("/v3/keywords", limit=500)
    campaign_ids = {keyword["campaign_id"] for keyword in every_keyword["data"]}
    assert campaign_ids == {1, 3, 4, 5, 6}
    assert every_keyword["metadata"]["total_records"] == 5 * 40


# --- The list of a campaign's backlinks


MANY = {"backlinks": 40, "max_limit": 100, "default_limit": 100}


async def listed(call: Any, **query: Any) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = (await call.get(LINKS, campaign_id=2, **query))["data"]
    return records


async def test_the_list_is_narrowed_by_fields() -> None:
    queries = [{"status": "published"}, {"status": "unpublished"}, {"link_type": "guest post"}]
    async with calling(**MANY) as call:
        everything = await listed(call)
        assert await listed(call, link_type="all") == everything
        for query in (*queries, queries[0] | queries[2]):
            found = await listed(call, **query)
            assert found == [record for record in everything if query.items() <= record.items()]
            assert 0 < len(found) < len(everything) == 40


@pytest.mark.parametrize("dash", ["-", " - ", " -", "  -  "])
async def test_the_list_is_narrowed_to_days_of_publication(dash: str) -> None:
    async with calling(**MANY) as call:
        everything = await listed(call)
        days = sorted(record["date_published"] for record in everything)
        found = await listed(call, date_string=f"{days[10]}{dash}{days[20]}")
    assert found == [
        record for record in everything if days[10] <= record["date_published"] <= days[20]
    ]
    assert len(found) >= 11


async def test_backlinks_are_sorted_by_a_field_not_in_the_list() -> None:
    async with calling(**MANY) as call:
        found = await listed(call, sort_metric="target_anchor")
        anchors = [
            (await call.get(f"{BACKLINKS}/{one['id']}"))["data"]["target_anchor"] for one in found
        ]
    assert anchors == sorted(anchors)


async def test_a_created_backlink_is_listed_with_its_own_campaign_only() -> None:
    async with calling(backlinks=1) as call:
        created = await call.create(BACKLINKS, campaign_id=3)
        assert [one["id"] for one in await listed(call)] == [200_001]
        assert [one["id"] for one in (await call.get(LINKS, campaign_id=3))["data"]] == [
            300_001,
            created["id"],
        ]
