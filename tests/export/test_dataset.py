"""Pulls into datasets, on a disk and in a bucket: what readers see, and what a second pull of a night leaves."""

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import obstore
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from seorep_async import Feed
from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.tables.declared import all_tables
from tests.export.door import RECEIPTS
from tests.export.reports import NIGHT, Fail, account, names, parts, pull_into, rows
from tests.export.s3 import Bucket

TABLES = [table.name for table in all_tables()]
ALL: dict[str, Any] = {"feeds": list(Feed), "account": "acme", "snapshot_date": NIGHT}


@pytest.fixture
def in_bucket(tmp_path: Path, bucket: Bucket) -> dict[str, Any]:
    return {"storage_options": bucket.server.options, "work_dir": tmp_path}


async def test_each_table_is_one_part_of_the_night(tmp_path: Path) -> None:
    async with account(campaigns=2, keywords=3) as (_, client):
        summary = await pull_into(client, f"{tmp_path}/rankings/", **ALL)
    partition = f"account=acme/snapshot_date={NIGHT}"
    names_of_parts = [f"{table}/{partition}/part-00000.parquet" for table in TABLES]
    assert parts(tmp_path / "rankings") == sorted([f"{RECEIPTS}/{partition}.json", *names_of_parts])
    assert [str(path) for path in summary.paths] == [f"{tmp_path}/rankings/{table}/{partition}" for table in TABLES[:3]]
    assert names(tmp_path) == ["rankings"]
    for name in names_of_parts:
        schema = pq.ParquetFile(tmp_path / "rankings" / name).schema_arrow
        assert {"account", "snapshot_date"}.isdisjoint(schema.names), name  # they stand in the path only
        assert all(field.metadata[b"description"] for field in schema), name


@pytest.mark.parametrize("name", ["acme", "a/b=c d", "..a", "ü 日本 100%"])
async def test_every_reader_sees_the_same_rows(tmp_path: Path, name: str) -> None:
    out = tmp_path / "rankings"
    async with account(campaigns=2, keywords=3) as (_, client):
        for day in (NIGHT, NIGHT + dt.timedelta(1)):
            await pull_into(client, f"{out}/", **ALL | {"account": name, "snapshot_date": day})
    for table in ("keyword_rankings", "campaign_periods", "keyword_periods", "campaigns", "keywords"):
        columns = ["account", "snapshot_date", "campaign_id"]
        expected = rows(out, table, ", ".join(columns))
        assert {(one[0], one[1]) for one in expected} == {(name, NIGHT), (name, NIGHT + dt.timedelta(1))}
        frame = pl.scan_parquet(f"{out}/{table}/", hive_partitioning=True).select(columns).collect()
        assert sorted(frame.rows()) == expected
        arrow = ds.dataset(out / table, partitioning="hive").to_table(columns)
        found = zip(*arrow.to_pydict().values(), strict=True)
        assert sorted((name, dt.date.fromisoformat(day), id_) for name, day, id_ in found) == expected


async def test_the_same_facts_as_in_a_file(tmp_path: Path) -> None:
    async with account(campaigns=3, keywords=4, shape="mixed", rows="mixed", failing={2: 404}) as (_, client):
        await pull_into(client, f"{tmp_path}/rankings/", **ALL)
        await pull_into(client, tmp_path / "a.parquet", **ALL)
    for table in TABLES:
        columns = ", ".join(pq.read_schema(tmp_path / f"a.{table}.parquet").names)
        if table == "pulls":
            columns = "account, snapshot_date, service, feeds, rows, failures"
        query = f"SELECT {columns} FROM '{tmp_path}/a.{table}.parquet' ORDER BY ALL"  # noqa: S608
        assert rows(tmp_path / "rankings", table, columns) == duckdb.execute(query).fetchall(), table


async def test_an_existing_dataset_needs_no_slash(tmp_path: Path) -> None:
    async with account(campaigns=1, keywords=1) as (_, client):
        for out in (f"{tmp_path}/rankings/", tmp_path / "rankings"):
            await pull_into(client, out, **ALL)
    assert len(rows(tmp_path / "rankings", "keyword_rankings")) == 1


async def test_what_failed_keeps_the_rows_it_had(tmp_path: Path, fail: Fail) -> None:
    out = tmp_path / "rankings"
    async with account(campaigns=4, keywords=3) as (_, client):
        await pull_into(client, f"{out}/", **ALL)
        before = {table: rows(out, table) for table in TABLES if table not in ("campaigns", "failures", "pulls")}
        for failing, failures in (((2, 3), 6), ((1, 2, 3, 4), 12)):
            fail(*failing)
            await pull_into(client, f"{out}/", restart=True, **ALL)
            assert {table: rows(out, table) for table in before} == before
            assert len(rows(out, "failures")) == failures
    assert (len(rows(out, "campaigns")), len(rows(out, "pulls"))) == (4, 3)


async def test_a_bucket_holds_the_same_as_a_folder(tmp_path: Path, bucket: Bucket) -> None:
    async with account(campaigns=2, keywords=3) as (_, client):
        out = f"{bucket.url}/some/rankings/"
        options = bucket.server.options
        summary = await pull_into(client, out, storage_options=options, work_dir=tmp_path, **ALL)
        await pull_into(client, f"{tmp_path}/rankings/", **ALL)
    objects = bucket.objects()
    assert [name.removeprefix("some/rankings/") for name in objects] == parts(tmp_path / "rankings")
    for name, data in objects.items():
        if name.endswith(".parquet") and "/pulls/" not in name:
            assert data == (tmp_path / name.removeprefix("some/")).read_bytes()
    assert summary.paths[0] == f"{out}keyword_rankings/account=acme/snapshot_date={NIGHT}"
    assert names(tmp_path) == ["rankings"]
    options["endpoint_url"], options["aws_allow_http"] = options.pop("endpoint"), options.pop("allow_http")
    frame = pl.scan_parquet(f"{out}keyword_rankings/", storage_options=options, hive_partitioning=True).collect()
    assert frame.height == 6
    assert frame["account"].unique().to_list() == ["acme"]


async def test_a_bucket_that_disappears_costs_nothing(bucket: Bucket, in_bucket: dict[str, Any]) -> None:
    out = f"{bucket.url}/rankings/"
    async with account(campaigns=3, keywords=2) as (sandbox, client):

        def disappear(progress: Any) -> None:
            if progress.rows and bucket_is_there.pop("yes", False):
                bucket.remove()

        bucket_is_there = {"yes": True}
        with pytest.raises(ExportError, match=r"^can't read s3://[^\n]*NoSuchBucket[^\n]*$"):
            await pull_into(client, out, on_progress=disappear, **in_bucket, **ALL)
        bucket.server.ask("PUT", f"/{bucket.name}")
        before = sandbox.stats.requests
        summary = await pull_into(client, out, **in_bucket, **ALL)
        assert sandbox.stats.requests == before
    assert summary.rows == 3 * 2 + 9 + 3 * 2 * 3
    assert len(bucket.objects()) == len(TABLES) + 1


@pytest.mark.parametrize("name", ["", "a.csv", "a.duckdb"])
async def test_no_bucket_and_no_database_in_one_is_found_out_first(
    bucket: Bucket, in_bucket: dict[str, Any], name: str
) -> None:
    said = "NoSuchBucket"
    if name == "a.duckdb":
        said = "a database can't be in an object store"
    else:
        bucket.remove()
    async with account() as (sandbox, client):
        with pytest.raises((ExportError, ConfigurationError), match=said):
            await pull_into(client, f"{bucket.url}/{name}", **in_bucket)
        assert sandbox.stats.requests == 0


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
async def test_a_single_file_in_a_bucket_is_the_local_one(
    tmp_path: Path, bucket: Bucket, in_bucket: dict[str, Any], ending: str, fail: Fail
) -> None:
    out = f"{bucket.url}/some/a.{ending}"
    (tmp_path / "local").mkdir()
    async with account(campaigns=2, keywords=3) as (_, client):
        fail(2)
        for _ in range(2):
            summary = await pull_into(client, out, **in_bucket, **ALL)
            await pull_into(client, tmp_path / f"local/a.{ending}", **ALL)
            local = {f"some/{path.name}": path.read_bytes() for path in sorted((tmp_path / "local").glob("a.*"))}
            found = bucket.objects()
            assert list(found) == list(local)
            assert {name: data for name, data in found.items() if "pulls" not in name} == {
                name: data for name, data in local.items() if "pulls" not in name
            }
            assert sorted(map(str, summary.paths)) == [f"{bucket.url}/{name}" for name in local]
            fail()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
async def test_an_object_that_no_pull_wrote_needs_force(bucket: Bucket, in_bucket: dict[str, Any], ending: str) -> None:
    obstore.put(bucket.store, f"some/a.{ending}", b"somebody's\n")
    async with account() as (sandbox, client):
        out = f"{bucket.url}/some/a.{ending}"
        with pytest.raises(ConfigurationError, match=rf"can't write {out}: it exists, .* replace it with force=True"):
            await pull_into(client, out, **in_bucket)
        assert sandbox.stats.requests == 0
        await pull_into(client, out, force=True, **in_bucket)
        summary = await pull_into(client, out, **in_bucket)
        assert summary.paths[0] == out


async def test_a_file_of_no_rows_in_a_bucket_is_replaced(bucket: Bucket, in_bucket: dict[str, Any]) -> None:
    async with account(campaigns=2, keywords=0) as (_, client):
        for _ in range(2):
            await pull_into(client, f"{bucket.url}/a.jsonl", **in_bucket, **ALL)
    assert bucket.objects()["a.keyword_rankings.jsonl"] == b""
