"""The seeded account: the same whatever is asked first, and as varied as a real one."""

import pytest

from seorep_async.sandbox.account import Account
from tests.sandbox.calls import CAMPAIGN, CAMPAIGN_BY_DATE, FEEDS, KEYWORD_BY_DATE, Caller, calling


def everything(account: Account, *campaign_ids: int) -> list[object]:
    made: list[object] = []
    for id_ in campaign_ids:
        campaign = account.campaigns.get(id_)
        assert campaign is not None
        made += [campaign, account.keywords(id_)]
    return made


def test_the_order_of_requests_changes_nothing() -> None:
    forwards = everything(Account(7, 5, 20), 1, 2, 3)
    backwards = everything(Account(7, 5, 20), 3, 2, 1)
    assert forwards == [*backwards[4:], *backwards[2:4], *backwards[:2]]


def test_more_campaigns_and_keywords_leave_others_unchanged() -> None:
    few, many = Account(7, 3, 10), Account(7, 500, 60)
    for small, large in zip(everything(few, 1, 2, 3), everything(many, 1, 2, 3), strict=True):
        assert small == (large[:10] if isinstance(large, tuple) else large)


@pytest.mark.parametrize("other", [2, -1, 0, 2**70])
def test_another_seed_makes_another_account(other: int) -> None:
    assert everything(Account(1, 5, 5), 1) != everything(Account(other, 5, 5), 1)


async def test_the_same_seed_answers_the_same_bytes_in_any_order() -> None:
    seen = []
    for order in (FEEDS, reversed(list(FEEDS))):
        async with calling(seed=9, shape="mixed", rows="mixed") as call:
            seen.append({path: (await call.send(path, FEEDS[path])).body for path in order})
    assert seen[0] == seen[1]


async def test_a_month_has_the_same_values_in_every_range(call: Caller) -> None:
    for path in (CAMPAIGN_BY_DATE, KEYWORD_BY_DATE):
        long = await call.feed(path, start_date="2015-01-01", end_date="2025-12-31")
        short = await call.feed(path)
        assert [row for row in long if row["date"].startswith("2022")] == short


def test_keyword_ids_are_unique_int32_and_name_their_campaign() -> None:
    account = Account(1, 21_473, 1)
    ids = account.keyword_ids()
    assert len(set(ids)) == 21_473
    assert max(ids) < 2**31
    last = account.keyword(max(ids))
    assert last is not None
    assert last.campaign_id == 21_473


def test_companies_and_their_addresses_are_unique() -> None:
    account = Account(1, 2000, 0)
    campaigns = [account.campaigns.get(id_) for id_ in account.campaign_ids()]
    assert len({one["company"] for one in campaigns if one}) == len({one["url"] for one in campaigns if one}) == 2000


def test_a_campaign_has_exactly_the_keywords_asked_for() -> None:
    account = Account(1, 3, 700)
    keywords = account.keywords(2)
    assert [one.id for one in keywords] == list(account.keyword_ids(2)) == list(range(200_001, 200_701))


def test_no_phrase_comes_twice_in_one_place() -> None:
    account = Account(1, 1, 1000)
    keywords = account.keywords(1)
    assert len({(one.phrase, one.location["id"]) for one in keywords}) == 1000


async def test_some_phrases_and_companies_are_not_ascii() -> None:
    async with calling(campaigns=60, keywords=3) as call:
        campaigns = (await call.get("/v3/campaigns", limit=60))["data"]
        keywords = (await call.get("/v3/keywords", limit=500))["data"]
    assert 0 < sum(not one["company"].isascii() for one in campaigns) < 60
    assert 0 < sum(not one["keyword_phrase"].isascii() for one in keywords) < 180


async def test_nullable_fields_are_null_sometimes_booleans_strings() -> None:
    async with calling(campaigns=60) as call:
        campaigns = (await call.get("/v3/campaigns", limit=60))["data"]
        rows = await call.feed(CAMPAIGN)
    for field in ("date_modified", "group_title"):
        assert 0 < sum(one[field] is None for one in campaigns) < 60
    assert {one["engineA_ignore_places"] for one in campaigns} == {"true", "false"}
    assert {row["primaryKeyword"] for row in rows} == {"true", "false"}
    assert {len(row["tags"]) for row in rows} >= {0, 1, 2}


async def test_an_empty_account_lists_nothing() -> None:
    async with calling(campaigns=0, keywords=0) as call:
        for path in ("/v3/campaigns", "/v3/keywords"):
            assert await call.get(path) == {"metadata": {"total_pages": 0, "total_records": 0}, "data": []}


async def test_a_campaign_without_keywords_has_empty_feeds() -> None:
    async with calling(keywords=0) as call:
        assert await call.feed(CAMPAIGN) == []
        assert {row["engineARanking"] for row in await call.feed(CAMPAIGN_BY_DATE)} == {None}
