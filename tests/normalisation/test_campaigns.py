"""The campaign list; `tests/models/test_fields.py` has what holds for every model."""

from __future__ import annotations

import pytest

from seorep_async.errors import DecodeError
from seorep_async.models import Campaign
from seorep_async.settings import EngineNames
from tests.models.reference import REFERENCE
from tests.normalisation.wire import BRANDS, Json, as_bytes, decode_campaign, decoder, finished, model_row, wire_row

LEAST: Json = {"id": 7, "url": "www.example.com", "company": "Example Ltd"}
UNDOCUMENTED = [field for field in REFERENCE[Campaign] if field.kind == "unknown"]


def refusal(campaign: object, names: EngineNames | None = None) -> DecodeError:
    with pytest.raises(DecodeError) as raised:
        finished(decoder(names or EngineNames()).model_page(as_bytes({"data": [LEAST, campaign]}), Campaign, 1))
    return raised.value


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


@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), ("false", False), ("False", False), (True, True), (False, False)]
)
def test_ignore_places_is_a_boolean(value: object, expected: bool) -> None:
    assert decode_campaign(LEAST | {"engineA_ignore_places": value}).engine_a_ignore_places is expected


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("id", None, "expected an integer, got null"),
        ("id", 1.0, "expected an integer, got 1.0"),
        ("url", None, "expected a string, got null"),
        ("company", 7, "expected a string, got 7"),
        ("status", True, "expected a string, got true"),
        ("group_title", [], "expected a string, got an array"),
        ("account_id", "x", 'expected an integer, got "x"'),
        ("engineA_ignore_places", "maybe", 'expected true or false, got "maybe"'),
        ("engineA_ignore_places", "", 'expected true or false, got ""'),
        ("engineA_ignore_places", 0, "expected true or false, got 0"),
        ("date_created", "2023-01-31", 'expected a date-time "YYYY-MM-DD HH:MM:SS", got "2023-01-31"'),
        ("date_modified", 0, 'expected a date-time "YYYY-MM-DD HH:MM:SS", got 0'),
    ],
)
def test_a_wrong_field_is_refused_with_its_path(field: str, value: object, problem: str) -> None:
    error = refusal(LEAST | {field: value})
    assert (error.message, error.field_path) == (f"data[1].{field}: {problem}", f"data[1].{field}")


def test_a_path_has_the_brand_names_of_the_account() -> None:
    error = refusal(LEAST | {"google_ignore_places": "maybe"}, BRANDS)
    assert error.field_path == "data[1].google_ignore_places"
