"""Count the instructions of a request, on which other programs have no influence: `python -m benchmarks.instructions`.

Valgrind counts the instructions of a process that pulls a load once, and of one that pulls it twice. The difference is
that of one pull. Each pull opens and closes its own client, which takes about 6 % of the instructions of 400 requests.
The count takes minutes, so a quick run leaves it out.
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
"""The instructions of a request of one row above those by hand, before they were first reduced."""
_COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def measure(quick: bool) -> Findings:
    """Count requests of one row, in campaigns of 1, 3 and 20 pages; the first twice, as a control."""
    missing = ""
    if quick:
        missing = "a quick run"
    elif not shutil.which("valgrind"):
        missing = "valgrind is not installed"
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
    """Return the instructions of a process that pulls a load this number of times."""
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
    instructions = _COUNTED.search(ran.stderr)
    if ran.returncode or not instructions:
        raise RuntimeError(f"valgrind ended with {ran.returncode}: {ran.stderr[-2000:]}")
    return int(instructions[1].replace(",", ""))


def pull(name: str, address: str, load: str, times: str) -> None:
    """Pull a load this number of times."""
    run = peers.runs(peers.find([name]), address, msgspec.json.decode(load, type=Load))[name]
    for _ in range(int(times)):
        run()


if __name__ == "__main__":
    command(measure, __doc__)
