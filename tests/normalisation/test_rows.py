"""Single fields of a row: dates, text booleans, and objects inside rows."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, SearchLanguage, SearchLocation, Tag
from tests.models.reference import REFERENCE
from tests.normalisation.wire import decode, decode_row, envelope, wire_row

LAST_DATES = [field for field in REFERENCE[KeywordRanking] if field.kind == "last"]


def changed(**fields: object) -> Any:
    return decode_row({"keywordId": 1, "keywordPhrase": "running shoes"} | fields)


def last_dates(written: object) -> tuple[list[Any], Any]:
    """Return all last dates of a row that has them all written so, and what is extra in it."""
    found = changed(**{field.name: written for field in LAST_DATES})
    return [getattr(found, field.attribute) for field in LAST_DATES], found.extra


def test_a_last_date_with_a_time_of_day_keeps_the_original() -> None:
    dates, extra = last_dates("2015-03-31 9:32:19")
    assert dates == [dt.date(2015, 3, 31)] * len(LAST_DATES)
    assert {type(date) for date in dates} == {dt.date}
    assert extra == {field.name: "2015-03-31 9:32:19" for field in LAST_DATES}


@pytest.mark.parametrize("text", ["2015-03-31", "2015-03-31 00:00:00", "2015-03-31 0:00:00"])
def test_a_last_date_without_a_time_of_day_leaves_nothing_extra(text: str) -> None:
    assert last_dates(text) == ([dt.date(2015, 3, 31)] * len(LAST_DATES), {})


@pytest.mark.parametrize("nothing", [None, "", "0000-00-00", "0000-00-00 00:00:00"])
def test_a_last_date_that_is_none_leaves_nothing_extra(nothing: object) -> None:
    assert last_dates(nothing) == ([None] * len(LAST_DATES), {})


@pytest.mark.parametrize(
    ("primary", "value", "extra"),
    [
        ("true", True, {}),
        ("false", False, {}),
        ("TRUE", True, {}),
        ("False", False, {}),
        (True, True, {}),
        (False, False, {}),
        (None, None, {}),
        ("", None, {"primaryKeyword": ""}),
        ("yes", None, {"primaryKeyword": "yes"}),
        ("running shoes", None, {"primaryKeyword": "running shoes"}),
        ("0", None, {"primaryKeyword": "0"}),
    ],
)
def test_primary_keyword_is_boolean_or_none_and_its_string_extra(primary: object, value: object, extra: object) -> None:
    found = changed(primaryKeyword=primary)
    assert found.primary_keyword is value
    assert found.extra == extra


@pytest.mark.parametrize("row", [CampaignPeriod, KeywordPeriod])
@pytest.mark.parametrize(
    ("text", "date", "precision"),
    [
        ("2023-04", dt.date(2023, 4, 1), "month"),
        ("2023-04-01", dt.date(2023, 4, 1), "day"),
        ("2024-02-29", dt.date(2024, 2, 29), "day"),
    ],
)
def test_a_period_has_the_precision_it_was_written_with(row: type, text: str, date: dt.date, precision: str) -> None:
    found = decode_row(wire_row(row, 1) | {"date": text}, row)
    assert (found.date, found.date_precision, found.extra) == (date, precision, {})


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ([], ()),
        (None, ()),
        ([{"id": 4, "label": "brand"}], (Tag(4, "brand"),)),
        ([{"id": "4", "label": ""}], (Tag(4, ""),)),
        ([{"id": 4, "label": "brand", "colour": [1]}], (Tag(4, "brand", {"colour": [1]}),)),
        ([{"id": 2, "label": "b"}, {"id": 1, "label": "a"}], (Tag(2, "b"), Tag(1, "a"))),
    ],
)
def test_tags_keep_their_order_and_what_is_unknown(tags: object, expected: object) -> None:
    assert changed(tags=tags).tags == expected


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (None, None),
        ({}, None),
        ([], None),
        ({"id": 4}, SearchLocation(4)),
        ({"id": 4, "canonical_name": None, "country_code": "GB"}, SearchLocation(4, None, "GB")),
        ({"id": 4, "lat": 1.5}, SearchLocation(4, extra={"lat": 1.5})),
    ],
)
def test_a_location_may_be_partial_or_an_empty_map(location: object, expected: object) -> None:
    assert changed(searchLocation=location).search_location == expected


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        (None, None),
        ({}, None),
        ([], None),
        ({"id": 4}, SearchLanguage(4)),
        ({"id": 4, "name": "Deutsch", "code": "de"}, SearchLanguage(4, "Deutsch", {"code": "de"})),
    ],
)
def test_a_language_may_be_partial_or_an_empty_map(language: object, expected: object) -> None:
    assert changed(searchLanguage=language).search_language == expected


def test_everything_a_row_can_not_hold_is_extra_at_once() -> None:
    odd = {"primaryKeyword": "maybe", "lastResultsDate": "2023-01-02 03:04:05", "serp": None}
    assert changed(**odd).extra == odd


def test_what_is_extra_in_one_row_is_not_in_the_next() -> None:
    plain = {"keywordId": 1, "keywordPhrase": "running shoes"}
    page = decode(envelope([plain | {"serp": 1}, plain, plain | {"serp": 2}], "nested"))
    assert [found.extra for found in page.items] == [{"serp": 1}, {}, {"serp": 2}]
