"""Ranking reports: the rows and totals of one feed, and how reports become tables and data frames."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import attrs

from seorep_async.errors import ConfigurationError, SeoRepError
from seorep_async.models import Feed, RankingTotals
from seorep_async.models.extra import extra_field
from seorep_async.tables.arrow import arrow_schema, pandas_frame, polars_frame, record_batch
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import TOTALS, table_of, totals_values
from seorep_async.tables.html import SHOWN_ROWS, html_table
from seorep_async.tables.optional import require
from seorep_async.tables.tabular import Tabular

if TYPE_CHECKING:
    from typing import TypeAlias

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    Reports: TypeAlias = "RankingReport[Any] | Iterable[RankingReport[Any] | Outcome]"

R = TypeVar("R")

_SHOWN_ROWS = 3
_LEAD = ("account", "snapshot_date", "campaign_id")


def _shown_rows(rows: Sequence[object]) -> str:
    if len(rows) <= _SHOWN_ROWS:
        return repr(rows)
    return f"({', '.join(map(repr, rows[:_SHOWN_ROWS]))}, … {len(rows) - _SHOWN_ROWS:,} more)"


@attrs.frozen(weakref_slot=False)
class RankingReport(Tabular, Generic[R]):
    """Every row of one feed for one campaign or keyword, with the request that it is the response to.

    Attributes:
        feed: the feed that was requested.
        id: the campaign's id, or the keyword's for `Feed.KEYWORD_BY_DATE`.
        start_date: first day requested.
        end_date: last day requested.
        rows: every row exactly once, in the service's order.
        totals: the feed's totals, or None if it has none.
        total_records: rows that the service announced, or None if it did not.
        version: `metadata.version` of the response, or None; not compared, as it depends on the shape of the response.
        extra: unknown fields of the envelope, as the service sent them.
        account: name of the account in tables: that of the client; not compared.
        snapshot_date: UTC day on which the report was fetched, or on which its pull began; not compared.
        compared: whether changes from the previous period were requested. If not, every change is null in tables, data
            frames and files; `rows` and `totals` hold what the service sent, often 0.
    """

    feed: Feed
    id: int
    start_date: dt.date
    end_date: dt.date
    rows: tuple[R, ...] = attrs.field(repr=_shown_rows)
    totals: RankingTotals | None = None
    total_records: int | None = None
    version: bool | None = attrs.field(default=None, eq=False)
    extra: Mapping[str, Any] = extra_field()
    account: str | None = attrs.field(default=None, eq=False)
    snapshot_date: dt.date | None = attrs.field(default=None, eq=False)
    compared: bool = True

    @property
    def campaign_id(self) -> int | None:
        """The campaign requested, or None for a keyword's report."""
        return None if self.feed is Feed.KEYWORD_BY_DATE else self.id

    @property
    def keyword_id(self) -> int | None:
        """The keyword requested, or None for a campaign's report."""
        return self.id if self.feed is Feed.KEYWORD_BY_DATE else None

    def _columns(self) -> tuple[Table, list[Sequence[Any]]]:
        return table_of(self.feed), column_values(self)

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table; see `seorep_async.export.to_arrow`.

        Raises:
            ImportError: pyarrow is missing; the message says how to install it.
        """
        return to_arrow(self)

    def _repr_html_(self) -> str:
        return to_html(self)


class Outcome(Protocol):
    """One id's outcome in a pull: a report, or the error in its place."""

    @property
    def id(self) -> int:
        """The id of the campaign or keyword."""

    @property
    def report(self) -> RankingReport[Any] | None:
        """The report, or None if it failed."""

    @property
    def error(self) -> SeoRepError | None:
        """The error, or None if there is a report."""


def column_values(report: RankingReport[Any], **lead: Any) -> list[Sequence[Any]]:
    """Return a report's rows as columns of its feed's table.

    `lead` replaces the report's own `account`, `snapshot_date` and `campaign_id`, which a keyword's report lacks.
    """
    own = (report.account, report.snapshot_date, report.campaign_id)
    named = [lead.get(name, value) for name, value in zip(_LEAD, own, strict=True)]
    by_keyword = (report.id,) if report.feed is Feed.KEYWORD_BY_DATE else ()
    values = (*named, *by_keyword, report.start_date, report.end_date)
    return table_of(report.feed).column_values(report.rows, values, compared=report.compared)


def to_arrow(reports: Reports, *, feed: Feed | None = None) -> pa.Table:
    """Return the rows of reports as one Arrow table, with the columns of an exported file (see `schema`).

    Args:
        reports: a report, or several of one feed, or outcomes of a pull.
        feed: their feed; needed only if there may be no report at all.

    Returns:
        A `pyarrow.Table`. A keyword's report does not know its campaign: there `campaign_id` is null.

    Raises:
        ImportError: pyarrow is missing; the message says how to install it.
        SeoRepError: an outcome's own error, if it failed: no rows are left out silently.
        ConfigurationError: the reports are of different feeds, or there is none and `feed` was not given.
        OverflowError: an integer needs more than 64 bits.
    """
    pa = require("pyarrow")
    batches = []
    for report in reports_of(reports):
        feed = feed or report.feed
        if report.feed is not feed:
            raise ConfigurationError(f"reports of one feed make one table; these are {feed} and {report.feed}")
        batches.append(record_batch(table_of(feed), column_values(report)))
    if feed is None:
        problem = "there is no report; say which feed's columns an empty table should have: feed=…"
        raise ConfigurationError(problem, argument="feed")
    allowed = _in_memory(schema(feed), batches)
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(b.columns, schema=allowed) for b in batches], allowed)


def to_pandas(reports: Reports, *, feed: Feed | None = None) -> pd.DataFrame:
    """Return the rows of reports as a pandas data frame, each column of its own Arrow type, integers with gaps too.

    Args: as for `to_arrow`.

    Raises:
        ImportError: pandas or pyarrow is missing; the message says how to install it.
    """
    return pandas_frame(to_arrow(reports, feed=feed))


def to_polars(reports: Reports, *, feed: Feed | None = None) -> pl.DataFrame:
    """Return the rows of reports as a polars data frame.

    Args: as for `to_arrow`.

    Raises:
        ImportError: polars or pyarrow is missing; the message says how to install it.
    """
    return polars_frame(to_arrow(reports, feed=feed))


def arrow_stream(reports: Reports, requested_schema: object = None) -> object:
    """Return the rows of reports as an Arrow C stream, as `__arrow_c_stream__` does for libraries that read Arrow.

    Args:
        reports: as for `to_arrow`.
        requested_schema: an Arrow C schema to cast to, or None.

    Raises:
        ImportError: pyarrow is missing; the message says how to install it.
    """
    stream: object = to_arrow(reports).__arrow_c_stream__(requested_schema)
    return stream


def schema(feed: Feed) -> pa.Schema:
    """Return the Arrow schema of a feed's reports in memory; files differ only in that no key is null in them.

    Raises:
        ImportError: pyarrow is missing; the message says how to install it.
    """
    declared = arrow_schema(table_of(feed))
    if feed is not Feed.KEYWORD_BY_DATE:
        return declared
    index = declared.get_field_index("campaign_id")  # unknown to a keyword's report
    return declared.set(index, declared.field(index).with_nullable(True))


def _in_memory(declared: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Schema:
    """Return a schema that allows null for keys unknown in memory: the campaign or the account."""
    for index, field in enumerate(declared):
        if not field.nullable and any(batch.column(index).null_count for batch in batches):
            declared = declared.set(index, field.with_nullable(True))
    return declared


def to_html(report: RankingReport[Any]) -> str:
    """Return the first rows of a report and its totals as an HTML table for notebooks, without empty columns."""
    table = table_of(report.feed)
    object_name = "Keyword" if report.feed is Feed.KEYWORD_BY_DATE else "Campaign"
    caption = f"{object_name} {report.id}" + (f" of {report.account}" if report.account else "")
    caption += f", {report.start_date} to {report.end_date}, feed {report.feed.value}"
    columns = column_values(attrs.evolve(report, rows=report.rows[:SHOWN_ROWS]))[table.lead :]
    totals = None
    if report.totals:
        totals = dict(zip(TOTALS, totals_values(report.totals, compared=report.compared), strict=True))
    return html_table(caption, table.columns[table.lead :], zip(*columns, strict=True), len(report.rows), totals)


def reports_of(reports: Reports) -> Iterator[RankingReport[Any]]:
    """Yield reports, also of outcomes, or raise the error of the first failed outcome."""
    for one in [reports] if isinstance(reports, RankingReport) else reports:
        if isinstance(one, RankingReport):
            yield one
        elif one.report is None:
            raise one.error or ConfigurationError(f"the outcome of {one.id} has neither report nor error")
        else:
            yield one.report
