"""A plain HTTP caller. It shares no code with the client."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

from seorep_async import SeoRepClient, Settings
from seorep_async.sandbox import Sandbox

CAMPAIGN = "/v3/resources/rankings/campaign"
CAMPAIGN_BY_DATE = "/v3/resources/rankings/campaign/date"
KEYWORD_BY_DATE = "/v3/resources/rankings/keyword/date"

YEAR = {"start_date": "2022-01-01", "end_date": "2022-12-31"}
FEEDS: dict[str, dict[str, Any]] = {
    CAMPAIGN: {"campaign_id": 2, **YEAR},
    CAMPAIGN_BY_DATE: {"campaign_id": 2, **YEAR},
    KEYWORD_BY_DATE: {"keyword_id": 200_003, **YEAR},
}

CAMPAIGNS = "/v3/campaigns"
USERS = "/v3/users"
BACKLINKS = "/v3/backlinks"
LINKS = "/v3/resources/backlinks/manager/links"

# The values hold characters that each encoding must escape.
NEW_CAMPAIGN: dict[str, Any] = {
    "url": "https://wren.example",
    "company": "Wren & Søn",
    "scope": "page",
    "group_title": "Birds",
}
NEW_USER: dict[str, Any] = {
    "first_name": "Ida",
    "last_name": "Wren-Ånd",
    "username": "ida",
    "password": "p=canary&w rd",
    "email": "ida+1@wren.example",
    "role": "client",
    "email_credentials": "false",
}
NEW_BACKLINK: dict[str, Any] = {
    "campaign_id": 2,
    "title": "Ten wrens",
    "url": "https://birds.example/?a=1&b=ü",
    "status": "unpublished",
    "date_published": "2022-03-04",
    "link_type": "guest post",
    "target_anchor": "wrens",
    "target_url": "https://wren.example/all",
    "notes": "ask\nIda; 100%+",
}
NEW: dict[str, dict[str, Any]] = {
    CAMPAIGNS: NEW_CAMPAIGN,
    USERS: NEW_USER,
    BACKLINKS: NEW_BACKLINK,
}
CHANGES: dict[str, dict[str, Any]] = {
    CAMPAIGNS: {"company": "Wren=Group; 100%+", "group_title": "Songbirds"},
    USERS: {"last_name": "Wren", "username": "ida.wren", "role": "staff"},
    BACKLINKS: {"status": "published", "date_published": "2022-05-06", "notes": ""},
}


def basic(password: str, user: str = "") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


RIGHT_KEY = basic("sandbox")


def rows_of(page: dict[str, Any]) -> list[dict[str, Any]]:
    data = page["data"]
    rows: list[dict[str, Any]] = data if isinstance(data, list) else data["rows"]
    return rows


def totals_of(page: dict[str, Any]) -> Any:
    if isinstance(page["data"], list):
        return page["totals"]
    return page["data"]["totals"]


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Caller:
    def __init__(self, sandbox: Sandbox, session: aiohttp.ClientSession) -> None:
        self.sandbox = sandbox
        self.session = session

    async def send(
        self,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        method: str = "GET",
        authorization: str = RIGHT_KEY,
        body: Mapping[str, Any] | None = None,
    ) -> Reply:
        async with self.session.request(
            method,
            self.sandbox.base_url + path,
            params={name: str(value) for name, value in (query or {}).items()},
            headers={"Authorization": authorization},
            **(body or {}),
        ) as response:
            return Reply(response.status, response.headers, await response.read())

    async def get(self, path: str, **query: Any) -> dict[str, Any]:
        reply = await self.send(path, query)
        assert reply.status == 200, reply
        page: dict[str, Any] = reply.json()
        return page

    async def data(self, path: str, **query: Any) -> Any:
        return (await self.get(path, **query))["data"]

    async def count(self, path: str) -> int:
        """Return the number of records that a list has."""
        number: int = (await self.get(path))["metadata"]["total_records"]
        return number

    async def status(self, path: str, **query: Any) -> int:
        return (await self.send(path, query)).status

    async def feed(self, path: str, **query: Any) -> list[dict[str, Any]]:
        return rows_of(await self.get(path, **{"limit": 500, **FEEDS[path], **query}))


@asynccontextmanager
async def calling(**options: Any) -> AsyncIterator[Caller]:
    sandbox = Sandbox(**{"campaigns": 6, "keywords": 40, **options})
    async with sandbox, aiohttp.ClientSession() as session:
        yield Caller(sandbox, session)


@asynccontextmanager
async def client_of_sandbox(
    *, settings: Settings | None = None, account: str | None = None, **options: Any
) -> AsyncIterator[SeoRepClient]:
    """Open a client of a sandbox that has these options."""
    async with Sandbox(**options) as sandbox:
        base_url = sandbox.base_url
        key = sandbox.api_key
        async with SeoRepClient(base_url, key, settings=settings, account=account) as client:
            yield client


async def in_flight(call: Caller, number: int) -> None:
    """Wait until this number of requests is in flight."""
    while call.sandbox.stats.in_flight != number:  # noqa: ASYNC110, no event tells
        await asyncio.sleep(0.005)
