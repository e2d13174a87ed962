"""The sandbox: the chain that every request passes, the options, the listening and leaving.

The chain: count -> limit -> latency -> faults -> refusals as JSON, of a wrong key first -> operation. A request over
the limit is answered after the latency, too.
"""

import asyncio
import base64
import contextlib
import copy
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Self, get_args

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from attrs import Attribute, define, field

from seorep_async.sandbox.account import IDS_PER_CAMPAIGN, MOST_CAMPAIGNS, Account
from seorep_async.sandbox.faults import JSON_HEADERS, Faults, inject_fault
from seorep_async.sandbox.feeds import FEEDS
from seorep_async.sandbox.models import MODELS
from seorep_async.sandbox.options import integer, number, one_of, require
from seorep_async.sandbox.rate_limit import Limiter, RateLimit
from seorep_async.sandbox.request import (
    ApiRequest,
    LargeLimit,
    NoResponseError,
    Operation,
    Refusal,
    Rows,
    Service,
    Shape,
)

OPERATIONS: tuple[Operation, ...] = (
    *(operation for model in MODELS for operation in model.operations()),
    *(feed.operation() for feed in FEEDS),
)
_SHUTDOWN_SECONDS = 0.1
_BACKLOG = 1024
_LARGEST_BODY = 256 * 1024
_MOST_USERS = 100_000
_FEEDS = tuple(feed.name for feed in FEEDS)
_filled = require(
    "a string that is not empty", lambda value: isinstance(value, str) and value != "", shown=False
)


@define(kw_only=True)
class Stats:
    """The traffic since the sandbox started.

    Attributes:
        requests: requests that arrived, refused ones too.
        in_flight: requests being answered now.
        most_in_flight: the most that were ever being answered at once.
        per_operation: requests by method and path as the reference writes it (`GET /v3/campaigns/:id`); all others are
            "unknown".
        per_status: finished requests by status; those of which the caller saw no status are left out.
        faults: requests that met a fault, by its kind.
    """

    requests: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    per_operation: Counter[str] = field(factory=Counter)
    per_status: Counter[int] = field(factory=Counter)
    faults: Counter[str] = field(factory=Counter)


@define(eq=False)
class Chain:
    """What every request passes; it loses its sandbox on leaving, as aiohttp keeps it in a cache of handlers."""

    sandbox: "Sandbox"
    service: Service
    stats: Stats
    closing: asyncio.Event = field(init=False, factory=asyncio.Event)
    _limiter: Callable[[RateLimit], Limiter] = field(
        init=False, factory=lambda: lru_cache(1)(Limiter)
    )
    _numbers: "itertools.count[int]" = field(init=False, factory=lambda: itertools.count(1))

    def application(self) -> web.Application:
        chain = [self._count, self._apply_limit, self._wait, self._inject_faults, self._refuse]
        app = web.Application(middlewares=chain, client_max_size=_LARGEST_BODY)
        for operation in OPERATIONS:
            path = operation.path.replace(":id", "{id}")
            app.router.add_route(operation.method, path, partial(self._respond, operation))
        return app

    def forget(self) -> None:
        del self.sandbox, self.service

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.closing.wait(), seconds)

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        operation = (
            f"{request.method} {resource.canonical.replace('{id}', ':id')}"
            if resource
            else "unknown"
        )
        stats = self.stats
        stats.requests += 1
        stats.in_flight += 1
        stats.most_in_flight = max(stats.most_in_flight, stats.in_flight)
        stats.per_operation[operation] += 1
        try:
            response = await handler(request)
        finally:
            stats.in_flight -= 1
        if response.status:  # the caller saw one
            stats.per_status[response.status] += 1
        return response

    @web.middleware
    async def _apply_limit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        limit = self.sandbox.rate_limit
        if limit is None:
            return await handler(request)
        limiter = self._limiter(limit)
        if refusal := limiter.acquire():
            await self._pause(self.sandbox.latency)
            return _error(refusal)
        try:
            return await handler(request)
        finally:
            limiter.release()

    @web.middleware
    async def _wait(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        clock = asyncio.get_running_loop().time
        started = clock()
        response = await handler(request)
        await self._pause(self.sandbox.latency - (clock() - started))
        return response

    @web.middleware
    async def _inject_faults(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        kind = self.sandbox.faults.draw(self.sandbox.seed, next(self._numbers))
        if kind is None:
            return await handler(request)
        self.stats.faults[kind] += 1
        if kind[0].isdigit():
            return _error(Refusal(int(kind[:3]), "an injected fault"))
        response, connection = await handler(request), request.transport
        if isinstance(response, web.Response) and isinstance(connection, asyncio.Transport):
            return await inject_fault(kind, response, connection)
        return response  # the caller hung up before

    @web.middleware
    async def _refuse(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = request.transport
        try:
            if _password(request) != self.sandbox.api_key.encode():
                raise Refusal(403, "invalid API key: send it as the Basic password")
            return await handler(request)
        except Refusal as refusal:
            return _error(refusal)
        except NoResponseError:
            if not isinstance(connection, asyncio.Transport):
                raise  # the caller hung up before
            return await inject_fault("hang", web.Response(), connection)
        except web.HTTPException as error:
            allowed = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
            return _error(Refusal(error.status, error.reason, allowed))

    async def _respond(self, operation: Operation, request: web.Request) -> web.StreamResponse:
        body = await request.read() if operation.method in ("POST", "PUT") else b""
        query = {name: request.query.getall(name) for name in request.query}
        path_id = request.match_info.get("id", "")
        answer = operation.handler(
            self.service, ApiRequest(operation, path_id, query, request.content_type, body)
        )
        if operation.method != "GET":
            self.service.recent.clear()
        if answer is None:
            return web.Response(status=204)
        return web.Response(body=msgspec.json.encode(answer), headers=JSON_HEADERS)


def _password(request: web.Request) -> bytes:
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    with contextlib.suppress(ValueError):
        if scheme.lower() == "basic":
            return base64.b64decode(credentials, validate=True).partition(b":")[2]
    return b""


def _error(refusal: Refusal) -> web.Response:
    body = msgspec.json.encode(
        {"status": "error", "code": refusal.status, "message": refusal.message}
    )
    return web.Response(body=body, status=refusal.status, headers=JSON_HEADERS | refusal.headers)


def _failing(campaigns: Iterable[int] | Mapping[int, int]) -> Mapping[int, int]:
    return (
        dict(campaigns)
        if isinstance(campaigns, Mapping)
        else dict.fromkeys(_ids("failing", campaigns), 500)
    )


def _forbidden(campaigns: Iterable[int]) -> frozenset[int]:
    return _ids("forbidden", campaigns)


def _ids(name: str, campaigns: Iterable[int]) -> frozenset[int]:
    try:
        return frozenset(campaigns)
    except TypeError:  # no iterable, or one that holds no ids
        raise ValueError(f"{name} must hold ids of campaigns, not {campaigns!r}") from None


def _rate_limit(limit: float | str | RateLimit | None) -> RateLimit | None:
    if isinstance(limit, str):
        return RateLimit.parse(limit)
    return limit if limit is None or isinstance(limit, RateLimit) else RateLimit(limit)


def _faults(faults: str | Faults | None) -> Faults:
    if not isinstance(faults, str | Faults | None):
        raise ValueError(f"faults must be a string or Faults, not {faults!r}")
    return faults if isinstance(faults, Faults) else Faults.parse(faults or "")


@define(kw_only=True, eq=False)
class Sandbox:
    """The whole service on a local port, with a seeded account; an asynchronous context manager.

    Writes last until it is closed: entered again, the account is as it was at first. `rate_limit` may be a `RateLimit`
    and `faults` a `Faults`, and both may be changed while it runs.

    Attributes:
        campaigns: campaigns of the account at first; their ids are 1 to this.
        keywords: keywords of each campaign; their ids are campaign id x 100,000 + 1, 2, …
        users: users of the account at first; their ids are 1 to this.
        backlinks: backlinks of each campaign at first; their ids are made like those of keywords.
        seed: any integer; the same seed gives the same account, in whatever shape.
        shape: shape of the feeds' responses: nested (rows in `data.rows`), flat (in `data`), or mixed by id.
        rows: format of the feeds' rows: current, older, or mixed by id.
        daily: let ranks change by day; otherwise they change by month.
        latency: seconds that each response takes at least.
        rate_limit: the limit over which requests are refused: 20/s, 100/10s or at-once=8, and after commas
            fixed-window, sliding-window, burst=40, status=503, retry-after=seconds.
        failing: ids of campaigns that always get 500, and their feeds; another status: 3:404, in Python `{3: 404}`.
        forbidden: ids of campaigns that the key has no access to: the same responses are 403.
        reports: rows in place of seeded ones, by feed ("campaign", "campaign-by-date", "keyword-by-date") and id, such
            as `{("campaign", 1): [{"keywordPhrase": "shoes"}]}`; other fields are those of the seeded row. Rows by date
            need their `date`, and are sent if the requested range touches its month.
        faults: faults to meet, such as resets=5%,500s=5%,cut=2%.
        clock: returns the date and time of what is created or changed.
        default_limit: records of a page if a request names no limit.
        max_limit: most records of a page.
        large_limit: treatment of a limit above max_limit: lowered, ignored, refused, failing, hanging, misannounced, or
            whole-report; the guide "testing" explains each.
        api_key: the key to let in; any other gets a 403.
        host: address to listen on.
        port: port to listen on; 0 for any free one.

    Raises:
        ValueError: an option is out of its range.
        OSError: on entering, the port cannot be listened on.
    """

    campaigns: int = field(default=20, validator=integer(0, MOST_CAMPAIGNS))
    keywords: int = field(default=50, validator=integer(0, IDS_PER_CAMPAIGN - 1))
    users: int = field(default=5, validator=integer(0, _MOST_USERS))
    backlinks: int = field(default=3, validator=integer(0, IDS_PER_CAMPAIGN - 1))
    seed: int = field(default=1, validator=integer())
    shape: Shape = field(default="nested", validator=one_of("nested", "flat", "mixed"))
    rows: Rows = field(default="current", validator=one_of("current", "older", "mixed"))
    daily: bool = field(
        default=False, validator=require("True or False", lambda value: isinstance(value, bool))
    )
    latency: float = field(default=0.0, validator=number(or_zero=True))
    rate_limit: RateLimit | None = field(default=None, converter=_rate_limit)
    failing: Mapping[int, int] = field(default=(), converter=_failing)
    forbidden: frozenset[int] = field(default=(), converter=_forbidden)
    reports: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]] = field(factory=dict)
    faults: Faults = field(default=None, converter=_faults)
    clock: Callable[[], datetime] = field(
        default=datetime.now, validator=require("a function", callable)
    )
    default_limit: int = field(default=25, validator=integer(1))
    max_limit: int = field(default=500, validator=integer(1))
    large_limit: LargeLimit = field(default="lowered", validator=one_of(*get_args(LargeLimit)))
    api_key: str = field(default="sandbox", validator=_filled, repr=False)
    host: str = field(default="127.0.0.1", validator=_filled)
    port: int = field(default=0, validator=integer(0, 65535))
    _stats: Stats = field(init=False, factory=Stats, repr=False)
    _running: tuple[asyncio.Server, contextlib.AsyncExitStack] | None = field(
        init=False, default=None, repr=False
    )

    @failing.validator
    @forbidden.validator
    def _check_ids(self, attribute: "Attribute[Any]", campaigns: Collection[Any]) -> None:
        for id_ in campaigns:
            if not isinstance(id_, int) or not 1 <= id_ <= self.campaigns:
                raise ValueError(
                    f"{attribute.name} must hold ids of campaigns, 1 to {self.campaigns}, not {id_!r}"
                )

    @reports.validator
    def _check_reports(self, attribute: "Attribute[Any]", reports: Mapping[Any, Any]) -> None:
        for key, rows in reports.items():
            if not (
                isinstance(key, tuple)
                and len(key) == 2
                and key[0] in _FEEDS
                and isinstance(key[1], int)
            ):
                raise ValueError(
                    f"reports must have keys such as ('campaign', 1), of {', '.join(_FEEDS)}; not {key!r}"
                )
            undated = key[0] == "campaign"
            if not all(
                isinstance(row, Mapping) and (undated or isinstance(row.get("date"), str))
                for row in rows
            ):
                raise ValueError(
                    f"reports must hold mappings, by date with a date such as '2023-01': {key!r}"
                )

    def __attrs_post_init__(self) -> None:
        for status in self.failing.values():
            if not isinstance(status, int) or not 400 <= status <= 599:
                raise ValueError(f"failing must map to statuses from 400 to 599, not {status!r}")
        if both := self.forbidden & self.failing.keys():
            raise ValueError(f"forbidden and failing must not hold the same campaign, {min(both)}")
        if self.default_limit > self.max_limit:
            raise ValueError(
                f"default_limit must be at most the maximum, {self.max_limit}, not {self.default_limit}"
            )

    @property
    def base_url(self) -> str:
        """The address that clients are given, such as `http://127.0.0.1:8080`."""
        if self._running is None:
            raise RuntimeError("the sandbox is not running: enter it with `async with` first")
        port = self._running[0].sockets[0].getsockname()[1]
        return f"http://[{self.host}]:{port}" if ":" in self.host else f"http://{self.host}:{port}"

    @property
    def stats(self) -> Stats:
        """The traffic since the sandbox was last entered; also readable after leaving."""
        return copy.deepcopy(self._stats)

    async def __aenter__(self) -> Self:
        if self._running is not None:
            raise RuntimeError("the sandbox is running already")
        self._stats = Stats()
        service = Service(
            account=Account(self.seed, self.campaigns, self.keywords, self.users, self.backlinks),
            shape=self.shape, rows=self.rows, clock=self.clock,
            default_limit=self.default_limit, max_limit=self.max_limit, large_limit=self.large_limit,
            daily=self.daily,
            reports={key: [dict(row) for row in rows] for key, rows in self.reports.items()},
            failing={**self.failing, **dict.fromkeys(self.forbidden, 403)},
        )  # fmt: skip
        chain = Chain(self, service, self._stats)
        runner = web.AppRunner(
            chain.application(),
            access_log=None,
            shutdown_timeout=_SHUTDOWN_SECONDS,
            auto_decompress=False,
        )
        async with contextlib.AsyncExitStack() as leaving:
            leaving.callback(chain.forget)
            leaving.push_async_callback(runner.cleanup)
            await runner.setup()
            assert runner.server is not None, "the runner is set up"  # noqa: S101
            create_server = asyncio.get_running_loop().create_server
            try:
                listener = await create_server(
                    runner.server, self.host, self.port, backlog=_BACKLOG
                )
            except OSError as error:
                problem = (error.strerror or str(error)).rpartition(": ")[
                    2
                ]  # asyncio repeats the address
                raise OSError(
                    error.errno, f"can't listen on {self.host}:{self.port}: {problem}"
                ) from error
            leaving.callback(
                chain.closing.set
            )  # or aiohttp would have to cancel pauses, and sometimes fails at that
            self._running = listener, leaving.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._running is None:
            return
        (listener, leaving), self._running = self._running, None
        # asyncio drops a connection that it accepts just as its server closes, with its socket left open and a warning:
        # stop accepting first, and let the runner learn of those accepted already, which it closes
        for sock in listener.sockets:
            with contextlib.suppress(NotImplementedError):
                asyncio.get_running_loop().remove_reader(sock.fileno())
        await asyncio.sleep(0)
        listener.close()
        await leaving.aclose()
