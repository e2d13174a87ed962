"""The eight tables: described, and the same in every format."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from seorep_async import Feed, KeywordRanking
from seorep_async.export import pull_to
from seorep_async.tables.columns import ColumnType, Table, as_json
from seorep_async.tables.declared import all_tables
from tests.export.reports import END, NIGHT, START, account, rows_in


@pytest.mark.parametrize("table", all_tables(), ids=lambda table: table.name)
def test_every_column_says_what_it_means(table: Table) -> None:
    assert [column.name for column in table.columns if not column.description.endswith(".")] == []


def test_help_of_a_model_says_what_each_attribute_means() -> None:
    said = KeywordRanking.__doc__ or ""
    assert "wmt_ctr: Judging by its name, click-through rate in the first engine's webmaster tools" in said


def plain(value: Any, kind: ColumnType) -> Any:
    """Return a value of Arrow or DuckDB as JSON lines has it."""
    if isinstance(value, dt.date):
        return value.isoformat()
    if kind is ColumnType.TAGS:
        return [{name: held for name, held in tag.items() if name != "extra" or held} for tag in value]
    if kind is ColumnType.FIELDS:
        return json.loads(value or "{}")
    return value if kind is not ColumnType.ANY or value is None else json.loads(value)


def as_text(value: Any, kind: ColumnType) -> str:
    """Return a value of JSON lines as CSV has it."""
    if value is None or value == {}:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return as_json(value) if kind in (ColumnType.TAGS, ColumnType.FIELDS, ColumnType.ANY) else str(value)


async def test_every_format_holds_the_same_values(tmp_path: Path) -> None:
    async with account(campaigns=3, keywords=4, shape="mixed", rows="mixed", failing={2: 404}) as (_, client):
        for ending in ("csv", "jsonl", "parquet", "duckdb"):
            await pull_to(client, None, START, END, out=tmp_path / f"a.{ending}", feeds=Feed, snapshot_date=NIGHT)
    with duckdb.connect(str(tmp_path / "a.duckdb"), read_only=True) as database:
        for table in all_tables():
            kinds = {column.name: column.type for column in table.columns}
            lines = (tmp_path / f"a.{table.name}.jsonl").read_text().splitlines()
            parquet = pq.read_table(tmp_path / f"a.{table.name}.parquet")
            relation = database.table(table.name)
            held = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
            found = {
                "jsonl": [json.loads(line) for line in lines],
                "parquet": [
                    {name: plain(value, kinds[name]) for name, value in row.items()} for row in parquet.to_pylist()
                ],
                "duckdb": [{name: plain(value, kinds[name]) for name, value in row.items()} for row in held],
            }
            csv = rows_in(tmp_path / f"a.{table.name}.csv")
            for rows in (*found.values(), csv):
                for row in rows:
                    for name in ("started_at", "waited"):
                        row.pop(name, None)  # of four pulls
            assert found["jsonl"]
            assert found["jsonl"] == found["parquet"] == found["duckdb"], table.name
            assert csv == [{name: as_text(value, kinds[name]) for name, value in row.items()} for row in found["jsonl"]]
            described = {column.name: column.description for column in table.columns}
            assert {field.name: field.metadata[b"description"].decode() for field in parquet.schema} == described
            comments = database.execute(
                "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = ?", [table.name]
            ).fetchall()
            assert dict(comments) == described
