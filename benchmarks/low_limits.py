"""How fast pulls are at 1 to 20 requests a second, in virtual time: `python -m benchmarks.low_limits`.

Most services have such limits, and enforce them strictly. Each cell of the table is a limiter, a limit, a latency and
a number of requests. A pull runs through it once for each seed. The figure is its time divided by the ideal time.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from statistics import median

import attrs

from benchmarks.findings import as_text
from tests.session.simulated_service import Figures, SimulatedService, simulate

LIMITS = (1, 2, 3, 5, 10, 20)
LATENCIES = (0.02, 0.2)
REQUESTS = (60, 300, 1500)
SHORTEST = 3.0  # the ideal time, in seconds, below which a cell shows nothing
PERMITS = 16
JITTER = 0.3


@attrs.frozen
class Kind:
    """A kind of limiter, with the bounds of its time (divided by the ideal) and of refusals.

    Attributes:
        limit: the sandbox's `rate_limit`, with `{rate}` for the requests a second and `{most}` for those a minute.
        window: the length of a window in seconds.
        burst: the requests that are accepted at once after a rest; None for those of a window.
        median, worst: the bounds of the time.
        worst_of_few: the bound of the worst time of 60 requests under Retry-After.
        refused_bare: the bound of refusals without Retry-After.
    """

    limit: str
    median: float
    worst: float
    worst_of_few: float
    window: int = 1
    burst: int | None = None
    refused_bare: float = 0.15


KINDS = {
    "bucket of one": Kind("{rate}/s,burst=1", 1.4, 1.8, 2.0, burst=1),
    "bucket of five": Kind("{rate}/s,burst=5", 1.25, 1.6, 1.8, burst=5),
    "bucket of a second": Kind("{rate}/s,burst={rate}", 1.25, 1.6, 1.8),
    "fixed window of a second": Kind("{rate}/s,fixed-window", 1.3, 1.8, 2.1, refused_bare=0.3),
    "sliding window of a second": Kind("{rate}/s,sliding-window", 1.3, 1.8, 2.1, refused_bare=0.3),
    "fixed window of a minute": Kind(
        "{most}/60s,fixed-window", 1.1, 1.3, 1.3, 60, refused_bare=0.3
    ),
    "sliding window of a minute": Kind(
        "{most}/60s,sliding-window", 1.1, 1.3, 1.3, 60, refused_bare=0.3
    ),
}


@attrs.frozen
class Cell:
    """A service and a pull through it.

    Attributes:
        kind: the limiter's name in `KINDS`.
        rate: requests a second that it lets through.
        asks_to_wait: whether refusals carry a Retry-After.
        latency: seconds.
        requests: of the pull.
        cap: the user's own `requests_per_second`.
        status: of a refusal.
    """

    kind: str
    rate: int
    asks_to_wait: bool
    latency: float
    requests: int
    cap: float | None = None
    status: int = 429

    @property
    def burst(self) -> int:
        """The requests that are accepted at once after a rest."""
        kind = KINDS[self.kind]
        if kind.burst is not None:
            return kind.burst
        return self.rate * kind.window

    def ideal(self, seed: int) -> float:
        """Return the seconds that the pull would take if all requests were sent in time."""
        kind = KINDS[self.kind]
        if kind.window == 1:
            seconds = (self.requests - self.burst) / self.rate
        elif "fixed" in self.kind:
            seconds = max(20.0, self._ideal_in_windows(kind.window, kind.window * _phase(seed)))
        else:
            # A client that does not know the limit uses up the window with its first burst.
            seconds = float(kind.window * ((self.requests - 1) // self.burst))
        return max(seconds, self.requests * self.latency / PERMITS, 1.0)

    def _ideal_in_windows(self, window: int, first: float) -> float:
        """Return the seconds until the last window begins, if the first one ends after `first` seconds."""
        sent_in_first = min(self.burst, int(first * PERMITS / self.latency))
        left = self.requests - sent_in_first
        if left <= 0:
            return 0.0
        further_windows = math.ceil(left / self.burst) - 1
        return first + further_windows * window

    def run(self, seed: int) -> Figures:
        """Pull through the service in virtual time."""
        limit = KINDS[self.kind].limit.format(rate=self.rate, most=60 * self.rate)
        if self.asks_to_wait:
            limit += ",retry-after=seconds"
        service = SimulatedService(
            limit, latency=self.latency, jitter=JITTER, status=self.status, seed=seed
        )
        pages_a_campaign = 5 if seed % 2 else 1
        paths = [f"c{page // pages_a_campaign}/{page}" for page in range(self.requests)]
        return simulate(service, paths, requests_per_second=self.cap, max_concurrency=PERMITS)


@attrs.frozen
class Result:
    """The runs of a cell, one a seed: time divided by the ideal, refusals a request, lost requests."""

    cell: Cell
    times: list[float]
    refused: list[float]
    lost: int


def _phase(seed: int) -> float:
    """Return the part of the first window that is left when a pull begins; see `Limited`."""
    return (0.37 + 0.618 * seed) % 1


def cells(
    limits: Iterable[int] = LIMITS, requests: Iterable[int] = REQUESTS, status: int = 429
) -> Iterator[Cell]:
    """Yield the cells of the table, the longest first."""
    longest_first = sorted(requests, reverse=True)
    for count, kind, rate, asks_to_wait, latency in product(
        longest_first, KINDS, limits, (False, True), LATENCIES
    ):
        cell = Cell(kind, rate, asks_to_wait, latency, count, status=status)
        if (count - cell.burst) / rate >= SHORTEST:
            yield cell


def measure_cell(cell: Cell, seeds: Sequence[int]) -> Result:
    """Run a cell with each seed."""
    runs = [cell.run(seed) for seed in seeds]
    times = [run.seconds / cell.ideal(seed) for run, seed in zip(runs, seeds, strict=True)]
    lost = sum(run.lost for run in runs)
    return Result(cell, times, [run.refused for run in runs], lost)


def measure(all_cells: Iterable[Cell], seeds: Sequence[int], processes: int = 2) -> list[Result]:
    """Run all cells, in several processes."""
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(partial(measure_cell, seeds=seeds), all_cells))


HEAD = ("limiter", "", "requests", "median", "worst", "bounds", "refused", "bound", "lost", "cells")


def table(results: list[Result]) -> list[list[str]]:
    """Return a row for each kind of limiter, with and without Retry-After, for few and for many requests.

    The last column counts the cells whose own median or worst run misses a bound.
    """
    rows = []
    for name, asks_to_wait, is_few in product(KINDS, (False, True), (True, False)):
        group = [
            result
            for result in results
            if (result.cell.kind, result.cell.asks_to_wait) == (name, asks_to_wait)
            and (result.cell.requests < 300) == is_few
        ]
        if group:
            rows.append(_row(group, asks_to_wait=asks_to_wait, is_few=is_few))
    return rows


def _row(group: list[Result], *, asks_to_wait: bool, is_few: bool) -> list[str]:
    kind = KINDS[group[0].cell.kind]
    worst = kind.worst_of_few if asks_to_wait and is_few else kind.worst
    most_refused = 0.15 if asks_to_wait else kind.refused_bare
    times = [time for result in group for time in result.times]
    refused = [share for result in group for share in result.refused]
    missed = sum(
        median(result.times) > kind.median or max(result.times) > worst for result in group
    )
    return [
        group[0].cell.kind,
        "Retry-After" if asks_to_wait else "bare",
        "60" if is_few else "300 and more",
        f"{median(times):.2f}",
        f"{max(times):.2f}",
        f"{kind.median} / {worst}",
        f"{100 * sum(refused) / len(refused):.0f} %",
        "" if is_few else f"{100 * most_refused:.0f} %",
        str(sum(result.lost for result in group)),
        f"{missed} of {len(group)} miss",
    ]


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.low_limits", description=__doc__)
    parser.add_argument(
        "--seeds", default="8000:8020", help="the first seed and the one after the last"
    )
    parser.add_argument("--limits", default=",".join(map(str, LIMITS)), help="requests a second")
    parser.add_argument(
        "--requests", default=",".join(map(str, REQUESTS)), help="requests of each pull"
    )
    parser.add_argument("--status", type=int, default=429, help="status of refusals")
    options = parser.parse_args(arguments)
    first, end = map(int, options.seeds.split(":"))
    limits = [int(limit) for limit in options.limits.split(",")]
    requests = [int(count) for count in options.requests.split(",")]
    results = measure(cells(limits, requests, options.status), range(first, end))
    print(as_text(HEAD, table(results)))


if __name__ == "__main__":
    main(sys.argv[1:])
