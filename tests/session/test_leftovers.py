"""After a client is closed nothing is left: no task, no socket, no warning."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from seorep_async import SeoRepError
from seorep_async.session import Request
from tests.session.calls import StartServer
from tests.session.scripted_server import FINE, Step, answer, hang, reset, then_close, then_hang
from tests.session.simulated_service import SimulatedService, session_above

pytestmark = pytest.mark.heavy

PROGRAM = """
import asyncio, gc, os, socket, sys
from seorep_async import SeoRepClient, SeoRepError, Settings

SETTINGS = Settings(backoff_initial=0.01, max_attempts=3, attempt_timeout=0.2)

def open_sockets():
    return sum(isinstance(thing, socket.socket) and thing.fileno() != -1 for thing in gc.get_objects())

async def main(base_url, ending):
    asyncio.get_running_loop().slow_callback_duration = 3600.0  # a busy machine is no fault of the client
    before = open_sockets()
    client = SeoRepClient(base_url, "k", settings=SETTINGS)
    calls = []
    try:
        async with client:
            calls = [asyncio.create_task(client.campaigns.list().page(1)) for _ in range(4)]
            if ending == "finished":
                await asyncio.wait(calls)
            elif ending == "break":
                async for _ in client.campaigns.list():
                    break
            else:
                await asyncio.sleep(0.05)
            if ending == "cancelled":
                for call in calls:
                    call.cancel()
            if ending == "raised":
                raise ZeroDivisionError
    except (ZeroDivisionError, SeoRepError):
        pass
    assert asyncio.all_tasks() == {asyncio.current_task()}, asyncio.all_tasks()
    assert open_sockets() == before, (open_sockets(), before)
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            assert isinstance(result, SeoRepError), result

for base_url in sys.argv[1:]:
    for ending in ("finished", "early", "cancelled", "raised", "break"):
        print(base_url, ending)
        asyncio.run(main(base_url, ending))
        gc.collect()
print("nothing is left")
"""

HALF = then_hang(answer(b"{", length=9))

STEPS: dict[str, Step] = {
    "fine": FINE,
    "fine, then closed": then_close(FINE),
    "error": answer(status=500),
    "reset": reset,
    "cut": then_close(answer(b"{", length=9)),
    "silence": hang,
    "half, then silence": HALF,
}


async def test_nothing_is_left(scripted_server: StartServer, tmp_path: Path) -> None:
    servers = {name: await scripted_server(forever=step) for name, step in STEPS.items()}
    environment = os.environ | {"PYTHONDEVMODE": "1", "PYTHONPATH": os.getcwd()}
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", str(program), *(server.base_url for server in servers.values())),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    reached = out.decode().splitlines()[-1]
    names = {server.base_url: name for name, server in servers.items()}
    assert (process.returncode, err, reached) == (0, b"", "nothing is left"), names
    for server in servers.values():
        await server.until_no_connection()


@pytest.mark.virtual
async def test_calls_that_back_off_have_ended_once_closed() -> None:
    before = asyncio.all_tasks()
    async with session_above(SimulatedService(says=lambda path: 503), backoff_initial=60) as session:
        calls = [asyncio.create_task(session.send(Request("GET", f"/{number}", len))) for number in range(4)]
        await asyncio.sleep(0.1)
        assert session.stats.retries
    assert asyncio.all_tasks() == before
    assert all(isinstance(call.exception(), SeoRepError) for call in calls)
