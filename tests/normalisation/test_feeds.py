"""The three feeds and the campaign list, each in every wire version: equal facts give equal models.

`tests/models/test_fields.py` and `test_hostile.py` have every field and every accepted value.
"""

from typing import Any, NamedTuple, cast

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seorep_async.errors import ConfigurationError, DecodeError
from seorep_async.models import Campaign, CampaignPeriod, KeywordPeriod, KeywordRanking, RankingTotals
from seorep_async.normalisation.wire_names import engine_warning, wire_names
from seorep_async.settings import EngineNames
from tests.models.reference import REFERENCE
from tests.normalisation.wire import (
    BRANDS,
    FEED_ROWS,
    Json,
    Rows,
    Shape,
    as_bytes,
    branded,
    decode,
    decode_campaign,
    decode_row,
    decoder,
    envelope,
    finished,
    model_row,
    wire_row,
)


class Version(NamedTuple):
    """One way in which the service may write the same facts."""

    shape: Shape
    rows: Rows
    brands: bool


@pytest.fixture(
    params=[
        Version("nested", "current", False),
        Version("nested", "older", True),
        Version("flat", "current", True),
        Version("flat", "older", False),
    ],  # each two of the three choices together once
    ids=lambda version: "-".join([version.shape, version.rows, "brands" if version.brands else "reference"]),
)
def version(request: pytest.FixtureRequest) -> Version:
    return cast(Version, request.param)


@pytest.fixture(params=FEED_ROWS, ids=lambda row: row.__name__)
def row(request: pytest.FixtureRequest) -> type:
    return cast(type, request.param)


def written(found: Json, version: Version) -> Json:
    return {branded(name): value for name, value in found.items()} if version.brands else found


def read(version: Version, row: type, rows: list[Json], totals: object = False) -> Any:
    answer = envelope([written(found, version) for found in rows], version.shape, totals)
    return decode(answer, row, BRANDS) if version.brands else decode(answer, row)


def test_every_fact_of_every_row_comes_home_in_order(version: Version, row: type) -> None:
    page = read(version, row, [wire_row(row, number, version.rows) for number in (1, 2, 3)])
    assert page.items == tuple(model_row(row, number, version.rows) for number in (1, 2, 3))


def test_every_total_comes_home_freed_from_its_object(version: Version, row: type) -> None:
    totals = written(wire_row(RankingTotals, 5), version)
    page = read(version, row, [], totals)
    assert page.totals == model_row(RankingTotals, 5)


def test_the_counts_of_the_metadata_come_home(version: Version, row: type) -> None:
    page = read(version, row, [])
    assert (page.items, page.total_pages, page.total_records, page.number) == ((), 1, 3, 1)


def test_a_row_with_nothing_but_its_key_is_accepted(version: Version, row: type) -> None:
    least = {KeywordRanking: ["keywordId", "keywordPhrase"], CampaignPeriod: ["date"], KeywordPeriod: ["date"]}[row]
    full = wire_row(row, 1, version.rows)
    (found,) = read(version, row, [{name: full[name] for name in least}]).items
    (nulls,) = read(version, row, [{name: full[name] if name in least else None for name in full}]).items
    assert found == nulls
    empty = set(attrs.fields_dict(row)) - {"keyword_id", "keyword_phrase", "date", "date_precision", "tags", "extra"}
    assert {name: getattr(found, name) for name in empty} == dict.fromkeys(empty)


def test_null_and_zero_stay_apart(version: Version, row: type) -> None:
    kinds = [field for field in REFERENCE[row] if field.kind == "integer"]
    template = wire_row(row, 1, version.rows)
    zeros, nulls = read(
        version,
        row,
        [template | {field.name: value for field in kinds if field.name in template} for value in (0, None)],
    ).items
    for field in kinds:
        if field.name in template:
            assert (getattr(zeros, field.attribute), getattr(nulls, field.attribute)) == (0, None)


def test_unknown_fields_of_a_row_stay_as_they_came(row: type) -> None:
    unknown: Json = {"serpFeatures": [{"kind": "map", "at": None}], "share": 0.25, "extra": {}, "date_precision": "x"}
    found = decode_row(wire_row(row, 1) | unknown, row)
    assert found.extra == unknown
    assert attrs.evolve(found, extra={}) == model_row(row, 1)


def test_an_attribute_name_is_no_wire_name(row: type) -> None:
    attribute = "engine_a_ranking"
    assert decode_row(wire_row(row, 1) | {attribute: 7}, row) == attrs.evolve(model_row(row, 1), extra={attribute: 7})


def test_reference_tokens_are_unknown_under_brand_names(row: type) -> None:
    found = decode_row(wire_row(row, 1), row, BRANDS)
    assert found.engine_a_ranking is None
    assert found.extra["engineARanking"] == wire_row(row, 1)["engineARanking"]


def test_the_models_of_a_page_are_hashable_with_extra_fields(row: type) -> None:
    page = decode(envelope([wire_row(row, 1) | {"x": [{}]}], "nested", wire_row(RankingTotals, 1)), row)
    assert {page, page} == {page}


# --- The campaign list


LEAST: Json = {"id": 7, "url": "www.example.com", "company": "Example Ltd"}
UNDOCUMENTED = [field for field in REFERENCE[Campaign] if field.kind == "unknown"]


def test_every_field_of_every_campaign_comes_home_in_order() -> None:
    body = as_bytes(
        {"metadata": {"total_pages": 4, "total_records": 9}, "data": [wire_row(Campaign, n) for n in (2, 1)]}
    )
    page = finished(decoder().model_page(body, Campaign, 3))
    assert page.items == (model_row(Campaign, 2), model_row(Campaign, 1))
    assert (page.number, page.total_pages, page.total_records, page.totals) == (3, 4, 9, None)


def test_a_long_list_is_decoded_in_steps() -> None:
    body = as_bytes({"data": [wire_row(Campaign, 1)] * 100})
    assert len(list(decoder().model_page(body, Campaign, 1))) >= 4


def test_an_empty_list_has_no_campaigns() -> None:
    body = as_bytes({"metadata": {"total_pages": 0, "total_records": 0}, "data": []})
    page = finished(decoder().model_page(body, Campaign, 1))
    assert (page.items, page.total_records) == ((), 0)


@pytest.mark.parametrize("value", ["x", "", 0, 7, 1.5, True, False, [], [1, {}], {}, {"a": [None]}], ids=repr)
def test_a_field_of_no_documented_type_stays_as_it_came(value: object) -> None:
    found = decode_campaign(LEAST | {field.name: value for field in UNDOCUMENTED})
    found_values = [getattr(found, field.attribute) for field in UNDOCUMENTED]
    assert found_values == [value] * len(UNDOCUMENTED)
    assert {type(one) for one in found_values} == {type(value)}


def test_a_campaign_is_hashable_with_any_undocumented_values() -> None:
    campaign = decode_campaign(LEAST | {field.name: [{}] for field in UNDOCUMENTED})
    assert campaign in {campaign}


def test_a_path_has_the_brand_names_of_the_account() -> None:
    body = as_bytes({"data": [LEAST, LEAST | {"google_ignore_places": "maybe"}]})
    with pytest.raises(DecodeError) as refused:
        finished(decoder(BRANDS).model_page(body, Campaign, 1))
    assert refused.value.field_path == "data[1].google_ignore_places"


# --- What the wire calls each attribute


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


words = st.lists(
    st.sampled_from(["a", "Mobile", "Places", "Maps", "Ranking", "mobile", "last"]), min_size=1, max_size=3
)
tokens = words.map("".join)


@settings(max_examples=300, derandomize=True, database=None)
@given(engine_a=tokens, engine_b=tokens, webmaster_tools=tokens)
@example(engine_a="engineA", engine_b="engineB", webmaster_tools="wmt")
@example(engine_a="google", engine_b="bing", webmaster_tools="gwt")
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
