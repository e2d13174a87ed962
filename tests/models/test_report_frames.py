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
    FailedReport,
    Feed,
    Keyword,
    KeywordPeriod,
    KeywordRanking,
    LoginGrant,
    ModelList,
    NotFoundError,
    Page,
    PulledReport,
    PullOutcomes,
    RankingReport,
    RankingTotals,
    SearchLocation,
    Tabular,
    Tag,
    User,
)
from seorep_async.tables.output_tables import all_tables, table_of
from tests.scripted_api import FEED, LIST, serving, well_behaved

START, END = dt.date(2023, 1, 1), dt.date(2023, 3, 31)
RANKED = [
    KeywordRanking(n, f"<b>{n}</b>", engine_a_ranking=rank)
    for n, rank in enumerate((3, None, 0), 1)
]
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
        Campaign(
            1,
            "https://a.example",
            "<i>A</i>",
            dt.datetime(2023, 1, 2, 3, 4, 5),
            timezone="Europe/Oslo",
        ),
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


def of_pandas(table: Tabular) -> list[dict[str, Any]]:
    rows = (row.items() for _, row in table.to_pandas().astype(object).iterrows())
    return [
        {name: None if value is pd.NA or value is pd.NaT else value for name, value in row}
        for row in rows
    ]


WAYS: dict[str, Callable[[Any], list[dict[str, Any]]]] = {
    "to_dicts": Tabular.to_dicts,
    "to_jsonl": lambda table: list(map(json.loads, table.to_jsonl().splitlines())),
    "to_arrow": lambda table: list(table.to_arrow().to_pylist()),
    "to_polars": lambda table: list(table.to_polars().to_dicts()),
    "to_pandas": of_pandas,
    "arrow takes it": lambda table: list(pa.table(table).to_pylist()),
    "polars takes it": lambda table: pl.DataFrame(table).to_dicts(),
    "duckdb takes it": lambda table: list(pa.table(duckdb.from_arrow(table)).to_pylist()),
}
each_way = pytest.mark.parametrize("rows", WAYS.values(), ids=WAYS)


COLUMNS = [column.name for column in table_of(Feed.CAMPAIGN).columns]
LEAD = ["account", "snapshot_date", "campaign_id", "start_date", "end_date"]


@pytest.mark.parametrize("way", WAYS)
def test_all_ways_have_the_same_columns(way: str) -> None:
    columns = [*LEAD, *COLUMNS[len(LEAD) :]]
    if way in ("to_pandas", "to_polars"):
        # People look at frames: what is the same in all rows stands last.
        columns = [*COLUMNS[len(LEAD) :], *LEAD]
    assert [list(row) for row in WAYS[way](report(*RANKED))] == [columns] * 3


@each_way
def test_all_ways_keep_null_from_0(rows: Callable[[Any], list[dict[str, Any]]]) -> None:
    found = rows(report(*RANKED))
    ranks = [row["engine_a_ranking"] for row in found]
    assert [(type(rank), rank) for rank in ranks] == [(int, 3), (type(None), None), (int, 0)]


SHARED = {
    "campaign_id": 7,
    "keyword_phrase": "a\u2028b",
    "search_location_id": 5,
    "engine_b_ranking": None,
}
TAGS = [{"id": 1, "label": "a"}, {"id": 2, "label": "b", "extra": {"colour": "red"}}]
ARROW_TAGS = [
    {"id": 1, "label": "a", "extra": None},
    {"id": 2, "label": "b", "extra": '{"colour": "red"}'},
]
DAYS = {"start_date": START, "last_results_date": dt.date(2023, 3, 1)}
NESTED = {"tags": TAGS, "extra": {"new": [1]}, "search_location_extra": {"x": 1}}
AS_JSON = {"tags": ARROW_TAGS, "extra": '{"new": [1]}', "search_location_extra": '{"x": 1}'}
FULL_ROWS: dict[str, dict[str, Any]] = {
    "to_dicts": DAYS | NESTED | {"search_language_extra": {}},
    "to_jsonl": {name: day.isoformat() for name, day in DAYS.items()}
    | NESTED
    | {"search_language_extra": None},
    "to_arrow": DAYS | AS_JSON,
    "to_polars": DAYS | AS_JSON,
    "to_pandas": {name: pd.Timestamp(day) for name, day in DAYS.items()}
    | NESTED
    | {"search_language_extra": None},
}


@pytest.mark.parametrize("way", FULL_ROWS)
def test_a_row_has_its_values(way: str) -> None:
    (found,) = WAYS[way](report(FULL))
    wanted = SHARED | FULL_ROWS[way]
    assert {name: found[name] for name in wanted} == wanted


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
def test_the_schema_of_outcomes_is_that_of_a_report(feed: Feed) -> None:
    named = report(feed=feed, account="acme", snapshot_date=END)
    schema = named.to_arrow().schema
    assert schema.equals(PullOutcomes([], feed).to_arrow().schema)
    assert schema.field("campaign_id").nullable == (feed is Feed.KEYWORD_BY_DATE)


def test_a_keywords_report_has_its_keyword_and_no_campaign() -> None:
    (row,) = report(KeywordPeriod(START), feed=Feed.KEYWORD_BY_DATE, id_=9).to_dicts()
    assert (row["campaign_id"], row["keyword_id"]) == (None, 9)


# --- Several reports


OUTCOMES = PullOutcomes(
    [PulledReport(7, report(FULL)), PulledReport(8, report(EMPTY, id_=8))], Feed.CAMPAIGN
)
FAILED = FailedReport(9, NotFoundError("no such campaign"))


def test_several_reports_make_one_table() -> None:
    assert OUTCOMES.to_arrow()["campaign_id"].to_pylist() == [7, 8]
    assert OUTCOMES[0].to_dicts() == report(FULL).to_dicts()


WITH_FAILURE = PullOutcomes([*OUTCOMES, FAILED], Feed.CAMPAIGN)
NO_TABLES: list[Callable[[], object]] = [
    FAILED.to_dicts,
    WITH_FAILURE.to_dicts,
    WITH_FAILURE.to_jsonl,
    WITH_FAILURE.to_arrow,
    WITH_FAILURE.to_pandas,
    WITH_FAILURE.to_polars,
]


@pytest.mark.parametrize("make", NO_TABLES)
def test_no_failure_is_left_out_in_silence(make: Callable[[], object]) -> None:
    with pytest.raises(NotFoundError, match="no such campaign"):
        make()


@pytest.mark.parametrize("extra", ["arrow", "pandas", "polars"])
def test_a_missing_extra_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch, extra: str
) -> None:
    make: Any = getattr(report(FULL), f"to_{extra}")
    make()  # pyarrow looks for pandas once, and would fail with this one
    monkeypatch.setitem(sys.modules, extra.replace("arrow", "pyarrow"), None)
    with pytest.raises(
        ImportError, match=rf"'seorep-async\[{extra}\]', or in a clone: pip install '\.\[{extra}\]'"
    ):
        make()


# --- First steps in pandas


MONTHS = report(
    *(
        CampaignPeriod(dt.date(2022, month, 1), engine_a_ranking=rank)
        for month, rank in ((10, 1), (11, None), (12, 3))
    ),
    *(CampaignPeriod(dt.date(2023, month, 1), engine_a_ranking=month) for month in (1, 2, 3)),
    feed=Feed.CAMPAIGN_BY_DATE,
).to_pandas()
RANKINGS = report(FULL, EMPTY).to_pandas()
QUARTERS = [2.0, 2.0]
STEPS: dict[str, tuple[Callable[[], object], object]] = {
    "filter by a string": (lambda: len(MONTHS[MONTHS["date"] >= "2023-01-01"]), 3),
    "filter by a Timestamp": (lambda: len(MONTHS[MONTHS["date"] >= pd.Timestamp("2023-01-01")]), 3),
    "filter a time by a string": (
        lambda: list(CAMPAIGNS.to_pandas()["date_created"] >= "2020-01-01"),
        [True, False],
    ),
    "resample": (
        lambda: list(MONTHS.set_index("date")["engine_a_ranking"].resample("QS").mean()),
        QUARTERS,
    ),
    "Grouper": (
        lambda: list(MONTHS.groupby(pd.Grouper(key="date", freq="QS"))["engine_a_ranking"].mean()),
        QUARTERS,
    ),
    "loc": (lambda: len(MONTHS.set_index("date").loc["2023"]), 3),
    "merge with dates": (
        lambda: len(pd.DataFrame({"date": pd.date_range("2023-01", periods=9)}).merge(MONTHS)),
        1,
    ),
    "merge by text and id": (
        lambda: len(RANKINGS.merge(RANKINGS, on=["keyword_phrase", "keyword_id"])),
        2,
    ),
    "to_json": (
        lambda: json.loads(MONTHS.to_json(orient="records", date_format="iso"))[3]["date"][:10],
        "2023-01-01",
    ),
    "to_json of nested values": (
        lambda: json.loads(RANKINGS["tags"].to_json(orient="values"))[0],
        TAGS,
    ),
    "to_excel": (lambda: RANKINGS.to_excel(io.BytesIO(), engine="xlsxwriter"), None),
    "explode": (lambda: list(RANKINGS["tags"].explode().dropna().str["label"]), ["a", "b"]),
    "days between": (lambda: int(MONTHS["date"].diff().dt.days.max()), 31),
}


@pytest.mark.parametrize(("step", "result"), STEPS.values(), ids=STEPS)
def test_a_first_step_with_a_frame_works(step: Callable[[], object], result: object) -> None:
    assert step() == result


def test_altair_takes_a_frame_with_its_types() -> None:
    alt = pytest.importorskip("altair")
    drawn = (
        alt.Chart(MONTHS)
        .mark_line()
        .encode(x="date", y="engine_a_ranking", color="date_precision")
        .to_dict()
    )
    assert [drawn["encoding"][name]["type"] for name in ("x", "y", "color")] == [
        "temporal",
        "quantitative",
        "nominal",
    ]


def test_a_frame_has_a_type_for_each_kind_of_value() -> None:
    kinds = {
        name: str(RANKINGS[name].dtype)
        for name in ("start_date", "keyword_phrase", "competitors", "tags")
    }
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


@each_way
@pytest.mark.parametrize("report", UNASKED, ids=lambda report: report.feed.value)
def test_frames_show_no_change_that_nobody_requested(
    report: RankingReport[Any], rows: Callable[[Any], list[dict[str, Any]]]
) -> None:
    ((row,), (requested,)) = rows(report), rows(attrs.evolve(report, compared=True))
    assert {value for name, value in row.items() if name.endswith("_change")} == {None}
    assert (row["engine_a_ranking"], requested["engine_a_ranking_change"]) == (70, 0)
    assert {name for name in row if row[name] != requested[name]} == {"engine_a_ranking_change"}


ASKED = [True, "true", "TRUE", "1", 1, "previous_month", "on"]
NOT_ASKED = [None, False, 0, "", "false", "False", "0", "no", "off", " Off ", 0.0]


@pytest.mark.parametrize(
    ("value", "asked"), [*((one, True) for one in ASKED), *((one, False) for one in NOT_ASKED)]
)
async def test_which_values_request_changes(value: Any, asked: bool) -> None:
    async with serving(well_behaved(FEED, 0, 1)) as (client, _):
        assert (
            await client.rankings.campaign(1, START, END, compare_previous_period=value)
        ).compared is asked


def test_the_columns_say_why_changes_are_null() -> None:
    found = [
        column
        for table in all_tables()
        for column in table.columns
        if column.name.endswith("_change")
    ]
    assert len(found) == 12
    assert {"compare_previous_period" in column.description for column in found} == {True}


# --- Notebooks


def heads(html: str) -> list[str]:
    return re.findall(r"<th [^>]*>(.*?)</th>", html.replace("<wbr>", ""))


URL = f'https://www.example.com/"{"x" * 300}'
NOTEBOOK: dict[str, tuple[Any, list[str], list[str]]] = {
    "is escaped, without empty columns": (
        report(*RANKED),
        ["&lt;b&gt;1&lt;/b&gt;", "engine_a_<wbr>ranking</th>"],
        ["<b>", "wmt_", "search_"],
    ),
    "shows a list": (CAMPAIGNS, ["Campaigns: 2 rows", "&lt;i&gt;A&lt;/i&gt;"], ["<i>"]),
    "shows the first of a list": (
        ModelList(list(CAMPAIGNS) * 6, Campaign),
        ["the first 10 shown"],
        [],
    ),
    "shows the first rows and their number": (
        report(*(KeywordRanking(number, "a") for number in range(1, 1235))),
        [
            "<div>Campaign 7, 2023-01-01 to 2023-03-31, feed campaign: 1,234 rows, the first 10 shown<",
            ">10<",
        ],
        [">11<"],
    ),
    "shortens a long value and shows it on hover": (
        report(attrs.evolve(EMPTY, engine_a_ranking_url=URL)),
        [
            f'title="https://www.example.com/&quot;{"x" * 300}">https://www.example.com/&quot;{"x" * 14}…</td>'
        ],
        [],
    ),
    "shows no change that nobody requested": (UNASKED[0], [], ["change"]),
    "shows no total change that nobody requested": (UNASKED[1], [], ["change"]),
    "shows changes": (attrs.evolve(UNASKED[0], compared=True), ["change</th>"], []),
    "shows changes of totals": (attrs.evolve(UNASKED[1], compared=True), ["change</th>"], []),
}


@pytest.mark.parametrize(("shown", "there", "missing"), NOTEBOOK.values(), ids=NOTEBOOK)
def test_a_notebook(shown: Any, there: list[str], missing: list[str]) -> None:
    html = shown._repr_html_()
    assert ([one for one in there if one not in html], [one for one in missing if one in html]) == (
        [],
        [],
    )


def test_html_begins_with_phrase_ranks_and_changes() -> None:
    row = attrs.evolve(
        FULL, engine_b_ranking=0, engine_b_ranking_change=-1, engine_a_serp_url="https://a"
    )
    names = heads(report(row)._repr_html_())
    assert names[:4] == [
        "keyword_phrase",
        "engine_a_ranking",
        "engine_b_ranking",
        "engine_b_ranking_change",
    ]
    assert set(names[4:]) >= {"keyword_id", "engine_a_serp_url"}


def test_html_ends_with_columns_that_never_change() -> None:
    london = SearchLocation(5, "London")
    rows = [
        KeywordRanking(number, "a", search_location=london, competitors=number, engine_a_ranking=1)
        for number in (1, 2)
    ]
    assert heads(report(*rows)._repr_html_()) == [
        "keyword_phrase",
        "engine_a_ranking",
        "keyword_id",
        "competitors",
        "search_location_id",
        "search_location_canonical_name",
    ]


def test_html_ends_with_the_totals_under_their_columns() -> None:
    period, totals = (
        CampaignPeriod(START, engine_a_ranking=3),
        RankingTotals(engine_a_ranking=4, competitors=0),
    )
    html = report(period, feed=Feed.CAMPAIGN_BY_DATE, totals=totals)._repr_html_()
    assert "1 row, and totals</div>" in html
    assert heads(html.partition("<tfoot>")[2]) == [
        "totals",
        "4",
        "",
        "0",
    ]  # date, rank, date_precision, competitors


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
    assert polars["timezone"].to_list() == [
        '"Europe/Oslo"',
        None,
    ]  # JSON, as its type is not documented
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
def test_copies_slices_and_sums_of_one_model_are_such_lists(same: Callable[[Any], Any]) -> None:
    copied = same(CAMPAIGNS)
    assert (type(copied), copied is CAMPAIGNS) == (ModelList, False)
    assert copied == CAMPAIGNS == list(CAMPAIGNS)
    assert copied.to_dicts() == CAMPAIGNS.to_dicts()


USERS = ModelList([User(1, "ann")], User)


@pytest.mark.parametrize("mine", [CAMPAIGNS, CAMPAIGNS[:0]], ids=["full", "empty"])
@pytest.mark.parametrize(
    "other", [USERS, USERS[:0], [*USERS], [*CAMPAIGNS, *USERS], [None]], ids=range(5)
)
def test_a_sum_with_others_is_a_plain_list(mine: ModelList[Any], other: list[Any]) -> None:
    assert (type(mine + other), mine + other) == (list, [*mine, *other])


def test_a_list_grows_by_its_own_kind_only() -> None:
    grown: Any = CAMPAIGNS[:1]
    same = grown
    grown += (one for one in CAMPAIGNS[1:])
    assert same == CAMPAIGNS
    with pytest.raises(TypeError, match=r"items of this list's kind, .*Campaign"):
        grown += [User(1, "ann")]
    assert same == CAMPAIGNS


def test_a_list_of_users_shows_no_password() -> None:
    users = ModelList([User(1, "ann", password="c4n4ry")], User)
    shown = [repr(users), pickle.dumps(users), users._repr_html_(), users[0].to_dict()]
    assert "c4n4ry" not in str([*(WAYS[way](users) for way in FULL_ROWS), *shown])


# --- A model as a dictionary


def test_to_dict_is_plain_and_nested_and_the_callers_own() -> None:
    found = report(FULL, totals=RankingTotals(competitors=1)).to_dict()
    assert (found["feed"], found["start_date"], found["totals"]["competitors"]) == (
        "campaign",
        START,
        1,
    )
    (row,) = found["rows"]
    assert row["search_location"] == SearchLocation(5, "Oslo,Norway", extra={"x": 1}).to_dict()
    assert (row["search_location"]["id"], row["search_language"]) == (5, None)
    assert row["tags"] == [
        {"id": 1, "label": "a", "extra": {}},
        {"id": 2, "label": "b", "extra": {"colour": "red"}},
    ]
    assert (
        json.loads(json.dumps(found, default=str))["rows"][0]["last_results_date"] == "2023-03-01"
    )
    row["extra"]["new"].append(2)
    row["tags"].clear()
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
