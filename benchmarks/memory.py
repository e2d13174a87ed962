"""How much memory a streaming pull needs as campaigns grow in number: `python -m benchmarks.memory`."""

import asyncio
import resource
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

from benchmarks import fresh
from benchmarks.findings import Bar, Findings, Table, command
from benchmarks.load import Load
from benchmarks.peers.ours import pull, pull_rows
from benchmarks.server import serving
from seorep_async import Page, Settings
from seorep_async.paging import Listing, Query, all_items
from seorep_async.session import Decode, Request
from seorep_async.session.timeouts import CallTimeout

_LISTED_ROWS = 500
_STATUS, _REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def measure(quick: bool) -> Findings:
    """Pull few and many campaigns, each time in a new process; take the system's count and Python's own."""
    call = fresh.here if quick else fresh.call
    rounds = 1 if quick else 3
    few, many = (20, 100) if quick else (500, 5000)
    rows = []
    ratios = []
    with serving(Load(campaigns=10, pages=2, rows=50)) as address:
        for title, peak in (("resident, as the system counts", resident), ("allocated by Python", allocated)):
            peaks: dict[int, list[float]] = {few: [], many: []}
            for _ in range(rounds):
                for campaigns, found in peaks.items():
                    found.append(call(peak, address, campaigns))
            low, high = statistics.median(peaks[few]), statistics.median(peaks[many])
            ratios.append(high / low)
            rows.append([title, f"{low:.2f}", f"{high:.2f}", f"{high / low:.3f}"])
    short, long = (200, 400) if quick else (200, 4_200)
    further = (long - short) * _LISTED_ROWS
    streamed = [call(streaming, pages) for pages in (short, long)]
    return Findings(
        bars=[
            Bar(
                f"memory that each of {further:,} further rows of a streamed listing takes: the key that is checked",
                100,
                (streamed[1] - streamed[0]) * 2**20 / further,
                unit="bytes",
                note=f"{streamed[0]:.1f} and {streamed[1]:.1f} MB, as the system counts",
            ),
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


def streaming(pages: int) -> float:
    """Return the most memory that this process held while it read a listing page by page, in MB."""
    return _peak(lambda: asyncio.run(_read_listing(pages)))


async def _read_listing(pages: int) -> None:
    """Read a listing from a session that makes up pages of ids at no cost."""

    def decode(number: int) -> Decode[Page[int]]:
        return lambda body: _page_of_ids(number, pages)

    query = Query(path="/", query="", decode=decode, key=int)
    session: Any = _NoSession(pages)
    rows = 0
    async for page in Listing(session, query, all_items).pages():
        rows += len(page.items)
    assert rows == pages * _LISTED_ROWS


class _NoSession:
    """Stands for a session, without a network."""

    def __init__(self, pages: int) -> None:
        self.settings = Settings(max_pages=pages)
        self.call_timeout = CallTimeout(None, time.monotonic)

    def spawn(self, work: Coroutine[Any, Any, Any], when_done: Callable[[asyncio.Task[Any]], None]) -> Any:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(when_done)
        return task

    async def send(self, request: Request[Page[int]]) -> Page[int]:
        return cast("Page[int]", request.decode(b""))


def _page_of_ids(number: int, pages: int) -> Page[int]:
    """Return ids that are not in order, but near it, as an account's are."""
    start = (number - 1) * _LISTED_ROWS + 1
    ids = (*range(start + 1, start + _LISTED_ROWS, 2), *range(start, start + _LISTED_ROWS, 2))
    return Page(items=ids, number=number, total_pages=pages, total_records=pages * _LISTED_ROWS)


def resident(address: str, campaigns: int) -> float:
    """Return the most memory that this process held during a pull, in MB."""
    load = Load(campaigns=campaigns, pages=2, rows=50)
    return _peak(lambda: pull(address, load))


def _peak(work: Callable[[], object]) -> float:
    if _REFS.exists():
        _REFS.write_text("5", encoding="ascii")  # the peak counts from here
    work()
    if _STATUS.exists():
        (peak,) = (line for line in _STATUS.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def allocated(address: str, campaigns: int) -> float:
    """Return the most memory that Python had allocated during a pull above what it had before, in MB."""
    load = Load(campaigns=campaigns, pages=2, rows=50)
    return asyncio.run(_allocated(address, load))


async def _allocated(address: str, load: Load) -> float:
    ids = list(range(1, load.campaigns + 1))  # the caller's own
    await pull_rows(address, load, ids[:20])  # what is imported and remembered once is there then
    tracemalloc.start()
    try:
        await pull_rows(address, load, ids)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


if __name__ == "__main__":
    command(measure, __doc__)
