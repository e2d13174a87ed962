"""Each of the 21 operations and a pull send the documented names, and only given values."""

import datetime as dt
import enum
import inspect
import itertools
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import pytest

from seorep_async import (
    ArrayEncoding,
    Feed,
    FeedSearchParam,
    RequestEncoding,
    SeoRepClient,
)
from tests.resources.operations import (
    BY_NAME,
    CHECKED,
    IDS,
    OPERATIONS,
    VALUES,
    Arguments,
    Operation,
    each,
)
from tests.scripted_api import FEED, simulating
from tests.session.calls import OpenClient, StartServer
from tests.session.scripted_server import SeenRequest, answer

Sent = Callable[..., Awaitable[SeenRequest]]
FORM = RequestEncoding.FORM
JSON = RequestEncoding.JSON
QUERY = RequestEncoding.QUERY
LIST = BY_NAME["users.list"]
FEEDS = [operation for operation in OPERATIONS if operation.resource == "rankings"]

WRITES = [operation for operation in OPERATIONS if operation.is_write]
ENCODED = [(operation, FORM) for operation in OPERATIONS]
ENCODED += itertools.product(WRITES, [JSON, QUERY])

every_operation = each(OPERATIONS)


def name_of(part: Operation | RequestEncoding) -> str:
    return part.value if isinstance(part, RequestEncoding) else part.name


every_operation_encoded = pytest.mark.parametrize(("operation", "encoding"), ENCODED, ids=name_of)


@pytest.fixture
async def sent(scripted_server: StartServer, open_client: OpenClient) -> Sent:
    """Call an operation once, and return its only request."""

    async def call(operation: Operation, arguments: Arguments, **settings: Any) -> SeenRequest:
        response = answer(operation.answer)
        if operation.verb == "delete":
            response = answer(status=204)
        server = await scripted_server(response)
        client = await open_client(server.base_url, **settings)
        await operation.ask(client, **arguments)
        (request,) = server.requests
        return request

    return call


def pairs(request: SeenRequest) -> list[tuple[str, Any]]:
    """Return the parameters of a request in their order, with the numbers of JSON as numbers."""
    query = request.target.partition("?")[2]
    assert not (query and request.body), "all are in one place"
    if request.body.startswith(b"{"):
        return list(json.loads(request.body).items())
    text = query or request.body.decode("ascii")
    return parse_qsl(text, keep_blank_values=True, strict_parsing=bool(query))


# --- Parameters of requests


def test_the_client_has_the_operations_of_the_reference_and_pull() -> None:
    client = SeoRepClient("http://127.0.0.1:9", "key")
    names = set()
    for name, resource in vars(client).items():
        for verb, _ in inspect.getmembers(type(resource), inspect.isfunction):
            if not name.startswith("_") and not verb.startswith("_"):
                names.add(f"{name}.{verb}")
    assert names == set(BY_NAME) | {"rankings.pull"}
    distinct = {(operation.method, operation.path) for operation in OPERATIONS}
    assert len(distinct) == 21


@every_operation
def test_an_operation_takes_the_inputs_of_the_reference(operation: Operation) -> None:
    method = operation.method_of(SeoRepClient("http://127.0.0.1:9", "key"))
    parameters = inspect.signature(method).parameters
    required = set()
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty:
            required.add(name)
    assert set(parameters) == {*operation.inputs, "extra_params"}
    assert required == set(operation.required)


@every_operation_encoded
async def test_every_argument_is_in_the_query_the_form_or_the_json(
    encoding: RequestEncoding, operation: Operation, sent: Sent
) -> None:
    request = await sent(operation, operation.all, request_encoding=encoding)
    written: list[tuple[str, Any]] = [*operation.written(operation.all)]
    if encoding is JSON:
        numbers = dict.fromkeys(IDS, 7)
        written = [(name, numbers.get(name, text)) for name, text in written]
    assert sorted(pairs(request), key=str) == sorted(written, key=str)
    has_body = operation.is_write and encoding is not QUERY
    assert bool(request.body) is has_body


@every_operation
async def test_only_arguments_with_a_value_are_sent(operation: Operation, sent: Sent) -> None:
    nothing = dict.fromkeys([*operation.optional, "extra_params"])
    calls = [operation.least | {name: VALUES[name]} for name in operation.optional]
    for arguments in [operation.changing, *calls]:
        request = await sent(operation, nothing | arguments)
        assert sorted(pairs(request)) == sorted(operation.written(arguments))


@every_operation
async def test_an_empty_string_is_sent(operation: Operation, sent: Sent) -> None:
    empty = {name: "" for name in operation.optional if name not in CHECKED}
    request = await sent(operation, operation.changing | empty)
    expected = {wire for wire, _ in operation.written(empty)} - {"page"}
    assert {wire for wire, value in pairs(request) if value == ""} == expected


# --- Undocumented choices


class Role(str, enum.Enum):  # noqa: UP042  # its own str() is not its value
    CLIENT = "client"
    STAFF = "staff & co"


class Number(enum.IntEnum):
    SEVEN = 7


ROLES = ["client", "staff & co"]


@pytest.mark.parametrize(
    ("encoding", "array"),
    [
        (ArrayEncoding.BRACKETS, [("role[]", "client"), ("role[]", "staff & co")]),
        (ArrayEncoding.REPEAT, [("role", "client"), ("role", "staff & co")]),
        (ArrayEncoding.COMMA, [("role", "client,staff & co")]),
    ],
)
@pytest.mark.parametrize(
    "roles",
    [
        partial(iter, ROLES),
        partial(set, ROLES),
        partial(list, Role),
    ],
)
async def test_roles_are_written_as_the_settings_say(
    roles: Callable[[], Any], encoding: ArrayEncoding, array: list[tuple[str, str]], sent: Sent
) -> None:
    request = await sent(LIST, {"role": roles()}, array_encoding=encoding)
    assert pairs(request) == [*array, ("page", "1")]


@pytest.mark.parametrize("names", FeedSearchParam)
@each([*FEEDS, BY_NAME["backlinks.list"], BY_NAME["campaigns.list"]])
async def test_only_a_feed_s_search_has_the_names_in_the_settings(
    operation: Operation, names: FeedSearchParam, sent: Sent
) -> None:
    name = "search" if "search" in operation.inputs else "filter"
    request = await sent(operation, operation.least | {name: "x"}, feed_search_param=names)
    expected = [name]
    if operation in FEEDS:
        both = names is FeedSearchParam.BOTH
        expected = ["filter", "search"] if both else [names.value]
    assert [sent_as for sent_as, value in pairs(request) if value == "x"] == expected


@pytest.mark.parametrize(
    ("operation", "name", "encoding"),
    [
        (BY_NAME["users.create"], "email_credentials", FORM),
        (BY_NAME["users.create"], "email_credentials", JSON),
        (FEEDS[0], "compare_previous_period", FORM),
    ],
    ids=lambda part: getattr(part, "name", part),
)
@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), ("Yes", "Yes"), ("1", "1")]
)
async def test_a_choice_is_written_as_string_and_string_is_passed_on(
    value: bool | str,
    text: str,
    encoding: RequestEncoding,
    operation: Operation,
    name: str,
    sent: Sent,
) -> None:
    request = await sent(operation, operation.least | {name: value}, request_encoding=encoding)
    assert dict(pairs(request))[name] == text


@pytest.mark.parametrize(
    ("dates", "text"),
    [
        (("2014-01-02", "2015-06-07"), "2014-01-02-2015-06-07"),
        ([dt.date(2014, 1, 2), "2014-01-02"], "2014-01-02-2014-01-02"),
        ("last month", "last month"),
    ],
)
async def test_a_date_string_is_two_dates_or_a_string(dates: Any, text: str, sent: Sent) -> None:
    request = await sent(BY_NAME["backlinks.list"], {"campaign_id": 7, "date_string": dates})
    assert ("date_string", text) in pairs(request)


# --- Further parameters

EXTRA = {
    "tag": "brand & co",
    "count": 3,
    "is_new": True,
    "no": False,
    "share": 1.5,
    "since": dt.date(2023, 1, 2),
    "empty": "",
    "kind": Role.CLIENT,
    "seven": Number.SEVEN,
}
# the values that are not sent as they are, but as these texts
TEXTS = {"is_new": "true", "no": "false", "kind": "client", "seven": "7"}
NOT_SENT: dict[str, Any] = {"not": None, "none": []}
FURTHER = {"extra_params": EXTRA | NOT_SENT}


@every_operation_encoded
async def test_every_operation_sends_further_parameters_like_its_own(
    encoding: RequestEncoding, operation: Operation, sent: Sent
) -> None:
    request = await sent(operation, operation.changing | FURTHER, request_encoding=encoding)
    texts = {name: str(value) for name, value in EXTRA.items()} | TEXTS
    texts |= dict(operation.written(operation.changing))
    parameters: Arguments = dict(pairs(request))
    if operation.is_write and encoding is JSON:
        assert parameters["count"] == 3
        assert parameters["share"] == 1.5
        assert parameters.pop("none") == []
    assert {name: str(value) for name, value in parameters.items()} == texts


@pytest.mark.parametrize(
    "text",
    ["a b", "a+b", "a&b=c", "50%", "#1", "a/b?c", "ü", "鞋👟", "a\nb", "%41", "~-._", "'\"<>\0"],
)
async def test_any_string_arrives_in_plain_ascii(text: str, sent: Sent) -> None:
    request = await sent(LIST, {"filter": text, "extra_params": {f"n{text}": text}})
    assert pairs(request) == [("filter", text), (f"n{text}", text), ("page", "1")]
    assert request.target.isascii()
    assert not set(request.target) & set(" +#\"<>'\n\x00")


# --- Several requests

JANUARY = ("2023-01-01", "2023-01-31")
DATES = [("start_date", "2023-01-01"), ("end_date", "2023-01-31")]


@pytest.mark.virtual
@pytest.mark.parametrize(
    ("feed", "operation"),
    [
        (Feed.CAMPAIGN, BY_NAME["rankings.campaign"]),
        (Feed.CAMPAIGN_BY_DATE, BY_NAME["rankings.campaign_by_date"]),
        (Feed.KEYWORD_BY_DATE, BY_NAME["rankings.keyword_by_date"]),
    ],
)
async def test_a_pull_sends_for_each_id_what_its_feed_would(
    feed: Feed, operation: Operation
) -> None:
    options: dict[str, Any] = {name: VALUES[name] for name in operation.optional}
    async with simulating(lambda request: FEED.envelope([])) as (client, service):
        await client.rankings.pull([42, 43], *JANUARY, feed=feed, **options)
    assert {request.path for request in service.requests} == {operation.path}
    (id_name,) = IDS & {*operation.inputs}
    options_sent = [*DATES, *operation.written(options)]
    requests = sorted(request.pairs for request in service.requests)
    assert requests == [[(id_name, id_), *options_sent] for id_ in ("42", "43")]
