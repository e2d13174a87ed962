"""How long importing takes, next to aiohttp alone: `python -m benchmarks.import_time`."""

from __future__ import annotations

import statistics
import subprocess
import sys

from benchmarks.findings import Bar, Findings, Table, command

_CODE = "import time; began = time.perf_counter(); import {}; print(time.perf_counter() - began)"


def measure(quick: bool) -> Findings:
    """Import each in new processes, in turn."""
    times: dict[str, list[float]] = {"seorep_async": [], "aiohttp": []}
    for name in times:
        _import(name)
    for _ in range(2 if quick else 21):
        for name, found in times.items():
            found.append(_import(name))
    ours, bare = (statistics.median(found) for found in times.values())
    return Findings(
        bars=[Bar("import seorep_async, against import aiohttp", 1.5, ours / bare)],
        tables=[Table("Importing, ms", list(times), [[f"{ours * 1e3:.0f}", f"{bare * 1e3:.0f}"]])],
    )


def _import(name: str) -> float:
    ran = subprocess.run([sys.executable, "-c", _CODE.format(name)], check=True, capture_output=True, text=True)
    return float(ran.stdout)


if __name__ == "__main__":
    command(measure, __doc__)
