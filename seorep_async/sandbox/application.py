"""The service as an aiohttp application: one chain that every request passes, then the operation.

The chain: count -> limit -> latency -> faults -> refusals as JSON -> authenticate -> operation. A request over the
limit is answered after the latency, too.
"""

import asyncio
import base64
import contextlib
import itertools
from collections import Counter
from collections.abc import Callable
from functools import partial

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from attrs import define, field

from seorep_async.sandbox.faults import JSON_HEADERS, RawResponse, inject_fault
from seorep_async.sandbox.feeds import FEEDS
from seorep_async.sandbox.models import MODELS
from seorep_async.sandbox.rate_limit import Limiter
from seorep_async.sandbox.request import ApiRequest, Body, Refusal
from seorep_async.sandbox.service import Operation, Service

OPERATIONS: tuple[Operation, ...] = (
    *(operation for model in MODELS for operation in model.operations()),
    *(feed.operation() for feed in FEEDS),
)
_LARGEST_BODY = 256 * 1024
_FAULT = web.RequestKey("fault", str)


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
        faults: finished requests that met a fault, by its kind.
    """

    requests: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    per_operation: Counter[str] = field(factory=Counter)
    per_status: Counter[int] = field(factory=Counter)
    faults: Counter[str] = field(factory=Counter)


@define(eq=False)
class Chain:
    """What every request passes.

    `service` is None once the sandbox is left: aiohttp keeps the application itself in a cache of handlers. `limiter`
    returns the present limiter, `fault` the kind of fault for a request's number.
    """

    service: Service | None
    stats: Stats
    api_key: str
    latency: float
    limiter: Callable[[], Limiter | None]
    fault: Callable[[int], str | None]
    _numbers: "itertools.count[int]" = field(init=False, factory=lambda: itertools.count(1))
    _closing: asyncio.Event = field(init=False, factory=asyncio.Event)

    def application(self) -> web.Application:
        chain = [self._count, self._apply_limit, self._wait, self._inject_faults, _refusals_as_json, self._authenticate]
        app = web.Application(middlewares=chain, client_max_size=_LARGEST_BODY)
        app.on_shutdown.append(self._end_pauses)  # or aiohttp would have to cancel them, and sometimes fails at that
        for operation in OPERATIONS:
            path = operation.path.replace(":id", "{id}")
            app.router.add_route(operation.method, path, partial(self._respond, operation))
        return app

    async def _end_pauses(self, _: web.Application) -> None:
        self._closing.set()

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), seconds)

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        operation = f"{request.method} {resource.canonical.replace('{id}', ':id')}" if resource else "unknown"
        stats = self.stats
        stats.requests += 1
        stats.in_flight += 1
        stats.most_in_flight = max(stats.most_in_flight, stats.in_flight)
        stats.per_operation[operation] += 1
        status: int | None = 500
        try:
            response = await handler(request)
            status = response.seen if isinstance(response, RawResponse) else response.status
            return response
        except ConnectionError:
            status = None
            raise
        finally:
            stats.in_flight -= 1
            if _FAULT in request:
                stats.faults[request[_FAULT]] += 1
            if status is not None:
                stats.per_status[status] += 1

    @web.middleware
    async def _apply_limit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        limiter = self.limiter()
        if limiter is None:
            return await handler(request)
        try:
            limiter.acquire()
        except Refusal as refusal:
            await self._pause(self.latency)
            return _error(refusal.status, refusal.message, refusal.headers)
        try:
            return await handler(request)
        finally:
            limiter.release()

    @web.middleware
    async def _wait(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        clock = asyncio.get_running_loop().time
        started = clock()
        response = await handler(request)
        await self._pause(self.latency - (clock() - started))
        return response

    @web.middleware
    async def _inject_faults(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        kind = self.fault(next(self._numbers))
        if kind is None:
            return await handler(request)
        request[_FAULT] = kind
        if kind[0].isdigit():
            return _error(int(kind[:3]), "an injected fault")
        response, connection = await handler(request), request.transport
        if isinstance(response, web.Response) and isinstance(connection, asyncio.Transport):
            return await inject_fault(kind, response, connection)
        return response  # the caller hung up before

    @web.middleware
    async def _authenticate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        try:
            sent = base64.b64decode(credentials, validate=True)
        except ValueError:
            sent = b""
        if scheme.lower() != "basic" or sent.partition(b":")[2] != self.api_key.encode():
            raise Refusal(403, "invalid API key: send it as the Basic password")
        return await handler(request)

    async def _respond(self, operation: Operation, request: web.Request) -> web.StreamResponse:
        body = Body()
        if operation.method in ("POST", "PUT"):
            if "Content-Encoding" in request.headers:
                raise Refusal(415, "the body must not be compressed")
            body = Body.read(request.content_type, await request.read())
        query = {name: request.query.getall(name) for name in request.query}
        asked = ApiRequest(operation.fields, operation.required, query, body, request.match_info.get("id", ""))
        assert self.service is not None, "a request is served before the sandbox is left"  # noqa: S101
        answer = operation.handler(self.service, asked)
        if answer is None:
            return web.Response(status=204)
        return web.Response(body=msgspec.json.encode(answer), headers=JSON_HEADERS)


@web.middleware
async def _refusals_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refusal as refusal:
        return _error(refusal.status, refusal.message, refusal.headers)
    except web.HTTPException as error:
        allowed = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
        return _error(error.status, error.reason, allowed)


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = msgspec.json.encode({"status": "error", "code": status, "message": message})
    return web.Response(body=body, status=status, headers=JSON_HEADERS | (headers or {}))
