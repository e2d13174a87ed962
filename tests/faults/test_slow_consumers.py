"""Row 24: a slow consumer of a pull. `tests/paging/test_listing.py` has that of a listing."""

import asyncio
import time
import tracemalloc
from array import array

import pytest

from seorep_async import SeoRepClient, Settings
from tests.faults.conftest import Check
from tests.faults.run import JANUARY, KEY
from tests.faults.server import Plan, ServerProcess

pytestmark = pytest.mark.heavy

slow = pytest.mark.slow


DEFAULT_PAGES = Settings(page_size=None)  # else page 1 of a report may be requested twice
WINDOW = 32  # twice `Settings.max_concurrency`


async def consume_slowly(server: ServerProcess, units: int, pause: float) -> tuple[int, int]:
    """Pause after each row of a pull.

    Return the most units that had begun and were not consumed yet, and the bytes at peak.
    """
    plan = Plan(units=units, pages=2, rows=1)
    consumed_at = array("d", bytes(8 * units))
    with server.serving(plan) as served:
        async with SeoRepClient(served.base_url, KEY, settings=DEFAULT_PAGES) as client:
            tracemalloc.start()
            async with client.rankings.pull(range(1, units + 1), *JANUARY) as outcomes:
                async for outcome in outcomes:
                    assert outcome.report is not None
                    consumed_at[outcome.id - 1] = time.monotonic()
                    for _ in outcome.report.rows:
                        await asyncio.sleep(pause)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    moments = [(moment, -1) for moment in consumed_at]
    for request in served.history.seen:
        if request.page == 1:
            moments.append((request.time, 1))
    waiting = 0
    most = 0
    for _, step in sorted(moments):
        waiting += step
        most = max(most, waiting)
    return most, peak


@pytest.mark.parametrize(("units", "pause"), [(50, 0.002), pytest.param(400, 0.01, marks=slow)])
async def test_a_slow_consumer_slows_the_pull(
    units: int, pause: float, server: ServerProcess, check: Check
) -> None:
    await consume_slowly(server, units, 0.0)  # warm up what is built once
    most, peak = await consume_slowly(server, units, pause)
    most_of_ten, peak_of_ten = await consume_slowly(server, 10 * units, pause)
    check(
        "24",
        f"{1000 * pause:g} ms a row, {units} and {10 * units} units",
        units_in_flight_and_buffered=(max(most, most_of_ten), WINDOW),
        bytes_kept_for_each_further_unit=((peak_of_ten - peak) / (9 * units), 500),
    )
