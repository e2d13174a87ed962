"""The campaign list; `tests/models/test_fields.py` has what holds for every model."""

from __future__ import annotations

import pytest

from seorep_async.errors import DecodeError
from seorep_async.models import Campaign
from tests.models.reference import REFERENCE
from tests.normalisation.wire import BRANDS, Json, as_bytes, decode_campaign, decoder, finished, model_row, wire_row

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
