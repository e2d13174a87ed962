"""How near a pull comes to what latency alone would take: `python -m benchmarks.latency`."""

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
    """Pull 1,000 pages in four layouts; see when the first outcome comes, and what is computed while others wait."""
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
            if first is None:  # the first layout is that of the bar
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
                    [name, f"{found.computing / near.requests * 1e6:.0f}"]
                    for name, found in times.items()
                ],
            ),
        ],
    )


def ideal(load: Load) -> float:
    """Return the seconds that a pull takes if nothing but latency takes time and no permit is ever idle.

    A campaign's other pages can be asked for once its first page has come.
    """
    first = (
        math.ceil(load.campaigns / load.permits)
        if load.campaigns < load.permits and load.pages > 1
        else 0
    )
    rest = load.requests - (load.campaigns if first else 0)
    return (first + math.ceil(rest / load.permits)) * load.latency


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
