"""A raw server with faults in a separate process.

It serves the campaign feed of a plan, and reports the requests that it saw.
"""

import asyncio
import json
import math
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import formatdate
from multiprocessing.connection import Connection as Pipe
from typing import Literal

import attrs

from tests.scripted_api import FEED
from tests.session.broken_answers import CUT, PAGE
from tests.session.scripted_server import (
    Connection,
    ScriptedServer,
    Step,
    answer,
    drip,
    hang,
    reset,
)
from tests.session.simulated_service import Limited

CUTS = {name: step for name, (step, _) in CUT.items()}
CUTS["half JSON"] = answer(PAGE[: len(PAGE) // 2])
"""Steps that send a part of a body, or another body, with status 200."""

LIGHT = {"reset": 0.05, "500": 0.05, "cut": 0.02}
"""The shares of row 1."""

_DECK = 400
_CUT = tuple(CUTS)
_PATIENCE = 60.0


@attrs.frozen
class Limit:
    """A token bucket of `rate` a second.

    With `retry_after`, the 429 of an excess request announces the seconds to wait.
    """

    rate: float
    burst: float
    retry_after: Literal["seconds", "date"] | None = None
    announced: int = 1

    def __str__(self) -> str:
        return f"{self.rate:g}/s,burst={self.burst:g}"


@attrs.frozen
class Outage:
    """Seconds in which nothing works, from the moment at which `after` requests were served.

    `refused`: nobody listens, and all connections are reset. `hang`: requests are read, and never
    answered.
    """

    kind: Literal["503", "refused", "hang", "reset"]
    after: int
    seconds: float


@attrs.frozen(kw_only=True)
class Plan:
    """The feed to serve, and its faults.

    A fault is a status from `400` to `599`, one of `CUTS`, `cut` (one of them by chance), `reset`
    (RST), `closed` (no answer), `hang`, `drip` (a byte every 50 ms), or `closes` (closed after the
    answer, unannounced).

    Attributes:
        units: campaigns, with the ids from 1 to this number.
        pages: pages of each campaign.
        rows: rows of each page.
        latency: seconds that every answer takes.
        faults: share (0 to 1) of the requests that meet each fault.
        seed: chooses the requests that meet a fault.
    """

    units: int = 20
    pages: int = 5
    rows: int = 2
    latency: float = 0.0
    faults: Mapping[str, float] = attrs.field(factory=dict)
    limit: Limit | None = None
    outage: Outage | None = None
    seed: int = 1

    @property
    def pages_needed(self) -> int:
        """Requests that a client needs if nothing goes wrong."""
        return self.units * self.pages

    def keywords(self, unit: int, page: int | None = None) -> range:
        """Return the ids of the rows of a unit, or of one of its pages.

        No two rows of all units have the same id.
        """
        first_id = unit * 100_000
        if page is None:
            return range(first_id, first_id + self.pages * self.rows)
        end = first_id + page * self.rows
        return range(end - self.rows, end)

    def page(self, unit: int, number: int) -> bytes:
        """Return the answer to a request for a page of a unit."""
        rows = self.keywords(unit, number)
        return json.dumps(FEED.envelope(rows, self.pages, self.pages * self.rows)).encode()

    def draws(self) -> Iterator[str | None]:
        """Yield the fault that meets the first, second, … request, or None.

        Faults are drawn like cards from a deck that holds each in its share. So the figures show
        the client's work and not the luck of a seed.
        """
        chance = random.Random(self.seed)
        deck: list[str | None] = []
        for kind, share in self.faults.items():
            deck += [kind] * round(share * _DECK)
        deck += [None] * (_DECK - len(deck))
        while True:
            chance.shuffle(deck)
            for card in deck:
                yield chance.choice(_CUT) if card == "cut" else card


@attrs.frozen
class Seen:
    """One request from the view of the server.

    `time` is on the machine's monotonic clock, which all processes share. `fate` is `served`, the
    fault that met it, `outage`, `throttled`, or `too late`: the request came on a connection that
    the server had closed already, and was not read.
    """

    time: float
    fate: str
    unit: int | None = None
    page: int | None = None


@attrs.define
class History:
    """The history of a server.

    It has the requests, the waits that the server announced, its outage, and the connections that
    were left open.
    """

    seen: list[Seen] = attrs.field(factory=list)
    windows: list[tuple[float, float]] = attrs.field(factory=list)
    outage: tuple[float, float] | None = None
    open_connections: int = 0

    @property
    def requests(self) -> int:
        return len(self.seen)

    @property
    def fates(self) -> Counter[str]:
        return Counter(seen.fate for seen in self.seen)

    @property
    def served(self) -> set[tuple[int | None, int | None]]:
        """The completely served units and pages."""
        return {(seen.unit, seen.page) for seen in self.seen if seen.fate in ("served", "closes")}

    def started_inside_windows(self, grace: float) -> int:
        """Count the requests in an announced wait.

        Those in its first seconds of grace were on their way already.
        """
        inside = [
            request
            for request in self.seen
            if any(begin + grace < request.time < end for begin, end in self.windows)
        ]
        return len(inside)


class FaultServer(ScriptedServer):
    """Serves a plan. Of its outage, rate limit and faults by chance, the first meets a request."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(forever=self._meet)
        self._plan = plan
        self._draws = plan.draws()
        self._bucket = Limited(str(plan.limit), clock=time.monotonic) if plan.limit else None
        self._history = History()
        self._served = 0

    async def history(self) -> History:
        """Return the history once all connections are closed, or after a time limit."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.until_no_connection(), _PATIENCE)
        self._history.open_connections = len(self.open_connections)
        return self._history

    async def _meet(self, connection: Connection) -> None:
        request = self.requests[-1]
        arrived = time.monotonic()
        unit = int(request.query["campaign_id"])
        page = int(request.query["page"])
        fate, step = self._settle(unit, page, arrived)
        self._history.seen.append(Seen(arrived, fate, unit, page))
        if step not in (reset, hang, _closed):
            await asyncio.sleep(self._plan.latency)
        if not isinstance(step, bytes):
            await step(connection)
            return
        await connection.send(step)
        if fate == "closes":
            await self._close_and_listen_on(connection)

    def _settle(self, unit: int, page: int, arrived: float) -> tuple[str, Step]:
        """Return the fate of a request, and its response."""
        outage = self._current_outage(arrived)
        if outage is not None:
            steps: dict[str, Step] = {"503": answer(status=503), "hang": hang}
            return "outage", steps.get(outage.kind, reset)
        if self._plan.limit and self._bucket and not self._bucket.take():
            return "throttled", self._throttle(self._plan.limit)
        fault = next(self._draws)
        if fault is not None and fault.isdigit():
            return fault, answer(status=int(fault))
        if fault in _MISBEHAVIOURS:
            return fault, _MISBEHAVIOURS[fault]
        self._served += 1
        whole = answer(self._plan.page(unit, page))
        if fault == "drip":
            return fault, drip(whole)
        return fault or "served", whole

    def _throttle(self, limit: Limit) -> bytes:
        if limit.retry_after is None:
            return answer(status=429)
        # A date has no fractions of a second, so the announced wait is shorter.
        wall_time = time.time()
        if limit.retry_after == "date":
            end = float(math.floor(wall_time + limit.announced))
            retry_after = formatdate(end, usegmt=True)
        else:
            end = wall_time + limit.announced
            retry_after = str(limit.announced)
        now = time.monotonic()
        self._history.windows.append((now, now + end - wall_time))
        return answer(status=429, headers=[("Retry-After", retry_after)])

    def _current_outage(self, now: float) -> Outage | None:
        outage = self._plan.outage
        if outage is None or self._served < outage.after:
            return None
        if self._history.outage is None:
            self._history.outage = (now, now + outage.seconds)
            if outage.kind == "refused":
                self.refuse(outage.seconds)
        return outage if now < self._history.outage[1] else None

    async def _close_and_listen_on(self, connection: Connection) -> None:
        """Close one direction, like careful servers, and count requests arriving in the other."""
        connection.writer.write_eof()
        if await connection.reader.read(1):
            self._history.seen.append(Seen(time.monotonic(), "too late"))
            await connection.reader.readuntil(b"\r\n\r\n")
        connection.close()


async def _closed(connection: Connection) -> None:
    connection.close()


_MISBEHAVIOURS: dict[str, Step] = {"reset": reset, "hang": hang, "closed": _closed, **CUTS}


@attrs.define
class Served:
    """A plan being served at an address. Its history exists at the end."""

    base_url: str
    history: History = attrs.field(factory=History)


class ServerProcess:
    """Serves one plan after the other, each on a server of its own."""

    def __init__(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._connection, far_end = spawn.Pipe()
        self._process = spawn.Process(target=_serve_plans, args=(far_end,), daemon=True)
        self._process.start()
        far_end.close()

    def close(self) -> None:
        self._connection.close()
        self._process.join(60)
        self._process.kill()
        self._process.close()

    @contextmanager
    def serving(self, plan: Plan) -> Iterator[Served]:
        """Serve a plan.

        The client must be closed by the end of the block, or its connections count as left open.
        """
        self._connection.send(plan)
        served = Served(self._connection.recv())
        try:
            yield served
        finally:
            self._connection.send(None)
            served.history = self._connection.recv()


def _serve_plans(connection: Pipe) -> None:
    with suppress(EOFError):  # no more plans
        while True:
            asyncio.run(_serve(connection, connection.recv()))


async def _serve(connection: Pipe, plan: Plan) -> None:
    async with FaultServer(plan) as server:
        connection.send(server.base_url)
        await asyncio.get_running_loop().run_in_executor(None, connection.recv)
        connection.send(await server.history())
