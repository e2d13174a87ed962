"""Measure pulls of many campaigns, beside the alternatives that users have: `python -m benchmarks.pull`."""

from benchmarks import peers
from benchmarks.alternating import Ratio, Times, alternate
from benchmarks.findings import Bar, Findings, Panel, Table, command
from benchmarks.load import Load
from benchmarks.peers import BARE, GIVES_MODELS, OURS, PYDANTIC, REQUESTS
from benchmarks.server import serving

_OTHERS_AT_LEAST = {PYDANTIC: 2.5, REQUESTS: 1.3}
_AT_LEAST = {(100, 3): 1.2, (100, 20): 1.0, (1, 1): 0.80, (1, 3): 0.77, (1, 20): 0.77}
"""The smallest speed, divided by that of aiohttp by hand, by rows a page and pages a campaign.

The bars for pages of one row are limits: `ClientSession.request` alone costs too much beside a bare `session.get`."""


def measure(quick: bool) -> Findings:
    """Pull pages of 100 rows and of one row, in campaigns of 1, 3 and 20 pages; then one load with all peers."""
    both = peers.find([OURS, BARE])
    bars, rows = [], []
    for load in [
        _load(size, pages, quick) for size in (100, 1) for pages in ((3,) if quick else (1, 3, 20))
    ]:
        with serving(load) as address:
            times = alternate(peers.runs(both, address, load), 1 if quick else 9)
        ratio = Ratio.of(times[BARE].wall, times[OURS].wall) if BARE in times else None
        if required := _AT_LEAST.get((load.rows, load.pages)):
            says = f"pull {load.rows}-row pages, {load.pages} a campaign: speed, against {BARE}"
            bars.append(
                Bar(
                    says,
                    required,
                    ratio,
                    at_least=True,
                    is_limit=load.rows == 1,
                    note=both.missing.get(BARE, ""),
                )
            )
        rows += [[name, *_figures(load, peer_times)] for name, peer_times in times.items()]

    everyone = peers.find([OURS, BARE, *_OTHERS_AT_LEAST])
    large = (
        Load(campaigns=4, pages=2, rows=100) if quick else Load(campaigns=40, pages=20, rows=100)
    )
    with serving(large) as address:
        times = alternate(peers.runs(everyone, address, large), 1 if quick else 7)
    bars += [
        Bar(
            f"pull 100-row pages: typed rows/s, against {name}",
            bar,
            Ratio.of(times[name].wall, times[OURS].wall) if name in times else None,
            at_least=True,
            note=everyone.missing.get(name, ""),
        )
        for name, bar in _OTHERS_AT_LEAST.items()
    ]
    speeds = {name: large.all_rows / peer_times.seconds for name, peer_times in times.items()}
    head = [
        "",
        "campaigns × pages × rows",
        "rows/s",
        "requests/s",
        "µs a request",
        "computing, µs a request",
    ]
    return Findings(
        bars=bars,
        tables=[
            Table("Pulls, 16 permits, no latency", head, rows),
            Table(
                f"A pull of {large.layout}, 16 permits, no latency, with everyone",
                head,
                [[name, *_figures(large, peer_times)] for name, peer_times in times.items()],
            ),
        ],
        panels=[
            Panel("A pull of 100-row pages", "rows a second, more is better", _labelled(speeds))
        ],
    )


def _load(rows: int, pages: int, quick: bool) -> Load:
    if quick:
        requests = 20
    else:
        requests = 900 if rows > 1 else 2000
    return Load(campaigns=max(1, requests // pages), pages=pages, rows=rows)


def _figures(load: Load, times: Times) -> list[str]:
    return [
        load.layout,
        f"{load.all_rows / times.seconds:,.0f}",
        f"{load.requests / times.seconds:,.0f}",
        f"{times.seconds / load.requests * 1e6:.0f}",
        f"{times.computing / load.requests * 1e6:.0f}",
    ]


def _labelled(speeds: dict[str, float]) -> list[tuple[str, float]]:
    return [
        (f"{name}: {'models' if name in GIVES_MODELS else 'dicts'}", speed)
        for name, speed in speeds.items()
    ]


if __name__ == "__main__":
    command(measure, __doc__)
