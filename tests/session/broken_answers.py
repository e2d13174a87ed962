"""Broken and slow answers: the tables that tests of reads, writes and deadlines share."""

import gzip
import json
from typing import TypeAlias

from seorep_async import ConnectionFailedError, ProtocolError, TransportError
from tests.session.scripted_server import (
    EMPTY_PAGE,
    Step,
    answer,
    drip,
    hang,
    pour,
    reset,
    then_close,
    then_hang,
)

PAGE = json.dumps(EMPTY_PAGE).encode()
GZIPPED = gzip.compress(PAGE, mtime=0)
GZIP = ("Content-Encoding", "gzip")
DEFLATE = ("Content-Encoding", "deflate")
OK = b"HTTP/1.1 200 OK\r\n"
CLOSE_DELIMITED = OK + b"Connection: close\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

Broken: TypeAlias = dict[str, tuple[Step, type[TransportError]]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


CUT_CHUNK = CHUNKED + chunk(PAGE)[:-9]
CUT_GZIP = CLOSE_DELIMITED[:-2] + b"Content-Encoding: gzip\r\n\r\n" + GZIPPED[:-12]
CORRUPT_GZIP = GZIPPED[:12] + b"\xff\xff\xff" + GZIPPED[15:]
MAINTENANCE = b"<html>Down for maintenance</html>"

CUT: Broken = {
    "short Content-Length": (
        then_close(answer(PAGE[:-5], length=len(PAGE))),
        ConnectionFailedError,
    ),
    "cut within a chunk": (then_close(CUT_CHUNK), ConnectionFailedError),
    "no last chunk": (then_close(CHUNKED + chunk(PAGE)), ConnectionFailedError),
    "close-delimited, cut": (then_close(CLOSE_DELIMITED + PAGE[:-5]), ProtocolError),
    "close-delimited, nothing": (then_close(CLOSE_DELIMITED), ProtocolError),
    "gzip, cut and close-delimited": (then_close(CUT_GZIP), TransportError),
}
CUT |= {
    "gzip, cut by its length": (answer(GZIPPED[:-12], headers=[GZIP]), TransportError),
    "gzip, corrupt": (answer(CORRUPT_GZIP, headers=[GZIP]), TransportError),
    "gzip, wrong checksum": (answer(GZIPPED[:-8] + bytes(8), headers=[GZIP]), TransportError),
    "gzip announced, plain sent": (answer(PAGE, headers=[GZIP]), TransportError),
}
CUT |= {
    "empty": (answer(b""), ProtocolError),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", ProtocolError),
    "HTML": (answer(MAINTENANCE, headers=[("Content-Type", "text/html")]), ProtocolError),
}
"""Incomplete bodies with status 200."""

GARBAGE = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "bad status line": b"HTTP/1.1 abc OK\r\n\r\n",
    "length and chunks": OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": OK + b"Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}",
    "header of 20 KB": OK + b"X-Long: " + b"x" * 20_000 + b"\r\nContent-Length: 2\r\n\r\n{}",
    "200 headers": OK + b"X-Header: 1\r\n" * 200 + b"Content-Length: 2\r\n\r\n{}",
}
"""Bytes that are not HTTP, or HTTP that can't be trusted."""

BROKEN: Broken = {
    "reset": (reset, ConnectionFailedError),
    "closed": (then_close(b""), ConnectionFailedError),
    "head cut": (then_close(b"HTTP/1.1 20"), TransportError),
}
BROKEN |= CUT
BROKEN |= {name: (then_close(raw), ProtocolError) for name, raw in GARBAGE.items()}
"""Answers that may be complete the next time."""

SLOW: dict[str, Step] = {
    "silence": hang,
    "drip of headers": drip(answer(EMPTY_PAGE)),
    "drip of a body": drip(OK + b"Content-Length: 900\r\n\r\n" + bytes(900), 0.02),
    "headers that never end": then_hang(OK + b"X-A: 1\r\n"),
    "body that never ends": then_hang(answer(b"{", length=9)),
    "chunks that never end": then_hang(CHUNKED + b"1\r\n{\r\n"),
    "close that never comes": then_hang(OK + b"\r\n{}"),
    "endless 100 Continue": pour(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 10**9),
}
"""Answers that never end."""
