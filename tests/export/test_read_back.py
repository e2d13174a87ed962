"""Read back by duckdb, polars and pandas, every value and type is the models'."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import attrs
import duckdb
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from seorep_async import Feed, RankingReport
from seorep_async.export import pull_to, schema, to_arrow, to_pandas, to_polars
from seorep_async.reports import column_values
from seorep_async.tables.columns import ColumnType
from seorep_async.tables.declared import table_of
from tests.export.reports import END, NIGHT, START, account

POLARS = {
    ColumnType.INTEGER: pl.Int64,
    ColumnType.STRING: pl.String,
    ColumnType.BOOLEAN: pl.Boolean,
    ColumnType.DATE: pl.Date,
    ColumnType.FIELDS: pl.String,
}
PYTHON = {
    ColumnType.INTEGER: int,
    ColumnType.STRING: str,
    ColumnType.BOOLEAN: bool,
    ColumnType.DATE: dt.date,
    ColumnType.FIELDS: dict,
    ColumnType.TAGS: list,
}
DUCKDB = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.STRING: "VARCHAR",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.FIELDS: "VARCHAR",
    ColumnType.TAGS: "STRUCT(id BIGINT, label VARCHAR, extra VARCHAR)[]",
}


def plain(value: Any) -> Any:
    """Return a value of a model as the tables have it."""
    if isinstance(value, tuple):
        return [
            {"id": tag.id, "label": tag.label, "extra": json.dumps(tag.extra) if tag.extra else None} for tag in value
        ]
    if isinstance(value, list):  # tags as dictionaries
        return [tag | {"extra": json.dumps(tag["extra"]) if "extra" in tag else None} for tag in value]
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True) if value else None
    return value


def named(kind: object) -> str:
    return str(kind).replace('"', "")


@attrs.frozen
class Pulled:
    """What was pulled, and what the models say should be there."""

    path: Path
    feed: Feed
    rows: list[dict[str, Any]]
    reports: list[RankingReport[Any]]

    @property
    def kinds(self) -> dict[str, ColumnType]:
        return {column.name: column.type for column in table_of(self.feed).columns}


async def pulled(folder: Path, feed: Feed, ending: str) -> Pulled:
    path = folder / f"a.{ending}"
    async with account(campaigns=6, keywords=8, shape="mixed", rows="mixed") as (_, client):
        await pull_to(client, None, START, END, out=path, feeds=feed, snapshot_date=NIGHT)
        expected: list[dict[str, Any]] = []
        received: list[RankingReport[Any]] = []
        names = [column.name for column in table_of(feed).columns]
        for campaign_id in range(1, 7):
            reports: list[RankingReport[Any]]
            rankings = await client.rankings.campaign(campaign_id, START, END)
            if feed is Feed.KEYWORD_BY_DATE:
                reports = [await client.rankings.keyword_by_date(row.keyword_id, START, END) for row in rankings.rows]
            elif feed is Feed.CAMPAIGN:
                reports = [rankings]
            else:
                reports = [await client.rankings.campaign_by_date(campaign_id, START, END)]
            received += [attrs.evolve(report, snapshot_date=NIGHT) for report in reports]
            for report in reports:
                for values in zip(*column_values(report, campaign_id=campaign_id, snapshot_date=NIGHT), strict=True):
                    expected.append(dict(zip(names, map(plain, values), strict=True)))
    assert any(None in row.values() for row in expected)
    return Pulled(path, feed, expected, received)


@pytest.mark.parametrize("feed", Feed)
async def test_parquet_by_duckdb(tmp_path: Path, feed: Feed) -> None:
    found = await pulled(tmp_path, feed, "parquet")
    table = duckdb.read_parquet(str(found.path))
    assert dict(zip(table.columns, map(named, table.types), strict=True)) == {
        name: DUCKDB[kind] for name, kind in found.kinds.items()
    }
    assert [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()] == found.rows


@pytest.mark.parametrize("feed", Feed)
async def test_parquet_by_polars(tmp_path: Path, feed: Feed) -> None:
    found = await pulled(tmp_path, feed, "parquet")
    frame = pl.read_parquet(found.path)
    assert {name: kind for name, kind in frame.schema.items() if name != "tags"} == {
        name: POLARS[kind] for name, kind in found.kinds.items() if name != "tags"
    }
    assert frame.to_dicts() == found.rows


@pytest.mark.parametrize("feed", Feed)
async def test_parquet_by_pandas_as_it_is(tmp_path: Path, feed: Feed) -> None:
    found = await pulled(tmp_path, feed, "parquet")
    frame = pd.read_parquet(found.path)
    for name, kind in found.kinds.items():
        assert not pd.api.types.is_float_dtype(frame[name]), name
        if kind is ColumnType.INTEGER:
            assert str(frame[name].dtype) == "Int64"
        if kind is ColumnType.BOOLEAN:
            assert str(frame[name].dtype) == "boolean"
        values = [None if kind is not ColumnType.TAGS and pd.isna(value) else value for value in frame[name]]
        if kind is ColumnType.TAGS:
            values = [list(value) for value in frame[name]]
        assert values == [row[name] for row in found.rows], name


@pytest.mark.parametrize("feed", Feed)
async def test_a_database_by_duckdb(tmp_path: Path, feed: Feed) -> None:
    found = await pulled(tmp_path, feed, "duckdb")
    with duckdb.connect(str(found.path), read_only=True) as database:
        table = database.table(table_of(feed).name)
        assert dict(zip(table.columns, map(named, table.types), strict=True)) == {
            name: DUCKDB[kind] for name, kind in found.kinds.items()
        }
        assert [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()] == found.rows


@pytest.mark.parametrize("feed", Feed)
async def test_a_database_by_polars_and_pandas(tmp_path: Path, feed: Feed) -> None:
    found = await pulled(tmp_path, feed, "duckdb")
    with duckdb.connect(str(found.path), read_only=True) as database:
        table = database.sql(f"SELECT * FROM {table_of(feed).name}").to_arrow_table()  # noqa: S608
    assert pl.DataFrame(pl.from_arrow(table)).to_dicts() == found.rows
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    assert [name for name in frame if pd.api.types.is_float_dtype(frame[name])] == []
    ints = [name for name, kind in found.kinds.items() if kind is ColumnType.INTEGER]
    assert frame[ints].astype(object).where(frame[ints].notna(), None).to_dict("records") == [
        {name: row[name] for name in ints} for row in found.rows
    ]


@pytest.mark.parametrize("feed", Feed)
async def test_csv_by_polars_and_pandas_and_duckdb_with_the_types(tmp_path: Path, feed: Feed) -> None:
    found = await pulled(tmp_path, feed, "csv")
    ints = [name for name, kind in found.kinds.items() if kind is ColumnType.INTEGER]
    expected = [{name: row[name] for name in ints} for row in found.rows]
    frame = pl.read_csv(found.path, schema_overrides=dict.fromkeys(ints, pl.Int64))
    assert frame.select(ints).to_dicts() == expected
    pandas = pd.read_csv(found.path, dtype=dict.fromkeys(ints, "Int64"))
    assert pandas[ints].astype(object).where(pandas[ints].notna(), None).to_dict("records") == expected
    table = duckdb.read_csv(str(found.path), dtype=dict.fromkeys(ints, "BIGINT"))
    assert [dict(zip(ints, row, strict=True)) for row in table.project(", ".join(ints)).fetchall()] == expected


@pytest.mark.parametrize("feed", Feed)
async def test_reports_in_memory_agree_with_the_file(tmp_path: Path, feed: Feed) -> None:
    found = await pulled(tmp_path, feed, "jsonl")
    rows, lines = found.rows, found.path.read_bytes()
    if feed is Feed.KEYWORD_BY_DATE:  # in memory it does not know its campaign
        rows, lines = [row | {"campaign_id": None} for row in rows], re.sub(rb'("campaign_id":)\d+', rb"\1null", lines)
    dicts = [row for report in found.reports for row in report.to_dicts()]
    assert [list(row) for row in dicts] == [list(row) for row in rows]
    assert [{name: plain(value) for name, value in row.items()} for row in dicts] == rows
    assert {(name, type(value)) for row in dicts for name, value in row.items() if value is not None} <= {
        (name, PYTHON[kind]) for name, kind in found.kinds.items()
    }
    assert b"".join(report.to_jsonl() for report in found.reports) == lines
    table = to_arrow(found.reports)
    assert table.schema.types == schema(feed).types
    assert table.to_pylist() == rows
    assert to_polars(found.reports).to_dicts() == rows
    frame = to_pandas(found.reports)
    assert [str(kind) for kind in frame.dtypes] == [f"{kind}[pyarrow]" for kind in table.schema.types]
    assert pa.Table.from_pandas(frame, preserve_index=False).to_pylist() == rows


@pytest.mark.parametrize("feed", Feed)
async def test_json_lines_by_polars_and_duckdb(tmp_path: Path, feed: Feed) -> None:
    found = await pulled(tmp_path, feed, "jsonl")
    ints = [name for name, kind in found.kinds.items() if kind is ColumnType.INTEGER]
    expected = [{name: row[name] for name in ints} for row in found.rows]
    frame = pl.read_ndjson(found.path, schema_overrides=dict.fromkeys(ints, pl.Int64))
    assert frame.select(ints).to_dicts() == expected
    types = {
        name: DUCKDB[kind] for name, kind in found.kinds.items() if kind not in (ColumnType.TAGS, ColumnType.FIELDS)
    }
    table = duckdb.read_json(str(found.path), format="newline_delimited", columns=types)
    assert [dict(zip(types, row, strict=True)) for row in table.fetchall()] == [
        {name: row[name] for name in types} for row in found.rows
    ]
    assert [json.loads(line)["start_date"] for line in found.path.read_text().splitlines()] == [
        START.isoformat() for _ in found.rows
    ]
    lines = [json.loads(line) for line in found.path.read_text().splitlines()]
    for line, row in zip(lines, found.rows, strict=True):
        for name, kind in found.kinds.items():
            if kind is ColumnType.DATE:
                assert (line[name] and dt.date.fromisoformat(line[name])) == row[name]
            elif kind in (ColumnType.INTEGER, ColumnType.STRING, ColumnType.BOOLEAN):
                assert (line[name], type(line[name])) == (row[name], type(row[name]))
