"""Which older rows of a database a pull replaces: SQL about a row `r` of its account and five relations.

- **Feeds by date**: the rows of the pull's days, and of an earlier pull of exactly these dates, of the reports that
  succeeded. A row of a month stands for those of its days that its own pull asked for: it goes only if the pull asked
  for all of these, and else the row that arrives for its month is left out.
- **The campaign feed and totals**: the rows of the same night and the same dates, of the reports that succeeded.
- **Failures**: those of the same night and dates, of the pull's feeds and campaigns.
- Any table: a row whose key arrives; of campaigns and keywords, only if the row is not of a later night.

The relations: `pulled_campaigns` that were asked for, `pulled_reports` that came, `pulled_failures`, `pulled_keywords`
of the campaigns, and `arriving`, the new rows of the table.
"""

from __future__ import annotations

from seorep_async.export.request import ExportRequest
from seorep_async.models import Feed
from seorep_async.tables.columns import FeedTable, Table
from seorep_async.tables.output_tables import (
    campaigns_table,
    failures_table,
    keywords_table,
    table_of,
    totals_table,
)


def fetched(feed: Feed) -> str:
    """Return the condition for rows of reports of a feed that succeeded."""
    if feed is not Feed.KEYWORD_BY_DATE:
        return f"r.campaign_id IN (SELECT id FROM pulled_reports WHERE feed = '{feed.value}')"
    # of a campaign whose keywords are known, all but the rows of keywords that failed: one that left it goes too
    failed = "SELECT f.id FROM pulled_failures f WHERE f.feed = 'keyword-by-date'"
    # a keyword that failed keeps its rows where it still is
    owned = "SELECT 1 FROM pulled_keywords k WHERE k.campaign_id = r.campaign_id AND k.keyword_id = r.keyword_id"
    return f"{fetched(Feed.CAMPAIGN)} AND NOT (r.keyword_id IN ({failed}) AND EXISTS ({owned}))"


def covered(table: Table, request: ExportRequest) -> str | None:
    """Return the condition for rows that were asked for again and came, or None if only keys replace rows."""
    first, last = date(request.start_date), date(request.end_date)
    same_dates = f"r.start_date = {first} AND r.end_date = {last}"
    same_night = f"r.snapshot_date = {date(request.snapshot_date)} AND {same_dates}"
    if table is table_of(Feed.CAMPAIGN):
        return f"{same_night} AND {fetched(Feed.CAMPAIGN)}"
    if isinstance(table, FeedTable):
        days = f"r.date_precision = 'day' AND r.date BETWEEN {first} AND {last}"
        return f"({days} OR r.date_precision = 'month' AND {_month(request)} OR {same_dates}) AND {fetched(table.feed)}"
    if table is totals_table():
        reports = " OR ".join(
            f"r.table_name = '{table_of(feed).name}' AND {fetched(feed)}" for feed in request.feeds
        )
        return f"{same_night} AND ({reports})"
    if table is failures_table():
        names = ", ".join(f"'{table_of(feed).name}'" for feed in request.feeds)
        wanted = "r.campaign_id IS NULL OR r.campaign_id IN (SELECT id FROM pulled_campaigns)"
        return f"{same_night} AND r.table_name IN ({names}, 'campaigns') AND ({wanted})"
    return None


def _month(request: ExportRequest) -> str:
    """Return the condition that the pull asked for those days of a row's month that the row's own pull asked for."""
    first, last = date(request.start_date), date(request.end_date)
    # a month ends in the window if it is before that of the next day
    ends = f"r.date < date_trunc('month', {last} + 1) OR r.end_date <= {last}"
    return f"(r.date >= {first} OR r.start_date >= {first}) AND ({ends})"


def arriving_again(table: Table, request: ExportRequest) -> str | None:
    """Return the condition for rows of a key that arrives, or None if `covered` has them all."""
    if table in (table_of(Feed.CAMPAIGN), totals_table(), failures_table()):
        return None
    which = "true"
    if isinstance(table, FeedTable):
        which = f"(r.date_precision <> 'month' OR {_month(request)})"
    elif table in (campaigns_table(), keywords_table()):
        which = f"r.snapshot_date <= {date(request.snapshot_date)}"
    return f"{which} AND EXISTS (SELECT 1 FROM arriving n WHERE {same_key(table)})"


def same_key(table: Table) -> str:
    return " AND ".join(f"n.{column} = r.{column}" for column in table.key)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def date(day: object) -> str:
    return f"DATE '{day}'"
