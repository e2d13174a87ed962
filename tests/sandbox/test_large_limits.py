"""Limits above the maximum: each way in which a service may treat one."""

from typing import Any

import pytest

from tests.sandbox.calls import CAMPAIGN, FEEDS, Caller, calling, in_flight, rows_of

SMALL_PAGES = {"keywords": 100, "default_limit": 10, "max_limit": 40}
LARGE = {"limit": 70}


async def page_of(call: Caller, path: str, **query: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the records of a page, and what its metadata announces."""
    response = await call.get(path, **FEEDS.get(path, {"campaign_id": 2}), **query)
    announced = {name: response["metadata"][name] for name in ("total_pages", "total_records")}
    return rows_of(response), announced


@pytest.mark.parametrize("path", [CAMPAIGN, "/v3/keywords"])
@pytest.mark.parametrize(
    ("large_limit", "records", "total_pages", "total_records"),
    [
        ("lowered", 40, 3, 100),
        ("ignored", 10, 10, 100),
        ("misannounced", 70, 10, 100),
        ("whole-report", 70, 1, 70),
    ],
)
async def test_a_limit_above_the_maximum_changes_the_page(
    path: str, large_limit: str, records: int, total_pages: int, total_records: int
) -> None:
    async with calling(**SMALL_PAGES, large_limit=large_limit) as call:
        every_row, _ = await page_of(call, path, limit=40)
        rows, announced = await page_of(call, path, **LARGE)
    assert len(rows) == records
    assert rows[:40] == every_row[: len(rows)]
    assert announced == {"total_pages": total_pages, "total_records": total_records}


async def test_the_second_page_of_a_whole_report_is_empty() -> None:
    async with calling(**SMALL_PAGES, large_limit="whole-report") as call:
        assert (await page_of(call, CAMPAIGN, **LARGE, page=2))[0] == []


async def test_a_refused_limit_is_refused_for_small_reports_too() -> None:
    async with calling(**{**SMALL_PAGES, "keywords": 5}, large_limit="refused") as call:
        refusal = await call.send(CAMPAIGN, {**FEEDS[CAMPAIGN], **LARGE})
    assert refusal.status == 400
    assert refusal.json()["message"] == "limit must be at most 40"


@pytest.mark.parametrize(("keywords", "status"), [(40, 200), (41, 500)])
async def test_a_failing_limit_fails_only_where_the_page_is_large(
    keywords: int, status: int
) -> None:
    options = {**SMALL_PAGES, "keywords": keywords}
    async with calling(**options, large_limit="failing") as call:
        assert await call.status(CAMPAIGN, **FEEDS[CAMPAIGN], **LARGE) == status
        assert await call.status(CAMPAIGN, **FEEDS[CAMPAIGN]) == 200


async def test_a_hanging_limit_gets_no_response_until_leaving() -> None:
    async with calling(**SMALL_PAGES, large_limit="hanging") as call:
        with pytest.raises(TimeoutError):
            await call.send(CAMPAIGN, {**FEEDS[CAMPAIGN], **LARGE}, seconds=0.2)
        await in_flight(call, 0)
        assert await call.status(CAMPAIGN, **FEEDS[CAMPAIGN]) == 200
        assert dict(call.sandbox.stats.per_status) == {200: 1}


@pytest.mark.parametrize("limit", [40, 10, 3])
async def test_limits_up_to_the_maximum_are_obeyed(limit: int) -> None:
    async with calling(**SMALL_PAGES, large_limit="whole-report") as call:
        rows, announced = await page_of(call, CAMPAIGN, limit=limit)
    assert (len(rows), announced["total_records"]) == (limit, 100)
