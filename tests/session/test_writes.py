"""Writes under faults: executed at most once or as often as is harmless, and what is not known is told as such."""

import asyncio
from contextlib import nullcontext
from typing import Any

import aiohttp
import pytest

from seorep_async import errors
from seorep_async.session import Request
from tests.session.broken_answers import BROKEN, SLOW
from tests.session.calls import Connect, ConnectSession, open_session, write
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


def delete(**options: Any) -> Request[bytes]:
    return write("DELETE", idempotent=True, body=None, content_type=None, **options)


async def test_every_write_has_a_connection_of_its_own(connect_session: ConnectSession) -> None:
    session, server = await connect_session(FINE, FINE)
    await session.send(write())
    await session.send(write())
    assert server.connections == 2


# executed, and the answer lost


NEVER_ENDING = ("silence", "body that never ends", "headers that never end")
REUSED = (
    *("reset", "closed", "head cut", "short Content-Length", "cut within a chunk"),
    *("no HTTP", "two lengths", "header of 20 KB"),
)
LOST: dict[str, tuple[Step, type[errors.SeoRepError]]] = {
    **{name: BROKEN[name] for name in REUSED},
    **{name: (SLOW[name], errors.AttemptTimeoutError) for name in NEVER_ENDING},
    "garbage after 100": (
        then_close(b"HTTP/1.1 100 Continue\r\n\r\nnonsense\r\n\r\n"),
        errors.ProtocolError,
    ),
    "header of 2 MB": (
        then_close(b"HTTP/1.1 204 No\r\nX-Long: " + b"x" * 2_000_000 + b"\r\n\r\n"),
        errors.ProtocolError,
    ),
    "408": (answer(status=408), errors.SeoRepError),
    **{str(status): (answer(status=status), errors.ServerError) for status in (500, 502, 503, 504)},
}


@pytest.mark.parametrize(("step", "cause"), LOST.values(), ids=LOST)
async def test_write_that_may_have_happened_is_not_sent_again(
    step: Step, cause: type[errors.SeoRepError], connect_session: ConnectSession
) -> None:
    session, server = await connect_session(step, attempt_timeout=0.2)
    with pytest.raises(errors.OutcomeUnknownError, match="look for it in the list") as caught:
        await session.send(write(subject="campaign"))
    assert isinstance(caught.value.__cause__, cause)
    assert (caught.value.subject, caught.value.attempts) == ("campaign", 1)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>Thanks</html>", b'{"data": {"id": 7', b"\xff"],
    ids=["empty", "HTML", "cut", "no UTF-8"],
)
async def test_a_created_object_with_unreadable_answer_is_not_repeated(
    body: bytes, connect: Connect
) -> None:
    client, server = await connect(answer(body))
    with pytest.raises(errors.OutcomeUnknownError, match="look for it in the list"):
        await client.campaigns.create("https://example.com", "Shoes")
    assert len(server.requests) == 1


async def test_a_server_that_always_closes_executes_each_write_once(
    connect_session: ConnectSession,
) -> None:
    session, server = await connect_session(forever=then_close(FINE))
    for number in range(20):
        await session.send(write(body=b"%d" % number))
    assert session.stats.attempts == 20
    assert [request.body for request in server.requests] == [b"%d" % number for number in range(20)]


async def test_write_through_a_borrowed_session_is_not_resent_by_it(connect: Connect) -> None:
    async with aiohttp.ClientSession() as session:
        client, server = await connect(FINE, reset, session=session)
        await client.request("PUT", "/v3/x", body={"a": "1"})
        with pytest.raises(errors.OutcomeUnknownError):
            await client.request("POST", "/v3/x", body={"a": "1"})
    assert [request.connection for request in server.requests] == [1, 1]


# certainly not executed


@pytest.mark.parametrize(
    "refused",
    [
        answer(status=429),
        *(answer(status=status, headers=[("Retry-After", "1")]) for status in (429, 503)),
    ],
)
async def test_write_that_was_turned_away_is_sent_again_as_it_was(
    refused: bytes, connect_session: ConnectSession
) -> None:
    session, server = await connect_session(refused, FINE)
    await session.send(write(body=b"name=x&id=1"))
    assert [request.body for request in server.requests] == [b"name=x&id=1"] * 2


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


NO_CONTENT: dict[str, Step] = {
    "200": answer(b"{}"),
    "200, empty": answer(b""),
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "204 with a body": b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n{}",
    "204 with a body and no length": b"HTTP/1.1 204 No Content\r\n\r\n<html></html>",
    "204 with a body, closed": then_close(
        b"HTTP/1.1 204 No Content\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
    ),
    "204, chunked": b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "204 with a chunked body": b"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "204 after 100 and 103": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
        b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n{}"
    ),
}


NO_CONTENT |= {
    f"{name}, byte by byte": drip(raw, 0.0)
    for name, raw in NO_CONTENT.items()
    if isinstance(raw, bytes)
}


@pytest.mark.parametrize("step", NO_CONTENT.values(), ids=NO_CONTENT)
async def test_delete_succeeds_whatever_comes_with_its_success(
    step: Step, connect_session: ConnectSession
) -> None:
    session, server = await connect_session(step)
    await session.send(delete())
    await server.until_no_connection()


def test_body_of_a_204_is_dropped_on_uvloop_too() -> None:
    async def delete_one() -> None:
        step = NO_CONTENT["204 with a body"]
        async with (
            ScriptedServer([step]) as server,
            open_session(server.base_url, FakeTime()) as session,
        ):
            await session.send(delete())

    with asyncio.Runner(loop_factory=pytest.importorskip("uvloop").new_event_loop) as runner:
        runner.run(delete_one())


THROTTLED, PAUSED = answer(status=429), answer(status=503, headers=[("Retry-After", "1")])
# what a request meets before a 404, and whether that means that it had deleted the object
BEFORE_404: dict[str, tuple[list[Step], bool]] = {
    **{str(status): ([answer(status=status)], True) for status in (500, 502, 504)},
    "reset": ([reset], True),
    "closed": ([then_close(b"")], True),
    "cut": ([then_close(answer(b"{}", length=9))], True),
    "silence": ([hang], True),
    "reset, then 429": ([reset, THROTTLED], True),  # it is remembered over later attempts
    "nothing": ([], False),
    "429": ([THROTTLED], False),
    "503 with Retry-After": ([PAUSED], False),
    "two 429s": ([THROTTLED, THROTTLED], False),
}


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
@pytest.mark.parametrize(("before", "was_deleted"), BEFORE_404.values(), ids=BEFORE_404)
async def test_what_is_gone_when_a_delete_is_sent_again_was_deleted(
    before: list[Step], was_deleted: bool, method: str, connect_session: ConnectSession
) -> None:
    session, server = await connect_session(*before, answer(status=404), attempt_timeout=0.2)
    is_success = method == "DELETE" and was_deleted
    with nullcontext() if is_success else pytest.raises(errors.NotFoundError):
        await session.send(write(method, idempotent=True))
    assert len(server.requests) == len(before) + 1
    assert session.share.quota.tokens == 500 or not is_success


async def test_delete_by_its_path_is_answered_by_an_empty_envelope(connect: Connect) -> None:
    client, _ = await connect(reset, answer(status=404))
    assert await client.request("DELETE", "/v3/campaigns/7") == {}


async def test_a_write_in_flight_as_the_client_closes_is_unknown(connect: Connect) -> None:
    client, server = await connect(hang)
    call = asyncio.create_task(client.campaigns.create("u", "c"))
    await server.first_request.wait()
    await client.close()
    with pytest.raises(
        errors.OutcomeUnknownError, match=r"\(the client was closed before the response"
    ):
        await call
