"""The service as an aiohttp application: one chain that every request passes, then the operation.

The chain: count -> refusals as JSON -> latency -> (faults) -> rate limit -> authenticate -> operation.
"""

import asyncio
import base64

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from .operations import OPERATIONS, Operation
from .parameters import Parameters
from .rate_limit import TokenBucket
from .refusals import Refusal
from .service import Service
from .traffic import Traffic

_JSON = "application/json; charset=utf-8"
_UNKNOWN = "unknown"


def application(
    service: Service, traffic: Traffic, *, api_key: str, latency: float, bucket: TokenBucket | None
) -> web.Application:
    """Build the application.

    Args:
        service: what the operations work on.
        traffic: counts every request.
        api_key: the only key that is let in.
        latency: seconds that every request waits.
        bucket: the rate limit, if there is one.
    """
    chain: list[Middleware] = [_count(traffic), _refusals_as_json]
    if latency:
        chain.append(_wait(latency))
    # Faults belong here: late enough to be counted, before anything is let in.
    if bucket:
        chain.append(_limit_rate(bucket))
    chain.append(_authenticate(api_key))
    app = web.Application(middlewares=[web.middleware(link) for link in chain])
    for operation in OPERATIONS:
        app.router.add_route(operation.method, operation.path.replace(":id", "{id}"), _answer(operation, service))
    return app


def _count(traffic: Traffic) -> Middleware:
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        traffic.arrive(resource.canonical.replace("{id}", ":id") if resource else _UNKNOWN)
        status, size = None, 0
        try:
            response = await handler(request)
            status = response.status
            if isinstance(response, web.Response) and isinstance(response.body, bytes):
                size = len(response.body)
            return response
        except Exception:
            status = 500
            raise
        finally:
            traffic.leave(status, size)

    return count


async def _refusals_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refusal as refusal:
        return _error(refusal.status, refusal.message, refusal.headers)
    except web.HTTPException as error:
        allowed = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
        return _error(error.status, error.reason, allowed)


def _wait(seconds: float) -> Middleware:
    async def wait(request: web.Request, handler: Handler) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await handler(request)

    return wait


def _limit_rate(bucket: TokenBucket) -> Middleware:
    async def limit_rate(request: web.Request, handler: Handler) -> web.StreamResponse:
        bucket.take()
        return await handler(request)

    return limit_rate


def _authenticate(api_key: str) -> Middleware:
    async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        try:
            given = base64.b64decode(credentials, validate=True)
        except ValueError:
            given = b""
        if scheme.lower() != "basic" or given != b":" + api_key.encode():
            raise Refusal(403, "invalid API key: send it as the Basic password, with an empty user name")
        return await handler(request)

    return authenticate


def _answer(operation: Operation, service: Service) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        answered = operation.answer(service, Parameters(request.query, request.match_info.get("id", "")))
        return web.Response(body=answered.body, status=answered.status, headers={"Content-Type": _JSON})

    return answer


def _error(status: int, message: str, headers: dict[str, str]) -> web.Response:
    body = msgspec.json.encode({"status": "error", "code": status, "message": message})
    return web.Response(body=body, status=status, headers={"Content-Type": _JSON, **headers})
