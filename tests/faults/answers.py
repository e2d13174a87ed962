"""Ways to give less than the whole body, or another one, under status 200: for each a step in place of a body."""

from __future__ import annotations

import gzip
from collections.abc import Callable

from tests.session.scripted_server import Step, answer, then_close

HTML = b"<!DOCTYPE html><html><body><h1>We will be back soon</h1></body></html>"
GZIP = ("Content-Encoding", "gzip")
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TO_THE_END = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


def half(body: bytes) -> bytes:
    return body[: len(body) // 2]


def corrupt(packed: bytes) -> bytes:
    return half(packed) + b"\xff\xff\xff\xff" + packed[len(packed) // 2 + 4 :]


CUTS: dict[str, Callable[[bytes], Step]] = {
    "short length": lambda body: then_close(answer(half(body), length=len(body))),
    "cut chunk": lambda body: then_close(CHUNKED + b"%x\r\n" % len(body) + half(body)),
    "no last chunk": lambda body: then_close(CHUNKED + b"%x\r\n%s\r\n" % (len(half(body)), half(body))),
    "cut open end": lambda body: then_close(TO_THE_END + b"\r\n" + half(body)),
    "cut gzip": lambda body: then_close(TO_THE_END + b"Content-Encoding: gzip\r\n\r\n" + half(gzip.compress(body))),
    "corrupt gzip": lambda body: answer(corrupt(gzip.compress(body)), headers=[GZIP]),
    "empty": lambda body: answer(b""),
    "HTML": lambda body: answer(HTML),
    "half JSON": lambda body: answer(half(body)),
    "BOM": lambda body: answer(b"\xef\xbb\xbf" + body),
}
