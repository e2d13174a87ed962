"""Limits above the maximum: each way in which a service may treat one."""

from typing import Any

import pytest

from tests.sandbox.calls import CAMPAIGN, FEEDS, Caller, calling, rows_of

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


async def test_the_maximum_itself_is_obeyed() -> None:
    async with calling(**SMALL_PAGES, large_limit="whole-report") as call:
        rows, announced = await page_of(call, CAMPAIGN, limit=40)
    assert (len(rows), announced["total_records"]) == (40, 100)
