"""Every field that the reference names can be read on a model, whatever response carries it."""

from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st

from seorep_async.errors import DecodeError
from seorep_async.models import (
    Backlink,
    Campaign,
    CampaignPeriod,
    Keyword,
    KeywordPeriod,
    KeywordRanking,
    LoginGrant,
    RankingTotals,
    SearchLanguage,
    SearchLocation,
    Tag,
    User,
)
from seorep_async.settings import EngineNames
from tests.models.reference import REFERENCE, Line, example_of, fields_in, shapes_of
from tests.normalisation.generated import bounded, said_models
from tests.normalisation.wire import BRANDS, Json, as_bytes, branded, decode_row, decoder, envelope, finished

ROWS = {KeywordRanking, CampaignPeriod, KeywordPeriod}
NESTED = {SearchLocation: "searchLocation", SearchLanguage: "searchLanguage", Tag: "tags"}

Names = EngineNames
both_names = pytest.mark.parametrize("names", [EngineNames(), BRANDS], ids=["reference", "brands"])
ACCOUNT: tuple[type, ...] = (Campaign, User, LoginGrant, Keyword, Backlink)
each_response = pytest.mark.parametrize(
    ("model", "shape"),
    [pytest.param(model, shape, id=f"{model.__name__}-{shape}") for model in ACCOUNT for shape in shapes_of(model)],
)


def under(names: Names, wire: Any) -> Any:
    """Return an answer as an account with these names for the engines has it."""
    if isinstance(wire, dict):
        rename = branded if names == BRANDS else str
        return {rename(name): under(names, value) for name, value in wire.items()}
    return [under(names, one) for one in wire] if isinstance(wire, list) else wire


def come_home(model: type, shape: str, wire: Json, names: Names = EngineNames()) -> Any:  # noqa: B008
    """Decode an object that is the second of its list, or the single one, and return the model."""
    least = example_of(model, shape, first=1001)[0]
    if model in ROWS:
        return decode_row(under(names, wire), model, names)
    if model is RankingTotals:
        body = as_bytes(under(names, envelope([], "flat", wire)))
        return finished(decoder(names).feed_page(body, CampaignPeriod, 1)).totals
    if model in NESTED:
        nested = NESTED[model]
        row = example_of(KeywordRanking, "current")[0] | {nested: [wire] if nested == "tags" else wire}
        found = getattr(decode_row(under(names, row), KeywordRanking, names), snake(nested))
        return found[0] if nested == "tags" else found
    if shape == "list":
        body = as_bytes(under(names, {"metadata": [], "data": [least, wire]}))
        return finished(decoder(names).model_page(body, model, 1)).items[1]
    return decoder(names).single(as_bytes(under(names, {"metadata": [], "data": wire})), model)


def snake(name: str) -> str:
    return Line(name, "", frozenset()).attribute


def types_of(model: Any) -> list[type]:
    """Return the types of a model's values, where `==` would take 1 for True."""
    return [type(getattr(model, field.name)) for field in attrs.fields(type(model)) if field.name != "extra"]


def test_the_table_has_every_model_of_the_reference() -> None:
    assert {model.__name__: len(lines) for model, lines in REFERENCE.items()} == {
        "Campaign": 16,
        "User": 10,
        "LoginGrant": 5,
        "Keyword": 6,
        "Backlink": 13,
        "Tag": 2,
        "SearchLocation": 4,
        "SearchLanguage": 2,
        "KeywordRanking": 37,
        "CampaignPeriod": 31,
        "KeywordPeriod": 16,
        "RankingTotals": 16,
    }


@both_names
@pytest.mark.parametrize(
    ("model", "shape"),
    [pytest.param(model, shape, id=f"{model.__name__}-{shape}") for model in REFERENCE for shape in shapes_of(model)],
)
def test_a_response_of_the_reference_fills_the_model_exactly(model: type, shape: str, names: Names) -> None:
    wire, expected = example_of(model, shape)
    found = come_home(model, shape, wire, names)
    assert found == expected
    assert types_of(found) == types_of(expected)
    assert found.extra == {}


# --- What the reference does not promise


@pytest.mark.parametrize("model", ACCOUNT, ids=lambda model: model.__name__)
@bounded
@given(data=st.data())
def test_any_facts_of_an_account_come_home(model: type, data: st.DataObject) -> None:
    (wire, fact), (other, second) = (data.draw(said_models(model)) for _ in range(2))
    single: Any = decoder().single(as_bytes({"data": wire}), model)
    listed = finished(decoder().model_page(as_bytes({"data": [wire, other]}), model, 1))
    assert (single, listed.items) == (fact, (fact, second))
    assert types_of(single) == types_of(listed.items[0]) == types_of(fact)


def path_of(shape: str, name: str) -> str:
    return f"data{'[1]' if shape == 'list' else ''}.{name}"


@each_response
def test_what_is_required_may_be_neither_null_nor_missing(model: type, shape: str) -> None:
    wire, _ = example_of(model, shape)
    for line in [line for line in fields_in(model, shape) if line.kind in ("id", "phrase")]:
        null, without = wire | {line.name: None}, {name: value for name, value in wire.items() if name != line.name}
        for wrong, said in ((without, "is missing"), (null, "got null")):
            with pytest.raises(DecodeError, match=said) as refused:
                come_home(model, shape, wrong)
            assert refused.value.field_path == path_of(shape, line.name)


WRONG: dict[str, list[Any]] = {
    "id": [1.5, "x", True, [], ""],
    "phrase": [1, True, [], {}],
    "integer": [1.5, "x", True, [], ""],
    "text": [1, True, [], {}],
    "flag": ["maybe", "", 0, []],
    "moment": ["2015-03-31", "yesterday", 0, []],
    "day": ["2015-03", "yesterday", 0, []],
}


@each_response
def test_a_value_of_another_type_is_refused_with_its_path(model: type, shape: str) -> None:
    wire, _ = example_of(model, shape)
    for line in fields_in(model, shape):
        for wrong in WRONG.get(line.kind, []):
            with pytest.raises(DecodeError, match="expected ") as refused:
                come_home(model, shape, wire | {line.name: wrong})
            assert refused.value.field_path == path_of(shape, line.name)


@pytest.mark.parametrize(
    ("came", "wanted", "path"),
    [
        *((Campaign, User, "username"), (Campaign, Keyword, "keyword_phrase"), (Campaign, Backlink, "title")),
        *((Campaign, LoginGrant, "token"), (User, Campaign, "url"), (User, Keyword, "keyword_phrase")),
        *((Keyword, Backlink, "title"), (Keyword, User, "username"), (Backlink, Campaign, "company")),
        (Backlink, Keyword, "keyword_phrase"),
    ],
)
@pytest.mark.parametrize("shape", ["single", "list"])
def test_one_thing_where_another_belongs_is_refused_with_a_path(
    shape: str, came: type, wanted: type, path: str
) -> None:
    wire, _ = example_of(came, shape)
    body = as_bytes({"data": [wire] if shape == "list" else wire})
    with pytest.raises(DecodeError, match="is missing") as refused:
        finished(decoder().model_page(body, wanted, 1)) if shape == "list" else decoder().single(body, wanted)
    assert refused.value.field_path == f"data{'[0]' if shape == 'list' else ''}.{path}"


@pytest.mark.parametrize("model", ACCOUNT, ids=lambda model: model.__name__)
@pytest.mark.parametrize("data", [[], {}, None, "x", 7, [{}]], ids=repr)
def test_what_is_no_such_object_at_all_is_refused_with_a_path(data: object, model: type) -> None:
    with pytest.raises(DecodeError) as refused:
        decoder().single(as_bytes({"data": data}), model)
    assert str(refused.value.field_path).startswith("data")
