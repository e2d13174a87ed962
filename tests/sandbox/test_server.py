"""Starting, leaving, and the options."""

import asyncio
import gc
from typing import Any
from unittest.mock import patch
from weakref import WeakSet

import aiohttp
import pytest

from seorep_async.sandbox import Sandbox, service
from seorep_async.sandbox.account import Account
from tests.processes import run_python
from tests.sandbox.calls import NEW, USERS, Caller, calling


async def test_a_notebook_opens_and_closes_it() -> None:
    sandbox = Sandbox(campaigns=3, api_key="canary")
    assert repr(sandbox) == "<Sandbox: not running, 3 campaigns of 50 keywords>"
    assert await sandbox.open() is sandbox
    assert repr(sandbox) == f"<Sandbox: {sandbox.base_url}, 3 campaigns of 50 keywords>"
    await sandbox.close()
    with pytest.raises(RuntimeError, match=r"not running: .*await sandbox\.open\(\)"):
        print(sandbox.base_url)


async def test_a_port_in_use_is_an_error_with_advice() -> None:
    async with Sandbox() as sandbox:
        other = Sandbox(port=int(sandbox.base_url.rpartition(":")[2]))
        with pytest.raises(OSError, match="use") as caught:
            await other.open()
    (note,) = caught.value.__notes__
    assert note.startswith("choose another host or port, or end the program that uses it")


async def test_a_sandbox_entered_again_has_its_first_account() -> None:
    sandbox = Sandbox()
    seen = []
    for _ in range(2):
        async with sandbox, aiohttp.ClientSession() as session:
            call = Caller(sandbox, session)
            seen.append(await call.count(USERS))
            await call.send(USERS, method="POST", body={"json": NEW[USERS]})
            assert sandbox.stats.requests == 2
    assert seen == [5, 5]


@pytest.mark.usefixtures("only_new_garbage")
async def test_the_account_is_freed_on_leaving() -> None:
    accounts = WeakSet[Account]()

    def make(*options: int) -> Account:
        account = Account(*options)
        accounts.add(account)
        return account

    with patch.object(service, "Account", make):
        async with calling() as call:
            await call.get("/v3/campaigns/1")
            assert len(accounts) == 1
    del call
    gc.collect()
    assert not accounts


@pytest.mark.parametrize(
    ("options", "statuses"),
    [
        ({}, {403}),  # no key is sent
        ({"latency": 3600.0}, {403}),
        ({"faults": "hang=50%,slow=50%"}, set()),
    ],
    ids=["waiting", "late", "faulty"],
)
async def test_leaving_ends_requests_in_progress_at_once(
    options: dict[str, Any], statuses: set[int]
) -> None:
    loop = asyncio.get_running_loop()
    async with aiohttp.ClientSession() as session:
        async with Sandbox(**options) as sandbox:
            calls = [
                asyncio.ensure_future(session.get(f"{sandbox.base_url}/v3/campaigns"))
                for _ in range(5)
            ]
            while sandbox.stats.requests < 5:  # noqa: ASYNC110, no event tells
                await asyncio.sleep(0)
            start = loop.time()
        assert loop.time() - start < 60
        ends = await asyncio.gather(*calls, return_exceptions=True)
    assert {end.status for end in ends if isinstance(end, aiohttp.ClientResponse)} == statuses


def test_it_leaves_without_a_warning_with_callers_in_every_state() -> None:
    program = """
import asyncio
import socket
from seorep_async.sandbox import Sandbox

async def main():
    # The speed of the machine does not matter here.
    asyncio.get_running_loop().slow_callback_duration = 60
    async with Sandbox(latency=3600) as sandbox:
        port = int(sandbox.base_url.rsplit(":", 1)[1])
        writers = []
        for sent in (b"", b"GET / HT", b"GET / HTTP/1.1\\r\\nHost: here\\r\\n\\r\\n"):
            writers.append((await asyncio.open_connection("127.0.0.1", port))[1])
            writers[-1].write(sent)
        await asyncio.sleep(0.05)
    for writer in writers:
        writer.close()
    for turns in range(5):  # a connection at every stage of being accepted
        with socket.socket() as late:
            async with Sandbox() as sandbox:
                late.connect(("127.0.0.1", int(sandbox.base_url.rsplit(":", 1)[1])))
                for _ in range(turns):
                    await asyncio.sleep(0)

asyncio.run(main())
"""
    done = run_python("-X", "dev", "-W", "error", "-c", program)
    assert (done.returncode, done.stderr) == (0, "")
