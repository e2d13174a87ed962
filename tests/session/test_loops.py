"""Late event loops, loops closed while a client is open, and forked processes."""

from __future__ import annotations

import asyncio

import pytest

from seorep_async import (
    ConfigurationError,
    Limits,
    RateLimitedError,
    SeoRepClient,
    Settings,
)
from seorep_async.session import Deadline
from seorep_async.session.failures import Cause, Failure, Sent
from seorep_async.session.flow_control import Permit
from tests.processes import run_python
from tests.session.calls import KEY, ask, failure_of


def new_client(limits: Limits | None) -> SeoRepClient:
    return SeoRepClient(
        "https://api.example.com", KEY, limits=limits, settings=Settings(max_concurrency=2)
    )


def left_open(limits: Limits | None) -> SeoRepClient:
    """Return a client whose loop was closed in a pause of an hour, with one attempt in flight."""
    client = new_client(limits)

    async def leave() -> None:
        await client.open()
        share = client._session.share
        in_flight = share.try_acquire(Deadline())
        refused = share.try_acquire(Deadline())
        assert in_flight
        assert refused
        client.waiting = [asyncio.ensure_future(ask(client)) for _ in range(2)]  # type: ignore[attr-defined]
        await asyncio.sleep(0.01)
        share.take_back(
            refused, Failure(Sent.RESPONDED, Cause.THROTTLE, RateLimitedError("no"), 3600.0)
        )

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # of tasks that were destroyed
    loop.run_until_complete(leave())
    loop.close()
    return client


def test_without_a_loop_of_asyncio_the_error_says_so() -> None:
    # Trio, too, runs coroutines without a loop of asyncio.
    with pytest.raises(ConfigurationError, match="with anyio, use its asyncio backend"):
        new_client(None).open().send(None)


def test_limits_are_free_again_once_their_loop_is_closed() -> None:
    limits = Limits(max_concurrency=2)
    dead = left_open(limits)

    async def use() -> None:
        async with new_client(limits) as client:
            share = client._session.share
            in_a_minute = Deadline.of_call(client._session.clock.monotonic() + 60)
            waiting = share.acquire(in_a_minute)
            error = await failure_of(waiting, RateLimitedError, "asked for a pause")
            assert error.retry_after == pytest.approx(3600, abs=60)
            await dead.close()
            assert share.in_flight == 0

    asyncio.run(use())


def test_an_attempt_of_a_closed_loop_wakes_no_other_loop() -> None:
    limits = Limits(max_concurrency=2, requests_per_second=0.5)
    dead = new_client(limits)

    async def leave() -> Permit:
        await dead.open()
        return await dead._session.share.acquire(Deadline())

    permit = asyncio.run(leave())

    async def use() -> None:
        async with new_client(limits) as client:
            waiting = asyncio.ensure_future(client._session.share.acquire(Deadline()))
            await asyncio.sleep(0)
            # as the garbage collector does in a thread without a loop
            await asyncio.to_thread(dead._session.share.take_back, permit)
            assert not waiting.done()
            waiting.cancel()

    asyncio.run(use())
    asyncio.run(dead.close())


@pytest.mark.parametrize("limits", [None, Limits(max_concurrency=2)])
def test_a_client_of_a_closed_loop_closes_quietly(limits: Limits | None) -> None:
    client = left_open(limits)
    asyncio.run(client.close())
    asyncio.run(client.close())
    with pytest.raises(ConfigurationError, match="closed"):
        asyncio.run(ask(client))


# Both processes would read from the same connections, and mix up reports.
FORKED_WITH_A_CLIENT = """
import asyncio, os
from seorep_async import SeoRepClient
loop = asyncio.new_event_loop()
client = SeoRepClient("https://api.example.com", "key")
loop.run_until_complete(client.open())
if not os.fork():
    loop.run_until_complete(client.campaigns.get(1))
os.wait()
loop.run_until_complete(client.close())
"""


def test_a_forked_process_may_not_use_the_client() -> None:
    run = run_python("-c", FORKED_WITH_A_CLIENT)
    assert "is open in the parent process: create another one" in run.stderr
    assert run.returncode == 0
