"""Row 39: a blocked loop or process. `tests/test_pull_key.py` has forbidden campaigns."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import pytest

from seorep_async import SeoRepClient, Settings
from tests.faults.conftest import Check
from tests.faults.run import JANUARY, results_of
from tests.scripted_api import FEED
from tests.session.scripted_server import Connection, ScriptedServer, answer
from tests.threads import in_a_thread

pytestmark = pytest.mark.heavy

slow = pytest.mark.slow
alone = pytest.mark.alone
CAMPAIGNS = 300
PAGES = 3
CREATED = b'{"data": {"id": 7, "url": "u", "company": "c"}}'


def serving_apart(latency: float) -> AbstractContextManager[ScriptedServer]:
    """Serve in another thread, which keeps running while the client is blocked."""

    async def answer_late(connection: Connection) -> None:
        request = server.requests[-1]
        await asyncio.sleep(latency)
        body = CREATED
        if request.method == "GET":
            body = json.dumps(FEED.envelope([int(request.query["page"])], PAGES, PAGES)).encode()
        await connection.send(answer(body))

    server = ScriptedServer(forever=answer_late)
    return in_a_thread(server)


@asynccontextmanager
async def client_and_server_apart(
    latency: float, **options: Any
) -> AsyncIterator[tuple[SeoRepClient, ScriptedServer]]:
    """Open a client with these settings, whose server keeps running while it is blocked."""
    settings = Settings(**options)
    with serving_apart(latency) as server:
        async with SeoRepClient(server.base_url, "k", settings=settings) as client:
            yield client, server


def writes(server: ScriptedServer) -> int:
    return sum(request.method == "POST" for request in server.requests)


# --- Row 39


async def block(seconds: float, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0.05)
        time.sleep(seconds)  # noqa: ASYNC251  # users' code must not do this, and does


@pytest.mark.parametrize(
    ("limit", "blocked"),
    [pytest.param(0.25, 0.5, marks=alone), pytest.param(1.0, 2.0, marks=slow)],
    ids=["short", "full"],
)
async def test_a_blocked_loop_loses_no_answer_and_is_no_overload(
    limit: float, blocked: float, check: Check
) -> None:
    # The question about the page size would be one more request.
    options = {"attempt_timeout": limit, "page_size": None}
    async with client_and_server_apart(0.02, **options) as (client, server):
        blocking = asyncio.create_task(block(blocked, 3))
        results = await results_of(client, CAMPAIGNS)
        await blocking
        stats = client.stats
    errors = [result for result in results.values() if isinstance(result, Exception)]
    check(
        "39",
        f"loop blocked 3 times {blocked:g} s, {limit:g} s an attempt",
        failed=(len(errors), 0),
        requests_again=(len(server.requests) - CAMPAIGNS * PAGES, 16),
        cuts=(16 - stats.concurrency, 0),
    )


@alone
async def test_a_write_answered_while_the_loop_was_blocked_succeeds(check: Check) -> None:
    async with client_and_server_apart(0.05, attempt_timeout=0.2) as (client, server):
        creating = asyncio.create_task(client.campaigns.create("u", "c"))
        while not writes(server):  # noqa: ASYNC110  # by another thread
            await asyncio.sleep(0.001)
        # The server's thread answers in the meantime, 50 ms after the request.
        time.sleep(1)  # noqa: ASYNC251
        await creating
    check(
        "39", "a POST answered while the loop was blocked", requests_again=(writes(server) - 1, 0)
    )


@alone
async def test_a_loop_blocked_as_a_connection_is_opened_is_no_overload(check: Check) -> None:
    async with client_and_server_apart(0.005, connect_timeout=0.1) as (client, _):
        listing = asyncio.create_task(client.rankings.campaign(1, *JANUARY).page(1))
        for _ in range(5):
            await asyncio.sleep(0)
            time.sleep(0.2)  # noqa: ASYNC251
        await listing
        stats = client.stats
    check("39", "loop blocked as a connection was opened", cuts=(16 - stats.concurrency, 0))


STOPPED = """
import asyncio, sys
from seorep_async import SeoRepClient, Settings

async def main():
    settings = Settings(attempt_timeout=float(sys.argv[2]))
    async with SeoRepClient(sys.argv[1], "k", settings=settings) as client:
        creating = asyncio.create_task(client.campaigns.create("u", "c"))
        async with client.rankings.pull(range(1, 201), "2023-01-01", "2023-01-31") as outcomes:
            failed = [outcome.id async for outcome in outcomes if not outcome.ok]
        await creating
        print(len(failed), client.stats.concurrency)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("limit", "stopped"),
    [pytest.param(2.0, 2.5, marks=alone), pytest.param(30.0, 40.0, marks=slow)],
    ids=["short", "full"],
)
async def test_a_stopped_process_uses_data_that_has_arrived(
    limit: float, stopped: float, check: Check
) -> None:
    with serving_apart(latency=0.1) as server:
        command = [sys.executable, "-c", STOPPED, server.base_url, str(limit)]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        while not writes(server):  # noqa: ASYNC110  # by another thread
            await asyncio.sleep(0.001)
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(stopped)
        process.send_signal(signal.SIGCONT)
        out, _ = await process.communicate()
    failed, concurrency = map(int, out.split())
    check(
        "39",
        f"process stopped for {stopped:g} s, {limit:g} s an attempt",
        failed=(failed, 0),
        writes=(writes(server), 1),
        cuts=(16 - concurrency, 0),
    )
