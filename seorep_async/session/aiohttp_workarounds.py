"""Workarounds that rely on inner workings of aiohttp and asyncio.

Each names the version and the reason, and has a test that fails once it is no longer needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from weakref import WeakSet

import aiohttp

READ_SIZE = 256 * 1024
"""Bytes that asyncio reads from a socket at once."""
_LONGEST_STATUS_LINE = 8190
"""Bytes; aiohttp refuses a longer line."""
_BLANK_LINE = re.compile(rb"\n\r?\n")
"""The end of a head; aiohttp also accepts lines that end with LF alone."""
_STATUS_LINE = re.compile(rb"HTTP/\d\.\d +(\d{3})[ \r\n]")


def reuse_freed_memory() -> None:
    """Let glibc reuse the blocks that asyncio reads into (CPython 3.11 to 3.14).

    glibc maps and unmaps such blocks one by one until a larger one was freed once. asyncio
    allocates one for each read and then shortens it, which costs 20 microseconds a request.
    """
    bytes(2 * READ_SIZE)


class WireError(Exception):
    """Carries an error of aiohttp's past the handler that would resend the request (aiohttp 3.14).

    aiohttp resends GET, HEAD, PUT and DELETE once after these two errors, uncounted and with no
    switch to turn it off. The classes of our responses see them first; in a borrowed session,
    which has its own, a middleware does.
    """

    RESENT_AFTER = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)


class UnaskedResponse(aiohttp.ServerDisconnectedError):
    """A response came on an idle connection, so the next request was not sent there."""


class UsedConnections:
    """Connections that carried a request before.

    A response that is there before the next request belongs to no request, and aiohttp would take
    it for the response to that one (aiohttp 3.14). On a new connection it is a refusal: an
    overloaded service may send one at once.
    """

    def __init__(self) -> None:
        self._protocols = WeakSet[aiohttp.client_proto.ResponseHandler]()

    def add(self, connection: aiohttp.connector.Connection) -> None:
        """Note that a request is about to be sent.

        Raises:
            WireError: a response is there already.
        """
        protocol = connection.protocol
        if protocol is None:
            return
        if protocol not in self._protocols:
            self._protocols.add(protocol)
        elif len(protocol) > 0:  # the number of responses
            raise WireError(UnaskedResponse("the service sent a response to no request"))

    def watch(self, request: aiohttp.ClientRequest) -> None:
        """Call `add` when a request of a borrowed session is sent, which has its own class."""

        async def send(conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
            del request.send  # so that the class's is left, and no cycle
            self.add(conn)
            mark_as_sent()
            return await request.send(conn)

        request.send = send  # type: ignore[method-assign]  # of this request alone


class Progress:
    """Whether an attempt had a connection, so that the service may have received a part of it.

    aiohttp does not say whether a time limit expired before that or after (aiohttp 3.14).
    """

    __slots__ = ("is_sent",)

    def __init__(self) -> None:
        self.is_sent: bool = False


_progress: ContextVar[Progress | None] = ContextVar("seorep_async_progress", default=None)


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
    """Return the class of our own sessions' requests, which get secret headers as they are sent.

    As headers of the session, aiohttp's trace configs, wrappers of it and the locals of its frames
    would hold the key. If it `is_watched`, a request also records its progress.
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
    """A response in our own sessions, whose request is sent once."""

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        try:
            return await super().start(connection)
        except WireError.RESENT_AFTER as error:
            raise WireError(error) from None


class WriteResponse(OwnResponse):
    """The response to a write, without the body that may follow a 204.

    aiohttp would take the body for another response (aiohttp 3.14).
    """

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        protocol = connection.protocol
        if protocol is not None:
            # of this connection alone
            protocol.data_received = _BodyOf204(protocol.data_received)  # type: ignore[method-assign]
            if connection.transport is not None:
                connection.transport.set_protocol(protocol)  # uvloop looks the method up here only
        return await super().start(connection)


class _BodyOf204:
    """Drops the body of a 204 before it reaches the parser of a connection that is used once."""

    def __init__(self, parse: Callable[[bytes], None]) -> None:
        self._parse = parse
        self._head = b""
        self._is_decided = False
        self._is_204 = False

    def __call__(self, data: bytes) -> None:
        if self._is_decided:
            if not self._is_204:
                self._parse(data)
            return
        self._head += data
        while not self._is_decided:
            status_line = _STATUS_LINE.match(self._head)
            if status_line is None:
                # either the line is not complete yet, or this is no HTTP, which the parser reports
                if b"\n" not in self._head and len(self._head) <= _LONGEST_STATUS_LINE:
                    return
                self._decide(is_204=False)
                return
            status = status_line[1]
            is_interim = status.startswith(b"1")
            if status != b"204" and not is_interim:
                self._decide(is_204=False)
                return
            end = _BLANK_LINE.search(self._head)
            if end is None:
                if len(self._head) > READ_SIZE:
                    self._decide(is_204=False)
                return
            rest = self._head[end.end() :]
            self._head = self._head[: end.end()]
            if is_interim:
                self._parse(self._head)
                self._head = rest
            else:
                self._decide(is_204=True)

    def _decide(self, *, is_204: bool) -> None:
        self._is_decided = True
        self._is_204 = is_204
        self._parse(self._head)
