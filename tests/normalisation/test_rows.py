"""Single fields of a row: dates, text booleans, and objects inside rows; and totals: none, known, unknown and null."""

import datetime as dt
from typing import Any, get_args

import attrs
import pytest

from seorep_async.models import (
    CampaignPeriod,
    KeywordPeriod,
    KeywordRanking,
    RankingTotals,
    SearchLanguage,
    SearchLocation,
    Tag,
)
from tests.models.reference import REFERENCE
from tests.normalisation.wire import BRANDS, Shape, decode, decode_row, envelope, wire_row

LAST_DATES = [field for field in REFERENCE[KeywordRanking] if field.kind == "last"]

NOTHING: list[Any] = [None, {}, []]


def changed(**fields: object) -> Any:
    return decode_row({"keywordId": 1, "keywordPhrase": "running shoes"} | fields)


@pytest.mark.parametrize(
    ("written", "date", "is_extra"),
    [
        *((text, dt.date(2015, 3, 31), True) for text in ("2015-03-31 9:32:19", "2015-03-31 00:00:01")),
        *((text, dt.date(2015, 3, 31), False) for text in ("2015-03-31", "2015-03-31 00:00:00", "2015-03-31 0:00:00")),
        *((nothing, None, False) for nothing in (None, "", "0000-00-00", "0000-00-00 00:00:00")),
    ],
)
def test_a_last_date_keeps_the_original_of_a_time_of_day(written: object, date: dt.date | None, is_extra: bool) -> None:
    wire = {field.name: written for field in LAST_DATES}
    found = changed(**wire)
    dates = [getattr(found, field.attribute) for field in LAST_DATES]
    assert (dates, {type(one) for one in dates}) == ([date] * len(LAST_DATES), {type(date)})
    assert found.extra == (wire if is_extra else {})


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


BOOLEANS = [("true", True), ("false", False), ("TRUE", True), ("False", False), (True, True), (False, False)]
TAGS: list[tuple[Any, Any]] = [
    ([], ()),
    (None, ()),
    ([{"id": 4, "label": "brand"}], (Tag(4, "brand"),)),
    ([{"id": "4", "label": ""}], (Tag(4, ""),)),
    ([{"id": 4, "label": "brand", "colour": [1]}], (Tag(4, "brand", {"colour": [1]}),)),
    ([{"id": 2, "label": "b"}, {"id": 1, "label": "a"}], (Tag(2, "b"), Tag(1, "a"))),
]
PLACES: list[tuple[Any, Any]] = [
    ({"id": 4}, SearchLocation(4)),
    ({"id": 4, "canonical_name": None, "country_code": "GB"}, SearchLocation(4, None, "GB")),
    ({"id": 4, "lat": 1.5}, SearchLocation(4, extra={"lat": 1.5})),
    *((nothing, None) for nothing in NOTHING),
]
LANGUAGES: list[tuple[Any, Any]] = [
    ({"id": 4}, SearchLanguage(4)),
    ({"id": 4, "name": "Deutsch", "code": "de"}, SearchLanguage(4, "Deutsch", {"code": "de"})),
    *((nothing, None) for nothing in NOTHING),
]


@pytest.mark.parametrize(
    ("wire", "attribute", "written", "value"),
    [
        *(("primaryKeyword", "primary_keyword", *one) for one in [*BOOLEANS, (None, None)]),
        *(("primaryKeyword", "primary_keyword", odd, None) for odd in ("", "yes", "running shoes", "0")),
        *(("tags", "tags", *one) for one in TAGS),
        *(("searchLocation", "search_location", *one) for one in PLACES),
        *(("searchLanguage", "search_language", *one) for one in LANGUAGES),
    ],
)
def test_a_field_keeps_what_it_can_and_a_string_is_extra(
    wire: str, attribute: str, written: object, value: object
) -> None:
    found = changed(**{wire: written})
    kept = getattr(found, attribute)
    assert (type(kept), kept) == (type(value), value)
    assert found.extra == ({wire: written} if value is None and isinstance(written, str) else {})


def test_everything_a_row_can_not_hold_is_extra_at_once() -> None:
    odd = {"primaryKeyword": "maybe", "lastResultsDate": "2023-01-02 03:04:05", "serp": None}
    assert changed(**odd).extra == odd


def test_what_is_extra_in_one_row_is_not_in_the_next() -> None:
    plain = {"keywordId": 1, "keywordPhrase": "running shoes"}
    page = decode(envelope([plain | {"serp": 1}, plain, plain | {"serp": 2}], "nested"))
    assert [found.extra for found in page.items] == [{"serp": 1}, {}, {"serp": 2}]


# --- Totals


ABSENT = object()

both_shapes = pytest.mark.parametrize("shape", get_args(Shape))


def replace(totals: Any, attribute: str, value: object) -> Any:
    return attrs.evolve(totals, **{attribute: value})


def totals_of(totals: object, shape: Shape = "nested") -> Any:
    answer = envelope([], shape, totals)
    if totals is ABSENT:
        (answer["data"] if shape == "nested" else answer).pop("totals")
    return decode(answer, CampaignPeriod).totals


@both_shapes
@pytest.mark.parametrize("nothing", [False, None, [], {}, ABSENT], ids=["false", "null", "array", "object", "absent"])
def test_no_totals_are_none(nothing: object, shape: Shape) -> None:
    assert totals_of(nothing, shape) is None


@pytest.mark.parametrize(("wire", "attribute"), [(field.name, field.attribute) for field in REFERENCE[RankingTotals]])
def test_a_total_is_its_value_alone(wire: str, attribute: str) -> None:
    assert totals_of({wire: {"value": 7}}) == replace(RankingTotals(), attribute, 7)


@both_shapes
@pytest.mark.parametrize("value", [-7, 0, 3.5, 2.0, None], ids=str)
def test_a_total_keeps_value_and_type(value: float | None, shape: Shape) -> None:
    found = totals_of({"competitors": {"value": value}}, shape)
    assert found == RankingTotals(competitors=value)
    assert type(found.competitors) is type(value)


def test_a_null_total_is_none() -> None:
    assert totals_of({"engineARanking": None}) == RankingTotals()


@both_shapes
def test_unknown_totals_stay_as_they_came(shape: Shape) -> None:
    unknown = {"engineCRanking": {"value": 3}, "visibility": 0.5, "notes": None, "engineARankings_1_3": {"value": "?"}}
    found = totals_of(unknown | {"competitors": {"value": 4}}, shape)
    assert found == RankingTotals(competitors=4, extra=unknown)


def test_a_total_with_more_than_its_value_stays_whole_as_well() -> None:
    found = totals_of({"competitors": {"value": 4, "previous": 5}})
    assert found == RankingTotals(competitors=4, extra={"competitors": {"value": 4, "previous": 5}})


def test_totals_follow_the_brand_names() -> None:
    answer = envelope([], "flat", {"googleRanking": {"value": 1}, "bingRanking": {"value": 2}, "gwtCtr": {"value": 3}})
    assert decode(answer, CampaignPeriod, BRANDS).totals == RankingTotals(
        engine_a_ranking=1, engine_b_ranking=2, wmt_ctr=3
    )
