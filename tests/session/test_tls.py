"""Certificates are always checked, and a refused one is not retried."""

import asyncio
import datetime as dt
import socket
import ssl
import threading
from typing import Any

import aiohttp
import pytest
import trustme

from seorep_async import AttemptTimeoutError, ConnectionFailedError
from tests.faults.run import open_sockets
from tests.session.calls import Connect, OpenClient, StartServer, failure, failure_of
from tests.session.fake_time import FakeTime
from tests.session.scripted_server import answer

YESTERDAY = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def trusting(authority: trustme.CA) -> aiohttp.ClientSession:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


@pytest.mark.parametrize("fault", ["unknown authority", "other host", "expired"])
async def test_bad_certificate_is_refused_before_anything_is_sent(
    fault: str, connect: Connect, fake_time: FakeTime, authority: trustme.CA
) -> None:
    dates: dict[str, Any] = {"not_before": YESTERDAY - dt.timedelta(days=1), "not_after": YESTERDAY}
    host = "api.example.com" if fault == "other host" else "127.0.0.1"
    certificate = authority.issue_cert(host, **(dates if fault == "expired" else {}))
    async with trusting(authority if fault != "unknown authority" else trustme.CA()) as session:
        client, server = await connect(tls=server_context(certificate), session=session)
        error = await failure(client, ConnectionFailedError, match="no TLS connection")
    assert error.attempts == 1
    assert fake_time.slept == []
    assert server.requests == []
    # the advice would mislead if the authority is known
    assert ("SSL_CERT_FILE" in str(error)) == (fault == "unknown authority")


async def test_a_server_that_closes_in_the_handshake_is_named(open_client: OpenClient) -> None:
    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(closing, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = await open_client(f"https://127.0.0.1:{port}", max_attempts=1)
        await failure(client, ConnectionFailedError, match=f"{port}: Connection")


async def test_https_at_a_plain_server_is_refused_at_once(
    open_client: OpenClient, fake_time: FakeTime
) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer(b"You speak TLS to me", status=400))
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        client = await open_client(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        error = await failure(client, ConnectionFailedError, "no TLS connection")
    assert error.attempts == 1
    assert "write http:// in place of https://" in str(error)
    assert fake_time.slept == []


async def test_an_unanswered_greeting_ends_with_the_connect_timeout(
    scripted_server: StartServer, open_client: OpenClient
) -> None:
    server = await scripted_server()  # it waits for a request, and a TLS greeting is not one
    client = await open_client(
        server.base_url.replace("http:", "https:"), connect_timeout=0.2, max_attempts=1
    )
    call = client.campaigns.list(filter="what nobody may see").page(1)
    error = await failure_of(call, AttemptTimeoutError, r"Settings\.connect_timeout")
    assert "nobody" not in str(error)


@pytest.mark.parametrize("is_borrowed", [False, True], ids=["own", "borrowed"])
@pytest.mark.parametrize("begun", [b"", answer(b"{", length=9)], ids=["nothing", "half"])
async def test_a_hung_server_keeps_no_socket_open(
    begun: bytes,
    is_borrowed: bool,
    open_client: OpenClient,
    authority: trustme.CA,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", trust)
    context = server_context(authority.issue_cert("127.0.0.1"))
    released = threading.Event()

    def hang() -> None:
        # asyncio's servers would answer the closing handshake
        with context.wrap_socket(listener.accept()[0], server_side=True) as connection:
            connection.recv(65536)
            connection.sendall(begun)
            released.wait()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = asyncio.create_task(asyncio.to_thread(hang))
        async with aiohttp.ClientSession() as session:
            client = await open_client(
                f"https://127.0.0.1:{listener.getsockname()[1]}",
                session=session if is_borrowed else None,
                attempt_timeout=0.2,
                max_attempts=1,
            )
            before = open_sockets()
            try:
                await failure(client, AttemptTimeoutError, match="did not answer")
                await asyncio.sleep(0.1)
                left = open_sockets() - before
            finally:
                released.set()
                await server
    assert left == 1  # the server's
