"""Writes under faults are executed at most once, unless repetition is harmless."""

import asyncio
import socket
from contextlib import nullcontext
from typing import Any

import aiohttp
import pytest

from seorep_async.errors import (
    AttemptTimeoutError,
    NotFoundError,
    OutcomeUnknownError,
    ProtocolError,
    RedirectError,
    SeoRepError,
    ServerError,
    StatusError,
)
from seorep_async.session import Session
from tests.session.broken_answers import BROKEN, SLOW
from tests.session.calls import Connect, ConnectSession, failure_of, open_session, write
from tests.session.fake_time import FakeTime
from tests.session.scripted_server import (
    FINE,
    ScriptedServer,
    Step,
    answer,
    drip,
    hang,
    reset,
    then_close,
)


async def test_every_write_has_a_connection_of_its_own(connect_session: ConnectSession) -> None:
    session, server = await connect_session(FINE, FINE)
    await session.send(write())
    await session.send(write())
    assert server.connections == 2


# executed, and the answer lost


PATIENT = 60.0  # the seconds of an attempt that only a fault of the client would use up
ELSEWHERE = ("Location", "/v3/campaigns/7")
HEADER_OF_2_MB = b"HTTP/1.1 204 No\r\nX-Long: " + b"x" * 2_000_000 + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("step", "cause"),
    [
        BROKEN["reset"],
        BROKEN["closed"],
        BROKEN["head cut"],
        BROKEN["short Content-Length"],
        BROKEN["cut within a chunk"],
        BROKEN["no HTTP"],
        BROKEN["two lengths"],
        BROKEN["header of 20 KB"],
        (SLOW["silence"], AttemptTimeoutError),
        (SLOW["body that never ends"], AttemptTimeoutError),
        (SLOW["headers that never end"], AttemptTimeoutError),
        (then_close(HEADER_OF_2_MB), ProtocolError),
        (answer(status=302, headers=[ELSEWHERE]), RedirectError),
        (answer(status=303, headers=[ELSEWHERE]), RedirectError),
        (answer(status=304), StatusError),
        (answer(status=408), SeoRepError),
        (answer(status=500), ServerError),
        (answer(status=502), ServerError),
        (answer(status=503), ServerError),
        (answer(status=504), ServerError),
    ],
)
async def test_write_that_may_have_happened_is_not_sent_again(
    step: Step, cause: type[SeoRepError], connect_session: ConnectSession
) -> None:
    # A short limit for other answers would turn a slow machine into a lost answer.
    attempt_timeout = 0.2 if cause is AttemptTimeoutError else PATIENT
    session, server = await connect_session(step, attempt_timeout=attempt_timeout)
    call = session.send(write(subject="campaign"))
    error = await failure_of(call, OutcomeUnknownError, "look for a new one in the list")
    lost = error.__cause__
    assert isinstance(lost, cause)
    assert error.status == lost.status
    assert error.body_excerpt == lost.body_excerpt
    assert error.subject == "campaign"
    assert error.attempts == 1
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>Thanks</html>", b'{"data": {"id": 7', b"\xff", b'{"data": {"id": "seven"}}'],
    ids=["empty", "HTML", "cut", "no UTF-8", "another shape"],
)
async def test_a_created_object_with_unreadable_answer_is_not_repeated(
    body: bytes, connect: Connect
) -> None:
    client, server = await connect(answer(body))
    with pytest.raises(OutcomeUnknownError, match="look for a new one in the list"):
        await client.campaigns.create("https://example.com", "Shoes")
    assert len(server.requests) == 1


async def test_a_server_that_always_closes_executes_each_write_once(
    connect_session: ConnectSession,
) -> None:
    session, server = await connect_session(forever=then_close(FINE))
    bodies = [b"%d" % number for number in range(20)]
    for body in bodies:
        await session.send(write(body=body))
    assert session.stats.attempts == 20
    assert [request.body for request in server.requests] == bodies


async def test_a_borrowed_session_does_not_resend_a_write(connect: Connect) -> None:
    async with aiohttp.ClientSession() as session:
        client, server = await connect(FINE, reset, session=session)
        await client.request("PUT", "/v3/x", body={"a": "1"})
        with pytest.raises(OutcomeUnknownError):
            await client.request("POST", "/v3/x", body={"a": "1"})
    assert [request.connection for request in server.requests] == [1, 1]


# certainly not executed: there was never a connection


class Backlog:
    """A port whose backlog is full: further SYNs get no answer."""

    def __enter__(self) -> str:
        self._server = socket.socket()
        self._server.bind(("127.0.0.1", 0))
        self._server.listen(0)
        self._plugs = [socket.socket() for _ in range(8)]
        for plug in self._plugs:
            plug.setblocking(False)
            plug.connect_ex(self._server.getsockname())
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        for resource in (self._server, *self._plugs):
            resource.close()


async def assert_write_is_retried(session: Session) -> None:
    error = await failure_of(session.send(write()), AttemptTimeoutError, "no connection could")
    assert error.attempts == 2


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_write_without_a_connection_is_retried(scheme: str, fake_time: FakeTime) -> None:
    limits = {"attempt_timeout": 0.1, "connect_timeout": 5, "max_attempts": 2}
    with Backlog() as address:
        base_url = address.replace("http", scheme)
        async with open_session(base_url, fake_time, **limits) as session:
            await assert_write_is_retried(session)


async def test_a_write_to_an_unresolved_name_is_retried(
    fake_time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
    limits = {"attempt_timeout": 0.1, "max_attempts": 2}
    async with open_session("https://api.example.com", fake_time, **limits) as session:
        await assert_write_is_retried(session)


async def test_a_write_that_waits_for_a_full_pool_is_retried(connect: Connect) -> None:
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector) as session:
        client, server = await connect(hang, session=session, attempt_timeout=0.2, max_attempts=1)
        holding = asyncio.create_task(session.get(f"{server.base_url}/"))
        await server.first_request.wait()
        with pytest.raises(AttemptTimeoutError, match="no connection could"):
            await client.campaigns.create("https://example.com", "Shoes")
        holding.cancel()
    assert len(server.requests) == 1


# heads that violate the standard

OBJECT = b'{"data": {"id": 7, "url": "u", "company": "c"}}'
BARE_LF = b"HTTP/1.1 200 OK\nContent-Type: application/json\nContent-Length: %d\n\n" % len(OBJECT)
CONTINUED = b"HTTP/1.1 100 Continue\n\n"


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(BARE_LF + OBJECT, id="LF"),
        pytest.param(CONTINUED + BARE_LF + OBJECT, id="LF after 100"),
        pytest.param(
            b"HTTP/1.1 200\r\nContent-Length: %d\r\n\r\n" % len(OBJECT) + OBJECT,
            id="no reason phrase",
        ),
    ],
)
async def test_an_odd_head_is_read_after_a_write_as_after_a_read(
    head: bytes, connect: Connect
) -> None:
    client, server = await connect(*[then_close(head)] * 3, attempt_timeout=PATIENT)
    campaigns = client.campaigns
    assert (await campaigns.get(7)).id == 7
    assert (await campaigns.create("u", "c")).id == 7
    assert (await campaigns.update(7, url="u")).id == 7
    assert len(server.requests) == 3


# certainly not executed: turned away


async def test_write_that_was_refused_a_connection_is_executed_once(
    fake_time: FakeTime, unused_tcp_port: int
) -> None:
    fake_time.going_on.clear()
    async with open_session(f"http://127.0.0.1:{unused_tcp_port}", fake_time) as session:
        call = session.spawn(session.send(write()))
        await fake_time.waiting.wait()
        async with ScriptedServer([FINE], port=unused_tcp_port) as server:
            fake_time.going_on.set()
            await call
    assert len(server.requests) == 1


# deleting and changing, which may be done twice


OK_204 = b"HTTP/1.1 204 No Content\r\n"
WITH_A_BODY = OK_204 + b"Content-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("is_dripped", [False, True])
@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(answer(b"{}"), id="200"),
        pytest.param(answer(b""), id="200, empty"),
        pytest.param(OK_204 + b"\r\n", id="204"),
        pytest.param(WITH_A_BODY, id="a body"),
        pytest.param(OK_204 + b"\r\n<html></html>", id="a body and no length"),
        pytest.param(
            OK_204 + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}", id="a body, closed"
        ),
        pytest.param(OK_204 + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="chunked"),
        pytest.param(
            OK_204 + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            id="a chunked body",
        ),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
            + WITH_A_BODY,
            id="after 100 and 103",
        ),
        pytest.param(b"HTTP/1.1 204\r\n\r\n", id="no reason phrase"),
        pytest.param(b"HTTP/1.1 204 \r\n\r\n", id="space and no reason"),
        pytest.param(b"HTTP/1.1 204 No Content\n\n", id="LF"),
        pytest.param(b"HTTP/1.1 204 No Content\nContent-Length: 2\n\n{}", id="LF and a body"),
        pytest.param(b"HTTP/1.1 204\r\nContent-Length: 2\r\n\r\n{}", id="no reason, and a body"),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204\r\n\r\n{}", id="no reason, after 100"
        ),
        pytest.param(b"HTTP/1.1 102 P\n\n" * 30 + b"HTTP/1.1 204\r\n\r\n{}", id="after 102s"),
    ],
)
async def test_a_delete_succeeds_at_once_with_any_body(
    raw: bytes, is_dripped: bool, connect: Connect
) -> None:
    step = drip(raw, 0.0) if is_dripped else raw
    # A client that misses the end of the answer waits for the whole of this limit, and fails.
    client, server = await connect(step, attempt_timeout=PATIENT)
    await client.campaigns.delete(7)
    await server.until_no_connection()
    assert len(server.requests) == 1


GONE = answer({"status": "error", "message": "there is none"}, status=404)
PAGE_404 = answer(b"<html>404</html>", status=404, headers=[("Content-Type", "text/html")])
THROTTLED = answer(status=429)


# what a request meets before a 404, and whether it may have deleted the object
@pytest.mark.parametrize("method", ["DELETE", "PUT"])
@pytest.mark.parametrize(
    ("before", "may_be_deleted"),
    [
        pytest.param([answer(status=500)], True, id="500"),
        pytest.param([answer(status=502)], True, id="502"),
        pytest.param([answer(status=504)], True, id="504"),
        pytest.param([reset], True, id="reset"),
        pytest.param([then_close(b"")], True, id="closed"),
        pytest.param([then_close(answer(b"{}", length=9))], True, id="cut"),
        pytest.param([hang], True, id="silence"),
        # It is remembered over later attempts.
        pytest.param([reset, THROTTLED], True, id="reset, then 429"),
        pytest.param([], False, id="nothing"),
        pytest.param([THROTTLED], False, id="429"),
        pytest.param(
            [answer(status=503, headers=[("Retry-After", "1")])], False, id="503 with Retry-After"
        ),
        pytest.param([THROTTLED, THROTTLED], False, id="two 429s"),
    ],
)
async def test_a_404_to_a_repeated_delete_means_deleted(
    before: list[Step], may_be_deleted: bool, method: str, connect_session: ConnectSession
) -> None:
    # After the silence, the 404 must come within the same limit.
    attempt_timeout = 1 if hang in before else PATIENT
    session, server = await connect_session(*before, GONE, attempt_timeout=attempt_timeout)
    is_success = method == "DELETE" and may_be_deleted
    with nullcontext() if is_success else pytest.raises(NotFoundError):
        await session.send(write(method))
    assert len(server.requests) == len(before) + 1
    assert session.share.quota.tokens == 500 or not is_success


async def test_a_404_under_200_to_a_repeated_delete_means_deleted(connect: Connect) -> None:
    gone = answer({"status": "error", "code": 404, "message": "there is none"})
    client, server = await connect(reset, gone)
    await client.campaigns.delete(1)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "answers",
    [
        [PAGE_404],
        [answer(b"404 page not found", status=404)],
        [answer(status=404)],
        [answer(b"\n", status=404)],
    ],
)
async def test_only_a_404_in_json_proves_that_a_deletion_happened(
    answers: list[Step], connect: Connect
) -> None:
    client, _ = await connect(reset, *answers)
    with pytest.raises((NotFoundError, ProtocolError)):
        await client.campaigns.delete(7)


async def test_a_write_in_flight_as_the_client_closes_is_unknown(connect: Connect) -> None:
    client, server = await connect(hang)
    call = asyncio.create_task(client.campaigns.create("u", "c"))
    await server.first_request.wait()
    await client.close()
    with pytest.raises(OutcomeUnknownError, match=r"\(the client was closed before the response"):
        await call
