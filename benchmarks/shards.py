"""How a pull in shards scales with workers, beside one process: `python -m benchmarks.shards`.

Workers are processes of a spawn pool, and, where Dask is installed, of a Dask cluster; both are started and warm before
the clock runs. The service is the sandbox in a process of its own, with a latency, or with a limit that nobody knows.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from benchmarks.findings import Bar, Findings, Table, command
from seorep_async import Feed, SeoRepClient
from seorep_async.export import pull_to
from seorep_async.sandbox import Sandbox
from seorep_async.shards import Shard, gather, plan, run_shard

try:
    from dask.distributed import Client, LocalCluster
except ImportError:
    Client = LocalCluster = None

_KEY = "benchmark"
_OVERHEAD, _LIMITED, _REFUSED = 0.15, 1.4, 5.0
_FEEDS = [Feed.CAMPAIGN, Feed.KEYWORD_BY_DATE]
Run = Callable[[Sequence[Shard]], object]


def measure(quick: bool) -> Findings:
    """Measure one process, and 1, 2 and 4 workers, with a latency and with a limit."""
    free = {"campaigns": 8 if quick else 64, "keywords": 4 if quick else 20, "latency": 0.02}
    limited = {"campaigns": 24, "keywords": 60, "rate_limit": "100/s"}
    rounds, shards = (1, 4) if quick else (3, 32)
    rows: list[list[str]] = []
    workers = [1] if quick else [1, 2, 4]
    at_latency = _compare(rows, "20 ms latency", free, shards, rounds, workers)
    at_limit = at_latency if quick else _compare(rows, "limit 100/s", limited, min(shards, 24), 1, workers)
    alone, one_worker = at_latency["one process"][0], at_latency["pool, 1 workers"][0]
    bars = [Bar("overhead of a shard", _OVERHEAD, (one_worker - alone) / shards, unit="s")]
    for name, (seconds, _, refused) in at_limit.items():
        if name.endswith(f"{workers[-1]} workers"):
            slower = seconds / at_limit["one process"][0]
            bars.append(Bar(f"time at an unknown limit, {name}, against one process", _LIMITED, slower))
            bars.append(Bar(f"refused at an unknown limit, {name}", _REFUSED, refused, unit="%"))
    head = ["service", "who pulls", "seconds", "requests", "429s", "s a shard more"]
    return Findings(bars=bars, tables=[Table(f"Shards ({shards} of a pull, two feeds)", head, rows)])


def _compare(
    rows: list[list[str]], name: str, service: dict[str, Any], shards: int, rounds: int, workers: Sequence[int]
) -> dict[str, tuple[float, float, float]]:
    """Return the seconds, requests and share of refusals (%) of each way to pull, medians of rounds in turn."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for count in workers:
        for engine, engine_workers in _ENGINES.items():
            with engine_workers(count) as run:
                _pull({"campaigns": 2 * count, "keywords": 1}, run, 2 * count, count)  # every worker has done some
                for _ in range(rounds):
                    found.setdefault("one process", []).append(_pull(service, None, 0, 0))
                    found.setdefault(f"{engine}, {count} workers", []).append(_pull(service, run, shards, count))
    medians = {who: tuple(map(statistics.median, zip(*taken, strict=True))) for who, taken in found.items()}
    for who, (seconds, requests, refused) in medians.items():
        more = "–" if who == "one process" else f"{(seconds - medians['one process'][0]) / shards:.3f}"
        rows.append([name, who, f"{seconds:.2f}", f"{requests:.0f}", f"{refused * requests / 100:.0f}", more])
    return medians


def _pull(service: dict[str, Any], run: Run | None, shards: int, workers: int) -> tuple[float, float, float]:
    """Pull once, in shards or in this process, and return the seconds, requests and share of refusals (%)."""
    with tempfile.TemporaryDirectory() as folder, _serving(service) as (address, figures):
        options: dict[str, Any] = {"out": f"{folder}/rows/", "feeds": _FEEDS}
        if run is not None:
            options |= {"shards": shards, "workers": workers, "work_dir": f"{folder}/work"}

        async def start() -> Any:
            begin: Any = pull_to if run is None else plan
            async with SeoRepClient(address, _KEY) as client:
                return await begin(client, None, "2023-01-01", "2023-03-31", **options)

        began = time.perf_counter()
        found = asyncio.run(start())
        if run is not None:
            run(found)
            found = gather(found)
        seconds = time.perf_counter() - began
        if not found.ok or found.rows != service["campaigns"] * service["keywords"] * 4:
            raise RuntimeError(f"rows are missing or too many: {found.rows}")
        requests, refused = figures()
        return seconds, requests, 100 * refused / requests


@contextmanager
def _serving(options: dict[str, Any]) -> Iterator[tuple[str, Callable[[], tuple[int, int]]]]:
    """Run the sandbox in a process of its own; give its address, and a function for its requests and refusals."""
    code = "import json, sys; from benchmarks.shards import serve; serve(json.loads(sys.argv[1]))"
    arguments = [sys.executable, "-c", code, json.dumps(options)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        address = server.stdout.readline().strip()

        def figures() -> tuple[int, int]:
            requests, refused = json.loads(server.communicate()[0])
            return requests, refused

        yield address, figures


def serve(options: dict[str, Any]) -> None:
    """Serve until stdin is closed, then print the requests and refusals."""

    async def until_closed() -> None:
        async with Sandbox(**options, api_key=_KEY) as sandbox:
            print(sandbox.base_url, flush=True)
            await asyncio.to_thread(sys.stdin.read)
            print(json.dumps([sandbox.stats.requests, sandbox.stats.per_status.get(429, 0)]))

    asyncio.run(until_closed())


@contextmanager
def _pool(workers: int) -> Iterator[Run]:
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_warm) as pool:
        list(pool.map(time.sleep, [0.5] * workers))
        yield lambda shards: list(pool.map(run_shard, shards))


@contextmanager
def _dask(workers: int) -> Iterator[Run]:
    options = {"threads_per_worker": 1, "dashboard_address": None, "local_directory": tempfile.gettempdir()}
    with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
        client.run(_warm)
        yield lambda shards: client.gather(client.map(run_shard, shards))


def _warm() -> None:
    """Import what a shard needs, so that only its own time counts."""
    import pyarrow.parquet  # noqa: F401

    os.environ["SEOREP_API_KEY"] = _KEY


_ENGINES = {"pool": _pool} | ({} if LocalCluster is None else {"Dask": _dask})


if __name__ == "__main__":
    command(measure, __doc__)
