"""Measure how the cost grows with rows, campaigns, permits and latency: `python -m benchmarks.scaling`."""

from collections.abc import Callable

from benchmarks import peers
from benchmarks.alternating import Ratio, Times, alternate
from benchmarks.findings import Findings, Table, command
from benchmarks.latency import ideal
from benchmarks.load import Load
from benchmarks.peers import BARE, OURS
from benchmarks.server import serving

_ROWS_A_RUN, _MOST_REQUESTS = 40_000, 2_000


def measure(quick: bool) -> Findings:
    """Change one size at a time, and measure this package and aiohttp by hand at each value."""
    rounds = 1 if quick else 5
    return Findings(
        tables=[
            _table(
                "Rows a page (16 permits, no latency)",
                "rows",
                "µs a row",
                {
                    f"{rows:,}": _of_rows(rows, quick)
                    for rows in ((100,) if quick else (1, 5, 25, 100, 500, 1000, 5000))
                },
                lambda load, seconds: f"{seconds / load.all_rows * 1e6:.2f}",
                rounds,
            ),
            _table(
                "Campaigns (one page of 10 rows each, 16 permits, no latency)",
                "campaigns",
                "µs a campaign",
                {
                    f"{n:,}": Load(campaigns=n, pages=1, rows=10)
                    for n in ((100,) if quick else (100, 1000, 10_000))
                },
                lambda load, seconds: f"{seconds / load.campaigns * 1e6:.0f}",
                rounds,
            ),
            _table(
                "Permits (10 pages a campaign, 10 rows a page, 20 ms latency)",
                "permits",
                "× ideal",
                {
                    f"{n}": _of_permits(n, quick)
                    for n in ((16,) if quick else (1, 2, 4, 8, 16, 32, 64, 128))
                },
                lambda load, seconds: f"{seconds / ideal(load):.2f}",
                rounds,
            ),
            _table(
                "Latency (32 campaigns of 10 pages of 10 rows, 16 permits)",
                "latency",
                "seconds",
                dict(_of_latency(n, quick) for n in ((10,) if quick else (0, 5, 20, 50, 100, 200))),
                lambda load, seconds: f"{seconds:.2f}",
                rounds,
            ),
        ]
    )


def _of_rows(rows: int, quick: bool) -> Load:
    requests = min(_MOST_REQUESTS, max(20, _ROWS_A_RUN // rows)) // (10 if quick else 1)
    return Load(campaigns=max(1, requests // 10), pages=min(10, requests), rows=rows)


def _of_permits(permits: int, quick: bool) -> Load:
    return Load(
        campaigns=2 * max(permits, 4),
        pages=1 if quick else 10,
        rows=10,
        permits=permits,
        latency=0.02,
    )


def _of_latency(milliseconds: int, quick: bool) -> tuple[str, Load]:
    load = Load(campaigns=32, pages=1 if quick else 10, rows=10, latency=milliseconds / 1e3)
    return f"{milliseconds} ms (ideal {ideal(load):.2f} s)", load


def _table(
    title: str,
    axis: str,
    unit: str,
    loads: dict[str, Load],
    figure: Callable[[Load, float], str],
    rounds: int,
) -> Table:
    """Measure the loads of one size."""
    both = peers.find([OURS, BARE])
    rows = []
    for size, load in loads.items():
        with serving(load) as address:
            times: dict[str, Times] = alternate(peers.runs(both, address, load), rounds)
        share = Ratio.of(times[BARE].wall, times[OURS].wall) if BARE in times else None
        figures = (
            figure(load, times[name].seconds) if name in times else "–" for name in (OURS, BARE)
        )
        rows.append(
            [size, *figures, *((f"{share:.2f}", f"{share.control or 1:.2f}") if share else "––")]
        )
    return Table(
        title, [axis, f"{OURS}, {unit}", f"{BARE}, {unit}", "speed against bare", "control"], rows
    )


if __name__ == "__main__":
    command(measure, __doc__)
