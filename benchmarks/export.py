"""Measure the speed and memory of a pull to each format: `python benchmarks/export.py [--rows N]`.

Each pull runs in its own process, against a service in another one. For speed, processor time is compared with that of
the same pull with its rows dropped; a second such pull is the control. For memory, the peak is compared with that of a
tenth of the rows. Reports have 1 row (of a keyword), or 100 or 1,000 rows (of a campaign). It prints the bars, and
whether they are held.
"""

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

DATES = {
    Feed.CAMPAIGN: ("2023-01-01", "2023-03-31"),
    Feed.KEYWORD_BY_DATE: ("2023-01-01", "2023-01-31"),
}
KINDS = ("parquet", "duckdb", "csv", "jsonl")
MICROSECONDS = {1: {"parquet": 130, "duckdb": 180}, 100: {"parquet": 11}, 1000: {"parquet": 9}}
"""By rows of a report: the largest processor time of a row, less that of a dropped one."""
SHARES = {"csv": 0.42, "jsonl": 0.45}
"""The smallest processor time of dropped reports of 1,000 rows, divided by that of exported ones."""
MEMORY = 1.3
"""The largest peak memory of all rows, divided by that of a tenth of them."""
LIBRARIES = {"parquet": ["pyarrow.parquet", "pandas"], "duckdb": ["pyarrow", "duckdb", "pandas"]}


async def serve(size: int) -> None:
    """Serve campaigns until stdin is closed."""
    # the sandbox makes each campaign only once, so that its own speed hardly matters
    async with Sandbox(
        campaigns=2000, keywords=keywords(size), shape="mixed", rows="mixed"
    ) as sandbox:
        print(sandbox.base_url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


def keywords(size: int) -> int:
    """Return the number of keywords of a campaign: rows of its report, or reports of one row."""
    return 100 if size == 1 else size


async def pull(address: str, size: int, kind: str, rows: int, folder: Path) -> dict[str, Any]:
    """Pull this number of rows to a format, or drop them. Return the time and memory."""
    # imports are not measured; pyarrow imports pandas as well
    for library in LIBRARIES.get(kind, []):
        importlib.import_module(library)
    feed = Feed.KEYWORD_BY_DATE if size == 1 else Feed.CAMPAIGN
    ids = range(1, rows // keywords(size) + 1)
    async with SeoRepClient(address, "sandbox") as client:
        await client.campaigns.list().page(1)
        started, processor = time.perf_counter(), time.process_time()
        if kind in ("dropped", "control"):
            if feed is Feed.KEYWORD_BY_DATE:
                keyword_ids = await drop(client, Feed.CAMPAIGN, ids, DATES[feed])
                received = len(await drop(client, feed, keyword_ids, DATES[feed]))
            else:
                received = len(await drop(client, feed, ids, DATES[feed]))
        else:
            summary = await pull_to(
                client, ids, *DATES[feed], out=folder / f"a.{kind}", feeds=feed, limit=500
            )
            received = summary.rows
        seconds, processor = time.perf_counter() - started, time.process_time() - processor
    assert received == rows, f"{received} of {rows} rows arrived"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "processor": processor, "peak": peak}


async def drop(
    client: SeoRepClient, feed: Feed, ids: Iterable[int], dates: tuple[str, str]
) -> list[int]:
    """Pull reports and drop their rows. Return the keyword of each row, or 0."""
    keyword_ids: list[int] = []
    async with client.rankings.pull(ids, *dates, feed=feed, limit=500) as outcomes:
        async for outcome in outcomes:
            if outcome.report is not None:
                keyword_ids += [getattr(row, "keyword_id", 0) for row in outcome.report.rows]
    return keyword_ids


@contextmanager
def service(size: int) -> Iterator[str]:
    """Run the service in its own process."""
    command = [sys.executable, __file__, "--serve", "--size", str(size)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.communicate()


def measure(address: str, size: int, kind: str, rows: int) -> dict[str, Any]:
    """Pull in a new process, print the time and memory, and return them."""
    folder = Path(tempfile.mkdtemp(prefix="seorep-benchmark-"))
    try:
        command = [
            sys.executable,
            __file__,
            "--pull",
            kind,
            "--size",
            str(size),
            "--rows",
            str(rows),
        ]
        command += ["--address", address]
        printed = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, check=True, text=True
        ).stdout
        megabytes = sum(path.stat().st_size for path in folder.glob("a.*")) / 1e6
    finally:
        shutil.rmtree(folder)
    figures: dict[str, Any] = json.loads(printed)
    print(
        f"{size:>5} {kind:<9}{rows:>10,} rows {figures['seconds']:>8.1f} s {rows / figures['seconds']:>9,.0f} rows/s "
        f"{figures['processor'] / rows * 1e6:>6.1f} us/row {figures['peak']:>6.0f} MB peak {megabytes:>7.1f} MB out",
        flush=True,
    )
    return figures


def verdict(title: str, figure: float, bar: float, is_held: bool) -> None:
    """Print whether a bar is held."""
    print(f"{'HELD  ' if is_held else 'MISSED'} {title}: {figure:.2f} (bar {bar})")


def speed(address: str, size: int, rows: int, rounds: int) -> None:
    """Print the median processor time of each format and of the control, less that of dropped rows."""
    measure(address, size, "dropped", rows)  # the service warms up
    runs: dict[str, list[float]] = {kind: [] for kind in ("dropped", "control", *KINDS)}
    for number in range(rounds):  # in turn, so that other programs slow all formats alike
        for kind in list(runs) if number % 2 == 0 else reversed(runs):
            runs[kind].append(measure(address, size, kind, rows)["processor"])
    times = {kind: statistics.median(seconds) for kind, seconds in runs.items()}
    for kind in ("control", *KINDS):
        above, share = (times[kind] - times["dropped"]) / rows * 1e6, times["dropped"] / times[kind]
        says = (
            f"{kind}: microseconds a row above a dropped one, {rows // size:,} reports of {size:,}"
        )
        if kind in MICROSECONDS[size]:
            verdict(says, above, MICROSECONDS[size][kind], above <= MICROSECONDS[size][kind])
        elif size == 1000 and kind in SHARES:
            verdict(
                f"{kind}: computing time of dropped rows, as a share",
                share,
                SHARES[kind],
                share >= SHARES[kind],
            )
        else:
            print(f"       {says}: {above:.2f}")


def memory(address: str, size: int, kinds: Iterable[str], rows: int) -> None:
    """Print how the peak memory grows with the number of rows."""
    for kind in kinds:
        small, large = (measure(address, size, kind, count)["peak"] for count in (rows // 10, rows))
        verdict(
            f"{kind}: peak memory of {rows:,} rows / {rows // 10:,}",
            large / small,
            MEMORY,
            large <= MEMORY * small,
        )


def compare(options: argparse.Namespace) -> None:
    """Measure every format, and print the figures and bars."""
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at the start")
    for size in MICROSECONDS:
        with service(size) as address:
            rows = options.reports if size == 1 else options.speed_rows
            speed(address, size, rows, options.rounds)
            if size == 1 and options.rows:
                memory(address, size, MICROSECONDS[size], options.reports)
            elif size == 1000 and options.rows:
                memory(address, size, ["parquet"], options.rows)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def main() -> None:
    """Run the comparison, or the service or the pull in a process of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", type=int, default=2_000_000, help="rows for the peak memory; 0 to leave it out"
    )
    parser.add_argument("--speed-rows", type=int, default=200_000)
    parser.add_argument("--reports", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, default=1000, help=argparse.SUPPRESS)
    parser.add_argument("--pull", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.size))
    elif options.pull:
        pulling = pull(options.address, options.size, options.pull, options.rows, Path.cwd())
        print(json.dumps(asyncio.run(pulling)))
    else:
        compare(options)


if __name__ == "__main__":
    main()
