"""Measure how long other tasks wait while pages are decoded and pulls begin: `python -m benchmarks.loop_stalls`."""

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Sequence

from benchmarks.findings import Bar, Findings, Table, command
from benchmarks.load import API_KEY, END_DATE, START_DATE, Load
from benchmarks.server import serving
from seorep_async import SeoRepClient, Settings

_BEAT = 0.001


def measure(quick: bool) -> Findings:
    """Pull beside a task that is due every millisecond, and measure its delay; then the same on an idle loop."""
    rounds = 1 if quick else 5
    loads = {
        25.0: Load(campaigns=2 if quick else 32, pages=1, rows=2_000 if quick else 5_000),
        5.0: Load(campaigns=4 if quick else 40, pages=2 if quick else 5, rows=50 if quick else 500),
    }
    bars, rows = [], []
    for bar, load in loads.items():
        with serving(load) as address:
            asyncio.run(_latest(_pull(address, load)))
            gc.collect()
            gc.freeze()  # the benchmark's own objects must not slow collections during the pull
            busy, idle = [], []
            for _ in range(rounds):
                began = time.perf_counter()
                busy.append(asyncio.run(_latest(_pull(address, load))))
                idle.append(asyncio.run(_latest(asyncio.sleep(time.perf_counter() - began))))
        bars.append(
            Bar(
                f"pages of {load.rows:,} rows: the longest that another task waits",
                bar,
                max(busy),
                unit="ms",
                note=f"with nothing else running: {max(idle):.2g} ms",
            )
        )
        gc.unfreeze()
        medians = statistics.median(busy), statistics.median(idle)
        rows.append(
            [
                load.layout,
                f"{max(busy):.1f}",
                f"{medians[0]:.1f}",
                f"{max(idle):.1f}",
                f"{medians[1]:.1f}",
            ],
        )
    many = 20_000 if quick else 1_000_000
    starting = [
        asyncio.run(_latest(_start(ids))) for ids in (range(1, many + 1), list(range(1, many + 1)))
    ]
    bars.append(
        Bar(
            f"starting a pull of {many:,} ids: the longest that another task waits",
            120,
            max(starting),
            unit="ms",
        )
    )
    return Findings(
        bars=bars,
        tables=[
            Table(
                f"The longest that another task waits during a pull, ms ({rounds} runs)",
                [
                    "campaigns × pages × rows",
                    "worst run",
                    "median run",
                    "idle loop, worst run",
                    "idle loop, median run",
                ],
                rows,
            )
        ],
    )


async def _pull(address: str, load: Load) -> None:
    """Read every row, with pauses, because the time of the consumer must not count."""
    async with (
        SeoRepClient(address, API_KEY, settings=Settings(max_concurrency=load.permits)) as client,
        client.rankings.pull(range(1, load.campaigns + 1), START_DATE, END_DATE) as outcomes,
    ):
        async for outcome in outcomes:
            assert outcome.report is not None, outcome.error
            for number, _ in enumerate(outcome.report.rows, 1):
                if number % 500 == 0:
                    await asyncio.sleep(0)


async def _start(ids: Sequence[int]) -> None:
    """Begin a pull, and leave it before its first response."""
    await asyncio.sleep(2 * _BEAT)
    async with (
        SeoRepClient("http://127.0.0.1:9", API_KEY) as client,
        client.rankings.pull(ids, START_DATE, END_DATE),
    ):
        await asyncio.sleep(0)


async def _latest(work: Awaitable[object]) -> float:
    """Return the longest delay, in milliseconds, of a task that is due every millisecond."""
    latest = 0.0

    async def beat() -> None:
        nonlocal latest
        while True:
            due = time.perf_counter() + _BEAT
            await asyncio.sleep(_BEAT)
            latest = max(latest, time.perf_counter() - due)

    beating = asyncio.create_task(beat())
    try:
        await work
        await asyncio.sleep(2 * _BEAT)
    finally:
        beating.cancel()
    return latest * 1e3


if __name__ == "__main__":
    command(measure, __doc__)
