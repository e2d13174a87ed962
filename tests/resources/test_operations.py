"""What each of the 21 operations sends: the reference's method, path and names, and only what was given."""

import base64
import datetime as dt
import enum
import inspect
import json
import typing
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest

from seorep_async import ArrayEncoding, FeedSearchParam, RequestEncoding, SeoRepClient, Settings
from seorep_async.resources.rankings import FeedOptions
from tests.resources.operations import (
    BY_NAME,
    CHECKED,
    GIVEN,
    IDS,
    OPERATIONS,
    WRITES,
    Arguments,
    Operation,
    Pairs,
    each,
)
from tests.session.calls import KEY, OpenClient, StartServer
from tests.session.scripted_server import SeenRequest, answer

Sent = Callable[..., Awaitable[SeenRequest]]
FORM, JSON, QUERY = RequestEncoding.FORM, RequestEncoding.JSON, RequestEncoding.QUERY
MEDIA_TYPES: dict[RequestEncoding, list[str | None]] = {
    FORM: ["application/x-www-form-urlencoded"],
    JSON: ["application/json"],
    QUERY: [None, "application/octet-stream"],  # aiohttp names one where there is nothing to name
}


def each_input(wanted: Callable[[Operation, str], bool]) -> pytest.MarkDecorator:
    found = [(operation, name) for operation in OPERATIONS for name in operation.inputs if wanted(operation, name)]
    return pytest.mark.parametrize(("operation", "name"), found, ids=lambda part: getattr(part, "name", part))


every_operation = each(OPERATIONS)
every_encoding = pytest.mark.parametrize("encoding", RequestEncoding, ids=lambda encoding: encoding.value)
every_operation_encoded = pytest.mark.parametrize(
    ("operation", "encoding"),
    [(one, encoding) for one in OPERATIONS for encoding in (RequestEncoding if one.is_write else [FORM])],
    ids=lambda part: part.value if isinstance(part, RequestEncoding) else part.name,
)


@pytest.fixture
async def sent(scripted_server: StartServer, open_client: OpenClient) -> Sent:
    """Call an operation once and return the one request that came of it."""

    async def call(operation: Operation, arguments: Arguments, **settings: Any) -> SeenRequest:
        no_body = operation.verb == "delete"
        server = await scripted_server(answer(status=204) if no_body else answer(operation.answer))
        await operation.ask(await open_client(server.base_url, **settings), **arguments)
        (request,) = server.requests
        return request

    return call


def in_query(request: SeenRequest) -> Pairs:
    return parse_qsl(request.target.partition("?")[2], keep_blank_values=True, strict_parsing=True)


def in_form(request: SeenRequest) -> Pairs:
    return parse_qsl(request.body.decode("ascii"), keep_blank_values=True, strict_parsing=True)


def in_json(request: SeenRequest) -> Arguments:
    found: Arguments = json.loads(request.body)
    return found


def all_parameters(request: SeenRequest) -> Pairs:
    return in_query(request) + in_form(request)


# --- What is asked for


def test_the_table_has_the_21_operations_of_the_reference() -> None:
    assert len({(operation.method, operation.path) for operation in OPERATIONS}) == 21


def test_the_client_has_no_operation_beside_them_but_pull() -> None:
    client = SeoRepClient("http://127.0.0.1:9", "key")
    found = {
        f"{name}.{verb}"
        for name, resource in vars(client).items()
        if not name.startswith("_")
        for verb, _ in inspect.getmembers(type(resource), inspect.isfunction)
        if not verb.startswith("_")
    }
    assert found == set(BY_NAME) | {"rankings.pull"}


@every_operation
def test_an_operation_takes_the_inputs_of_the_reference(operation: Operation) -> None:
    parameters = dict(inspect.signature(operation.method_of(SeoRepClient("http://127.0.0.1:9", "key"))).parameters)
    options = FeedOptions.__annotations__ if parameters.pop("options", None) else ()
    required = [name for name, one in parameters.items() if one.default is inspect.Parameter.empty]
    assert {*parameters, *options} == {*operation.inputs, "extra_params"}
    assert sorted(required) == sorted(operation.required)


@every_operation
def test_the_types_of_an_operation_can_be_looked_up_as_it_runs(operation: Operation) -> None:
    hints = typing.get_type_hints(operation.method_of(SeoRepClient("http://127.0.0.1:9", "key")))
    options = FeedOptions.__annotations__ if "options" in hints else ()
    assert {*hints, *options} - {"options"} == {*operation.inputs, "extra_params", "return"}


@every_operation_encoded
async def test_every_argument_is_in_the_query_the_form_or_the_json(
    encoding: RequestEncoding, operation: Operation, sent: Sent
) -> None:
    request = await sent(operation, operation.all, request_encoding=encoding)
    written = operation.written(operation.all)
    if not operation.is_write or encoding is QUERY:
        assert (sorted(in_query(request)), request.body) == (sorted(written), b"")
        return
    assert "?" not in request.target
    if encoding is FORM:
        assert sorted(in_form(request)) == sorted(written)
    else:  # with numbers as numbers
        assert in_json(request) == {name: 7 if name in IDS else text for name, text in written}


@every_operation
async def test_none_is_the_same_as_not_given(operation: Operation, sent: Sent) -> None:
    nothing = dict.fromkeys([*operation.optional, "extra_params"])
    request = await sent(operation, nothing | operation.changing)
    assert sorted(all_parameters(request)) == sorted(operation.written(operation.changing))


@each([operation for operation in OPERATIONS if operation.optional])
async def test_an_argument_may_be_given_alone(operation: Operation, sent: Sent) -> None:
    calls = [operation.least | {name: GIVEN[name]} for name in operation.optional]
    found = [sorted(all_parameters(await sent(operation, given))) for given in calls]
    assert found == [sorted(operation.written(given)) for given in calls]


@every_operation_encoded
async def test_an_empty_string_is_sent(encoding: RequestEncoding, operation: Operation, sent: Sent) -> None:
    empty = {name: "" for name in operation.optional if name not in CHECKED}
    request = await sent(operation, operation.changing | empty, request_encoding=encoding)
    found = in_json(request).items() if operation.is_write and encoding is JSON else all_parameters(request)
    assert {wire for wire, _ in operation.written(empty)} - {"page"} == {wire for wire, value in found if value == ""}


# --- Headers


@every_operation_encoded
async def test_the_headers_of_an_operation(encoding: RequestEncoding, operation: Operation, sent: Sent) -> None:
    headers = dict((await sent(operation, operation.changing, request_encoding=encoding)).headers)
    media_types: list[str | None] = MEDIA_TYPES[encoding] if operation.is_write else [None]
    assert headers.pop("Authorization") == "Basic " + base64.b64encode(b":" + KEY.encode()).decode()
    assert headers.pop("Accept") == "application/json"
    assert headers.pop("Content-Type", None) in media_types
    assert headers.pop("User-Agent") == Settings().user_agent
    assert headers.keys() <= {"Host", "Accept-Encoding", "Content-Length", "Connection"}


# --- The same through aioresponses: what the request looks like to aiohttp


# --- Arrays


class Role(str, enum.Enum):  # noqa: UP042  # its own str() is not its value
    CLIENT = "client"
    STAFF = "staff & co"


ARRAYS = {
    ArrayEncoding.BRACKETS: [("role[]", "client"), ("role[]", "staff & co")],
    ArrayEncoding.REPEAT: [("role", "client"), ("role", "staff & co")],
    ArrayEncoding.COMMA: [("role", "client,staff & co")],
}
SEVERAL: dict[str, Callable[[], Any]] = {
    "a list": lambda: ["client", "staff & co"],
    "a tuple": lambda: ("client", "staff & co"),
    "a set": lambda: {"client", "staff & co"},
    "a generator": lambda: (role for role in ("client", "staff & co")),
    "keys of a dictionary": lambda: {"client": 1, "staff & co": 2}.keys(),
    "members of an enum": lambda: list(Role),
}


@pytest.mark.parametrize("roles", SEVERAL.values(), ids=SEVERAL)
async def test_roles_are_written_as_the_settings_say(roles: Callable[[], Any], sent: Sent) -> None:
    requests = {
        encoding: await sent(BY_NAME["users.list"], {"role": roles()}, array_encoding=encoding) for encoding in ARRAYS
    }
    assert {encoding: in_query(request)[:-1] for encoding, request in requests.items()} == ARRAYS


@each([BY_NAME["campaigns.create"], BY_NAME["users.update"]])
@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        (ArrayEncoding.BRACKETS, [("tags[]", "a"), ("tags[]", "b")]),
        (ArrayEncoding.REPEAT, [("tags", "a"), ("tags", "b")]),
        (ArrayEncoding.COMMA, [("tags", "a,b")]),
    ],
)
async def test_an_array_is_as_the_settings_say_in_a_form_only(
    encoding: ArrayEncoding, expected: Pairs, operation: Operation, sent: Sent
) -> None:
    arguments = operation.changing | {"extra_params": {"tags": ["a", "b"]}}
    request = await sent(operation, arguments, array_encoding=encoding)
    assert [pair for pair in in_form(request) if pair[0].startswith("tags")] == expected
    request = await sent(operation, arguments, array_encoding=encoding, request_encoding=JSON)
    assert in_json(request)["tags"] == ["a", "b"]


# --- Undocumented choices


@each([one for one in OPERATIONS if one.resource == "rankings" or one.name in ("backlinks.list", "campaigns.list")])
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (FeedSearchParam.BOTH, ["filter", "search"]),
        (FeedSearchParam.FILTER, ["filter"]),
        (FeedSearchParam.SEARCH, ["search"]),
    ],
)
async def test_only_a_feed_s_search_has_the_names_in_the_settings(
    names: FeedSearchParam, expected: list[str], operation: Operation, sent: Sent
) -> None:
    name = "search" if "search" in operation.inputs else "filter"
    request = await sent(operation, operation.least | {name: "x"}, feed_search_param=names)
    found = [sent_as for sent_as, value in in_query(request) if value == "x"]
    assert found == (expected if operation.resource == "rankings" else [name])


BOOLEANS = [(True, "true"), (False, "false"), ("Yes", "Yes"), ("1", "1")]


@pytest.mark.parametrize(
    ("operation", "name", "encoding"),
    [
        *((BY_NAME["users.create"], "email_credentials", encoding) for encoding in RequestEncoding),
        *((one, "compare_previous_period", FORM) for one in OPERATIONS if "compare_previous_period" in one.inputs),
    ],
    ids=lambda part: getattr(part, "name", part),
)
@pytest.mark.parametrize(("value", "text"), BOOLEANS)
async def test_a_choice_is_written_as_string_and_string_is_passed_on(
    value: object, text: str, encoding: RequestEncoding, operation: Operation, name: str, sent: Sent
) -> None:
    request = await sent(operation, operation.least | {name: value}, request_encoding=encoding)
    found = in_json(request) if operation.is_write and encoding is JSON else dict(all_parameters(request))
    assert found[name] == text


@pytest.mark.parametrize(
    ("dates", "text"),
    [
        (("2014-01-02", "2015-06-07"), "2014-01-02-2015-06-07"),
        ([dt.date(2014, 1, 2), "2014-01-02"], "2014-01-02-2014-01-02"),
        ("2014-01-02 - 2015-06-07", "2014-01-02 - 2015-06-07"),
        ("last month", "last month"),
        ("", ""),
    ],
)
async def test_a_date_string_is_two_dates_or_a_string(dates: Any, text: str, sent: Sent) -> None:
    request = await sent(BY_NAME["backlinks.list"], {"campaign_id": 7, "date_string": dates})
    assert ("date_string", text) in in_query(request)


# --- SpecOptions parameters

EXTRA: dict[str, Any] = {"tag": "brand & co", "count": 3, "is_new": True, "since": dt.date(2023, 1, 2), "not": None}
EXTRA_TEXTS = [("count", "3"), ("is_new", "true"), ("since", "2023-01-02"), ("tag", "brand & co")]


@every_operation
async def test_every_operation_sends_further_parameters_like_its_own(operation: Operation, sent: Sent) -> None:
    request = await sent(operation, operation.changing | {"extra_params": EXTRA})
    carried = in_form(request) if operation.is_write else in_query(request)
    assert sorted(carried) == sorted([*EXTRA_TEXTS, *operation.written(operation.changing)])


@each(WRITES)
async def test_further_parameters_of_a_write_are_in_its_json(operation: Operation, sent: Sent) -> None:
    found = in_json(await sent(operation, operation.changing | {"extra_params": EXTRA}, request_encoding=JSON))
    expected = {"tag": "brand & co", "count": 3, "is_new": "true", "since": "2023-01-02"}
    assert {name: found.get(name) for name in EXTRA} == expected | {"not": None}
    assert "not" not in found


@each([operation for operation in OPERATIONS if operation.verb == "update"])
async def test_a_change_may_be_of_further_parameters_alone(operation: Operation, sent: Sent) -> None:
    request = await sent(operation, {"id": 7, "extra_params": {"timezone": "UTC"}})
    assert in_form(request) == [("timezone", "UTC")]


class Number(enum.IntEnum):
    SEVEN = 7


class Name(str, enum.Enum):  # noqa: UP042
    TAG = "tag"


@pytest.mark.parametrize(("value", "text"), [(Role.CLIENT, "client"), (Number.SEVEN, "7")])
@every_encoding
async def test_a_member_of_an_enum_is_written_as_its_value(
    encoding: RequestEncoding, value: Any, text: str, sent: Sent
) -> None:
    operation = BY_NAME["campaigns.update"]
    request = await sent(operation, {"id": 7, "extra_params": {Name.TAG: value}}, request_encoding=encoding)
    found = in_json(request) if encoding is JSON else dict(all_parameters(request))
    assert {name: str(one) for name, one in found.items()} == {"tag": text}


@each([operation for operation in OPERATIONS if not operation.is_listing])
async def test_page_is_an_ordinary_parameter_outside_listings(operation: Operation, sent: Sent) -> None:
    request = await sent(operation, operation.changing | {"extra_params": {"page": 2}})
    assert ("page", "2") in all_parameters(request)
