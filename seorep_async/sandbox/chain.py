"""The chain of handlers that every request passes through.

A request passes through them in this order: the count, the rate limit, the latency, the faults,
the key and other refusals, the operation. A request over the rate limit goes no further, but its
refusal is also delayed by the latency.
"""

import asyncio
import base64
import contextlib
import itertools
from collections import Counter
from functools import lru_cache, partial

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from attrs import define, field

from seorep_async.sandbox.faults import JSON_HEADERS, inject_fault
from seorep_async.sandbox.feeds import FEEDS
from seorep_async.sandbox.rate_limit import Limiter
from seorep_async.sandbox.records import RECORDS
from seorep_async.sandbox.request import METHODS_WITH_BODY, ApiRequest, Operation, Refusal
from seorep_async.sandbox.service import SandboxService

_LARGEST_BODY = 256 * 1024


OPERATIONS: list[Operation] = [feed.operation() for feed in FEEDS]
for _endpoints in RECORDS:
    OPERATIONS.extend(_endpoints.operations())


@define(kw_only=True)
class Stats:
    """The traffic since the sandbox started.

    Attributes:
        requests: requests that arrived, including refused ones.
        in_flight: requests being answered now.
        most_in_flight: the largest number of requests answered at once.
        per_operation: requests by method and path as the reference writes it (`GET
            /v3/campaigns/:id`); all others are "unknown".
        faults: injected faults, by kind.
    """

    requests: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    per_operation: Counter[str] = field(factory=Counter)
    faults: Counter[str] = field(factory=Counter)


class Chain:
    """The handlers that every request passes through."""

    def __init__(self, service: SandboxService, stats: Stats) -> None:
        self.service: SandboxService = service
        self._options = service.options
        self._stats = stats
        self._closing = asyncio.Event()  # set by `close`, to end every delay
        # A limiter is kept until the limit changes. A changed limit gets a new limiter, which
        # starts from zero.
        self._limiter_of = lru_cache(1)(Limiter)
        self._request_numbers = itertools.count(1)  # choose the faults

    def application(self) -> web.Application:
        """Return the application that serves all operations."""
        middlewares = [
            self._count,
            self._apply_limit,
            self._wait,
            self._inject_faults,
            self._answer_refusals,
        ]
        application = web.Application(middlewares=middlewares, client_max_size=_LARGEST_BODY)
        for operation in OPERATIONS:
            path = operation.path.replace(":id", "{id}")
            handler = partial(self._respond, operation)
            application.router.add_route(operation.method, path, handler)
        return application

    def close(self) -> None:
        """Send all delayed responses at once, without the rest of their delay.

        Otherwise, aiohttp would have to cancel them, which sometimes fails.
        """
        self._closing.set()

    def forget(self) -> None:
        """Release the account when the sandbox has ended. aiohttp keeps this object in a cache."""
        del self.service

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Count a request, and count it as in flight until it is answered."""
        stats = self._stats
        stats.requests += 1
        stats.in_flight += 1
        stats.most_in_flight = max(stats.most_in_flight, stats.in_flight)
        stats.per_operation[_operation_name(request)] += 1
        try:
            return await handler(request)
        finally:
            stats.in_flight -= 1

    @web.middleware
    async def _apply_limit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse a request over the rate limit."""
        limit = self._options.rate_limit
        if limit is None:
            return await handler(request)
        limiter = self._limiter_of(limit)
        # The limiter never waits: a refused caller decides when to come back.
        refusal = limiter.acquire()
        if refusal is not None:
            await self._pause(self._options.latency)
            return _error_response(refusal)
        try:
            return await handler(request)
        finally:
            limiter.release()

    @web.middleware
    async def _wait(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Delay a response until the latency has passed since the request."""
        clock = asyncio.get_running_loop().time
        started_at = clock()
        # The handler's own time counts: a fault may have taken longer than the latency.
        response = await handler(request)
        await self._pause(self._options.latency - (clock() - started_at))
        return response

    @web.middleware
    async def _inject_faults(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Replace the response to a request that was chosen for a fault."""
        kind = self._options.faults.draw(self._options.seed, next(self._request_numbers))
        if kind is not None:
            self._stats.faults[kind] += 1
            # A kind such as `500s` is a status, which replaces the operation. All other kinds
            # replace only its response.
            if kind[0].isdigit():
                return _error_response(Refusal(int(kind[:3]), "an injected fault"))
        response = await handler(request)
        # There is no connection if the caller has hung up.
        if kind is None or request.transport is None:
            return response
        return await inject_fault(kind, response, request.transport)

    @web.middleware
    async def _answer_refusals(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the key, and turn each refusal into a JSON response."""
        try:
            if _password(request) != self._options.api_key.encode():
                raise Refusal(403, "invalid API key: send it as the Basic password")
            return await handler(request)
        except Refusal as refusal:
            return _error_response(refusal)
        except web.HTTPException as error:
            return _error_response(Refusal(error.status, error.reason))

    async def _respond(self, operation: Operation, request: web.Request) -> web.StreamResponse:
        """Answer a request with its operation's handler."""
        body = b""
        if operation.method in METHODS_WITH_BODY:
            body = await request.read()
        query = {name: request.query.getall(name) for name in request.query}
        path_id = request.match_info.get("id", "")
        api_request = ApiRequest(operation, path_id, query, request.content_type, body)
        payload = operation.handler(self.service, api_request)
        if operation.method != "GET":
            self.service.forget_results()
        if payload is None:
            return web.Response(status=204)
        return web.Response(body=msgspec.json.encode(payload), headers=JSON_HEADERS)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), seconds)


def _operation_name(request: web.Request) -> str:
    """Return the method and the path as the reference writes it, or "unknown"."""
    resource = request.match_info.route.resource
    if resource is None:
        return "unknown"
    path = resource.canonical.replace("{id}", ":id")
    return f"{request.method} {path}"


def _password(request: web.Request) -> bytes:
    """Return the password of an HTTP Basic authorization, or nothing if it is invalid."""
    authorization = request.headers.get("Authorization", "")
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        return b""
    try:
        decoded = base64.b64decode(credentials, validate=True)
    except ValueError:
        return b""
    return decoded.partition(b":")[2]


def _error_response(refusal: Refusal) -> web.Response:
    payload = {"status": "error", "code": refusal.status, "message": refusal.message}
    body = msgspec.json.encode(payload)
    headers = JSON_HEADERS | refusal.headers
    return web.Response(body=body, status=refusal.status, headers=headers)
