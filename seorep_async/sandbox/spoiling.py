"""How a fault is brought about on a real connection, once the answer that it spoils is there."""

import asyncio
import socket
import struct
from http import HTTPStatus

import msgspec
from aiohttp import web

_TICK_SECONDS = 0.05
_LINGER_0 = struct.pack("ii", 1, 0)
_JSON = {"Content-Type": "application/json; charset=utf-8"}

HTML = b"<!DOCTYPE html><html><head><title>Sorry</title></head><body><h1>We will be back soon</h1></body></html>"
GARBAGE = b"\x16\x03\x01 220 mail.example ESMTP\r\n\r\n"
ERROR_IN_200 = msgspec.json.encode(
    {"status": "error", "code": 500, "results": {"messages": ["a fault that was asked for"]}}
)


class Spoilt(web.Response):
    """An answer that went onto the connection as raw bytes already; nothing more can be sent there.

    Args:
        status: the status that the caller saw, None if it saw none.
        body: the part of the body that was sent.
    """

    def __init__(self, status: int | None = None, body: bytes = b"") -> None:
        super().__init__(body=body, status=status or 500)
        self.answered = status is not None

    async def prepare(self, request: web.BaseRequest) -> None:
        """Tell aiohttp that the connection is lost."""
        raise ConnectionResetError("a fault that was asked for")


async def spoil(kind: str, answer: web.Response, connection: asyncio.Transport) -> web.Response:
    """Return what stands in for an answer; see `faults` for the kinds."""
    body = answer.body if isinstance(answer.body, bytes) else b""
    head = _head(answer, len(body))
    half = body[: len(body) // 2]
    match kind:
        case "resets":
            connection.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
            connection.abort()
            return Spoilt()
        case "cut" if body:
            return _send(connection, head + half, Spoilt(answer.status, half))
        case "cut":
            return _send(connection, head[: len(head) // 2], Spoilt())
        case "closes":
            return _send(connection, head + body, Spoilt(answer.status, body))
        case "garbage":
            return _send(connection, GARBAGE, Spoilt())
        case "hang":
            await _wait_for_end(connection)
            return Spoilt()
        case "slow":
            for byte in head + body:
                connection.write(bytes([byte]))
                await asyncio.sleep(_TICK_SECONDS)
                if connection.is_closing():
                    break
            return _send(connection, b"", Spoilt(answer.status, body))
        case "empty":
            return web.Response(headers=_JSON)
        case "html":
            return web.Response(body=HTML, headers={"Content-Type": "text/html; charset=utf-8"})
        case "malformed":
            return web.Response(body=half or b"{", status=answer.status if body else 200, headers=_JSON)
        case "errors":
            return web.Response(body=ERROR_IN_200, headers=_JSON)
        case "redirects":
            return web.Response(status=302, headers={"Location": "http://elsewhere.example/"})
    raise AssertionError(kind)


def _send(connection: asyncio.Transport, content: bytes, spoilt: Spoilt) -> Spoilt:
    connection.write(content)
    connection.close()
    return spoilt


async def _wait_for_end(connection: asyncio.Transport) -> None:
    # No event tells that a caller hung up: aiohttp keeps that to itself.
    while not connection.is_closing():  # noqa: ASYNC110
        await asyncio.sleep(_TICK_SECONDS)


def _head(answer: web.Response, length: int) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    if answer.status != 204:
        headers = {**answer.headers, "Content-Length": str(length)}
        lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()
