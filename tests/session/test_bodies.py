"""Oversized, truncated or malformed responses never yield partial data or exhaust memory."""

import tracemalloc
import zlib

import pytest

from seorep_async import BodyTooLargeError, ConnectionFailedError, ProtocolError, TransportError
from tests.session.broken_answers import (
    BROKEN,
    CHUNKED,
    CLOSE_DELIMITED,
    DEFLATE,
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
    if kind is ProtocolError:
        assert error.status in (None, 200, 204)
        assert "400" not in str(error)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("br", b"\x0b\x02\x80[]\x03"),
        ("BR", b"\x0b\x02\x80[]\x03"),
        ("zstd", b"(\xb5/\xfd"),
        ("compress", b"\x1f\x9d\x90"),
        ("x-gzip", b"\x1f\x8b\x08"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_unrequested_encoding_is_not_retried(
    encoding: str, body: bytes, connect: Connect
) -> None:
    step = answer(body, headers=[("Content-Encoding", encoding)])
    client, _ = await connect(step, max_attempts=3)
    error = await failure(client, ProtocolError, match="a Content-Encoding that this client did")
    assert error.attempts == 1
    assert encoding.lower() in str(error).lower()


async def test_a_complete_answer_in_an_unknown_encoding_is_read(connect: Connect) -> None:
    client, _ = await connect(answer(PAGE, headers=[("Content-Encoding", "none such")]))
    assert (await ask(client)).total_records == 0


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(answer(GZIPPED, headers=[GZIP]), id="gzip"),
        pytest.param(answer(zlib.compress(PAGE), headers=[DEFLATE]), id="deflate"),
        pytest.param(answer(PAGE, headers=[("Content-Type", "text/html")]), id="called HTML"),
        pytest.param(
            CHUNKED + b"".join(chunk(PAGE[i : i + 1]) for i in range(len(PAGE))) + b"0\r\n\r\n",
            id="many chunks",
        ),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + FINE, id="100 first"),
        pytest.param(
            b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + FINE,
            id="102 and 103 first",
        ),
        pytest.param(then_close(CLOSE_DELIMITED + PAGE), id="close-delimited"),
        pytest.param(answer(PAGE.ljust(CAP)), id="just the limit"),
    ],
)
async def test_an_unusual_but_complete_answer_is_read(step: Step, connect: Connect) -> None:
    client, _ = await connect(step, max_body_bytes=CAP)
    assert (await ask(client)).total_records == 0


def bomb(size: int) -> bytes:
    """Return gzip data of zeros without its end. To be quick, it repeats its second megabyte."""
    packer = zlib.compressobj(9, wbits=31)
    megabytes = [packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2)]
    return megabytes[0] + megabytes[1] * (size // 2**20 - 1)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(pour(CLOSE_DELIMITED, bytes(65536), 16_000), id="plain"),
        pytest.param(pour(CHUNKED, chunk(bytes(65536)), 16_000), id="chunked"),
        pytest.param(then_hang(answer(b"{}", length=10**12)), id="announced"),
        pytest.param(then_close(b"HTTP/1.1 404 Not Found\r\n\r\n" + bytes(2**22)), id="error"),
        pytest.param(then_close(answer(bomb(128 * 2**20), headers=[GZIP])), id="gzip bomb"),
    ],
)
async def test_body_over_the_limit_is_an_error_in_bounded_memory(
    step: Step, connect: Connect
) -> None:
    cap = 2 * 2**20
    client, server = await connect(step, max_body_bytes=cap)
    tracemalloc.start()
    try:
        said = rf"the limit is {cap}; raise Settings\.max_body_bytes"
        error = await failure(client, BodyTooLargeError, match=said)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert error.attempts == 1
    assert client.stats.bytes_received <= cap + 256 * 1024
    assert peak < 3 * cap
    await server.until_no_connection()
