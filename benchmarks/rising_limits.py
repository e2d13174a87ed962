"""Measure how soon a client uses a limit that rises, in virtual time: `python -m benchmarks.rising_limits`."""

from __future__ import annotations

import argparse
from statistics import median

import attrs

from benchmarks.findings import as_markdown
from tests.session.simulated_service import Limited, Limiter, SimulatedService, simulate
from tests.session.virtual_loop import here

RISES = ((5, 20), (10, 40), (50, 200))
KINDS = {"bucket of one": ",burst=1", "fixed window of a second": ",fixed-window"}
LATENCY = 0.05
EARLIEST_RISE = 20.0  # seconds after the beginning


class Rising(Limiter):
    """A limit that is replaced by a higher one at a moment."""

    def __init__(self, before: Limited, after: Limited, moment: float) -> None:
        self._before = before
        self._after = after
        self._moment = moment

    def take(self) -> bool:
        limited = self._before if here().now < self._moment else self._after
        is_let_through = limited.take()
        self.retry_after = limited.retry_after
        return is_let_through


@attrs.frozen
class Case:
    """A limit in requests a second that rises, with a kind of limiter."""

    before: int
    after: int
    kind: str
    asks_to_wait: bool

    def used_part(self, seed: int) -> tuple[float, float]:
        """Return the share of the new limit that is used 10 and 20 seconds after the rise."""
        # The rise must not meet the same phase of the client's rate in every run.
        moment = EARLIEST_RISE + 5 * (0.618 * seed % 1)
        limiter = Rising(self._limited(self.before, seed), self._limited(self.after, seed), moment)
        service = SimulatedService(limiter, latency=LATENCY, seed=seed)
        figures = simulate(service, 60 * self.after)
        assert figures.lost == 0
        soon = figures.rate(moment + 8, moment + 12) / self.after
        later = figures.rate(moment + 18, moment + 22) / self.after
        return soon, later

    def _limited(self, rate: int, seed: int) -> Limited:
        retry_after = ",retry-after=seconds" if self.asks_to_wait else ""
        return Limited(f"{rate}/s{KINDS[self.kind]}{retry_after}", seed)


HEAD = (
    "limit",
    "limiter",
    "refusals",
    "after 10 s, median",
    "worst",
    "after 20 s, median",
    "worst",
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    seeds = range(9000, 9000 + parser.parse_args().seeds)
    rows = []
    for before, after in RISES:
        for kind in KINDS:
            for asks_to_wait in (False, True):
                case = Case(before, after, kind, asks_to_wait)
                parts = [case.used_part(seed) for seed in seeds]
                soon = [part for part, _ in parts]
                later = [part for _, part in parts]
                figures = (median(soon), min(soon), median(later), min(later))
                refusals = "Retry-After" if asks_to_wait else "bare"
                cells = [f"{figure:.2f}" for figure in figures]
                rows.append([f"{before} to {after}/s", kind, refusals, *cells])
    print(as_markdown(HEAD, rows))


if __name__ == "__main__":
    main()
