"""Changes that nobody requested are in no table of a pull; reports of any size are staged and read in order."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from seorep_async import Feed, RankingReport, Tag
from seorep_async.reports import column_values
from seorep_async.tables.arrow import arrow_schema, record_batch
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import keywords_table, table_of
from tests.export.door import Format, arrow_tables, encoded
from tests.export.reports import END, NIGHT, START, account, pull_into, ranking, spec_of

FEEDS = [Feed.CAMPAIGN, Feed.CAMPAIGN_BY_DATE]
FIRST = ranking(engine_a_ranking=3, tags=(Tag(1, "a"), Tag(2, "b", {"colour": "red"})), extra={"new": [1]})


def report(*rows: Any) -> RankingReport[Any]:
    return RankingReport(feed=Feed.CAMPAIGN, id=7, start_date=START, end_date=END, rows=rows)


def changes(row: dict[str, Any]) -> set[Any]:
    return {value for name, value in row.items() if name.endswith("_change")}


@pytest.mark.parametrize("table", [table_of(Feed.CAMPAIGN), keywords_table()], ids=lambda table: table.name)
def test_reports_of_any_size_are_staged_and_read_in_order(table: Table) -> None:
    sizes, rows = [3, 100, 250, 0, 99, 5000, 1], (FIRST, *(ranking(keyword_id=n, wmt_ctr=n) for n in range(2, 5001)))
    reports = [report(*rows[:size]) for size in sizes]
    staged = encoded(Format.PARQUET, spec_of(), [(one, 7) for one in reports], rows=True, keywords=False)
    (read,) = arrow_tables(table, staged, table_of(Feed.CAMPAIGN))  # type: ignore[arg-type]
    lead = {"account": "acme", "snapshot_date": NIGHT, "campaign_id": 7}
    wanted = [record_batch(table_of(Feed.CAMPAIGN), column_values(one, **lead)) for one in reports]
    assert read.equals(pa.Table.from_batches(wanted).select(read.column_names))
    assert read.schema.equals(arrow_schema(table))


async def test_no_table_of_a_pull_holds_unrequested_changes(tmp_path: Path) -> None:
    tables, found = ("keyword_rankings", "campaign_periods", "totals"), []
    async with account(campaigns=2, keywords=3, rows="mixed", shape="mixed") as (_, client):
        for compared in (None, True):
            await pull_into(client, tmp_path / f"{compared}.jsonl", feeds=FEEDS, compare_previous_period=compared)
            files = [(tmp_path / f"{compared}.{table}.jsonl").read_bytes().splitlines() for table in tables]
            found.append([[json.loads(line) for line in lines] for lines in files])
    for plain, requested in zip(*found, strict=True):
        assert [changes(row) for row in plain] == [{None}] * len(plain)
        assert plain
        for row, other in zip(plain, requested, strict=True):
            assert changes(other) != {None}
            assert [name for name in row if row[name] != other[name] and not name.endswith("_change")] == []


async def test_a_history_holds_changes_of_the_nights_that_asked(tmp_path: Path) -> None:
    async with account(campaigns=1, keywords=3) as (_, client):
        nights: dict[str, bool | str] = {"2023-04-01": False, "2023-04-02": "true", "2023-04-03": "false"}
        for night, compared in nights.items():
            await pull_into(client, tmp_path / "a.duckdb", snapshot_date=night, compare_previous_period=compared)
    with duckdb.connect(str(tmp_path / "a.duckdb"), read_only=True) as database:
        rows = database.sql(
            "SELECT snapshot_date::text, count(engine_a_ranking_change) > 0, any_value(compared) "
            "FROM keyword_rankings JOIN pulls USING (account, snapshot_date) GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    assert rows == [("2023-04-01", False, False), ("2023-04-02", True, True), ("2023-04-03", False, False)]


async def test_the_models_keep_the_changes_that_were_sent() -> None:
    async with account(campaigns=1, keywords=1) as (_, client):
        report = await client.rankings.campaign_by_date(1, START, END)
    assert report.rows[0].engine_a_ranking_change == 0
    assert report.totals is not None
    assert report.totals.engine_a_ranking_change == 0
    assert changes(report.to_dicts()[0]) == {None}
