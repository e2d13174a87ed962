"""A report as others take it: Arrow, data frames, a notebook's table."""

from __future__ import annotations

import datetime as dt

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from seorep_async import Feed, KeywordRanking, RankingReport

RANKS = [3, None, 0]


@pytest.fixture
def report() -> RankingReport[KeywordRanking]:
    rows = tuple(KeywordRanking(place, f"<b>{place}</b>", engine_a_ranking=rank) for place, rank in enumerate(RANKS, 1))
    return RankingReport(Feed.CAMPAIGN, 42, dt.date(2023, 1, 1), dt.date(2023, 3, 31), rows)


def test_as_an_arrow_table(report: RankingReport[KeywordRanking]) -> None:
    assert report.to_arrow()["engine_a_ranking"].to_pylist() == RANKS


def test_as_a_pandas_frame_whose_integers_stay_integers(report: RankingReport[KeywordRanking]) -> None:
    column = report.to_pandas()["engine_a_ranking"]
    assert pd.api.types.is_integer_dtype(column.dtype)
    assert [None if pd.isna(value) else value for value in column] == RANKS


def test_as_a_polars_frame(report: RankingReport[KeywordRanking]) -> None:
    assert report.to_polars()["engine_a_ranking"].to_list() == RANKS


def test_polars_takes_a_report_as_it_is(report: RankingReport[KeywordRanking]) -> None:
    assert pl.DataFrame(report)["engine_a_ranking"].to_list() == RANKS


def test_arrow_takes_a_report_as_it_is(report: RankingReport[KeywordRanking]) -> None:
    assert pa.table(report)["engine_a_ranking"].to_pylist() == RANKS


def test_duckdb_takes_a_report_as_it_is(report: RankingReport[KeywordRanking]) -> None:
    with duckdb.connect() as connection:
        connection.register("rankings", report)
        counted = connection.execute("SELECT count(engine_a_ranking) FROM rankings").fetchall()
    assert counted == [(2,)]


def test_a_notebook_shows_an_escaped_table(report: RankingReport[KeywordRanking]) -> None:
    shown = report._repr_html_()
    assert "&lt;b&gt;1&lt;/b&gt;" in shown
    assert "<b>" not in shown
