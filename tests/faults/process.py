"""The fault server in a process of its own, so that it and the client under test do not disturb each other's timing."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from types import TracebackType

from tests.faults.plan import History, Plan
from tests.faults.server import FaultServer


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


def _serve_plans(connection: Connection) -> None:
    try:
        while True:
            asyncio.run(_serve(connection, connection.recv()))
    except EOFError:
        pass  # no more plans


async def _serve(connection: Connection, plan: Plan) -> None:
    async with FaultServer(plan) as server:
        connection.send(server.base_url)
        await asyncio.get_running_loop().run_in_executor(None, connection.recv)
        connection.send(await server.history())
