"""Shared limits in virtual time: the common pace and turns, and the statistics of each client."""

import asyncio
import copy
import itertools
import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest

from seorep_async import Limits, SeoRepClient, Settings
from seorep_async.errors import ConfigurationError, RateLimitedError
from seorep_async.session import Request, Session
from tests.session.simulated_service import SimulatedService, pull, session_above, simulate
from tests.session.virtual_loop import here, run

pytestmark = pytest.mark.virtual

PAUSE = 30.0


def page(subject: str = "campaign 1") -> Request[int]:
    return Request("GET", f"/{subject}", len, subject=subject)


@asynccontextmanager
async def sharing(
    service: SimulatedService, count: int, limits: Limits | None = None, **settings: Any
) -> AsyncIterator[list[Session]]:
    """Open clients that share limits."""
    limits = limits or Limits()
    async with AsyncExitStack() as stack:
        sessions = []
        for number in range(count):
            opening = session_above(service, number, limits=limits, **settings)
            sessions.append(await stack.enter_async_context(opening))
        yield sessions


async def turn() -> None:
    await asyncio.sleep(0.001)


# what is shared


@pytest.mark.parametrize(
    ("clients", "limiter", "retry_after"),
    [
        (10, "20/s", None),
        (10, "20/s", 1.0),
        (10, "20/s,burst=20", 1.0),
        (10, "20/s,fixed-window", None),
        (25, "100/s", 1.0),
        (10, "at-once=8", None),
    ],
)
def test_clients_that_share_are_as_fast_as_one(
    clients: int, limiter: str, retry_after: float | None
) -> None:
    def served(pages: int, **options: Any) -> Any:
        service = SimulatedService(limiter, latency=0.05, retry_after=retry_after)
        return simulate(service, pages, **options)

    alone = served(40 * clients)
    shared = served(40, clients=clients, limits=Limits())
    assert shared.lost == 0
    assert shared.started_in_a_wait == 0
    assert shared.refused <= 0.1
    assert shared.seconds <= 1.15 * alone.seconds
    assert shared.jain >= 0.99


async def test_an_outage_is_probed_once_for_all() -> None:
    service = SimulatedService(down=(0, 60), outage="refused")
    async with sharing(service, 10, max_attempts=100) as sessions:
        await asyncio.gather(*(session.send(page()) for session in sessions))
    assert sum(10 < moment < 60 for moment in service.started) <= 20


# turns


async def test_clients_take_turns_and_each_its_most_urgent_first() -> None:
    service = SimulatedService(latency=1.0)
    served: list[str] = []
    async with sharing(service, 3, Limits(max_concurrency=1)) as sessions:

        async def ask(number: int, priority: int) -> None:
            await sessions[number].send(Request("GET", "/", len, priority=priority))
            served.append(f"{number}:{priority}")

        requests = [(0, 5), (0, 4), (0, 3), (0, 2), (1, 9), (1, 8), (2, 7)]
        await asyncio.gather(*(ask(*request) for request in requests))
    assert served == ["0:5", "1:8", "2:7", "0:2", "1:9", "0:3", "0:4"]


# what each keeps


async def test_the_next_client_keeps_to_a_cap_after_a_probe() -> None:
    limits = Limits(requests_per_second=0.5)
    service = SimulatedService(down=(0, 60), outage="refused")
    for calls, seconds in [(20, 28.1), (1, 5)]:
        async with session_above(service, limits=limits) as session:
            for _ in range(calls):
                session.spawn(session.send(page()))
            await asyncio.sleep(seconds)
    gaps = [later - earlier for earlier, later in itertools.pairwise(service.started)]
    assert min(gaps) >= 1.97


async def test_each_client_has_its_own_figures() -> None:
    async with sharing(SimulatedService("5/s", latency=1.0), 2) as (busy, idle):
        await pull(busy, 8)
        asking = asyncio.create_task(busy.send(page()))
        await asyncio.sleep(0.1)
        assert busy.stats.in_flight == 1
        assert (idle.stats.requests, idle.stats.attempts, idle.stats.in_flight) == (0, 0, 0)
        assert idle.stats.waited == {}
        assert idle.stats.pace == busy.stats.pace is not None
        await asking


async def test_a_client_that_waits_less_long_fails_alone() -> None:
    service = SimulatedService("1/s", retry_after=PAUSE)
    limits = Limits()
    async with (
        session_above(service, 1, limits=limits, retry_after_max=10) as hasty,
        session_above(service, 2, limits=limits) as patient,
    ):
        await patient.send(page())
        calls = [
            asyncio.create_task(session.send(page()))
            for session in (patient, patient, hasty, hasty)
        ]
        ends = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(end) for end in ends] == [
        int,
        int,
        RateLimitedError,
        RateLimitedError,
    ]


# coming and going


def test_a_limit_is_known_to_later_clients_and_an_outage_is_not() -> None:
    service = SimulatedService("20/s", latency=0.05, down=(20, 1e9))
    limits = Limits()

    async def find() -> None:
        async with session_above(service, limits=limits, call_timeout=20) as session:
            await pull(session, 300)
            await asyncio.sleep(max(0.0, 21 - here().now))
            assert len(await pull(session, 40)) == 40
            assert session.share.only_probes

    async def know() -> None:
        here().now += 1e6
        later = SimulatedService("20/s", latency=0.05)
        async with session_above(later, limits=limits) as session:
            assert session.stats.pace is not None
            assert await pull(session, 100) == []
        assert here().now - 1e6 <= 1.5 * 100 / 20

    run(find())
    run(know())


# refused before anything is sent


def client_of(base_url: str = "https://api.example.com", **options: Any) -> SeoRepClient:
    return SeoRepClient(base_url, "key", **options)


async def test_clients_of_two_services_share_no_limits() -> None:
    limits = Limits()
    async with client_of(limits=limits), client_of("https://api.example.com/prefix", limits=limits):
        pass
    with pytest.raises(ConfigurationError, match="limits apply to one service: create others for"):
        await client_of("https://api.example.com:8443", limits=limits).open()


def test_clients_of_two_loops_share_no_limits_at_once() -> None:
    limits = Limits()
    first = client_of(limits=limits)
    second = client_of(limits=limits)

    async def fail() -> None:
        async with aiohttp.ClientSession() as closed:
            pass
        with pytest.raises(ConfigurationError, match="passed in is closed"):
            await client_of(limits=limits, session=closed).open()

    with asyncio.Runner() as first_loop, asyncio.Runner() as second_loop:
        first_loop.run(fail())  # which leaves them free
        second_loop.run(first.open())
        with pytest.raises(
            ConfigurationError, match="limits are in use in another event loop: close the"
        ):
            first_loop.run(second.open())
        second_loop.run(first.close())
        first_loop.run(second.open())
        first_loop.run(second.close())


@pytest.mark.parametrize("own", [16, 64])
def test_settings_show_the_shared_numbers(own: int) -> None:
    limits = Limits(max_concurrency=64, requests_per_second=5)
    client = client_of(limits=limits, settings=Settings(max_concurrency=own, call_timeout=7))
    assert client.settings == Settings(max_concurrency=64, requests_per_second=5, call_timeout=7)


@pytest.mark.parametrize("imitate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_limits_are_shown_but_neither_pickled_nor_copied(
    imitate: Callable[[object], object],
) -> None:
    limits = Limits(max_concurrency=4)
    assert repr(limits) == "Limits(max_concurrency=4, requests_per_second=None)"
    with pytest.raises(TypeError, match="they apply to one process; create some in each"):
        imitate(limits)
