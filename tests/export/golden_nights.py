"""Small nights of the sandbox, pulled like a user would, and read back from their targets."""

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
import pytest

from seorep_async import ConfigurationError, Feed, SeoRepClient, Settings
from seorep_async.export import PullSummary, pull_to
from tests.sandbox.calls import client_of_sandbox

FOLDER = Path(__file__).parent / "golden_nights"
START = dt.date(2023, 2, 1)
END = dt.date(2023, 3, 31)
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
"""Columns that differ between pulls, or that describe the pull itself."""
Tables: TypeAlias = dict[str, tuple[list[str], list[list[Any]]]]


@asynccontextmanager
async def account(**options: Any) -> AsyncIterator[SeoRepClient]:
    """Serve a small account.

    It is pulled with one request at a time, so that pulls are cut at the same report each time.
    """
    usual: dict[str, Any] = {"campaigns": 4, "keywords": 3, "failing": {2: 404}}
    settings = Settings(max_concurrency=1)
    async with client_of_sandbox(settings=settings, **usual | options) as client:
        yield client


async def pull(client: SeoRepClient, out: Any, ids: Any = None, **options: Any) -> PullSummary:
    start = options.pop("start", START)
    end = options.pop("end", END)
    usual: dict[str, Any] = {"account": "acme", "snapshot_date": NIGHT}
    return await pull_to(client, ids, start, end, out=out, **usual | options)


async def refused_unsent(
    client: SeoRepClient,
    out: Path,
    words: str,
    kind: type[Exception] | tuple[type[Exception], ...] = ConfigurationError,
) -> Exception:
    """Pull, which must be refused before it sends a request, and return the error."""
    attempts = client.stats.attempts
    with pytest.raises(kind, match=words) as caught:
        await pull(client, out)
    assert client.stats.attempts == attempts
    return caught.value


def program(address: str, out: Path, largest: int = 1 << 40) -> list[str]:
    """Return the command of a process that pulls a sandbox.

    Args:
        largest: the number of bytes that a file may have.
    """
    return [sys.executable, "-B", "-c", _PROGRAM, address, str(out), str(largest)]


async def nested(out: Path) -> None:
    async with account(shape="nested", rows="current") as client:
        await pull(client, out, feeds=Feed)


async def mixed(out: Path) -> None:
    """Chosen campaigns, in an order of their own; one that does not exist."""
    async with account(shape="mixed", rows="mixed", failing={3: 404}) as client:
        await pull(client, out, [4, 1, 99, 3], feeds=Feed, compare_previous_period=True)


NIGHTS = {"nested": nested, "mixed": mixed}


def read(out: Path) -> Tables:
    """Return columns and rows of every table, in order, without values that vary between pulls."""
    tables: Tables = {}
    if out.suffix == ".duckdb":
        tables = _from_database(out)
    elif out.suffix == ".xlsx" and out.exists():
        tables = _from_workbook(out)
    if not tables:
        for path in sorted(out.parent.glob(f"{out.stem}*{out.suffix}")):
            ending = path.name.removeprefix(out.stem)
            name = ending.removesuffix(out.suffix).strip(".")
            tables[name or "rows"] = _from_file(path)
    return {name: _without(name, *table) for name, table in tables.items()}


def _from_database(out: Path) -> Tables:
    tables: Tables = {}
    with duckdb.connect(str(out), read_only=True) as database:
        query = "SELECT table_name FROM duckdb_tables() ORDER BY 1"
        for (name,) in database.execute(query).fetchall():
            result = database.execute(f"SELECT * FROM {name} ORDER BY rowid")  # noqa: S608
            columns = [column[0] for column in result.description]
            tables[name] = (columns, [list(row) for row in result.fetchall()])
    return tables


def _from_workbook(out: Path) -> Tables:
    sheets = {}
    workbook = openpyxl.load_workbook(out)
    for sheet in workbook:
        # A column that varies between pulls may be empty, and is not in the sheet then.
        columns = []
        varying = VARYING.get(sheet.title, ())
        for cells in sheet.iter_cols():
            column = [cell.value for cell in cells]
            if column[0] not in varying:
                columns.append(column)
        header, *rows = map(list, zip(*columns, strict=True))
        sheets[sheet.title] = (header, rows)
    return sheets


def _from_file(path: Path) -> tuple[list[str], list[list[Any]]]:
    if path.suffix == ".csv":
        text = io.StringIO(path.read_bytes().decode(), newline="")
        header, *rows = csv.reader(text, strict=True)
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
    plain_rows = []
    for row in rows:
        cells = zip(columns, row, strict=True)
        plain_rows.append([None if column in varying else _plain(cell) for column, cell in cells])
    return columns, plain_rows


def _plain(value: object) -> Any:
    """Return a cell as JSON has it, with its type."""
    if isinstance(value, dt.date):
        return f"{type(value).__name__} {value}"
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def stored(night: str, format_: str) -> Any:
    with gzip.open(FOLDER / f"{night}.{format_}.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


def store(night: str, format_: str, tables: Tables) -> None:
    lines = json.dumps(tables, ensure_ascii=False, indent=0)
    (FOLDER / f"{night}.{format_}.json.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
