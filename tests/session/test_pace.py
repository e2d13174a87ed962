"""The pace of a session at the limits of services, in virtual time: the table's bounds."""

import asyncio
import math

import attrs
import pytest

from seorep_async.session.request import Response
from tests.rankings import rankings_of, report_page
from tests.session.pace_table import Row, rows
from tests.session.simulated_service import (
    ApiRequest,
    AtRandom,
    Changing,
    Limited,
    SimulatedService,
    pull,
    session_above,
    simulate,
)
from tests.session.virtual_loop import here

pytestmark = [pytest.mark.virtual, pytest.mark.heavy]

ROWS = [pytest.param(row, id=row.name) for row in rows()]


@pytest.mark.parametrize("row", ROWS)
def test_the_pace_keeps_its_bounds(row: Row) -> None:
    # Cases that stand beside each other differ least.
    assert attrs.evolve(row, cases=row.cases[::3]).misses([1]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_the_pace_keeps_its_bounds_by_twenty_seeds(row: Row) -> None:
    assert row.misses(range(7000, 7020)) == {}


@pytest.mark.parametrize("rest", [5, 3600])
@pytest.mark.parametrize(("rate", "pages"), [(200, 1500), (20, 300)])
async def test_a_learnt_limit_is_kept_after_a_rest(rate: float, pages: int, rest: float) -> None:
    service = SimulatedService(f"{rate}/s", latency=0.05)
    async with session_above(service) as session:
        assert await pull(session, pages) == []
        await asyncio.sleep(rest)
        begun = here().now
        before = service.attempts
        assert await pull(session, pages) == []
    assert service.attempts - before <= 1.05 * pages
    assert here().now - begun <= 1.5 * pages / rate


@pytest.mark.parametrize("share", [0.05, 0.1, 0.25])
async def test_chance_refusals_of_slow_calls_after_a_pull_lose_none(share: float) -> None:
    limiter = Changing((10, Limited("200/s")), (math.inf, AtRandom(share, seed=0)))
    async with session_above(SimulatedService(limiter)) as session:
        assert await pull(session, 1500) == []
        assert await pull(session, 400) == []


@pytest.mark.parametrize("kind", ["503", "refused", "reset", "hang"])
async def test_after_an_outage_something_is_accepted_within_a_second(kind: str) -> None:
    service = SimulatedService(down=(2.0, 5.0), outage=kind)
    async with session_above(service, attempt_timeout=1.0 if kind == "hang" else 30.0) as session:
        assert await pull(session, 5000) == []
    assert min(moment for moment in service.accepted[0] if moment >= 5.0) <= 6.0
    assert service.attempts <= 1.06 * 5000


def test_a_loop_that_stalls_makes_no_burst() -> None:
    def stand_still(request: ApiRequest) -> int:
        if int(request.query) % 100 == 0:
            here().now += 2
        return 200

    service = SimulatedService("50/s,burst=5", latency=0.05, says=stand_still)
    run = simulate(service, 1000, requests_per_second=40)
    assert run.lost == 0
    assert run.refused == 0


async def test_a_campaign_of_forty_dead_pages_delays_no_other() -> None:
    dead = False

    def page(request: ApiRequest) -> int | Response:
        pages = 40 if request.id == 100 else 1
        if dead and request.id == 100 and request.page > 1:
            return 503
        return report_page([request.id * 100 + request.page], pages, pages)

    async def seconds() -> float:
        begun = here().now
        async with (
            rankings_of(SimulatedService(says=page)) as (_, rankings),
            rankings.pull(range(1, 1001), "2023-01-01", "2023-01-31") as outcomes,
        ):
            ends = [here().now async for outcome in outcomes if outcome.ok]
        return ends[998] - begun

    alone = await seconds()
    dead = True
    assert await seconds() <= 1.4 * alone
