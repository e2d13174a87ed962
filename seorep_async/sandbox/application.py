"""The service as an aiohttp application: one chain that every request passes, then the operation.

The chain: count -> limit -> latency -> faults -> refusals as JSON -> authenticate -> operation. A request over the
limit is answered after the latency, too.
"""

import asyncio
import base64
import contextlib
import itertools
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from seorep_async.sandbox.api.operations import OPERATIONS, Operation
from seorep_async.sandbox.api.request import ApiRequest, Body, Refusal
from seorep_async.sandbox.api.service import Service
from seorep_async.sandbox.faults import RawResponse, inject_fault
from seorep_async.sandbox.rate_limit import Limiter
from seorep_async.sandbox.traffic import Traffic

Pause = Callable[[float], Awaitable[None]]

_JSON = {"Content-Type": "application/json; charset=utf-8"}
_UNKNOWN = "unknown"
_LARGEST_BODY = 256 * 1024
_FAULT = web.RequestKey("fault", str)


def application(
    service: Callable[[], Service],
    traffic: Traffic,
    *,
    api_key: str,
    latency: float,
    limiter: Callable[[], Limiter | None],
    fault: Callable[[int], str | None],
) -> web.Application:
    """Build the application; `latency` is in seconds, `fault` returns the kind of fault for a request's number.

    `service` is a function, as aiohttp keeps the application itself in a cache of handlers.
    """
    closing = asyncio.Event()

    async def pause(seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await closing.wait()

    async def end_pauses(_: web.Application) -> None:
        closing.set()

    chain: list[Middleware] = [_count(traffic), _apply_limit(limiter, latency, pause)]
    if latency:
        chain.append(_wait(latency, pause))
    chain += [_inject_faults(fault), _refusals_as_json, _authenticate(api_key)]
    app = web.Application(middlewares=[web.middleware(link) for link in chain], client_max_size=_LARGEST_BODY)
    app.on_shutdown.append(end_pauses)  # or aiohttp would have to cancel them, and sometimes fails at that
    for operation in OPERATIONS:
        app.router.add_route(operation.method, operation.path.replace(":id", "{id}"), _respond(operation, service))
    return app


def _count(traffic: Traffic) -> Middleware:
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        path = resource.canonical.replace("{id}", ":id") if resource else _UNKNOWN
        traffic.arrive(path, f"{request.method} {path}" if resource else _UNKNOWN)
        status, size = None, 0
        try:
            response = await handler(request)
            if not isinstance(response, RawResponse) or response.has_status:
                status = response.status
            if isinstance(response, web.Response) and isinstance(response.body, bytes):
                size = len(response.body)
            return response
        except ConnectionError:
            raise
        except Exception:
            status = 500
            raise
        finally:
            traffic.leave(status, size, request.get(_FAULT))

    return count


def _apply_limit(limiter: Callable[[], Limiter | None], latency: float, pause: Pause) -> Middleware:
    async def apply_limit(request: web.Request, handler: Handler) -> web.StreamResponse:
        limit = limiter()
        if limit is None:
            return await handler(request)
        try:
            limit.acquire()
        except Refusal as refusal:
            await pause(latency)
            return _error(refusal.status, refusal.message, refusal.headers)
        try:
            return await handler(request)
        finally:
            limit.release()

    return apply_limit


def _wait(seconds: float, pause: Pause) -> Middleware:
    async def wait(request: web.Request, handler: Handler) -> web.StreamResponse:
        clock = asyncio.get_running_loop().time
        started = clock()
        response = await handler(request)
        await pause(seconds - (clock() - started))
        return response

    return wait


def _inject_faults(fault: Callable[[int], str | None]) -> Middleware:
    numbers = itertools.count(1)

    async def inject(request: web.Request, handler: Handler) -> web.StreamResponse:
        kind = fault(next(numbers))
        if kind is None:
            return await handler(request)
        request[_FAULT] = kind
        if kind[0].isdigit():
            return _error(int(kind[:3]), "an injected fault")
        response, connection = await handler(request), request.transport
        if isinstance(response, web.Response) and isinstance(connection, asyncio.Transport):
            return await inject_fault(kind, response, connection)
        return response  # the caller hung up before

    return inject


async def _refusals_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refusal as refusal:
        return _error(refusal.status, refusal.message, refusal.headers)
    except web.HTTPException as error:
        allowed = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
        return _error(error.status, error.reason, allowed)


def _authenticate(api_key: str) -> Middleware:
    async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        try:
            sent = base64.b64decode(credentials, validate=True)
        except ValueError:
            sent = b""
        if scheme.lower() != "basic" or sent != b":" + api_key.encode():
            raise Refusal(403, "invalid API key: send it as the Basic password, with an empty user name")
        return await handler(request)

    return authenticate


def _respond(operation: Operation, service: Callable[[], Service]) -> Handler:
    async def respond(request: web.Request) -> web.StreamResponse:
        body = None
        if operation.writes:
            if "Content-Encoding" in request.headers:
                raise Refusal(415, "the body must not be compressed")
            body = Body.read(request.content_type, await request.read())
        query = {name: request.query.getall(name) for name in request.query}
        response = operation.handler(
            service(), ApiRequest(operation.fields, query, body, request.match_info.get("id", ""))
        )
        return web.Response(body=response.body or None, status=response.status, headers=_JSON if response.body else {})

    return respond


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = msgspec.json.encode({"status": "error", "code": status, "message": message})
    return web.Response(body=body, status=status, headers=_JSON | (headers or {}))
