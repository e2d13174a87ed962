"""The rows of a dataset's night that a further pull of it does not replace; `database_merge` has the same rules."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from seorep_async.export.checkpoint import fits
from seorep_async.export.progress import CampaignOutcome
from seorep_async.models import Feed
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import campaigns_table, failures_table, table_of, totals_table
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


_START, _END = "start_date", "end_date"


@attrs.frozen
class Scope:
    """What a pull asked for, and what it got.

    Attributes:
        feeds: the feeds.
        start_date: first day.
        end_date: last day.
        outcomes: one for each campaign.
    """

    feeds: tuple[Feed, ...]
    start_date: dt.date
    end_date: dt.date
    outcomes: Sequence[CampaignOutcome]

    def touches(self, table: Table) -> bool:
        """Return whether the pull may replace rows of a table."""
        return table.name not in {table_of(feed).name for feed in Feed if feed not in self.feeds}


def remaining_rows(
    scope: Scope, table: Table, older: Iterable[pa.Table], newer: Iterable[pa.Table]
) -> Iterator[pa.Table]:
    """Yield those rows of a table's older parts that stay, by the same rules as in a database.

    Args:
        scope: what the pull asked for and got.
        table: the table, with the columns of parts.
        older: the parts that the night had.
        newer: the parts of the staged rows.
    """
    pa, pc = require("pyarrow"), require("pyarrow.compute")
    key = [name for name in table.key if name in {column.name for column in table.columns}]
    keys = [rows.select(key) for rows in newer]
    for rows in older:
        remaining = rows.filter(pc.invert(_covered(scope, table, rows)))
        if keys:
            # joined by their indices, as Arrow can't join rows with lists
            numbered = remaining.select(key).append_column("index", pa.array(range(remaining.num_rows), pa.int64()))
            indices = numbered.join(pa.concat_tables(keys), key, join_type="left anti")["index"]
            remaining = remaining.take(indices.take(pc.sort_indices(indices)))
        yield remaining


def _covered(scope: Scope, table: Table, rows: pa.Table) -> Any:
    """Return which rows are of what the pull has asked for and got, as an Arrow array."""
    pc = require("pyarrow.compute")
    of_feed = {table_of(feed).name: feed for feed in scope.feeds}
    if _START not in rows.column_names:
        return _none(rows)
    same_dates = pc.and_(pc.equal(rows[_START], scope.start_date), pc.equal(rows[_END], scope.end_date))
    if table.name in of_feed:
        feed = of_feed[table.name]
        asked = same_dates if feed is Feed.CAMPAIGN else pc.or_(same_dates, _in_window(scope, rows))
        return pc.and_(asked, _fetched(scope, feed, rows))
    found = _none(rows)
    if table.name == totals_table().name:
        for name, feed in of_feed.items():
            found = pc.or_(found, pc.and_(pc.equal(rows["table_name"], name), _fetched(scope, feed, rows)))
    if table.name == failures_table().name:
        wanted = pc.or_(pc.is_null(rows["campaign_id"]), _among(rows["campaign_id"], _asked(scope)))
        found = pc.and_(_among(rows["table_name"], [campaigns_table().name, *of_feed]), wanted)
    return pc.and_(same_dates, found)


def _in_window(scope: Scope, rows: pa.Table) -> Any:
    """Return which rows are of days asked for; a month stands for those of its days that its own pull asked for."""
    pc = require("pyarrow.compute")
    first, last = scope.start_date, scope.end_date
    month = pc.equal(rows["date_precision"], "month")
    next_month = pc.ceil_temporal(rows["date"], unit="month", ceil_is_strictly_greater=True)
    begins = pc.or_(pc.greater_equal(rows["date"], first), pc.and_(month, pc.greater_equal(rows[_START], first)))
    whole = pc.or_(pc.less_equal(next_month, last + dt.timedelta(1)), pc.less_equal(rows[_END], last))
    return pc.and_(begins, pc.if_else(month, whole, pc.less_equal(rows["date"], last)))


def _fetched(scope: Scope, feed: Feed, rows: pa.Table) -> Any:
    """Return which rows are of reports of a feed that were asked for and did not fail."""
    pc = require("pyarrow.compute")
    failed = [one for outcome in scope.outcomes for one in outcome.failures if one.feed is feed]
    whole = {one.campaign_id for one in failed if one.keyword_id is None}
    fetched = _among(rows["campaign_id"], [id_ for id_ in _asked(scope) if id_ not in whole])
    pairs = [f"{one.campaign_id}:{one.keyword_id}" for one in failed if one.keyword_id is not None]
    if pairs:
        ids = [rows[name].cast("string") for name in ("campaign_id", "keyword_id")]
        named = pc.binary_join_element_wise(*ids, ":", null_handling="replace")
        fetched = pc.and_(fetched, pc.invert(_among(named, pairs)))
    return fetched


def _asked(scope: Scope) -> list[int]:
    return [outcome.campaign_id for outcome in scope.outcomes if fits(outcome.campaign_id)]


def _among(column: Any, values: Sequence[Any]) -> Any:
    return require("pyarrow.compute").is_in(column, require("pyarrow").array(values, column.type))


def _none(rows: pa.Table) -> Any:
    pa = require("pyarrow")
    return pa.array([False] * rows.num_rows, pa.bool_())  # no rows would have no type
