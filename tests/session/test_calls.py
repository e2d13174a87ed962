"""A call from beginning to end: permits, time limits, cancelling."""

import asyncio
import time
from typing import Any

import aiohttp
import pytest

from seorep_async import SeoRepClient
from seorep_async.errors import (
    AttemptTimeoutError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    ServerError,
)
from seorep_async.session import Deadline, Request
from tests.session.broken_answers import SLOW
from tests.session.calls import (
    KEY,
    Connect,
    ConnectSession,
    StartServer,
    ask,
    failure,
    open_session,
)
from tests.session.fake_time import FakeTime
from tests.session.scripted_server import FINE, Step, answer, hang, then_hang

LONG = 60.0  # seconds; nothing here comes near it unless something hangs


def get(path: str, **options: Any) -> Request[bytes]:
    return Request("GET", path, lambda body: body, **options)


async def test_no_permit_is_taken_during_decoding(connect_session: ConnectSession) -> None:
    in_flight: list[int] = []
    # A small body takes no time, and is decoded before its permit returns.
    session, _ = await connect_session(answer(b" " * 10_000), max_concurrency=1)

    def decode(body: bytes) -> None:
        in_flight.append(session.stats.in_flight)

    await session.send(Request("GET", "/v3/x", decode))
    assert in_flight == [0]


@pytest.mark.parametrize("step", SLOW.values(), ids=SLOW)
async def test_slow_answer_ends_with_the_attempt_timeout(step: Step, connect: Connect) -> None:
    client, server = await connect(forever=step, attempt_timeout=0.05, max_attempts=2)
    began = time.monotonic()
    await failure(client, AttemptTimeoutError, match=r"0\.05 s")
    assert 0.04 < time.monotonic() - began < LONG
    assert client.stats.retries == {"overload": 1}
    await server.until_no_connection()


async def test_call_that_never_succeeds_ends_before_its_deadline(
    connect: Connect, fake_time: FakeTime
) -> None:
    down = answer(b"down", status=500)
    client, server = await connect(forever=down, call_timeout=100, max_attempts=100)
    error = await failure(client, DeadlineExceededError, match="the service failed")
    assert sum(fake_time.slept) <= 100
    assert (error.status, error.body_excerpt) == (500, "down")
    assert error.attempts == len(server.requests) == len(fake_time.slept) + 1
    assert isinstance(error.__cause__, ServerError)


@pytest.mark.parametrize(
    "step", [hang, then_hang(b"HTTP/1.1 200 OK\r\n"), then_hang(answer(b"{", length=9))]
)
async def test_cancelled_attempt_leaves_no_permit_and_no_connection(
    step: Step, connect: Connect
) -> None:
    client, server = await connect(step, FINE, max_concurrency=1)
    call = asyncio.create_task(ask(client))
    await server.first_request.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await server.until_no_connection()
    await ask(client)


async def test_cancelling_between_attempts_does_not_affect_others(
    connect_session: ConnectSession, fake_time: FakeTime
) -> None:
    session, _ = await connect_session(answer(status=500))
    fake_time.going_on.clear()
    call = session.spawn(session.send(get("/v3/x")))
    await fake_time.waiting.wait()
    call.cancel()
    await asyncio.wait([call])
    assert session.share.quota.tokens == 500


async def test_client_is_opened_once_and_may_be_closed_twice() -> None:
    client = SeoRepClient("https://api.example.com", KEY)
    await client.close()
    await failure(client, ConfigurationError, match="not open yet.*async with")
    for state in ("open", "closed"):
        await (client.open if state == "open" else client.close)()
        with pytest.raises(ConfigurationError, match=f"{state} already"):
            await client.open()
    await failure(client, ConfigurationError, match="closed.*async with")
    await client.close()


async def test_client_of_another_loop_is_refused(connect: Connect) -> None:
    client, _ = await connect()
    with pytest.raises(
        ConfigurationError, match=r"another event loop: .* lifespan; .* the same loop_scope"
    ):
        await asyncio.to_thread(asyncio.run, ask(client))


async def test_a_borrowed_session_may_not_trust_the_environment() -> None:
    async with aiohttp.ClientSession(trust_env=True) as session:
        with pytest.raises(ConfigurationError, match="trust_env=False"):
            await SeoRepClient("https://api.example.com", KEY, session=session).open()


async def test_a_client_opens_only_in_the_loop_of_its_borrowed_session() -> None:
    async with aiohttp.ClientSession() as session:
        client = SeoRepClient("https://api.example.com", KEY, session=session)
        with pytest.raises(ConfigurationError, match="another event loop; create it in this one"):
            await asyncio.to_thread(asyncio.run, client.open())
        async with client:
            assert client._session.share.try_acquire(Deadline())


@pytest.mark.parametrize("max_attempts", [1, 9])
async def test_closing_the_client_ends_its_calls_and_says_so(
    max_attempts: int, connect: Connect
) -> None:
    client, server = await connect(hang, max_concurrency=1, max_attempts=max_attempts)
    calls = [asyncio.create_task(ask(client)) for _ in range(3)]
    await server.first_request.wait()
    await client.close()
    in_flight, *waiting = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(in_flight, ConnectionFailedError)
    assert in_flight.message[:21] == "the client was closed"
    assert in_flight.attempts == 1
    for end in waiting:
        assert isinstance(end, ConfigurationError)
        assert "client is closed" in end.message


@pytest.mark.parametrize("is_borrowed", [False, True], ids=["own", "borrowed"])
async def test_nothing_is_sent_with_a_permit_from_before_closing(
    is_borrowed: bool, connect: Connect
) -> None:
    async with aiohttp.ClientSession() as session:
        client, _ = await connect(FINE, session=session if is_borrowed else None, max_concurrency=1)
        waiting = asyncio.create_task(client.campaigns.update(1, company="b"))
        # The permit of this call goes to the waiting one, which runs only after the closing.
        await ask(client)
        await client.close()
        with pytest.raises(ConfigurationError, match="client is closed"):
            await waiting
        assert client.stats.in_flight == 0


async def test_a_retry_that_closing_prevents_ends_in_its_failure(
    connect: Connect, fake_time: FakeTime
) -> None:
    client, _ = await connect(answer(status=500))
    fake_time.going_on.clear()
    call = asyncio.create_task(
        failure(client, ServerError, match="not retried: the client was closed")
    )
    await fake_time.waiting.wait()
    await client.close()
    assert (await call).attempts == 1


async def test_a_cancelled_close_still_closes_everything(
    scripted_server: StartServer, fake_time: FakeTime
) -> None:
    server = await scripted_server(FINE)
    working = asyncio.Event()
    released = asyncio.Event()

    async def work() -> None:
        try:
            working.set()
            await asyncio.Event().wait()
        finally:
            await released.wait()

    session = open_session(server.base_url, fake_time)
    await session.__aenter__()
    await session.send(get("/v3/x"))
    session.spawn(work())
    await working.wait()
    closing = asyncio.create_task(session.__aexit__(None, None, None))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    released.set()
    await server.until_no_connection()
    assert session._transport._session_for_reads.closed is True
    assert session._transport._session_for_writes.closed is True
