"""Workarounds that rely on internals of aiohttp and asyncio.

Each names the version and the reason, and has a test that fails when it is no longer needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from weakref import WeakSet

import aiohttp

READ_SIZE = 256 * 1024
"""The number of bytes that asyncio reads from a socket at once."""
_LONGEST_STATUS_LINE = 8190
"""The most bytes of a status line. aiohttp refuses a longer one."""
_BLANK_LINE = re.compile(rb"\n\r?\n")
"""The end of the headers. aiohttp also accepts lines that end with LF alone."""
_STATUS_LINE = re.compile(rb"HTTP/\d\.\d +(\d{3})[ \r\n]")


def reuse_freed_memory() -> None:
    """Let glibc reuse the blocks that asyncio reads into (CPython 3.11 to 3.14).

    asyncio allocates a block for each read and then shortens it. glibc maps and unmaps each of
    these blocks until a larger one has been freed, which costs 20 microseconds per request.
    """
    bytes(2 * READ_SIZE)


class WireError(Exception):
    """Carries an error of aiohttp past the handler that would resend the request (aiohttp 3.14).

    After these two errors, aiohttp resends GET, HEAD, PUT and DELETE once. It doesn't count the
    resend, and no option turns it off. Our response classes catch the errors first. A borrowed
    session has its own classes, so a middleware catches them there.
    """

    RESENT_AFTER = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)


class UnaskedResponse(aiohttp.ServerDisconnectedError):
    """A response arrived on an idle connection, so the next request was not sent there."""


class UsedConnections:
    """Connections that have carried a request.

    If a response arrives on one of them before the next request is sent, aiohttp takes it for
    the response to that request (aiohttp 3.14). On a new connection, such a response is a refusal:
    an overloaded service may send one at once.
    """

    def __init__(self) -> None:
        self._protocols = WeakSet[aiohttp.client_proto.ResponseHandler]()

    def add(self, connection: aiohttp.connector.Connection) -> None:
        """Record that a request is about to be sent.

        Raises:
            WireError: a response has already arrived.
        """
        protocol = connection.protocol
        if protocol is None:
            return
        if protocol not in self._protocols:
            self._protocols.add(protocol)
        elif len(protocol) > 0:  # the number of responses that have arrived
            raise WireError(UnaskedResponse("the service sent a response before the request"))

    def watch(self, request: aiohttp.ClientRequest) -> None:
        """Call `add` when a request is sent in a borrowed session, which has its own classes."""

        async def send(conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
            del request.send  # restores the method of the class, without a reference cycle
            self.add(conn)
            mark_as_sent()
            return await request.send(conn)

        request.send = send  # type: ignore[method-assign]  # of this request alone


class Progress:
    """Records whether an attempt got a connection, so that the service may have received it.

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
    secret_headers: Mapping[str, str], used: UsedConnections, *, is_watched: bool
) -> type[aiohttp.ClientRequest]:
    """Return the request class of our own sessions. It adds secret headers only on sending.

    Headers of a session would show the key to trace configs, to wrappers of aiohttp, and in the
    locals of its frames. With `is_watched`, a request also records its progress.
    """
    headers = tuple(secret_headers.items())

    class OwnRequest(aiohttp.ClientRequest):
        async def send(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
            used.add(connection)
            for name, value in headers:
                self.headers[name] = value
            if is_watched:
                mark_as_sent()
            return await super().send(connection)

    return OwnRequest


class OwnResponse(aiohttp.ClientResponse):
    """A response in our own sessions. Its request is sent only once."""

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        try:
            return await super().start(connection)
        except WireError.RESENT_AFTER as error:
            raise WireError(error) from None


class WriteResponse(OwnResponse):
    """The response to a write. A body after a 204 is dropped.

    aiohttp would take that body for another response (aiohttp 3.14).
    """

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
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
        self._is_decided = False
        self._is_204 = False

    def __call__(self, data: bytes) -> None:  # noqa: C901, PLR0912, a small parser
        if self._is_decided:
            if not self._is_204:
                self._parse(data)
            return
        self._head += data
        # For each head, interim ones (1xx) included:
        # 1. Its status line is incomplete: wait for more.
        # 2. It is not HTTP, or longer than any head should be: the parser reports it.
        # 3. Its status is neither 1xx nor 204: pass on this head and all that follows.
        # 4. It is incomplete: wait for more.
        # 5. It is interim: pass it on, and look at the next head.
        # 6. It has the status 204: pass it on, and drop all that follows.
        while True:
            status_line = _STATUS_LINE.match(self._head)
            if status_line is None:
                # Case 2 if true, otherwise case 1.
                if b"\n" in self._head or len(self._head) > _LONGEST_STATUS_LINE:
                    self._decide(is_204=False)
                return
            status = status_line[1]
            is_interim = status.startswith(b"1")
            if status != b"204" and not is_interim:  # case 3
                self._decide(is_204=False)
                return
            end = _BLANK_LINE.search(self._head)
            if end is None:
                if len(self._head) > READ_SIZE:  # case 2 if true, otherwise case 4
                    self._decide(is_204=False)
                return
            rest = self._head[end.end() :]
            self._head = self._head[: end.end()]
            if not is_interim:  # case 6 if true, otherwise case 5
                self._decide(is_204=True)
                return
            self._parse(self._head)
            self._head = rest

    def _decide(self, *, is_204: bool) -> None:
        """Pass on the head. Drop the bytes that follow a 204, and pass on all others."""
        self._is_decided = True
        self._is_204 = is_204
        self._parse(self._head)
