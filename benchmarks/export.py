"""How fast a pull to each format is, and how much memory it takes: `python benchmarks/export.py [--rows N]`.

Each pull runs in a process of its own, against a service in another: the same pull with its rows dropped is the
measure for speed, a tenth of the rows the measure for memory. It prints the bars, and whether they hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seorep_async import SeoRepClient
from seorep_async.export import pull_to
from seorep_async.export.formats import Format
from seorep_async.sandbox import Sandbox

KEYWORDS = 1000
FIRST, LAST = "2023-01-01", "2023-03-31"
SPEED_BAR, MEMORY_BAR = 0.5, 1.2
KINDS = ("dropped", "parquet", "csv", "jsonl", "duckdb")


async def serve() -> None:
    """Serve campaigns of 1,000 keywords until stdin is closed."""
    # every campaign is worded once and then remembered: the service is not what is measured
    async with Sandbox(campaigns=2000, keywords=KEYWORDS, shape="mixed", rows="mixed") as sandbox:
        print(sandbox.base_url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def pull(address: str, kind: str, rows: int, folder: Path) -> dict[str, Any]:
    """Pull so many rows to a format, or drop them, and return what that took."""
    if kind != "dropped":
        Format(f".{kind}").require_extra()  # importing is not what is measured
    ids = range(1, rows // KEYWORDS + 1)
    async with SeoRepClient(address, "sandbox") as client:
        await client.campaigns.list().page(1)
        started, processor = time.perf_counter(), time.process_time()
        came = 0
        if kind == "dropped":
            async with client.rankings.pull(ids, FIRST, LAST, limit=500) as outcomes:
                async for outcome in outcomes:
                    came += len(outcome.report.rows) if outcome.report else 0
        else:
            summary = await pull_to(client, ids, FIRST, LAST, out=folder / f"a.{kind}", limit=500)
            came = summary.rows
        seconds, processor = time.perf_counter() - started, time.process_time() - processor
    assert came == rows, f"{came} of {rows} rows came"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "processor": processor, "peak": peak}


@contextmanager
def service() -> Iterator[str]:
    """Run the service in a process of its own."""
    with subprocess.Popen([sys.executable, __file__, "--serve"], stdin=-1, stdout=-1, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.communicate()


def measure(address: str, kind: str, rows: int) -> dict[str, Any]:
    """Pull in a process of its own."""
    folder = Path(tempfile.mkdtemp(prefix="seorep-benchmark-"))
    try:
        command = [sys.executable, __file__, "--pull", kind, "--rows", str(rows), "--address", address]
        told = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True, text=True).stdout
        found: dict[str, Any] = json.loads(told)
        found["size"] = sum(path.stat().st_size for path in folder.glob("a.*")) / 1e6
        return found
    finally:
        shutil.rmtree(folder)


def show(kind: str, rows: int, found: dict[str, Any], dropped: float | None) -> float:
    """Print a line, and return rows a second."""
    speed: float = rows / found["seconds"]
    share = f"{speed / dropped:.2f} x dropped" if dropped else ""
    print(
        f"{kind:<9}{rows:>10,} rows {found['seconds']:>8.1f} s {speed:>9,.0f} rows/s {share:<15}"
        f"{found['processor'] / rows * 1e6:>6.1f} us/row {found['peak']:>6.0f} MB peak {found['size']:>7.1f} MB out",
        flush=True,
    )
    return speed


def verdict(what: str, found: float, bar: float, held: bool) -> None:
    """Print whether a bar holds."""
    print(f"{'HELD  ' if held else 'MISSED'} {what}: {found:.2f} (bar {bar})")


def compare(rows: int, speed_rows: int) -> None:
    """Measure every format and print what comes out."""
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at the start")
    with service() as address:
        measure(address, "dropped", speed_rows)  # the service warms up
        speeds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for _ in range(3):  # in turn, so that what else the machine does meets all alike
            for kind in KINDS:
                found = measure(address, kind, speed_rows)
                dropped = max(speeds["dropped"], default=None)
                speeds[kind].append(show(kind, speed_rows, found, dropped))
        small = measure(address, "parquet", rows // 10)
        show("parquet", rows // 10, small, None)
        whole_dropped = show("dropped", rows, measure(address, "dropped", rows), None)
        large = measure(address, "parquet", rows)
        whole = show("parquet", rows, large, whole_dropped)
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    for kind in KINDS[1:]:
        share = sorted(speeds[kind])[1] / sorted(speeds["dropped"])[1]
        verdict(
            f"{kind}: median speed, as a share of dropped rows', {speed_rows:,} rows",
            share,
            SPEED_BAR,
            share >= SPEED_BAR,
        )
    verdict(f"parquet: the same, {rows:,} rows", whole / whole_dropped, SPEED_BAR, whole >= SPEED_BAR * whole_dropped)
    growth = large["peak"] / small["peak"]
    verdict(f"parquet: peak memory of {rows:,} rows / {rows // 10:,}", growth, MEMORY_BAR, growth <= MEMORY_BAR)


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--speed-rows", type=int, default=200_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--pull", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        asyncio.run(serve())
    elif chosen.pull:
        print(json.dumps(asyncio.run(pull(chosen.address, chosen.pull, chosen.rows, Path.cwd()))))
    else:
        compare(chosen.rows, chosen.speed_rows)


if __name__ == "__main__":
    main()
