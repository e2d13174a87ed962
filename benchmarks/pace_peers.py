"""Compare ways of finding the allowed rate, in virtual time: `python -m benchmarks.pace_peers`.

Each peer sends the requests of a pull to the same simulated service with 16 workers, and never gives up.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Sequence
from statistics import median
from typing import Protocol

from benchmarks.findings import as_markdown
from tests.session.simulated_service import Limited, SimulatedService, simulate
from tests.session.virtual_loop import here, run

REQUESTS = 300
WORKERS = 16
LATENCY = 0.05


class Policy(Protocol):
    """Decides when requests start, and learns from their results."""

    def seconds_to_start(self, now: float) -> float:
        """Reserve the next start, and return the seconds until then."""

    def accept(self, now: float) -> None:
        """Learn from an accepted request."""

    def refuse(self, now: float) -> None:
        """Learn from a refused request."""


class FixedRate:
    """Requests start at a rate that the user has set."""

    def __init__(self, rate: float) -> None:
        self.rate: float = rate
        self._next = 0.0

    def seconds_to_start(self, now: float) -> float:
        start = max(now, self._next)
        self._next = start + 1 / self.rate
        return start - now

    def accept(self, now: float) -> None:
        pass

    def refuse(self, now: float) -> None:
        pass


class Aimd(FixedRate):
    """Additive increase, multiplicative decrease: each second one request a second more, half after a refusal."""

    def __init__(self) -> None:
        super().__init__(10.0)
        self._cut_at = 0.0

    def accept(self, now: float) -> None:
        self.rate += 1 / self.rate

    def refuse(self, now: float) -> None:
        # All requests that were in flight count once.
        if now - self._cut_at > 1 / self.rate:
            self.rate = max(0.5, self.rate / 2)
            self._cut_at = now


class BotocoreAdaptive(FixedRate):
    """The `adaptive` retry mode of botocore: CUBIC over a measured rate (`botocore/retries/adaptive.py`)."""

    SCALE = 0.4
    BETA = 0.7
    SMOOTHING = 0.8
    BUCKET = 0.5  # seconds over which the rate is measured

    def __init__(self) -> None:
        super().__init__(float("inf"))
        self._highest = 0.0
        self._cut_at = 0.0
        self._measured = 0.0
        self._count = 0
        self._counted_from = 0.0

    def seconds_to_start(self, now: float) -> float:
        if self.rate == float("inf"):
            return 0.0
        return super().seconds_to_start(now)

    def _measure(self, now: float) -> None:
        self._count += 1
        elapsed = now - self._counted_from
        if elapsed >= self.BUCKET:
            current = self._count / elapsed
            before = (1 - self.SMOOTHING) * self._measured
            self._measured = self.SMOOTHING * current + before
            self._count = 0
            self._counted_from = now

    def accept(self, now: float) -> None:
        self._measure(now)
        if self.rate == float("inf"):
            return
        until_highest = (self._highest * (1 - self.BETA) / self.SCALE) ** (1 / 3)
        grown = self.SCALE * (now - self._cut_at - until_highest) ** 3 + self._highest
        self.rate = max(0.5, min(grown, 2 * self._measured))

    def refuse(self, now: float) -> None:
        self._measure(now)
        rate = self._measured if self.rate == float("inf") else min(self.rate, self._measured)
        self._highest = rate
        self._cut_at = now
        self.rate = max(0.5, rate * self.BETA)


async def _pull(policy: Policy, limiter: Limited, waits: bool) -> int:
    """Send all requests, and return how many were refused."""
    waiting = iter(range(REQUESTS))
    refused = 0

    async def work() -> None:
        nonlocal refused
        for _ in waiting:
            attempts = 0
            while True:
                await asyncio.sleep(policy.seconds_to_start(here().now))
                await asyncio.sleep(LATENCY / 2)
                is_accepted = limiter.take()
                await asyncio.sleep(LATENCY / 2)
                if is_accepted:
                    policy.accept(here().now)
                    break
                refused += 1
                attempts += 1
                policy.refuse(here().now)
                back_off = min(20.0, 0.5 * 2**attempts)
                await asyncio.sleep(limiter.retry_after or 1.0 if waits else back_off)

    await asyncio.gather(*(work() for _ in range(WORKERS)))
    return refused


def _of_peer(make: Callable[[], Policy], limit: str, seed: int) -> tuple[float, float]:
    async def pull() -> tuple[float, float]:
        limiter = Limited(limit, seed)
        refused = await _pull(make(), limiter, "retry-after" in limit)
        return here().now, refused / REQUESTS

    return run(pull())


def _of_ours(limit: str, seed: int) -> tuple[float, float]:
    figures = simulate(SimulatedService(limit, latency=LATENCY, seed=seed), REQUESTS)
    return figures.seconds, figures.refused


PEERS: dict[str, Callable[[str, int], tuple[float, float]]] = {
    "seorep_async": _of_ours,
    "botocore, adaptive": lambda limit, seed: _of_peer(BotocoreAdaptive, limit, seed),
    "AIMD": lambda limit, seed: _of_peer(Aimd, limit, seed),
    "fixed, 5/s": lambda limit, seed: _of_peer(lambda: FixedRate(5.0), limit, seed),
    "fixed, 20/s": lambda limit, seed: _of_peer(lambda: FixedRate(20.0), limit, seed),
}
LIMITS = {
    f"{rate}/s, {kind}{', Retry-After' if waits else ''}": (
        rate,
        f"{rate}/s{form}{',retry-after=seconds' if waits else ''}",
    )
    for rate in (2, 5, 20)
    for kind, form in (("strict", ",burst=1"), ("window of a second", ",fixed-window"))
    for waits in (False, True)
}


def table(seeds: Sequence[int]) -> str:
    """Return the median time, divided by the ideal, and the refusals of each peer at each limit."""
    rows = []
    for name, (rate, limit) in LIMITS.items():
        cells = []
        for measure in PEERS.values():
            runs = [measure(limit, seed) for seed in seeds]
            seconds = median(run[0] for run in runs)
            refused = median(run[1] for run in runs)
            cells.append(f"{seconds * rate / REQUESTS:.2f}; {100 * refused:.0f} %")
        rows.append([name, *cells])
    return as_markdown(["limit", *PEERS], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    print(table(range(9200, 9200 + parser.parse_args().seeds)))
