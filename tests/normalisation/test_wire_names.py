"""What the wire calls each attribute."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seorep_async.errors import ConfigurationError
from seorep_async.models import KeywordRanking
from seorep_async.normalisation.wire_names import engine_warning, wire_names
from seorep_async.settings import EngineNames
from tests.models.reference import REFERENCE
from tests.normalisation.wire import BRANDS, branded

NEVER_ON_THE_WIRE = {"extra", "date_precision"}

every_model = pytest.mark.parametrize("model", REFERENCE, ids=lambda model: model.__name__)


@every_model
def test_attributes_have_the_reference_names(model: type) -> None:
    assert wire_names(model, EngineNames()) == {field.attribute: field.name for field in REFERENCE[model]}


@every_model
def test_brand_names_stand_for_the_reference_tokens(model: type) -> None:
    assert wire_names(model, BRANDS) == {field.attribute: branded(field.name) for field in REFERENCE[model]}


def test_the_brand_names_of_the_tests_are_realistic() -> None:
    wire = ["engineARankings_1_3", "engineAMobileRankingUrl", "lastEngineAMobileRankingDate", "lastEngineBRankingDate"]
    brands = ["googleRankings_1_3", "googleMobileRankingUrl", "lastGoogleMobileRankingDate", "lastBingRankingDate"]
    assert [*map(branded, wire)] == brands
    wire = ["engineBSerpUrl", "wmtCtr", "engineA_ignore_places", "localMonthlySearches"]
    assert [*map(branded, wire)] == ["bingSerpUrl", "gwtCtr", "google_ignore_places", "localMonthlySearches"]


@every_model
def test_only_extra_and_date_precision_are_never_on_the_wire(model: type) -> None:
    assert {field.name for field in attrs.fields(model)} - set(wire_names(model, EngineNames())) <= NEVER_ON_THE_WIRE


@every_model
@pytest.mark.parametrize("engine_names", [EngineNames(), BRANDS], ids=["reference", "brands"])
def test_no_two_attributes_of_a_model_share_a_wire_name(model: type, engine_names: EngineNames) -> None:
    names = wire_names(model, engine_names)
    assert len(set(names.values())) == len(names)


words = st.lists(
    st.sampled_from(["a", "Mobile", "Places", "Maps", "Ranking", "mobile", "last"]), min_size=1, max_size=3
)
tokens = words.map("".join)


@settings(max_examples=300, derandomize=True, database=None)
@given(engine_a=tokens, engine_b=tokens, webmaster_tools=tokens)
def test_accepted_engine_names_give_no_field_twice(**chosen: Any) -> None:
    try:
        engine_names = EngineNames(**chosen)
    except ConfigurationError:
        return
    for model in REFERENCE:
        names = wire_names(model, engine_names)
        assert len(set(names.values())) == len(names), names


@pytest.mark.parametrize(
    ("ranks", "extra", "warned"),
    [
        ({}, {"googleRanking": 3}, True),
        ({}, {"bingRanking": None}, True),
        ({"engine_b_ranking": 4}, {"googleMobileRanking": 3}, True),
        ({"engine_a_ranking": 3, "engine_b_ranking": 4}, {"engineCRanking": 5}, False),
        ({}, {"type": "real"}, False),
        ({}, {}, False),
    ],
)
def test_a_rank_under_another_name_is_noticed(ranks: dict[str, Any], extra: dict[str, Any], warned: bool) -> None:
    warning = engine_warning(KeywordRanking(1, "shoes", **ranks, extra=extra))
    assert (warning is not None) is warned
    assert warning is None or (next(iter(extra)) in warning and "Settings(engine_names=…)" in warning)
