"""Small nights of the sandbox, pulled through the door, and what is read back from their files and databases."""

import csv
import datetime as dt
import gzip
import io
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import openpyxl
import pyarrow.parquet as pq

from seorep_async import Feed, PullPausedError, SeoRepClient, Settings
from seorep_async.export import PullSummary, pull_to
from seorep_async.sandbox import Sandbox

FOLDER = Path(__file__).parent / "golden_nights"
START, END = dt.date(2023, 2, 1), dt.date(2023, 3, 31)
NIGHT = dt.date(2023, 4, 2)
FILE_FORMATS = ("csv", "jsonl", "xlsx", "parquet")
FORMATS = (*FILE_FORMATS, "duckdb")
_PROGRAM = """
import asyncio, resource, signal, sys
from seorep_async import SeoRepClient, Settings
from seorep_async.export import pull_to
async def main():
    async with SeoRepClient(sys.argv[1], "sandbox", settings=Settings(max_concurrency=8)) as client:
        labels = {"account": "acme", "snapshot_date": "2023-04-02"}
        await pull_to(client, None, "2023-02-01", "2023-03-31", out=sys.argv[2], **labels)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
asyncio.run(main())
"""
VARYING = {
    "pulls": (
        "started_at",
        "service",
        "requests",
        "retries",
        "refusals",
        "waited",
        "selection",
        "version",
    )
}
"""Columns that no two pulls have in common, or that say how a pull was made."""
Tables: TypeAlias = dict[str, tuple[list[str], list[list[Any]]]]


@asynccontextmanager
async def account(seed: int = 1, **options: Any) -> AsyncIterator[SeoRepClient]:
    """Serve a small account, one request at a time, so that pulls are cut at the same report each time."""
    made = {"campaigns": 4, "keywords": 3, "seed": seed, "failing": {2: 404}, **options}
    async with (
        Sandbox(**made) as sandbox,
        SeoRepClient(
            sandbox.base_url, sandbox.api_key, settings=Settings(max_concurrency=1)
        ) as client,
    ):
        yield client


async def pull(client: SeoRepClient, out: Path, ids: Any = None, **options: Any) -> PullSummary:
    start, end = options.pop("start", START), options.pop("end", END)
    asked = {"feeds": Feed, "account": "acme", "snapshot_date": NIGHT, **options}
    return await pull_to(client, ids, start, end, out=out, **asked)


def program(address: str, out: Path, largest: int = 1 << 40) -> list[str]:
    """Return the command of a process that pulls a sandbox, and can write files of so many bytes."""
    return [sys.executable, "-B", "-c", _PROGRAM, address, str(out), str(largest)]


async def nested(out: Path) -> None:
    async with account(shape="nested", rows="current") as client:
        await pull(client, out)


async def flat(out: Path) -> None:
    async with account(shape="flat", rows="older") as client:
        await pull(client, out, compare_previous_period=True)


async def mixed(out: Path) -> None:
    """Chosen campaigns, in an order of their own; one that does not exist."""
    async with account(shape="mixed", rows="mixed", failing={3: 404}) as client:
        await pull(client, out, [4, 1, 99, 3], compare_previous_period=True)


async def by_keyword(out: Path) -> None:
    async with account(shape="mixed", rows="mixed") as client:
        await pull(client, out, [3, 1, 2], feeds=Feed.KEYWORD_BY_DATE, end=dt.date(2023, 2, 7))


async def resumed(out: Path) -> None:
    """A pull that is cut some times, each time resumed; what failed is tried again at last."""
    async with account(shape="mixed", rows="mixed", failing={2: 404, 4: 404}) as client:
        paused = 0
        while True:
            try:
                await pull(client, out, max_requests=5)
                break
            except PullPausedError:
                paused += 1
        assert paused
        await pull(client, out, retry_failed=True)


async def again(out: Path) -> None:
    """One night pulled twice: in between a campaign was healed, and another failed."""
    async with account(failing={2: 404}) as client:
        await pull(client, out)
    port = int(client.base_url.rpartition(":")[2])
    async with account(failing={3: 404}, shape="flat", rows="older", port=port) as client:
        await pull(client, out)


async def nights(out: Path) -> None:
    """Two nights of one window, and the campaigns' feed of another window."""
    async with account(shape="mixed") as client:
        await pull(client, out)
        await pull(client, out, snapshot_date=dt.date(2023, 4, 3))
        await pull(
            client,
            out,
            snapshot_date=dt.date(2023, 4, 3),
            feeds=Feed.CAMPAIGN,
            start=dt.date(2023, 3, 1),
        )


async def accounts(out: Path) -> None:
    """Three accounts, the last one twice."""
    for name, seed, times in (("acme", 1, 1), ("globex", 2, 1), ("initech", 3, 2)):
        async with account(seed, shape="mixed", rows="mixed", campaigns=2) as client:
            for _ in range(times):
                await pull(
                    client,
                    out,
                    account=name,
                    force=True,
                    feeds=(Feed.CAMPAIGN, Feed.CAMPAIGN_BY_DATE),
                )


NIGHTS = {
    one.__name__: one for one in (nested, flat, mixed, by_keyword, resumed, again, nights, accounts)
}


def read(out: Path) -> Tables:
    """Return columns and rows of every table, in order, less what varies between pulls."""
    found = _from_database(out) if out.suffix == ".duckdb" else {}
    if out.suffix == ".xlsx" and out.exists():
        found = _from_workbook(out)
    for path in [] if found else sorted(out.parent.glob(f"{out.stem}*{out.suffix}")):
        found[path.name.removeprefix(out.stem).removesuffix(out.suffix).strip(".") or "rows"] = (
            _from_file(path)
        )
    return {name: _without(name, *table) for name, table in found.items()}


def _from_database(out: Path) -> Tables:
    with duckdb.connect(str(out), read_only=True) as database:
        names = [
            name
            for (name,) in database.execute(
                "SELECT table_name FROM duckdb_tables() ORDER BY 1"
            ).fetchall()
        ]
        found = {}
        for name in names:
            result = database.execute(f"SELECT * FROM {name} ORDER BY rowid")  # noqa: S608
            found[name] = (
                [column[0] for column in result.description],
                [list(row) for row in result.fetchall()],
            )
    return found


def _from_workbook(out: Path) -> Tables:
    """Read the sheets, those of a single feed under the name that its file has."""
    sheets = {}
    workbook = openpyxl.load_workbook(out)
    for sheet in workbook:
        columns = [
            [cell.value for cell in column]
            for column in sheet.iter_cols()
            # columns that no two pulls have in common may be empty, and are left out then
            if column[0].value not in VARYING.get(sheet.title, ())
        ]
        header, *rows = map(list, zip(*columns, strict=True))
        sheets[sheet.title] = (header, rows)
    feeds = sheets.keys() & {"keyword_rankings", "campaign_periods", "keyword_periods"}
    if len(feeds) == 1:
        sheets["rows"] = sheets.pop(feeds.pop())
    return sheets


def _from_file(path: Path) -> tuple[list[str], list[list[Any]]]:
    if path.suffix == ".csv":
        header, *rows = csv.reader(io.StringIO(path.read_bytes().decode(), newline=""), strict=True)
        return header, rows
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        return table.column_names, [list(row.values()) for row in table.to_pylist()]
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert len({tuple(line) for line in lines}) < 2
    return [*lines[0]] if lines else [], [[*line.values()] for line in lines]


def _without(
    name: str, columns: list[str], rows: list[list[Any]]
) -> tuple[list[str], list[list[Any]]]:
    varying = VARYING.get(name, ())
    return columns, [
        [None if name in varying else _plain(cell) for name, cell in zip(columns, row, strict=True)]
        for row in rows
    ]


def _plain(value: object) -> Any:
    """Return a cell as JSON has it, with its type."""
    if isinstance(value, dt.date):
        return f"{type(value).__name__} {value}"
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return {name: _plain(one) for name, one in value.items()} if isinstance(value, dict) else value


def stored(night: str, format_: str) -> Any:
    with gzip.open(FOLDER / f"{night}.{format_}.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


def store(night: str, format_: str, found: Tables) -> None:
    lines = json.dumps(found, ensure_ascii=False, indent=0)
    (FOLDER / f"{night}.{format_}.json.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
