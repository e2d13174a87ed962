"""Every documented field of every response is an attribute of a model."""

import json
from typing import Any

import attrs
import pytest

from seorep_async.errors import DecodeError
from seorep_async.models import (
    Backlink,
    Campaign,
    CampaignPeriod,
    Keyword,
    KeywordRanking,
    LoginGrant,
    RankingTotals,
    SearchLanguage,
    SearchLocation,
    Tag,
    User,
)
from seorep_async.normalisation import FeedPage, ModelPage
from seorep_async.settings import EngineNames
from tests.models.reference import REFERENCE, Line, example_of, fields_in, shapes_of
from tests.normalisation.test_refusals import WRONG
from tests.normalisation.wire import (
    BRANDS,
    FEED_ROWS,
    Json,
    as_bytes,
    branded,
    decode_row,
    decoder,
    envelope,
)

NESTED = {
    SearchLocation: "searchLocation",
    SearchLanguage: "searchLanguage",
    Tag: "tags",
}

ACCOUNT: tuple[type, ...] = (
    Campaign,
    User,
    LoginGrant,
    Keyword,
    Backlink,
)


def under(names: EngineNames, wire: Any) -> Any:
    """Return an answer of an account with these names for the engines."""
    if isinstance(wire, dict):
        rename = branded if names == BRANDS else str
        return {rename(name): under(names, value) for name, value in wire.items()}
    if isinstance(wire, list):
        return [under(names, item) for item in wire]
    return wire


def come_home(model: type, shape: str, wire: Json, names: EngineNames = EngineNames()) -> Any:  # noqa: B008
    """Decode an object that is the second of its list, or the single one, and return the model."""
    least = example_of(model, shape, first=1001)[0]
    if model in FEED_ROWS:
        return decode_row(under(names, wire), model, names)
    if model is RankingTotals:
        body = as_bytes(under(names, envelope([], "flat", wire)))
        return FeedPage(decoder(names), CampaignPeriod, 1)(body).totals
    if model in NESTED:
        field = NESTED[model]
        row, _ = example_of(KeywordRanking, "current")
        row[field] = [wire] if field == "tags" else wire
        ranking = decode_row(under(names, row), KeywordRanking, names)
        value = getattr(ranking, snake(field))
        return value[0] if field == "tags" else value
    if shape == "list":
        body = as_bytes(under(names, {"metadata": [], "data": [least, wire]}))
        return ModelPage(decoder(names), model, 1)(body).items[1]
    return decoder(names).single(as_bytes(under(names, {"metadata": [], "data": wire})), model)


def snake(name: str) -> str:
    return Line(name, "", frozenset()).attribute


def types_of(model: Any) -> list[type]:
    """Return the types of a model's values, where `==` would take 1 for True."""
    names = [field.name for field in attrs.fields(type(model)) if field.name != "extra"]
    return [type(getattr(model, name)) for name in names]


@pytest.mark.parametrize("names", [EngineNames(), BRANDS], ids=["reference", "brands"])
@pytest.mark.parametrize(
    ("model", "shape"),
    [
        pytest.param(model, shape, id=f"{model.__name__}-{shape}")
        for model in REFERENCE
        for shape in shapes_of(model)
    ],
)
def test_a_response_of_the_reference_fills_the_model_exactly(
    model: type, shape: str, names: EngineNames
) -> None:
    wire, expected = example_of(model, shape)
    decoded = come_home(model, shape, wire, names)
    assert decoded == expected
    assert types_of(decoded) == types_of(expected)
    assert decoded.extra == {}


# --- What the reference does not promise


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        pytest.param(model, shape, id=f"{model.__name__}-{shape}")
        for model in (*ACCOUNT, *FEED_ROWS)
        for shape in shapes_of(model)
    ],
)
def test_a_value_that_is_missing_or_wrong_is_refused_by_path(model: type, shape: str) -> None:
    wire, _ = example_of(model, shape)
    parent = {"list": "data[1]", "current": "data[0]", "older": "data[0]"}.get(shape, "data")
    for line in fields_in(model, shape):
        expected, *values = WRONG.get(line.kind, ("",))
        cases = []
        for value in values:
            described = {"[": "an array", "{": "an object"}.get(value[0], value)
            problem = f"expected {expected}, got {described}"
            cases.append((wire | {line.name: json.loads(value)}, problem))
        if line.kind in ("id", "phrase"):
            incomplete = {name: value for name, value in wire.items() if name != line.name}
            cases.append((incomplete, "is missing"))
        path = f"{parent}.{branded(line.name)}"
        for wrong_wire, problem in cases:
            with pytest.raises(DecodeError) as refused:
                come_home(model, shape, wrong_wire, BRANDS)
            assert refused.value.field_path == path
            assert refused.value.message == f"{path}: {problem}"
