"""Names on the wire, and rows and totals that the tests of both paths do not generate."""

from typing import Any, get_args

import attrs
import pytest
from hypothesis import example, given, settings, strategies as st

from seorep_async.errors import ConfigurationError
from seorep_async.models import CampaignPeriod, KeywordRanking
from seorep_async.normalisation import Decoder, FeedPage
from seorep_async.normalisation.wire_names import engine_warning, wire_names
from seorep_async.settings import EngineNames
from tests.models.reference import REFERENCE
from tests.normalisation.wire import (
    BRANDS,
    Shape,
    as_bytes,
    branded,
    decode,
    decode_row,
    envelope,
    every_feed,
    row_and_model,
)


@every_feed
def test_attributes_are_read_only_under_an_account_s_names(row: type) -> None:
    wire, model = row_and_model(row, 1)
    attribute = {"engine_a_ranking": 7}
    assert decode_row(wire | attribute, row) == attrs.evolve(model, extra=attribute)
    under_brands = decode_row(wire, row, BRANDS)
    assert (under_brands.engine_a_ranking, under_brands.extra["engineARanking"]) == (
        None,
        wire["engineARanking"],
    )


@every_feed
def test_pages_are_documented_even_if_rows_can_not_become_models(
    row: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Calling None is a TypeError. So is setting a class of another layout.
    monkeypatch.setattr("seorep_async.normalisation.rows.turn_into_models", None)
    wire, model = row_and_model(row, 1)
    body = as_bytes(envelope([wire, wire], "flat"))
    page: Any = FeedPage(Decoder(EngineNames()), row, 1).documented(body)
    assert page is not None
    assert [*page.items] == [model, model]
    assert {type(item) for item in page.items} == {row}


# --- Totals


def totals_of(totals: object, shape: Shape) -> Any:
    return decode(envelope([], shape, totals), CampaignPeriod).totals


@pytest.mark.parametrize("shape", get_args(Shape))
def test_missing_totals_become_none(shape: Shape) -> None:
    nothing: list[object] = [False, None, [], {}]
    assert {totals_of(totals, shape) for totals in nothing} == {None}
    data: object = {"rows": []} if shape == "nested" else []
    assert decode({"data": data}, CampaignPeriod).totals is None


# --- The name of each attribute on the wire


@pytest.mark.parametrize("model", REFERENCE, ids=lambda model: model.__name__)
def test_attributes_have_the_names_of_reference_and_brands(model: type) -> None:
    fields = REFERENCE[model]
    assert wire_names(model, EngineNames()) == {field.attribute: field.name for field in fields}
    assert wire_names(model, BRANDS) == {field.attribute: branded(field.name) for field in fields}
    unnamed = {field.name for field in attrs.fields(model)} - {field.attribute for field in fields}
    assert unnamed <= {"extra", "date_precision"}


words = st.sampled_from(["a", "Mobile", "Places", "Maps", "Ranking", "mobile", "last"])
tokens = st.lists(words, min_size=1, max_size=3).map("".join)


@settings(max_examples=100, derandomize=True, database=None)
@given(engine_a=tokens, engine_b=tokens, webmaster_tools=tokens)
@example(engine_a="engineA", engine_b="engineB", webmaster_tools="wmt")
@example(engine_a="google", engine_b="bing", webmaster_tools="gwt")
def test_accepted_engine_names_make_no_duplicate_field(**names: Any) -> None:
    try:
        engine_names = EngineNames(**names)
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
def test_a_rank_under_another_name_is_noticed(
    ranks: dict[str, Any], extra: dict[str, Any], warned: bool
) -> None:
    warning = engine_warning(KeywordRanking(1, "shoes", **ranks, extra=extra))
    assert (warning is not None) is warned
    assert warning is None or (
        next(iter(extra)) in warning and "Settings(engine_names=…)" in warning
    )
