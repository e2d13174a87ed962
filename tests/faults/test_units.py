"""Rows 10, 11, 20 and 24: units that fail for good, a key that is revoked, pages that lie, a slow consumer."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from array import array
from collections import Counter

import pytest

from seorep_async import (
    AuthenticationError,
    NotFoundError,
    PaginationError,
    ProtocolError,
    SeoRepClient,
    ServerError,
    Settings,
)
from tests.faults.conftest import Check
from tests.faults.lies import truths
from tests.faults.plan import ENVELOPE_LIES, Plan
from tests.faults.process import ServerProcess
from tests.faults.run import JANUARY, KEY, Run, pull

slow = pytest.mark.slow


# --- Row 10

FAILING = {7: "500", 8: "half JSON", 9: "404"}


@pytest.fixture(scope="module")
def failing(server: ServerProcess) -> Run:
    return pull(server, Plan(units=20, failing=FAILING), Settings(backoff_max=0.1))


def test_only_the_units_that_always_fail_fail(failing: Run, check: Check) -> None:
    kinds = {unit: type(error) for unit, error in failing.errors.items()}
    assert kinds == {7: ServerError, 8: ProtocolError, 9: NotFoundError}
    check(
        "10",
        "a unit always 500, one malformed, one 404",
        rows_lost_or_double=(failing.lost_or_double, 0),
        other_units_failed=(len(kinds.keys() - FAILING.keys()), 0),
        left_over=(failing.left_over, 0),
    )


def test_a_404_is_never_asked_for_again(failing: Run, check: Check) -> None:
    check("10", "a unit always 500, one malformed, one 404", requests_for_the_404=(failing.history.per_unit[9], 1))


# --- Row 11


@pytest.mark.parametrize(
    "plan",
    [
        Plan(units=40, revoked_after=60, latency=0.005),
        pytest.param(Plan(units=400, revoked_after=700, latency=0.005), marks=slow),
    ],
    ids=["short", "full"],
)
def test_a_revoked_key_stops_the_pull(plan: Plan, server: ServerProcess, check: Check) -> None:
    run = pull(server, plan)
    refused = Counter((seen.unit, seen.page) for seen in run.history.seen if seen.fate == "revoked")
    served = {(seen.unit, seen.page) for seen in run.history.seen if seen.fate == "served"}
    probes = sum(times for page, times in refused.items() if page in served)  # a probe asks for what was served before
    check(
        "11",
        f"key revoked within {plan.pages_needed} pages",
        rows_lost_or_double=(run.lost_or_double, 0),
        requests_after_the_first_403=(refused.total() - probes - 1, 15),
        probes=(probes, 1),
        asked_for_again=(max(refused.values()) - 1, 0),
        errors_of_another_kind=(
            sum(not isinstance(error, AuthenticationError) for error in run.errors.values()),
            0,
        ),
        left_over=(run.left_over, 0),
    )


# --- Row 20

NEVER_ADD_UP = {
    "page ignored",
    "grows always",
    "empty middle page",
    "too many records",
    "too few records",
    "pages and records 10^9",
    "pages too few",
}


@pytest.mark.parametrize("lie", ENVELOPE_LIES)
def test_pages_that_lie_give_all_rows_or_a_pagination_error(lie: str, server: ServerProcess, check: Check) -> None:
    plan = Plan(units=3, pages=4, rows=3, lie=lie)
    run = pull(server, plan)
    wrong = [unit for unit, keys in run.reports.items() if keys not in truths(plan, unit)]
    other = [error for error in run.errors.values() if not isinstance(error, PaginationError)]
    assert (wrong, other, set(run.errors)) == ([], [], {1, 2, 3} if lie in NEVER_ADD_UP else set())
    check(
        "20",
        "any lie about pages",
        units_with_other_rows=(len(wrong), 0),
        readings_of_a_unit=(max(Counter(s.unit for s in run.history.seen if s.page == 1).values()), 4),
        requests_for_each_page_of_a_unit=(max(run.history.per_unit.values()) / (plan.pages + 1), 4),
        left_over=(run.left_over, 0),
    )


# --- Row 24

WINDOW = 32  # twice `Settings.max_concurrency`


async def consume_slowly(server: ServerProcess, units: int, pause: float) -> tuple[int, int]:
    """Pause after each row of a pull; return the most units that were begun and not yet taken, and bytes at peak."""
    plan = Plan(units=units, pages=2, rows=1)
    taken = array("d", bytes(8 * units))
    with server.serving(plan) as served:
        async with SeoRepClient(served.base_url, KEY) as client:
            tracemalloc.start()
            async with client.rankings.pull(range(1, units + 1), *JANUARY) as outcomes:
                async for outcome in outcomes:
                    assert outcome.report is not None
                    taken[outcome.id - 1] = time.monotonic()
                    for _ in outcome.report.rows:
                        await asyncio.sleep(pause)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    begun = {(seen.time, seen.unit) for seen in served.history.seen if seen.page == 1}
    moments = sorted([(moment, 1) for moment, _ in begun] + [(moment, -1) for moment in taken])
    waiting = most = 0
    for _, step in moments:
        waiting += step
        most = max(most, waiting)
    return most, peak


@pytest.mark.parametrize(("units", "pause"), [(50, 0.002), pytest.param(400, 0.01, marks=slow)])
async def test_a_slow_consumer_slows_the_pull(units: int, pause: float, server: ServerProcess, check: Check) -> None:
    await consume_slowly(server, units, 0.0)  # warm up what is built once
    most, peak = await consume_slowly(server, units, pause)
    most_of_ten, peak_of_ten = await consume_slowly(server, 10 * units, pause)
    check(
        "24",
        f"{1000 * pause:g} ms a row, {units} and {10 * units} units",
        units_in_flight_and_buffered=(max(most, most_of_ten), WINDOW),
        bytes_kept_for_each_further_unit=((peak_of_ten - peak) / (9 * units), 500),
    )


@pytest.mark.parametrize("pages", [60, pytest.param(600, marks=slow)])
async def test_a_slow_reader_of_one_listing_slows_it(pages: int, server: ServerProcess, check: Check) -> None:
    plan = Plan(units=1, pages=pages, rows=1)
    taken: list[float] = []
    with server.serving(plan) as served:
        async with SeoRepClient(served.base_url, KEY) as client:
            async for _ in client.rankings.campaign(1, *JANUARY):
                taken.append(time.monotonic())
                await asyncio.sleep(0.01)
    moments = sorted([(seen.time, 1) for seen in served.history.seen] + [(moment, -1) for moment in taken])
    waiting = most = 0
    for _, step in moments:
        waiting += step
        most = max(most, waiting)
    check("24", f"10 ms a row, one listing of {pages} pages", pages_in_flight_and_buffered=(most, WINDOW))
