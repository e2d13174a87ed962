"""A firewall that refuses requests by an HTML page."""

import asyncio
from typing import Any

import pytest

from seorep_async import AuthenticationError
from seorep_async.session import Request, Session
from seorep_async.session.request import Response
from tests.session.simulated_service import SimulatedService, session_above

pytestmark = pytest.mark.virtual


async def ends(session: Session, paths: list[str]) -> list[Any]:
    calls = [session.send(Request("GET", path, len)) for path in paths]
    return await asyncio.gather(*calls, return_exceptions=True)


PAGE = b"<!DOCTYPE html><html><body>Request blocked</body></html>"


def firewalled(first: int, last: int, body: bytes) -> SimulatedService:
    """Return a service whose firewall answers some requests itself, counted from 1."""

    headers = {"Content-Type": "text/html"} if body.startswith(b"<") else {}

    def says(path: str) -> int | Response:
        blocked = len(service.paths) in range(first, last)
        return Response(403, [body], None, headers) if blocked else 200

    service = SimulatedService(says=says, latency=0.05)
    return service


@pytest.mark.parametrize(
    ("blocked", "body", "lost"),
    [
        ((40, 61), PAGE, []),
        ((0, 99), PAGE, [0, 1]),
        ((2, 99), b'{"status": "error"}', [*range(1, 10)]),
    ],
    ids=["it is slowed down for and retried", "before any success it is a 403", "JSON stays a 403"],
)
async def test_a_page_after_a_success_is_a_firewall_s(
    blocked: tuple[int, int], body: bytes, lost: list[int]
) -> None:
    async with session_above(firewalled(*blocked, body), max_concurrency=1) as session:
        count = lost[-1] + 1 if lost else 60
        results = await ends(session, [f"/{number}" for number in range(count)])
    assert [n for n, end in enumerate(results) if isinstance(end, AuthenticationError)] == lost
    assert all(end == 0 or n in lost for n, end in enumerate(results))
