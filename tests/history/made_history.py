"""A database of nights made by hand, as a pull leaves it behind, and a dataset of the same nights."""

import datetime as dt
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
from seorep_async.export.database_file import TYPES
from seorep_async.export.night import Partition, Receipt
from seorep_async.export.targets.dataset import write_part

from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import Table
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
            _insert(
                database, "campaigns", {"account": account, "snapshot_date": FIRST, "campaign_id": campaign} | named
            )
        database.commit()
    return path


def as_dataset(database: Path, parts: int = 1) -> Path:
    """Write the nights of a database as a dataset beside it, its rankings in several parts, and return its folder."""
    folder = database.with_suffix("")
    with duckdb.connect(str(database)) as source:
        filled = [table for table in all_tables() if source.execute(f"FROM {table.name} LIMIT 1").fetchall()]
        for account, date in source.execute("SELECT DISTINCT account, snapshot_date FROM pulls").fetchall():
            night, made = Partition(account, date), []
            for table in filled:
                rows = _rows(source, table, night)
                count = parts if table.name == "keyword_rankings" else min(1, len(rows))
                size = -(-len(rows) // parts) if count > 1 else len(rows)
                for number in range(count):
                    file, part = write_part(database.parent, table, number, [rows.slice(number * size, size)])
                    (folder / part.name(night)).parent.mkdir(parents=True, exist_ok=True)
                    file.rename(folder / part.name(night))
                    made.append(part)
            first: Any = {"start_date": date, "end_date": date, "failures": 0, "version": "0.1.0", "parts": tuple(made)}
            of: Any = {"service": "s", "key_digest": "k", "pull": "0" * 12, "feeds": ("campaign",)}
            receipt = Receipt(account=account, snapshot_date=date, **of, **first)
            (folder / night.receipt).parent.mkdir(parents=True, exist_ok=True)
            (folder / night.receipt).write_bytes(receipt.to_json())
    return folder


def _rows(source: duckdb.DuckDBPyConnection, table: Table, night: Partition) -> Any:
    """Return a night's rows, with zeros for nulls in columns that have none."""
    zeros = {"BIGINT": 0, "BOOLEAN": False, "DATE": FIRST, "TIMESTAMP": FIRST, "VARCHAR": ""}
    columns = [
        column.name
        if column.nullable
        else f"coalesce({column.name}, '{zeros.get(TYPES[column.type], [])}'::{TYPES[column.type]}) AS {column.name}"
        for column in table.columns
    ]
    query = f"SELECT {', '.join(columns)} FROM {table.name} WHERE account = ? AND snapshot_date = ?"
    found = source.sql(query, params=[night.account, night.snapshot_date]).to_arrow_table()
    return found.cast(arrow_schema(table))


def _insert(database: duckdb.DuckDBPyConnection, table: str, row: Mapping[str, Any]) -> None:
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))
