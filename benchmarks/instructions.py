"""Instructions that a request takes, which no neighbour on the machine changes: `python -m benchmarks.instructions`.

Valgrind counts a process that pulls a load once, and one that pulls it twice: the difference is the load. Each pull
opens and closes a client of its own, which is about 6 % of the count of 400 requests. It takes minutes; a quick run
leaves it out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import msgspec

from benchmarks import peers
from benchmarks.findings import Bar, Findings, Table, command
from benchmarks.load import Load
from benchmarks.peers import BARE, OURS
from benchmarks.server import serving

_ABOVE_BARE = 143_000
"""What a request of one row took more than by hand before its cost was looked at."""
_COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def measure(quick: bool) -> Findings:
    """Count requests of one row, in campaigns of 1, 3 and 20 pages; the first twice, as a control."""
    missing = (
        "a quick run" if quick else "" if shutil.which("valgrind") else "valgrind is not installed"
    )
    both = peers.find([OURS, BARE])
    note = missing or both.missing.get(BARE, "")
    says = "instructions of a 1-row request above those of aiohttp + orjson, 1 page a campaign"
    if note:
        return Findings(bars=[Bar(says, _ABOVE_BARE, None, unit="", note=note)])
    rows = []
    above: list[float] = []
    for pages in (1, 3, 20, 1):
        load = Load(campaigns=400 // pages, pages=pages, rows=1)
        with serving(load) as address:
            ours, bare = (_of_a_request(name, address, load) for name in (OURS, BARE))
        above.append(ours - bare)
        rows.append([load.layout, f"{ours:,.0f}", f"{bare:,.0f}", f"{ours - bare:,.0f}"])
    return Findings(
        bars=[Bar(says, _ABOVE_BARE, above[0], unit="", note=f"counted again: {above[-1]:,.0f}")],
        tables=[
            Table(
                "Instructions of a request",
                ["campaigns × pages × rows", OURS, BARE, "difference"],
                rows,
            )
        ],
    )


def _of_a_request(name: str, address: str, load: Load) -> float:
    return (_counted(name, address, load, 2) - _counted(name, address, load, 1)) / load.requests


def _counted(name: str, address: str, load: Load, times: int) -> int:
    """Return the instructions of a process that pulls a load so many times."""
    code = "import sys; from benchmarks.instructions import pull; pull(*sys.argv[1:])"
    arguments = [name, address, msgspec.json.encode(load).decode(), str(times)]
    valgrind = [
        "valgrind",
        "--tool=cachegrind",
        "--cache-sim=no",
        "--cachegrind-out-file=/dev/null",
    ]
    ran = subprocess.run(
        [*valgrind, sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ran.returncode or not (found := _COUNTED.search(ran.stderr)):
        raise RuntimeError(f"valgrind ended with {ran.returncode}: {ran.stderr[-2000:]}")
    return int(found[1].replace(",", ""))


def pull(name: str, address: str, load: str, times: str) -> None:
    """Pull a load so many times."""
    run = peers.runs(peers.find([name]), address, msgspec.json.decode(load, type=Load))[name]
    for _ in range(int(times)):
        run()


if __name__ == "__main__":
    command(measure, __doc__)
