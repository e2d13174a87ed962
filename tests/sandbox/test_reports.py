"""Rows of a test's own in place of seeded ones."""

from typing import Any

import pytest

from seorep_async.sandbox import Sandbox
from tests.sandbox.calls import CAMPAIGN, CAMPAIGN_BY_DATE, FEEDS, KEYWORD_BY_DATE, calling, rows_of, totals_of


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
