"""Compare the time of a pull with that of its latency alone: `python -m benchmarks.latency`."""

import asyncio
import math
import statistics
import time

from benchmarks import peers
from benchmarks.alternating import Ratio, alternate
from benchmarks.findings import Bar, Findings, Table, command
from benchmarks.load import API_KEY, END_DATE, START_DATE, Load
from benchmarks.peers import BARE, OURS
from benchmarks.server import serving
from seorep_async import SeoRepClient, Settings

_ROWS = 50


def measure(quick: bool) -> Findings:
    """Pull 1,000 pages in four layouts. Measure the time, the first outcome, and the processor time of a request."""
    rounds = 1 if quick else 3
    layouts = [(8, 4), (32, 1)] if quick else [(100, 10), (1000, 1), (250, 4), (1, 1000)]
    loads = [
        Load(campaigns=campaigns, pages=pages, rows=_ROWS, latency=0.05)
        for campaigns, pages in layouts
    ]
    both = peers.find([OURS, BARE])
    shares: list[Ratio] = []
    first: float | None = None
    rows = []
    for load in loads:
        with serving(load) as address:
            times = alternate(peers.runs(both, address, load), rounds)
            # the bar for the first outcome is about the first layout
            if first is None:
                first = (
                    statistics.median(asyncio.run(_first(address, load)) for _ in range(rounds))
                    / load.latency
                )
        shares.append(Ratio.of(times[OURS].wall, [ideal(load)] * rounds))
        rows.append(
            [
                load.layout,
                f"{ideal(load):.2f}",
                *(f"{times[n].seconds:.2f}" if n in times else "–" for n in (OURS, BARE)),
            ]
        )
    near = Load(campaigns=4 if quick else 100, pages=10, rows=10, latency=0.02)
    with serving(near) as address:
        times = alternate(peers.runs(both, address, near), 1 if quick else 5)
    pages = f"{loads[0].requests:,} pages, 16 permits, 50 ms"
    return Findings(
        bars=[
            Bar(
                f"{pages}: time, against ideal", 1.05, max(shares), note="the worst of four layouts"
            ),
            Bar(f"{pages}: first outcome, against the latency", 3, first),
        ],
        tables=[
            Table(
                f"A pull of {pages} latency, seconds",
                ["campaigns × pages × rows", "ideal", OURS, BARE],
                rows,
            ),
            Table(
                f"Computing in a pull of {near.layout}, 16 permits, 20 ms latency",
                ["", "µs a request"],
                [
                    [name, f"{peer_times.computing / near.requests * 1e6:.0f}"]
                    for name, peer_times in times.items()
                ],
            ),
        ],
    )


def ideal(load: Load) -> float:
    """Return the seconds that a pull takes if only latency takes time and no permit is ever idle.

    The other pages of a campaign can only be requested when its first page has arrived.
    """
    rounds = math.ceil(load.requests / load.permits)
    # with few campaigns, some permits are idle while the first pages are fetched
    if load.campaigns < load.permits and load.pages > 1:
        rounds = 1 + math.ceil((load.requests - load.campaigns) / load.permits)
    return rounds * load.latency


async def _first(address: str, load: Load) -> float:
    """Return the seconds until the first outcome."""
    ids = range(1, load.campaigns + 1)
    async with SeoRepClient(
        address, API_KEY, settings=Settings(max_concurrency=load.permits)
    ) as client:
        began = time.perf_counter()
        async with client.rankings.pull(ids, START_DATE, END_DATE) as outcomes:
            outcome = await anext(outcomes)
            took = time.perf_counter() - began
    assert outcome.ok
    return took


if __name__ == "__main__":
    command(measure, __doc__)
