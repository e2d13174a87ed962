"""The list of a campaign's backlinks."""

from typing import Any

import pytest

from tests.sandbox.calls import BACKLINKS, LINKS, calling

MANY = {"backlinks": 40, "max_limit": 100, "default_limit": 100}


async def listed(call: Any, **query: Any) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = (await call.get(LINKS, campaign_id=2, **query))["data"]
    return records


@pytest.mark.parametrize(
    ("name", "value"), [("status", "published"), ("status", "unpublished"), ("link_type", "guest post")]
)
async def test_the_list_is_narrowed_by_a_field(name: str, value: str) -> None:
    async with calling(**MANY) as call:
        everything = await listed(call)
        found = await listed(call, **{name: value})
    assert found == [record for record in everything if record[name] == value]
    assert 0 < len(found) < len(everything) == 40


async def test_all_link_types_are_listed_for_all() -> None:
    async with calling(**MANY) as call:
        assert await listed(call, link_type="all") == await listed(call)


@pytest.mark.parametrize("dash", ["-", " - ", " -", "  -  "])
async def test_the_list_is_narrowed_to_days_of_publication(dash: str) -> None:
    async with calling(**MANY) as call:
        everything = await listed(call)
        days = sorted(record["date_published"] for record in everything)
        found = await listed(call, date_string=f"{days[10]}{dash}{days[20]}")
    assert found == [record for record in everything if days[10] <= record["date_published"] <= days[20]]
    assert len(found) >= 11


async def test_backlinks_are_sorted_by_a_field_not_in_the_list() -> None:
    async with calling(**MANY) as call:
        found = await listed(call, sort_metric="target_anchor")
        anchors = [(await call.get(f"{BACKLINKS}/{one['id']}"))["data"]["target_anchor"] for one in found]
    assert anchors == sorted(anchors)


async def test_all_conditions_must_be_met() -> None:
    async with calling(**MANY) as call:
        both = await listed(call, status="published", link_type="guest post")
        found = [one for one in await listed(call, status="published") if one["link_type"] == "guest post"]
    assert both == found


async def test_a_created_backlink_is_listed_with_its_own_campaign_only() -> None:
    async with calling(backlinks=1) as call:
        created = await call.create(BACKLINKS, campaign_id=3)
        assert [one["id"] for one in await listed(call)] == [200_001]
        assert [one["id"] for one in (await call.get(LINKS, campaign_id=3))["data"]] == [300_001, created["id"]]


async def test_seeded_backlinks_are_plausible() -> None:
    async with calling(**MANY) as call:
        everything = await listed(call)
    assert {one["status"] for one in everything} == {"published", "unpublished"}
    assert all(one["date_created"] <= one["date_published"] for one in everything)
    assert all(1 <= one["page_authority"] <= one["domain_authority"] <= 100 for one in everything)
    assert len({one["url"] for one in everything}) == 40
