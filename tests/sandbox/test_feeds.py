"""The seeded account and its feeds.

They are as varied as a real account, and the same whatever is requested first. A test's own rows
can take the place of seeded ones.
"""

from hashlib import sha256
from typing import Any

import pytest

from seorep_async.sandbox.account import MOST_CAMPAIGNS, Account
from seorep_async.sandbox.seeds import IDS_PER_CAMPAIGN
from tests.sandbox.calls import (
    CAMPAIGN,
    CAMPAIGN_BY_DATE,
    FEEDS,
    KEYWORD_BY_DATE,
    LINKS,
    Caller,
    calling,
    rows_of,
    totals_of,
)


def test_more_campaigns_and_keywords_leave_others_unchanged() -> None:
    small = Account(7, 3, 10)
    large = Account(7, 500, 60)
    for campaign_id in (1, 2, 3):
        assert small.campaigns.get(campaign_id) == large.campaigns.get(campaign_id) is not None
        assert small.keywords(campaign_id) == large.keywords(campaign_id)[:10]


@pytest.mark.parametrize("seed", [2, -1, 0, 2**70])
def test_another_seed_makes_another_account(seed: int) -> None:
    account = Account(1, 5, 5)
    other = Account(seed, 5, 5)
    assert account.campaigns.get(1) != other.campaigns.get(1)
    assert account.keywords(1) != other.keywords(1)


def test_ids_of_the_largest_account_fit_into_32_bits() -> None:
    last_id = Account(1, MOST_CAMPAIGNS, IDS_PER_CAMPAIGN - 1).keyword_ids(MOST_CAMPAIGNS)[-1]
    assert last_id < 2**31


DIGESTS = {
    "/v3/campaigns?limit=60": "ed82a95048ddc817",
    "/v3/users?limit=60": "7869366f3e3a6bf6",
    "/v3/keywords?limit=500": "5495d68a5e416c5e",
    f"{LINKS}?campaign_id=2": "5a64c681402ae45e",
    CAMPAIGN: "8cd1166c3548a53e",
    CAMPAIGN_BY_DATE: "3323759ecb34b780",
    KEYWORD_BY_DATE: "3a7f0f71f4b13e26",
}


@pytest.mark.parametrize("backwards", [False, True])
async def test_a_seed_makes_the_same_responses_as_ever(backwards: bool) -> None:
    """So every variety that the seeded account was made for stays in it."""
    account = {"campaigns": 60, "keywords": 200, "users": 60, "seed": 9}
    digests = {}
    async with calling(**account, shape="mixed", rows="mixed") as call:
        for path in sorted(DIGESTS, reverse=backwards):
            query = {"limit": 500, **FEEDS[path]} if path in FEEDS else {}
            reply = await call.send(path, query)
            digests[path] = sha256(reply.body).hexdigest()[:16]
    assert digests == DIGESTS


# --- The feeds


ENGINES = ("engineA", "engineAMobile", "engineAPlaces", "engineB")
RANKINGS = [f"{engine}Ranking" for engine in ENGINES]
MEANS = {"competitors", "backlinks", "wmtRanking", "wmtCtr", *RANKINGS}
COMPARED = {"compare_previous_period": "true"}


def expected(metric: str, values: list[int | None]) -> int | None:
    present = [value for value in values if value is not None]
    if not present:
        return None
    if metric in MEANS:
        return int(sum(present) / len(present) + 0.5)
    return sum(present)


@pytest.mark.parametrize("path", FEEDS)
@pytest.mark.parametrize("limit", [1, 7, 12, 500])
async def test_pages_partition_the_rows(path: str, limit: int, call: Caller) -> None:
    whole = await call.feed(path)
    first = await call.get(path, **FEEDS[path], limit=limit)
    paged = []
    for page in range(1, first["metadata"]["total_pages"] + 1):
        paged += rows_of(await call.get(path, **FEEDS[path], limit=limit, page=page))
    assert (paged, first["metadata"]["total_records"]) == (whole, len(whole))
    beyond = await call.get(path, **FEEDS[path], limit=limit, page=2**31 - 1)
    assert (rows_of(beyond), beyond["metadata"]) == ([], first["metadata"])


@pytest.mark.parametrize("path", [CAMPAIGN_BY_DATE, KEYWORD_BY_DATE])
@pytest.mark.parametrize("query", [{}, COMPARED, {"search": "2022-0"}, {"page": 9}])
async def test_totals_agree_with_the_rows_of_the_whole_result(
    path: str, query: dict[str, Any], call: Caller
) -> None:
    rows = await call.feed(path, **{**query, "page": 1})
    totals = totals_of(await call.get(path, **FEEDS[path], limit=2, **query))
    for metric, entry in totals.items():
        assert entry["value"] == expected(metric, [row[metric] for row in rows]), metric


@pytest.mark.parametrize(
    ("start", "end", "months"),
    [
        ("2022-11-30", "2023-02-01", ["2022-11", "2022-12", "2023-01", "2023-02"]),
        ("2022-11-30", "2022-11-30", ["2022-11"]),
        ("0001-01-01", "0001-01-31", ["0001-01"]),
        ("9999-12-01", "9999-12-31", ["9999-12"]),
    ],
)
@pytest.mark.parametrize("path", [CAMPAIGN_BY_DATE, KEYWORD_BY_DATE])
async def test_feeds_by_date_have_a_row_for_each_month_in_the_range(
    path: str, start: str, end: str, months: list[str], call: Caller
) -> None:
    rows = await call.feed(path, start_date=start, end_date=end, **COMPARED)
    assert [row["date"] for row in rows] == months


async def test_a_change_is_against_the_month_before(call: Caller) -> None:
    rows = await call.feed(CAMPAIGN, **COMPARED)
    before = {"start_date": "2021-12-01", "end_date": "2021-12-31"}
    for row, previous in zip(rows, await call.feed(CAMPAIGN, **before), strict=True):
        for engine in ENGINES:
            new = row[f"{engine}Ranking"]
            old = previous[f"{engine}Ranking"]
            is_known = new is not None and old is not None
            expected_change = new - old if is_known else None
            assert row[f"{engine}RankingChange"] == expected_change


# --- Rows of a test's own in place of seeded ones


async def test_own_fields_replace_those_of_seeded_rows() -> None:
    first = {"keywordPhrase": "shoes", "engineARanking": 3}
    second = {"engineARanking": None, "someNewField": {"a": [1]}}
    own_rows = [first, second]
    async with calling() as call:
        seeded = await call.feed(CAMPAIGN)
    async with calling(reports={("campaign", 2): own_rows}) as call:
        assert await call.feed(CAMPAIGN) == [seeded[0] | first, seeded[1] | second]
        assert len(await call.feed(CAMPAIGN, campaign_id=3)) == 40
    async with calling(keywords=0, reports={("campaign", 2): own_rows}) as call:
        assert await call.feed(CAMPAIGN) == own_rows  # no row was seeded


async def test_rows_by_date_are_sent_if_the_range_touches_their_month() -> None:
    own_rows = [
        {"date": f"{month}-01 09:32:19", "engineARanking": 7}
        for month in ("2021-12", "2022-03", "2022-04")
    ]
    reports = {("keyword-by-date", 200_003): own_rows}
    async with calling(rows="older", reports=reports) as call:
        answer = await call.get(KEYWORD_BY_DATE, **FEEDS[KEYWORD_BY_DATE])
    for row, own_row in zip(rows_of(answer), own_rows[1:], strict=True):
        assert row["date"] == own_row["date"]
        assert row["engineARankingUrl"] is not None
    assert totals_of(answer)["engineARanking"] == {"value": 7}
