"""The fields of every answer, against lists copied from parts 2 and 4.4 of the reference."""

import re
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
    USERS,
    calling,
    rows_of,
    totals_of,
)

CAMPAIGN_FIELDS = "id date_created date_modified url company scope group_title account_id"
CAMPAIGN_LIST_FIELDS = (
    f"{CAMPAIGN_FIELDS} date_deleted status engineA_ignore_places engineA_places_id engineA_cid engineA_business_id "
    "engineA_business_name timezone"
)
UNDOCUMENTED_CAMPAIGN_FIELDS = "type"
KEYWORD_FIELDS = "id date_created date_modified keyword_phrase primary_keyword campaign_id"
USER_FIELDS = "id date_created email username first_name last_name role campaign_access account_id"
BACKLINK_LIST_FIELDS = "id title status date_created date_published url link_type notes domain_authority page_authority"
BACKLINK_FIELDS = f"{BACKLINK_LIST_FIELDS} target_anchor target_url"

OLDER_FIELDS = "globalMonthlySearches wmtRanking wmtClicks wmtImpressions wmtCtr backlinks"
LAST_DATES = (
    "lastEngineARankingDate lastEngineAMobileRankingDate lastEngineAPlacesRankingDate lastEngineBRankingDate "
    "lastSearchVolumeDate lastStatPadderDate lastMetricRollupDate lastResultsDate"
)
ROW_FIELDS = {
    CAMPAIGN: (
        "keywordId keywordPhrase searchLocation searchLanguage primaryKeyword engineARanking engineARankingChange "
        "engineARankingUrl engineASerpUrl engineAMobileRanking engineAMobileRankingChange engineAMobileRankingUrl "
        "engineAMobileSerpUrl engineAPlacesRanking engineAPlacesRankingChange engineAMapsSerpUrl engineBRanking "
        f"engineBRankingChange engineBRankingUrl engineBSerpUrl localMonthlySearches competitors {LAST_DATES} tags"
    ),
    CAMPAIGN_BY_DATE: "date competitors localMonthlySearches "
    + " ".join(
        f"{engine}Ranking {engine}RankingChange {engine}Rankings_1_3 {engine}Rankings_4_10 {engine}Rankings_11_20 "
        f"{engine}Rankings_21_50 {engine}Rankings_51"
        for engine in ("engineA", "engineAMobile", "engineAPlaces", "engineB")
    ),
    KEYWORD_BY_DATE: (
        "date engineARanking engineAMobileRanking engineAPlacesRanking engineBRanking engineARankingUrl "
        "engineAMobileRankingUrl engineBRankingUrl competitors localMonthlySearches"
    ),
}
OLDER_ROW_FIELDS = {
    CAMPAIGN: f"{ROW_FIELDS[CAMPAIGN]} {OLDER_FIELDS}",
    CAMPAIGN_BY_DATE: ROW_FIELDS[CAMPAIGN_BY_DATE],
    KEYWORD_BY_DATE: f"{ROW_FIELDS[KEYWORD_BY_DATE]} {OLDER_FIELDS}",
}
CAMPAIGN_TOTALS = (
    "engineARanking engineARankingChange engineAMobileRanking engineAMobileRankingChange engineAPlacesRanking "
    "engineAPlacesRankingChange engineBRanking engineBRankingChange competitors localMonthlySearches"
)
KEYWORD_TOTALS = (
    "engineARanking engineAMobileRanking engineAPlacesRanking engineBRanking competitors localMonthlySearches"
)
TOTALS = {
    ("current", CAMPAIGN_BY_DATE): CAMPAIGN_TOTALS,
    ("older", CAMPAIGN_BY_DATE): CAMPAIGN_TOTALS,
    ("current", KEYWORD_BY_DATE): KEYWORD_TOTALS,
    ("older", KEYWORD_BY_DATE): (
        f"{KEYWORD_TOTALS} engineARankingChange engineAPlacesRankingChange engineBRankingChange {OLDER_FIELDS}"
    ),
}


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v3/campaigns", f"{CAMPAIGN_LIST_FIELDS} {UNDOCUMENTED_CAMPAIGN_FIELDS}"),
        ("/v3/campaigns/3", f"{CAMPAIGN_FIELDS} {UNDOCUMENTED_CAMPAIGN_FIELDS}"),
        ("/v3/users", f"{USER_FIELDS} password"),
        ("/v3/users/3", f"{USER_FIELDS} password"),
        ("/v3/users/3/loginGrant", "token time login_url user_id origin_user_id"),
        ("/v3/keywords", KEYWORD_FIELDS),
        ("/v3/keywords/300001", KEYWORD_FIELDS),
        (f"{LINKS}?campaign_id=3", BACKLINK_LIST_FIELDS),
        ("/v3/backlinks/300001", BACKLINK_FIELDS),
    ],
)
async def test_records_have_exactly_the_reference_s_fields(path: str, fields: str) -> None:
    async with calling() as call:
        data: Any = (await call.get(path))["data"]
    assert set(data[0] if isinstance(data, list) else data) == set(fields.split())


@pytest.mark.parametrize(
    ("path", "created", "updated"),
    [
        (CAMPAIGNS, CAMPAIGN_FIELDS.replace("group_title", "type"), f"{CAMPAIGN_FIELDS} type"),
        (USERS, USER_FIELDS, USER_FIELDS),
        (BACKLINKS, f"{BACKLINK_FIELDS} campaign_id", BACKLINK_FIELDS),
    ],
)
async def test_answers_to_writes_have_exactly_the_reference_s_fields(path: str, created: str, updated: str) -> None:
    async with calling() as call:
        record = await call.create(path)
        assert set(record) == set(created.split())
        assert set(await call.written("PUT", f"{path}/{record['id']}", CHANGES[path])) == set(updated.split())


@pytest.mark.parametrize("path", FEEDS)
@pytest.mark.parametrize(("rows", "fields"), [("current", ROW_FIELDS), ("older", OLDER_ROW_FIELDS)])
async def test_rows_have_exactly_the_reference_s_fields(path: str, rows: str, fields: dict[str, str]) -> None:
    async with calling(rows=rows) as call:
        assert {frozenset(row) for row in await call.feed(path)} == {frozenset(fields[path].split())}


@pytest.mark.parametrize(("rows", "path"), TOTALS)
async def test_totals_have_exactly_the_reference_s_metrics(rows: str, path: str) -> None:
    async with calling(rows=rows) as call:
        totals = totals_of(await call.get(path, **FEEDS[path]))
    assert set(totals) == set(TOTALS[rows, path].split())
    assert {tuple(entry) for entry in totals.values()} == {("value",)}


@pytest.mark.parametrize("shape", ["nested", "flat"])
async def test_the_campaign_feed_has_false_for_totals(shape: str) -> None:
    async with calling(shape=shape) as call:
        assert totals_of(await call.get(CAMPAIGN, **FEEDS[CAMPAIGN])) is False


async def test_a_search_that_finds_nothing_has_false_for_totals() -> None:
    async with calling() as call:
        answer = await call.get(KEYWORD_BY_DATE, **FEEDS[KEYWORD_BY_DATE], search="nowhere")
    assert answer == {
        "metadata": {"total_pages": 0, "total_records": 0},
        "data": {"totals": False, "rows": []},
    }


@pytest.mark.parametrize("path", FEEDS)
async def test_the_nested_envelope_holds_totals_and_rows_in_data(path: str) -> None:
    async with calling(shape="nested") as call:
        answer = await call.get(path, **FEEDS[path])
    assert (set(answer), set(answer["data"])) == ({"metadata", "data"}, {"totals", "rows"})
    assert set(answer["metadata"]) == {"total_pages", "total_records"}


@pytest.mark.parametrize("path", FEEDS)
async def test_the_flat_envelope_has_totals_beside_rows_and_a_version(path: str) -> None:
    async with calling(shape="flat") as call:
        answer = await call.get(path, **FEEDS[path])
    assert (set(answer), type(answer["data"])) == ({"metadata", "data", "totals"}, list)
    assert answer["metadata"].pop("version") is False
    assert set(answer["metadata"]) == {"total_pages", "total_records"}


@pytest.mark.parametrize("path", FEEDS)
async def test_both_shapes_hold_the_same_facts(path: str) -> None:
    answers = []
    for shape in ("nested", "flat"):
        async with calling(shape=shape) as call:
            answers.append(await call.get(path, **FEEDS[path], compare_previous_period="true"))
    nested, flat = answers
    assert (rows_of(nested), totals_of(nested)) == (rows_of(flat), totals_of(flat))


@pytest.mark.parametrize("path", FEEDS)
async def test_older_rows_hold_all_facts_of_current_ones(path: str) -> None:
    answers = []
    for rows in ("current", "older"):
        async with calling(rows=rows) as call:
            answers.append(await call.feed(path))
    for current, older in zip(*answers, strict=True):
        for name, value in current.items():
            if name == "date" or name in LAST_DATES.split():
                assert older[name] == value or older[name].startswith(value)
            else:
                assert older[name] == value


@pytest.mark.parametrize(
    ("rows", "path", "field", "form"),
    [
        ("current", CAMPAIGN, "lastResultsDate", r"\d{4}-\d\d-\d\d"),
        ("older", CAMPAIGN, "lastResultsDate", r"\d{4}-\d\d-\d\d 00:00:00"),
        ("current", CAMPAIGN_BY_DATE, "date", r"\d{4}-\d\d"),
        ("older", CAMPAIGN_BY_DATE, "date", r"\d{4}-\d\d"),
        ("current", KEYWORD_BY_DATE, "date", r"\d{4}-\d\d"),
        ("older", KEYWORD_BY_DATE, "date", r"\d{4}-\d\d-01"),
    ],
)
async def test_dates_in_rows_have_their_variant_s_form(rows: str, path: str, field: str, form: str) -> None:
    async with calling(rows=rows) as call:
        for row in await call.feed(path):
            assert re.fullmatch(form, row[field])


async def test_a_mixed_account_has_one_of_four_formats_a_campaign() -> None:
    async with calling(shape="mixed", rows="mixed", campaigns=30) as call:
        ways = {}
        for campaign_id in range(1, 31):
            pages = [
                await call.get(CAMPAIGN, **{**FEEDS[CAMPAIGN], "campaign_id": campaign_id, "page": page})
                for page in (1, 2)
            ]
            seen = {(isinstance(page["data"], list), "backlinks" in rows_of(page)[0]) for page in pages}
            assert len(seen) == 1
            ways[campaign_id] = seen.pop()
    assert set(ways.values()) == {(False, False), (False, True), (True, False), (True, True)}
