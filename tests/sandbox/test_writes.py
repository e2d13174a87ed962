"""Campaigns, users and backlinks that are changed; `tests/resources/test_answers.py` has the whole life of each."""

from datetime import datetime
from typing import Any

import pytest

from tests.sandbox.calls import (
    BACKLINKS,
    CAMPAIGN,
    CAMPAIGN_BY_DATE,
    CAMPAIGNS,
    CHANGES,
    FEEDS,
    KEYWORD_BY_DATE,
    LINKS,
    NEW,
    USERS,
    Caller,
    calling,
)

LISTS = {CAMPAIGNS: CAMPAIGNS, USERS: USERS, BACKLINKS: f"{LINKS}?campaign_id=2"}


@pytest.mark.parametrize(("path", "id_"), [(CAMPAIGNS, 2), (USERS, 2), (BACKLINKS, 200_002)])
async def test_seeded_records_change_and_go_like_created_ones(path: str, id_: int, call: Caller) -> None:
    before = [record["id"] for record in (await call.get(LISTS[path]))["data"]]
    changed = await call.written("PUT", f"{path}/{id_}", CHANGES[path])
    assert CHANGES[path].items() <= changed.items()
    assert [record["id"] for record in (await call.get(LISTS[path]))["data"]] == before
    gone = await call.send(f"{path}/{id_}", method="DELETE")
    assert (gone.status, gone.body, gone.headers.get("Content-Type")) == (204, b"", None)
    if path != CAMPAIGNS:
        before.remove(id_)
        assert [record["id"] for record in (await call.get(LISTS[path]))["data"]] == before


@pytest.mark.parametrize("path", NEW)
async def test_an_update_without_fields_changes_nothing(path: str, call: Caller) -> None:
    one = f"{path}/{(await call.create(path))['id']}"
    before = await call.get(one)
    await call.written("PUT", one, {})
    assert await call.get(one) == before


@pytest.mark.parametrize("path", NEW)
async def test_an_id_is_never_given_twice(path: str, call: Caller) -> None:
    first = (await call.create(path))["id"]
    await call.send(f"{path}/{first}", method="DELETE")
    assert (await call.create(path))["id"] == first + 1


async def test_only_what_must_be_given_need_be(call: Caller) -> None:
    campaign = await call.written("POST", CAMPAIGNS, {"url": "u", "company": "c"})
    user = await call.written("POST", USERS, {k: v for k, v in NEW[USERS].items() if k != "email"})
    required = ("campaign_id", "title", "url", "status", "date_published")
    backlink = await call.written("POST", BACKLINKS, {name: NEW[BACKLINKS][name] for name in required})
    assert (await call.get(f"{CAMPAIGNS}/{campaign['id']}"))["data"]["group_title"] is None
    assert (campaign["scope"], campaign["date_modified"]) == ("domain", None)
    assert (user["email"], user["campaign_access"]) == ("", "restricted")
    assert {backlink[name] for name in ("link_type", "target_anchor", "target_url", "notes")} == {""}
    assert backlink["domain_authority"] == backlink["page_authority"] == 0


async def test_what_is_written_bears_the_clock_s_time() -> None:
    now = datetime(2023, 4, 5, 6, 7, 8, 9)
    async with calling(clock=lambda: now) as call:
        campaign, user, backlink = [await call.create(path) for path in (CAMPAIGNS, USERS, BACKLINKS)]
        now = datetime(2023, 4, 6)
        updated = await call.written("PUT", f"{CAMPAIGNS}/{campaign['id']}", {"scope": "page"})
        grant = (await call.get(f"{USERS}/{user['id']}/loginGrant"))["data"]
    assert campaign["date_created"] == user["date_created"] == updated["date_created"] == "2023-04-05 06:07:08"
    assert (campaign["date_modified"], updated["date_modified"]) == (None, "2023-04-06 00:00:00")
    assert backlink["date_created"] == "2023-04-05"
    assert grant["time"] == "2023-04-06 00:00:00"


async def test_a_created_campaign_has_no_keywords_backlinks_or_ranks(call: Caller) -> None:
    id_ = (await call.create(CAMPAIGNS))["id"]
    assert await call.feed(CAMPAIGN, campaign_id=id_) == []
    assert {row["engineARanking"] for row in await call.feed(CAMPAIGN_BY_DATE, campaign_id=id_)} == {None}
    assert (await call.get("/v3/keywords", campaign_id=id_))["data"] == []
    assert (await call.get(LINKS, campaign_id=id_))["data"] == []


async def test_a_deleted_campaign_takes_everything_with_it(call: Caller) -> None:
    created = (await call.create(BACKLINKS))["id"]
    for path, query in FEEDS.items():  # answered once before, so that nothing is answered from memory
        assert await call.status(path, **query) == 200
    assert (await call.get("/v3/keywords"))["metadata"]["total_records"] == 240
    await call.send(f"{CAMPAIGNS}/2", method="DELETE")
    assert (await call.get("/v3/keywords"))["metadata"]["total_records"] == 200
    for path, query in {**FEEDS, LINKS: {"campaign_id": 2}}.items():
        assert await call.status(path, **query) == 404
    for path in ("/v3/keywords/200001", f"{BACKLINKS}/200001", f"{BACKLINKS}/{created}"):
        assert await call.status(path) == 404


async def test_rankings_stay_when_a_campaign_s_address_changes() -> None:
    async with calling() as first:
        before = await first.feed(KEYWORD_BY_DATE)
    async with calling() as call:
        await call.written("PUT", f"{CAMPAIGNS}/2", {"url": "https://elsewhere.example"})
        assert await call.feed(KEYWORD_BY_DATE) == before


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [(CAMPAIGNS, "group_title", None), (USERS, "email", ""), (BACKLINKS, "target_anchor", "")],
)
async def test_an_empty_value_clears_what_may_be_empty(path: str, name: str, value: Any, call: Caller) -> None:
    record = await call.create(path)
    assert (await call.written("PUT", f"{path}/{record['id']}", {name: ""}))[name] == value


@pytest.mark.parametrize(("path", "status"), [(CAMPAIGNS, 500), (LINKS, 500), (BACKLINKS, 500), (USERS, 200)])
async def test_a_failing_campaign_fails_for_writes_too(path: str, status: int) -> None:
    async with calling(failing=[2]) as call:
        if path == LINKS:
            assert await call.status(path, campaign_id=2) == status
        else:
            method, target = ("POST", path) if path == BACKLINKS else ("PUT", f"{path}/2")
            assert (await call.write(method, target, NEW[path])).status == status
