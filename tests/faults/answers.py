"""Answers as bytes: whole ones, and one for each way to cut or replace a body."""

from __future__ import annotations

import gzip
import json
from typing import Any

import attrs

HTML = b"<!DOCTYPE html><html><body><h1>We will be back soon</h1></body></html>"


@attrs.frozen
class Raw:
    """What goes onto the wire.

    Attributes:
        content: the bytes.
        close: whether the connection ends after them.
    """

    content: bytes
    close: bool = False


def as_json(answer: Any) -> bytes:
    return json.dumps(answer).encode()


def whole(body: bytes, status: int = 200, *headers: str) -> Raw:
    """Return a whole answer that leaves the connection open."""
    return Raw(_head(status, f"Content-Length: {len(body)}", *headers) + body)


def refusal(status: int, *headers: str) -> Raw:
    """Return an answer that is no success."""
    return whole(
        as_json({"status": "error", "code": status, "message": "a fault that was asked for"}), status, *headers
    )


def cut(kind: str, body: bytes) -> Raw:
    """Return what stands in for a body; see `plan.CUTS`."""
    half = body[: len(body) // 2]
    match kind:
        case "short length":
            return Raw(_head(200, f"Content-Length: {len(body)}") + half, close=True)
        case "cut chunk":
            return Raw(_head(200, "Transfer-Encoding: chunked") + b"%x\r\n" % len(body) + half, close=True)
        case "no last chunk":
            return Raw(_head(200, "Transfer-Encoding: chunked") + b"%x\r\n%s\r\n" % (len(half), half), close=True)
        case "cut open end":
            return Raw(_head(200, "Connection: close") + half, close=True)
        case "cut gzip":
            packed = gzip.compress(body)
            return Raw(
                _head(200, "Connection: close", "Content-Encoding: gzip") + packed[: len(packed) // 2], close=True
            )
        case "corrupt gzip":
            packed = gzip.compress(body)
            middle = len(packed) // 2
            return whole(packed[:middle] + b"\xff\xff\xff\xff" + packed[middle + 4 :], 200, "Content-Encoding: gzip")
        case "empty":
            return whole(b"")
        case "HTML":
            return whole(HTML, 200)
        case "half JSON":
            return whole(half)
        case "BOM":
            return whole(b"\xef\xbb\xbf" + body)
    raise AssertionError(kind)


def _head(status: int, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Some Reason", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
