"""Passwords and login grants are nowhere to be seen, whatever the service makes of them."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import urllib.parse
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from seorep_async import (
    ConfigurationError,
    LoginGrant,
    RequestEncoding,
    SeoRepClient,
    SeoRepError,
    Settings,
    User,
)
from seorep_async.resources.arguments import Secret
from tests.session.calls import KEY, StartServer
from tests.session.canary import assert_error_does_not_show_key, assert_key_is_not_in
from tests.session.scripted_server import Step, answer, hang, reset, then_close

# KEY is the password or the token here, and the clients have another key. The tests hold it in no local variable, as
# the frames of an error are looked through.

USERS: dict[str, Callable[[SeoRepClient], Awaitable[Any]]] = {
    "create": lambda client: client.users.create("Ida", "Wren", "ida", KEY, "client"),
    "update": lambda client: client.users.update(7, password=KEY),
}
ECHOES: dict[str, bytes] = {
    "plain": KEY.encode(),
    "form": urllib.parse.quote_plus(KEY).encode(),
    "JSON": json.dumps({"password": KEY}).encode(),
    "JSON as it is": json.dumps({"data": {"id": 7, "password": KEY}}, ensure_ascii=False).encode(),
    "JSON error": json.dumps({"status": "error", "message": f"{KEY} is too short"}).encode(),
    "a wrong id": json.dumps({"data": {"id": KEY, "username": "ida"}}).encode(),
    "a wrong name": json.dumps({"data": {"id": 7, "username": [KEY]}}).encode(),
}
STEPS: dict[str, Step] = {
    **{f"200 {name}": answer(echo) for name, echo in ECHOES.items()},
    **{f"422 {name}": answer(echo, status=422) for name, echo in ECHOES.items()},
    "404": answer(KEY.encode(), status=404),
    "500": answer(KEY.encode(), status=500),
    "429": answer(KEY.encode(), status=429, headers=[("Retry-After", "999")]),
    "redirect": answer(status=302, headers=[("Location", f"https://other.example/{urllib.parse.quote(KEY)}")]),
    "garbage": then_close(f"HTTP/1.1 {KEY}\r\n\r\n".encode()),
    "cut": then_close(answer(KEY.encode(), length=99)),
    "reset": reset,
    "silence": hang,
}
SETTINGS = {
    encoding: Settings(max_attempts=1, attempt_timeout=0.2, request_encoding=encoding) for encoding in RequestEncoding
}

every_step = pytest.mark.parametrize("step", STEPS)


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Look through everything that is logged at DEBUG by anyone, after every test here."""
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "asyncio"):
        yield
    for record in caplog.records:
        assert_key_is_not_in(f"{record.getMessage()} {record.args} {record.exc_text}")


async def error_of(
    call: Callable[[SeoRepClient], Awaitable[Any]],
    step: str,
    scripted_server: StartServer,
    encoding: RequestEncoding = RequestEncoding.FORM,
) -> SeoRepError:
    asyncio.get_running_loop().set_debug(True)
    server = await scripted_server(STEPS[step])
    async with SeoRepClient(server.base_url, "another", settings=SETTINGS[encoding]) as client:
        with pytest.raises(SeoRepError) as caught:
            await call(client)
    return caught.value


CALLS = [(verb, encoding) for verb in USERS for encoding in RequestEncoding]


@pytest.mark.parametrize(
    ("step", "verb", "encoding"),
    [
        (step, *CALLS[(number + shift) % len(CALLS)])
        for number, step in enumerate(step for step in STEPS if step != "200 JSON as it is")
        for shift in (0, 4)  # a create and an update, and each with all encodings over the steps
    ],
)
async def test_no_error_shows_a_password(
    step: str, verb: str, encoding: RequestEncoding, scripted_server: StartServer
) -> None:
    assert_error_does_not_show_key(await error_of(USERS[verb], step, scripted_server, encoding))


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.users.create("", "Wren", "ida", KEY, "client"),
        lambda client: client.users.create("Ida", "Wren", "ida", KEY, ""),
        lambda client: client.users.create("Ida", "Wren", "ida", KEY, "client", email=5),
        lambda client: client.users.create("Ida", "Wren", "ida", KEY, "client", extra_params={"role": "x"}),
        lambda client: client.users.create("Ida", "Wren", "ida", KEY, "client", extra_params={"x": object()}),
        lambda client: client.users.create("Ida", "Wren", "ida", KEY.encode(), "client"),
        lambda client: client.users.create("Ida", "Wren", "ida", [KEY], "client"),
        lambda client: client.users.create("Ida", "Wren", "ida", f"{KEY}\ud800", "client"),
        lambda client: client.users.update(7, password=KEY.encode()),
        lambda client: client.users.update(7, password=[KEY]),
        lambda client: client.users.update(7, password=f"{KEY}\ud800"),
        lambda client: client.users.update(0, password=KEY),
        lambda client: client.users.update(7, password=KEY, role=5),
        lambda client: client.users.update(7, password=KEY, extra_params={"password": "x"}),
        lambda client: client.users.update(7, password=KEY),  # not open yet
    ],
)
async def test_a_password_is_not_shown_when_an_argument_is_refused(
    call: Callable[[SeoRepClient], Awaitable[Any]],
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await call(SeoRepClient("https://api.example.com", "another"))
    assert_error_does_not_show_key(caught.value)


@pytest.mark.parametrize("bad", ["", None, 5, b"x"])
@pytest.mark.parametrize("verb", ["create", "update"])
async def test_what_is_no_password_is_refused_without_being_shown(verb: str, bad: Any) -> None:
    users = SeoRepClient("https://api.example.com", "another").users
    if verb == "update" and bad is None:
        return
    call = users.update(7, password=bad) if verb == "update" else users.create("Ida", "Wren", "ida", bad, "client")
    with pytest.raises(ConfigurationError, match=r"^password must be a string that is not empty$"):
        await call


def test_a_secret_string_shows_itself_to_no_repr() -> None:
    assert_key_is_not_in(f"{Secret(KEY)!r} {[Secret(KEY)]}")
    assert Secret(KEY) == KEY


# --- A password that the service sends, though none is documented


async def test_a_password_that_comes_back_is_readable_and_not_shown(scripted_server: StartServer) -> None:
    server = await scripted_server(answer(ECHOES["JSON as it is"].replace(b'"id": 7', b'"id": 7, "username": "ida"')))
    async with SeoRepClient(server.base_url, "another") as client:
        user = await client.users.get(7)
    assert user.password == KEY
    assert_key_is_not_in(f"{user} {user!r}")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_password_is_not_pickled(protocol: int) -> None:
    pickled = pickle.dumps(User(7, "ida", password=KEY, role="client", extra={"a": 1}), protocol)
    assert_key_is_not_in(pickled.decode("latin-1"))
    assert pickle.loads(pickled) == User(7, "ida", role="client", extra={"a": 1})  # noqa: S301


# --- Login grants


async def ask_for_grant(client: SeoRepClient) -> LoginGrant:
    return await client.users.login_grant(7)


GRANTS: dict[str, bytes] = {
    "a wrong token": json.dumps({"data": {"token": [KEY], "login_url": "u", "user_id": 7}}).encode(),
    "a wrong address": json.dumps({"data": {"token": "t", "login_url": {"a": KEY}, "user_id": 7}}).encode(),
    "a wrong id": json.dumps({"data": {"token": "t", "login_url": "u", "user_id": KEY}}).encode(),
    "no id": json.dumps({"data": {"token": KEY, "login_url": KEY}}).encode(),
    "an array": json.dumps({"data": [KEY]}).encode(),
    "text": json.dumps({"data": KEY}).encode(),
    "cut": json.dumps({"data": {"token": KEY}}).encode()[:-2],
}
STEPS |= {f"grant with {name}": answer(body) for name, body in GRANTS.items()} | {
    "redirect to it": answer(status=302, headers=[("Location", f"/login?token={urllib.parse.quote(KEY)}")])
}


@pytest.mark.parametrize("step", [step for step in STEPS if step not in ("redirect", "garbage")])
async def test_no_error_shows_a_login_grant(step: str, scripted_server: StartServer) -> None:
    error = await error_of(ask_for_grant, step, scripted_server)
    assert error.body_excerpt is None
    assert_error_does_not_show_key(error)


def test_a_login_grant_shows_what_it_is_for_and_no_more() -> None:
    grant = LoginGrant(KEY, f"https://reports.example/login?token={KEY}", user_id=7, extra={"token2": KEY})
    assert repr(grant) == "LoginGrant(user_id=7, time=None, origin_user_id=None)"
    assert_key_is_not_in(f"{grant} {[grant]}")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_login_grant_is_not_pickled(protocol: int) -> None:
    with pytest.raises(TypeError, match="a login grant is a secret and is not pickled"):
        pickle.dumps(LoginGrant(KEY, KEY, user_id=7), protocol)
