"""The table of operations, against that of the reference."""

import pytest

from seorep_async.sandbox.operations import OPERATIONS, Operation
from tests.resources import operations as reference


def names(operation: reference.Operation) -> set[str]:
    """Return the fields that an operation takes beside the id in its path; `!` marks those that it requires."""
    found = {name + "!" * (name in operation.required) for name in operation.inputs if name != "id"}
    if operation.is_listing:
        found |= {"page"}
    if operation.resource == "rankings":
        found |= {"filter"}  # its search has two names
    return found | ({"campaign_id"} if operation.name == "keywords.list" else set())


FIELDS = {(one.method, one.path.replace("/7", "/:id")): names(one) for one in reference.OPERATIONS}


def test_there_are_all_21_operations() -> None:
    assert len(OPERATIONS) == len(FIELDS) == 21


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_an_operation_takes_the_reference_s_fields(operation: Operation) -> None:
    taken = {name + "!" * (name in operation.required) for name in operation.fields}
    assert taken == FIELDS[operation.method, operation.path]
