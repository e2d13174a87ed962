"""A raw server with faults, here or in a process of its own: it serves the campaign feed of a plan, with a history."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from multiprocessing.connection import Connection as Pipe
from types import TracebackType

from tests.faults.plan import CUTS, History, Outage, Plan, Seen
from tests.session.limiters import TokenBucket
from tests.session.scripted_server import Connection, ScriptedServer, Step, answer, drip, hang, reset

_PATIENCE = 60.0


class FaultServer:
    """Serves one plan on a free port, from entering to leaving.

    What meets a request is settled in this order: outage -> rate limit -> fault of its unit -> fault by chance -> the
    page.

    Args:
        plan: what to serve.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        tls = _context(plan.certificate) if plan.certificate else None
        self._server = ScriptedServer(forever=self._meet, tls=tls)
        self._draws = plan.draws()
        self._bucket = TokenBucket(plan.limit.rate, plan.limit.burst) if plan.limit else None
        self._seen: list[Seen] = []
        self._windows: list[tuple[float, float]] = []
        self._outage: tuple[float, float] | None = None
        self._first_success: float | None = None
        self._served = 0

    async def __aenter__(self) -> FaultServer:
        await self._server.__aenter__()
        self.base_url = self._server.base_url
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._server.__aexit__(kind, error, traceback)

    async def history(self) -> History:
        """Return what was seen so far, once no connection is open any more, or patience has ended."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._server.until_no_connection(), _PATIENCE)
        return History(
            seen=tuple(self._seen),
            windows=tuple(self._windows),
            outage=self._outage,
            first_success=self._first_success,
            open_connections=len(self._server.open_connections),
        )

    async def _meet(self, connection: Connection) -> None:
        request, arrived = self._server.requests[-1], time.monotonic()
        unit, page = int(request.query["campaign_id"]), int(request.query["page"])
        fate, step = self._settle(unit, page, arrived)
        self._seen.append(Seen(arrived, fate, unit, page))
        if step not in (reset, hang, _closed) and self._plan.latency:
            await asyncio.sleep(self._plan.latency)
        if not isinstance(step, bytes):
            await step(connection)
            return
        await connection.send(step)
        if fate == "served" and self._outage and self._first_success is None and time.monotonic() > self._outage[1]:
            self._first_success = time.monotonic()
        if fate == "closes":
            await self._close_and_listen_on(connection)

    def _settle(self, unit: int, page: int, arrived: float) -> tuple[str, Step]:
        """Return what meets a request: its fate, and how it is answered."""
        if (outage := self._current_outage(arrived)) is not None:
            steps: dict[str, Step] = {"503": answer(status=503), "hang": hang}
            return "outage", steps.get(outage.kind, reset)
        if self._bucket is not None and not self._bucket.take(arrived):
            return "throttled", self._throttle()
        fault = self._plan.failing.get(unit, next(self._draws))
        match fault:
            case "reset":
                return fault, reset
            case "hang":
                return fault, hang
            case "closed":
                return fault, _closed
            case str() if fault.isdigit():
                return fault, answer(status=int(fault))
        body = self._plan.page(unit, page)
        if fault in CUTS:
            return fault, CUTS[fault](body)
        self._served += 1
        return fault or "served", drip(answer(body)) if fault == "drip" else answer(body)

    def _throttle(self) -> bytes:
        limit = self._plan.limit
        assert limit is not None
        if limit.retry_after is None:
            return answer(status=429)
        now, wall = time.monotonic(), time.time()
        named = math.floor(wall + limit.announced) if limit.retry_after == "date" else wall + limit.announced
        self._windows.append((now, now + named - wall))
        text = formatdate(named, usegmt=True) if limit.retry_after == "date" else str(limit.announced)
        return answer(status=429, headers=[("Retry-After", text)])

    def _current_outage(self, now: float) -> Outage | None:
        outage = self._plan.outage
        if outage is None or self._served < outage.after:
            return None
        if self._outage is None:
            self._outage = (now, now + outage.seconds)
            if outage.kind == "refused":
                self._server.refuse(outage.seconds)
        return outage if now < self._outage[1] else None

    async def _close_and_listen_on(self, connection: Connection) -> None:
        """Close one direction, as careful servers do, and count what was under way in the other."""
        connection.writer.write_eof()
        if await connection.reader.read(1):
            self._seen.append(Seen(time.monotonic(), "too late"))
            await connection.reader.readuntil(b"\r\n\r\n")
        connection.close()


async def _closed(connection: Connection) -> None:
    connection.close()


def _context(certificate: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context


class Served:
    """A plan that is being served.

    Attributes:
        base_url: where.
        history: what the server saw; there once it is served no more.
    """

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.history: History


class ServerProcess:
    """Serves one plan after the other, each on a server of its own; started when it is first needed."""

    def __init__(self) -> None:
        self._process: multiprocessing.process.BaseProcess | None = None

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._connection.close()
            self._process.join(60)
            self._process.kill()
            self._process.close()

    @contextmanager
    def serving(self, plan: Plan) -> Iterator[Served]:
        """Serve a plan; by the end of the block the client must be closed, or its connections count as left open."""
        if self._process is None:
            spawn = multiprocessing.get_context("spawn")
            self._connection, far_end = spawn.Pipe()
            self._process = spawn.Process(target=_serve_plans, args=(far_end,), daemon=True)
            self._process.start()
            far_end.close()
        self._connection.send(plan)
        served = Served(self._connection.recv())
        try:
            yield served
        finally:
            self._connection.send(None)
            served.history = self._connection.recv()


def _serve_plans(connection: Pipe) -> None:
    try:
        while True:
            asyncio.run(_serve(connection, connection.recv()))
    except EOFError:
        pass  # no more plans


async def _serve(connection: Pipe, plan: Plan) -> None:
    async with FaultServer(plan) as server:
        connection.send(server.base_url)
        await asyncio.get_running_loop().run_in_executor(None, connection.recv)
        connection.send(await server.history())
