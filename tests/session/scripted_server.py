"""A raw server that answers each request with a step of a script: bytes, or a misbehaviour."""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from multidict import CIMultiDict

_BACKLOG = 1024  # connections that wait to be accepted


class SeenRequest(NamedTuple):
    """A request as it came over the wire; `connection` is the number of its connection, from 1."""

    method: str
    target: str
    headers: CIMultiDict[str]
    body: bytes
    connection: int

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the target."""
        return dict(parse_qsl(urlsplit(self.target).query))


class Connection:
    """The server's end of a connection, for steps that misbehave."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        own = self.writer.get_extra_info("socket")
        if own.fileno() >= 0:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def until_closed(self) -> None:
        """Wait until the client has left, and ignore the rest of its data."""
        while await self.reader.read(65536):
            pass


Step: TypeAlias = bytes | Callable[[Connection], Awaitable[None]]


class ScriptedServer:
    """Plays one step of a script for each request, in the order in which all requests arrive.

    A request beyond the last step is answered by `forever`, or with status 418 and noted in
    `unexpected`. `port` is 0 for a free one. `requests` are those seen, `open_connections` those
    not closed yet.
    """

    def __init__(
        self,
        script: Iterable[Step] = (),
        *,
        forever: Step | None = None,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
    ) -> None:
        self._port = port
        self._script = list(script)
        self._forever = forever
        self._tls = tls
        self.requests: list[SeenRequest] = []
        self.unexpected: list[SeenRequest] = []
        self.connections = 0
        self.open_connections: set[Connection] = set()
        self.first_request = asyncio.Event()
        self._idle = asyncio.Condition()
        self._handlers: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self._port, ssl=self._tls, backlog=_BACKLOG
        )
        self.port: int = self._server.sockets[0].getsockname()[1]
        scheme = "https" if self._tls else "http"
        self.base_url = f"{scheme}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()

    async def until_no_connection(self) -> None:
        """Wait until every connection is closed. A test that waits in vain times out."""
        async with self._idle:
            await self._idle.wait_for(lambda: not self.open_connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.current_task()
        assert handler is not None
        self._handlers.add(handler)
        self.connections += 1
        number = self.connections
        connection = Connection(reader, writer)
        self.open_connections.add(connection)
        try:
            while not writer.is_closing():
                request = await _read_request(reader, number)
                if request is None:
                    break
                self.requests.append(request)
                self.first_request.set()
                step = self._next_step(request)
                if isinstance(step, bytes):
                    await connection.send(step)
                else:
                    await step(connection)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client left
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()
            self._handlers.discard(handler)
            self.open_connections.discard(connection)
            async with self._idle:
                self._idle.notify_all()

    def _next_step(self, request: SeenRequest) -> Step:
        if self._script:
            return self._script.pop(0)
        if self._forever is not None:
            return self._forever
        self.unexpected.append(request)
        return answer(b"the script is over", status=418)


async def _read_request(reader: asyncio.StreamReader, connection: int) -> SeenRequest | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, _, value = line.partition(":")
        headers.add(name, value.strip())
    body = await reader.readexactly(int(headers.get("Content-Length", "0")))
    return SeenRequest(method, target, headers, body, connection)


EMPTY_PAGE: dict[str, Any] = {"metadata": {"total_pages": 1, "total_records": 0}, "data": []}


def answer(
    body: bytes | dict[str, Any] = b"",
    *,
    status: int = 200,
    headers: Iterable[tuple[str, str]] = (),
    length: int = -1,
) -> bytes:
    """Return a complete answer that leaves the connection open.

    Args:
        body: the body, or what to send as JSON.
        length: the Content-Length to announce instead of the true one.
    """
    raw = json.dumps(body).encode() if isinstance(body, dict) else body
    announced = len(raw) if length < 0 else length
    lines = [f"HTTP/1.1 {status} Some Reason", f"Content-Length: {announced}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + raw


FINE = answer(EMPTY_PAGE)


async def reset(connection: Connection) -> None:
    """End the connection with a TCP reset."""
    connection.reset()


async def hang(connection: Connection) -> None:
    """Send nothing until the client leaves."""
    await connection.until_closed()


def then_close(raw: bytes) -> Step:
    """Send bytes and close the connection in order."""

    async def step(connection: Connection) -> None:
        await connection.send(raw)
        connection.close()

    return step


def then_hang(raw: bytes) -> Step:
    """Send bytes and then nothing more."""

    async def step(connection: Connection) -> None:
        await connection.send(raw)
        await hang(connection)

    return step


def drip(raw: bytes, interval: float = 0.05) -> Step:
    """Send one byte every `interval` seconds."""

    async def step(connection: Connection) -> None:
        for byte in raw:
            await connection.send(bytes([byte]))
            await asyncio.sleep(interval)

    return step


def pour(head: bytes, chunk: bytes, times: int) -> Step:
    """Send a head, and then the same chunk many times, so that the client runs in between."""

    async def step(connection: Connection) -> None:
        await connection.send(head)
        for _ in range(times):
            await connection.send(chunk)
            await asyncio.sleep(0)
        connection.close()

    return step
