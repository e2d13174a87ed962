"""Rows 37 to 40: forbidden objects, clocks that differ, a loop or a process that stood still, JSON beyond repair."""

from __future__ import annotations

import asyncio
import email.utils
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web

from seorep_async import AuthenticationError, DecodeError, SeoRepClient, Settings
from tests.faults.conftest import Check
from tests.faults.run import JANUARY

slow, alone = pytest.mark.slow, pytest.mark.alone
PAGES = 3
KEYWORD = {"keywordId": 1, "keywordPhrase": "shoes"}


def feed_page(request: web.Request) -> web.Response:
    """Answer with one row of a feed of `PAGES` pages, or with a campaign."""
    metadata = {"total_pages": PAGES, "total_records": PAGES}
    if request.path == "/v3/campaigns":
        campaign = {"id": 7, "date_created": "2020-01-01 00:00:00", "url": "u", "company": "c", "account_id": 1}
        if request.method == "POST":
            return web.json_response({"metadata": {}, "data": campaign})
        return web.json_response({"metadata": {"total_pages": 1, "total_records": 0}, "data": []})
    row = KEYWORD | {"keywordId": int(request.query["page"])}
    return web.json_response({"metadata": metadata, "data": {"totals": False, "rows": [row]}})


Answer = Callable[[web.Request], web.Response]


@contextmanager
def serving(answer: Answer, latency: float = 0.005) -> Iterator[tuple[str, list[web.Request]]]:
    """Serve in a thread of its own, so that a client that stands still does not stop the service."""
    seen: list[web.Request] = []
    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def handle(request: web.Request) -> web.Response:
        seen.append(request)
        await request.read()
        response = answer(request)
        await asyncio.sleep(latency)
        return response

    async def main() -> None:
        runner = web.ServerRunner(web.Server(handle), handle_signals=False)  # type: ignore[arg-type]
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        over = asyncio.Event()
        port = runner.addresses[0][1]
        started.set_result((f"http://127.0.0.1:{port}", asyncio.get_running_loop(), over))
        await over.wait()
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    address, loop, over = started.result()
    try:
        yield address, seen
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


async def outcomes_of(address: str, ids: range, **settings: Any) -> dict[int, Any]:
    async with (
        SeoRepClient(address, "k", settings=Settings(**settings)) as client,
        client.rankings.pull(ids, *JANUARY) as outcomes,
    ):
        return {outcome.id: outcome.report or outcome.error async for outcome in outcomes}


# --- Row 37

FORBIDDEN = {
    "1 of 60": {30},
    "5 %": {5, 25, 45},
    "half by chance": set(random.Random(1).sample(range(1, 61), 30)),
    "the first half": set(range(1, 31)),
    "the last half": set(range(31, 61)),
    "every other one": set(range(1, 61, 2)),
    "the first": {1},
    "all but the last": set(range(1, 60)),
}


@pytest.mark.parametrize("concurrency", [1, 16])
@pytest.mark.parametrize("case", FORBIDDEN)
async def test_forbidden_campaigns_fail_alone(case: str, concurrency: int, check: Check) -> None:
    forbidden = FORBIDDEN[case]

    def answer(request: web.Request) -> web.Response:
        is_forbidden = int(request.query.get("campaign_id", 0)) in forbidden
        return web.Response(status=403) if is_forbidden else feed_page(request)

    with serving(answer) as (address, seen):
        found = await outcomes_of(address, range(1, 61), max_concurrency=concurrency)
    failed = {one for one, result in found.items() if isinstance(result, Exception)}
    assert all(isinstance(found[one], AuthenticationError) for one in failed)
    check(
        "37",
        f"{case} forbidden, {concurrency} at once",
        wrong_outcomes=(len(failed ^ forbidden) + 60 - len(found), 0),
        requests_too_many=(len(seen) - len(forbidden) - PAGES * (60 - len(forbidden)), len(forbidden)),
    )


@pytest.mark.parametrize("good", [0, 1, 50], ids=["wrong from the first", "revoked at once", "revoked later"])
@pytest.mark.parametrize("forbidden", [set(), {2, 9, 10, 11}], ids=["", "some forbidden"])
async def test_a_refused_key_costs_those_in_flight_and_a_probe(good: int, forbidden: set[int], check: Check) -> None:
    refused: list[web.Request] = []

    def answer(request: web.Request) -> web.Response:
        if len(seen) > good:
            refused.append(request)
            return web.Response(status=403)
        return web.Response(status=403) if int(request.query["campaign_id"]) in forbidden else feed_page(request)

    with serving(answer) as (address, seen):
        found = await outcomes_of(address, range(1, 61))
    errors = [result for result in found.values() if isinstance(result, Exception)]
    check(
        "37",
        f"key refused after {good} requests, {len(forbidden)} forbidden",
        requests_after_the_refusal=(len(refused), 16 + 1),
        errors_of_another_kind=(sum(not isinstance(error, AuthenticationError) for error in errors), 0),
        missing=(60 - len(found), 0),
    )


# --- Row 38


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_date_to_wait_for_is_read_by_the_clock_of_the_service(hours: int, check: Check) -> None:
    now = time.time() + 3600 * hours
    dates = {
        "Date": email.utils.formatdate(now, usegmt=True),
        "Retry-After": email.utils.formatdate(now + 1, usegmt=True),
    }

    def answer(request: web.Request) -> web.Response:
        return web.Response(status=429, headers=dates) if len(seen) == 1 else feed_page(request)

    begun = time.monotonic()
    with serving(answer) as (address, seen):
        found = await outcomes_of(address, range(1, 6))
    failed = sum(isinstance(result, Exception) for result in found.values())
    waited = time.monotonic() - begun
    assert waited >= 1
    check("38", f"the clocks differ by {hours} h", failed=(failed, 0))


# --- Row 39


async def block(seconds: float, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0.05)
        time.sleep(seconds)  # noqa: ASYNC251  # what the user's code must not do, and does


@pytest.mark.parametrize(
    ("limit", "blocked"),
    [pytest.param(0.25, 0.5, marks=alone), pytest.param(1.0, 2.0, marks=slow)],
    ids=["short", "full"],
)
async def test_a_blocked_loop_costs_no_answer_and_is_no_overload(limit: float, blocked: float, check: Check) -> None:
    with serving(feed_page, latency=0.02) as (address, seen):
        settings = Settings(attempt_timeout=limit)
        async with SeoRepClient(address, "k", settings=settings) as client:
            blocking = asyncio.create_task(block(blocked, 3))
            async with client.rankings.pull(range(1, 301), *JANUARY) as outcomes:
                failed = [outcome.id async for outcome in outcomes if not outcome.ok]
            await blocking
            stats = client.stats
    check(
        "39",
        f"loop blocked 3 times {blocked:g} s, {limit:g} s an attempt",
        failed=(len(failed), 0),
        requests_again=(len(seen) - 300 * PAGES, 16),
        cuts=(16 - stats.concurrency, 0),
    )


@alone
async def test_a_write_answered_while_the_loop_was_blocked_succeeds(check: Check) -> None:
    with serving(feed_page, latency=0.05) as (address, seen):
        async with SeoRepClient(address, "k", settings=Settings(attempt_timeout=0.2)) as client:
            await client.campaigns.list()  # a new connection must not be what takes the time
            creating = asyncio.create_task(client.campaigns.create("u", "c"))
            while len(seen) < 2:  # noqa: ASYNC110  # by another thread
                await asyncio.sleep(0.001)
            time.sleep(0.5)  # noqa: ASYNC251
            await creating
    check("39", "a POST answered while the loop was blocked", requests_again=(len(seen) - 2, 0))


@alone
async def test_a_loop_blocked_as_a_connection_is_opened_is_no_overload(check: Check) -> None:
    with serving(feed_page) as (address, _):
        async with SeoRepClient(address, "k", settings=Settings(connect_timeout=0.1)) as client:
            listing = asyncio.create_task(client.campaigns.list().page(1))
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
    async with SeoRepClient(sys.argv[1], "k", settings=Settings(attempt_timeout=float(sys.argv[2]))) as client:
        creating = asyncio.create_task(client.campaigns.create("u", "c"))
        async with client.rankings.pull(range(1, 201), "2023-01-01", "2023-01-31") as outcomes:
            failed = [outcome.id async for outcome in outcomes if not outcome.ok]
        await creating
        print(len(failed), client.stats.concurrency)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("limit", "stopped"),
    [pytest.param(0.5, 1.2, marks=alone), pytest.param(30.0, 40.0, marks=slow)],
    ids=["short", "full"],
)
async def test_a_process_that_was_stopped_uses_what_has_arrived(limit: float, stopped: float, check: Check) -> None:
    with serving(feed_page, latency=0.1) as (address, seen):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", STOPPED, address, str(limit)), stdout=subprocess.PIPE
        )
        while not any(request.method == "POST" for request in seen):  # noqa: ASYNC110  # by another thread
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
        writes=(sum(request.method == "POST" for request in seen), 1),
        cuts=(16 - concurrency, 0),
    )


# --- Row 40

BEYOND_REPAIR = {
    "lone surrogate": (rb"\ud800", "data.rows[0].keywordPhrase"),
    "byte that is not UTF-8": (b"\xff", "data.rows[0].keywordPhrase"),
    "raw line break": (b"a\nb", None),
}


@pytest.mark.parametrize("case", BEYOND_REPAIR)
async def test_json_that_no_second_try_can_mend_is_asked_for_once(case: str, check: Check) -> None:
    text, path = BEYOND_REPAIR[case]
    body = json.dumps({"metadata": {}, "data": {"totals": False, "rows": [KEYWORD]}}).encode().replace(b"shoes", text)
    with serving(lambda _: web.Response(body=body)) as (address, seen):
        found = await outcomes_of(address, range(1, 2))
    error = found[1]
    assert isinstance(error, DecodeError)
    assert error.field_path == path
    check("40", case, requests=(len(seen), 1))
