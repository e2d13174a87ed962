"""Reports made by hand, accounts to pull from, and what is read back from a CSV file."""

from __future__ import annotations

import csv
import datetime as dt
import io
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

from seorep_async import Feed, KeywordRanking, RankingReport, SeoRepClient, Settings
from seorep_async.export.csv_text import header, rows_as_csv
from seorep_async.export.formats import Unit
from seorep_async.reports import row_values
from seorep_async.sandbox import Sandbox
from seorep_async.tables.columns import Values, table_of

START, END = dt.date(2023, 1, 1), dt.date(2023, 3, 31)
FORMATS = ["csv", "jsonl", "parquet", "duckdb"]


def unit(*rows: Any, feed: Feed = Feed.CAMPAIGN, campaign_id: int = 7, id_: int = 7) -> Unit:
    return Unit(campaign_id, RankingReport(feed=feed, id=id_, start_date=START, end_date=END, rows=rows))


def ranking(**values: Any) -> KeywordRanking:
    return attrs.evolve(KeywordRanking(1, "shoes"), **values)


def rows_of(one: Unit) -> Iterator[Values]:
    return row_values(one.report, one.campaign_id)


def as_csv(*units: Unit, feed: Feed = Feed.CAMPAIGN) -> str:
    table = table_of(feed)
    return (header(table) + b"".join(rows_as_csv(table, rows_of(one)) for one in units)).decode()


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def rows_in(path: Path) -> list[dict[str, str]]:
    return parsed(path.read_bytes().decode())


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


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
