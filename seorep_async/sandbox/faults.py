"""Fault injection: choose the requests that fail, and replace their responses."""

import asyncio
import re
import socket
import struct
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Self

import msgspec
from aiohttp import web
from attrs import field, frozen

from seorep_async.sandbox.seeds import mix

FAULT_KINDS = (
    "resets",
    "cut",
    "hang",
    "slow",
    "closes",
    "empty",
    "html",
    "malformed",
    "errors",
    "redirects",
    "garbage",
)

_STATUS_KIND = re.compile("[45][0-9]{2}s")
_SALT = 0x0FA017


@frozen
class Faults:
    """The kinds of fault to inject, and how often.

    Attributes:
        shares: the share of requests (0 to 1) with each kind of fault.

    Raises:
        ValueError: a kind does not exist, or a share is out of range.
    """

    shares: Mapping[str, float] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for kind, share in self.shares.items():
            if kind not in FAULT_KINDS and not _STATUS_KIND.fullmatch(kind):
                kinds = ", ".join(FAULT_KINDS)
                raise ValueError(
                    f"faults: unknown kind {kind!r}; use {kinds}, or a status with an s, from 400s "
                    "to 599s"
                )
            if not 0 <= share <= 1:
                raise ValueError(
                    f"faults: the share of {kind} must be from 0 to 1 (0% to 100%), not {share!r}"
                )

    @classmethod
    def parse(cls, string: str) -> Self:
        """Read faults from a string such as `resets=5%,500s=0.05,cut=2%`.

        An empty string means no faults.

        Raises:
            ValueError: the string is not of this form.
        """
        shares = {}
        for part in string.split(","):
            kind, equals, share = part.strip().partition("=")
            kind = kind.strip()
            if not kind and not equals:
                continue  # nothing between two commas
            if not equals:
                raise ValueError(
                    f"faults: {kind!r} is not of the form kind=share, such as resets=5%"
                )
            if kind in shares:
                raise ValueError(f"faults: {kind} is given twice")
            shares[kind] = _read_share(kind, share.strip())
        return cls(shares)

    def draw(self, seed: int, number: int) -> str | None:
        """Return the kind of fault for the request with this number, or None."""
        # The kinds divide the range from 0 to 1 by their shares. The request's number picks a point
        # in it.
        chance = mix(mix(seed ^ _SALT) ^ number) / 2**64
        for kind, share in self.shares.items():
            chance -= share
            if chance < 0:
                return kind
        return None


def _read_share(kind: str, value: str) -> float:
    """Read a share such as 5% or 0.05."""
    try:
        if value.endswith("%"):
            return float(value[:-1]) / 100
        return float(value)
    except ValueError:
        raise ValueError(
            f"faults: the share of {kind} must be written like 5% or 0.05, not {value!r}"
        ) from None


JSON_HEADERS = {"Content-Type": "application/json; charset=utf-8"}
_SECONDS_PER_BYTE = 0.05
# SO_LINGER of 0 seconds: closing the socket resets its connection.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_HTML = (
    b"<!DOCTYPE html><html><head><title>Sorry</title></head>"
    b"<body><h1>We will be back soon</h1></body></html>"
)
_GARBAGE = b"\x16\x03\x01 220 mail.example ESMTP\r\n\r\n"
_ERROR_IN_200 = msgspec.json.encode(
    {"status": "error", "code": 500, "results": {"messages": ["an injected fault"]}}
)
_REPLACEMENTS: dict[str, dict[str, Any]] = {
    "empty": {"headers": JSON_HEADERS},
    "html": {"body": _HTML, "headers": {"Content-Type": "text/html; charset=utf-8"}},
    "errors": {"body": _ERROR_IN_200, "headers": JSON_HEADERS},
    "redirects": {"status": 302, "headers": {"Location": "http://elsewhere.example/"}},
}
"""The arguments of `web.Response` for replaced responses."""


class RawResponse(web.Response):
    """A response that was written to the connection as raw bytes, or not at all."""

    async def prepare(self, request: web.BaseRequest) -> None:
        """Tell aiohttp that the connection is lost, so that it writes nothing more."""
        raise ConnectionResetError("an injected fault")


async def inject_fault(
    kind: str, response: web.StreamResponse, connection: asyncio.Transport
) -> web.Response:
    """Return the replacement for a response. The guide "testing" lists the kinds."""
    if kind in _REPLACEMENTS:
        return web.Response(**_REPLACEMENTS[kind])
    body = b""
    if isinstance(response, web.Response) and isinstance(response.body, bytes):
        body = response.body
    if kind == "malformed":
        half_body = body[: len(body) // 2] or b"{"
        return web.Response(body=half_body, headers=JSON_HEADERS)
    if kind == "resets":
        connection.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
        )
        connection.abort()
        return RawResponse()
    if kind == "hang":
        return await _hang(connection)
    head = _head(response, len(body))
    if kind == "slow":
        await _write_slowly(head + body, connection)
        return RawResponse()
    connection.write(_last_bytes(kind, head, body))
    connection.close()
    return RawResponse()


def _last_bytes(kind: str, head: bytes, body: bytes) -> bytes:
    """Return the bytes after which the connection closes."""
    if kind == "garbage":
        return _GARBAGE
    if kind == "closes":
        return head + body
    # A response without a body is cut off within its head.
    if not body:
        return head[: len(head) // 2]
    return head + body[: len(body) // 2]


async def _hang(connection: asyncio.Transport) -> web.Response:
    # aiohttp has no event for a caller that hung up.
    while not connection.is_closing():  # noqa: ASYNC110
        await asyncio.sleep(_SECONDS_PER_BYTE)
    return RawResponse()


async def _write_slowly(response: bytes, connection: asyncio.Transport) -> None:
    for byte in response:
        connection.write(bytes([byte]))
        await asyncio.sleep(_SECONDS_PER_BYTE)
        if connection.is_closing():
            break


def _head(response: web.StreamResponse, length: int) -> bytes:
    """Return the bytes of the status line and the headers of a response."""
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    if response.status != 204:
        headers = {**response.headers, "Content-Length": str(length)}
        for name, value in headers.items():
            lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "", ""]).encode()
