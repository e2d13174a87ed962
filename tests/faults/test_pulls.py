"""Rows 1 to 8: a pull of many units through a faulty network, an unknown rate limit, an outage."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import pytest

from seorep_async import Settings
from tests.faults.conftest import Check
from tests.faults.run import Run, pull
from tests.faults.server import LIGHT, Limit, Outage, Plan, ServerProcess

pytestmark = pytest.mark.heavy

GRACE = 0.05
"""The seconds after the announcement of a wait in which earlier requests may still arrive."""
LONG_GRACE = 0.5
"""The same on a busy machine. A client that ignores the wait sends requests for all of its 1 s."""

HEAVY = {"reset": 0.2, "500": 0.2, "cut": 0.05}
DEFAULT = Settings()
IMPATIENT = Settings(attempt_timeout=1.0)


def _ideal(run: Run) -> float:
    limit = run.plan.limit
    assert limit is not None
    return (run.plan.pages_needed - limit.burst) / limit.rate


def _recovery(run: Run) -> float:
    """Return the seconds from the end of an outage to the first answer to a later request."""
    if run.history.outage is None:
        return math.inf
    end = run.history.outage[1]
    first = math.inf
    for request in run.history.seen:
        if request.fate == "served" and request.time >= end:
            first = min(first, request.time)
    return first + run.plan.latency - end


LOSSES: dict[str, Callable[[Run], float]] = {
    "rows lost or double": lambda run: run.lost_or_double,
    "units failed": lambda run: run.failed,
    "pages never served": lambda run: run.never_served,
    "left over": lambda run: run.left_over,
}
MEASURES: dict[str, Callable[[Run], float]] = {
    "amplification": lambda run: run.amplification,
    "429s a page": lambda run: run.history.fates["throttled"] / run.plan.pages_needed,
    "time / ideal": lambda run: run.seconds / _ideal(run),
    "started inside a wait": lambda run: run.history.started_inside_windows(GRACE),
    "started late inside a wait": lambda run: run.history.started_inside_windows(LONG_GRACE),
    "first success after recovery, s": _recovery,
    "longest attempt, s": lambda run: run.longest_attempt,
}
MEASURES |= LOSSES
ALWAYS = dict.fromkeys(LOSSES, 0.0)


@attrs.frozen
class Scenario:
    """A row, or a part of one.

    Attributes:
        bounds: the most that a measure may be, besides `ALWAYS`.
    """

    row: str
    fault: str
    plan: Plan
    bounds: dict[str, float]
    settings: Settings = DEFAULT
    seeds: int = 5


FAST = Plan(units=600, limit=Limit(200, 40))
SLOW = Plan(units=60)
LONG = Plan(units=200, latency=0.02)
FAULTY = Plan(units=400, faults=LIGHT)
BLACK_HOLES = Plan(units=400, faults=LIGHT | {"hang": 0.01})
OUTAGES: list[Any] = ["503", "refused", "hang", "reset"]

BOUNDS_OF_A_RATE = {"429s a page": 0.03, "amplification": 1.05, "time / ideal": 1.5}
BOUNDS_OF_WAITS = {"amplification": 1.02, "started inside a wait": 0, "time / ideal": 1.8}
BOUNDS_OF_A_SLOW_RATE = {"amplification": 1.12, "time / ideal": 1.5}
BOUNDS_OF_AN_OUTAGE = {"amplification": 1.06, "first success after recovery, s": 1.0}


def limited(plan: Plan, limit: Limit) -> Plan:
    return attrs.evolve(plan, limit=limit)


OF_FAULTS = [
    Scenario("1", "5 % RST + 5 % 500 + 2 % cut", FAULTY, {"amplification": 1.16}),
    Scenario(
        "2",
        "20 % RST + 20 % 500 + 5 % cut",
        Plan(units=200, faults=HEAVY),
        {"amplification": 1.9},
    ),
    Scenario(
        "3",
        "row 1 + 1 % black hole",
        BLACK_HOLES,
        {"amplification": 1.17, "longest attempt, s": 1.1},
        settings=IMPATIENT,
    ),
]
OF_RATES = [
    Scenario("4", "200/s, 429", FAST, BOUNDS_OF_A_RATE),
    Scenario(
        "5",
        "200/s, Retry-After: 1",
        limited(FAST, Limit(200, 40, "seconds")),
        BOUNDS_OF_WAITS,
    ),
    Scenario(
        "5",
        "200/s, Retry-After as a date",
        limited(FAST, Limit(200, 40, "date")),
        BOUNDS_OF_WAITS,
    ),
    Scenario("6", "20/s, burst 4", limited(SLOW, Limit(20, 4)), BOUNDS_OF_A_SLOW_RATE),
    Scenario("6", "20/s, burst 40", limited(SLOW, Limit(20, 40)), BOUNDS_OF_A_SLOW_RATE),
    Scenario("7", "rows 4 and 1", attrs.evolve(FAST, faults=LIGHT), {"amplification": 1.2}),
]
FULL = OF_FAULTS + OF_RATES
for kind in OUTAGES:
    plan = attrs.evolve(LONG, outage=Outage(kind, after=300, seconds=3.0))
    settings = IMPATIENT if kind == "hang" else DEFAULT
    scenario = Scenario("8", f"3 s outage: {kind}", plan, BOUNDS_OF_AN_OUTAGE, settings)
    FULL.append(scenario)
SHORT = [
    Scenario("1", "short", Plan(units=60, faults=LIGHT), {"amplification": 1.25}, seeds=2),
    Scenario(
        "4",
        "short",
        Plan(units=60, limit=Limit(400, 40)),
        {"amplification": 1.1, "429s a page": 0.1},
        seeds=1,
    ),
    # The 16 requests in flight at a refusal are 8 % of 200.
    Scenario(
        "5",
        "short",
        Plan(units=40, limit=Limit(400, 40, "seconds")),
        {"amplification": 1.2, "started late inside a wait": 0},
        seeds=1,
    ),
]
for kind in OUTAGES:
    plan = Plan(units=60, latency=0.02, outage=Outage(kind, after=100, seconds=0.5))
    settings = IMPATIENT if kind == "hang" else DEFAULT
    # It takes some 0.2 s. Probes that ignored how short the outage was would take 4 s.
    bounds = {"amplification": 1.2, "first success after recovery, s": 3.0}
    SHORT.append(Scenario("8", f"short: {kind}", plan, bounds, settings, seeds=1))


def runs_of(
    scenario: Scenario, bounds: Mapping[str, float], *marks: pytest.MarkDecorator
) -> Iterator[Any]:
    for seed in range(1, scenario.seeds + 1):
        name = f"row {scenario.row}-{scenario.fault}-seed {seed}-{next(iter(bounds))}"
        yield pytest.param(scenario, seed, bounds, id=name, marks=marks)


def cases() -> Iterator[Any]:
    """Yield the measures of each run.

    A rate, an outage and a short time limit need an idle machine.
    """
    for scenario in FULL:
        yield from runs_of(scenario, ALWAYS | scenario.bounds, pytest.mark.slow)
    for scenario in SHORT:
        if scenario.settings != DEFAULT:
            yield from runs_of(scenario, ALWAYS | scenario.bounds, pytest.mark.alone)
        elif scenario.row == "1":
            yield from runs_of(scenario, ALWAYS | scenario.bounds)
        else:
            yield from runs_of(scenario, ALWAYS)
            yield from runs_of(scenario, scenario.bounds, pytest.mark.alone)


@pytest.mark.parametrize(("scenario", "seed", "bounds"), list(cases()))
def test_the_figures_are_within_their_bounds(
    scenario: Scenario, seed: int, bounds: dict[str, float], server: ServerProcess, check: Check
) -> None:
    plan = attrs.evolve(scenario.plan, seed=seed)
    run = pull(server, plan, scenario.settings)
    figures = {name: (MEASURES[name](run), bound) for name, bound in bounds.items()}
    check(scenario.row, scenario.fault, load=run.load, **figures)
