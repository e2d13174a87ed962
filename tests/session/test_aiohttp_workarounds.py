"""Each workaround is still needed, because aiohttp and glibc still behave as it says."""

import asyncio
import io
import platform

import aiohttp
import pytest

from tests.faults.run import open_sockets
from tests.processes import run_python
from tests.session.calls import StartServer
from tests.session.scripted_server import FINE, Connection, answer, reset


async def test_aiohttp_sends_a_request_again_after_a_reset(scripted_server: StartServer) -> None:
    server = await scripted_server(reset, FINE)
    async with aiohttp.ClientSession() as session, session.get(f"{server.base_url}/") as response:
        assert response.status == 200
    assert len(server.requests) == 2


async def test_aiohttp_refuses_a_body_after_a_204(scripted_server: StartServer) -> None:
    server = await scripted_server(answer(b"{}", status=204))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        with pytest.raises(aiohttp.ClientResponseError):
            await session.delete(f"{server.base_url}/")


async def test_aiohttp_takes_an_unasked_response_for_the_next(scripted_server: StartServer) -> None:
    idle = asyncio.Event()
    sent = asyncio.Event()

    async def twice(connection: Connection) -> None:
        await connection.send(answer(b"asked"))
        await idle.wait()
        await connection.send(answer(b"unasked"))
        sent.set()

    server = await scripted_server(twice, answer(b"asked"))
    async with aiohttp.ClientSession() as session:
        for expected in ("asked", "unasked"):
            async with session.get(f"{server.base_url}/") as response:
                assert await response.text() == expected
            idle.set()
            await sent.wait()
            await asyncio.sleep(0.05)  # until the loop has read it


async def test_aiohttp_does_not_abort_a_cancelled_request() -> None:
    stuck = asyncio.Event()

    async def never_read(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stuck.wait()
        writer.transport.abort()

    # The rest of the body keeps the socket open here. Over TLS, the closing handshake does.
    body = io.BytesIO(b"x" * 50_000_000)
    async with (
        await asyncio.start_server(never_read, "127.0.0.1", 0) as server,
        aiohttp.ClientSession() as session,
    ):
        before = open_sockets()
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.post(url, data=body), 0.2)
        await asyncio.sleep(0.1)
        assert open_sockets() == before + 2  # both ends
        stuck.set()


PAGE_FAULTS = """
import resource
import socket

one, other = socket.socketpair()
READ_SIZE = 256 * 1024

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        one.send(b"x" * 1000)
        other.recv(READ_SIZE)  # which shortens its block
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()

from seorep_async.session import aiohttp_workarounds
assert READ_SIZE == aiohttp_workarounds.READ_SIZE
aiohttp_workarounds.reuse_freed_memory()
faults()
print(first, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is about glibc")
def test_glibc_maps_every_block_until_a_larger_one_was_freed() -> None:
    done = run_python("-c", PAGE_FAULTS)
    assert done.stderr == ""
    before, after = map(int, done.stdout.split())
    assert before > 90 > 10 > after
