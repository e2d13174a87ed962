"""Reports and lists as others take them: dictionaries, JSON lines, Arrow, data frames, a notebook's table."""

import copy
import datetime as dt
import json
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from seorep_async import (
    Backlink,
    Campaign,
    Feed,
    Keyword,
    KeywordRanking,
    ModelList,
    NotFoundError,
    PullOutcome,
    RankingReport,
    Tabular,
    Tag,
    User,
)
from tests.scripted_api import LIST, serving, well_behaved

RANKS = [3, None, 0]


@pytest.fixture
def report() -> RankingReport[KeywordRanking]:
    rows = tuple(KeywordRanking(place, f"<b>{place}</b>", engine_a_ranking=rank) for place, rank in enumerate(RANKS, 1))
    return RankingReport(Feed.CAMPAIGN, 42, dt.date(2023, 1, 1), dt.date(2023, 3, 31), rows)


def test_the_repr_of_a_long_report_shows_its_first_rows() -> None:
    many = tuple(KeywordRanking(place, f"phrase {place}") for place in range(1, 1_002))
    shown = repr(RankingReport(Feed.CAMPAIGN, 42, dt.date(2023, 1, 1), dt.date(2023, 3, 31), many))
    assert "phrase 3" in shown
    assert "phrase 4" not in shown
    assert "… 998 more)" in shown


def test_as_a_pandas_frame_whose_integers_stay_integers(report: RankingReport[KeywordRanking]) -> None:
    column = report.to_pandas()["engine_a_ranking"]
    assert pd.api.types.is_integer_dtype(column.dtype)
    assert [None if pd.isna(value) else value for value in column] == RANKS


FRAMES: dict[str, Callable[[Any], Any]] = {
    "to_arrow": lambda report: report.to_arrow()["engine_a_ranking"].to_pylist(),
    "to_polars": lambda report: report.to_polars()["engine_a_ranking"].to_list(),
    "arrow takes it": lambda report: pa.table(report)["engine_a_ranking"].to_pylist(),
    "polars takes it": lambda report: pl.DataFrame(report)["engine_a_ranking"].to_list(),
}


@pytest.mark.parametrize("column", FRAMES.values(), ids=FRAMES)
def test_a_frame_of_a_report_has_its_values(
    column: Callable[[Any], Any], report: RankingReport[KeywordRanking]
) -> None:
    assert column(report) == RANKS


def test_duckdb_takes_a_report_as_it_is(report: RankingReport[KeywordRanking]) -> None:
    with duckdb.connect() as connection:
        connection.register("rankings", report)
        counted = connection.execute("SELECT count(engine_a_ranking) FROM rankings").fetchall()
    assert counted == [(2,)]


def test_a_notebook_shows_an_escaped_table(report: RankingReport[KeywordRanking]) -> None:
    shown = report._repr_html_()
    assert "&lt;b&gt;1&lt;/b&gt;" in shown
    assert "<b>" not in shown


def test_dicts_and_json_lines_have_the_columns_of_arrow(report: RankingReport[KeywordRanking]) -> None:
    names = report.to_arrow().column_names
    assert names[:3] == ["account", "snapshot_date", "campaign_id"]
    assert [list(row) for row in report.to_dicts()] == [names] * 3
    assert [list(json.loads(line)) for line in report.to_jsonl().splitlines()] == [names] * 3


def test_dicts_hold_python_values_and_lines_their_json() -> None:
    row = KeywordRanking(
        1, "a\u2028b", last_results_date=dt.date(2023, 3, 1), tags=(Tag(1, "a"), Tag(2, "b", {"x": 1})), extra={"y": []}
    )
    report = RankingReport(Feed.CAMPAIGN, 42, dt.date(2023, 1, 1), dt.date(2023, 3, 31), (row,))
    values: dict[str, Any] = {
        "campaign_id": 42,
        "keyword_phrase": "a\u2028b",
        "start_date": dt.date(2023, 1, 1),
        "last_results_date": dt.date(2023, 3, 1),
        "engine_a_ranking": None,
        "tags": [{"id": 1, "label": "a"}, {"id": 2, "label": "b", "extra": {"x": 1}}],
        "extra": {"y": []},
        "search_location_extra": {},
    }
    (found,) = report.to_dicts()
    assert {name: found[name] for name in values} == values
    (line,) = report.to_jsonl().splitlines()
    in_json = {name: str(value) if isinstance(value, dt.date) else value for name, value in values.items()}
    assert {name: json.loads(line)[name] for name in values} == in_json


def test_changing_a_dict_leaves_the_report_alone(report: RankingReport[KeywordRanking]) -> None:
    row = report.to_dicts()[0]
    row["extra"]["new"] = row["search_location_extra"]["new"] = 1
    assert report.to_dicts()[1]["search_location_extra"] == {}
    assert report.rows[0].extra == {}


def test_an_outcome_gives_its_dicts_or_raises_its_error(report: RankingReport[KeywordRanking]) -> None:
    assert PullOutcome(42, report).to_dicts() == report.to_dicts()
    with pytest.raises(NotFoundError, match="no such campaign"):
        PullOutcome[KeywordRanking](43, error=NotFoundError("no such campaign")).to_dicts()


CAMPAIGNS = ModelList(
    [
        Campaign(1, "https://a.example", "<i>A</i>", dt.datetime(2023, 1, 2, 3, 4, 5), timezone="Europe/Oslo"),
        Campaign(2, "https://b.example", "B", group_title="Retail", extra={"type": "real"}),
    ],
    Campaign,
)


async def test_a_listing_gives_a_plain_list_that_has_frames() -> None:
    async with serving(well_behaved(LIST, 25, 10)) as (client, _):
        campaigns = await client.campaigns.list()
        assert isinstance(campaigns, list)
        assert campaigns == [campaign async for campaign in client.campaigns.list()]
        assert campaigns.to_polars()["id"].to_list() == [campaign.id for campaign in campaigns]


def test_a_list_becomes_frames_and_dicts_of_its_attributes() -> None:
    names = [field.name for field in attrs.fields(Campaign)]
    assert CAMPAIGNS.to_arrow().column_names == names
    assert CAMPAIGNS.to_dicts() == [attrs.asdict(campaign, recurse=False) for campaign in CAMPAIGNS]
    frame = CAMPAIGNS.to_polars()
    assert frame["date_created"].to_list() == [dt.datetime(2023, 1, 2, 3, 4, 5), None]
    assert frame["timezone"].to_list() == ['"Europe/Oslo"', None]  # JSON, as its type is not documented
    assert list(CAMPAIGNS.to_pandas()["company"]) == ["<i>A</i>", "B"]
    assert json.loads(CAMPAIGNS.to_jsonl().splitlines()[1])["extra"] == {"type": "real"}


@pytest.mark.parametrize("model", [Campaign, User, Keyword, Backlink])
def test_an_empty_list_has_its_columns_too(model: type) -> None:
    empty: ModelList[Any] = ModelList([], model)
    assert empty.to_arrow().num_rows == 0
    assert set(empty.to_arrow().column_names) == {field.name for field in attrs.fields(model)} - {"password"}
    assert (empty.to_dicts(), empty.to_jsonl()) == ([], b"")
    assert ": 0 rows" in empty._repr_html_()


@pytest.mark.parametrize(
    "same",
    [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)), lambda one: one[:]],  # noqa: S301
)
def test_copies_and_slices_of_a_list_are_such_lists(same: Callable[[Any], Any]) -> None:
    copied = same(CAMPAIGNS)
    assert type(copied) is ModelList
    assert copied == CAMPAIGNS == list(CAMPAIGNS)
    assert copied.to_dicts() == CAMPAIGNS.to_dicts()


def test_a_list_in_a_notebook_is_an_escaped_table() -> None:
    shown = CAMPAIGNS._repr_html_()
    assert "Campaigns: 2 rows" in shown
    assert "&lt;i&gt;A&lt;/i&gt;" in shown
    assert "<i>" not in shown
    assert "the first 10 shown" in ModelList(list(CAMPAIGNS) * 6, Campaign)._repr_html_()


def test_a_list_of_users_shows_no_password() -> None:
    users = ModelList([User(1, "ann", password="c4n4ry")], User)
    as_all: list[Callable[[Tabular], object]] = [
        repr, Tabular.to_dicts, Tabular.to_jsonl, Tabular.to_arrow, Tabular.to_polars, Tabular.to_pandas, pickle.dumps,
    ]  # fmt: skip
    assert [make for make in as_all if "c4n4ry" in str(make(users))] == []
    assert "c4n4ry" not in users._repr_html_()
