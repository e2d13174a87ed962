"""Reports and lists as others take them: dictionaries, JSON lines, Arrow, data frames, a notebook's table."""

import copy
import datetime as dt
import io
import json
import pickle
import re
import sys
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
    CampaignPeriod,
    ConfigurationError,
    Feed,
    Keyword,
    KeywordPeriod,
    KeywordRanking,
    LoginGrant,
    ModelList,
    NotFoundError,
    Page,
    PullOutcome,
    RankingReport,
    RankingTotals,
    SearchLocation,
    Tabular,
    Tag,
    User,
)
from seorep_async.export import schema, to_arrow, to_html, to_pandas, to_polars
from seorep_async.tables.declared import all_tables
from tests.scripted_api import FEED, LIST, serving, well_behaved

START, END = dt.date(2023, 1, 1), dt.date(2023, 3, 31)
RANKS = [3, None, 0]
RANKED = tuple(KeywordRanking(place, f"<b>{place}</b>", engine_a_ranking=rank) for place, rank in enumerate(RANKS, 1))
FULL = KeywordRanking(
    keyword_id=1,
    keyword_phrase="a\u2028b",
    primary_keyword=True,
    engine_a_ranking=3,
    last_results_date=dt.date(2023, 3, 1),
    search_location=SearchLocation(5, "Oslo,Norway", extra={"x": 1}),
    tags=(Tag(1, "a"), Tag(2, "b", {"colour": "red"})),
    extra={"new": [1]},
)
EMPTY = KeywordRanking(2, "ø")
CAMPAIGNS = ModelList(
    [
        Campaign(1, "https://a.example", "<i>A</i>", dt.datetime(2023, 1, 2, 3, 4, 5), timezone="Europe/Oslo"),
        Campaign(2, "https://b.example", "B", group_title="Retail", extra={"type": "real"}),
    ],
    Campaign,
)


def report(*rows: Any, feed: Feed = Feed.CAMPAIGN, id_: int = 7, **more: Any) -> RankingReport[Any]:
    return RankingReport(feed=feed, id=id_, start_date=START, end_date=END, rows=rows, **more)


# --- A report


def test_the_repr_of_a_long_report_shows_its_first_rows() -> None:
    shown = repr(report(*(KeywordRanking(place, f"phrase {place}") for place in range(1, 1_002))))
    assert "phrase 3" in shown
    assert "phrase 4" not in shown
    assert "… 998 more)" in shown


WAYS: dict[str, Callable[[Any], list[Any]]] = {
    "to_dicts": lambda report: [row["engine_a_ranking"] for row in report.to_dicts()],
    "to_jsonl": lambda report: [json.loads(line)["engine_a_ranking"] for line in report.to_jsonl().splitlines()],
    "to_arrow": lambda report: list(report.to_arrow()["engine_a_ranking"].to_pylist()),
    "to_polars": lambda report: list(report.to_polars()["engine_a_ranking"]),
    "to_pandas": lambda report: [None if pd.isna(one) else one for one in report.to_pandas()["engine_a_ranking"]],
    "arrow takes it": lambda report: list(pa.table(report)["engine_a_ranking"].to_pylist()),
    "polars takes it": lambda report: list(pl.DataFrame(report)["engine_a_ranking"]),
    "duckdb takes it": lambda report: [row[0] for row in duckdb.from_arrow(report)["engine_a_ranking"].fetchall()],
}


@pytest.mark.parametrize("ranks", WAYS.values(), ids=WAYS)
def test_null_and_0_stay_apart_and_integers_integers(ranks: Callable[[Any], list[Any]]) -> None:
    assert ranks(report(*RANKED)) == RANKS
    assert {type(rank) for rank in ranks(report(*RANKED))} <= {int, type(None)}


def test_all_ways_have_the_same_columns() -> None:
    one = report(*RANKED)
    names = schema(Feed.CAMPAIGN).names
    assert names[:3] == ["account", "snapshot_date", "campaign_id"]
    assert [list(row) for row in one.to_dicts()] == [names] * 3
    assert [list(json.loads(line)) for line in one.to_jsonl().splitlines()] == [names] * 3
    assert [one.to_arrow().column_names, one.to_polars().columns, list(one.to_pandas())] == [names] * 3


SHARED = {"campaign_id": 7, "keyword_phrase": "a\u2028b", "search_location_id": 5, "engine_b_ranking": None}
TAGS = [{"id": 1, "label": "a"}, {"id": 2, "label": "b", "extra": {"colour": "red"}}]
ARROW_TAGS = [{"id": 1, "label": "a", "extra": None}, {"id": 2, "label": "b", "extra": '{"colour": "red"}'}]
DAYS = {"start_date": START, "last_results_date": dt.date(2023, 3, 1)}
AS_TEXT = {name: day.isoformat() for name, day in DAYS.items()}
FULL_ROWS: dict[str, tuple[Callable[[Any], dict[str, Any]], dict[str, Any]]] = {
    "to_dicts": (
        lambda report: dict(report.to_dicts()[0]),
        {**DAYS, "tags": TAGS, "extra": {"new": [1]}, "search_location_extra": {"x": 1}, "search_language_extra": {}},
    ),
    "to_jsonl": (
        lambda report: dict(json.loads(report.to_jsonl())),
        {**AS_TEXT, "tags": TAGS, "extra": {"new": [1]}, "search_language_extra": None},
    ),
    "to_arrow": (
        lambda report: dict(report.to_arrow().to_pylist()[0]),
        {**DAYS, "tags": ARROW_TAGS, "extra": '{"new": [1]}', "search_location_extra": '{"x": 1}'},
    ),
    "to_polars": (lambda report: dict(report.to_polars().to_dicts()[0]), {**DAYS, "tags": ARROW_TAGS}),
    "to_pandas": (
        lambda report: {name: None if one is pd.NA else one for name, one in report.to_pandas().iloc[0].items()},
        {name: pd.Timestamp(day) for name, day in DAYS.items()}
        | {"tags": TAGS, "extra": {"new": [1]}, "search_location_extra": {"x": 1}, "search_language_extra": None},
    ),
}


@pytest.mark.parametrize(("row", "values"), FULL_ROWS.values(), ids=FULL_ROWS)
def test_a_row_has_its_values(row: Callable[[Any], dict[str, Any]], values: dict[str, Any]) -> None:
    found = row(report(FULL))
    assert {name: found[name] for name in SHARED | values} == SHARED | values


def test_changing_a_dict_leaves_the_report_alone() -> None:
    one = report(*RANKED)
    row = one.to_dicts()[0]
    row["extra"]["new"] = row["search_location_extra"]["new"] = 1
    assert one.to_dicts()[1]["search_location_extra"] == {}
    assert one.rows[0].extra == {}


def test_an_integer_beyond_64_bits_is_an_error_of_arrow_alone() -> None:
    one = report(attrs.evolve(EMPTY, competitors=2**63))
    assert one.to_dicts()[0]["competitors"] == 2**63
    with pytest.raises(OverflowError):
        one.to_arrow()


@pytest.mark.parametrize("feed", Feed)
def test_the_schema_is_that_of_a_report(feed: Feed) -> None:
    known: dict[str, Any] = {"account": "acme", "snapshot_date": END}
    assert to_arrow(report(feed=feed, **known)).schema.equals(schema(feed))
    assert schema(feed).field("campaign_id").nullable == (feed is Feed.KEYWORD_BY_DATE)


def test_a_keywords_report_has_its_keyword_and_no_campaign() -> None:
    (row,) = to_arrow(report(KeywordPeriod(START), feed=Feed.KEYWORD_BY_DATE, id_=9)).to_pylist()
    assert (row["campaign_id"], row["keyword_id"]) == (None, 9)


# --- Several reports


def test_several_reports_and_outcomes_make_one_table() -> None:
    found = to_arrow([report(FULL), PullOutcome(8, report(EMPTY, id_=8))])
    assert found["campaign_id"].to_pylist() == [7, 8]


def test_a_failed_outcome_is_not_left_out_in_silence() -> None:
    failed = PullOutcome[KeywordRanking](8, error=NotFoundError("no such campaign"))
    for rows_of in (to_arrow, to_pandas, to_polars):
        with pytest.raises(NotFoundError, match="no such campaign"):
            rows_of([report(FULL), failed])
    with pytest.raises(NotFoundError, match="no such campaign"):
        failed.to_dicts()
    assert PullOutcome(7, report(FULL)).to_dicts() == report(FULL).to_dicts()


def test_no_report_needs_the_feed() -> None:
    assert to_arrow([], feed=Feed.CAMPAIGN_BY_DATE).num_rows == 0
    with pytest.raises(ConfigurationError, match="feed="):
        to_arrow([])


def test_reports_of_two_feeds_are_refused() -> None:
    period = report(CampaignPeriod(START), feed=Feed.CAMPAIGN_BY_DATE)
    with pytest.raises(ConfigurationError, match="one feed"):
        to_arrow([report(FULL), period])


@pytest.mark.parametrize(
    ("library", "make", "extra"),
    [("pyarrow", to_arrow, "arrow"), ("pandas", to_pandas, "pandas"), ("polars", to_polars, "polars")],
)
def test_a_missing_extra_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch, library: str, make: Any, extra: str
) -> None:
    make(report(FULL))  # pyarrow looks for pandas once, and would fail with this one
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"'seorep-async\[{extra}\]', or in a clone: pip install '\.\[{extra}\]'"):
        make(report(FULL))


# --- First steps in pandas


MONTHS = report(
    *(CampaignPeriod(dt.date(2022, month, 1), engine_a_ranking=rank) for month, rank in ((10, 1), (11, None), (12, 3))),
    *(CampaignPeriod(dt.date(2023, month, 1), engine_a_ranking=month) for month in (1, 2, 3)),
    feed=Feed.CAMPAIGN_BY_DATE,
).to_pandas()
RANKINGS = report(FULL, EMPTY).to_pandas()
QUARTERS = [2.0, 2.0]
STEPS: dict[str, tuple[Callable[[], object], object]] = {
    "filter by a string": (lambda: len(MONTHS[MONTHS["date"] >= "2023-01-01"]), 3),
    "filter by a Timestamp": (lambda: len(MONTHS[MONTHS["date"] >= pd.Timestamp("2023-01-01")]), 3),
    "filter a time by a string": (lambda: list(CAMPAIGNS.to_pandas()["date_created"] >= "2020-01-01"), [True, False]),
    "resample": (lambda: list(MONTHS.set_index("date")["engine_a_ranking"].resample("QS").mean()), QUARTERS),
    "Grouper": (lambda: list(MONTHS.groupby(pd.Grouper(key="date", freq="QS"))["engine_a_ranking"].mean()), QUARTERS),
    "loc": (lambda: len(MONTHS.set_index("date").loc["2023"]), 3),
    "merge with dates": (lambda: len(pd.DataFrame({"date": pd.date_range("2023-01", periods=9)}).merge(MONTHS)), 1),
    "merge by text and id": (lambda: len(RANKINGS.merge(RANKINGS, on=["keyword_phrase", "keyword_id"])), 2),
    "to_json": (lambda: json.loads(MONTHS.to_json(orient="records", date_format="iso"))[3]["date"][:10], "2023-01-01"),
    "to_json of nested values": (lambda: json.loads(RANKINGS["tags"].to_json(orient="values"))[0], TAGS),
    "to_excel": (lambda: RANKINGS.to_excel(io.BytesIO(), engine="xlsxwriter"), None),
    "explode": (lambda: list(RANKINGS["tags"].explode().dropna().str["label"]), ["a", "b"]),
    "days between": (lambda: int(MONTHS["date"].diff().dt.days.max()), 31),
}


@pytest.mark.parametrize(("step", "result"), STEPS.values(), ids=STEPS)
def test_a_first_step_with_a_frame_works(step: Callable[[], object], result: object) -> None:
    assert step() == result


def test_altair_takes_a_frame_with_its_types() -> None:
    alt = pytest.importorskip("altair")
    drawn = alt.Chart(MONTHS).mark_line().encode(x="date", y="engine_a_ranking", color="date_precision").to_dict()
    assert [drawn["encoding"][name]["type"] for name in ("x", "y", "color")] == ["temporal", "quantitative", "nominal"]


def test_a_frame_has_a_type_for_each_kind_of_value() -> None:
    kinds = {name: str(RANKINGS[name].dtype) for name in ("start_date", "keyword_phrase", "competitors", "tags")}
    wanted = ["datetime64[s]", "string[pyarrow]", "int64[pyarrow]", "object"]
    assert list(kinds.values()) == wanted
    assert [str(report().to_pandas()[name].dtype) for name in kinds] == wanted
    assert str(CAMPAIGNS.to_pandas()["date_created"].dtype) == "datetime64[s]"


# --- Changes that nobody requested


UNASKED = [
    report(KeywordRanking(1, "a", engine_a_ranking=70, engine_a_ranking_change=0), compared=False),
    report(
        CampaignPeriod(START, engine_a_ranking=70, engine_a_ranking_change=0),
        feed=Feed.CAMPAIGN_BY_DATE,
        totals=RankingTotals(engine_a_ranking=70, engine_a_ranking_change=0),
        compared=False,
    ),
]
ROWS: list[Callable[[RankingReport[Any]], dict[str, Any]]] = [
    lambda report: report.to_dicts()[0],
    lambda report: dict(json.loads(report.to_jsonl())),
    lambda report: dict(report.to_arrow().to_pylist()[0]),
    lambda report: report.to_polars().to_dicts()[0],
    lambda report: dict(json.loads(report.to_pandas().to_json(orient="records", date_format="iso"))[0]),
]


def changes(row: dict[str, Any]) -> set[Any]:
    return {value for name, value in row.items() if name.endswith("_change")}


@pytest.mark.parametrize("way", range(len(ROWS)))
@pytest.mark.parametrize("report", UNASKED, ids=lambda report: report.feed.value)
def test_frames_show_no_change_that_nobody_requested(report: RankingReport[Any], way: int) -> None:
    row, requested = ROWS[way](report), ROWS[way](attrs.evolve(report, compared=True))
    assert (changes(row), row["engine_a_ranking"]) == ({None}, 70)
    assert requested["engine_a_ranking_change"] == 0
    assert {name for name in row if row[name] != requested[name]} == {"engine_a_ranking_change"}


@pytest.mark.parametrize("report", UNASKED, ids=lambda report: report.feed.value)
def test_a_notebook_shows_no_change_that_nobody_requested(report: RankingReport[Any]) -> None:
    assert "change" not in to_html(report)
    assert "change</th>" in to_html(attrs.evolve(report, compared=True)).replace("<wbr>", "")


ASKED = [True, "true", "TRUE", "1", 1, "previous_month", "on"]
NOT_ASKED = [None, False, 0, "", "false", "False", "0", "no", "off", " Off ", 0.0]


@pytest.mark.parametrize(("value", "asked"), [*((one, True) for one in ASKED), *((one, False) for one in NOT_ASKED)])
async def test_which_values_request_changes(value: Any, asked: bool) -> None:
    async with serving(well_behaved(FEED, 0, 1)) as (client, _):
        assert (await client.rankings.campaign(1, START, END, compare_previous_period=value)).compared is asked


def test_the_columns_say_why_changes_are_null() -> None:
    found = [column for table in all_tables() for column in table.columns if column.name.endswith("_change")]
    assert len(found) == 12
    assert {"compare_previous_period" in column.description for column in found} == {True}


# --- Notebooks


def heads(html: str) -> list[str]:
    return re.findall(r"<th [^>]*>(.*?)</th>", html.replace("<wbr>", ""))


def test_html_is_escaped_and_leaves_out_empty_columns() -> None:
    html = report(*RANKED)._repr_html_()
    assert "&lt;b&gt;1&lt;/b&gt;" in html
    assert "<b>" not in html
    assert "engine_a_<wbr>ranking</th>" in html
    assert "wmt_" not in html


def test_html_begins_with_phrase_ranks_and_changes() -> None:
    row = attrs.evolve(FULL, engine_b_ranking=0, engine_b_ranking_change=-1, engine_a_serp_url="https://a")
    names = heads(to_html(report(row)))
    assert names[:4] == ["keyword_phrase", "engine_a_ranking", "engine_b_ranking", "engine_b_ranking_change"]
    assert set(names[4:]) >= {"keyword_id", "engine_a_serp_url"}


def test_html_shows_the_first_rows_and_their_number() -> None:
    html = to_html(report(*(KeywordRanking(number, "a") for number in range(1, 1235))))
    assert html.startswith("<div>Campaign 7, 2023-01-01 to 2023-03-31, feed campaign: 1,234 rows, the first 10 shown<")
    assert html.count("<tr>") == 11


def test_html_ends_with_the_totals_under_their_columns() -> None:
    period, totals = CampaignPeriod(START, engine_a_ranking=3), RankingTotals(engine_a_ranking=4, competitors=0)
    html = to_html(report(period, feed=Feed.CAMPAIGN_BY_DATE, totals=totals))
    assert "1 row, and totals</div>" in html
    assert heads(html.partition("<tfoot>")[2]) == ["totals", "4", "", "0"]  # date, rank, date_precision, competitors


def test_html_shortens_a_long_value_and_shows_it_on_hover() -> None:
    url = f'https://www.example.com/"{"x" * 300}'
    html = to_html(report(attrs.evolve(EMPTY, engine_a_ranking_url=url)))
    assert f'title="https://www.example.com/&quot;{"x" * 300}">https://www.example.com/&quot;{"x" * 14}…</td>' in html


# --- Lists


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
    polars, pandas = CAMPAIGNS.to_polars(), CAMPAIGNS.to_pandas()
    assert polars["date_created"].to_list() == [dt.datetime(2023, 1, 2, 3, 4, 5), None]
    assert polars["timezone"].to_list() == ['"Europe/Oslo"', None]  # JSON, as its type is not documented
    assert list(pandas["timezone"]) == ["Europe/Oslo", None]
    assert list(pandas["date_created"]) == [pd.Timestamp(2023, 1, 2, 3, 4, 5), pd.NaT]
    assert json.loads(CAMPAIGNS.to_jsonl().splitlines()[1])["extra"] == {"type": "real"}


@pytest.mark.parametrize("model", [Campaign, User, Keyword, Backlink])
def test_an_empty_list_has_its_columns_too(model: type) -> None:
    empty: ModelList[Any] = ModelList([], model)
    names = {field.name for field in attrs.fields(model)} - {"password"}
    assert (empty.to_arrow().num_rows, set(empty.to_arrow().column_names)) == (0, names)
    assert (len(empty.to_pandas()), set(empty.to_pandas())) == (0, names)
    assert (empty.to_dicts(), empty.to_jsonl()) == ([], b"")
    assert ": 0 rows" in empty._repr_html_()


SAME: dict[str, Callable[[Any], Any]] = {
    "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),  # noqa: S301
    "slice": lambda one: one[:],
    "copy": lambda one: one.copy(),
    "sum": lambda one: one[:1] + one[1:],
    "sum with a plain list": lambda one: one[:1] + list(one[1:]),
}


@pytest.mark.parametrize("same", SAME.values(), ids=SAME)
def test_copies_slices_and_sums_of_a_list_are_such_lists(same: Callable[[Any], Any]) -> None:
    copied = same(CAMPAIGNS)
    assert (type(copied), copied is CAMPAIGNS) == (ModelList, False)
    assert copied == CAMPAIGNS == list(CAMPAIGNS)
    assert copied.to_dicts() == CAMPAIGNS.to_dicts()


def test_a_sum_of_two_models_is_a_plain_list() -> None:
    assert type(CAMPAIGNS + ModelList([User(1, "ann")], User)) is list


def test_a_list_in_a_notebook_is_an_escaped_table() -> None:
    shown = CAMPAIGNS._repr_html_()
    assert "Campaigns: 2 rows" in shown
    assert "&lt;i&gt;A&lt;/i&gt;" in shown
    assert "<i>" not in shown
    assert "the first 10 shown" in ModelList(list(CAMPAIGNS) * 6, Campaign)._repr_html_()


def test_a_list_of_users_shows_no_password() -> None:
    users = ModelList([User(1, "ann", password="c4n4ry")], User)
    as_all: list[Callable[[Tabular], object]] = [
        *(repr, pickle.dumps, Tabular.to_dicts, Tabular.to_jsonl, Tabular.to_arrow, Tabular.to_polars),
        *(Tabular.to_pandas, lambda _: users._repr_html_(), lambda _: users[0].to_dict()),
    ]
    assert [make for make in as_all if "c4n4ry" in str(make(users))] == []


# --- A model as a dictionary


def test_to_dict_is_plain_and_nested() -> None:
    found = report(FULL, totals=RankingTotals(competitors=1)).to_dict()
    assert (found["feed"], found["start_date"], found["totals"]["competitors"]) == ("campaign", START, 1)
    (row,) = found["rows"]
    assert row["search_location"] == SearchLocation(5, "Oslo,Norway", extra={"x": 1}).to_dict()
    assert (row["search_location"]["id"], row["search_language"]) == (5, None)
    assert row["tags"] == [{"id": 1, "label": "a", "extra": {}}, {"id": 2, "label": "b", "extra": {"colour": "red"}}]
    assert json.loads(json.dumps(found, default=str))["rows"][0]["last_results_date"] == "2023-03-01"


def test_changing_what_to_dict_gave_leaves_the_model_alone() -> None:
    found = FULL.to_dict()
    found["extra"]["new"].append(2)
    found["tags"].clear()
    assert (FULL.extra, len(FULL.tags)) == ({"new": [1]}, 2)


def test_to_dict_holds_no_secret() -> None:
    grant = LoginGrant("c4n4ry", "https://a.example/?token=c4n4ry", 7, extra={"more": "c4n4ry"})
    assert "c4n4ry" not in str(grant.to_dict())
    assert grant.to_dict()["user_id"] == 7


def test_a_page_is_a_dict_of_its_models() -> None:
    assert Page((EMPTY,), 1).to_dict()["items"] == [EMPTY.to_dict()]


async def test_fastapi_returns_a_model_as_its_dict() -> None:
    fastapi, testing = pytest.importorskip("fastapi"), pytest.importorskip("fastapi.testclient")
    app = fastapi.FastAPI()
    app.get("/row")(FULL.to_dict)
    with testing.TestClient(app) as web:
        assert web.get("/row").json()["last_results_date"] == "2023-03-01"
