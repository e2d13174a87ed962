"""Totals: none, known, unknown and null."""

from __future__ import annotations

from typing import Any, get_args

import attrs
import pytest

from seorep_async.models import CampaignPeriod, RankingTotals
from tests.models.reference import REFERENCE
from tests.normalisation.wire import BRANDS, Shape, decode, envelope

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
