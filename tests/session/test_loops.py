"""Event loops that are late, or were closed while a client was open."""

from __future__ import annotations

import asyncio

import pytest

from seorep_async import DeadlineExceededError
from seorep_async.session import Request
from tests.session.simulated_service import SimulatedService, session_above
from tests.session.virtual_loop import here


@pytest.mark.virtual
async def test_no_attempt_starts_if_the_loop_was_late_with_its_permit() -> None:
    service = SimulatedService()
    async with session_above(service, requests_per_second=2) as session:
        _, second = (session.spawn(session.send(Request("GET", "/v3/x", len, deadline=1.0))) for _ in range(2))
        await asyncio.sleep(0.1)
        # just after the second was called, and before it runs
        here().call_at(0.48 + 1e-10, lambda: setattr(here(), "now", 3.0))
        with pytest.raises(DeadlineExceededError) as caught:
            await second
    assert (caught.value.attempts, service.attempts) == (0, 1)
