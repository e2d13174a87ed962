"""The eight tables of a pull: their names, columns and keys, the same in every format."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from operator import attrgetter
from typing import Any

import attrs

from seorep_async.models import Campaign, CampaignPeriod, Feed, KeywordPeriod, KeywordRanking, RankingTotals
from seorep_async.tables.columns import (
    Column,
    ColumnType,
    FeedTable,
    Table,
    columns_of_model,
    is_change,
    model_columns,
)

_ACCOUNT = Column(
    "account",
    ColumnType.STRING,
    "Name of the account: as given to the pull or the client, or else the host of the service.",
    nullable=False,
)
_SNAPSHOT = Column(
    "snapshot_date",
    ColumnType.DATE,
    "Night of the row: the UTC day on which its pull began, or the day given to the pull.",
    nullable=False,
)
_CAMPAIGN = Column("campaign_id", ColumnType.INTEGER, "Id of the campaign.", nullable=False)
_KEYWORD = Column("keyword_id", ColumnType.INTEGER, "Id of the keyword.", nullable=False)
_START = Column("start_date", ColumnType.DATE, "First day that the pull requested.", nullable=False)
_END = Column("end_date", ColumnType.DATE, "Last day that the pull requested.", nullable=False)
_REPORT = (
    _ACCOUNT,
    _SNAPSHOT,
    Column(
        "table_name",
        ColumnType.STRING,
        "Table of the report's rows, such as keyword_rankings; of failures also campaigns.",
        nullable=False,
    ),
    attrs.evolve(
        _CAMPAIGN,
        nullable=True,
        description="Campaign of the report. In failures, null if its id has "
        "more than 64 bits, or if the campaigns could not be listed (table_name is then campaigns).",
    ),
    Column(
        "keyword_id",
        ColumnType.INTEGER,
        "Keyword of the report; null for a report of a whole campaign. In "
        "failures of keyword_periods, null if the campaign's keywords could not be found.",
    ),
    _START,
    _END,
)
TOTALS = tuple(attrs.fields_dict(RankingTotals))
"""Names of the totals, in the order of their columns."""
_READ_TOTALS = attrgetter(*TOTALS)
_CHANGES = [index for index, name in enumerate(TOTALS) if is_change(name)]
_REPORT_KEY = ("account", "table_name", "campaign_id", "keyword_id", "snapshot_date", "start_date", "end_date")


@cache
def table_of(feed: Feed) -> FeedTable:
    """Return the table of a feed: the lead, with account, night and request, and then the row model's columns."""
    key: tuple[str, ...]
    if feed is Feed.CAMPAIGN:
        key = ("account", "campaign_id", "keyword_id", "snapshot_date", "start_date", "end_date")
        return _feed_table(feed, "keyword_rankings", "A keyword of a campaign on one night.", KeywordRanking, key)
    if feed is Feed.CAMPAIGN_BY_DATE:
        key = ("account", "campaign_id", "date", "date_precision")
        return _feed_table(feed, "campaign_periods", "A period of a campaign.", CampaignPeriod, key)
    key = ("account", "campaign_id", "keyword_id", "date", "date_precision")
    return _feed_table(feed, "keyword_periods", "A date of a keyword.", KeywordPeriod, key)


def _feed_table(feed: Feed, name: str, description: str, model: type, key: tuple[str, ...]) -> FeedTable:
    of_keyword = (_KEYWORD,) if feed is Feed.KEYWORD_BY_DATE else ()
    lead = (_ACCOUNT, _SNAPSHOT, _CAMPAIGN, *of_keyword, _START, _END)
    columns = (*lead, *columns_of_model(model))
    return FeedTable(name, f"{description} Feed {feed.value}.", columns, key, feed, len(lead), model)


@cache
def totals_table() -> Table:
    columns = tuple(_CAMPAIGN if column.name == "campaign_id" else column for column in _REPORT)
    return Table("totals", "The totals of one report.", (*columns, *columns_of_model(RankingTotals)), _REPORT_KEY)


def totals_values(totals: RankingTotals, *, compared: bool) -> list[Any]:
    """Return the values of a report's totals, in the order of their columns; changes are None unless `compared`."""
    values = list(_READ_TOTALS(totals))
    for index in () if compared else _CHANGES:
        values[index] = None
    return values


@cache
def campaigns_table() -> Table:
    _, *others = columns_of_model(Campaign)
    columns = (_ACCOUNT, _SNAPSHOT, _CAMPAIGN, *others)
    return Table("campaigns", "A campaign, as it was when it was last pulled.", columns, ("account", "campaign_id"))


def campaign_columns(campaigns: Sequence[Campaign], account: str, snapshot_date: object) -> list[Sequence[Any]]:
    lead = [[value] * len(campaigns) for value in (account, snapshot_date)]
    return [*lead, *model_columns(Campaign, campaigns)]


@cache
def keywords_table() -> Table:
    """Return the table of keywords: the campaign feed's columns that are the same every night."""
    rankings = table_of(Feed.CAMPAIGN).columns
    indices = _keyword_indices()
    description = "A keyword, as the campaign feed last listed it; one that moved is listed for both campaigns."
    return Table("keywords", description, tuple(rankings[n] for n in indices), ("account", "campaign_id", "keyword_id"))


def keyword_columns(ranking_columns: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return the columns of the table of keywords, each keyword once, from those of the campaign feed."""
    columns = [ranking_columns[index] for index in _keyword_indices()]
    ids = columns[3]
    if len(set(ids)) == len(ids):
        return columns
    first = {id_: index for index, id_ in reversed(list(enumerate(ids)))}
    return [[column[index] for index in sorted(first.values())] for column in columns]


@cache
def _keyword_indices() -> tuple[int, ...]:
    wanted = ("account", "snapshot_date", "campaign_id", "keyword_id", "keyword_phrase", "primary_keyword")
    return tuple(
        index
        for index, column in enumerate(table_of(Feed.CAMPAIGN).columns)
        if column.name in wanted or (column.name.startswith("search_") and column.type is not ColumnType.FIELDS)
    )


@cache
def failures_table() -> Table:
    error = (
        Column("error", ColumnType.STRING, "Name of the error's class, such as NotFoundError.", nullable=False),
        Column("message", ColumnType.STRING, "What went wrong.", nullable=False),
        Column("status", ColumnType.INTEGER, "HTTP status of the last response; null if there was none."),
        Column("attempts", ColumnType.INTEGER, "Requests that were made for the page that failed."),
    )
    return Table("failures", "A report that a pull could not fetch.", (*_REPORT, *error), _REPORT_KEY)


def _effort() -> tuple[Column, ...]:
    """Return the columns of what a pull cost."""
    return (
        Column(
            "requests", ColumnType.INTEGER, "Requests, retries included; of a resumed pull, of its last run.", False
        ),
        Column(
            "retries",
            ColumnType.FIELDS,
            "Those that were retries, by cause: throttle, overload, transient. Null if there were none.",
        ),
        Column("refusals", ColumnType.INTEGER, "Responses with status 429."),
        Column(
            "waited",
            ColumnType.FIELDS,
            "Seconds that requests waited, in all, by reason: concurrency (others were in flight), pace (the service's "
            "rate), asked to wait (Retry-After), outage (nothing got through), backoff (before a retry). Null if none "
            "waited.",
        ),
    )


@cache
def pulls_table() -> Table:
    columns = (
        _ACCOUNT,
        _SNAPSHOT,
        Column(
            "started_at", ColumnType.DATETIME, "When the pull began, in UTC; unchanged when a pull is resumed.", False
        ),
        Column("service", ColumnType.STRING, "Address of the service.", nullable=False),
        Column("feeds", ColumnType.STRING, "The feeds, separated by commas.", nullable=False),
        _START,
        _END,
        Column("campaigns", ColumnType.INTEGER, "Campaigns that were requested.", nullable=False),
        Column(
            "selection",
            ColumnType.STRING,
            "Which campaigns were requested, as JSON: null for all; groups, filter and exclude; or ids.",
        ),
        Column("rows", ColumnType.INTEGER, "Rows of all feeds that were written.", nullable=False),
        *_effort(),
        Column(
            "failures",
            ColumnType.INTEGER,
            "Reports that could not be fetched; a list of campaigns that could not be fetched is not counted.",
            nullable=False,
        ),
        Column("compared", ColumnType.BOOLEAN, "Whether changes from the previous period were requested.", False),
        Column("version", ColumnType.STRING, "Version of seorep-async that wrote it.", nullable=False),
    )
    return Table("pulls", "A pull.", columns, ("account", "snapshot_date", "started_at"))


def all_tables() -> tuple[Table, ...]:
    others = (totals_table(), campaigns_table(), keywords_table(), failures_table(), pulls_table())
    return (*(table_of(feed) for feed in Feed), *others)


def table_named(name: str) -> Table:
    (table,) = (table for table in all_tables() if table.name == name)
    return table
