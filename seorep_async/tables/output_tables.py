"""The names, columns and keys of a pull's eight tables, which are the same in every format."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import attrs

from seorep_async.models import (
    Campaign,
    CampaignPeriod,
    Feed,
    KeywordPeriod,
    KeywordRanking,
    RankingTotals,
)
from seorep_async.tables.columns import (
    Column,
    ColumnType,
    FeedTable,
    Table,
    columns_of_model,
    is_change,
)

_INTEGER = ColumnType.INTEGER
_STRING = ColumnType.STRING
_DATE = ColumnType.DATE
_FIELDS = ColumnType.FIELDS
_required = partial(Column, nullable=False)
_ACCOUNT = _required(
    "account",
    _STRING,
    "Name of the account: as given to the pull or the client, or else the host of the service.",
)
_SNAPSHOT = _required(
    "snapshot_date",
    _DATE,
    "Night of the row: the UTC day on which its pull began, or the day given to the pull.",
)
_CAMPAIGN = _required("campaign_id", _INTEGER, "Id of the campaign.")
_KEYWORD = _required("keyword_id", _INTEGER, "Id of the keyword.")
_START = _required("start_date", _DATE, "First day that the pull requested.")
_END = _required("end_date", _DATE, "Last day that the pull requested.")
_OF_CAMPAIGN = (
    "Campaign of the report. In failures, null if the campaigns could not be listed (table_name is "
    "then campaigns), or if its id needs more than 64 bits."
)
_OF_KEYWORD = (
    "Keyword of the report; null for a report of a whole campaign. In failures of "
    "keyword_periods, null if the campaign's keywords could not be found."
)
_OF_TABLE = "Table of the report's rows, such as keyword_rankings; of failures also campaigns."
_REPORT = (
    _ACCOUNT,
    _SNAPSHOT,
    _required("table_name", _STRING, _OF_TABLE),
    Column("campaign_id", _INTEGER, _OF_CAMPAIGN),
    Column("keyword_id", _INTEGER, _OF_KEYWORD),
    _START,
    _END,
)
TOTALS = tuple(attrs.fields_dict(RankingTotals))
"""Names of the totals, in the order of their columns."""
_REPORT_KEY = (
    "account",
    "table_name",
    "campaign_id",
    "keyword_id",
    "snapshot_date",
    "start_date",
    "end_date",
)


@cache
def table_of(feed: Feed) -> FeedTable:
    """Return the table of a feed.

    Its first columns are the lead: account, snapshot date, ids and requested days. The row model's
    columns follow.
    """
    key: tuple[str, ...]
    if feed is Feed.CAMPAIGN:
        key = ("account", "campaign_id", "keyword_id", "snapshot_date", "start_date", "end_date")
        return _feed_table(
            feed,
            "keyword_rankings",
            "A keyword of a campaign on one night, for each pulled window.",
            KeywordRanking,
            key,
        )
    if feed is Feed.CAMPAIGN_BY_DATE:
        key = ("account", "campaign_id", "date", "date_precision")
        return _feed_table(feed, "campaign_periods", "A period of a campaign.", CampaignPeriod, key)
    key = ("account", "campaign_id", "keyword_id", "date", "date_precision")
    return _feed_table(feed, "keyword_periods", "A date of a keyword.", KeywordPeriod, key)


def _feed_table(
    feed: Feed, name: str, description: str, model: type, key: tuple[str, ...]
) -> FeedTable:
    of_keyword = (_KEYWORD,) if feed is Feed.KEYWORD_BY_DATE else ()
    lead = (_ACCOUNT, _SNAPSHOT, _CAMPAIGN, *of_keyword, _START, _END)
    columns = (*lead, *columns_of_model(model))
    return FeedTable(
        name, f"{description} Feed {feed.value}.", columns, key, feed, model, lead=len(lead)
    )


@cache
def totals_table() -> Table:
    columns = tuple(_CAMPAIGN if column.name == "campaign_id" else column for column in _REPORT)
    return Table(
        "totals",
        "The totals of one report.",
        (*columns, *columns_of_model(RankingTotals)),
        _REPORT_KEY,
    )


@cache
def metrics_of_totals() -> Table:
    """Return the table of totals without the columns that say whose they are."""
    return Table("totals", "", (*columns_of_model(RankingTotals),), ())


def totals_values(totals: RankingTotals, *, compared: bool) -> list[Any]:
    """Return the values of a report's totals, in the order of their columns.

    Changes are None unless `compared`.
    """
    values = []
    for name in TOTALS:
        value = getattr(totals, name)
        # the service may send changes even if no comparison was requested
        if is_change(name) and not compared:
            value = None
        values.append(value)
    return values


@cache
def campaigns_table() -> Table:
    _, *columns_after_id = columns_of_model(Campaign)
    columns = (_ACCOUNT, _SNAPSHOT, _CAMPAIGN, *columns_after_id)
    description = "A campaign, as it was when it was last pulled."
    return Table("campaigns", description, columns, ("account", "campaign_id"), lead=3)


@cache
def keywords_table() -> Table:
    """Return the table of keywords: the campaign feed's columns that are the same every night."""
    key = ("account", "campaign_id", "keyword_id")
    names = {
        *key,
        "snapshot_date",
        "keyword_phrase",
        "search_location_id",
        "search_location_canonical_name",
        "search_location_country_code",
        "search_location_target_type",
        "search_language_id",
        "search_language_name",
        "primary_keyword",
    }
    feed_columns = table_of(Feed.CAMPAIGN).columns
    columns = tuple(column for column in feed_columns if column.name in names)
    description = (
        "A keyword, as the campaign feed last listed it; one that moved is listed for both "
        "campaigns."
    )
    return Table("keywords", description, columns, key, lead=3)


@cache
def failures_table() -> Table:
    error = (
        _required("error", _STRING, "Name of the error's class, such as NotFoundError."),
        _required("message", _STRING, "What went wrong."),
        Column("status", _INTEGER, "HTTP status of the last response; null if there was none."),
        Column("attempts", _INTEGER, "Requests that were made for the page that failed."),
    )
    return Table(
        "failures", "A report that a pull could not fetch.", (*_REPORT, *error), _REPORT_KEY
    )


_WAITED = (
    "Seconds that requests waited, in all, by reason: concurrency (others were in flight), pace "
    "(the service's rate), asked to wait (Retry-After), outage (nothing got through), backoff "
    "(before a retry). Null if none waited."
)
_RETRIES = (
    "Those that were retries, by cause: throttle, overload, transient. Null if there were none."
)
_SELECTION = (
    "Which campaigns were requested, as JSON: null for all; groups, filter and exclude; or ids."
)
_READING = (
    "Digest of the options and engine names that change how a response becomes rows: pulls with "
    "the same digest are comparable. Null if an older version wrote it."
)
_FAILURES = (
    "Reports that could not be fetched; a list of campaigns that could not be fetched is not "
    "counted."
)


@cache
def pulls_table() -> Table:
    began = "When the pull began, in UTC; unchanged when a pull is resumed."
    columns = (
        _ACCOUNT,
        _SNAPSHOT,
        _required("started_at", ColumnType.DATETIME, began),
        _required("service", _STRING, "Address of the service."),
        _required("feeds", _STRING, "The feeds, separated by commas."),
        _START,
        _END,
        _required("campaigns", _INTEGER, "Campaigns that were requested."),
        Column("selection", _STRING, _SELECTION),
        _required("rows", _INTEGER, "Rows of all feeds that were written."),
        _required(
            "requests", _INTEGER, "Requests, retries included; of a resumed pull, of its last run."
        ),
        Column("retries", _FIELDS, _RETRIES),
        Column("refusals", _INTEGER, "Responses with status 429."),
        Column("waited", _FIELDS, _WAITED),
        _required("failures", _INTEGER, _FAILURES),
        _required(
            "compared",
            ColumnType.BOOLEAN,
            "Whether changes from the previous period were requested.",
        ),
        Column("reading", _STRING, _READING),
        _required("version", _STRING, "Version of seorep-async that wrote it."),
    )
    return Table("pulls", "A pull.", columns, ("account", "snapshot_date", "started_at"))


def all_tables() -> tuple[Table, ...]:
    """Return the tables of a pull, those of the feeds first."""
    others = (totals_table(), campaigns_table(), keywords_table(), failures_table(), pulls_table())
    return (*(table_of(feed) for feed in Feed), *others)
