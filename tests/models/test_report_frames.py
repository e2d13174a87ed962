"""Reports and lists in other forms: dictionaries, JSON lines, Arrow, data frames, notebooks."""

import copy
import datetime as dt
import json
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

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
    Feed,
    Keyword,
    KeywordRanking,
    LoginGrant,
    ModelList,
    Page,
    PullOutcomes,
    RankingReport,
    RankingTotals,
    SearchLocation,
    Tabular,
    Tag,
    User,
)
from seorep_async.tables import optional
from seorep_async.tables.output_tables import table_of
from tests.scripted_api import FEED, LIST, simulating, well_behaved

START = dt.date(2023, 1, 1)
END = dt.date(2023, 3, 31)
RANKED = [
    KeywordRanking(1, "<b>1</b>", engine_a_ranking=3),
    KeywordRanking(2, "<b>2</b>", engine_a_ranking=None),
    KeywordRanking(3, "<b>3</b>", engine_a_ranking=0),
]
OSLO = SearchLocation(5, "Oslo,Norway", extra={"x": 1})
FULL = KeywordRanking(
    keyword_id=1,
    keyword_phrase="a\u2028b",
    primary_keyword=True,
    engine_a_ranking=3,
    last_results_date=dt.date(2023, 3, 1),
    search_location=OSLO,
    tags=(Tag(1, "a"), Tag(2, "b", {"colour": "red"})),
    extra={"new": [1]},
)
EMPTY = KeywordRanking(2, "ø")
CREATED = dt.datetime(2023, 1, 2, 3, 4, 5)
FIRST = Campaign(1, "https://a.example", "<i>A</i>", CREATED, timezone="Europe/Oslo")
SECOND = Campaign(2, "https://b.example", "B", group_title="Retail", extra={"type": "real"})
CAMPAIGNS = ModelList([FIRST, SECOND], Campaign)


def report(*rows: Any, feed: Feed = Feed.CAMPAIGN, id_: int = 7, **more: Any) -> RankingReport[Any]:
    return RankingReport(feed=feed, id=id_, start_date=START, end_date=END, rows=rows, **more)


# --- A report


def test_a_repr_shows_the_first_rows_of_a_report_or_page() -> None:
    rows = tuple(KeywordRanking(number, f"phrase {number}") for number in range(1, 1_002))
    for text in (repr(report(*rows)), repr(Page(rows, number=2, total_pages=3))):
        assert "phrase 3" in text
        assert "phrase 4" not in text
        assert "… 998 more)" in text


def test_a_report_prints_as_one_line() -> None:
    printed = str(report(FULL, account="acme"))
    assert printed == f"<Campaign 7 of acme, {START} to {END}, feed campaign: 1 row>"


def test_a_report_is_no_list_of_rows() -> None:
    with pytest.raises(TypeError, match=r"use its \.rows, or \.to_pandas\(\) for a frame"):
        pd.DataFrame(report(FULL))
    assert pl.DataFrame(report(FULL)).height == 1


def of_pandas(table: Tabular) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pandas().astype(object).to_dict("records")
    for row in rows:
        for name, value in row.items():
            if value is pd.NA or value is pd.NaT:
                row[name] = None
    return rows


Way: TypeAlias = Callable[[Any], list[dict[str, Any]]]
METHODS: dict[str, Way] = {
    "to_dicts": Tabular.to_dicts,
    "to_jsonl": lambda table: [json.loads(line) for line in table.to_jsonl().splitlines()],
    "to_arrow": lambda table: table.to_arrow().to_pylist(),
    "to_polars": lambda table: table.to_polars().to_dicts(),
    "to_pandas": of_pandas,
}
LIBRARIES: dict[str, Way] = {
    "arrow takes it": lambda table: pa.table(table).to_pylist(),
    "polars takes it": lambda table: pl.DataFrame(table).to_dicts(),
    "duckdb takes it": lambda table: duckdb.from_arrow(table).to_arrow_table().to_pylist(),
}
WAYS = METHODS | LIBRARIES
each_way = pytest.mark.parametrize("rows", WAYS.values(), ids=WAYS)


COLUMNS = [column.name for column in table_of(Feed.CAMPAIGN).columns]


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("to_pandas", "to_polars")])
def test_all_ways_but_frames_have_the_same_columns(way: str) -> None:
    for row in WAYS[way](report(*RANKED)):
        assert list(row) == COLUMNS


@each_way
def test_all_ways_keep_null_from_0(rows: Way) -> None:
    ranks = [row["engine_a_ranking"] for row in rows(report(*RANKED))]
    assert ranks == [3, None, 0]
    assert [type(rank) for rank in ranks] == [int, type(None), int]


SHARED = {
    "campaign_id": 7,
    "keyword_phrase": "a\u2028b",
    "search_location_id": 5,
    "engine_b_ranking": None,
    "search_language_extra": None,
}
TAGS: list[dict[str, Any]] = [
    {"id": 1, "label": "a"},
    {"id": 2, "label": "b", "extra": {"colour": "red"}},
]
ARROW_TAGS = [TAGS[0] | {"extra": None}, TAGS[1] | {"extra": '{"colour": "red"}'}]
DAYS = {"start_date": START, "last_results_date": dt.date(2023, 3, 1)}
NESTED = {"tags": TAGS, "extra": {"new": [1]}, "search_location_extra": {"x": 1}}
AS_JSON = {"tags": ARROW_TAGS, "extra": '{"new": [1]}', "search_location_extra": '{"x": 1}'}
ISO_DAYS = {name: day.isoformat() for name, day in DAYS.items()}
TIMESTAMPS = {name: pd.Timestamp(day) for name, day in DAYS.items()}


@pytest.mark.parametrize(
    ("way", "values"),
    [
        ("to_dicts", DAYS | NESTED),
        ("to_jsonl", ISO_DAYS | NESTED),
        ("to_arrow", DAYS | AS_JSON),
        ("to_polars", DAYS | AS_JSON),
        ("to_pandas", TIMESTAMPS | NESTED),
    ],
)
def test_a_row_has_its_values(way: str, values: dict[str, Any]) -> None:
    (row,) = WAYS[way](report(FULL))
    expected = SHARED | values
    assert {name: row[name] for name in expected} == expected


def test_changing_a_dict_leaves_the_report_alone() -> None:
    ranked = report(FULL)
    row = ranked.to_dicts()[0]
    row["extra"]["other"] = 1
    assert "other" not in ranked.to_dicts()[0]["extra"]
    assert "other" not in ranked.rows[0].extra


def test_an_integer_beyond_64_bits_is_an_error_of_arrow_alone() -> None:
    huge = report(attrs.evolve(EMPTY, competitors=2**63))
    assert huge.to_dicts()[0]["competitors"] == 2**63
    with pytest.raises(OverflowError, match="competitors: an integer needs more"):
        huge.to_arrow()


@pytest.mark.parametrize("feed", Feed)
def test_the_schema_of_outcomes_is_that_of_a_report(feed: Feed) -> None:
    of_account = report(feed=feed, account="acme", snapshot_date=END)
    schema = of_account.to_arrow().schema
    assert schema.equals(PullOutcomes([], feed).to_arrow().schema)
    assert schema.field("campaign_id").nullable == (feed is Feed.KEYWORD_BY_DATE)


# --- Several reports


@pytest.mark.parametrize("extra", ["arrow", "pandas", "polars"])
def test_a_missing_extra_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch, extra: str
) -> None:
    make: Any = getattr(report(FULL), f"to_{extra}")
    # PyArrow looks for pandas once, and would fail without it.
    make()
    monkeypatch.setitem(sys.modules, extra.replace("arrow", "pyarrow"), None)
    clone = Path(__file__).parents[2].as_uri()
    command = f": pip install 'seorep-async[{extra}] @ {clone}'"
    with pytest.raises(ImportError, match=re.escape(command)):
        make()
    monkeypatch.setattr(optional, "_local_source", lambda: None)
    command = f"'seorep-async[{extra}]', or in a clone: pip install '.[{extra}]'"
    with pytest.raises(ImportError, match=re.escape(command)):
        make()


# --- First steps in pandas


PERIODS = [
    CampaignPeriod(dt.date(year, month, 1))
    for year, months in ((2022, (10, 11, 12)), (2023, (1, 2, 3)))
    for month in months
]
MONTHS = report(*PERIODS, feed=Feed.CAMPAIGN_BY_DATE).to_pandas()
RANKINGS = report(FULL, EMPTY).to_pandas()


def test_a_frame_is_filtered_by_dates() -> None:
    assert len(MONTHS[MONTHS["date"] >= "2023-01-01"]) == 3
    assert len(MONTHS.set_index("date").loc["2023"]) == 3
    created = CAMPAIGNS.to_pandas()["date_created"]
    assert list(created >= "2020-01-01") == [True, False]
    assert MONTHS["date"].diff().dt.days.max() == 31


def test_a_frame_has_a_type_for_each_kind_of_value() -> None:
    types = {
        "start_date": "datetime64[s]",
        "keyword_phrase": "string[pyarrow]",
        "competitors": "int64[pyarrow]",
        "tags": "object",
    }
    for frame in (RANKINGS, report().to_pandas()):
        assert {name: str(frame[name].dtype) for name in types} == types
    assert str(CAMPAIGNS.to_pandas()["date_created"].dtype) == "datetime64[s]"


# --- Changes that were not requested


UNCHANGED: dict[str, Any] = {"engine_a_ranking": 70, "engine_a_ranking_change": 0}
UNREQUESTED = [
    report(KeywordRanking(1, "a", **UNCHANGED), compared=False),
    report(
        CampaignPeriod(START, **UNCHANGED),
        feed=Feed.CAMPAIGN_BY_DATE,
        totals=RankingTotals(**UNCHANGED),
        compared=False,
    ),
]


@each_way
@pytest.mark.parametrize("report", UNREQUESTED, ids=lambda report: report.feed.value)
def test_frames_show_only_requested_changes(report: RankingReport[Any], rows: Way) -> None:
    (row,) = rows(report)
    (requested,) = rows(attrs.evolve(report, compared=True))
    changes = {name: value for name, value in row.items() if name.endswith("_change")}
    assert set(changes.values()) == {None}
    assert row["engine_a_ranking"] == 70
    # The only difference is the change.
    assert requested == row | {"engine_a_ranking_change": 0}


@pytest.mark.virtual
@pytest.mark.parametrize(
    ("values", "compared"),
    [
        ([True, "true", "TRUE", "1", 1, "previous_month", "on"], True),
        ([None, False, 0, "", "false", "False", "0", "no", "off", " Off ", 0.0], False),
    ],
)
async def test_which_values_request_changes(values: list[Any], compared: bool) -> None:
    async with simulating(well_behaved(FEED, 0, 1)) as (client, _):
        for value in values:
            listing = client.rankings.campaign(1, START, END, compare_previous_period=value)
            assert (await listing).compared is compared, value


# --- Notebooks


def heads(html: str) -> list[str]:
    return re.findall(r"<th [^>]*>(.*?)</th>", html.replace("<wbr>", ""))


@pytest.mark.parametrize(
    ("table", "present", "absent"),
    [
        pytest.param(
            report(*RANKED),
            ["&lt;b&gt;1&lt;/b&gt;", "engine_a_<wbr>ranking</th>"],
            ["<b>", "wmt_", "search_"],
            id="is escaped, without empty columns",
        ),
        pytest.param(
            CAMPAIGNS, ["Campaigns: 2 rows", "&lt;i&gt;A&lt;/i&gt;"], ["<i>"], id="shows a list"
        ),
        pytest.param(
            report(*(KeywordRanking(number, "a") for number in range(1, 1235))),
            [
                "<div>Campaign 7, 2023-01-01 to 2023-03-31, feed campaign: "
                "1,234 rows, the first 10 shown<",
                ">10<",
            ],
            [">11<"],
            id="shows the first rows and their number",
        ),
        pytest.param(
            report(
                attrs.evolve(EMPTY, engine_a_ranking_url=f'https://www.example.com/"{"x" * 300}')
            ),
            [
                f'title="https://www.example.com/&quot;{"x" * 300}">'
                f"https://www.example.com/&quot;{'x' * 14}…</td>"
            ],
            [],
            id="shortens a long value and shows it on hover",
        ),
        pytest.param(
            UNREQUESTED[1], [], ["change"], id="shows no total change that nobody requested"
        ),
    ],
)
def test_a_notebook(table: Any, present: list[str], absent: list[str]) -> None:
    html = table._repr_html_()
    assert [text for text in present if text not in html] == []
    assert [text for text in absent if text in html] == []


def test_html_begins_with_ranks_and_ends_with_constant_columns() -> None:
    london = SearchLocation(5, "London")
    first = KeywordRanking(
        1, "a", london, competitors=1, engine_b_ranking=0, engine_b_ranking_change=-1
    )
    rows = [first, attrs.evolve(first, keyword_id=2, competitors=2)]
    assert heads(report(*rows)._repr_html_()) == [
        "keyword_phrase",
        "engine_b_ranking",
        "engine_b_ranking_change",
        "keyword_id",
        "competitors",
        "search_location_id",
        "search_location_canonical_name",
    ]


def test_html_ends_with_the_totals_under_their_columns() -> None:
    period = CampaignPeriod(START, engine_a_ranking=3)
    totals = RankingTotals(engine_a_ranking=4, competitors=0)
    with_totals = report(period, feed=Feed.CAMPAIGN_BY_DATE, totals=totals)
    html = with_totals._repr_html_()
    assert "1 row, and totals</div>" in html
    # The columns are date, rank, date_precision and competitors.
    assert heads(html.partition("<tfoot>")[2]) == ["totals", "4", "", "0"]


# --- Lists


@pytest.mark.virtual
async def test_an_awaited_listing_is_a_list_with_data_frames() -> None:
    async with simulating(well_behaved(LIST, 25, 10)) as (client, _):
        campaigns = await client.campaigns.list()
    assert type(campaigns) is ModelList
    assert campaigns.to_polars()["id"].to_list() == list(range(1, 26))


def test_a_list_becomes_frames_and_dicts_of_its_attributes() -> None:
    names = [field.name for field in attrs.fields(Campaign)]
    assert CAMPAIGNS.to_arrow().column_names == names
    for row, campaign in zip(CAMPAIGNS.to_dicts(), CAMPAIGNS, strict=True):
        assert row == attrs.asdict(campaign, recurse=False) | {"extra": campaign.extra or None}
    # The column is JSON because the type of the field is not documented.
    assert CAMPAIGNS.to_polars()["timezone"].to_list() == ['"Europe/Oslo"', None]
    pandas = CAMPAIGNS.to_pandas()
    assert list(pandas["timezone"]) == ["Europe/Oslo", None]
    assert list(pandas["date_created"]) == [pd.Timestamp(CREATED), pd.NaT]
    second = CAMPAIGNS.to_jsonl().splitlines()[1]
    assert json.loads(second)["extra"] == {"type": "real"}


@pytest.mark.parametrize("model", [Campaign, User, Keyword, Backlink])
def test_an_empty_list_has_its_columns_too(model: type) -> None:
    empty: ModelList[Any] = ModelList([], model)
    names = {field.name for field in attrs.fields(model)} - {"password"}
    assert set(empty.to_arrow().column_names) == names
    assert set(empty.to_pandas()) == names
    assert empty.to_dicts() == []
    assert empty.to_jsonl() == b""
    assert ": 0 rows" in empty._repr_html_()


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(copy.copy, id="copy.copy"),
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda models: pickle.loads(pickle.dumps(models)), id="pickle"),  # noqa: S301
        pytest.param(lambda models: models[:], id="slice"),
        pytest.param(lambda models: models.copy(), id="copy"),
        pytest.param(lambda models: models[:1] + models[1:], id="sum"),
        pytest.param(lambda models: models[:1] + list(models[1:]), id="sum with a plain list"),
    ],
)
def test_copies_slices_and_sums_of_one_model_are_such_lists(same: Callable[[Any], Any]) -> None:
    copied = same(CAMPAIGNS)
    assert type(copied) is ModelList
    assert copied is not CAMPAIGNS
    assert copied == CAMPAIGNS == list(CAMPAIGNS)
    assert copied.to_dicts() == CAMPAIGNS.to_dicts()


USERS = ModelList([User(1, "ann")], User)


@pytest.mark.parametrize("mine", [CAMPAIGNS, CAMPAIGNS[:0]], ids=["full", "empty"])
@pytest.mark.parametrize(
    "other", [USERS, USERS[:0], [*USERS], [*CAMPAIGNS, *USERS], [None]], ids=range(5)
)
def test_a_sum_with_others_is_a_plain_list(mine: ModelList[Any], other: list[Any]) -> None:
    total = mine + other
    assert type(total) is list
    assert total == [*mine, *other]


def test_a_list_of_users_shows_no_password() -> None:
    users = ModelList([User(1, "ann", password="c4n4ry")], User)
    forms: list[object] = [rows(users) for rows in METHODS.values()]
    forms += [repr(users), pickle.dumps(users)]
    forms += [users._repr_html_(), users[0].to_dict()]
    assert "c4n4ry" not in str(forms)


# --- A model as a dictionary


def test_to_dict_is_plain_and_nested_and_the_callers_own() -> None:
    whole = report(FULL, totals=RankingTotals(competitors=1)).to_dict()
    assert whole["feed"] == "campaign"
    assert whole["totals"]["competitors"] == 1
    (row,) = whole["rows"]
    assert row["search_location"]["id"] == 5
    assert row["tags"] == [TAGS[0] | {"extra": {}}, TAGS[1]]
    assert row["last_results_date"] == dt.date(2023, 3, 1)
    row["extra"]["new"].append(2)
    row["tags"].clear()
    assert FULL.extra == {"new": [1]}
    assert len(FULL.tags) == 2


def test_to_dict_contains_no_secret() -> None:
    grant = LoginGrant("c4n4ry", "https://a.example/?token=c4n4ry", 7, extra={"more": "c4n4ry"})
    assert "c4n4ry" not in str(grant.to_dict())
    assert grant.to_dict()["user_id"] == 7
