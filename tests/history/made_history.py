"""A database of nights made by hand, as a pull leaves it behind."""

import datetime as dt
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

from seorep_async.export.database_file import TYPES
from seorep_async.tables.declared import all_tables

FIRST = dt.date(2026, 3, 1)
Ranks: TypeAlias = Mapping[int, int | None]
"""The rank of each keyword on engine A."""


def made_history(path: Path, nights: Iterable[Ranks], *, account: str = "acme", **columns: Any) -> Path:
    """Write a database of nights, of keywords whose ids, from 11 on, begin with their campaign's.

    Args:
        path: the file, which may exist.
        nights: the ranks of each night, from FIRST on; a night without any is one on which nothing was pulled.
        account: whose they are.
        columns: values of further columns of every keyword.
    """
    with duckdb.connect(str(path)) as database:
        database.begin()
        for table in all_tables():
            declared = ", ".join(f"{column.name} {TYPES[column.type]}" for column in table.columns)
            database.execute(f"CREATE TABLE IF NOT EXISTS {table.name} ({declared})")
        for number, ranks in enumerate(nights):
            night = {"account": account, "snapshot_date": FIRST + dt.timedelta(number)}
            window = {"start_date": FIRST, "end_date": FIRST}
            for keyword, rank in ranks.items():
                named = {"keyword_id": keyword, "keyword_phrase": f"shoes {keyword}", "campaign_id": keyword // 10}
                _insert(database, "keyword_rankings", night | window | named | {"engine_a_ranking": rank} | columns)
            if ranks:
                pulled = {"feeds": "campaign", "rows": len(ranks), "version": "0.1.0"}
                _insert(database, "pulls", night | window | pulled)
        for campaign in (1, 2):
            named = {"company": f"Company {campaign}", "group_title": "Retail" if campaign == 1 else None}
            _insert(database, "campaigns", {"account": account, "campaign_id": campaign} | named)
        database.commit()
    return path


def _insert(database: duckdb.DuckDBPyConnection, table: str, row: Mapping[str, Any]) -> None:
    """Insert one row; other columns are null."""
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))
