"""Read back from every format, every value and type is the models', and the same in each."""

import asyncio
import datetime as dt
import json
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

from seorep_async import Feed, KeywordRanking, RankingReport, SeoRepClient
from seorep_async.export import schema, to_arrow, to_polars
from seorep_async.reports import column_values
from seorep_async.tables.columns import ColumnType, Table, as_json
from seorep_async.tables.declared import all_tables, table_of
from tests.cli.running import serving
from tests.export.reports import END, FORMATS, NIGHT, START, account, pull_into, rows_in

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
    """What was pulled in every format, and what the models say should be there."""

    folder: Path
    feed: Feed
    rows: list[dict[str, Any]]
    reports: list[RankingReport[Any]]

    @property
    def kinds(self) -> dict[str, ColumnType]:
        return {column.name: column.type for column in table_of(self.feed).columns}

    @property
    def integers(self) -> list[str]:
        return [name for name, kind in self.kinds.items() if kind is ColumnType.INTEGER]

    def file(self, ending: str) -> Path:
        return self.folder / f"a.{ending}"

    @contextmanager
    def table(self, ending: str) -> Generator[duckdb.DuckDBPyRelation]:
        """Give a file or the table of a database as DuckDB reads it."""
        with duckdb.connect() if ending == "parquet" else duckdb.connect(str(self.file(ending))) as connection:
            if ending == "parquet":
                yield connection.read_parquet(str(self.file(ending)))
            else:
                yield connection.table(table_of(self.feed).name)


async def pulled(base_url: str, folder: Path, feed: Feed) -> Pulled:
    async with SeoRepClient(base_url, "sandbox") as client:
        for ending in FORMATS:
            await pull_into(client, folder / f"a.{ending}", feeds=feed, snapshot_date=NIGHT)
        reports: list[RankingReport[Any]] = []
        expected: list[dict[str, Any]] = []
        names = [column.name for column in table_of(feed).columns]
        for campaign_id in range(1, 7):
            rankings = await client.rankings.campaign(campaign_id, START, END)
            received: list[RankingReport[Any]] = [rankings]
            if feed is Feed.KEYWORD_BY_DATE:
                received = [await client.rankings.keyword_by_date(row.keyword_id, START, END) for row in rankings.rows]
            elif feed is Feed.CAMPAIGN_BY_DATE:
                received = [await client.rankings.campaign_by_date(campaign_id, START, END)]
            reports += [attrs.evolve(report, snapshot_date=NIGHT) for report in received]
            for report in received:
                for values in zip(*column_values(report, campaign_id=campaign_id, snapshot_date=NIGHT), strict=True):
                    expected.append(dict(zip(names, map(plain, values), strict=True)))
    assert any(None in row.values() for row in expected)
    return Pulled(folder, feed, expected, reports)


@pytest.fixture(scope="module", params=Feed, ids=lambda feed: feed.value)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pulled:
    with serving(campaigns=6, keywords=8, shape="mixed", rows="mixed") as sandbox:
        return asyncio.run(pulled(sandbox.base_url, tmp_path_factory.mktemp("pulled"), request.param))


def records(frame: pd.DataFrame, names: list[str]) -> list[dict[str, Any]]:
    """Return columns of a frame of pandas, with None where nothing is."""
    found: list[dict[str, Any]] = frame[names].astype(object).where(frame[names].notna(), None).to_dict("records")
    return found


@pytest.mark.parametrize("ending", ["parquet", "duckdb"])
def test_duckdb_reads_every_value_and_type(found: Pulled, ending: str) -> None:
    with found.table(ending) as table:
        assert dict(zip(table.columns, map(named, table.types), strict=True)) == {
            name: DUCKDB[kind] for name, kind in found.kinds.items()
        }
        assert [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()] == found.rows


def test_polars_reads_every_value_and_type(found: Pulled) -> None:
    frame = pl.read_parquet(found.file("parquet"))
    assert {name: kind for name, kind in frame.schema.items() if name != "tags"} == {
        name: POLARS[kind] for name, kind in found.kinds.items() if name != "tags"
    }
    assert frame.to_dicts() == found.rows
    with found.table("duckdb") as table:
        assert pl.DataFrame(pl.from_arrow(table.to_arrow_table())).to_dicts() == found.rows


def test_pandas_reads_parquet_as_it_is(found: Pulled) -> None:
    frame = pd.read_parquet(found.file("parquet"))
    kinds = {ColumnType.INTEGER: "Int64", ColumnType.BOOLEAN: "boolean"}
    for name, kind in found.kinds.items():
        assert not pd.api.types.is_float_dtype(frame[name]), name
        assert str(frame[name].dtype) == kinds.get(kind, str(frame[name].dtype))
        is_list = kind is ColumnType.TAGS
        values = [list(value) if is_list else None if pd.isna(value) else value for value in frame[name]]
        assert values == [row[name] for row in found.rows], name


def test_pandas_reads_a_database_without_floats(found: Pulled) -> None:
    with found.table("duckdb") as table:
        frame = table.to_arrow_table().to_pandas(types_mapper=pd.ArrowDtype)
    assert [name for name in frame if pd.api.types.is_float_dtype(frame[name])] == []
    assert records(frame, found.integers) == [{name: row[name] for name in found.integers} for row in found.rows]


INTEGERS: dict[str, Callable[[str, list[str]], list[dict[str, Any]]]] = {
    "csv by polars": lambda file, names: pl.read_csv(
        file, schema_overrides=dict.fromkeys(names, pl.Int64)
    ).select(names).to_dicts(),
    "csv by pandas": lambda file, names: records(pd.read_csv(file, dtype=dict.fromkeys(names, "Int64")), names),
    "csv by duckdb": lambda file, names: duckdb.read_csv(
        file, dtype=dict.fromkeys(names, "BIGINT")
    ).project(", ".join(names)).to_arrow_table().to_pylist(),
    "jsonl by polars": lambda file, names: pl.read_ndjson(
        file, schema_overrides=dict.fromkeys(names, pl.Int64)
    ).select(names).to_dicts(),
}  # fmt: skip


@pytest.mark.parametrize("way", INTEGERS)
def test_integers_are_read_from_text_with_their_types(found: Pulled, way: str) -> None:
    file = str(found.file(way.partition(" ")[0]))
    assert INTEGERS[way](file, found.integers) == [{name: row[name] for name in found.integers} for row in found.rows]


def test_duckdb_reads_json_lines(found: Pulled) -> None:
    lists = (ColumnType.TAGS, ColumnType.FIELDS)
    types = {name: DUCKDB[kind] for name, kind in found.kinds.items() if kind not in lists}
    table = duckdb.read_json(str(found.file("jsonl")), format="newline_delimited", columns=types)
    expected = [{name: row[name] for name in types} for row in found.rows]
    assert [dict(zip(types, row, strict=True)) for row in table.fetchall()] == expected


def test_reports_in_memory_agree_with_the_file(found: Pulled) -> None:
    rows, lines = found.rows, found.file("jsonl").read_bytes()
    if found.feed is Feed.KEYWORD_BY_DATE:  # in memory it does not know its campaign
        rows, lines = [row | {"campaign_id": None} for row in rows], re.sub(rb'("campaign_id":)\d+', rb"\1null", lines)
    dicts = [row for report in found.reports for row in report.to_dicts()]
    assert [list(row) for row in dicts] == [list(row) for row in rows]
    assert [{name: plain(value) for name, value in row.items()} for row in dicts] == rows
    assert {(name, type(value)) for row in dicts for name, value in row.items() if value is not None} <= {
        (name, PYTHON[kind]) for name, kind in found.kinds.items()
    }
    assert b"".join(report.to_jsonl() for report in found.reports) == lines
    table = to_arrow(found.reports)
    assert table.schema.types == schema(found.feed).types
    assert table.to_pylist() == rows
    assert to_polars(found.reports).to_dicts() == rows


# --- The eight tables


@pytest.mark.parametrize("table", all_tables(), ids=lambda table: table.name)
def test_every_column_says_what_it_means(table: Table) -> None:
    assert [column.name for column in table.columns if not column.description.endswith(".")] == []


def test_help_of_a_model_says_what_each_attribute_means() -> None:
    said = KeywordRanking.__doc__ or ""
    assert "wmt_ctr: Judging by its name, click-through rate in the first engine's webmaster tools" in said


def as_line(value: Any, kind: ColumnType) -> Any:
    """Return a value of Arrow or DuckDB as JSON lines has it."""
    if isinstance(value, dt.date):
        return value.isoformat()
    if kind is ColumnType.TAGS:
        return [{name: held for name, held in tag.items() if name != "extra" or held} for tag in value]
    return value if kind not in (ColumnType.ANY, ColumnType.FIELDS) or value is None else json.loads(value)


def as_csv(value: Any, kind: ColumnType) -> str:
    """Return a value of JSON lines as CSV has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return as_json(value) if kind in (ColumnType.TAGS, ColumnType.FIELDS, ColumnType.ANY) else str(value)


async def test_every_format_holds_the_same_values(tmp_path: Path) -> None:
    async with account(campaigns=3, keywords=4, shape="mixed", rows="mixed", failing={2: 404}) as (_, client):
        for ending in ("csv", "jsonl", "parquet", "duckdb"):
            await pull_into(client, tmp_path / f"a.{ending}", feeds=Feed, snapshot_date=NIGHT)
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
                    {name: as_line(value, kinds[name]) for name, value in row.items()} for row in parquet.to_pylist()
                ],
                "duckdb": [{name: as_line(value, kinds[name]) for name, value in row.items()} for row in held],
            }
            csv = rows_in(tmp_path / f"a.{table.name}.csv")
            for rows in (*found.values(), csv):
                for row in rows:
                    for name in ("started_at", "waited"):
                        row.pop(name, None)  # of four pulls
            assert found["jsonl"]
            assert found["jsonl"] == found["parquet"] == found["duckdb"], table.name
            assert csv == [{name: as_csv(value, kinds[name]) for name, value in row.items()} for row in found["jsonl"]]
            described = {column.name: column.description for column in table.columns}
            assert {field.name: field.metadata[b"description"].decode() for field in parquet.schema} == described
            comments = database.execute(
                "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = ?", [table.name]
            ).fetchall()
            assert dict(comments) == described
