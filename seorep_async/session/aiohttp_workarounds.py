"""Workarounds that rely on inner workings of aiohttp and asyncio.

Each names the version and the reason, and has a test that fails once it is no longer needed.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakSet

import aiohttp
from aiohttp import hdrs

from seorep_async.session.secrets import Authentication

READ_SIZE = 256 * 1024
"""Bytes that asyncio reads from a socket at once."""


def reuse_freed_memory() -> None:
    """Let glibc reuse the blocks that asyncio reads into (CPython 3.11 to 3.14).

    glibc maps and unmaps such blocks one by one until a larger one was freed once. asyncio allocates one for each read
    and then shortens it, which costs 20 microseconds a request.
    """
    bytes(2 * READ_SIZE)


class WireError(Exception):
    """Carries an error of aiohttp's past the handler that would resend the request (aiohttp 3.14).

    aiohttp resends GET, HEAD, PUT and DELETE once after these two errors, uncounted and with no switch to turn it off.
    The classes of our responses see them first; in a borrowed session, which has its own, a middleware does.
    """

    RESENT_AFTER = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)


class UnaskedResponse(aiohttp.ServerDisconnectedError):
    """A response came on an idle connection, so the next request was not sent there."""


class UsedConnections:
    """Connections that carried a request: a response that is there before the next one was meant for none.

    aiohttp would take it for the response to the next request (aiohttp 3.14). On a new connection, it is a refusal:
    an overloaded service may send one at once.
    """

    def __init__(self) -> None:
        self._protocols = WeakSet[aiohttp.client_proto.ResponseHandler]()

    def add(self, connection: aiohttp.connector.Connection) -> None:
        """Note that a request is sent, or raise if a response is there already."""
        protocol = connection.protocol
        if protocol is None:
            return
        if protocol not in self._protocols:
            self._protocols.add(protocol)
        elif len(protocol) > 0:  # the number of responses
            raise WireError(UnaskedResponse("the service sent a response to no request"))

    def watch(self, request: aiohttp.ClientRequest) -> None:
        """Do so as a request of a borrowed session is sent, which has its own class."""

        async def send(conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
            del request.send  # so that the class's is left, and no cycle
            self.add(conn)
            return await request.send(conn)

        request.send = send  # type: ignore[method-assign]  # of this request alone


def own_request(
    authentication: Authentication, used: UsedConnections
) -> type[aiohttp.ClientRequest]:
    """Return the class of our own sessions' requests, which get the key as they are sent.

    As a header of the session, aiohttp's trace configs, wrappers of it and the locals of its frames would hold the key.
    """

    class OwnRequest(aiohttp.ClientRequest):
        async def send(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
            used.add(connection)
            self.headers[hdrs.AUTHORIZATION] = authentication.header
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
    """The response to a write; ignores a body after a 204, which aiohttp takes for another response (aiohttp 3.14)."""

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        protocol = connection.protocol
        if protocol is not None:
            protocol.data_received = _BodyOf204(protocol.data_received)  # type: ignore[method-assign]  # of this connection alone
            if connection.transport is not None:
                connection.transport.set_protocol(protocol)  # uvloop looks the method up here only
        return await super().start(connection)


class _BodyOf204:
    """Drops the body of a 204 before it reaches the parser of a connection that is used once."""

    def __init__(self, parse: Callable[[bytes], None]) -> None:
        self._parse = parse
        self._head = b""
        self._is_204: bool | None = None

    def __call__(self, data: bytes) -> None:
        if self._is_204 is not None:
            if not self._is_204:
                self._parse(data)
            return
        self._head += data
        while (end := self._head.find(b"\r\n\r\n")) >= 0 and self._head[8:10] == b" 1":
            self._parse(self._head[: end + 4])
            self._head = self._head[end + 4 :]
        if end >= 0 or len(self._head) > READ_SIZE:
            self._is_204 = end >= 0 and self._head[8:13] == b" 204 "
            self._parse(self._head[: end + 4] if self._is_204 else self._head)
