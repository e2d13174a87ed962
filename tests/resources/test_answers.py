"""Each of the 21 operations returns every documented field, and refuses other answers."""

import datetime as dt
import functools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from seorep_async import Campaign, RankingReport, RequestEncoding, SeoRepClient, Settings
from seorep_async.errors import (
    DecodeError,
    InvalidRequestError,
    NotFoundError,
    OutcomeUnknownError,
    ProtocolError,
    SeoRepError,
    StatusError,
)
from seorep_async.models import (
    Backlink,
    CampaignPeriod,
    Keyword,
    KeywordPeriod,
    KeywordRanking,
    LoginGrant,
    User,
)
from tests.models.reference import Line, fields_in
from tests.normalisation.wire import assert_faithful
from tests.resources.operations import BY_NAME, IDS, LEAST, OPERATIONS, Arguments, Operation, each
from tests.sandbox import calls
from tests.sandbox.calls import BACKLINKS, CAMPAIGNS, USERS, YEAR, client_of_sandbox
from tests.session.calls import Connect, failure_of
from tests.session.scripted_server import answer, reset

NEW: dict[str, Arguments] = {
    "campaigns": calls.NEW[CAMPAIGNS],
    "users": calls.NEW[USERS] | {"email_credentials": False},
    "backlinks": calls.NEW[BACKLINKS] | {"date_published": dt.date(2022, 3, 4)},
}
CHANGES: dict[str, Arguments] = {
    "campaigns": calls.CHANGES[CAMPAIGNS],
    "users": calls.CHANGES[USERS] | {"password": "an&ther"},
    "backlinks": calls.CHANGES[BACKLINKS] | {"date_published": dt.date(2022, 5, 6)},
}
MODELS: dict[str, type] = {
    "rankings.campaign": KeywordRanking,
    "rankings.campaign_by_date": CampaignPeriod,
    "rankings.keyword_by_date": KeywordPeriod,
    "campaigns": Campaign,
    "users": User,
    "users.login_grant": LoginGrant,
    "keywords": Keyword,
    "backlinks": Backlink,
}
OF_CAMPAIGN: Arguments = {"campaign_id": 2}
OF_LISTINGS: dict[str, Arguments] = {
    "backlinks.list": OF_CAMPAIGN,
    "rankings.campaign": OF_CAMPAIGN | YEAR,
    "rankings.campaign_by_date": OF_CAMPAIGN | YEAR,
    "rankings.keyword_by_date": {"keyword_id": 200_001} | YEAR,
}
UNDOCUMENTED = {"campaigns": {"type"}}
"""Fields that live services and the sandbox send, though the reference does not name them."""


def arguments_of(operation: Operation) -> Arguments:
    """Return arguments for the sandbox: of object 2, or of the first of campaign 2."""
    if operation.verb == "create":
        return NEW[operation.resource]
    arguments = dict(OF_LISTINGS.get(operation.name, {}))
    if "id" in operation.inputs:
        arguments["id"] = 200_001 if operation.resource in ("backlinks", "keywords") else 2
    if operation.verb == "update":
        arguments |= CHANGES[operation.resource]
    return arguments


def result_of(operation: Operation) -> tuple[type, list[Line]]:
    model = MODELS.get(operation.name) or MODELS[operation.resource]
    if operation.resource == "rankings":
        shape = "current"
    elif operation.verb in ("create", "update", "list"):
        shape = operation.verb
    else:
        shape = "single"
    return model, fields_in(model, shape)


deletions = [operation for operation in OPERATIONS if operation.verb == "delete"]


@pytest.fixture
async def client() -> AsyncIterator[SeoRepClient]:
    april = dt.datetime(2023, 4, 5, 6, 7, 8)
    async with client_of_sandbox(campaigns=3, keywords=4, clock=lambda: april) as client:
        yield client


async def models_and_objects(
    operation: Operation, client: SeoRepClient
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the models of a call, and the objects of the answer."""
    with client.record_answers() as answers:
        results = await operation.method_of(client)(**arguments_of(operation))
    (raw,) = answers
    data = json.loads(raw.body)["data"]
    if isinstance(results, RankingReport):
        rows = data if isinstance(data, list) else data["rows"]
        return list(results.rows), rows
    if isinstance(results, list):
        return results, data
    return [results], [data]


@each([operation for operation in OPERATIONS if operation.verb != "delete"])
async def test_a_result_has_every_field_of_the_reference(
    operation: Operation, client: SeoRepClient
) -> None:
    model, lines = result_of(operation)
    results, came = await models_and_objects(operation, client)
    assert results
    for instance, wire in zip(results, came, strict=True):
        assert type(instance) is model
        documented = set(wire) - UNDOCUMENTED.get(operation.resource, set())
        assert documented == {line.name for line in lines}
        assert_faithful(instance, wire)


# --- create, get, list, update, delete, gone


def assert_has(record: Any, shape: str, written: Arguments) -> None:
    """Assert that an object has the written values, as far as a response of its shape has them."""
    for line in fields_in(type(record), shape):
        if line.kind != "null" and line.attribute in written:
            assert getattr(record, line.attribute) == written[line.attribute]


@pytest.mark.parametrize("resource", NEW)
@pytest.mark.parametrize("encoding", RequestEncoding, ids=lambda encoding: encoding.value)
async def test_an_object_is_created_found_changed_and_deleted(
    encoding: RequestEncoding, resource: str
) -> None:
    settings = Settings(request_encoding=encoding)
    new = NEW[resource]
    changes = CHANGES[resource]
    of_campaign = {"campaign_id": 2} if resource == "backlinks" else {}
    async with client_of_sandbox(campaigns=3, keywords=2, settings=settings) as client:
        things: Any = getattr(client, resource)
        created = await things.create(**new)
        assert_has(created, "create", new)
        assert_has(await things.get(created.id), "single", new)
        listed = {thing.id: thing for thing in await things.list(**of_campaign)}
        assert_has(listed[created.id], "list", new)
        changed = await things.update(created.id, **changes)
        assert_has(changed, "update", new | changes)
        assert_has(await things.get(created.id), "single", new | changes)
        await things.delete(created.id)
        left = await things.list(**of_campaign)
        assert created.id not in [thing.id for thing in left]
        update = functools.partial(things.update, **changes)
        for use in (things.get, things.delete, update):
            error = await failure_of(use(created.id), NotFoundError)
            assert error.subject == f"{resource[:-1]} {created.id}"


# --- Answers that contradict the reference


@each(deletions)
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", None),
        (b'{"metadata": {}, "data": []}', None),
        (b'{"metadata": {}, "data": {"id": 7}}', None),
        (b'{"status": "error", "code": 404, "message": "no such object"}', NotFoundError),
        (b'{"status": "error", "message": "no"}', StatusError),
        (b"<html>Please sign in</html>", ProtocolError),
        (b"[]", DecodeError),
    ],
)
async def test_a_deletion_is_a_success_without_an_error(
    body: bytes, expected: type[SeoRepError] | None, operation: Operation, connect: Connect
) -> None:
    client, _ = await connect(forever=answer(body), max_attempts=2)
    call = operation.ask(client, id=7)
    if expected is None:
        await call
        return
    error = await failure_of(call, expected)
    assert type(error) is expected


# --- Sent again, or not


once_only = [
    operation
    for operation in OPERATIONS
    if operation.method == "POST" or operation.verb == "login_grant"
]


@each(once_only)
async def test_a_request_that_must_run_once_is_not_repeated(
    operation: Operation, connect: Connect
) -> None:
    client, server = await connect(reset)
    error = await failure_of(operation.ask(client, **operation.least), OutcomeUnknownError)
    subject = "user 7" if operation.verb == "login_grant" else operation.resource[:-1]
    said = f"{subject}: whether the request was carried out is not known"
    assert str(error).startswith(said)
    assert error.path == operation.path
    assert len(server.requests) == 1


@each([operation for operation in OPERATIONS if operation not in once_only])
async def test_a_repeatable_request_is_repeated_unchanged(
    operation: Operation, connect: Connect
) -> None:
    fine = answer(status=204) if operation in deletions else answer(operation.answer)
    client, server = await connect(reset, answer(status=500), fine)
    await operation.ask(client, **operation.changing)
    first, *repeated = server.requests
    assert len(repeated) == 2
    for request in repeated:
        assert (request.method, request.target, request.body) == (
            first.method,
            first.target,
            first.body,
        )


@each(OPERATIONS)
async def test_a_refusal_names_the_object(operation: Operation, connect: Connect) -> None:
    client, _ = await connect(answer(status=400))
    error = await failure_of(operation.ask(client, **operation.changing), InvalidRequestError)
    subject: str | None = operation.resource[:-1]
    if operation.verb != "create":
        id_name = next((name for name in operation.required if name in IDS), None)
        noun = subject if id_name == "id" else str(id_name).removesuffix("_id")
        # a list may be of all objects
        subject = id_name and f"{noun} 7"
    assert error.subject == subject


DAYS = ("2023-01-01", "2023-01-31")
BY_DATE = "rankings.campaign_by_date"
LINK = {"id": 3, "title": "t"}


@pytest.mark.parametrize(
    ("name", "data", "path"),
    [
        ("campaigns.get", LEAST["campaigns"] | {"id": 1}, "data.id"),
        ("backlinks.list", [LINK, LINK | {"campaign_id": 1}], "data[1].campaign_id"),
        ("backlinks.list", {"data": [], "metadata": {"campaignId": 1}}, "metadata.campaignId"),
        (BY_DATE, {"rows": [{"date": "2023-01", "campaignId": "1"}]}, "data.rows[0].campaignId"),
        (BY_DATE, {"data": [], "campaign": {"id": 1}}, "campaign.id"),
        ("rankings.keyword_by_date", {"data": [], "keyword_id": 1}, "keyword_id"),
    ],
)
async def test_a_response_about_another_object_is_refused(
    name: str, data: Any, path: str, connect: Connect
) -> None:
    operation = BY_NAME[name]
    client, server = await connect(answer(data if "data" in data else {"data": data}))
    error = await failure_of(operation.ask(client, **operation.changing), DecodeError)
    assert error.field_path == path
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("name", "data", "path"),
    [
        ("users.login_grant", LEAST["users.login_grant"] | {"user_id": 1}, "data.user_id"),
        ("backlinks.create", LINK | {"campaign_id": 1}, "data.campaign_id"),
    ],
)
async def test_a_creation_answered_with_another_object_is_in_doubt(
    name: str, data: Any, path: str, connect: Connect
) -> None:
    client, server = await connect(answer({"data": data}))
    operation = BY_NAME[name]
    error = await failure_of(operation.ask(client, **operation.changing), OutcomeUnknownError)
    assert isinstance(error.__cause__, DecodeError)
    assert error.__cause__.field_path == path
    assert len(server.requests) == 1


@pytest.mark.parametrize("campaign_id", [2, "2"])
async def test_keywords_of_another_campaign_are_refused(
    campaign_id: int | str, connect: Connect
) -> None:
    keyword = {"id": 1, "keyword_phrase": "a", "campaign_id": 3}
    client, _ = await connect(
        answer({"data": [keyword], "metadata": {"total_pages": 1, "total_records": 1}})
    )
    # The command passes strings.
    with pytest.raises(DecodeError, match="about 3, but 2 was requested"):
        await client.keywords.list(extra_params={"campaign_id": campaign_id})


async def test_rows_of_the_requested_object_are_accepted(connect: Connect) -> None:
    row = {
        "date": "2023-01",
        "campaignId": "7",
        "campaign": {"id": 7},
        "campaign_id": None,
        "keyword_id": 1,
    }
    beside = {"campaign_id": 7, "campaign": "shoes", "campaignId": "x", "keyword_id": 1}
    metadata = {"total_pages": 1, "total_records": 1}
    client, _ = await connect(answer({"data": [row], "metadata": metadata, **beside}))
    assert len((await client.rankings.campaign_by_date(7, *DAYS)).rows) == 1


# a range that has not begun

NO_ROWS = {
    "metadata": {"total_pages": 1, "total_records": 0},
    "data": {"totals": False, "rows": []},
}
LATER = ("2999-01-01", "2999-01-31")


async def test_an_empty_report_of_a_future_range_is_an_error(connect: Connect) -> None:
    client, _ = await connect(answer(NO_ROWS), answer(NO_ROWS))
    call = client.rankings.campaign(1, *LATER)
    error = await failure_of(call, InvalidRequestError, "2999-01-31 is in the future")
    assert error.subject == "campaign 1"
    (outcome,) = await client.rankings.pull([1], *LATER)
    assert isinstance(outcome.error, InvalidRequestError)
