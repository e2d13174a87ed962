"""A database is filled in one transaction, and filled again without doubling."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from pathlib import Path

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from seorep_async.export import ExportError, pull_to
from seorep_async.tables.declared import keywords_table
from tests.export.databases import ask, fill, opened_elsewhere, refused
from tests.export.door import insert, make_table
from tests.export.reports import END, START, account


def counts(path: Path, name: str = "keyword_rankings") -> dict[int, int]:
    query = f"SELECT campaign_id, count(*) FROM {name} GROUP BY ALL ORDER BY ALL"  # noqa: S608
    return {row[0]: row[1] for row in ask(path, query)}


async def test_rows_of_a_campaign_that_failed_stay_from_before(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    async with account(keywords=3) as (_, client):
        await fill(client, path)
    async with account(keywords=5, failing={2: 404}) as (_, client):
        await fill(client, path)
    assert counts(path) == {1: 5, 2: 3, 3: 5, 4: 5}
    assert counts(path, "keyword_periods") == {1: 15, 2: 9, 3: 15, 4: 15}
    assert ask(path, "SELECT table_name, campaign_id, status FROM failures ORDER BY ALL") == [
        ("campaign_periods", 2, 404),
        ("keyword_periods", 2, 404),
        ("keyword_rankings", 2, 404),
    ]


@pytest.mark.parametrize("name", ["mine", "wanted", "fetched", "failed", "arriving"])
async def test_tables_of_others_stay(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute(f"CREATE TABLE {name} AS SELECT 42 AS answer")
    async with account(campaigns=1, keywords=1) as (_, client):
        await fill(client, path)
        await fill(client, path)
    assert ask(path, f"SELECT answer FROM {name}") == [(42,)]  # noqa: S608
    assert counts(path) == {1: 1}


async def test_a_table_of_an_earlier_version_gets_the_new_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    async with account(campaigns=1, keywords=2) as (_, client):
        await fill(client, path)
        with duckdb.connect(str(path)) as database:
            database.execute("DROP VIEW keyword_rankings_latest; ALTER TABLE keyword_rankings DROP COLUMN backlinks")
            database.execute("UPDATE pulls SET version = '0.0.9'")
        await fill(client, path)
    assert ask(path, "SELECT count(*), count(backlinks) FROM keyword_rankings") == [(2, 0)]


async def test_open_in_another_program_it_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with opened_elsewhere(path) as other:
        async with account() as (sandbox, client):
            with pytest.raises(ExportError, match="it is open in another program; close it there"):
                await fill(client, path)
            assert sandbox.stats.requests == 0
        other.communicate()


async def test_a_disk_that_refuses_duckdbs_locks_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise duckdb.IOException('IO Error: Could not set lock on file "/a.duckdb": No locks available.')

    async with account(campaigns=1) as (_, client):
        monkeypatch.setattr(duckdb, "connect", refuse)
        with pytest.raises(ExportError, match="its file system refuses the locks that DuckDB needs"):
            await fill(client, tmp_path / "a.duckdb")


async def test_opened_meanwhile_nothing_changes_and_what_came_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    async with account(campaigns=2, keywords=3) as (sandbox, client):
        await fill(client, path)
        before = ask(path, "SELECT * FROM keyword_rankings")
        others: list[subprocess.Popen[bytes]] = []

        def open_it(_: object) -> None:
            if not others:
                others.append(opened_elsewhere(path))

        with pytest.raises(ExportError, match="open in another program"):
            await fill(client, path, on_progress=open_it)
        others[0].communicate()
        assert ask(path, "SELECT * FROM keyword_rankings") == before
        asked = sandbox.stats.requests
        assert (await fill(client, path)).ok
        assert sandbox.stats.requests == asked


async def test_a_night_without_any_report_writes_what_failed(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    others = ("keyword_rankings", "campaign_periods", "keyword_periods", "totals", "campaigns", "keywords")
    async with account(campaigns=2, keywords=3) as (_, client):
        await fill(client, path)
    before = [ask(path, f"SELECT * FROM {name}") for name in others]  # noqa: S608
    async with account(campaigns=3, keywords=3, failing={1: 404, 2: 404, 3: 404}) as (_, client):
        summary = await fill(client, path)
    assert (summary.paths, len(summary.failures)) == ((), 9)
    assert [ask(path, f"SELECT * FROM {name}") for name in others] == before  # noqa: S608
    assert ask(path, "SELECT rows, failures FROM pulls ORDER BY started_at") == [(30, 0), (0, 9)]
    assert ask(path, "SELECT count(*) FROM failures") == [(9,)]


async def test_a_table_of_another_with_an_older_name_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE campaign (id BIGINT, name TEXT, start_date DATE, budget DOUBLE)")
    async with account(campaigns=1, keywords=1) as (_, client):
        assert (await fill(client, path)).ok


async def test_open_in_this_program_says_what_to_close(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    async with account(campaigns=1, keywords=1) as (_, client):
        await fill(client, path)
        with duckdb.connect(str(path), read_only=True), pytest.raises(ExportError, match="close that connection"):
            await fill(client, path)


async def test_a_night_may_be_tomorrow(tmp_path: Path) -> None:
    async with account(campaigns=1, keywords=1) as (_, client):
        tomorrow = dt.datetime.now(dt.UTC).date() + dt.timedelta(1)
        assert (await fill(client, tmp_path / "a.duckdb", snapshot_date=tomorrow)).ok


@pytest.mark.parametrize("name", ["a.duckdb", "locksmith.duckdb"])
async def test_a_file_that_is_no_database_is_refused_at_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"something else\n" * 1000)
    async with account() as (_, client):
        await refused(client, path, rf"can't write .*{name}.*not a valid DuckDB")
    assert path.read_bytes() == b"something else\n" * 1000


def test_rows_of_a_database_are_in_the_order_of_the_pull() -> None:
    table, count = keywords_table(), 200_000
    day = pa.array([dt.date(2023, 4, 1)] * count)
    columns = {"account": ["a"] * count, "snapshot_date": day, "campaign_id": [1] * count, "keyword_id": range(count)}
    columns["keyword_phrase"] = ["tea"] * count
    with duckdb.connect() as database:
        make_table(database, table, {})
        database.register("arriving", pa.Table.from_batches(pa.table(columns).to_batches(500)))
        insert(database, table)
        found = database.execute("SELECT keyword_id FROM keywords").fetchnumpy()["keyword_id"]
    assert found.tolist() == list(range(count))


async def test_a_pull_says_what_was_retried_and_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    async with account(campaigns=8, keywords=2, faults="500s=40%", seed=2) as (_, client):
        summary = await pull_to(client, None, START, END, out=path)
    assert summary.stats is not None
    assert summary.stats.retries.keys() == {"transient"}
    ((started_at, retries, refusals, waited),) = ask(path, "SELECT started_at, retries, refusals, waited FROM pulls")
    assert (started_at, refusals) == (summary.started_at, 0)
    assert json.loads(retries) == summary.stats.retries
    assert json.loads(waited)["backoff"] == pytest.approx(summary.stats.waited["backoff"], abs=0.001)
