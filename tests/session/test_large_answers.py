"""Large answers are decoded one at a time, in the loop or in a thread, and others keep running."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from seorep_async import ConnectionFailedError, DeadlineExceededError, DecodeError
from seorep_async.models.decoding import PageDecoder
from seorep_async.session import Deadline, Request, Session
from tests.session.calls import ConnectSession
from tests.session.scripted_server import answer

KIB = 1024
MIB = 1024 * KIB
LONG = 60.0  # seconds; a thread waits for as long only if a test fails


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


class Page(msgspec.Struct, PageDecoder[int]):
    """A decoder of pages, which returns the thread that it runs in."""

    is_documented: bool

    def __call__(self, body: bytes) -> int:
        return threading.get_ident()

    def documented(self, body: bytes) -> int | None:
        return threading.get_ident() if self.is_documented else None

    def odd(self, body: bytes) -> int:
        return threading.get_ident()


def record(body: bytes) -> int:
    """Decode like a list, and return the thread."""
    return threading.get_ident()


def request(decode: Callable[[bytes], Any], deadline: Deadline | None = None) -> Request[Any]:
    return Request("GET", "/v3/anything", decode, deadline=deadline)


@pytest.mark.parametrize(
    ("decode", "size", "in_loop"),
    [
        pytest.param(record, 60 * KIB, True, id="a small list"),
        pytest.param(record, 70 * KIB, False, id="a list"),
        pytest.param(Page(False), 60 * KIB, True, id="a small odd page"),
        pytest.param(Page(False), 70 * KIB, False, id="an odd page"),
        pytest.param(Page(True), 2000 * KIB, True, id="a documented page"),
        pytest.param(Page(True), 2100 * KIB, False, id="a large documented page"),
    ],
)
async def test_size_and_shape_decide_between_loop_and_thread(
    decode: Callable[[bytes], int], size: int, in_loop: bool, connect_session: ConnectSession
) -> None:
    session, _ = await connect_session(answer(b" " * size))
    thread = await session.send(request(decode))
    assert (thread == threading.get_ident()) is in_loop


async def test_a_huge_answer_is_complete_and_recorded(connect_session: ConnectSession) -> None:
    body = b"".join(b"%08d" % number for number in range(700_000))
    session, _ = await connect_session(answer(body))
    with session.observer.record_answers() as answers:
        assert await session.send(request(bytes)) == body
    assert [recorded.body for recorded in answers] == [body]


async def test_an_error_in_a_thread_is_the_error_of_the_answer(
    connect_session: ConnectSession,
) -> None:
    def refuse(body: bytes) -> None:
        raise DecodeError("in a thread")

    session, _ = await connect_session(answer(b" " * MIB))
    with pytest.raises(DecodeError, match="in a thread"):
        await session.send(request(refuse))


async def test_without_room_for_a_thread_the_loop_decodes(
    connect_session: ConnectSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    session, _ = await connect_session(answer(b" " * MIB))
    assert await session.send(request(record)) == threading.get_ident()


async def test_large_answers_at_once_are_decoded_iterations_apart(
    connect_session: ConnectSession,
) -> None:
    session, _ = await connect_session(forever=answer(b" " * (600 * KIB)), max_concurrency=8)

    class Beat(Page):
        def documented(self, body: bytes) -> int:
            return beat["count"]

    async with beating() as beat:
        iterations = await asyncio.gather(*(session.send(request(Beat(True))) for _ in range(8)))
    iterations.sort()
    assert all(later - earlier >= 3 for earlier, later in pairwise(iterations))


async def test_two_threads_never_decode_at_once(connect_session: ConnectSession) -> None:
    session, _ = await connect_session(forever=answer(b" " * MIB), max_concurrency=4)
    decoding = Counter[str]()

    def decode(body: bytes) -> int:
        decoding["now"] += 1
        at_once = decoding["now"]
        time.sleep(0.001)
        decoding["now"] -= 1
        return at_once

    assert await asyncio.gather(*(session.send(request(decode)) for _ in range(4))) == [1] * 4


# --- The end of a call that waits for its answer to be decoded


class BlockingDecoder:
    """A decoder that blocks its thread until it is released."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.go = threading.Event()

    def __call__(self, body: bytes) -> str:
        self.started.set()
        self.go.wait(LONG)
        return "decoded"

    async def started_in(self, session: Session) -> asyncio.Task[str]:
        """Return a call whose answer is being decoded."""
        call = asyncio.create_task(session.send(request(self)))
        await asyncio.to_thread(self.started.wait, LONG)
        return call


@pytest.fixture
def blocking() -> BlockingDecoder:
    return BlockingDecoder()


@pytest.fixture
async def session(connect_session: ConnectSession) -> Session:
    return (await connect_session(forever=answer(b" " * MIB)))[0]


async def test_a_thread_that_takes_too_long_ends_at_the_deadline(
    session: Session, blocking: BlockingDecoder
) -> None:
    deadline = Deadline.of_call(session.clock.monotonic() + 0.05)
    with pytest.raises(DeadlineExceededError):
        await session.send(request(blocking, deadline))
    blocking.go.set()
    assert await session.send(request(bytes)) == b" " * MIB


@pytest.mark.parametrize("decode", [bytes, Page(True)], ids=["a thread", "the loop"])
async def test_a_wait_for_another_thread_ends_at_the_deadline(
    decode: Callable[[bytes], Any], session: Session, blocking: BlockingDecoder
) -> None:
    first = await blocking.started_in(session)
    deadline = Deadline.of_call(session.clock.monotonic() + 0.05)
    with pytest.raises(DeadlineExceededError, match="not decoded in time"):
        await session.send(request(decode, deadline))
    blocking.go.set()
    assert await first == "decoded"


async def test_blocking_work_of_the_caller_delays_no_answer(session: Session) -> None:
    loop = asyncio.get_running_loop()
    blocked = threading.Event()
    blocking = [loop.run_in_executor(None, blocked.wait, LONG) for _ in range(64)]
    assert await session.send(request(bytes)) == b" " * MIB
    blocked.set()
    await asyncio.gather(*blocking)


async def test_closing_ends_calls_with_undecoded_responses(
    session: Session, blocking: BlockingDecoder
) -> None:
    first = await blocking.started_in(session)
    second = asyncio.create_task(session.send(request(bytes)))
    await asyncio.sleep(0.01)
    await session.__aexit__(None, None, None)
    ends = await asyncio.gather(first, second, return_exceptions=True)
    blocking.go.set()
    assert [type(end) for end in ends] == [ConnectionFailedError] * 2


@pytest.mark.parametrize(
    ("event", "error"), [("close", ConnectionFailedError), ("deadline", DeadlineExceededError)]
)
async def test_a_call_that_rests_ends_as_one_that_waits(
    event: str, error: type[Exception], connect_session: ConnectSession
) -> None:
    session, _ = await connect_session(forever=answer(b" " * (600 * KIB)), max_concurrency=8)
    events: list[asyncio.Task[None]] = []

    class EventfulPage(Page):
        def documented(self, body: bytes) -> int:
            during_rest = session.__aexit__() if event == "close" else session.clock.sleep(60)
            events.append(asyncio.create_task(during_rest))
            return 0

    deadline = Deadline.of_call(session.clock.monotonic() + 30)
    page = request(EventfulPage(True), deadline)
    calls = (session.send(page) for _ in range(8))
    ends = await asyncio.gather(*calls, return_exceptions=True)
    await asyncio.gather(*events)
    assert Counter(map(type, ends)) == {int: 1, error: 7}


async def test_a_cancelled_call_leaves_its_turn_to_the_next(
    session: Session, blocking: BlockingDecoder
) -> None:
    call = await blocking.started_in(session)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    blocking.go.set()
    assert await session.send(request(bytes)) == b" " * MIB
