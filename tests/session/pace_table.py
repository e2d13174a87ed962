"""Bounds of the pace: services with limits, pulls from them, and the bounds of each.

`python -m tests.session.pace_table 7000 7020` prints the table for twenty seeds. No rule was chosen
by those seeds.
"""

import math
import sys
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import product
from statistics import median
from typing import Any, TypeAlias

import attrs

from tests.session.simulated_service import (
    AtRandom,
    Changing,
    Figures,
    Limited,
    Limiter,
    SimulatedService,
    simulate,
)

LATENCIES = (0.002, 0.02, 0.05, 0.2)


@attrs.frozen
class Case:
    """A service, and pulls through it.

    The limiter may be made from a seed. `ideal` is the least time in seconds.
    """

    limiter: Callable[[int], Limiter] | str | None
    pages: int | list[str]
    ideal: float
    service: dict[str, Any] = attrs.field(factory=dict)
    options: dict[str, Any] = attrs.field(factory=dict)

    def run(self, seed: int) -> Figures:
        limiter = self.limiter(seed) if callable(self.limiter) else self.limiter
        service = SimulatedService(limiter or Limiter(), seed=seed, **self.service)
        return simulate(service, self.pages, **self.options)


@attrs.frozen
class Row:
    """Cases of one kind, and the bounds of a figure over all seeds; nothing is ever lost.

    Attributes:
        name: what the service does.
        cases: each is run with every seed.
        middle, worst: the bounds of the figure's median and of its worst. The median counts only
            with ten seeds and more.
        refused: the bound of refusals, for each request.
        figure: seconds / ideal, unless told otherwise.
        more: whether more of the figure is better, so that the bounds are the least.
        lost: what is lost in any case.
    """

    name: str
    cases: list[Case]
    middle: float
    worst: float
    refused: float = math.inf
    figure: Callable[[Figures, Case], float] = lambda run, case: run.seconds / case.ideal
    more: bool = False
    lost: int = 0

    def measure(self, seeds: Collection[int]) -> dict[str, tuple[float, float]]:
        """Return each figure with its bound: worst, median, refusals, unfairness and losses."""
        sign = -1 if self.more else 1
        runs = [(case.run(seed), case) for case, seed in product(self.cases, seeds)]
        figures = [sign * self.figure(run, case) for run, case in runs]
        measured = {
            "worst": (max(figures), sign * self.worst),
            "refused": (max(run.refused for run, _ in runs), self.refused),
            "unfair": (max(1 - run.jain for run, _ in runs), 0.15),
            "lost": (max(abs(run.lost - self.lost) for run, _ in runs), 0),
        }
        if len(seeds) > 9:
            measured["median"] = (median(figures), sign * self.middle)
        return measured

    def misses(self, seeds: Collection[int]) -> dict[str, tuple[float, float]]:
        """Return the figures beyond their bounds."""
        measured = self.measure(seeds).items()
        return {name: (figure, bound) for name, (figure, bound) in measured if figure > bound}


def changing(kind: str) -> Callable[[int], Limiter]:
    """Return a limit of 200/s that becomes 50/s after 10 s and more, and 400/s after 20 s."""

    def limiter(seed: int) -> Limiter:
        first, second, third = (Limited(f"{count}/s{kind}", seed) for count in (200, 50, 400))
        # a moment between 10 and 13 s, which differs between seeds
        change = 10 + (0.618 * seed) % 1 * 3
        return Changing((change, first), (20, second), (math.inf, third))

    return limiter


def share(run: Figures, case: Case) -> float:
    """Return the share of the last limit that was used after some seconds."""
    return run.rate(25, 28) / case.ideal


def a_second(run: Figures, case: Case) -> float:
    return (run.lost + len(run.accepted)) / run.seconds


def of_others(run: Figures, case: Case) -> float:
    """Return the time of all but dead requests, relative to a run without dead ones."""
    return run.accepted[-1] / case.ideal


Service: TypeAlias = dict[str, Any]


def bare_services() -> list[Service]:
    """Return services that refuse without saying for how long."""
    services = []
    for status, latency in product((429, 503), LATENCIES):
        services.append({"status": status, "latency": latency})
    return services


def slowdown(service: Service) -> float:
    """Return how much longer than at 200/s it takes, because 16 calls at once are slower."""
    latency: float = service["latency"]
    return max(1.0, latency * 200 / 16)


def rates() -> Iterator[Row]:
    bare = bare_services()
    fast = []
    waits = []
    for service in bare:
        ideal = 15 * slowdown(service)
        fast.append(Case("200/s", 3000, ideal, service))
        waits.append(Case("200/s", 3000, ideal, service | {"retry_after": 1.0}))
    yield Row("bucket, 200/s", fast, 1.1, 1.6, 0.03)
    yield Row("bucket, 200/s, Retry-After", waits, 1.6, 1.8, 0.03)
    slow = []
    for service, burst in product(bare, (4, 40)):
        ideal = (300 - burst) / 20
        slow.append(Case(f"20/s,burst={burst}", 300, ideal, service))
    yield Row("bucket, 20/s", slow, 1.2, 1.8, 0.12)
    kinds = ("fixed-window", "sliding-window", "sliding-window,counts-refused")
    second = []
    for service, kind in product(bare, kinds):
        second.append(Case(f"200/s,{kind}", 1500, 7.5 * slowdown(service), service))
    yield Row("window or log of a second, 200/s", second, 1.1, 1.6, 0.05)
    hundred = [Case("100/10s,fixed-window", 500, 50, service) for service in bare]
    yield Row("100 in 10 s", hundred, 1.0, 1.1)
    thousand = [Case("1000/60s,fixed-window", 3000, 180, service) for service in bare]
    yield Row("1,000 in 60 s", thousand, 1.0, 1.1)


def changing_rates() -> Iterator[Row]:
    use = partial(Row, middle=0.9, figure=share, more=True)
    buckets = []
    windows = []
    for latency in LATENCIES:
        used = min(400, 16 / latency)
        service = {"latency": latency}
        buckets.append(Case(changing(""), 6000, used, service))
        windows.append(Case(changing(",fixed-window"), 6000, used, service))
    yield use("200/s, 50/s, then 400/s: used", buckets, worst=0.75)
    yield use("200/s, 50/s, then 400/s in windows: used", windows, worst=0.7)


def proxies_and_quotas() -> Iterator[Row]:
    rates_and_pages = ((20, 300), (50, 1500), (100, 1500))
    strict = []
    for (rate, pages), burst, latency in product(rates_and_pages, (0, 1), LATENCIES[1:]):
        ideal = max(pages / rate, pages * latency / 16)
        service = {"status": 503, "latency": latency}
        strict.append(Case(f"{rate}/s,burst={1 + burst}", pages, ideal, service))
    yield Row("nginx without burst, or of one", strict, 1.6, 2.0)
    minute = [Case(f"60/60s,{kind}-window", 300, 240) for kind in ("fixed", "sliding")]
    yield Row("60 a minute, window or log", minute, 1.2, 1.4, 0.65)
    # The bounds of any bucket of one at a low limit.
    yield Row("60 a minute, bucket", [Case("1/s", 300, 300)], 1.4, 1.8, 1.5)


def limits_at_once() -> Iterator[Row]:
    kinds = ((8, 429), (8, 503), (7, 429), (6, 503), (4, 429))
    for pages, most in ((1500, 2.2), (20000, 1.35)):
        cases = []
        for (limit, status), latency in product(kinds, LATENCIES[1:]):
            service = {"status": status, "latency": latency}
            cases.append(Case(f"at-once={limit}", pages, pages / limit * latency, service))
        if pages > 9999:
            cases = cases[::4]
        # 5 % of chance in the worst of all seeds
        yield Row(f"4 to 8 at once, {pages:,} requests", cases, most, 1.05 * most)


def chance_and_outages() -> Iterator[Row]:
    shares = (0.01, 0.03, 0.05, 0.1, 0.25)
    chances = [Case(partial(AtRandom, share), 2000, 2.5) for share in shares]
    yield Row("1 to 25 % by chance: requests a second", chances, 40, 6, figure=a_second, more=True)
    for seconds in (3.0, 60.0):
        cases = []
        for outage in ("503", "refused", "reset", "hang"):
            options = {"attempt_timeout": 1.0} if outage == "hang" else {}
            service: Service = {"down": (2.0, 2.0 + seconds), "outage": outage}
            cases.append(Case(None, 5000, 6.25 + seconds, service, options))
        yield Row(f"outage of {seconds:g} s", cases, 1.15, 1.3)


def a_dead_page() -> Iterator[Row]:
    pages = [str(number) for number in range(2000)]
    pages[300] = "dead/1"
    service = {"says": lambda request: 503 if request.query == "dead/1" else 200}
    dead = Case(None, pages, 2000 * 0.02 / 16, service)
    yield Row("one page dead for good: the others", [dead], 1.3, 1.4, lost=1, figure=of_others)


def processes() -> Iterator[Row]:
    for clients, middle, refused in ((2, 1.2, 0.05), (4, 1.2, 0.1), (8, 1.2, 0.17)):
        cases = []
        for apart in (0.0, 0.7):
            options = {"clients": clients, "apart": apart}
            cases.append(Case("200/s", 6000 // clients, 30, {}, options))
        yield Row(f"{clients} processes, 200/s", cases, middle, 1.9, refused)
    slow = Case("20/s", 300, 60, {}, {"clients": 4})
    yield Row("4 processes, 20/s", [slow], 1.35, 1.35, 0.25)


def rows() -> list[Row]:
    """Return the table."""
    return [
        *rates(),
        *changing_rates(),
        *proxies_and_quotas(),
        *limits_at_once(),
        *chance_and_outages(),
        *a_dead_page(),
        *processes(),
    ]


def main(first: int, end: int, only: str = "") -> None:
    for row in rows():
        if only in row.name:
            figures = []
            for name, (figure, bound) in row.measure(range(first, end)).items():
                figures.append(f"{name} {abs(figure):.3f} ≤ {abs(bound):.2f}")
            print(f"{row.name:42}", *figures, sep="  ", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
