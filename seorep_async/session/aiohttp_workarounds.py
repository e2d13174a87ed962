"""Workarounds that rely on internals of aiohttp and asyncio.

Each names the version and the reason, and has a test that fails when it is no longer needed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar

import aiohttp

READ_SIZE = 256 * 1024
"""The number of bytes that asyncio reads from a socket at once."""
_HEAD = re.compile(
    rb"(?>HTTP/\S+ +1\d\d.*?\n\r?\n)*+(?P<final>HTTP/(?!\S+ +1\d\d).*?\n\r?\n)", re.DOTALL
)
"""The head of a response, after any interim ones (1xx). Some servers end lines with LF alone.

`(?>…)` and `*+` never backtrack: otherwise, 24 interim heads would take 15 s.
"""
_STATUS_204 = re.compile(rb"HTTP/\S+ +204\b")


def reuse_freed_memory() -> None:
    """Let glibc reuse the blocks that asyncio reads into (CPython 3.11 to 3.14).

    asyncio allocates a block for each read and then shortens it. glibc maps and unmaps each of
    these blocks, which costs 20 microseconds per request. Freeing a larger block once makes glibc
    raise its threshold, and keep such blocks from then on. So one is allocated and freed here.
    """
    bytes(2 * READ_SIZE)  # freed at once


class WireError(Exception):
    """Carries an error of aiohttp past the handler that would resend the request (aiohttp 3.14).

    After the errors in `RESENT_AFTER`, aiohttp resends GET, HEAD, PUT and DELETE once. It doesn't
    count the resend, and no option turns it off. Our response classes catch the errors first. A
    borrowed session has its own classes, so a middleware catches them there.
    """

    RESENT_AFTER = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)


class UnaskedResponse(aiohttp.ServerDisconnectedError):
    """A response arrived before the request, which was therefore not sent."""


def refuse_unasked_response(connection: aiohttp.connector.Connection) -> None:
    """Raise a WireError if a response has arrived before the request is sent.

    aiohttp would take it for the response to the request (aiohttp 3.14).
    """
    protocol = connection.protocol
    if protocol is not None and len(protocol) > 0:  # the number of responses that have arrived
        raise WireError(UnaskedResponse("the service sent a response before the request"))


def check_before_sending(request: aiohttp.ClientRequest) -> list[asyncio.Transport | None]:
    """Let a request of a borrowed session call `refuse_unasked_response` before it is sent.

    Such a session does not use our request class, `OwnRequest`, which does this itself.

    Returns:
        A list that will contain the transport once the request is sent, for `abort`.
    """
    transports = []

    async def send(conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Check and record the connection, and send the request as usual."""
        # Uncovers the method of the class, which is called below. Besides, the request and this
        # function would otherwise keep each other alive.
        del request.send
        refuse_unasked_response(conn)
        mark_as_sent()
        transports.append(conn.transport)
        return await request.send(conn)

    request.send = send  # type: ignore[method-assign]  # of this request alone
    return transports


class Progress:
    """Records whether an attempt got a connection, and may therefore have reached the service.

    aiohttp doesn't say whether a timeout occurred before or after that (aiohttp 3.14).
    """

    __slots__ = ("is_sent",)

    def __init__(self) -> None:
        self.is_sent: bool = False


_progress: ContextVar[Progress | None] = ContextVar("seorep_async_progress", default=None)
"""The progress of the request that the current task sends, or None if nobody watches it."""


def watch_progress() -> Progress:
    """Return the progress of the request that this task sends next."""
    progress = Progress()
    _progress.set(progress)
    return progress


def mark_as_sent() -> None:
    """Record that the request of this task has a connection."""
    progress = _progress.get()
    if progress is not None:
        progress.is_sent = True


def own_request(
    secret_headers: Mapping[str, str], *, is_watched: bool
) -> type[aiohttp.ClientRequest]:
    """Return the request class of our own sessions. It adds secret headers only on sending.

    If the session had these headers, trace configs, wrappers of aiohttp, and tracebacks with the
    locals of its frames would show the key. With `is_watched`, a request also records its progress.
    """
    headers = tuple(secret_headers.items())

    class OwnRequest(aiohttp.ClientRequest):
        async def send(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
            """Check the connection, add the secret headers, and send the request as usual."""
            refuse_unasked_response(connection)
            for name, value in headers:
                self.headers[name] = value
            if is_watched:
                mark_as_sent()
            return await super().send(connection)

    return OwnRequest


def abort(transport: asyncio.Transport | None) -> None:
    """Close the connection of a response that nobody waits for any more.

    aiohttp would keep the socket of a TLS connection open until the server answers the closing
    handshake, or for 30 s if it hangs (aiohttp 3.14).
    """
    if transport is not None:
        transport.abort()


class OwnResponse(aiohttp.ClientResponse):
    """A response in our own sessions. It keeps aiohttp from sending its request again."""

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Read the head of the response. After any error, abort the connection.

        An error after which aiohttp would resend the request becomes a WireError.
        """
        try:
            return await super().start(connection)
        # GeneratorExit is not caught: the loop may be closed by then, and `abort` needs it.
        except (Exception, asyncio.CancelledError) as error:
            abort(connection.transport)
            if isinstance(error, WireError.RESENT_AFTER):
                raise WireError(error) from None
            raise


class WriteResponse(OwnResponse):
    """The response to a write. A body after a 204 is dropped.

    aiohttp would take that body for another response (aiohttp 3.14).
    """

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Let `_BodyOf204` receive the bytes of the connection, and read the head."""
        protocol = connection.protocol
        if protocol is not None:
            # replaced only for this connection
            receiver = _BodyOf204(protocol.data_received)
            protocol.data_received = receiver  # type: ignore[method-assign]
            if connection.transport is not None:
                # Only this makes uvloop look up the replaced method.
                connection.transport.set_protocol(protocol)
        return await super().start(connection)


class _BodyOf204:
    """Drops the body of a 204 before it reaches the parser. The connection is used only once."""

    def __init__(self, parse: Callable[[bytes], None]) -> None:
        self._parse = parse
        self._head = b""
        self._is_head_complete = False
        self._is_204 = False

    def __call__(self, data: bytes) -> None:
        """Hold received bytes back until the head is complete, then pass them to the parser."""
        if not self._is_head_complete:
            self._head += data
            head = _HEAD.match(self._head)
            # So far, there may be fewer than five bytes.
            is_http = self._head.startswith(b"HTTP/"[: len(self._head)])
            if head is None and is_http and len(self._head) < READ_SIZE:
                return
            # The parser reports anything that is not HTTP, and a head that is too long.
            self._is_head_complete = True
            data = self._head
            if head is not None and _STATUS_204.match(head["final"]):
                self._parse(head[0])  # without the body
                self._is_204 = True
        if not self._is_204:
            self._parse(data)
