"""The key is never shown, whatever fails."""

import asyncio
import base64
import html
import json
import pickle
import urllib.parse
from typing import Any

import aiohttp
import pytest

from seorep_async import SeoRepClient
from seorep_async.errors import (
    AttemptTimeoutError,
    AuthenticationError,
    BodyTooLargeError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    DecodeError,
    NotFoundError,
    ProtocolError,
    RateLimitedError,
    RedirectError,
    SeoRepError,
    ServerError,
    StatusError,
)
from seorep_async.session import Authentication
from tests.session.calls import KEY, Connect, ask, failure, failure_of
from tests.session.canary import (
    KEY_CANARY,
    assert_error_does_not_show_key,
    assert_key_is_not_in,
    assert_no_log_shows,
)
from tests.session.fake_time import FakeTime
from tests.session.scripted_server import EMPTY_PAGE, FINE, Step, answer, hang, reset, then_close

IN_BASE64 = base64.b64encode(f":{KEY}".encode()).decode()
logged = assert_no_log_shows(KEY_CANARY)


def body_with_key(**fields: Any) -> bytes:
    return answer(json.dumps(fields, ensure_ascii=False).encode())


HEAD_OF_KEY = f"HTTP/1.1 {KEY}\r\n\r\n".encode()
UNDER_200 = body_with_key(status="error", message=f"no such key: {KEY}")
ELSEWHERE = f"https://:{urllib.parse.quote(KEY)}@other.example/{IN_BASE64}"


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        pytest.param(answer(KEY.encode(), status=401), AuthenticationError, id="401"),
        pytest.param(answer(KEY.encode(), status=404), ProtocolError, id="404"),
        pytest.param(
            answer(KEY.encode(), status=429, headers=[("Retry-After", "3600")]),
            RateLimitedError,
            id="429",
        ),
        pytest.param(answer(KEY.encode(), status=500), ServerError, id="500"),
        pytest.param(UNDER_200, StatusError, id="error under 200"),
        pytest.param(
            body_with_key(status="error", message="x" * 180 + KEY, code=404),
            NotFoundError,
            id="error under 200, the key cut",
        ),
        pytest.param(body_with_key(data=KEY), DecodeError, id="another shape"),
        pytest.param(
            body_with_key(data="x" * 20 + KEY), DecodeError, id="another shape, the key cut"
        ),
        pytest.param(
            body_with_key(data=[{KEY: float("nan")}]), DecodeError, id="path of a bad field"
        ),
        pytest.param(
            answer(f"<html>{html.escape(KEY)}</html>".encode()), ProtocolError, id="not JSON"
        ),
        pytest.param(then_close(HEAD_OF_KEY), ProtocolError, id="bad status line"),
        pytest.param(
            then_close(f"HTTP/1.1 {'x' * 150}{KEY}\r\n\r\n".encode()),
            ProtocolError,
            id="bad status line, the key cut",
        ),
        pytest.param(
            then_close(f"HTTP/1.1 200 OK\r\nBasic {IN_BASE64}\r\n\r\n".encode()),
            ProtocolError,
            id="bad header",
        ),
        pytest.param(
            answer(status=302, headers=[("Location", ELSEWHERE)]),
            RedirectError,
            id="redirect",
        ),
        pytest.param(then_close(answer(KEY.encode(), length=99)), ConnectionFailedError, id="cut"),
        pytest.param(answer(KEY.encode() * 100), BodyTooLargeError, id="too large"),
        pytest.param(reset, ConnectionFailedError, id="reset"),
        pytest.param(hang, AttemptTimeoutError, id="silence"),
    ],
)
async def test_no_error_shows_the_key(
    step: Step, kind: type[SeoRepError], connect: Connect
) -> None:
    asyncio.get_running_loop().set_debug(True)
    timeout = 0.1 if step is hang else 60
    limits = {"max_attempts": 2, "max_body_bytes": 1024, "attempt_timeout": timeout}
    client, _ = await connect(forever=step, **limits)
    error = await failure(client, kind)
    assert type(error) is kind
    assert_error_does_not_show_key(error)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(answer(KEY.encode(), status=500), id="500"),
        pytest.param(answer(f'{{"data": ["{KEY}'.encode()), id="half"),
        pytest.param(UNDER_200, id="200"),
        pytest.param(then_close(HEAD_OF_KEY), id="garbage"),
    ],
)
async def test_no_end_of_a_deadline_shows_the_key(step: Step, connect: Connect) -> None:
    asyncio.get_running_loop().set_debug(True)
    client, _ = await connect(forever=step, max_attempts=99, call_timeout=3)
    error = await failure(client, DeadlineExceededError)
    assert_error_does_not_show_key(error)


@pytest.mark.parametrize(
    "echo",
    [
        pytest.param(KEY, id="plain"),
        pytest.param(f"Basic {IN_BASE64}", id="header"),
        pytest.param(base64.b64encode(KEY.encode()).decode(), id="base64"),
        pytest.param(IN_BASE64.rstrip("="), id="base64 without padding"),
        pytest.param(urllib.parse.quote(KEY, safe=""), id="percent-encoded"),
        pytest.param(urllib.parse.quote(KEY), id="percent-encoded but for slashes"),
        pytest.param(
            urllib.parse.quote(KEY, safe="").replace("%C3%A4", "%c3%a4"),
            id="percent-encoded in small letters",
        ),
        pytest.param(urllib.parse.quote_plus(KEY), id="form-encoded"),
        pytest.param(json.dumps(KEY), id="JSON"),
        pytest.param(json.dumps(KEY).replace("\\u00e4", "\\u00E4"), id="JSON with capitals"),
        pytest.param(json.dumps(KEY).replace("/", "\\/"), id="JSON with slashes escaped"),
        pytest.param(json.dumps(KEY, ensure_ascii=False), id="JSON, not only ASCII"),
        pytest.param(
            json.dumps(KEY, ensure_ascii=False).replace("/", "\\/"),
            id="JSON, not only ASCII, with slashes escaped",
        ),
        pytest.param(IN_BASE64.replace("/", "\\/"), id="base64 in JSON with slashes escaped"),
        pytest.param(html.escape(KEY), id="HTML"),
        pytest.param(KEY.upper(), id="capitals"),
        pytest.param(KEY + KEY, id="twice"),
        pytest.param(repr(KEY.encode()), id="bytes in Python"),
        pytest.param(KEY.encode().decode("latin-1"), id="taken for Latin-1"),
        pytest.param(KEY[:20], id="beginning"),
    ],
)
async def test_no_form_of_the_key_is_left_in_an_excerpt(echo: str, connect: Connect) -> None:
    client, _ = await connect(answer(f"no such key: {echo}, sorry".encode(), status=404))
    error = await failure(client, ProtocolError)
    assert_error_does_not_show_key(error)
    excerpt = error.body_excerpt
    assert excerpt is not None
    assert excerpt.startswith("no such key: ")
    assert "***" in excerpt
    assert excerpt.endswith(", sorry")


async def test_no_part_of_the_key_is_left_at_the_end_of_an_excerpt(connect: Connect) -> None:
    # The excerpt is cut near 400 characters. Spaces, which are dropped first, show where the body
    # is cut before that.
    beginnings = [b"".ljust(length, b"x") for length in range(340, 410)]
    beginnings += [b"x".ljust(length) for length in range(3131, 3206)]
    bodies = [beginning + KEY.encode() * 3 for beginning in beginnings]
    client, _ = await connect(*(answer(body, status=404) for body in bodies))
    for _ in beginnings:
        error = await failure(client, ProtocolError)
        assert_key_is_not_in(str(error))
        assert "CANA" not in str(error)


@pytest.mark.parametrize(
    "key", ["abcd", "abc123", "sandbox", "aaaaaaaa", "***", "\u017fecret-\u017f", "İstanbul-İ"]
)
def test_any_key_is_taken_out(key: str) -> None:
    scrubbed = Authentication(key).scrub(f"<{key}> <{key.upper()}> <{key}{key}>")
    assert key not in scrubbed.replace("***", "")
    assert "***" in scrubbed


@pytest.mark.parametrize("key", ["abcd", "abcde", "abcdef"])
@pytest.mark.parametrize(
    "place", ["no %s, sorry", '{"key": "%s"}', r'{"error": "no\n%s"}', r"\u00e4%s", "key%%3D%s&"]
)
def test_a_short_key_is_taken_out_in_every_form(key: str, place: str) -> None:
    alone, encoded = (base64.b64encode(secret.encode()).decode() for secret in (key, f":{key}"))
    for form in (key, alone, alone.rstrip("="), encoded, encoded.rstrip("=")):
        assert Authentication(key).scrub(place % form) == place % "***"


@pytest.mark.parametrize(
    "key", [KEY, "a", "ob", "the", "here", "thou", "sand", "sandbox", "object-key", "no-such-key"]
)
def test_text_without_the_key_is_left_alone(key: str) -> None:
    text = (
        "campaign 42: there is no such object among a thousand [GET /v3/campaigns/42, status 404]"
    )
    assert Authentication(key).scrub(text) == text


class Interrupt(BaseException):
    """Ends an attempt from outside, like Ctrl-C in a notebook."""


async def test_a_tracer_of_all_sessions_sees_no_key(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    async def note(_: object, context: object, params: aiohttp.TraceRequestStartParams) -> None:
        seen.append(dict(params.headers))

    trace = aiohttp.TraceConfig()
    make = aiohttp.ClientSession.__init__
    trace.on_request_start.append(note)
    monkeypatch.setattr(
        aiohttp.ClientSession,
        "__init__",
        lambda self, **options: make(self, **options, trace_configs=[trace]),
    )
    client, _ = await connect(forever=FINE)
    await ask(client)
    assert seen[0]["Accept"] == "application/json"
    assert_key_is_not_in(repr(seen))


async def test_an_interrupt_in_an_attempt_shows_no_key(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(self: object) -> None:
        raise Interrupt

    client, _ = await connect(forever=FINE)
    monkeypatch.setattr(aiohttp.client_proto.ResponseHandler, "read", read)
    error = await failure(client, Interrupt)
    assert_error_does_not_show_key(error)


@pytest.mark.parametrize("step", [hang, answer(status=500)], ids=["in flight", "asleep"])
async def test_cancelled_call_does_not_show_the_key(
    step: Step, connect: Connect, fake_time: FakeTime
) -> None:
    client, server = await connect(step)
    fake_time.going_on.clear()
    call = asyncio.create_task(ask(client))
    await (server.first_request.wait() if step is hang else fake_time.waiting.wait())
    call.cancel()
    error = await failure_of(call, asyncio.CancelledError)
    assert_error_does_not_show_key(error)


async def test_success_shows_no_key(connect: Connect) -> None:
    asyncio.get_running_loop().set_debug(True)
    client, _ = await connect(answer(status=500), answer(EMPTY_PAGE))
    page = await ask(client)
    listing = client.campaigns.list(filter="shoes")
    for thing in (
        client,
        client.campaigns,
        client.rankings,
        client.settings,
        listing,
        page,
        client._session,
    ):
        assert_key_is_not_in(f"{thing!r} {thing}")


def test_a_client_and_its_parts_are_not_pickled() -> None:
    client = SeoRepClient("https://api.example.com", KEY)
    for thing in (client, client.campaigns, client.rankings, client.campaigns.list()):
        with pytest.raises(TypeError):
            pickle.dumps(thing)


ADDRESS = "https://api.example.com"


@pytest.mark.parametrize(
    ("address", "key", "options"),
    [
        pytest.param(ADDRESS, None, {}, id="key in the environment with a line break"),
        pytest.param(ADDRESS, f"{KEY}\n", {}, id="key with a line break"),
        pytest.param(ADDRESS, f" {KEY}", {}, id="key with a space"),
        pytest.param(ADDRESS, KEY.encode(), {}, id="key as bytes"),
        pytest.param(ADDRESS, [KEY], {}, id="key in a list"),
        pytest.param(
            f"https://:{KEY}@api.example.com", "k", {}, id="address with the key as password"
        ),
        pytest.param(
            f"https://api.example.com?key={KEY}", "k", {}, id="address with the key in its query"
        ),
        pytest.param(
            f"https://:{KEY}@api.example.com:x", "k", {}, id="address that can't be parsed"
        ),
        pytest.param(f"https://{KEY} x", "k", {}, id="address with spaces"),
        pytest.param("api.example.com", KEY, {}, id="bad address, good key"),
        pytest.param(None, KEY, {}, id="no address, good key"),
        pytest.param(ADDRESS, KEY, {"settings": {"max_attempts": 1}}, id="bad settings, good key"),
        pytest.param(ADDRESS, KEY, {"session": "a session"}, id="bad session, good key"),
    ],
)
def test_refused_argument_is_not_shown(
    address: Any, key: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SEOREP_BASE_URL", raising=False)
    monkeypatch.setenv("SEOREP_API_KEY", f"{KEY}\n")
    with pytest.raises(ConfigurationError) as caught:
        SeoRepClient(address, key, **options)
    assert_error_does_not_show_key(caught.value)
