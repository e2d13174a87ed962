"""Rankings above a simulated service, and pages of its reports."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from seorep_async import EngineNames
from seorep_async.normalisation import decoder_for
from seorep_async.resources import Rankings
from seorep_async.session import Session
from seorep_async.session.request import Response
from tests.scripted_api import FEED
from tests.session.simulated_service import SimulatedService, session_above


def report_page(keyword_ids: Iterable[int], *announced: int) -> Response:
    """Return a page of a report, perhaps with the numbers of its pages and records."""
    return Response(200, [json.dumps(FEED.envelope(keyword_ids, *announced)).encode()])


@asynccontextmanager
async def rankings_of(
    service: SimulatedService, **settings: Any
) -> AsyncIterator[tuple[Session, Rankings]]:
    async with session_above(service, **settings) as session:
        yield session, Rankings(session, decoder_for(EngineNames()), "account")
