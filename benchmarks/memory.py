"""Compare the memory of streaming pulls of few and of many campaigns: `python -m benchmarks.memory`."""

import asyncio
import resource
import statistics
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from benchmarks import fresh
from benchmarks.findings import Bar, Findings, Table, command
from benchmarks.load import Load
from benchmarks.peers.ours import pull, pull_rows
from benchmarks.server import serving

_STATUS, _REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def measure(quick: bool) -> Findings:
    """Pull few and many campaigns, each in a new process. Take the system's count and Python's own."""
    call = fresh.here if quick else fresh.call
    rounds = 1 if quick else 3
    few, many = (20, 100) if quick else (500, 5000)
    rows = []
    ratios = []
    with serving(Load(campaigns=10, pages=2, rows=50)) as address:
        for title, peak in (
            ("resident, as the system counts", resident),
            ("allocated by Python", allocated),
        ):
            peaks: dict[int, list[float]] = {few: [], many: []}
            for _ in range(rounds):
                for campaigns, megabytes in peaks.items():
                    megabytes.append(call(peak, address, campaigns))
            low, high = statistics.median(peaks[few]), statistics.median(peaks[many])
            ratios.append(high / low)
            rows.append([title, f"{low:.2f}", f"{high:.2f}", f"{high / low:.3f}"])
    return Findings(
        bars=[
            Bar(
                f"peak memory of a streaming pull of {many:,} campaigns, against {few}",
                1.05,
                max(ratios),
                note="the worse of two counts",
            ),
        ],
        tables=[
            Table(
                "Peak memory of a streaming pull, 2 pages of 50 rows a campaign, MB",
                ["", f"{few} campaigns", f"{many:,} campaigns", "ratio"],
                rows,
            )
        ],
    )


def resident(address: str, campaigns: int) -> float:
    """Return the peak memory of this process during a pull, in MB."""
    load = Load(campaigns=campaigns, pages=2, rows=50)
    return _peak(lambda: pull(address, load))


def _peak(work: Callable[[], object]) -> float:
    if _REFS.exists():
        _REFS.write_text("5", encoding="ascii")  # the peak counts from here
    work()
    if _STATUS.exists():
        (peak,) = (
            line
            for line in _STATUS.read_text(encoding="ascii").splitlines()
            if line.startswith("VmHWM")
        )
        return int(peak.split()[1]) / 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def allocated(address: str, campaigns: int) -> float:
    """Return the peak of the memory that Python allocated during a pull, in MB."""
    load = Load(campaigns=campaigns, pages=2, rows=50)
    return asyncio.run(_allocated(address, load))


async def _allocated(address: str, load: Load) -> float:
    ids = list(range(1, load.campaigns + 1))  # not counted, because it belongs to the caller
    await pull_rows(address, load, ids[:20])  # fills caches, and imports everything
    tracemalloc.start()
    try:
        await pull_rows(address, load, ids)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


if __name__ == "__main__":
    command(measure, __doc__)
