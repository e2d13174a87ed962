"""Which older rows a pull replaces, for each table, stated once for databases, datasets and dlt.

An older row of the account goes if the pull requested it again and got a response:

- **Feeds by date**: the rows of the pull's dates, and of any earlier pull of exactly these dates, of the campaigns that
  succeeded. A row of a month stands for those of its days that its own pull requested. A keyword that has left its
  campaign goes with it: the campaign succeeded, and if the keyword moved to another one, its rows would count twice.
  The rows of a keyword that failed stay.
- **The campaign feed and totals**: the rows of the same night and the same dates, of the reports that succeeded.
- **Failures**: those of the same night and dates, of the pull's feeds and campaigns.

It also goes if a row of its key arrives: a month of which the pull requested other days, the same pull again, or a
campaign or keyword, of which there is one row, of the latest night that had it. If every campaign failed, only failures
and pulls change. The nights of a dataset stand apart: a pull replaces rows of its own night only.

All of this is SQL about a row `r` and four relations: `wanted` has the campaigns requested, `fetched` the reports that
succeeded (by table and campaign), `failed` their keywords that did not, and `arriving` the new rows. DuckDB executes
it. Destinations of dlt compare keys themselves, and take neither subqueries nor functions; there the text names ids.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from seorep_async.models import Feed
from seorep_async.old_export.checkpoint import CAMPAIGNS
from seorep_async.old_export.database_file import quoted
from seorep_async.old_export.progress import CampaignOutcome, any_received
from seorep_async.old_export.spec import PullSpec
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import FeedTable, Table, fits
from seorep_async.tables.declared import campaigns_table, failures_table, keywords_table, table_of, totals_table
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_LAST_BUT_ONE = dt.date.max - dt.timedelta(1)
LATEST_TABLES = (campaigns_table(), keywords_table())
"""The tables with one row of each key for all nights: that of the latest night."""


@attrs.frozen
class Replacement:
    """The request of a pull and its outcomes, one for each campaign, and so the rows that it replaces."""

    spec: PullSpec
    outcomes: Sequence[CampaignOutcome]

    def touches(self, table: Table) -> bool:
        """Return whether the pull may replace rows of a table."""
        return not isinstance(table, FeedTable) or table.feed in self.spec.feeds

    def covered(self, table: Table, row: str = "r", *, ids_in_text: bool = False) -> str | None:
        """Return the condition for rows of the account that were requested again, or None if only keys replace rows.

        `row` is the row's name in it. `ids_in_text` names the campaigns one by one, not the relations.
        """
        first, last = _date(self.spec.start_date), _date(self.spec.end_date)
        same_dates = f"{row}.start_date = {first} AND {row}.end_date = {last}"
        same_night = f"{row}.snapshot_date = {_date(self.spec.snapshot_date)} AND {same_dates}"
        fetched = {table_of(feed).name: self._fetched(feed, row, ids_in_text) for feed in self.spec.feeds}
        if table is table_of(Feed.CAMPAIGN):
            return f"{same_night} AND {fetched[table.name]}"
        if isinstance(table, FeedTable):
            days = f"{row}.date >= {first} AND {row}.date <= {last}"
            # a month ends in the window if it is before that of the next day, which the last day of all lacks
            next_month = _date((min(self.spec.end_date, _LAST_BUT_ONE) + dt.timedelta(1)).replace(day=1))
            months = (
                f"({row}.date >= {first} OR {row}.start_date >= {first}) "
                f"AND ({row}.date < {next_month} OR {row}.end_date <= {last})"
            )
            window = f"{row}.date_precision = 'day' AND {days} OR {row}.date_precision = 'month' AND {months}"
            return f"({window} OR {same_dates}) AND {fetched[table.name]}"
        if table is totals_table():
            reports = " OR ".join(f"{row}.table_name = '{name}' AND {one}" for name, one in fetched.items())
            return f"{same_night} AND ({reports})"
        if table is failures_table():
            names = ", ".join(f"'{name}'" for name in (CAMPAIGNS, *fetched))
            campaign, relation = f"{row}.campaign_id", "SELECT campaign_id FROM wanted"
            wanted = _among(campaign, self._wanted()) if ids_in_text else f"{campaign} IN ({relation})"
            return f"{same_night} AND {row}.table_name IN ({names}) AND ({campaign} IS NULL OR {wanted})"
        return None

    def register_relations(self, database: duckdb.DuckDBPyConnection) -> None:
        """Create the relations in a connection, except `arriving`."""
        pa, feeds = require("pyarrow"), self.spec.feeds
        fetched = [(table_of(feed).name, id_) for feed in feeds for id_ in self._fetched_campaigns(feed)]
        for name, columns, rows in (
            ("wanted", {"campaign_id": pa.int64()}, [(id_,) for id_ in self._wanted()]),
            ("fetched", {"table_name": pa.string(), "campaign_id": pa.int64()}, fetched),
            ("failed", {"campaign_id": pa.int64(), "keyword_id": pa.int64()}, self._failed_keywords()),
        ):
            values = list(zip(*rows, strict=True)) or [()] * len(columns)
            arrays = [pa.array(one, kind) for one, kind in zip(values, columns.values(), strict=True)]
            database.register(name, pa.table(arrays, list(columns)))

    def outdated(self, table: Table) -> str | None:
        """Return the condition for rows of an arriving key, or None if those are covered anyway."""
        if table in (table_of(Feed.CAMPAIGN), totals_table(), failures_table()):
            return None
        night = f"r.snapshot_date <= {_date(self.spec.snapshot_date)} AND " if table in LATEST_TABLES else ""
        return f"{night}EXISTS (SELECT 1 FROM arriving n WHERE {same_key(table)})"

    def remaining_rows(self, table: Table, older: Iterable[pa.Table], newer: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the remaining rows of a table's older parts in a dataset, in their order.

        The older parts lack the columns of the partition; the newer, the pull's, are read only if keys matter.
        """
        pa, database = require("pyarrow"), self._memory
        whole = f"SELECT {quoted(self.spec.account)} AS account, {_date(self.spec.snapshot_date)} AS snapshot_date, *"
        covered, outdated = self.covered(table), self.outdated(table)
        if outdated is not None:
            key = [name for name in table.key if name not in ("account", "snapshot_date")]
            keys = [arrow_schema(table).empty_table().select(key), *(rows.select(key) for rows in newer)]
            database.register("keys", pa.concat_tables(keys))
            database.execute(f"CREATE OR REPLACE TEMP VIEW arriving AS {whole} FROM keys")
        goes = " OR ".join(f"({condition})" for condition in (covered, outdated) if condition is not None)
        query = f"SELECT position FROM ({whole} FROM part) r WHERE ({goes}) IS NOT TRUE ORDER BY position"
        for rows in older:
            database.register("part", rows.append_column("position", pa.array(range(rows.num_rows), pa.int64())))
            positions = database.sql(query).to_arrow_table()["position"]
            yield rows.take(positions.combine_chunks())  # the same rows in the same chunks give the same bytes
            database.unregister("part")

    @cached_property
    def _memory(self) -> duckdb.DuckDBPyConnection:
        """A database in memory with the relations."""
        found: duckdb.DuckDBPyConnection = require("duckdb").connect(config={"enable_external_access": "false"})
        self.register_relations(found)
        return found

    def _fetched(self, feed: Feed, row: str, ids_in_text: bool) -> str:
        """Return the condition for rows of a feed's reports that succeeded."""
        name, campaign, keyword = table_of(feed).name, f"{row}.campaign_id", f"{row}.keyword_id"
        if ids_in_text:
            failed = self._failed_keywords() if feed is Feed.KEYWORD_BY_DATE else []
            others = [f"NOT ({campaign} = {one} AND {keyword} = {other})" for one, other in failed]
            return " AND ".join([_among(campaign, self._fetched_campaigns(feed)), *others])
        fetched = f"{campaign} IN (SELECT campaign_id FROM fetched WHERE table_name = '{name}')"
        if feed is not Feed.KEYWORD_BY_DATE:
            return fetched
        same = f"f.campaign_id = {campaign} AND f.keyword_id = {keyword}"
        return f"{fetched} AND NOT EXISTS (SELECT 1 FROM failed f WHERE {same})"

    def _wanted(self) -> list[int]:
        """Return the campaigns requested, except ids of more than 64 bits, which no row has."""
        return [outcome.campaign_id for outcome in self.outcomes if fits(outcome.campaign_id)]

    def _fetched_campaigns(self, feed: Feed) -> list[int]:
        if not any_received(self.outcomes):
            return []
        failures = (failure for outcome in self.outcomes for failure in outcome.failures)
        failed = {one.campaign_id for one in failures if one.feed is feed and one.keyword_id is None}
        return [id_ for id_ in self._wanted() if id_ not in failed]

    def _failed_keywords(self) -> list[tuple[int, int]]:
        failures = (failure for outcome in self.outcomes for failure in outcome.failures)
        pairs = ((one.campaign_id, one.keyword_id) for one in failures if one.keyword_id is not None)
        return [pair for pair in pairs if all(map(fits, pair))]


def same_key(table: Table) -> str:
    """Return the condition that rows `n` and `r` have the same key."""
    return " AND ".join(f"n.{column} = r.{column}" for column in table.key)


def _among(column: str, ids: Sequence[int]) -> str:
    return f"{column} IN ({', '.join(map(str, ids))})" if ids else "1 = 0"


def _date(day: dt.date) -> str:
    return f"DATE '{day}'"
