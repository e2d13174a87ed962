"""Cancellation, closing and timeouts leave nothing behind, at any moment and on every loop.

This is row 21 of the fault matrix.
"""

import asyncio
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from seorep_async import SeoRepClient, SeoRepError, Settings
from seorep_async.resources import Rankings
from seorep_async.sandbox import Sandbox
from tests.faults.run import open_sockets
from tests.rankings import rankings_of, report_page
from tests.session.simulated_service import ApiRequest, SimulatedService
from tests.session.virtual_loop import here

OURS = ("seorep_async/session", "seorep_async/paging", "seorep_async/pull")
DAYS = ("2023-01-01", "2023-01-31")
ITERATIONS_TO_END = 20  # of the loop, after a call was cancelled
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"plain": asyncio.new_event_loop}
try:
    import uvloop
except ImportError:
    pass
else:
    LOOPS["uvloop"] = uvloop.new_event_loop
if sys.version_info >= (3, 12):

    def eager_loop() -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        loop.set_task_factory(asyncio.eager_task_factory)
        return loop

    LOOPS["eager"] = eager_loop


async def round_of(client: SeoRepClient, chance: random.Random) -> None:
    """Begin some work, and end it in one of several ways at a given moment."""
    how = chance.choice(["cancel", "close", "timeout"])
    async with client:
        calls = [asyncio.ensure_future(client.campaigns.get(number)) for number in range(1, 9)]
        calls.append(asyncio.ensure_future(pulled(client)))
        for _ in range(chance.choice([0, chance.randint(0, 60)])):
            await asyncio.sleep(0)
        await asyncio.sleep(chance.choice([0, chance.random() * 0.02]))
        if how == "close":
            await client.close()
        if how == "timeout":
            with client.timeout(chance.random() * 0.01 + 0.001):
                calls.append(asyncio.ensure_future(client.campaigns.get(1)))
        if how == "cancel":
            for call in calls:
                call.cancel()
            for _ in range(ITERATIONS_TO_END):
                await asyncio.sleep(0)
            assert all(call.done() for call in calls)
        ends = await asyncio.gather(*calls, return_exceptions=True)
        failures = [end for end in ends if isinstance(end, Exception)]
        assert all(isinstance(failure, SeoRepError) for failure in failures)
        assert client.stats.in_flight == 0
        if how != "close":
            # A permit that is left would block this call where there is only one.
            await asyncio.gather(client.campaigns.get(1), return_exceptions=True)


async def pulled(client: SeoRepClient) -> Any:
    return await client.rankings.pull(range(1, 21), *DAYS)


async def rounds(count: int, seed: int) -> None:
    chance = random.Random(seed)
    faults = "resets=5%,cut=5%,hang=2%"
    async with Sandbox(campaigns=20, keywords=3, latency=0.002, faults=faults) as box:
        sockets = open_sockets()
        for _ in range(count):
            before = asyncio.all_tasks()
            settings = Settings(
                max_concurrency=chance.choice([1, 3, 16]),
                attempt_timeout=0.1,
                backoff_initial=0.01,
                max_attempts=3,
            )
            await round_of(SeoRepClient(box.base_url, box.api_key, settings=settings), chance)
            left = [task for task in asyncio.all_tasks() - before if not task.done()]
            # Other tasks are those of the server.
            assert not [task for task in left if any(part in repr(task) for part in OURS)]
        async with asyncio.timeout(60):
            # The sandbox closes its end later.
            while open_sockets() > sockets:  # noqa: ASYNC110  # closed by another task
                await asyncio.sleep(0.01)


HEAVY = pytest.mark.heavy


@pytest.mark.parametrize(
    ("debug", "count"),
    [
        (False, 15),
        (True, 2),
        pytest.param(False, 25, marks=HEAVY),
        pytest.param(False, 350, marks=[HEAVY, pytest.mark.slow]),
        # A round takes three times as long in debug mode.
        pytest.param(True, 10, marks=HEAVY),
    ],
)
@pytest.mark.parametrize("loop", LOOPS)
def test_nothing_is_left_after_any_end(loop: str, debug: bool, count: int) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop], debug=debug) as runner:
        runner.run(rounds(count, seed=count + len(loop)))


async def seconds_of_100_reports(rankings: Rankings) -> float:
    begun = here().now
    await asyncio.gather(*(rankings.campaign(number, *DAYS) for number in range(1, 101)))
    return here().now - begun


async def cancel_one(rankings: Rankings, chance: random.Random) -> None:
    """Begin a report or a pull, and cancel it at a given moment."""
    work: asyncio.Future[Any]
    if chance.random() < 0.5:
        work = asyncio.ensure_future(rankings.campaign(1, *DAYS).fetch_all())
    else:
        work = asyncio.ensure_future(pulled_ids(rankings, chance.sample(range(1, 400), 5)))
    for _ in range(chance.randint(0, 60)):
        await asyncio.sleep(0)
    await asyncio.sleep(chance.choice([0, 0.001, 0.01, 0.05]) * chance.random())
    cancelled_at = here().now
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
    assert here().now == cancelled_at


async def pulled_ids(rankings: Rankings, ids: list[int]) -> Any:
    return await rankings.pull(ids, *DAYS)


@pytest.mark.virtual
async def test_after_hundreds_of_cancels_calls_go_at_full_speed() -> None:
    chance = random.Random(21)
    failing = 0.0

    def answer(request: ApiRequest) -> Any:
        return 500 if chance.random() < failing else report_page([1], 1, 1)

    async with rankings_of(SimulatedService(says=answer)) as (_, rankings):
        await seconds_of_100_reports(rankings)
        before = await seconds_of_100_reports(rankings)
        failing = 0.05
        for _ in range(75):
            await asyncio.gather(*(cancel_one(rankings, chance) for _ in range(4)))
        failing = 0.0
        after = await seconds_of_100_reports(rankings)
    assert after < 1.2 * before
