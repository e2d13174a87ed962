"""Operations and fields, against those of the reference; `tests/resources/test_answers.py` has other models."""

import re

import pytest

from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, RankingTotals
from seorep_async.sandbox.chain import OPERATIONS
from seorep_async.sandbox.request import Operation
from tests.models.reference import REFERENCE, fields_in
from tests.resources import operations as reference
from tests.sandbox.calls import (
    CAMPAIGN,
    CAMPAIGN_BY_DATE,
    FEEDS,
    KEYWORD_BY_DATE,
    calling,
    rows_of,
    totals_of,
)

ROWS = {CAMPAIGN: KeywordRanking, CAMPAIGN_BY_DATE: CampaignPeriod, KEYWORD_BY_DATE: KeywordPeriod}
LAST_DATES = {line.name for line in REFERENCE[KeywordRanking] if line.kind == "last"}
TOTALS = {
    ("current", CAMPAIGN_BY_DATE): "campaign_by_date",
    ("older", CAMPAIGN_BY_DATE): "campaign_by_date",
    ("current", KEYWORD_BY_DATE): "keyword_by_date",
    ("older", KEYWORD_BY_DATE): "keyword_by_date_older",
}


@pytest.mark.parametrize(
    ("rows", "path", "field", "form"),
    [
        ("current", CAMPAIGN, "lastResultsDate", r"\d{4}-\d\d-\d\d"),
        ("older", CAMPAIGN, "lastResultsDate", r"\d{4}-\d\d-\d\d 00:00:00"),
        *((rows, CAMPAIGN_BY_DATE, "date", r"\d{4}-\d\d") for rows in ("current", "older")),
        ("current", KEYWORD_BY_DATE, "date", r"\d{4}-\d\d"),
        ("older", KEYWORD_BY_DATE, "date", r"\d{4}-\d\d-01"),
    ],
)
async def test_rows_have_the_reference_s_fields_and_forms(
    rows: str, path: str, field: str, form: str
) -> None:
    async with calling(rows=rows) as call:
        found = await call.feed(path)
    assert {frozenset(row) for row in found} == {
        frozenset(line.name for line in fields_in(ROWS[path], rows))
    }
    assert all(re.fullmatch(form, row[field]) for row in found)


@pytest.mark.parametrize(("rows", "path"), TOTALS)
async def test_totals_have_exactly_the_reference_s_metrics(rows: str, path: str) -> None:
    async with calling(rows=rows) as call:
        totals = totals_of(await call.get(path, **FEEDS[path]))
    assert set(totals) == {line.name for line in fields_in(RankingTotals, TOTALS[rows, path])}
    assert {tuple(entry) for entry in totals.values()} == {("value",)}


@pytest.mark.parametrize("path", FEEDS)
async def test_both_shapes_hold_the_same_facts_in_their_places(path: str) -> None:
    answers = []
    for shape in ("nested", "flat"):
        async with calling(shape=shape) as call:
            answers.append(await call.get(path, **FEEDS[path], compare_previous_period="true"))
    nested, flat = answers
    assert (rows_of(nested), totals_of(nested)) == (rows_of(flat), totals_of(flat))
    assert (totals_of(nested) is False) is (path == CAMPAIGN)
    assert (set(nested), set(nested["data"])) == ({"metadata", "data"}, {"totals", "rows"})
    assert (set(flat), type(flat["data"])) == ({"metadata", "data", "totals"}, list)
    assert flat["metadata"] == nested["metadata"] | {"version": False}
    assert set(nested["metadata"]) == {"total_pages", "total_records"}


@pytest.mark.parametrize("path", FEEDS)
async def test_older_rows_hold_all_facts_of_current_ones(path: str) -> None:
    answers = []
    for rows in ("current", "older"):
        async with calling(rows=rows) as call:
            answers.append(await call.feed(path))
    for current, older in zip(*answers, strict=True):
        for name, value in current.items():
            if name == "date" or name in LAST_DATES:
                assert older[name] == value or older[name].startswith(value)
            else:
                assert older[name] == value


async def test_a_mixed_account_has_one_of_four_formats_a_campaign() -> None:
    async with calling(shape="mixed", rows="mixed", campaigns=30) as call:
        ways = {}
        for campaign_id in range(1, 31):
            pages = [
                await call.get(
                    CAMPAIGN, **{**FEEDS[CAMPAIGN], "campaign_id": campaign_id, "page": page}
                )
                for page in (1, 2)
            ]
            seen = {
                (isinstance(page["data"], list), "backlinks" in rows_of(page)[0]) for page in pages
            }
            assert len(seen) == 1
            ways[campaign_id] = seen.pop()
    assert set(ways.values()) == {(False, False), (False, True), (True, False), (True, True)}


# --- The table of operations


def names(operation: reference.Operation) -> set[str]:
    """Return the fields that an operation takes beside the id in its path; `!` marks those that it requires."""
    found = {name + "!" * (name in operation.required) for name in operation.inputs if name != "id"}
    if operation.is_listing:
        found |= {"page"}
    if operation.resource == "rankings":
        found |= {"filter"}  # its search has two names
    return found | ({"campaign_id"} if operation.name == "keywords.list" else set())


FIELDS = {(one.method, one.path.replace("/7", "/:id")): names(one) for one in reference.OPERATIONS}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_an_operation_takes_the_reference_s_fields(operation: Operation) -> None:
    taken = {name + "!" * (name in operation.required) for name in operation.fields}
    assert taken == FIELDS[operation.method, operation.path]
