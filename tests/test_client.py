"""The client itself: any request, recorded answers and statistics."""

import asyncio
import json
from typing import Any
from urllib.parse import parse_qsl

import aiohttp
import pytest

from seorep_async import (
    ArrayEncoding,
    ConfigurationError,
    RawAnswer,
    RequestEncoding,
    SeoRepClient,
    SeoRepError,
)
from seorep_async.errors import (
    InvalidRequestError,
    OutcomeUnknownError,
)
from tests.sandbox.calls import client_of_sandbox
from tests.session.calls import KEY, Connect, OpenClient, ask, failure_of
from tests.session.scripted_server import EMPTY_PAGE, FINE, Connection, SeenRequest, answer, reset

ENVELOPE: dict[str, Any] = {
    "metadata": {"total_pages": 1, "total_records": 1},
    "data": {"id": 7, "new": [None]},
}
METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH"]


def parameters(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True, strict_parsing=True)


# --- request: what it gives back


@pytest.mark.parametrize("method", [*METHODS, "get"])
async def test_client_request_returns_the_envelope(method: str, connect: Connect) -> None:
    client, server = await connect(answer(ENVELOPE), answer(status=204))
    assert await client.request(method, "/v3/campaigns/7") == ENVELOPE
    assert server.requests[0].method == method.upper()
    assert server.requests[0].target == "/v3/campaigns/7"
    if method.upper() != "GET":
        assert await client.request(method, "/v3/campaigns/7") == {}


@pytest.mark.parametrize("method", METHODS[1:])
@pytest.mark.parametrize("claim", [{"success": 1}, {"status": "Success"}, {"ok": True}])
async def test_a_write_may_be_answered_with_only_a_message(
    method: str, claim: dict[str, Any], connect: Connect
) -> None:
    said = claim | {"message": "deleted"}
    client, server = await connect(answer(said))
    assert await client.request(method, "/v3/campaigns/7") == said
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "said", [{"message": "no"}, {"ok": True, "error": "no"}, {"status": "ok", "code": 403}]
)
async def test_a_write_answered_with_an_error_has_failed(said: Any, connect: Connect) -> None:
    client, _ = await connect(answer(said))
    await failure_of(client.request("POST", "/v3/campaigns"), SeoRepError)


# --- request: what it sends


async def sent(
    connect: Connect, *call: Any, params: Any = None, body: Any = None, **how: Any
) -> SeenRequest:
    client, server = await connect(FINE, **how)
    await client.request(*call, params=params, body=body)
    (request,) = server.requests
    return request


@pytest.mark.parametrize("method", METHODS)
async def test_params_are_the_query(method: str, connect: Connect) -> None:
    params = {"page": 2, "filter": "a&b ü", "is_new": True, "not": None, "role": ["a", "b"]}
    request = await sent(connect, method, "/v3/things", params=params)
    written = [
        ("page", "2"),
        ("filter", "a&b ü"),
        ("is_new", "true"),
        ("role[]", "a"),
        ("role[]", "b"),
    ]
    assert parameters(request.target.partition("?")[2]) == written
    assert request.body == b""


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
@pytest.mark.parametrize(
    ("encoding", "query", "kind", "body"),
    [
        (
            RequestEncoding.FORM,
            "dry=1",
            "application/x-www-form-urlencoded",
            b"name=a%26b+%C3%BC&tags=x",
        ),
        (
            RequestEncoding.JSON,
            "dry=1",
            "application/json",
            rb'{"name": "a&b \u00fc", "tags": ["x"]}',
        ),
        (RequestEncoding.QUERY, "dry=1&name=a%26b%20%C3%BC&tags=x", None, b""),
    ],
    ids=lambda value: value.value if isinstance(value, RequestEncoding) else "",
)
async def test_a_body_is_encoded_as_the_settings_say(
    encoding: RequestEncoding,
    query: str,
    kind: str | None,
    body: bytes,
    method: str,
    connect: Connect,
) -> None:
    parts = {"params": {"dry": "1"}, "body": {"name": "a&b ü", "tags": ("x",)}}
    encodings = {"request_encoding": encoding, "array_encoding": ArrayEncoding.REPEAT}
    request = await sent(connect, method, "/v3/things", **parts, **encodings)
    assert request.target == f"/v3/things?{query}"
    assert request.headers.get("Content-Type") == kind
    assert request.body == body


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/v3/campaigns/", "/v3/campaigns/"),
        ("/v3/tags/a%2Fb", "/v3/tags/a%2Fb"),
        ("/v3/tags/ü", "/v3/tags/%C3%BC"),
        ("/v3/tags/a:b@c;d,e", "/v3/tags/a:b@c;d,e"),
        ("/status.json", "/status.json"),
    ],
)
async def test_a_path_is_sent_unchanged(path: str, target: str, connect: Connect) -> None:
    assert (await sent(connect, "GET", path)).target == target


# --- record_answers

ROW = {"url": "example.com", "company": "Example"}


def page_of(number: int, pages: int) -> dict[str, Any]:
    return {
        "metadata": {"total_pages": pages, "total_records": pages},
        "data": [{"id": number, **ROW}],
    }


async def test_a_block_records_its_answers_as_they_come(connect: Connect) -> None:
    body = json.dumps(page_of(7, 1), indent=3).encode()
    client, _ = await connect(forever=answer(body))
    await client.campaigns.list()
    with client.record_answers() as answers:
        for number in range(3):
            assert len(answers) == number
            await client.campaigns.list(filter="secret")
    await client.campaigns.list()
    assert len(answers) == 3
    for recorded in answers:
        assert recorded.method == "GET"
        assert recorded.path == "/v3/campaigns"
        assert recorded.status == 200
        assert recorded.body == body


async def test_responses_before_a_retry_or_error_are_recorded_too(connect: Connect) -> None:
    client, _ = await connect(answer(b"busy", status=500), reset, answer(b"no", status=400))
    with client.record_answers() as answers, pytest.raises(InvalidRequestError):
        await ask(client)
    assert [(recorded.status, recorded.body) for recorded in answers] == [
        (500, b"busy"),
        (400, b"no"),
    ]


async def test_answers_of_a_pull_are_recorded() -> None:
    async with client_of_sandbox(campaigns=3, keywords=2) as client:
        with client.record_answers() as answers:
            await client.rankings.pull([1, 2, 3], "2022-01-01", "2022-01-31")
    assert [recorded.path for recorded in answers] == ["/v3/resources/rankings/campaign"] * 3


async def test_another_task_at_the_same_time_is_not_recorded(connect: Connect) -> None:
    going_on = asyncio.Event()

    async def late(connection: Connection) -> None:
        await going_on.wait()
        await connection.send(answer(EMPTY_PAGE | {"note": "another's"}))

    client, server = await connect(late, FINE)
    other = asyncio.create_task(ask(client))
    await server.first_request.wait()
    with client.record_answers() as answers:
        await ask(client)
        going_on.set()
        await other
    assert [recorded.body for recorded in answers] == [json.dumps(EMPTY_PAGE).encode()]


def test_a_raw_answer_does_not_show_its_body() -> None:
    text = repr(RawAnswer("GET", "/v3/users/7/loginGrant", 200, b"canary"))
    request = "method='GET', path='/v3/users/7/loginGrant'"
    assert text == f"RawAnswer({request}, status=200, number=1, seconds=0.0)"


# --- stats


async def test_a_retried_page_is_one_request_of_several_attempts(connect: Connect) -> None:
    busy = answer(status=503), answer(status=429)
    client, _ = await connect(
        answer(page_of(1, 2)), reset, *busy, answer(page_of(2, 2)), page_size=None
    )
    await client.campaigns.list()
    stats = client.stats
    assert stats.requests == 2
    assert stats.attempts == 5
    assert client.stats.attempts == 5
    assert stats.retries == {"transient": 1, "overload": 1, "throttle": 1}
    assert stats.throttled == 1


async def test_a_login_grant_by_client_request_is_sent_once(connect: Connect) -> None:
    client, _ = await connect(answer(b'{"data": {"token": "abc-grant-tok'))
    error = await failure_of(client.request("GET", "/v3/users/1/loginGrant"), OutcomeUnknownError)
    assert "abc-grant" not in str(error)


async def test_a_recording_has_only_the_responses_of_its_client(
    connect: Connect, open_client: OpenClient
) -> None:
    client, server = await connect(forever=answer(EMPTY_PAGE))
    other = await open_client(server.base_url)
    with client.record_answers() as outer, client.record_answers() as inner:
        await ask(client)
        await ask(other)
    assert len(outer) == len(inner) == 1


# --- account


async def test_reports_have_the_clients_account() -> None:
    async with client_of_sandbox(campaigns=1, keywords=2, account="acme") as client:
        report = await client.rankings.campaign(1, "2023-01-01", "2023-01-31")
        assert report.to_dicts()[0]["account"] == report.account == client.account == "acme"


async def test_closing_in_another_loop_is_refused_and_harmless(connect: Connect) -> None:
    client, _ = await connect(FINE)
    with pytest.raises(ConfigurationError, match="opened in another event loop; close it there"):
        await asyncio.to_thread(asyncio.run, client.close())
    assert (await ask(client)).items == ()


async def test_a_forgotten_client_is_named() -> None:
    async with aiohttp.ClientSession() as session:
        forgotten = SeoRepClient("https://api.example.com", KEY, session=session, account="acme")
        await forgotten.open()
        with pytest.warns(ResourceWarning, match="the client of acme was not closed: <SeoRepCl"):
            forgotten.__del__()
        await forgotten.close()
