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
    "Name of the account, as given to the pull or the client; otherwise the service's host name.",
)
_SNAPSHOT = _required(
    "snapshot_date",
    _DATE,
    "Snapshot date: the day given to the pull, or otherwise the UTC day on which it began.",
)
_CAMPAIGN = _required("campaign_id", _INTEGER, "Id of the campaign.")
_KEYWORD = _required("keyword_id", _INTEGER, "Id of the keyword.")
_START = _required("start_date", _DATE, "First day that the pull requested.")
_END = _required("end_date", _DATE, "Last day that the pull requested.")
_OF_CAMPAIGN = (
    "Id of the report's campaign. In failures, null if the campaigns could not be listed "
    "(table_name is then campaigns) or if the id needs more than 64 bits."
)
_OF_KEYWORD = (
    "Id of the report's keyword; null for a report on a whole campaign. In failures, also null if "
    "the keywords of a campaign could not be found for keyword_periods."
)
_OF_TABLE = (
    "Table of the report's rows, such as keyword_rankings. In failures, it may also be campaigns."
)
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

    Its leading columns are account, snapshot date, ids and requested days. The row model's columns
    follow.
    """
    key: tuple[str, ...]
    if feed is Feed.CAMPAIGN:
        key = ("account", "campaign_id", "keyword_id", "snapshot_date", "start_date", "end_date")
        return _feed_table(
            feed,
            "keyword_rankings",
            "One row per campaign, keyword, snapshot date and requested period.",
            KeywordRanking,
            key,
        )
    if feed is Feed.CAMPAIGN_BY_DATE:
        key = ("account", "campaign_id", "date", "date_precision")
        description = "One row per campaign and period."
        return _feed_table(feed, "campaign_periods", description, CampaignPeriod, key)
    key = ("account", "campaign_id", "keyword_id", "date", "date_precision")
    description = "One row per campaign, keyword and period."
    return _feed_table(feed, "keyword_periods", description, KeywordPeriod, key)


def _feed_table(
    feed: Feed, name: str, description: str, model: type, key: tuple[str, ...]
) -> FeedTable:
    """Return the table of a feed.

    Its leading columns say which account, night and report a row belongs to. The columns of `model`
    follow.
    """
    of_keyword = (_KEYWORD,) if feed is Feed.KEYWORD_BY_DATE else ()
    lead = (_ACCOUNT, _SNAPSHOT, _CAMPAIGN, *of_keyword, _START, _END)
    columns = (*lead, *columns_of_model(model))
    return FeedTable(
        name,
        f"{description} From the feed {feed.value}.",
        columns,
        key,
        feed,
        model,
        lead=len(lead),
    )


@cache
def totals_table() -> Table:
    """Return the table with one row for the totals of each report."""
    # `_REPORT` also describes `failures`, in which the id of the campaign may be null. Totals
    # always have one.
    columns = tuple(_CAMPAIGN if column.name == "campaign_id" else column for column in _REPORT)
    return Table(
        "totals",
        "The totals of one report.",
        (*columns, *columns_of_model(RankingTotals)),
        _REPORT_KEY,
    )


@cache
def metrics_of_totals() -> Table:
    """Return the table of totals without its leading columns."""
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
    description = "A campaign, as its latest pull found it."
    return Table("campaigns", description, columns, ("account", "campaign_id"), lead=3)


@cache
def keywords_table() -> Table:
    """Return the table of keywords.

    Its columns are those of the campaign feed that describe the keyword itself.
    """
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
        "A keyword, as the campaign feed last listed it. A keyword that moved to another "
        "campaign appears under both."
    )
    return Table("keywords", description, columns, key, lead=3)


@cache
def failures_table() -> Table:
    """Return the table with one row for each report that a pull could not fetch."""
    error = (
        _required("error", _STRING, "Name of the error's class, such as NotFoundError."),
        _required("message", _STRING, "What went wrong."),
        Column("status", _INTEGER, "HTTP status of the last response; null if there was none."),
        Column("attempts", _INTEGER, "Attempts made to fetch the failed page."),
    )
    return Table(
        "failures", "A report that a pull could not fetch.", (*_REPORT, *error), _REPORT_KEY
    )


_WAITED = (
    "Total seconds that requests waited, by reason: concurrency (other requests were in flight), "
    "pace (the service's rate), asked to wait (Retry-After), outage (nothing got through), backoff "
    "(before a retry). Null if no request waited."
)
_REQUESTS = "Number of requests, including retries. For a resumed pull, those of its last run."
_RETRIES = "Number of retries, by cause: throttle, overload, transient. Null if there were none."
_REFUSALS = "Number of 429s and other refusals because of the rate."
_SELECTION = (
    "Requested campaigns, as JSON: null for all campaigns; otherwise an object with ids, or with "
    "groups, filter and exclude."
)
_READING = (
    "Digest of the options and engine names that determine how a response becomes rows. Pulls with "
    "the same digest are comparable. Null if an older version wrote this row."
)
_FAILURES = (
    "Number of reports that could not be fetched. A failure to list the campaigns is not counted."
)


@cache
def pulls_table() -> Table:
    """Return the table with one row for each pull."""
    began = "When the pull began, in UTC. Resuming a pull does not change it."
    columns = (
        _ACCOUNT,
        _SNAPSHOT,
        _required("started_at", ColumnType.DATETIME, began),
        _required("service", _STRING, "Address of the service."),
        _required("feeds", _STRING, "The feeds, separated by commas."),
        _START,
        _END,
        _required("campaigns", _INTEGER, "Number of requested campaigns."),
        Column("selection", _STRING, _SELECTION),
        _required("rows", _INTEGER, "Number of rows written, over all feeds."),
        _required("requests", _INTEGER, _REQUESTS),
        Column("retries", _FIELDS, _RETRIES),
        Column("refusals", _INTEGER, _REFUSALS),
        Column("waited", _FIELDS, _WAITED),
        _required("failures", _INTEGER, _FAILURES),
        _required(
            "compared",
            ColumnType.BOOLEAN,
            "Whether changes from the previous period were requested.",
        ),
        Column("reading", _STRING, _READING),
        _required("version", _STRING, "Version of seorep-async that wrote this row."),
    )
    return Table("pulls", "A pull.", columns, ("account", "snapshot_date", "started_at"))


def all_tables() -> tuple[Table, ...]:
    """Return a pull's tables. The tables of the feeds come first."""
    others = (totals_table(), campaigns_table(), keywords_table(), failures_table(), pulls_table())
    return (*(table_of(feed) for feed in Feed), *others)
