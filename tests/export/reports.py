"""Reports made by hand, accounts to pull from, and what is read back from a CSV file."""

import asyncio
import csv
import datetime as dt
import io
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import duckdb
import pytest

from seorep_async import Feed, KeywordRanking, RankingReport, SeoRepClient, Settings
from seorep_async.export import PullProgress, PullSummary, pull_to
from seorep_async.reports import column_values
from seorep_async.sandbox import Sandbox
from seorep_async.tables.columns import Table
from seorep_async.tables.text import RFC_4180, CsvOptions, csv_cells, csv_lines
from tests.export.door import PullSpec, encode, sinks

START, END = dt.date(2023, 1, 1), dt.date(2023, 3, 31)
NIGHT = dt.date(2023, 4, 2)
LEAD = {"account": "acme", "snapshot_date": NIGHT}
FORMATS = ["csv", "jsonl", "parquet", "duckdb"]


@attrs.frozen
class Owned:
    """A report, and the campaign of the backlink."""

    campaign_id: int
    report: RankingReport[Any]


def owned(*rows: Any, feed: Feed = Feed.CAMPAIGN, campaign_id: int = 7, id_: int = 7) -> Owned:
    return Owned(campaign_id, RankingReport(feed=feed, id=id_, start_date=START, end_date=END, rows=rows))


def ranking(**values: Any) -> KeywordRanking:
    return attrs.evolve(KeywordRanking(1, "shoes"), **values)


def columns_of(one: Owned) -> list[Sequence[Any]]:
    return column_values(one.report, **LEAD, campaign_id=one.campaign_id)


def columns_as_csv(table: Table, columns: Sequence[Sequence[Any]], options: CsvOptions = RFC_4180) -> bytes:
    return csv_lines(csv_cells(table, columns, options), options)


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def rows_in(path: Path) -> list[dict[str, str]]:
    return parsed(path.read_bytes().decode())


def names_in(folder: Path) -> list[str]:
    """Return the files in a folder, without those that every pull writes beside its rows."""
    always = (".campaigns.", ".keywords.", ".pulls.")
    return sorted(name for name in os.listdir(folder) if not any(word in name for word in always))


@asynccontextmanager
async def account(
    *, max_concurrency: int = 16, key: str = "sandbox", api_key: str | None = None, **options: Any
) -> AsyncIterator[tuple[Sandbox, SeoRepClient]]:
    """Serve an account whose key is `key`, and open a client that sends `api_key`, or else the right one."""
    settings = Settings(max_concurrency=max_concurrency)
    async with (
        Sandbox(**{"campaigns": 4, "keywords": 30, "api_key": key, **options}) as sandbox,
        SeoRepClient(sandbox.base_url, api_key or key, settings=settings) as client,
    ):
        yield sandbox, client


async def pull_into(client: SeoRepClient, out: Any, ids: Any = None, **options: Any) -> PullSummary:
    """Pull a quarter into a target: of all campaigns, unless ids are named."""
    return await pull_to(client, ids, START, END, out=out, **options)


async def cut_off(pull: Callable[..., Coroutine[Any, Any, Any]], reached: Callable[[PullProgress], Any]) -> None:
    """Begin a pull, and cancel it once its progress is so far."""

    def look(progress: PullProgress) -> None:
        if reached(progress):
            task.cancel()

    task = asyncio.create_task(pull(on_progress=look))
    with pytest.raises(asyncio.CancelledError):
        await task


def spec_of(feed: Feed = Feed.CAMPAIGN) -> PullSpec:
    return PullSpec(
        service="service",
        account="acme",
        feeds=(feed,),
        start_date=START,
        end_date=END,
        campaigns=None,
        options={},
        started_at=dt.datetime(2023, 4, 2, 3),
        snapshot_date=NIGHT,
        snapshot_is_default=True,
        key_renewed=None,
        fingerprint=lambda salt: "digest",
    )


Fail: TypeAlias = Callable[..., None]


def rows(folder: Path | str, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
    query = f"SELECT {columns} FROM read_parquet('{folder}/{table}/**/*.parquet') ORDER BY ALL"  # noqa: S608
    return duckdb.execute(query).fetchall()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in parts(folder)}


def parts(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def refuse_to_encode(monkeypatch: pytest.MonkeyPatch, campaign_id: int, error: Exception) -> None:
    """Let no format hold a campaign's rows."""

    def picky(kind: Any, table: Any, columns: Any, *more: Any) -> Any:
        if str(columns[2][0]) == str(campaign_id):
            raise error
        return encode(kind, table, columns, *more)

    monkeypatch.setattr(sinks, "encode", picky)
