"""How fast a pull to each format is, and how much memory it takes: `python benchmarks/export.py [--rows N]`.

Each pull runs in a process of its own, against a service in another. The same pull with its rows dropped is the measure
for speed: computing time is compared, as if the service cost nothing; a second such pull is the control. A tenth of the
rows is the measure for memory. Reports have 1 row (of a keyword), 100 or 1,000 rows (of a campaign). It prints the
bars, and whether they hold.
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
"""Rows of a report → computing time of a row above that of one that is dropped, at most."""
SHARES = {"csv": 0.42, "jsonl": 0.45}
"""Computing time with reports of 1,000 rows dropped ÷ with them exported, at least."""
MEMORY = 1.3
"""Peak memory of ten times as much ÷ peak memory, at most."""
LIBRARIES = {"parquet": ["pyarrow.parquet", "pandas"], "duckdb": ["pyarrow", "duckdb", "pandas"]}


async def serve(size: int) -> None:
    """Serve campaigns until stdin is closed."""
    # every campaign is worded once and then remembered: the service is not what is measured
    async with Sandbox(
        campaigns=2000, keywords=keywords(size), shape="mixed", rows="mixed"
    ) as sandbox:
        print(sandbox.base_url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


def keywords(size: int) -> int:
    """Return the keywords of a campaign: rows of its report, or reports of one row."""
    return 100 if size == 1 else size


async def pull(address: str, size: int, kind: str, rows: int, folder: Path) -> dict[str, Any]:
    """Pull so many rows to a format, or drop them, and return what that took."""
    for library in LIBRARIES.get(
        kind, []
    ):  # importing is not what is measured; pyarrow imports pandas too
        importlib.import_module(library)
    feed = Feed.KEYWORD_BY_DATE if size == 1 else Feed.CAMPAIGN
    ids = range(1, rows // keywords(size) + 1)
    async with SeoRepClient(address, "sandbox") as client:
        await client.campaigns.list().page(1)
        started, processor = time.perf_counter(), time.process_time()
        if kind in ("dropped", "control"):
            if feed is Feed.KEYWORD_BY_DATE:
                found = await drop(client, Feed.CAMPAIGN, ids, DATES[feed])
                came = len(await drop(client, feed, found, DATES[feed]))
            else:
                came = len(await drop(client, feed, ids, DATES[feed]))
        else:
            summary = await pull_to(
                client, ids, *DATES[feed], out=folder / f"a.{kind}", feeds=feed, limit=500
            )
            came = summary.rows
        seconds, processor = time.perf_counter() - started, time.process_time() - processor
    assert came == rows, f"{came} of {rows} rows came"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "processor": processor, "peak": peak}


async def drop(
    client: SeoRepClient, feed: Feed, ids: Iterable[int], dates: tuple[str, str]
) -> list[int]:
    """Pull reports and drop their rows; return a keyword, or 0, for each."""
    found: list[int] = []
    async with client.rankings.pull(ids, *dates, feed=feed, limit=500) as outcomes:
        async for outcome in outcomes:
            if outcome.report is not None:
                found += [getattr(row, "keyword_id", 0) for row in outcome.report.rows]
    return found


@contextmanager
def service(size: int) -> Iterator[str]:
    """Run the service in a process of its own."""
    command = [sys.executable, __file__, "--serve", "--size", str(size)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.communicate()


def measure(address: str, size: int, kind: str, rows: int) -> dict[str, Any]:
    """Pull in a process of its own, and print what that took."""
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
        said = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, check=True, text=True
        ).stdout
        megabytes = sum(path.stat().st_size for path in folder.glob("a.*")) / 1e6
    finally:
        shutil.rmtree(folder)
    found: dict[str, Any] = json.loads(said)
    print(
        f"{size:>5} {kind:<9}{rows:>10,} rows {found['seconds']:>8.1f} s {rows / found['seconds']:>9,.0f} rows/s "
        f"{found['processor'] / rows * 1e6:>6.1f} us/row {found['peak']:>6.0f} MB peak {megabytes:>7.1f} MB out",
        flush=True,
    )
    return found


def verdict(what: str, found: float, bar: float, held: bool) -> None:
    """Print whether a bar holds."""
    print(f"{'HELD  ' if held else 'MISSED'} {what}: {found:.2f} (bar {bar})")


def speed(address: str, size: int, rows: int, rounds: int) -> None:
    """Print the median computing time of each format above that of dropped rows, and of the control."""
    measure(address, size, "dropped", rows)  # the service warms up
    taken: dict[str, list[float]] = {kind: [] for kind in ("dropped", "control", *KINDS)}
    for number in range(rounds):  # in turn, so that what else the machine does meets all alike
        for kind in list(taken) if number % 2 == 0 else reversed(taken):
            taken[kind].append(measure(address, size, kind, rows)["processor"])
    times = {kind: statistics.median(found) for kind, found in taken.items()}
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
    """Print how memory grows."""
    for kind in kinds:
        small, large = (measure(address, size, kind, count)["peak"] for count in (rows // 10, rows))
        verdict(
            f"{kind}: peak memory of {rows:,} rows / {rows // 10:,}",
            large / small,
            MEMORY,
            large <= MEMORY * small,
        )


def compare(chosen: argparse.Namespace) -> None:
    """Measure every format and print what comes out."""
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at the start")
    for size in MICROSECONDS:
        with service(size) as address:
            speed(address, size, chosen.reports if size == 1 else chosen.speed_rows, chosen.rounds)
            if size == 1 and chosen.rows:
                memory(address, size, MICROSECONDS[size], chosen.reports)
            elif size == 1000 and chosen.rows:
                memory(address, size, ["parquet"], chosen.rows)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", type=int, default=2_000_000, help="of the measure of memory; 0 leaves it out"
    )
    parser.add_argument("--speed-rows", type=int, default=200_000)
    parser.add_argument("--reports", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, default=1000, help=argparse.SUPPRESS)
    parser.add_argument("--pull", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        asyncio.run(serve(chosen.size))
    elif chosen.pull:
        print(
            json.dumps(
                asyncio.run(pull(chosen.address, chosen.size, chosen.pull, chosen.rows, Path.cwd()))
            )
        )
    else:
        compare(chosen)


if __name__ == "__main__":
    main()
