"""Fault injection: the requests that meet a fault, and the replacements of their responses."""

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
from attrs.validators import optional

from seorep_async.sandbox.account import mix
from seorep_async.sandbox.options import integer

KINDS = (
    "resets", "cut", "hang", "slow", "closes", "empty", "html", "malformed", "errors", "redirects", "garbage",
)  # fmt: skip

_STATUS = re.compile("[45][0-9]{2}s")
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(%?)")
_SALT = 0x0FA017


@frozen
class Faults:
    """Which faults happen, and how often.

    Attributes:
        shares: the share of requests (0 to 1) that each kind of fault meets; together at most 1.
        seed: chooses which requests; the sandbox's own seed unless given.

    Raises:
        ValueError: there is no such kind, or a share is out of its range.
    """

    shares: Mapping[str, float] = field(factory=dict)
    seed: int | None = field(default=None, validator=optional(integer()))

    def __attrs_post_init__(self) -> None:
        for kind, share in self.shares.items():
            if kind not in KINDS and not _STATUS.fullmatch(kind):
                raise ValueError(
                    f"faults: there is no kind {kind!r}: use {', '.join(KINDS)}, or 400s to 599s"
                )
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise ValueError(
                    f"faults: the share of {kind} must be from 0 to 1 (0% to 100%), not {share!r}"
                )
        if (total := sum(self.shares.values())) > 1 + 1e-9:
            raise ValueError(
                f"faults: the shares must not add up to more than 100%: they are {total * 100:g}%"
            )

    @classmethod
    def parse(cls, string: str) -> Self:
        """Read faults from a string such as `resets=5%,500s=0.05,cut=2%,seed=7`; an empty one means none.

        Raises:
            ValueError: the string is not of this form.
        """
        values: dict[str, str] = {}
        for part in filter(None, (part.strip() for part in string.split(","))):
            name, equals, value = (one.strip() for one in part.partition("="))
            if not equals:
                raise ValueError(
                    f"faults: {part!r} is not of the form kind=share, such as resets=5%"
                )
            if name in values:
                raise ValueError(f"faults: {name} is given twice")
            values[name] = value
        seed = values.pop("seed", None)
        if seed is not None and not re.fullmatch("-?[0-9]{1,19}", seed):
            raise ValueError(f"faults: the seed must be an integer, not {seed!r}")
        shares = {kind: _read_share(kind, value) for kind, value in values.items()}
        return cls(shares, None if seed is None else int(seed))

    def draw(self, seed: int, number: int) -> str | None:
        """Return the kind of fault that meets a request, or None; `seed` is the sandbox's."""
        chance = mix(mix((seed if self.seed is None else self.seed) ^ _SALT) ^ number) / 2**64
        for kind, share in self.shares.items():
            chance -= share
            if chance < 0:
                return kind
        return None


def _read_share(kind: str, value: str) -> float:
    if not (parts := _SHARE.fullmatch(value)):
        raise ValueError(
            f"faults: the share of {kind} must be written like 5% or 0.05, not {value!r}"
        )
    return float(parts[1]) / (100 if parts[2] else 1)


_TICK_SECONDS = 0.05
_LINGER_0 = struct.pack("ii", 1, 0)
JSON_HEADERS = {"Content-Type": "application/json; charset=utf-8"}

HTML = b"<!DOCTYPE html><html><head><title>Sorry</title></head><body><h1>We will be back soon</h1></body></html>"
GARBAGE = b"\x16\x03\x01 220 mail.example ESMTP\r\n\r\n"
ERROR_IN_200 = msgspec.json.encode(
    {"status": "error", "code": 500, "results": {"messages": ["an injected fault"]}}
)
_INSTEAD: dict[str, dict[str, Any]] = {
    "empty": {"headers": JSON_HEADERS},
    "html": {"body": HTML, "headers": {"Content-Type": "text/html; charset=utf-8"}},
    "errors": {"body": ERROR_IN_200, "headers": JSON_HEADERS},
    "redirects": {"status": 302, "headers": {"Location": "http://elsewhere.example/"}},
}
"""The responses that take the place of others, as arguments of `web.Response`."""


class RawResponse(web.Response):
    """A response written to the connection as raw bytes; its status is 0 if the caller saw none."""

    async def prepare(self, request: web.BaseRequest) -> None:
        """Tell aiohttp that the connection is lost."""
        raise ConnectionResetError("an injected fault")


async def inject_fault(
    kind: str, response: web.Response, connection: asyncio.Transport
) -> web.Response:
    """Return the replacement of a response; the guide "testing" lists the kinds."""
    body = response.body if isinstance(response.body, bytes) else b""
    half = body[: len(body) // 2]
    if kind == "malformed":
        return web.Response(
            body=half or b"{", status=response.status if body else 200, headers=JSON_HEADERS
        )
    if kind in _INSTEAD:
        return web.Response(**_INSTEAD[kind])
    head = _head(response, len(body))
    cut = head + half if body else head[: len(head) // 2]
    sent = {"cut": cut, "garbage": GARBAGE, "resets": b"", "hang": b""}.get(kind, head + body)
    if kind == "resets":
        connection.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0
        )
        connection.abort()
    elif kind == "hang":
        while not connection.is_closing():  # noqa: ASYNC110, aiohttp has no event for a caller that hung up
            await asyncio.sleep(_TICK_SECONDS)
    elif kind == "slow":
        for byte in sent:
            connection.write(bytes([byte]))
            await asyncio.sleep(_TICK_SECONDS)
            if connection.is_closing():
                break
    else:
        connection.write(sent)
        connection.close()
    return RawResponse(status=response.status if sent.startswith(head) else 0)


def _head(response: web.Response, length: int) -> bytes:
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    if response.status != 204:
        headers = {**response.headers, "Content-Length": str(length)}
        lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()
