"""Without `compare_previous_period` no table shows a change, whatever the service sent; the models keep it."""

from __future__ import annotations

import csv
import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import duckdb
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from seorep_async import CampaignPeriod, Feed, RankingReport, RankingTotals
from seorep_async.export import pull_to, to_html
from seorep_async.tables.declared import all_tables
from tests.export.reports import END, FORMATS, START, account, ranking
from tests.scripted_api import LIST, serving, well_behaved

FEEDS = [Feed.CAMPAIGN, Feed.CAMPAIGN_BY_DATE]
ASKED = [True, "true", "TRUE", "1", 1, "previous_month", "on"]
NOT_ASKED = [None, False, 0, "", "false", "False", "0", "no", "off", " Off ", 0.0]

REPORTS = [
    RankingReport(
        Feed.CAMPAIGN, 7, START, END, (ranking(engine_a_ranking=70, engine_a_ranking_change=0),), compared=False
    ),
    RankingReport(
        Feed.CAMPAIGN_BY_DATE,
        7,
        START,
        END,
        (CampaignPeriod(dt.date(2023, 1, 1), engine_a_ranking=70, engine_a_ranking_change=0),),
        RankingTotals(engine_a_ranking=70, engine_a_ranking_change=0),
        compared=False,
    ),
]
WAYS: list[Callable[[RankingReport[Any]], list[dict[str, Any]]]] = [
    lambda report: report.to_dicts(),
    lambda report: [json.loads(line) for line in report.to_jsonl().splitlines()],
    lambda report: list(report.to_arrow().to_pylist()),
    lambda report: report.to_polars().to_dicts(),
    lambda report: list(json.loads(report.to_pandas().to_json(orient="records", date_format="iso"))),
]


def changes(row: dict[str, Any]) -> set[Any]:
    return {value for name, value in row.items() if name.endswith("_change")}


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.feed.value)
def test_frames_show_no_change_that_nobody_requested(report: RankingReport[Any], way: int) -> None:
    ((row,), (requested,)) = WAYS[way](report), WAYS[way](attrs.evolve(report, compared=True))
    assert (changes(row), row["engine_a_ranking"]) == ({None}, 70)
    assert requested["engine_a_ranking_change"] == 0
    assert {name for name in row if row[name] != requested[name]} == {"engine_a_ranking_change"}


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.feed.value)
def test_a_notebook_shows_no_change_that_nobody_requested(report: RankingReport[Any]) -> None:
    assert "change" not in to_html(report)
    assert "change</th>" in to_html(attrs.evolve(report, compared=True)).replace("<wbr>", "")


def tables_in(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every row of a target with the name of its table; an empty cell is None."""
    for table in ("keyword_rankings", "campaign_periods", "totals"):
        rows: list[dict[str, Any]]
        beside = path.with_suffix(f".{table}{path.suffix}")
        if path.suffix == ".duckdb":
            with duckdb.connect(str(path), read_only=True) as database:
                rows = database.table(table).to_arrow_table().to_pylist()
        elif path.suffix == ".csv":
            with open(beside, encoding="utf-8", newline="") as file:
                rows = [{name: value or None for name, value in row.items()} for row in csv.DictReader(file)]
        elif path.suffix == ".jsonl":
            rows = [json.loads(line) for line in beside.read_bytes().splitlines()]
        else:
            parts = sorted(path.glob(f"{table}/**/*.parquet")) if path.is_dir() else [beside]
            rows = [row for part in parts for row in pq.read_table(part, partitioning=None).to_pylist()]
        yield from ((table, row) for row in rows)


@pytest.mark.parametrize("target", [*(f"a.{ending}" for ending in FORMATS), "a/"])
async def test_no_table_of_a_pull_holds_unrequested_changes(tmp_path: Path, target: str) -> None:
    found = []
    async with account(campaigns=2, keywords=3, rows="mixed", shape="mixed") as (_, client):
        for compared in (None, True):
            folder = tmp_path / str(compared)
            folder.mkdir()
            await pull_to(
                client, None, START, END, out=f"{folder}/{target}", feeds=FEEDS, compare_previous_period=compared
            )
            found.append(list(tables_in(folder / target)))
    plain, requested = found
    assert {table for table, _ in plain} == {"keyword_rankings", "campaign_periods", "totals"}
    assert set().union(*(changes(row) for _, row in plain)) == {None}
    assert all(changes(row) != {None} for _, row in requested)
    assert len(plain) == len(requested)
    for (_, row), (_, other) in zip(plain, requested, strict=True):
        assert {name for name in row if row[name] != other[name]} <= {name for name in row if name.endswith("_change")}


async def test_a_history_holds_changes_of_the_nights_that_asked(tmp_path: Path) -> None:
    async with account(campaigns=1, keywords=3) as (_, client):
        nights: dict[str, bool | str] = {"2023-04-01": False, "2023-04-02": "true", "2023-04-03": "false"}
        for night, compared in nights.items():
            await pull_to(
                client,
                None,
                START,
                END,
                out=tmp_path / "a.duckdb",
                snapshot_date=night,
                compare_previous_period=compared,
            )
    with duckdb.connect(str(tmp_path / "a.duckdb"), read_only=True) as database:
        rows = database.sql(
            "SELECT snapshot_date::text, count(engine_a_ranking_change) > 0, any_value(compared) "
            "FROM keyword_rankings JOIN pulls USING (account, snapshot_date) GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    assert rows == [("2023-04-01", False, False), ("2023-04-02", True, True), ("2023-04-03", False, False)]


@pytest.mark.parametrize(("value", "asked"), [*((one, True) for one in ASKED), *((one, False) for one in NOT_ASKED)])
async def test_which_values_request_changes(value: Any, asked: bool) -> None:
    async with serving(well_behaved(LIST, 0, 1)) as (client, _):
        assert (await client.rankings.campaign(1, START, END, compare_previous_period=value)).compared is asked


async def test_the_models_keep_the_changes_that_were_sent() -> None:
    async with account(campaigns=1, keywords=1) as (_, client):
        report = await client.rankings.campaign_by_date(1, START, END)
    assert report.rows[0].engine_a_ranking_change == 0
    assert report.totals is not None
    assert report.totals.engine_a_ranking_change == 0
    assert changes(report.to_dicts()[0]) == {None}


def test_the_columns_say_why_changes_are_null() -> None:
    found = [column for table in all_tables() for column in table.columns if column.name.endswith("_change")]
    assert len(found) == 12
    assert {"compare_previous_period" in column.description for column in found} == {True}
