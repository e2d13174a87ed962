"""Listings, and services that answer as a script says: in virtual time, or on a socket.

The script is a function of the request. It returns an envelope, bytes or a status. In virtual time,
None is silence. On a socket, it may return a status with either, or an awaitable.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import attrs

from seorep_async import Listing, SeoRepClient, Settings
from tests.session.scripted_server import Connection, ScriptedServer, answer
from tests.session.simulated_service import ApiRequest as ApiRequest, SimulatedService, client_above

LEFT_OUT: Any = object()
Script = Callable[[ApiRequest], Any]
QUICK: dict[str, Any] = {"max_attempts": 2, "page_size": None}


@asynccontextmanager
async def simulating(
    script: Script, **settings: Any
) -> AsyncIterator[tuple[SeoRepClient, SimulatedService]]:
    """Open a client with at most two attempts, above a script in virtual time."""
    service = SimulatedService(says=script)
    async with client_above(service, **QUICK | settings) as client:
        yield client, service


@attrs.define
class Service:
    """The requests that arrived on a socket."""

    requests: list[ApiRequest] = attrs.field(factory=list)


def quick_client(base_url: str, **settings: Any) -> SeoRepClient:
    """Return a client with at most two attempts and hardly any wait between them."""
    options = QUICK | {"backoff_initial": 0.001} | settings
    return SeoRepClient(base_url, "canary-7", settings=Settings(**options))


@asynccontextmanager
async def serving(script: Script, **settings: Any) -> AsyncIterator[tuple[SeoRepClient, Service]]:
    """Serve a script on a socket, and open a quick client on it."""
    service = Service()

    async def respond(connection: Connection) -> None:
        # No other request can have arrived since this one.
        path, _, query = server.requests[-1].target.partition("?")
        service.requests.append(ApiRequest(path, query))
        response = script(service.requests[-1])
        if isinstance(response, Awaitable):
            response = await response
        await connection.send(_encoded(response))

    server = ScriptedServer(forever=respond)
    async with server, quick_client(server.base_url, **settings) as client:
        yield client, service


def _encoded(response: Any) -> bytes:
    status = 200
    if isinstance(response, int):
        return answer(status=response)
    if isinstance(response, tuple):
        status, response = response
    body = response if isinstance(response, bytes) else json.dumps(response).encode()
    return answer(body, status=status)


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
