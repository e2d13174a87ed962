"""The table of operations, against lists copied from part 4 of the reference."""

import pytest

from seorep_async.sandbox.api.operations import OPERATIONS, Operation

METHODS = {
    "/v3/campaigns": "GET POST",
    "/v3/campaigns/:id": "GET PUT DELETE",
    "/v3/users": "GET POST",
    "/v3/users/:id": "GET PUT DELETE",
    "/v3/users/:id/loginGrant": "GET",
    "/v3/keywords": "GET",
    "/v3/keywords/:id": "GET",
    "/v3/backlinks": "POST",
    "/v3/backlinks/:id": "GET PUT DELETE",
    "/v3/resources/backlinks/manager/links": "GET",
    "/v3/resources/rankings/campaign": "GET",
    "/v3/resources/rankings/campaign/date": "GET",
    "/v3/resources/rankings/keyword/date": "GET",
}
BODIES = {
    ("/v3/campaigns", "POST"): "url! company! scope group_title",
    ("/v3/campaigns/:id", "PUT"): "url company scope group_title",
    ("/v3/users", "POST"): "first_name! last_name! username! password! email role! email_credentials",
    ("/v3/users/:id", "PUT"): "first_name last_name username email password role",
    ("/v3/backlinks", "POST"): (
        "campaign_id! title! url! status! date_published! link_type target_anchor target_url notes"
    ),
    ("/v3/backlinks/:id", "PUT"): "date_published status url link_type notes title target_anchor target_url",
}
FEED = "start_date! end_date! filter search page limit sort_metric sort_direction compare_previous_period"
LIST = "filter page limit order_by order_direction"
QUERIES = {
    "/v3/campaigns": LIST,
    "/v3/users": f"{LIST} role",
    "/v3/keywords": f"{LIST} campaign_id",
    "/v3/resources/backlinks/manager/links": (
        "campaign_id! status page limit sort_metric sort_direction date_string search link_type"
    ),
    "/v3/resources/rankings/campaign": f"campaign_id! {FEED}",
    "/v3/resources/rankings/campaign/date": f"campaign_id! {FEED}",
    "/v3/resources/rankings/keyword/date": f"keyword_id! {FEED}",
}


FIELDS = BODIES | {(path, "GET"): fields for path, fields in QUERIES.items()}


def test_there_are_all_21_operations() -> None:
    assert sorted((one.path, one.method) for one in OPERATIONS) == sorted(
        (path, method) for path, methods in METHODS.items() for method in methods.split()
    )
    assert len(OPERATIONS) == 21


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_an_operation_takes_the_reference_s_fields(operation: Operation) -> None:
    names = {field.name + "!" * field.required for field in operation.fields}
    assert names == set(FIELDS.get((operation.path, operation.method), "").split())
