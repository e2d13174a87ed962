"""The columns follow from the models."""

from __future__ import annotations

import datetime as dt

import attrs
import pytest

from seorep_async import CampaignPeriod, Feed, KeywordPeriod, KeywordRanking, SearchLanguage, SearchLocation, Tag
from seorep_async.tables.columns import ColumnType
from seorep_async.tables.declared import table_of
from tests.export.reports import END, NIGHT, START, owned, ranking, rows_of

MODELS = {
    Feed.CAMPAIGN: KeywordRanking,
    Feed.CAMPAIGN_BY_DATE: CampaignPeriod,
    Feed.KEYWORD_BY_DATE: KeywordPeriod,
}


def names(feed: Feed) -> list[str]:
    return [column.name for column in table_of(feed).columns]


@pytest.mark.parametrize(
    ("feed", "lead"),
    [
        (Feed.CAMPAIGN, ["account", "snapshot_date", "campaign_id", "start_date", "end_date", "keyword_id"]),
        (Feed.CAMPAIGN_BY_DATE, ["account", "snapshot_date", "campaign_id", "start_date", "end_date", "date"]),
        (Feed.KEYWORD_BY_DATE, ["account", "snapshot_date", "campaign_id", "keyword_id", "start_date", "end_date"]),
    ],
)
def test_what_was_asked_for_stands_first(feed: Feed, lead: list[str]) -> None:
    assert names(feed)[: len(lead)] == lead


@pytest.mark.parametrize("feed", Feed)
def test_every_plain_attribute_of_a_row_is_a_column_in_order(feed: Feed) -> None:
    plain = [field.name for field in attrs.fields(MODELS[feed]) if not field.name.startswith("search_l")]
    assert [name for name in names(feed) if name in plain] == plain


@pytest.mark.parametrize("feed", Feed)
def test_no_name_comes_twice(feed: Feed) -> None:
    assert len(set(names(feed))) == len(names(feed))


@pytest.mark.parametrize(
    ("prefix", "model"), [("search_location", SearchLocation), ("search_language", SearchLanguage)]
)
def test_a_model_in_a_row_is_flattened(prefix: str, model: type) -> None:
    assert [name for name in names(Feed.CAMPAIGN) if name.startswith(prefix)] == [
        f"{prefix}_{field.name}" for field in attrs.fields(model)
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("campaign_id", ColumnType.INTEGER),
        ("start_date", ColumnType.DATE),
        ("keyword_phrase", ColumnType.STRING),
        ("search_location_id", ColumnType.INTEGER),
        ("search_location_canonical_name", ColumnType.STRING),
        ("search_location_extra", ColumnType.FIELDS),
        ("primary_keyword", ColumnType.BOOLEAN),
        ("engine_a_ranking", ColumnType.INTEGER),
        ("last_results_date", ColumnType.DATE),
        ("tags", ColumnType.TAGS),
        ("extra", ColumnType.FIELDS),
    ],
)
def test_a_column_knows_what_it_holds(name: str, kind: ColumnType) -> None:
    assert {column.name: column.type for column in table_of(Feed.CAMPAIGN).columns}[name] is kind


def test_a_literal_of_strings_is_strings() -> None:
    kinds = {column.name: column.type for column in table_of(Feed.CAMPAIGN_BY_DATE).columns}
    assert kinds["date_precision"] is ColumnType.STRING


def test_a_row_gives_its_values_as_they_are() -> None:
    row = ranking(
        search_location=SearchLocation(5, "Oslo,Norway", "NO", "City", {"x": 1}),
        search_language=SearchLanguage(6, "Norwegian"),
        engine_a_ranking=0,
        last_results_date=dt.date(2023, 3, 30),
        tags=(Tag(1, "a"),),
    )
    table = table_of(Feed.CAMPAIGN)
    (values,) = rows_of(owned(row))
    found = dict(zip([column.name for column in table.columns], values, strict=True))
    assert found["campaign_id"] == 7
    assert (found["start_date"], found["end_date"]) == (START, END)
    assert (found["search_location_id"], found["search_location_extra"]) == (5, {"x": 1})
    assert (found["search_language_id"], found["search_language_name"]) == (6, "Norwegian")
    assert (found["engine_a_ranking"], found["engine_b_ranking"]) == (0, None)
    assert found["last_results_date"] == dt.date(2023, 3, 30)
    assert found["tags"] == (Tag(1, "a"),)


def test_a_missing_location_gives_empty_columns() -> None:
    table = table_of(Feed.CAMPAIGN)
    (values,) = rows_of(owned(ranking()))
    found = dict(zip([column.name for column in table.columns], values, strict=True))
    assert [found[name] for name in found if name.startswith("search_location")] == [None] * 4 + [{}]


def test_a_keyword_report_bears_its_campaign_and_its_keyword() -> None:
    row = KeywordPeriod(date=dt.date(2023, 1, 1))
    (values,) = rows_of(owned(row, feed=Feed.KEYWORD_BY_DATE, campaign_id=7, id_=99))
    assert values[:7] == ("acme", NIGHT, 7, 99, START, END, dt.date(2023, 1, 1))
