"""Reports as Arrow, pandas, polars and HTML; changes that nobody requested are in none of them, nor in a table."""

import datetime as dt
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import duckdb
import pyarrow as pa
import pytest

from seorep_async import (
    CampaignPeriod,
    ConfigurationError,
    Feed,
    KeywordPeriod,
    NotFoundError,
    PullOutcome,
    RankingReport,
    RankingTotals,
    SearchLocation,
    Tag,
)
from seorep_async.export import schema, to_arrow, to_html, to_pandas, to_polars
from seorep_async.reports import column_values
from seorep_async.tables.arrow import arrow_schema, record_batch
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import all_tables, keywords_table, table_of
from tests.export.door import Format, arrow_tables, encoded
from tests.export.reports import END, NIGHT, START, account, pull_into, ranking, spec_of
from tests.scripted_api import LIST, serving, well_behaved

ROWS = (
    ranking(
        primary_keyword=True,
        engine_a_ranking=3,
        last_results_date=dt.date(2023, 3, 1),
        search_location=SearchLocation(5, "Oslo,Norway", extra={"x": 1}),
        tags=(Tag(1, "a"), Tag(2, "b", {"colour": "red"})),
        extra={"new": [1]},
    ),
    ranking(keyword_id=2, keyword_phrase="<b>ø</b>", engine_a_ranking=None, primary_keyword=None),
)


def report(*rows: Any, feed: Feed = Feed.CAMPAIGN, id_: int = 7) -> RankingReport[Any]:
    return RankingReport(feed=feed, id=id_, start_date=START, end_date=END, rows=rows)


def test_values_are_the_models() -> None:
    first, second = to_arrow(report(*ROWS)).to_pylist()
    assert (first["campaign_id"], first["start_date"], first["end_date"]) == (7, START, END)
    assert (first["engine_a_ranking"], second["engine_a_ranking"]) == (3, None)
    assert (first["primary_keyword"], second["primary_keyword"]) == (True, None)
    assert first["last_results_date"] == dt.date(2023, 3, 1)
    assert (first["search_location_id"], first["search_location_extra"]) == (5, '{"x": 1}')
    assert first["tags"] == [
        {"id": 1, "label": "a", "extra": None},
        {"id": 2, "label": "b", "extra": '{"colour": "red"}'},
    ]
    assert (second["tags"], first["extra"], second["extra"]) == ([], '{"new": [1]}', None)
    assert second["keyword_phrase"] == "<b>ø</b>"


@pytest.mark.parametrize("feed", Feed)
def test_the_schema_is_that_of_a_report(feed: Feed) -> None:
    assert to_arrow(report(feed=feed)).schema.equals(schema(feed))
    assert schema(feed).field("campaign_id").nullable == (feed is Feed.KEYWORD_BY_DATE)


def test_several_reports_and_outcomes_make_one_table() -> None:
    found = to_arrow([report(ROWS[0]), PullOutcome(8, report(ROWS[1], id_=8))])
    assert found["campaign_id"].to_pylist() == [7, 8]


def test_a_failed_outcome_is_not_left_out_in_silence() -> None:
    with pytest.raises(NotFoundError):
        to_arrow([PullOutcome(8, error=NotFoundError("gone"))])


def test_no_report_needs_the_feed() -> None:
    assert to_arrow([], feed=Feed.CAMPAIGN_BY_DATE).num_rows == 0
    with pytest.raises(ConfigurationError, match="feed="):
        to_arrow([])


def test_reports_of_two_feeds_are_refused() -> None:
    period = report(CampaignPeriod(START), feed=Feed.CAMPAIGN_BY_DATE)
    with pytest.raises(ConfigurationError, match="one feed"):
        to_arrow([report(*ROWS), period])


def test_a_keywords_report_has_its_keyword_and_no_campaign() -> None:
    (row,) = to_arrow(report(KeywordPeriod(START), feed=Feed.KEYWORD_BY_DATE, id_=9)).to_pylist()
    assert (row["campaign_id"], row["keyword_id"]) == (None, 9)


def test_html_is_escaped_and_leaves_out_empty_columns() -> None:
    html = to_html(report(*ROWS))
    assert "&lt;b&gt;ø&lt;/b&gt;" in html
    assert "<b>" not in html
    assert "engine_a_<wbr>ranking</th>" in html
    assert "wmt_" not in html


def test_html_begins_with_phrase_ranks_and_changes() -> None:
    row = ranking(engine_a_ranking=3, engine_b_ranking=0, engine_b_ranking_change=-1, engine_a_serp_url="https://a")
    names = re.findall(r"<th [^>]*>(.*?)</th>", to_html(report(row)).replace("<wbr>", ""))
    assert names[:4] == ["keyword_phrase", "engine_a_ranking", "engine_b_ranking", "engine_b_ranking_change"]
    assert set(names[4:]) >= {"keyword_id", "engine_a_serp_url"}


def test_html_shows_the_first_rows_and_their_number() -> None:
    html = to_html(report(*(ranking(keyword_id=number) for number in range(1, 1235))))
    assert html.startswith("<div>Campaign 7, 2023-01-01 to 2023-03-31, feed campaign: 1,234 rows, the first 10 shown<")
    assert html.count("<tr>") == 11


def test_html_ends_with_the_totals_under_their_columns() -> None:
    period = CampaignPeriod(dt.date(2023, 1, 1), engine_a_ranking=3)
    totals = RankingTotals(engine_a_ranking=4, competitors=0)
    html = to_html(RankingReport(Feed.CAMPAIGN_BY_DATE, 42, START, END, (period,), totals))
    assert "1 row, and totals</div>" in html
    foot = re.findall(r"<th [^>]*>(.*?)</th>", html.partition("<tfoot>")[2])
    assert foot == ["totals", "4", "", "0"]  # date, engine_a_ranking, date_precision, competitors


def test_html_shortens_a_long_value_and_shows_it_on_hover() -> None:
    url = f'https://www.example.com/"{"x" * 300}'
    html = to_html(report(ranking(engine_a_ranking_url=url)))
    assert f'title="https://www.example.com/&quot;{"x" * 300}">https://www.example.com/&quot;{"x" * 14}…</td>' in html


@pytest.mark.parametrize(
    ("library", "make", "extra"),
    [("pyarrow", to_arrow, "arrow"), ("pandas", to_pandas, "pandas"), ("polars", to_polars, "polars")],
)
def test_a_missing_extra_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch, library: str, make: Any, extra: str
) -> None:
    make(report(*ROWS))  # pyarrow looks for pandas once, and would fail with this one
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"'seorep-async\[{extra}\]', or in a clone: pip install '\.\[{extra}\]'"):
        make(report(*ROWS))


@pytest.mark.parametrize("table", [table_of(Feed.CAMPAIGN), keywords_table()], ids=lambda table: table.name)
def test_reports_of_any_size_are_staged_and_read_in_order(table: Table) -> None:
    sizes, rows = [3, 100, 250, 0, 99, 5000, 1], (ROWS[0], *(ranking(keyword_id=n, wmt_ctr=n) for n in range(2, 5001)))
    reports = [report(*rows[:size]) for size in sizes]
    staged = encoded(Format.PARQUET, spec_of(), [(one, 7) for one in reports], rows=True, keywords=False)
    (read,) = arrow_tables(table, staged, table_of(Feed.CAMPAIGN))  # type: ignore[arg-type]
    lead = {"account": "acme", "snapshot_date": NIGHT, "campaign_id": 7}
    wanted = [record_batch(table_of(Feed.CAMPAIGN), column_values(one, **lead)) for one in reports]
    assert read.equals(pa.Table.from_batches(wanted).select(read.column_names))
    assert read.schema.equals(arrow_schema(table))


# --- Changes that nobody requested


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
