"""Answers that are too large, cut short or something else: never partial, never unbounded."""

import tracemalloc
import zlib

import pytest

from seorep_async import BodyTooLargeError, ConnectionFailedError, DecodeError, ProtocolError, TransportError
from tests.session.broken_answers import (
    BROKEN,
    CHUNKED,
    CLOSE_DELIMITED,
    DEFLATE,
    GARBAGE,
    GZIP,
    GZIPPED,
    PAGE,
    chunk,
)
from tests.session.calls import Connect, ask, failure
from tests.session.scripted_server import FINE, Step, answer, pour, then_close, then_hang

CAP = 64 * 1024


@pytest.mark.parametrize(("step", "kind"), BROKEN.values(), ids=BROKEN)
async def test_broken_answer_is_an_error_after_all_attempts(
    step: Step, kind: type[TransportError], connect: Connect
) -> None:
    client, _ = await connect(step, step, max_attempts=2)
    error = await failure(client, kind)
    assert isinstance(error, ConnectionFailedError | ProtocolError)
    assert error.attempts == (1 if "a header longer than" in str(error) else 2)
    assert "\n" not in str(error)


@pytest.mark.parametrize("raw", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_has_no_status(raw: bytes, connect: Connect) -> None:
    client, _ = await connect(then_close(raw), max_attempts=1)
    error = await failure(client, ProtocolError)
    assert error.status is None
    assert "400" not in f"{error} {error.message}"


@pytest.mark.parametrize(
    "headers",
    [[], [GZIP], [DEFLATE], [("Content-Type", "text/html")]],
    ids=["plain", "gzip", "deflate", "called HTML"],
)
async def test_whole_body_is_read_however_it_is_packed(headers: list[tuple[str, str]], connect: Connect) -> None:
    packed = {"gzip": GZIPPED, "deflate": zlib.compress(PAGE)}.get(dict(headers).get("Content-Encoding", ""), PAGE)
    client, _ = await connect(answer(packed, headers=headers))
    assert (await ask(client)).total_records == 0


@pytest.mark.parametrize(
    "raw",
    [
        CHUNKED + b"".join(chunk(PAGE[i : i + 1]) for i in range(len(PAGE))) + b"0\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + FINE,
        b"HTTP/1.1 100 Continue\r\n\r\n" + FINE,
    ],
    ids=["many chunks", "102 and 103 first", "100 first"],
)
async def test_unusual_but_whole_answer_is_read(raw: bytes, connect: Connect) -> None:
    client, _ = await connect(raw)
    assert (await ask(client)).total_records == 0


async def test_close_delimited_body_is_read_to_its_end(connect: Connect) -> None:
    client, _ = await connect(then_close(CLOSE_DELIMITED + PAGE))
    assert (await ask(client)).total_records == 0


def bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(bytes(2**20)) for _ in range(size // 2**20)) + packer.flush()


ENDLESS: dict[str, Step] = {
    "plain": pour(CLOSE_DELIMITED, bytes(65536), 16_000),
    "chunked": pour(CHUNKED, chunk(bytes(65536)), 16_000),
    "announced": then_hang(answer(b"{}", length=10**12)),
    "gzip bomb": then_close(answer(bomb(128 * 2**20), headers=[GZIP])),
}


@pytest.mark.parametrize("step", ENDLESS.values(), ids=ENDLESS)
async def test_body_over_the_limit_is_an_error_at_once(step: Step, connect: Connect) -> None:
    client, server = await connect(step, max_body_bytes=CAP)
    error = await failure(client, BodyTooLargeError, match=r"Settings\.max_body_bytes")
    assert error.attempts == 1
    assert client.stats.bytes_received <= CAP + 256 * 1024
    assert f"the limit is {CAP}" in error.message
    await server.until_no_connection()


@pytest.mark.parametrize("step", ENDLESS.values(), ids=ENDLESS)
async def test_body_over_the_limit_takes_bounded_memory(step: Step, connect: Connect) -> None:
    cap = 2 * 2**20
    client, _ = await connect(step, max_body_bytes=cap)
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLargeError):
            await ask(client)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * cap


async def test_body_of_just_the_limit_is_read(connect: Connect) -> None:
    client, _ = await connect(answer(PAGE.ljust(CAP)), max_body_bytes=CAP)
    assert (await ask(client)).total_records == 0


async def test_error_body_over_the_limit_is_bounded_too(connect: Connect) -> None:
    client, _ = await connect(then_close(b"HTTP/1.1 404 Not Found\r\n\r\n" + bytes(2 * CAP)), max_body_bytes=CAP)
    with pytest.raises(BodyTooLargeError):
        await ask(client)


@pytest.mark.parametrize(
    "body",
    [
        *(b"[]", b'"x"', b"null", b"0", b"{}", b'{"data": 1}', b'{"data": {}}', b'{"data": [1]}', b"[" * 10**5),
        rb'{"data": [{"company": "\ud800"}]}',
    ],
)
async def test_whole_body_that_is_wrong_is_not_asked_for_again(body: bytes, connect: Connect) -> None:
    client, _ = await connect(answer(body))
    error = await failure(client, DecodeError)
    assert error.attempts == 1
