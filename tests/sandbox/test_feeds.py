"""What the seeded account and its feeds say: as varied as a real one, the same whatever is asked first; own rows."""

from typing import Any

import pytest

from seorep_async.sandbox import Sandbox
from seorep_async.sandbox.account import Account
from tests.sandbox.calls import CAMPAIGN, CAMPAIGN_BY_DATE, FEEDS, KEYWORD_BY_DATE, Caller, calling, rows_of, totals_of


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
    campaigns = [account.campaigns.get(id_) for id_ in account.campaigns.ids()]
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


# --- The feeds


ENGINES = ("engineA", "engineAMobile", "engineAPlaces", "engineB")
MEANS = {"competitors", "backlinks", "wmtRanking", "wmtCtr", *(f"{engine}Ranking" for engine in ENGINES)}
BANDS = {"1_3": (1, 3), "4_10": (4, 10), "11_20": (11, 20), "21_50": (21, 50), "51": (51, 100)}
COMPARED = {"compare_previous_period": "true"}


def expected(metric: str, values: list[int | None]) -> int | None:
    present = [value for value in values if value is not None]
    if not present:
        return None
    return int(sum(present) / len(present) + 0.5) if metric in MEANS else sum(present)


@pytest.mark.parametrize("path", FEEDS)
@pytest.mark.parametrize("limit", [1, 7, 12, 500])
async def test_pages_partition_the_rows(path: str, limit: int, call: Caller) -> None:
    whole = await call.feed(path)
    first = await call.get(path, **FEEDS[path], limit=limit)
    paged = []
    for page in range(1, first["metadata"]["total_pages"] + 1):
        paged += rows_of(await call.get(path, **FEEDS[path], limit=limit, page=page))
    assert (paged, first["metadata"]["total_records"]) == (whole, len(whole))


@pytest.mark.parametrize("path", FEEDS)
async def test_a_page_beyond_the_end_is_empty(path: str, call: Caller) -> None:
    answer = await call.get(path, **FEEDS[path], page=2**31 - 1)
    assert rows_of(answer) == []
    assert answer["metadata"]["total_records"] > 0


@pytest.mark.parametrize("path", [CAMPAIGN_BY_DATE, KEYWORD_BY_DATE])
@pytest.mark.parametrize("query", [{}, COMPARED, {"search": "2022-0"}, {"page": 9}])
async def test_totals_agree_with_the_rows_of_the_whole_result(path: str, query: dict[str, Any], call: Caller) -> None:
    rows = await call.feed(path, **{**query, "page": 1})
    totals = totals_of(await call.get(path, **FEEDS[path], limit=2, **query))
    for metric, entry in totals.items():
        assert entry["value"] == expected(metric, [row[metric] for row in rows]), metric


async def test_older_totals_agree_with_the_older_fields_of_the_rows() -> None:
    async with calling(rows="older") as call:
        totals = totals_of(await call.get(KEYWORD_BY_DATE, **FEEDS[KEYWORD_BY_DATE]))
        rows = await call.feed(KEYWORD_BY_DATE)
    for metric in ("backlinks", "globalMonthlySearches", "wmtRanking", "wmtClicks", "wmtImpressions", "wmtCtr"):
        assert totals[metric]["value"] == expected(metric, [row[metric] for row in rows]), metric


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


@pytest.mark.parametrize("rows", ["current", "older"])
async def test_both_feeds_of_a_keyword_agree_on_the_last_month(rows: str) -> None:
    async with calling(rows=rows) as call:
        for row in await call.feed(CAMPAIGN):
            last = (await call.feed(KEYWORD_BY_DATE, keyword_id=row["keywordId"]))[-1]
            shared = row.keys() & last.keys()
            assert {name: row[name] for name in shared} == {name: last[name] for name in shared}


async def test_a_campaign_s_month_aggregates_its_keywords(call: Caller) -> None:
    months = await call.feed(CAMPAIGN_BY_DATE)
    for month in months:
        span = {"start_date": f"{month['date']}-01", "end_date": f"{month['date']}-28"}
        keywords = await call.feed(CAMPAIGN, **span)
        for metric in ("competitors", "localMonthlySearches", *(f"{engine}Ranking" for engine in ENGINES)):
            assert month[metric] == expected(metric, [keyword[metric] for keyword in keywords]), metric
        for engine in ENGINES:
            ranks = [keyword[f"{engine}Ranking"] for keyword in keywords]
            for band, (best, worst) in BANDS.items():
                counted = sum(1 for rank in ranks if rank is not None and best <= rank <= worst)
                assert month[f"{engine}Rankings_{band}"] == counted


async def test_keyword_list_and_campaign_feed_have_the_same_keywords(call: Caller) -> None:
    listed = (await call.get("/v3/keywords", campaign_id=2, limit=500))["data"]
    rows = await call.feed(CAMPAIGN)
    assert [(one["id"], one["keyword_phrase"], one["primary_keyword"]) for one in listed] == [
        (row["keywordId"], row["keywordPhrase"], row["primaryKeyword"]) for row in rows
    ]


@pytest.mark.parametrize("path", [CAMPAIGN, CAMPAIGN_BY_DATE])
async def test_without_a_comparison_every_change_is_0(path: str, call: Caller) -> None:
    rows = await call.feed(path)
    assert {row[name] for row in rows for name in row if name.endswith("Change")} == {0}


async def test_a_month_s_change_is_against_the_month_before(call: Caller) -> None:
    compared = await call.feed(CAMPAIGN_BY_DATE, **COMPARED)
    before = await call.feed(CAMPAIGN_BY_DATE, start_date="2021-12-01")
    for now, previous in zip(compared, before, strict=False):
        assert [now[f"{engine}RankingChange"] for engine in ENGINES] == [
            now[f"{engine}Ranking"] - previous[f"{engine}Ranking"] for engine in ENGINES
        ]


async def test_a_keyword_s_change_is_against_the_month_before_it(call: Caller) -> None:
    compared = await call.feed(CAMPAIGN, **COMPARED)
    before = await call.feed(CAMPAIGN, start_date="2021-12-01", end_date="2021-12-31")
    for now, previous in zip(compared, before, strict=True):
        for engine in ENGINES:
            new, old = now[f"{engine}Ranking"], previous[f"{engine}Ranking"]
            assert now[f"{engine}RankingChange"] == (None if new is None or old is None else new - old)


async def test_ranks_are_null_0_or_a_position_with_an_address() -> None:
    async with calling(keywords=200) as call:
        rows = await call.feed(CAMPAIGN)
    ranks = {engine: {row[f"{engine}Ranking"] for row in rows} for engine in ENGINES}
    assert all(None in seen and len(seen) > 10 for seen in ranks.values())
    assert [engine for engine in ENGINES if 0 in ranks[engine]] == ["engineAPlaces"]
    assert all((row["engineARankingUrl"] is None) == (row["engineARanking"] is None) for row in rows)


async def test_some_keywords_have_no_search_volume_and_some_have_0() -> None:
    async with calling(keywords=400) as call:
        rows = await call.feed(CAMPAIGN)
    assert {None, 0} < {row["localMonthlySearches"] for row in rows}
    assert all(row["lastSearchVolumeDate"] is None for row in rows if row["localMonthlySearches"] is None)


async def test_last_dates_are_not_after_the_end_of_the_range(call: Caller) -> None:
    rows = await call.feed(CAMPAIGN)
    assert max(row[name] for row in rows for name in row if name.startswith("last") and row[name]) <= "2022-12-31"


async def test_positions_rise_fall_and_stay(call: Caller) -> None:
    changes = {row["engineARankingChange"] or 0 for row in await call.feed(CAMPAIGN, **COMPARED)}
    assert min(changes) < 0 < max(changes)


# --- Rows of a test's own in place of seeded ones


async def test_given_fields_replace_those_of_seeded_rows() -> None:
    given: list[dict[str, Any]] = [
        {"keywordPhrase": "shoes", "engineARanking": 3},
        {"engineARanking": None, "someNewField": {"a": [1]}},
    ]
    async with calling() as call:
        seeded = await call.feed(CAMPAIGN)
    async with calling(reports={("campaign", 2): given}) as call:
        assert await call.feed(CAMPAIGN) == [seeded[0] | given[0], seeded[1] | given[1]]
        assert len(await call.feed(CAMPAIGN, campaign_id=3)) == 40


async def test_a_row_beyond_the_seeded_ones_is_sent_as_it_is() -> None:
    async with calling(keywords=0, reports={("campaign", 2): [{"keywordId": "x", "odd": None}]}) as call:
        assert await call.feed(CAMPAIGN) == [{"keywordId": "x", "odd": None}]


async def test_rows_by_date_are_sent_if_the_range_touches_their_month() -> None:
    given = [{"date": f"{month}-01 09:32:19", "engineARanking": 7} for month in ("2021-12", "2022-03", "2022-04")]
    async with calling(rows="older", reports={("keyword-by-date", 200_003): given}) as call:
        answer = await call.get(KEYWORD_BY_DATE, **FEEDS[KEYWORD_BY_DATE])
    assert [row["date"] for row in rows_of(answer)] == [row["date"] for row in given[1:]]
    assert [row["engineARankingUrl"] is not None for row in rows_of(answer)] == [True, True]
    assert totals_of(answer)["engineARanking"] == {"value": 7}


async def test_given_rows_are_searched_sorted_and_paged() -> None:
    ranks = [5, None, 9, 2]
    given = [{"keywordPhrase": f"shoe {rank}", "engineARanking": rank} for rank in ranks]
    async with calling(reports={("campaign", 2): given}) as call:
        assert [row["engineARanking"] for row in await call.feed(CAMPAIGN, page=2, limit=3)] == [2]
        assert [row["engineARanking"] for row in await call.feed(CAMPAIGN, search="shoe 2")] == [2]
        ordered = await call.feed(CAMPAIGN, sort_metric="engineARanking")
        assert [row["engineARanking"] for row in ordered] == [2, 5, 9, None]


@pytest.mark.parametrize("empty", [[], ()])
async def test_a_report_without_rows_has_no_totals(empty: Any) -> None:
    async with calling(reports={("campaign-by-date", 2): empty}) as call:
        answer = await call.get(CAMPAIGN_BY_DATE, **FEEDS[CAMPAIGN_BY_DATE])
    assert (rows_of(answer), totals_of(answer)) == ([], False)


@pytest.mark.parametrize(
    "reports",
    [
        {"campaign": []},
        {("keywords", 1): []},
        {("campaign", "1"): []},
        {("campaign", 1): [5]},
        {("campaign-by-date", 1): [{"engineARanking": 1}]},
    ],
)
def test_reports_of_another_form_are_a_value_error(reports: Any) -> None:
    with pytest.raises(ValueError, match=r"^reports must"):
        Sandbox(reports=reports)
