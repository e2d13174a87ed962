"""A service whose responses are a function of the request, on a scripted server.

The function may return an envelope, bytes, a status, a status with either, or an awaitable.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl, urlsplit

import attrs

from seorep_async import Listing, SeoRepClient, Settings
from seorep_async.session import Clock as ClientClock
from tests.session.scripted_server import Connection, ScriptedServer, answer

LEFT_OUT: Any = object()


@attrs.frozen
class ApiRequest:
    """One received request."""

    path: str
    query: str

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return parse_qsl(self.query, keep_blank_values=True, strict_parsing=True)

    @property
    def page(self) -> int:
        return int(dict(self.pairs)["page"])

    @property
    def id(self) -> int:
        pairs = dict(self.pairs)
        if "campaign_id" in pairs:
            return int(pairs["campaign_id"])
        return int(pairs["keyword_id"])


Script = Callable[[ApiRequest], Any]


class Service:
    """The requests that arrived at the server, and a way to wait for them."""

    def __init__(self, script: Script) -> None:
        self.requests: list[ApiRequest] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._script = script
        self._arrived = asyncio.Condition()

    @property
    def pages(self) -> list[int]:
        """The numbers of the requested pages, in the order of arrival."""
        return [request.page for request in self.requests]

    async def arrival(self, reached: Callable[["Service"], bool]) -> None:
        """Wait until `reached` is true after a request."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: reached(self))

    async def respond(self, target: str, connection: Connection) -> None:
        """Respond to a request, once the script has made the response."""
        address = urlsplit(target)
        request = ApiRequest(address.path, address.query)
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            async with self._arrived:
                self._arrived.notify_all()
            response = self._script(request)
            if isinstance(response, Awaitable):
                response = await _while_connected(response, connection)
        finally:
            self.in_flight -= 1
        await connection.send(_encoded(response))


async def _while_connected(response: Awaitable[Any], connection: Connection) -> Any:
    """Await a response, and cancel it when the client leaves."""
    responding = asyncio.ensure_future(response)
    leaving = asyncio.create_task(connection.until_closed())
    try:
        await asyncio.wait([responding, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not responding.done():
            raise ConnectionResetError("the client left")
        return responding.result()
    finally:
        responding.cancel()
        leaving.cancel()
        await asyncio.gather(responding, leaving, return_exceptions=True)


def _encoded(response: Any) -> bytes:
    status = 200
    if isinstance(response, int):
        return answer(status=response)
    if isinstance(response, tuple):
        status, response = response
    if isinstance(response, bytes):
        return answer(response, status=status)
    return answer(json.dumps(response).encode(), status=status)


class Clock:
    """A clock that only a test moves; nothing ever sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    @property
    def timing(self) -> ClientClock:
        return ClientClock(monotonic=lambda: self.now, sleep=self.sleep)


def quick_client(
    base_url: str, api_key: str = "canary-7", clock: Clock | None = None, **settings: Any
) -> SeoRepClient:
    """Return a client with at most two attempts and no waits between them."""

    with patch("seorep_async.session.clock.SYSTEM", (clock or Clock()).timing):
        return SeoRepClient(
            base_url,
            api_key,
            settings=Settings(**{"max_attempts": 2, "page_size": None, **settings}),
        )


@asynccontextmanager
async def serving(
    script: Script, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[tuple[SeoRepClient, Service]]:
    """Serve a script, and open a quick client on it."""
    service = Service(script)

    async def respond(connection: Connection) -> None:
        # No other request can have arrived since this one.
        request = server.requests[-1]
        await service.respond(request.target, connection)

    server = ScriptedServer(forever=respond)
    async with server, quick_client(server.base_url, clock=clock, **settings) as client:
        yield client, service


def our_tasks() -> set[asyncio.Task[Any]]:
    """Return the tasks in which a client fetches pages or pulls."""
    names = ("Session.send", "Crawl._work")
    return {
        task
        for task in asyncio.all_tasks()
        if getattr(task.get_coro(), "__qualname__", "") in names
    }


@attrs.frozen
class Source:
    """A listing: how it is requested, and how its items are numbered."""

    name: str
    ask: Callable[[SeoRepClient], Listing[Any, Any]]
    row: Callable[[int], dict[str, Any]]
    older_row: Callable[[int], dict[str, Any]]
    number: Callable[[Any], int]
    is_feed: bool = True

    def envelope(
        self,
        numbers: Iterable[int],
        pages: Any = LEFT_OUT,
        records: Any = LEFT_OUT,
        *,
        flat: bool = False,
        older: bool = False,
    ) -> dict[str, Any]:
        """Return the answer with these items on it."""
        rows = [(self.older_row if older else self.row)(number) for number in numbers]
        said = {"total_pages": pages, "total_records": records}
        metadata = {name: value for name, value in said.items() if value is not LEFT_OUT}
        if not self.is_feed:
            return {"metadata": metadata, "data": rows}
        if flat:
            return {"metadata": metadata | {"version": False}, "data": rows, "totals": False}
        return {"metadata": metadata, "data": {"totals": False, "rows": rows}}

    async def everything(self, client: SeoRepClient) -> list[int]:
        """Await the listing and return the numbers of its items."""
        result = await self.ask(client)
        items = result.rows if self.is_feed else result
        return [self.number(item) for item in items]


def _month(number: int) -> str:
    return f"{2000 + number // 12}-{number % 12 + 1:02}"


def _number_of_month(row: Any) -> int:
    number: int = (row.date.year - 2000) * 12 + row.date.month - 1
    return number


def _by_date(name: str, ask: Callable[[SeoRepClient], Listing[Any, Any]], **older: Any) -> Source:
    return Source(
        name=name,
        ask=ask,
        row=lambda number: {"date": _month(number), "engineARanking": number},
        older_row=lambda number: {
            "date": f"{_month(number)}-01",
            "engineARanking": number,
            **older,
        },
        number=_number_of_month,
    )


_SITE = {"url": "example.com", "company": "Example"}
_OLDER = {"keywordPhrase": "shoes", "lastResultsDate": "2023-01-31 00:00:00", "wmtClicks": 1}
_YEARS = ("2000-01-01", "2020-12-31")
LIST = Source(
    name="campaigns.list",
    ask=lambda client: client.campaigns.list(),
    row=lambda number: {"id": number, **_SITE},
    older_row=lambda number: {"id": number, **_SITE, "type": "real"},
    number=lambda campaign: campaign.id,
    is_feed=False,
)
FEED = Source(
    name="rankings.campaign",
    ask=lambda client: client.rankings.campaign(42, "2023-01-01", "2023-01-31"),
    row=lambda number: {
        "keywordId": number,
        "keywordPhrase": "shoes",
        "lastResultsDate": "2023-01-31",
    },
    older_row=lambda number: {"keywordId": number, **_OLDER},
    number=lambda row: row.keyword_id,
)
SOURCES = (
    LIST,
    FEED,
    _by_date(
        "rankings.campaign_by_date", lambda client: client.rankings.campaign_by_date(42, *_YEARS)
    ),
    _by_date(
        "rankings.keyword_by_date",
        lambda client: client.rankings.keyword_by_date(7, *_YEARS),
        backlinks=3,
    ),
)


def numbers_on(page: int, size: int, count: int) -> range:
    """Return the numbers, from 1, of the items on one page of a well-behaved listing."""
    return range((page - 1) * size + 1, min(page * size, count) + 1)


def well_behaved(source: Source, count: int, size: int) -> Script:
    """Return the script of a correct service."""
    pages = max(1, -(-count // size))
    return lambda request: source.envelope(numbers_on(request.page, size, count), pages, count)
