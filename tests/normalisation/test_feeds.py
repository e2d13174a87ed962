"""The three feeds, each in every wire version: equal facts give equal models.

`tests/models/test_fields.py` and `test_properties.py` have every field and every accepted value.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import attrs
import pytest

from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, RankingTotals
from tests.models.reference import REFERENCE
from tests.normalisation.wire import (
    BRANDS,
    FEED_ROWS,
    Json,
    Rows,
    Shape,
    branded,
    decode,
    decode_row,
    envelope,
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
