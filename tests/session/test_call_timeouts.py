"""`client.timeout`: a time limit for the calls of a context, and the reason why a call ran out of time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from seorep_async import (
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    OutcomeUnknownError,
    SeoRepClient,
    ServerError,
)
from seorep_async.session.flow_control.circuit_breaker import CircuitBreaker
from tests.session.calls import KEY, Connect, ask, failure
from tests.session.fake_time import FakeTime
from tests.session.scripted_server import FINE, Connection, answer, hang, reset

REFUSED = answer(status=503)


@pytest.mark.parametrize(
    ("limits", "settings"),
    [
        ([0.2, 0.2], {}),
        ([60, 0.2], {}),  # nested
        ([0.2, 60], {}),
        ([60, 60], {"call_timeout": 0.2}),
        ([0.2, 0.2], {"max_attempts": 1}),  # out of time counts before out of attempts
    ],
)
async def test_the_shortest_limit_ends_a_call(limits: list[float], settings: dict[str, Any], connect: Connect) -> None:
    client, _ = await connect(hang, **settings)
    with client.timeout(limits[0]), client.timeout(limits[1]), pytest.raises(DeadlineExceededError):
        await ask(client)


SLOW = {"backoff_initial": 50, "backoff_max": 50}


async def test_a_limit_ends_with_its_block(connect: Connect, fake_time: FakeTime) -> None:
    client, _ = await connect(*[answer(status=500)] * 3, FINE, **SLOW)
    with client.timeout(1):
        pass
    await ask(client)
    assert fake_time.slept == [50, 50, 50]


async def test_a_limit_is_of_each_call(connect: Connect) -> None:
    client, _ = await connect(*[answer(status=500), FINE] * 3, **SLOW)
    with client.timeout(60):
        for _ in range(3):
            await ask(client)


async def test_a_limit_holds_in_tasks_that_are_started_inside(connect: Connect) -> None:
    client, _ = await connect(hang)
    with client.timeout(0.2):
        task = asyncio.create_task(ask(client))
    with pytest.raises(DeadlineExceededError):
        await task


async def test_a_limit_is_of_its_client_only(connect: Connect) -> None:
    (limited, _), (client, _) = await connect(), await connect(answer(status=500), FINE, **SLOW)
    with limited.timeout(1):
        await ask(client)


async def test_a_generator_may_be_closed_in_another_context() -> None:
    client = SeoRepClient("https://api.example.com", KEY)

    async def numbers() -> AsyncGenerator[int, None]:
        with client.timeout(60), client.record_answers():
            yield 1

    generator = numbers()
    await asyncio.create_task(generator.__anext__())
    await generator.aclose()


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan, True, "2", None, 1e10])
def test_a_limit_that_is_no_positive_number_is_refused(seconds: Any) -> None:
    client = SeoRepClient("https://api.example.com", KEY)
    with pytest.raises(ConfigurationError, match="seconds must be a number above 0"):
        client.timeout(seconds)


Use = Callable[[SeoRepClient], Awaitable[object]]


async def everything(client: SeoRepClient) -> object:
    return await client.campaigns.list()


async def streamed(client: SeoRepClient) -> object:
    return [one async for one in client.campaigns.list()]


async def pulled(client: SeoRepClient) -> object:
    async with client.rankings.pull([1, 2, 3], "2023-01-01", "2023-01-31") as outcomes:
        errors = [outcome.error async for outcome in outcomes]
    assert len(errors) == 3
    assert all(isinstance(error, DeadlineExceededError) for error in errors)
    raise errors[0] or AssertionError


@pytest.mark.parametrize("use", [ask, everything, streamed, pulled])
@pytest.mark.parametrize(
    ("step", "cause"), [(REFUSED, ServerError), (answer(status=500), ServerError), (reset, ConnectionFailedError)]
)
async def test_the_last_failure_is_the_cause(use: Use, step: Any, cause: type[Exception], connect: Connect) -> None:
    client, _ = await connect(forever=step, max_attempts=100, backoff_initial=20, backoff_max=20)
    with client.timeout(30), pytest.raises(DeadlineExceededError) as caught:
        await use(client)
    assert isinstance(caught.value.__cause__, cause)


async def test_a_pull_ends_in_time_though_each_request_would_not(connect: Connect, fake_time: FakeTime) -> None:
    client, _ = await connect(forever=answer(status=500), max_attempts=100, backoff_initial=8, backoff_max=8)
    begun = fake_time.monotonic
    with client.timeout(20), pytest.raises(DeadlineExceededError):
        await pulled(client)
    assert fake_time.monotonic - begun < 120  # sleeps of several ids add up on this clock


async def test_a_page_that_is_not_asked_for_in_time_is_refused(connect: Connect, fake_time: FakeTime) -> None:
    pages = [{"data": [{"id": n, "url": "a", "company": "b"}], "metadata": {"total_pages": 9}} for n in range(9)]
    client, _ = await connect(*map(answer, pages), max_concurrency=1)

    async def read_slowly() -> None:
        async for _ in client.campaigns.list().pages():
            await fake_time.clock.sleep(15)

    with client.timeout(20), pytest.raises(DeadlineExceededError):
        await read_slowly()


async def test_a_post_that_may_have_happened_stays_unknown(connect: Connect) -> None:
    client, _ = await connect(hang)
    with client.timeout(2), pytest.raises(OutcomeUnknownError):
        await client.campaigns.create("https://example.com", "Example")


async def test_the_wait_for_a_permit_is_limited(connect: Connect) -> None:
    client, server = await connect(hang, max_concurrency=1)
    waiting = asyncio.create_task(ask(client))
    await server.first_request.wait()
    with client.timeout(0.2):
        error = await failure(client, DeadlineExceededError)
    waiting.cancel()
    assert error.attempts == 0


async def test_a_call_that_never_started_names_the_failure_of_others(connect: Connect) -> None:
    probing = asyncio.Event()

    async def probe(connection: Connection) -> None:
        probing.set()
        await connection.until_closed()

    client, _ = await connect(*[reset] * CircuitBreaker.ROW, probe, max_attempts=1)
    for _ in range(CircuitBreaker.ROW):
        await failure(client, ConnectionFailedError)
    waiting = asyncio.create_task(ask(client))
    await probing.wait()
    with client.timeout(0.2):
        error = await failure(client, DeadlineExceededError, match="other calls fail, too")
    waiting.cancel()
    assert error.attempts == 0
    assert isinstance(error.__cause__, ConnectionFailedError)
