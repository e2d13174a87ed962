"""A raw server with faults: it serves the campaigns and the campaign feed of a plan, and keeps a history."""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
import struct
import tempfile
import time
from collections import Counter
from email.utils import formatdate
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl

import attrs

from tests.faults.answers import Raw, as_json, cut, refusal, whole
from tests.faults.lies import Asked, page
from tests.faults.plan import CUTS, History, Limit, Outage, Plan, Seen

FEED = "/v3/resources/rankings/campaign"
CAMPAIGNS = "/v3/campaigns"

_LINGER_0 = struct.pack("ii", 1, 0)
_TICK = 0.05
_BACKLOG = 1024


@attrs.frozen
class _Request:
    method: str
    path: str
    query: dict[str, str]
    body: bytes

    @property
    def unit(self) -> int | None:
        return int(self.query["campaign_id"]) if "campaign_id" in self.query else None

    @property
    def page(self) -> int | None:
        return int(self.query["page"]) if "page" in self.query else None


class FaultServer:
    """Serves one plan on a free port, from entering to leaving.

    What meets a request is settled in this order: connection broken off before it is read -> outage -> key revoked ->
    rate limit -> fault of its unit -> fault by chance -> the page, or a lie about it.

    Args:
        plan: what to serve.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._draws = plan.draws()
        self._bucket = _Bucket(plan.limit) if plan.limit else None
        self._seen: list[Seen] = []
        self._windows: list[tuple[float, float]] = []
        self._outage: tuple[float, float] | None = None
        self._first_success: float | None = None
        self._served = 0
        self._reads: Counter[int] = Counter()
        self._connections = 0
        self._in_flight = self._most_in_flight = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._handlers: set[asyncio.Task[Any]] = set()
        self._pages = {
            (unit, number): as_json(page(plan, Asked(unit, number, first_time=True)))
            for unit in range(1, plan.units + 1 if plan.lie is None else 1)
            for number in range(1, plan.pages + 1)
        }

    async def __aenter__(self) -> FaultServer:
        self._tls = _context(self._plan.certificate) if self._plan.certificate else None
        await self._listen(0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def history(self, patience: float = 60.0) -> History:
        """Return what was seen so far, once no connection is open any more, or patience has ended."""
        for _ in range(int(patience / _TICK)):
            if not self._writers:
                break
            await asyncio.sleep(_TICK)
        return History(
            seen=tuple(self._seen),
            windows=tuple(self._windows),
            outage=self._outage,
            first_success=self._first_success,
            most_in_flight=self._most_in_flight,
            open_connections=len(self._writers),
        )

    async def _listen(self, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self._tls, backlog=_BACKLOG)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.current_task()
        assert handler is not None
        self._handlers.add(handler)
        self._writers.add(writer)
        self._connections += 1
        number = self._connections
        try:
            while not writer.is_closing() and (first := await reader.read(1)):
                self._in_flight += 1
                self._most_in_flight = max(self._most_in_flight, self._in_flight)
                try:
                    if not await self._meet(first, reader, writer, number):
                        break
                finally:
                    self._in_flight -= 1
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client left
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()
            self._writers.discard(writer)
            self._handlers.discard(handler)

    async def _meet(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> bool:
        """Deal with one request, and tell whether the connection goes on."""
        arrived, drawn = time.monotonic(), next(self._draws)
        if drawn == "reset unread":
            self._seen.append(Seen(arrived, connection, drawn))
            return _reset(writer)
        request = await _read(first, reader)
        fate, answer = self._settle(request, arrived, drawn)
        self._seen.append(Seen(arrived, connection, fate, request.method, request.unit, request.page, request.body))
        match answer:
            case "reset":
                return _reset(writer)
            case "hang":
                while await reader.read(65536):
                    pass
                return False
            case "closed":
                return False
        assert isinstance(answer, Raw)
        if self._plan.latency:
            await asyncio.sleep(self._plan.latency)
        if fate == "drip":
            for byte in answer.content:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(_TICK)
            return True
        writer.write(answer.content)
        await writer.drain()
        if fate == "served" and self._outage and self._first_success is None and time.monotonic() > self._outage[1]:
            self._first_success = time.monotonic()
        if fate == "closes":
            await self._close_and_listen_on(reader, writer, connection)
        return not answer.close and fate != "closes"

    def _settle(self, request: _Request, arrived: float, drawn: str | None) -> tuple[str, Raw | str]:
        """Return what meets a request: its fate, and an answer or a misbehaviour."""
        plan = self._plan
        if (outage := self._current_outage(arrived)) is not None:
            return "outage", refusal(503) if outage.kind == "503" else outage.kind.replace("refused", "reset")
        if plan.revoked_after is not None and self._served >= plan.revoked_after:
            return "revoked", refusal(403)
        if self._bucket is not None and not self._bucket.take(arrived):
            return "throttled", self._throttle()
        fault = plan.failing.get(request.unit or 0, drawn)
        if fault in ("reset", "hang", "closed"):
            return fault, fault
        if fault is not None and fault.isdigit():
            return fault, refusal(int(fault))
        body = self._body(request)
        if body is None:
            return "404", refusal(404)
        if fault in CUTS:
            return fault, cut(fault, body)
        self._served += 1
        return fault or "served", whole(body)

    def _body(self, request: _Request) -> bytes | None:
        plan, unit, number = self._plan, request.unit, request.page
        if request.path.startswith(CAMPAIGNS) and request.method != "GET":
            return as_json({"data": _campaign(1)})
        if number is None:
            return None
        if request.path == CAMPAIGNS:
            first = (number - 1) * plan.rows + 1
            ids = range(first, min(first + plan.rows, plan.units + 1))
            said = {"total_pages": -(-plan.units // plan.rows), "total_records": plan.units}
            return as_json({"metadata": said, "data": [_campaign(one) for one in ids]})
        if request.path != FEED or unit is None:
            return None
        if plan.bodies:
            return plan.bodies[unit]
        if not 1 <= unit <= plan.units:
            return None
        self._reads[unit] += number == 1
        if (made := self._pages.get((unit, number))) is not None:
            return made
        return as_json(page(plan, Asked(unit, number, first_time=self._reads[unit] <= 1)))

    def _throttle(self) -> Raw:
        limit = self._plan.limit
        assert limit is not None
        if limit.retry_after is None:
            return refusal(429)
        now, wall = time.monotonic(), time.time()
        named = math.floor(wall + limit.announced) if limit.retry_after == "date" else wall + limit.announced
        self._windows.append((now, now + named - wall))
        text = formatdate(named, usegmt=True) if limit.retry_after == "date" else str(limit.announced)
        return refusal(429, f"Retry-After: {text}")

    def _current_outage(self, now: float) -> Outage | None:
        outage = self._plan.outage
        if outage is None or self._served < outage.after:
            return None
        if self._outage is None:
            self._outage = (now, now + outage.seconds)
            if outage.kind == "refused":
                self._refuse(outage.seconds)
        return outage if now < self._outage[1] else None

    def _refuse(self, seconds: float) -> None:
        self._server.close()
        for writer in list(self._writers):
            _reset(writer)
        if seconds < math.inf:
            loop = asyncio.get_running_loop()
            loop.call_later(seconds, lambda: self._handlers.add(loop.create_task(self._listen(self.port))))

    async def _close_and_listen_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> None:
        """Close one direction, as careful servers do, and count what was under way in the other."""
        if self._tls is None:
            writer.write_eof()
            if first := await reader.read(1):
                self._seen.append(Seen(time.monotonic(), connection, "too late"))
                await _read(first, reader)


class _Bucket:
    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._tokens = float(limit.burst)
        self._filled_at = time.monotonic()

    def take(self, now: float) -> bool:
        gained = (now - self._filled_at) * self._limit.rate
        self._tokens = min(self._limit.burst, self._tokens + gained)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


async def _read(first: bytes, reader: asyncio.StreamReader) -> _Request:
    head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *headers = head.rstrip().split("\r\n")
    method, target, _ = line.split(" ")
    path, _, query = target.partition("?")
    lengths = [
        value for name, _, value in (header.partition(":") for header in headers) if name.lower() == "content-length"
    ]
    body = await reader.readexactly(int(lengths[0])) if lengths else b""
    return _Request(method, path, dict(parse_qsl(query)), body)


def _reset(writer: asyncio.StreamWriter) -> bool:
    with_socket = writer.get_extra_info("socket")
    if with_socket is not None and with_socket.fileno() >= 0:
        with_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
    writer.transport.abort()
    return False


def _campaign(one: int) -> dict[str, Any]:
    return {"id": one, "url": "example.com", "company": f"Example {one}"}


def _context(certificate: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context
