"""`on_attempt`, recorded responses and the log have every attempt, and no secret."""

import asyncio
import logging
import operator
import pickle
import re

import aiohttp
import pytest

from seorep_async import Attempt, SeoRepClient
from seorep_async.errors import (
    ConfigurationError,
    InvalidRequestError,
)
from tests.session.calls import KEY, Connect, StartServer, ask, failure
from tests.session.canary import assert_error_does_not_show_key, assert_key_is_not_in
from tests.session.scripted_server import FINE, answer, hang, reset
from tests.session.simulated_service import SimulatedService, pull, session_above
from tests.session.virtual_loop import here


async def test_a_failed_attempt_and_its_retry_are_seen(connect: Connect) -> None:
    seen: list[Attempt] = []
    pause = {"backoff_initial": 50, "backoff_max": 50}
    client, _ = await connect(answer(status=500), FINE, **pause, on_attempt=seen.append)
    await ask(client)
    first, second = seen
    assert (first.subject, first.bytes) == (None, 0)
    assert first.waited < 50
    assert (second.number, second.status, second.error, second.cause) == (2, 200, None, None)
    assert second.bytes == len(FINE.partition(b"\r\n\r\n")[2])
    assert 50 <= second.waited < 100
    assert 0 < second.seconds < 50


async def test_a_cancelled_attempt_is_seen(connect: Connect) -> None:
    seen: list[Attempt] = []
    client, server = await connect(hang, on_attempt=seen.append)
    call = asyncio.create_task(ask(client))
    await server.first_request.wait()
    call.cancel()
    await asyncio.wait([call])
    (attempt,) = seen
    assert (attempt.error, attempt.status, attempt.cause) == (asyncio.CancelledError, None, None)


async def test_an_attempt_that_was_not_sent_is_not_seen(connect: Connect) -> None:
    seen: list[Attempt] = []
    async with aiohttp.ClientSession() as borrowed:
        client, _ = await connect(FINE, session=borrowed, on_attempt=seen.append)
        await ask(client)
    # Other work runs first, even if a borrowed session answers at once.
    asyncio.get_running_loop().call_soon(seen.clear)
    error = await failure(
        client, ConfigurationError, match="passed in was closed while the client was in use"
    )
    assert_error_does_not_show_key(error)
    assert (client.stats.attempts, seen) == (1, [])


async def test_attempts_errors_and_log_lines_name_the_account(
    scripted_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Attempt] = []
    server = await scripted_server(answer(status=500), answer(status=410))
    caplog.set_level(logging.DEBUG, "seorep_async")
    async with SeoRepClient(server.base_url, KEY, on_attempt=seen.append, account="acme") as client:
        error = await failure(client, InvalidRequestError)
        assert error.account == client.stats.account == "acme"
    assert [attempt.account for attempt in seen] == ["acme", "acme"]
    records = [record for record in caplog.records if record.name == "seorep_async"]
    assert {record.__dict__["account"] for record in records} == {"acme"}


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
async def test_an_exception_of_the_callback_is_logged(
    error: type[BaseException], connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(attempt: Attempt) -> None:
        if attempt.number == 2:
            raise error("mine")

    client, _ = await connect(answer(status=500), FINE, on_attempt=fail)
    await ask(client)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage() == "127.0.0.1: on_attempt failed"
    assert (record.exc_info or [None])[0] is error
    fields = vars(record)
    assert fields["attempt"] == 2
    assert fields["status"] == 200
    assert fields["cause"] is None


# --- recorded responses


async def test_a_recorded_response_has_headers_number_and_time(connect: Connect) -> None:
    sent = [("X-Trace", "a1"), ("X-Trace", "b2")]
    client, _ = await connect(answer(status=500), answer({"data": {}}, headers=sent))
    with client.record_answers() as answers:
        await client.request("GET", "/v3/any")
    assert [answer.number for answer in answers] == [1, 2]
    assert answers[1].headers["x-trace"] == "a1, b2"
    assert answers[1].headers["X-TRACE"] == "a1, b2"
    assert 0 < answers[1].seconds < 60
    assert pickle.loads(pickle.dumps(answers)) == answers  # noqa: S301


SECRET_HEADERS = [
    "Set-Cookie",
    "Authorization",
    "Location",
    "Content-Location",
    "Link",
    "Refresh",
    "X-Auth-Token",
]


async def test_recorded_headers_have_no_cookie_link_or_key(connect: Connect) -> None:
    sent = [
        ("X-Echo", f"key={KEY.encode()!r}"),
        ("X-Key", "CANARY/7f3d+09"),
        ("X-RateLimit-Remaining-Tokens", "7"),
    ]
    secret = [(name, "https://a.example/?t=canary") for name in SECRET_HEADERS]
    client, _ = await connect(answer({"data": {}}, headers=[*secret, *sent]))
    with client.record_answers() as answers:
        await client.request("GET", "/v3/any")
    headers = answers[0].headers
    assert_key_is_not_in(str(dict(headers)))
    assert "canary" not in f"{answers} {dict(headers)}"
    assert headers["X-RateLimit-Remaining-Tokens"] == "7"


# --- the log


async def test_each_retry_is_logged_with_its_fields(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "seorep_async")
    client, _ = await connect(answer(status=500), reset, FINE)
    await ask(client)
    names = operator.itemgetter("levelname", "method", "path", "status", "attempt", "cause")
    first, second = map(vars, caplog.records)
    assert names(first) == ("DEBUG", "GET", "/v3/campaigns", 500, 1, "transient")
    assert names(second) == ("DEBUG", "GET", "/v3/campaigns", None, 2, "transient")
    assert [first["delay"], second["delay"]] == [0.1, 0.2]
    assert first["seconds"] >= 0
    assert first["message"].startswith("127.0.0.1: GET /v3/campaigns: attempt 1: ")


@pytest.mark.virtual
@pytest.mark.parametrize("outage", ["refused", "hang", "503"])
async def test_a_long_outage_is_logged_once_as_is_its_end(
    outage: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "seorep_async")
    service = SimulatedService(down=(0, 40), outage=outage)
    async with session_above(service, attempt_timeout=8.0) as session:
        assert await pull(session, 3) == []
    warning, end = caplog.messages
    assert re.match(r"no request has been accepted for ([5-9]|1\d|2\d)(\.\d)? s: ", warning)
    assert end == "the service accepts requests again"


@pytest.mark.virtual
async def test_a_limit_a_minute_is_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    service = SimulatedService("60/60s,fixed-window", latency=0.05)
    async with session_above(service) as session:
        assert await pull(session, 300) == []
    assert here().now > 180
    assert caplog.messages == []
