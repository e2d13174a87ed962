"""A service on a real local port that answers by a script: a function of what was asked, free to misbehave or wait."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl

import attrs
from aiohttp import web
from aiohttp.test_utils import TestServer

from seorep_async import Listing, SeoRepClient, Settings
from seorep_async.session import Clock as ClientClock

LEFT_OUT: Any = object()


@attrs.frozen
class Asked:
    """One request, as it arrived."""

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
        return int(pairs["campaign_id"] if "campaign_id" in pairs else pairs["keyword_id"])


Script = Callable[[Asked], Any]


class Service:
    """What arrived at the server, and what can be waited for there."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.asked: list[Asked] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._arrived = asyncio.Condition()

    @property
    def pages(self) -> list[int]:
        """The pages that were asked for, in the order of arrival."""
        return [asked.page for asked in self.asked]

    async def arrival(self, reached: Callable[["Service"], bool]) -> None:
        """Wait for a request after which `reached` holds."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: reached(self))

    async def answer(self, request: web.Request) -> web.Response:
        asked = Asked(request.path, request.raw_path.partition("?")[2])
        self.asked.append(asked)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            async with self._arrived:
                self._arrived.notify_all()
            answer = self._script(asked)
            if isinstance(answer, Awaitable):
                answer = await answer
        finally:
            self.in_flight -= 1
        if isinstance(answer, int):
            return web.Response(status=answer)
        status = 200
        if isinstance(answer, tuple):
            status, answer = answer
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return web.Response(status=status, body=io.BytesIO(body))


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
    """Return a client that tries everything twice at most, and waits for nothing in between."""

    with patch("seorep_async.session.clock.SYSTEM", (clock or Clock()).timing):
        return SeoRepClient(base_url, api_key, settings=Settings(**{"max_attempts": 2, "page_size": None, **settings}))


@asynccontextmanager
async def serving(
    script: Script, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[tuple[SeoRepClient, Service]]:
    """Serve a script, and open a quick client on it."""
    service = Service(script)
    application = web.Application()
    application.router.add_get("/{path:.*}", service.answer)
    async with (
        TestServer(application) as server,
        quick_client(str(server.make_url("")), clock=clock, **settings) as client,
    ):
        yield client, service


def sends() -> set[asyncio.Task[Any]]:
    """Return the tasks in which a client fetches pages ahead or pulls."""
    return _running("Session.send", "Crawl._work")


def tasks_of_ours() -> set[asyncio.Task[Any]]:
    """Return all tasks of a listing or a pull."""
    return _running("Session.send", "Crawl._work")


def _running(*names: str) -> set[asyncio.Task[Any]]:
    return {
        task
        for task in asyncio.all_tasks()
        if getattr(task.get_coro(), "__qualname__", "") in names
    }


@attrs.frozen
class Source:
    """Something that is listed page by page: how it is asked for, and how its items are numbered."""

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
        found = await self.ask(client)
        return [self.number(item) for item in (found.rows if self.is_feed else found)]


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
    """Return the script of a service that does everything right."""
    pages = max(1, -(-count // size))
    return lambda asked: source.envelope(numbers_on(asked.page, size, count), pages, count)
