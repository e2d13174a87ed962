"""How fast many campaigns come in, next to what users would pick instead: `python -m benchmarks.pull`."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.alternating import Times, alternate
from benchmarks.findings import Bar, Findings, Panel, Table, command
from benchmarks.load import Load
from benchmarks.peers import BARE, DLT, GENERATED, GIVES_MODELS, OURS, PYDANTIC, REQUESTS
from benchmarks.server import serving

_AT_LEAST = {BARE: 0.8, PYDANTIC: 2.5, GENERATED: 4.0, REQUESTS: 1.3, DLT: 8.0}
_SMALL_AT_LEAST = 0.75


def measure(quick: bool) -> Findings:
    """Pull pages of 100 rows with every peer, then pages of one row with aiohttp alone."""
    rounds = 1 if quick else 7
    everyone = peers.find([OURS, *_AT_LEAST])
    large = Load(campaigns=4, pages=2, rows=100) if quick else Load(campaigns=40, pages=20, rows=100)
    with serving(large) as address:
        times = alternate(peers.runs(everyone, address, large), rounds)

    two = peers.find([OURS, BARE])
    small_loads = [
        Load(campaigns=5 if quick else 100, pages=4 if quick else 20, rows=1),
        Load(campaigns=20 if quick else 2000, pages=1, rows=1),
    ]
    small: list[tuple[Load, dict[str, Times]]] = []
    for load in small_loads:
        with serving(load) as address:
            small.append((load, alternate(peers.runs(two, address, load), 3 if quick else 11)))

    bars = [
        Bar(
            f"pull 100-row pages: typed rows/s, against {name}",
            bar,
            times[name].seconds / times[OURS].seconds if name in times else None,
            at_least=True,
            note=everyone.missing.get(name, ""),
        )
        for name, bar in _AT_LEAST.items()
    ]
    bars.append(
        Bar(
            f"pull 1-row pages: requests/s, against {BARE}",
            _SMALL_AT_LEAST,
            min(found[BARE].seconds / found[OURS].seconds for _, found in small) if BARE in two.pulls else None,
            at_least=True,
            note=two.missing.get(BARE, "the worse of two layouts"),
        )
    )
    speeds = {name: large.all_rows / found.seconds for name, found in times.items()}
    return Findings(
        bars=bars,
        tables=[
            Table(
                f"A pull of {large.layout} (campaigns × pages × rows), 16 permits, no latency",
                ["", "rows/s", "µs a row", "computing, µs a row"],
                [
                    [
                        name,
                        f"{speeds[name]:,.0f}",
                        f"{found.seconds / large.all_rows * 1e6:.2f}",
                        f"{found.computing / large.all_rows * 1e6:.2f}",
                    ]
                    for name, found in times.items()
                ],
            ),
            Table(
                "Pages of one row, 16 permits, no latency",
                ["", "layout", "requests/s", "µs a request", "computing, µs a request"],
                [
                    [
                        name,
                        load.layout,
                        f"{load.requests / one.seconds:,.0f}",
                        f"{one.seconds / load.requests * 1e6:.0f}",
                        f"{one.computing / load.requests * 1e6:.0f}",
                    ]
                    for load, found in small
                    for name, one in found.items()
                ],
            ),
        ],
        panels=[Panel("A pull of 100-row pages", "rows a second, more is better", _labelled(speeds))],
    )


def _labelled(speeds: dict[str, float]) -> list[tuple[str, float]]:
    return [(f"{name}: {'models' if name in GIVES_MODELS else 'dicts'}", speed) for name, speed in speeds.items()]


if __name__ == "__main__":
    command(measure, __doc__)
