"""Passwords and login grants are never shown, even if the service repeats them."""

import asyncio
import json
import pickle
import urllib.parse
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from rich.pretty import pretty_repr

from seorep_async import (
    ArrayEncoding,
    LoginGrant,
    RequestEncoding,
    SeoRepClient,
    Settings,
    User,
)
from seorep_async.errors import (
    ConfigurationError,
    InvalidRequestError,
    OutcomeUnknownError,
    SeoRepError,
    StatusError,
)
from seorep_async.secret import Secret
from tests.session.calls import KEY, Connect, failure_of
from tests.session.canary import Canary, assert_no_log_shows
from tests.session.fake_time import FakeTime
from tests.session.scripted_server import (
    Connection,
    ScriptedServer,
    Step,
    answer,
    hang,
    reset,
    then_close,
)

PASSWORD = 'canary 8c2e/+ ä"\\&=for-nobody-to-see'
TOKEN = "canary5d1f0b7793cc4e2a"
LOGIN_URL = "https://app.example.com/signin?grant=canary91e7aa54f00d"
WRITTEN = [
    PASSWORD,
    urllib.parse.quote(PASSWORD, safe=""),
    urllib.parse.quote_plus(PASSWORD),
    json.dumps(PASSWORD)[1:-1],
    json.dumps(PASSWORD, ensure_ascii=False)[1:-1],
]
CANARY = Canary(*WRITTEN, TOKEN, LOGIN_URL.partition("=")[2])
logged = assert_no_log_shows(CANARY)


async def create(client: SeoRepClient) -> User:
    return await client.users.create("Ann", "Other", "ann", PASSWORD, role="client")


async def update(client: SeoRepClient) -> User:
    return await client.users.update(7, password=PASSWORD)


async def assert_error_is_silent(
    kind: type[SeoRepError], call: Callable[..., Any], *arguments: Any, **options: Any
) -> None:
    """Fail unless a call ends in an error of this kind, which does not show the password."""
    with pytest.raises(kind) as caught:
        await call(*arguments, **options)
    CANARY.assert_not_shown_by(caught.value)


# a service that repeats the password: as it was sent, or decoded

IN_JSON = json.dumps({"username": "ann", "password": PASSWORD}, ensure_ascii=False)


def as_received(server: ScriptedServer) -> str:
    request = server.requests[-1]
    return request.body.decode() or request.target


RETOLD: dict[str, Callable[[ScriptedServer], str]] = {
    "wire": as_received,
    "plain": lambda _: PASSWORD,
    "JSON": lambda _: IN_JSON.replace("/", "\\/"),
}


@pytest.mark.parametrize(
    ("echoed", "encoding", "call"),
    [
        ("wire", RequestEncoding.FORM, create),
        ("wire", RequestEncoding.JSON, update),
        ("wire", RequestEncoding.QUERY, create),
        ("plain", RequestEncoding.FORM, update),
        ("JSON", RequestEncoding.FORM, create),
        ("JSON", RequestEncoding.JSON, update),
    ],
)
@pytest.mark.parametrize(
    "echo",
    [
        pytest.param(lambda echo: answer(echo.encode(), status=400), id="400"),
        pytest.param(
            lambda echo: answer(f"{'x' * 380}{echo}".encode(), status=422), id="422, far back"
        ),
        pytest.param(
            lambda echo: answer(echo.encode(), status=429, headers=[("Retry-After", "999")]),
            id="429",
        ),
        pytest.param(
            lambda echo: answer({"status": "error", "message": "x" * 180 + echo, "code": 404}),
            id="error under 200, far back",
        ),
        pytest.param(
            lambda echo: answer({"data": {"id": 7, "username": [echo]}}), id="another name"
        ),
        pytest.param(lambda echo: answer(f"<html>{echo}</html>".encode()), id="no JSON"),
        pytest.param(
            lambda echo: answer(status=302, headers=[("Location", f"/{urllib.parse.quote(echo)}")]),
            id="redirect",
        ),
        pytest.param(
            lambda echo: f"HTTP/1.1 {urllib.parse.quote(echo)}\r\n\r\n".encode(), id="status line"
        ),
        pytest.param(lambda echo: answer(echo.encode(), length=9999), id="cut"),
    ],
)
async def test_no_error_shows_the_password(
    call: Any,
    echo: Callable[[str], bytes],
    echoed: str,
    encoding: RequestEncoding,
    connect: Connect,
) -> None:
    async def step(connection: Connection) -> None:
        await connection.send(echo(RETOLD[echoed](server)))
        connection.close()

    client, server = await connect(forever=step, request_encoding=encoding, max_attempts=2)
    await assert_error_is_silent(SeoRepError, call, client)


@pytest.mark.parametrize("step", [reset, hang, then_close(b"")], ids=["reset", "silence", "closed"])
@pytest.mark.parametrize("call", [create, update])
@pytest.mark.parametrize("encoding", RequestEncoding)
async def test_no_broken_connection_shows_the_password(
    call: Callable[[SeoRepClient], Any], step: Step, encoding: RequestEncoding, connect: Connect
) -> None:
    asyncio.get_running_loop().set_debug(True)
    client, _ = await connect(
        forever=step, request_encoding=encoding, max_attempts=2, attempt_timeout=0.1
    )
    await assert_error_is_silent(SeoRepError, call, client)


@pytest.mark.parametrize("how", ["in flight", "asleep"])
async def test_cancelled_call_does_not_show_the_password(
    how: str, connect: Connect, fake_time: FakeTime
) -> None:
    client, server = await connect(hang if how == "in flight" else answer(status=429))
    fake_time.going_on.clear()
    call = asyncio.create_task(create(client))
    await (server.first_request.wait() if how == "in flight" else fake_time.waiting.wait())
    call.cancel()
    error = await failure_of(call, asyncio.CancelledError)
    CANARY.assert_not_shown_by(error)


IDA: dict[str, Any] = {
    "first_name": "Ida",
    "last_name": "Wren",
    "username": "ida",
    "password": PASSWORD,
    "role": "client",
}


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("create", IDA | {"email": 5}),
        ("create", IDA | {"extra_params": {"role": "x"}}),
        ("create", IDA | {"extra_params": {"x": object()}}),
        ("create", IDA | {"password": PASSWORD.encode()}),
        ("update", {"id": 7, "password": f"{PASSWORD}\ud800"}),
        ("update", {"id": 0, "password": PASSWORD}),
        ("update", {"id": 7, "password": PASSWORD}),
        ("update", {"id": 7, "username": 5, "extra_params": {"new_password": Secret(PASSWORD)}}),
        ("list", {"limit": 0, "extra_params": {"tokens": [PASSWORD]}}),
        ("list", {"extra_params": {"x": [{"a": {"password": PASSWORD}}]}}),
        ("list", {"extra_params": {"x": {"password": PASSWORD, "n": 10**5000}}}),
    ],
)
async def test_a_password_is_not_shown_when_an_argument_is_refused(
    verb: str, arguments: dict[str, Any]
) -> None:
    users = SeoRepClient("https://api.example.com", KEY).users
    await assert_error_is_silent(ConfigurationError, getattr(users, verb), **arguments)


COMMA = {"password": PASSWORD, "x": ["a,b"]}
DAYS = ["2023-01-01", "2023-01-31"]


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.users.create(**IDA, extra_params={"x": ["a,b"]}),
        lambda client: client.rankings.campaign(1, *DAYS, extra_params=COMMA),
        lambda client: client.request(
            "POST", "/v3/users", params={"password": PASSWORD}, body={"x": ["a,b"]}
        ),
        lambda client: client.request(
            "POST", "/v3/users", params={"x": ["a,b"]}, body={"password": PASSWORD}
        ),
    ],
)
async def test_a_value_with_a_comma_is_refused_without_a_secret(call: Any) -> None:
    settings = Settings(array_encoding=ArrayEncoding.COMMA)
    with pytest.raises(ConfigurationError, match="a value with a comma") as caught:
        await call(SeoRepClient("https://api.example.com", KEY, settings=settings))
    CANARY.assert_not_shown_by(caught.value)


PAIRS = [("username", "ida"), ("password", PASSWORD)]


@pytest.mark.parametrize(
    "wrong",
    [
        PAIRS,
        f"username=ida&password={PASSWORD}",
        f"password={PASSWORD}".encode(),
    ],
    ids=lambda wrong: type(wrong).__name__,
)
@pytest.mark.parametrize(
    "call",
    [
        pytest.param(
            lambda client, wrong: client.request("POST", "/v3/users", body=wrong), id="body"
        ),
        pytest.param(
            lambda client, wrong: client.request("GET", "/v3/users", params=wrong), id="params"
        ),
        pytest.param(lambda client, wrong: client.users.update(1, extra_params=wrong), id="update"),
        pytest.param(
            lambda client, wrong: client.rankings.pull([1], *DAYS, extra_params=wrong), id="pull"
        ),
        pytest.param(
            lambda client, wrong: client.request("GET", f"/v3/users?password={PASSWORD}"), id="path"
        ),
    ],
)
async def test_a_refused_mapping_is_named_by_its_type_alone(call: Any, wrong: Any) -> None:
    client = SeoRepClient("https://api.example.com", KEY)
    await assert_error_is_silent(ConfigurationError, call, client, wrong)


async def test_a_numeric_password_repeated_by_the_service_is_not_shown(connect: Connect) -> None:
    client, _ = await connect(answer({"message": "taken: 8437261559"}, status=400))
    call = client.request("POST", "/v3/users", body={"password": 8437261559})
    error = await failure_of(call, InvalidRequestError)
    Canary("8437261559").assert_not_shown_by(error)


def test_a_secret_string_shows_itself_to_no_repr() -> None:
    CANARY.assert_not_in(f"{Secret(PASSWORD)!r} {[Secret(PASSWORD)]}")
    CANARY.assert_not_in(pretty_repr(Secret(PASSWORD), max_string=len(PASSWORD) - 1))
    assert Secret(PASSWORD) == PASSWORD


# a password from the service, which documents none


async def test_a_password_that_comes_back_is_readable_and_not_shown(connect: Connect) -> None:
    client, _ = await connect(answer({"data": {"id": 7, "username": "ida", "password": PASSWORD}}))
    user = await client.users.get(7)
    assert user.password == PASSWORD
    CANARY.assert_not_in(f"{user} {user!r}")


def test_neither_a_password_nor_a_login_grant_is_pickled() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        user = User(7, "ida", password=PASSWORD, role="client", extra={"a": 1})
        pickled = pickle.dumps(user, protocol)
        CANARY.assert_not_in(pickled.decode("latin-1"))
        assert pickle.loads(pickled) == attrs.evolve(user, password=None)  # noqa: S301
        with pytest.raises(TypeError, match="a login grant is a secret and is not pickled"):
            pickle.dumps(LoginGrant(TOKEN, LOGIN_URL, user_id=7), protocol)


# grants


GRANT: dict[str, Any] = {"token": TOKEN, "login_url": LOGIN_URL, "user_id": 7}
AS_JSON = json.dumps({"data": GRANT}).encode()
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (StatusError, answer(AS_JSON, status=400)),
        (OutcomeUnknownError, answer({"data": GRANT | {"user_id": TOKEN}})),
        (OutcomeUnknownError, answer({"data": [TOKEN]})),
        (OutcomeUnknownError, answer({"data": {TOKEN: LOGIN_URL}})),
        (OutcomeUnknownError, answer(AS_JSON, status=500)),
        (OutcomeUnknownError, answer(AS_JSON[:-1])),
        (OutcomeUnknownError, answer(f"<html>{LOGIN_URL}</html>".encode())),
        (OutcomeUnknownError, answer(AS_JSON, length=9999)),
        (OutcomeUnknownError, b"HTTP/1.1 204 No Content\r\n\r\n" + AS_JSON),
        (OutcomeUnknownError, CHUNKED + b"5\r\n" + AS_JSON + b"\r\n0\r\n\r\n"),
        (OutcomeUnknownError, f"HTTP/1.1 200 OK\r\n{LOGIN_URL}\r\n\r\n".encode()),
        (SeoRepError, answer(status=302, headers=[("Location", LOGIN_URL)])),
    ],
)
async def test_no_error_shows_a_grant(
    raw: bytes, kind: type[SeoRepError], connect: Connect
) -> None:
    asyncio.get_running_loop().set_debug(True)
    client, _ = await connect(then_close(raw))
    error = await failure_of(client.users.login_grant(7), kind)
    CANARY.assert_not_shown_by(error)
    assert error.body_excerpt is None


async def test_a_login_grant_shows_what_it_is_for_and_no_more(connect: Connect) -> None:
    client, _ = await connect(answer({"data": GRANT | {"token2": TOKEN}}))
    with client.record_answers() as answers:
        grant = await client.users.login_grant(7)
    assert grant.token == TOKEN
    assert grant.login_url == LOGIN_URL
    assert grant.extra == {"token2": TOKEN}
    assert repr(grant) == str(grant) == "LoginGrant(user_id=7, time=None, origin_user_id=None)"
    CANARY.assert_not_in(f"{[grant]} {answers!r} {client!r} {client.stats!r}")


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.request("PUT", "/v3/users/1", body={"passwords": [Secret(PASSWORD)]}),
        lambda client: client.users.list(extra_params={"api-key": Secret(PASSWORD)}),
        lambda client: client.rankings.campaign(
            1, *["2023-01-01"] * 2, extra_params={"secret": Secret(PASSWORD)}
        ),
    ],
)
async def test_a_secret_among_further_parameters_is_not_shown(call: Any, connect: Connect) -> None:
    client, _ = await connect(forever=answer(f"no such password: {PASSWORD}".encode(), status=400))
    await assert_error_is_silent(SeoRepError, call, client)
