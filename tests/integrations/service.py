"""What tests of engines share: a sandbox in a thread of its own, a key that tells who took it, and tables to compare.

Engines block the thread that calls them, so the sandbox can't run in the event loop of a test. Engines' processes take
the key by `note_process`, so a test knows which processes are at work.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet

from seorep_async import Feed, SeoRepClient, Settings
from seorep_async.export import pull_to
from seorep_async.sandbox import Sandbox
from seorep_async.tables.declared import all_tables
from tests.session.canary import Canary
from tests.threads import in_a_thread

KEY = "canary-7f3a9c51e8b24d06"
CANARY = Canary(KEY)
START, END, NIGHT = "2023-01-01", "2023-03-31", "2023-04-01"
MIXED: Mapping[str, Any] = {"campaigns": 8, "keywords": 6, "seed": 3, "shape": "mixed", "rows": "mixed"}
FAULTY: Mapping[str, Any] = {"faults": "resets=2%,500s=2%,cut=1%", "failing": {3: 404}, "forbidden": [6]}
WHOSE: Mapping[str, Any] = {"account": "acme", "snapshot_date": NIGHT}
_PROCESSES = "SEOREP_TEST_PROCESSES"
_VARYING = {
    "failures": ("message", "attempts"),
    "pulls": ("started_at", "selection", "requests", "retries", "refusals", "waited", "version", "key_digest"),
}
"""Columns that differ between two runs which bring the same."""


@contextmanager
def served(folder: Path, **options: Any) -> Iterator[Sandbox]:
    """Serve a sandbox, and let its key and the notes of who takes it be found by every process that starts now."""
    before = dict(os.environ)
    os.environ |= {"SEOREP_API_KEY": KEY, _PROCESSES: str(folder)}
    try:
        with in_a_thread(Sandbox(api_key=KEY, **options)) as sandbox:
            yield sandbox
    finally:
        for name in ("SEOREP_API_KEY", _PROCESSES):
            os.environ.pop(name)
        os.environ |= before


def note_process() -> str:
    """Return the key, and leave a note which process asked for it."""
    note = Path(os.environ[_PROCESSES]) / f"process-{time.monotonic_ns():020}"
    note.write_text(str(os.getpid()), encoding="utf-8")
    return os.environ["SEOREP_API_KEY"]


@contextmanager
def killing(sandbox: Sandbox, folder: Path, at: Sequence[int]) -> Iterator[list[int]]:
    """Kill the process that took the key last, each time that so many requests have arrived, while a block runs."""
    killed: list[int] = []
    done = threading.Event()

    def kill() -> None:
        for requests in at:
            while sandbox.stats.requests < requests and not done.wait(0.001):
                pass
            process = int(max(folder.glob("process-*")).read_text(encoding="utf-8"))
            if process not in (os.getpid(), *killed) and not done.is_set():
                os.kill(process, signal.SIGKILL)
                killed.append(process)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        done.set()
        thread.join()


def run(work: Callable[[SeoRepClient], Any], sandbox: Sandbox, **settings: Any) -> Any:

    async def with_client() -> Any:
        async with SeoRepClient(sandbox.base_url, KEY, settings=Settings(**settings)) as client:
            return await work(client)

    return asyncio.run(with_client())


def alone(sandbox: Sandbox, folder: Path) -> dict[str, pa.Table]:
    file = folder / "alone.parquet"
    run(lambda client: pull_to(client, None, START, END, out=file, feeds=list(Feed), **WHOSE), sandbox)
    files = {table.name: file.with_name(f"alone.{table.name}.parquet") for table in all_tables()}
    return {name: parquet.read_table(found) for name, found in files.items()}


def tables_in(dataset: Path) -> dict[str, pa.Table]:
    files = {table.name: str(dataset / table.name / "*/*/*.parquet") for table in all_tables()}
    return {name: duckdb.read_parquet(found, hive_partitioning=True).to_arrow_table() for name, found in files.items()}


def assert_same(one: Mapping[str, pa.Table], other: Mapping[str, pa.Table]) -> None:
    """Compare tables in the columns that two runs have in common, row by row, whatever their order."""
    for table in all_tables():
        if table.name not in other:
            continue
        names = [column.name for column in table.columns if column.name not in _VARYING.get(table.name, ())]
        connection = duckdb.connect()
        for side, rows in (("one", one[table.name]), ("other", other[table.name])):
            connection.register(side, rows.select(names))
        for here, there in (("one", "other"), ("other", "one")):
            query = f"SELECT * FROM {here} EXCEPT ALL SELECT * FROM {there}"  # noqa: S608
            assert connection.sql(query).fetchall() == [], f"{table.name}: only in {here}"


def assert_key_in_no_file(folder: Path) -> int:
    """Look for the key in every file of a folder, names included, and return how many files there are."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    for file in files:
        CANARY.assert_not_in(f"{file} {file.read_bytes().decode('latin-1')}")
    return len(files)
