"""The campaign list and a single campaign."""

from __future__ import annotations

import datetime as dt

import attrs
import pytest

from seorep_async.errors import DecodeError
from seorep_async.models import Campaign
from seorep_async.settings import EngineNames
from tests.normalisation.wire import (
    BRANDS,
    CAMPAIGN,
    Json,
    as_bytes,
    branded,
    decode_campaign,
    decoder,
    finished,
    model_row,
    wire_row,
)

LEAST: Json = {"id": 7, "url": "www.example.com", "company": "Example Ltd"}
UNDOCUMENTED = [field for field in CAMPAIGN if field.kind == "anything"]
MOMENTS = [field for field in CAMPAIGN if field.kind == "moment"]


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


def test_a_single_campaign_is_the_same_as_in_a_list() -> None:
    body = as_bytes({"metadata": {}, "data": wire_row(Campaign, 1)})
    assert decoder().single(body, Campaign) == model_row(Campaign, 1)


def test_brand_names_are_read_too() -> None:
    body = as_bytes({"data": [{branded(name): value for name, value in wire_row(Campaign, 1).items()}]})
    assert finished(decoder(BRANDS).model_page(body, Campaign, 1)).items == (model_row(Campaign, 1),)


def test_an_empty_list_has_no_campaigns() -> None:
    body = as_bytes({"metadata": {"total_pages": 0, "total_records": 0}, "data": []})
    page = finished(decoder().model_page(body, Campaign, 1))
    assert (page.items, page.total_records) == ((), 0)


def test_what_a_response_leaves_out_is_none() -> None:
    found = decode_campaign(LEAST)
    assert found == Campaign(id=7, url="www.example.com", company="Example Ltd")
    rest = set(attrs.fields_dict(Campaign)) - {*LEAST, "extra"}
    assert {name: getattr(found, name) for name in rest} == dict.fromkeys(rest)


def test_null_is_the_same_as_left_out() -> None:
    nulls = {field.wire: None for field in CAMPAIGN if field.wire not in LEAST}
    assert decode_campaign(LEAST | nulls) == decode_campaign(LEAST)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2015-03-31 9:32:19", dt.datetime(2015, 3, 31, 9, 32, 19)),
        ("2015-03-31 09:32:19", dt.datetime(2015, 3, 31, 9, 32, 19)),
        ("0000-00-00 00:00:00", None),
        ("0000-00-00", None),
        ("", None),
    ],
)
def test_a_moment_is_a_naive_datetime_or_none(text: str, expected: dt.datetime | None) -> None:
    found = decode_campaign(LEAST | {field.wire: text for field in MOMENTS})
    assert [getattr(found, field.attribute) for field in MOMENTS] == [expected] * len(MOMENTS)


@pytest.mark.parametrize("value", ["x", "", 0, 7, 1.5, True, False, [], [1, {}], {}, {"a": [None]}], ids=repr)
def test_a_field_of_no_documented_type_stays_as_it_came(value: object) -> None:
    found = decode_campaign(LEAST | {field.wire: value for field in UNDOCUMENTED})
    found_values = [getattr(found, field.attribute) for field in UNDOCUMENTED]
    assert found_values == [value] * len(UNDOCUMENTED)
    assert {type(one) for one in found_values} == {type(value)}


def test_a_campaign_is_hashable_with_any_undocumented_values() -> None:
    campaign = decode_campaign(LEAST | {field.wire: [{}] for field in UNDOCUMENTED})
    assert campaign in {campaign}


@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), ("false", False), ("False", False), (True, True), (False, False)]
)
def test_ignore_places_is_a_boolean(value: object, expected: bool) -> None:
    assert decode_campaign(LEAST | {"engineA_ignore_places": value}).engine_a_ignore_places is expected


@pytest.mark.parametrize("status", ["active", "paused", "", "Ünknown status"])
def test_a_status_is_any_string(status: str) -> None:
    assert decode_campaign(LEAST | {"status": status}).status == status


def test_an_undocumented_field_stays() -> None:
    assert decode_campaign(LEAST | {"type": "real", "limits": {"keywords": None}}).extra == {
        "type": "real",
        "limits": {"keywords": None},
    }


@pytest.mark.parametrize("field", LEAST)
def test_a_campaign_without_what_every_campaign_has_is_refused(field: str) -> None:
    error = refusal({name: value for name, value in LEAST.items() if name != field})
    assert (error.message, error.field_path) == (f"data[1].{field}: is missing", f"data[1].{field}")


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


def test_a_single_campaign_is_refused_with_its_path() -> None:
    with pytest.raises(DecodeError, match=r"^data\.id: is missing$"):
        decoder().single(as_bytes({"data": {"url": "u", "company": "c"}}), Campaign)
