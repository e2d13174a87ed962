"""Operations and fields, against those of the reference.

`tests/resources/test_answers.py` compares the records.
"""

import re
from typing import Any

import pytest

from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, RankingTotals
from seorep_async.sandbox.chain import OPERATIONS
from seorep_async.sandbox.request import Operation
from tests.models.reference import fields_in
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
async def test_rows_have_the_reference_s_fields_and_forms(
    rows: str, path: str, field: str, form: str
) -> None:
    async with calling(rows=rows) as call:
        report = await call.feed(path)
    expected_fields = {line.name for line in fields_in(ROWS[path], rows)}
    for row in report:
        assert set(row) == expected_fields
        assert re.fullmatch(form, row[field])


@pytest.mark.parametrize(
    ("rows", "path", "block"),
    [
        ("current", CAMPAIGN_BY_DATE, "campaign_by_date"),
        ("older", CAMPAIGN_BY_DATE, "campaign_by_date"),
        ("current", KEYWORD_BY_DATE, "keyword_by_date"),
        ("older", KEYWORD_BY_DATE, "keyword_by_date_older"),
    ],
)
async def test_totals_have_exactly_the_reference_s_metrics(
    rows: str, path: str, block: str
) -> None:
    async with calling(rows=rows) as call:
        totals = totals_of(await call.get(path, **FEEDS[path]))
    assert set(totals) == {line.name for line in fields_in(RankingTotals, block)}
    assert {tuple(entry) for entry in totals.values()} == {("value",)}


@pytest.mark.parametrize("path", FEEDS)
async def test_both_shapes_have_the_same_facts_in_their_places(path: str) -> None:
    query = {**FEEDS[path], "compare_previous_period": "true"}
    async with calling(shape="nested") as call:
        nested = await call.get(path, **query)
    async with calling(shape="flat") as call:
        flat = await call.get(path, **query)
    assert (rows_of(nested), totals_of(nested)) == (rows_of(flat), totals_of(flat))
    assert (totals_of(nested) is False) is (path == CAMPAIGN)
    assert (set(nested), set(nested["data"])) == ({"metadata", "data"}, {"totals", "rows"})
    assert (set(flat), type(flat["data"])) == ({"metadata", "data", "totals"}, list)
    assert flat["metadata"] == nested["metadata"] | {"version": False}
    assert set(nested["metadata"]) == {"total_pages", "total_records"}


def format_of(page: dict[str, Any]) -> tuple[bool, bool]:
    """Return whether a page is flat, and whether it has older rows."""
    return isinstance(page["data"], list), "backlinks" in rows_of(page)[0]


async def test_a_mixed_account_has_one_of_four_formats_a_campaign() -> None:
    async with calling(shape="mixed", rows="mixed", campaigns=30) as call:
        formats = set()
        for campaign_id in range(1, 31):
            query = {**FEEDS[CAMPAIGN], "campaign_id": campaign_id}
            first_page = await call.get(CAMPAIGN, **query)
            second_page = await call.get(CAMPAIGN, **query, page=2)
            assert format_of(first_page) == format_of(second_page)
            formats.add(format_of(first_page))
    assert formats == {(False, False), (False, True), (True, False), (True, True)}


# --- The table of operations


def reference_fields(operation: reference.Operation) -> set[str]:
    """Return the fields that an operation takes beside the id in its path."""
    fields = set(operation.inputs) - {"id"}
    if operation.is_listing:
        fields.add("page")
    if operation.resource == "rankings":
        fields.add("filter")  # its search has two names
    if operation.name == "keywords.list":
        fields.add("campaign_id")  # live services have it
    return fields


def key_of(operation: Operation | reference.Operation) -> tuple[str, str]:
    return operation.method, operation.path.replace("/7", "/:id")


REFERENCE_OPERATIONS = {key_of(operation): operation for operation in reference.OPERATIONS}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: " ".join(key_of(operation)))
def test_an_operation_takes_the_reference_s_fields(operation: Operation) -> None:
    expected = REFERENCE_OPERATIONS[key_of(operation)]
    assert set(operation.fields) == reference_fields(expected)
    assert set(operation.required) == set(expected.required) - {"id"}
