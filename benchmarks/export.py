"""How fast a pull to each format is, and how much memory it takes: `python benchmarks/export.py [--rows N]`.

Each pull runs in a process of its own, against a service in another. The same pull with its rows dropped is the measure
for speed: computing time is compared, as if the service cost nothing. A tenth of the rows, or of the reports, is the
measure for memory. There are two shapes: campaigns of 1,000 rows, and keywords whose report is one row. It prints the
bars, and whether they hold.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seorep_async import Feed, SeoRepClient
from seorep_async.export import pull_to
from seorep_async.sandbox import Sandbox

KEYWORDS = {Feed.CAMPAIGN: 1000, Feed.KEYWORD_BY_DATE: 100}
"""Keywords of each campaign: rows of a report, or reports of a campaign."""
DATES = {Feed.CAMPAIGN: ("2023-01-01", "2023-03-31"), Feed.KEYWORD_BY_DATE: ("2023-01-01", "2023-01-31")}
SHARES = {"parquet": 0.55, "csv": 0.42, "jsonl": 0.45}
"""Computing time with rows dropped ÷ with rows exported, at least."""
MICROSECONDS = {"parquet": 150, "duckdb": 250}
"""Computing time of a report of one row above that of one that is dropped, at most."""
MEMORY = 1.3
"""Peak memory of ten times as much ÷ peak memory, at most."""
LIBRARIES = {"parquet": ["pyarrow.parquet", "pandas"], "duckdb": ["pyarrow", "duckdb", "pandas"]}


async def serve(feed: Feed) -> None:
    """Serve campaigns until stdin is closed."""
    # every campaign is worded once and then remembered: the service is not what is measured
    async with Sandbox(campaigns=2000, keywords=KEYWORDS[feed], shape="mixed", rows="mixed") as sandbox:
        print(sandbox.base_url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def pull(address: str, feed: Feed, kind: str, rows: int, folder: Path) -> dict[str, Any]:
    """Pull so many rows to a format, or drop them, and return what that took."""
    for library in LIBRARIES.get(kind, []):  # importing is not what is measured; pyarrow imports pandas too
        importlib.import_module(library)
    ids = range(1, rows // KEYWORDS[feed] + 1)
    async with SeoRepClient(address, "sandbox") as client:
        await client.campaigns.list().page(1)
        started, processor = time.perf_counter(), time.process_time()
        if kind == "dropped":
            if feed is Feed.KEYWORD_BY_DATE:
                found = await drop(client, Feed.CAMPAIGN, ids, DATES[feed])
                came = len(await drop(client, feed, found, DATES[feed]))
            else:
                came = len(await drop(client, feed, ids, DATES[feed]))
        else:
            summary = await pull_to(client, ids, *DATES[feed], out=folder / f"a.{kind}", feeds=feed, limit=500)
            came = summary.rows
        seconds, processor = time.perf_counter() - started, time.process_time() - processor
    assert came == rows, f"{came} of {rows} rows came"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "processor": processor, "peak": peak}


async def drop(client: SeoRepClient, feed: Feed, ids: Iterable[int], dates: tuple[str, str]) -> list[int]:
    """Pull reports and drop their rows; return a keyword, or 0, for each."""
    keywords: list[int] = []
    async with client.rankings.pull(ids, *dates, feed=feed, limit=500) as outcomes:
        async for outcome in outcomes:
            if outcome.report is not None:
                keywords += [getattr(row, "keyword_id", 0) for row in outcome.report.rows]
    return keywords


@contextmanager
def service(feed: Feed) -> Iterator[str]:
    """Run the service in a process of its own."""
    command = [sys.executable, __file__, "--serve", "--feed", feed.value]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.communicate()


def measure(address: str, feed: Feed, kind: str, rows: int) -> dict[str, Any]:
    """Pull in a process of its own, and print what that took."""
    folder = Path(tempfile.mkdtemp(prefix="seorep-benchmark-"))
    try:
        command = [sys.executable, __file__, "--pull", kind, "--feed", feed.value, "--rows", str(rows)]
        command += ["--address", address]
        said = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True, text=True).stdout
        size = sum(path.stat().st_size for path in folder.glob("a.*")) / 1e6
    finally:
        shutil.rmtree(folder)
    found: dict[str, Any] = json.loads(said)
    print(
        f"{feed.value:<16}{kind:<9}{rows:>10,} rows {found['seconds']:>8.1f} s {rows / found['seconds']:>9,.0f} rows/s "
        f"{found['processor'] / rows * 1e6:>6.1f} us/row {found['peak']:>6.0f} MB peak {size:>7.1f} MB out",
        flush=True,
    )
    return found


def verdict(what: str, found: float, bar: float, held: bool) -> None:
    """Print whether a bar holds."""
    print(f"{'HELD  ' if held else 'MISSED'} {what}: {found:.2f} (bar {bar})")


def computing(address: str, feed: Feed, kinds: Iterable[str], rows: int) -> dict[str, float]:
    """Return the median computing time of each format, in seconds."""
    measure(address, feed, "dropped", rows)  # the service warms up
    taken: dict[str, list[float]] = {kind: [] for kind in ("dropped", *kinds)}
    for _ in range(3):  # in turn, so that what else the machine does meets all alike
        for kind, times in taken.items():
            times.append(measure(address, feed, kind, rows)["processor"])
    return {kind: statistics.median(times) for kind, times in taken.items()}


def memory(address: str, feed: Feed, kinds: Iterable[str], rows: int) -> None:
    """Print how memory grows."""
    for kind in kinds:
        small, large = (measure(address, feed, kind, count)["peak"] for count in (rows // 10, rows))
        verdict(
            f"{kind}: peak memory of {rows:,} rows / {rows // 10:,}", large / small, MEMORY, large <= MEMORY * small
        )


def compare(rows: int, speed_rows: int, reports: int) -> None:
    """Measure every format and print what comes out."""
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at the start")
    with service(Feed.CAMPAIGN) as address:
        times = computing(address, Feed.CAMPAIGN, (*SHARES, "duckdb"), speed_rows)
        for kind, bar in SHARES.items():
            share = times["dropped"] / times[kind]
            verdict(
                f"{kind}: computing time of dropped rows, as a share, {speed_rows:,} rows", share, bar, share >= bar
            )
        memory(address, Feed.CAMPAIGN, ["parquet"], rows)
    with service(Feed.KEYWORD_BY_DATE) as address:
        times = computing(address, Feed.KEYWORD_BY_DATE, MICROSECONDS, reports)
        for kind, bar in MICROSECONDS.items():
            above = (times[kind] - times["dropped"]) / reports * 1e6
            verdict(f"{kind}: microseconds above a dropped report of one row, {reports:,}", above, bar, above <= bar)
        memory(address, Feed.KEYWORD_BY_DATE, MICROSECONDS, reports)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--speed-rows", type=int, default=200_000)
    parser.add_argument("--reports", type=int, default=20_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--feed", type=Feed, default=Feed.CAMPAIGN, help=argparse.SUPPRESS)
    parser.add_argument("--pull", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        asyncio.run(serve(chosen.feed))
    elif chosen.pull:
        print(json.dumps(asyncio.run(pull(chosen.address, chosen.feed, chosen.pull, chosen.rows, Path.cwd()))))
    else:
        compare(chosen.rows, chosen.speed_rows, chosen.reports)


if __name__ == "__main__":
    main()
