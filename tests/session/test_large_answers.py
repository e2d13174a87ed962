"""Large answers are decoded so that others on the event loop keep running."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from seorep_async import DeadlineExceededError, DecodeError
from seorep_async.session import Deadline, Request, Session
from tests.session.calls import ConnectSession
from tests.session.scripted_server import answer

HUGE = answer(b" " * (5 * 2**20))


@asynccontextmanager
async def beating() -> AsyncIterator[Counter[str]]:
    """Count the iterations of the loop."""
    beat = Counter[str]()

    async def run() -> None:
        while True:
            beat["count"] += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(run())
    yield beat
    task.cancel()


@pytest.fixture
async def session(connect_session: ConnectSession) -> Session:
    return (await connect_session(forever=HUGE))[0]


def request(decode: Any) -> Request[Any]:
    return Request("GET", "/v3/anything", decode)


@pytest.mark.parametrize("size", [670 * 1024, 5 * 2**20], ids=["500 rows", "huge"])
async def test_others_run_between_the_steps_of_an_answer(
    size: int, connect_session: ConnectSession
) -> None:
    session, _ = await connect_session(answer(b" " * size))
    async with beating() as beat:

        def steps(body: bytes) -> Generator[None, None, list[int]]:
            seen = [beat["count"]]
            for _ in range(5):
                yield
                seen.append(beat["count"])
            return seen

        seen = await session.send(request(steps))
    assert len(seen) == len(set(seen)) == 6


async def test_a_huge_answer_comes_whole_and_is_recorded(connect_session: ConnectSession) -> None:
    body = b"".join(b"%08d" % number for number in range(700_000))
    session, _ = await connect_session(answer(body))
    with session.observer.record_answers() as answers:
        assert await session.send(request(bytes)) == body
    assert [one.body for one in answers] == [body]


async def test_a_step_may_ask_for_a_thread(session: Session) -> None:
    def steps(body: bytes) -> Generator[bool, None, list[int]]:
        threads = [threading.get_ident()]
        yield True
        return [*threads, threading.get_ident()]

    first, then = await session.send(request(steps))
    assert first == threading.get_ident() != then


async def test_an_error_in_a_later_step_is_the_error_of_the_answer(session: Session) -> None:
    def steps(body: bytes) -> Generator[None, None, None]:
        yield
        raise DecodeError("in the second step")

    with pytest.raises(DecodeError, match="in the second step"):
        await session.send(request(steps))


async def test_large_answers_at_once_are_not_decoded_in_one_go(
    connect_session: ConnectSession,
) -> None:
    session, _ = await connect_session(forever=answer(b" " * (500 * 1024)), max_concurrency=8)
    async with beating() as beat:
        seen = await asyncio.gather(
            *(session.send(request(lambda body: beat["count"])) for _ in range(8))
        )
    assert len(set(seen)) == 8


async def test_a_huge_answer_is_not_decoded_past_the_call_s_deadline(session: Session) -> None:
    def endless(body: bytes) -> Generator[None, None, None]:
        while True:
            yield

    with pytest.raises(DeadlineExceededError):
        await session.send(
            msgspec.structs.replace(
                request(endless), deadline=Deadline.of_call(session.clock.monotonic() + 0.01)
            )
        )
