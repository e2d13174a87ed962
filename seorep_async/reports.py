"""Ranking reports and outcomes of pulls: rows and totals, and how they become tables and data frames."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from seorep_async.errors import ConfigurationError, SeoRepError
from seorep_async.models import Feed, RankingTotals
from seorep_async.models.model import Model, extra_field
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import Columns, Table
from seorep_async.tables.html import SHOWN_ROWS, html_table
from seorep_async.tables.output_tables import TOTALS, table_of, totals_values
from seorep_async.tables.tabular import TableList, Tabular

if TYPE_CHECKING:
    from typing import TypeAlias

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    Reports: TypeAlias = "RankingReport[Any] | Iterable[RankingReport[Any] | PullOutcome[Any]]"

R = TypeVar("R")

_SHOWN_ROWS = 3
_SHARED = 2
"""Columns of account and night, which all rows of a pull share."""


def _shown_rows(rows: Sequence[object]) -> str:
    if len(rows) <= _SHOWN_ROWS:
        return repr(rows)
    return f"({', '.join(map(repr, rows[:_SHOWN_ROWS]))}, … {len(rows) - _SHOWN_ROWS:,} more)"


@attrs.frozen(weakref_slot=False)
class RankingReport(Model, Tabular, Generic[R]):
    """Every row of one feed for one campaign or keyword, with the request that it is the response to.

    Attributes:
        feed: the feed that was requested.
        id: the campaign's id, or the keyword's for `Feed.KEYWORD_BY_DATE`.
        start_date: first day requested.
        end_date: last day requested.
        rows: as many as the service announced, none twice, in its order.
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

    def _parts(self) -> tuple[Table, Iterable[Columns]]:
        return _table(self.feed), [column_values(self)]

    def _repr_html_(self) -> str:
        return to_html(self)


@attrs.frozen
class PullOutcome(Generic[R]):
    """The outcome of one campaign (or keyword) of a pull: either `report` or `error` is set.

    Attributes:
        id: id of the campaign or keyword.
        report: the whole report, or None if it failed.
        error: why it failed, or None if it did not.
    """

    id: int
    report: RankingReport[R] | None = None
    error: SeoRepError | None = None

    @property
    def ok(self) -> bool:
        """Whether there is a report."""
        return self.error is None

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row of the report; see `RankingReport.to_dicts`.

        Raises:
            SeoRepError: the outcome's own error, if it failed: no rows are left out silently.
        """
        (report,) = _reports_of([self])
        return report.to_dicts()


class PullOutcomes(TableList[PullOutcome[R]]):
    """The outcomes of an awaited pull: a list in the order of its ids, and a table of all rows.

    Slices, copies and sums stay such lists. Every table of them raises the error of the first outcome that failed,
    unless `skip_failures=True` leaves failures out; without any report it has the feed's columns and no rows.
    """

    __slots__ = ()

    def __init__(self, outcomes: Iterable[PullOutcome[R]], feed: Feed) -> None:
        super().__init__(outcomes, feed)

    def _takes(self, items: Iterable[Any]) -> bool:
        kind = self._kind
        return all(
            isinstance(one, PullOutcome) and getattr(one.report, "feed", kind) is kind
            for one in items
        )

    def _rows(self, skip_failures: bool) -> _Rows:
        return _Rows((one for one in self if one.ok) if skip_failures else self, self._kind)

    def to_dicts(self, *, skip_failures: bool = False) -> list[dict[str, Any]]:
        """Return a dictionary for each row of all reports; see `RankingReport.to_dicts`.

        Args:
            skip_failures: leave failed outcomes out.

        Raises:
            SeoRepError: the first failed outcome's own error.
        """
        return self._rows(skip_failures).to_dicts()

    def to_jsonl(self, *, skip_failures: bool = False) -> bytes:
        """Return all rows as JSON lines; see `to_dicts` for arguments and errors."""
        return self._rows(skip_failures).to_jsonl()

    def to_arrow(self, *, skip_failures: bool = False) -> pa.Table:
        """Return all rows as an Arrow table; see `to_dicts` for arguments and errors."""
        return self._rows(skip_failures).to_arrow()

    def to_pandas(self, *, skip_failures: bool = False) -> pd.DataFrame:
        """Return all rows as a pandas frame; see `to_dicts` for arguments and errors."""
        return self._rows(skip_failures).to_pandas()

    def to_polars(self, *, skip_failures: bool = False) -> pl.DataFrame:
        """Return all rows as a polars frame; see `to_dicts` for arguments and errors."""
        return self._rows(skip_failures).to_polars()

    def __repr__(self) -> str:
        return f"<{_counted(self, self._kind)}>"

    def _repr_html_(self) -> str:
        table, reports = _table(self._kind), [one.report for one in self if one.report]
        begun = (column_values(attrs.evolve(one, rows=one.rows[:SHOWN_ROWS])) for one in reports)
        rows = chain.from_iterable(zip(*columns[_SHARED:], strict=True) for columns in begun)
        total = sum(len(report.rows) for report in reports)
        return html_table(_counted(self, self._kind), table.columns[_SHARED:], rows, total)


@attrs.frozen
class _Rows(Tabular):
    """The rows of reports, or of outcomes of a pull, as one table."""

    reports: Reports
    feed: Feed | None

    def _parts(self) -> tuple[Table, Iterable[Columns]]:
        reports = list(_reports_of(self.reports))
        feed = self.feed or (reports[0].feed if reports else None)
        if feed is None:
            problem = (
                "there is no report; say which feed's columns an empty table should have: feed=…"
            )
            raise ConfigurationError(problem, argument="feed")
        for report in reports:
            if report.feed is not feed:
                raise ConfigurationError(
                    f"reports of one feed make one table; these are {feed} and {report.feed}"
                )
        return _table(feed), map(column_values, reports)


@cache
def _table(feed: Feed) -> Table:
    """Return the table of reports in memory: a keyword's report does not know its campaign."""
    table = table_of(feed)
    if feed is not Feed.KEYWORD_BY_DATE:
        return table
    columns = tuple(
        attrs.evolve(one, nullable=one.nullable or one.name == "campaign_id")
        for one in table.columns
    )
    return attrs.evolve(table, columns=columns)


def column_values(
    report: RankingReport[Any],
    *,
    campaign_id: int | None = None,
    snapshot_date: dt.date | None = None,
) -> list[Sequence[Any]]:
    """Return a report's rows as columns of its feed's table; a keyword's report does not know its `campaign_id`."""
    by_keyword = (report.id,) if report.feed is Feed.KEYWORD_BY_DATE else ()
    named = (
        report.account,
        snapshot_date or report.snapshot_date,
        report.campaign_id or campaign_id,
    )
    lead = (
        [value] * len(report.rows)
        for value in (*named, *by_keyword, report.start_date, report.end_date)
    )
    return [*lead, *table_of(report.feed).column_values(report.rows, compared=report.compared)]


def to_arrow(reports: Reports, *, feed: Feed | None = None) -> pa.Table:
    """Return the rows of reports as one Arrow table, with the columns of an exported file (see `schema`).

    Args:
        reports: a report, or several of one feed, or outcomes of a pull.
        feed: their feed; needed only if there may be no report at all.

    Returns:
        A `pyarrow.Table`. A keyword's report does not know its campaign: there `campaign_id` is null.

    Raises:
        ImportError: pyarrow, or the library of the frame, is missing; the message says how to install it.
        SeoRepError: an outcome's own error, if it failed: no rows are left out silently.
        ConfigurationError: the reports are of different feeds, or there is none and `feed` was not given.
        OverflowError: an integer needs more than 64 bits.
    """
    return _Rows(reports, feed).to_arrow()


def to_pandas(reports: Reports, *, feed: Feed | None = None) -> pd.DataFrame:
    """Return the rows of reports as a pandas data frame; see `to_arrow` for arguments and errors."""
    return _Rows(reports, feed).to_pandas()


def to_polars(reports: Reports, *, feed: Feed | None = None) -> pl.DataFrame:
    """Return the rows of reports as a polars data frame; see `to_arrow` for arguments and errors."""
    return _Rows(reports, feed).to_polars()


def schema(feed: Feed) -> pa.Schema:
    """Return the Arrow schema of a feed's reports in memory; files differ only in that no key is null in them.

    Raises:
        ImportError: pyarrow is missing; the message says how to install it.
    """
    return arrow_schema(_table(feed))


def to_html(report: RankingReport[Any]) -> str:
    """Return the first rows of a report and its totals as an HTML table for notebooks, without empty columns."""
    table = table_of(report.feed)
    caption = f"{report.feed.object_name.title()} {report.id}" + (
        f" of {report.account}" if report.account else ""
    )
    caption += f", {report.start_date} to {report.end_date}, feed {report.feed.value}"
    columns = table.column_values(report.rows[:SHOWN_ROWS], compared=report.compared)
    totals = None
    if report.totals:
        totals = dict(
            zip(TOTALS, totals_values(report.totals, compared=report.compared), strict=True)
        )
    return html_table(
        caption, table.columns[table.lead :], zip(*columns, strict=True), len(report.rows), totals
    )


def _reports_of(reports: Reports) -> Iterator[RankingReport[Any]]:
    """Yield reports, also of outcomes, or raise the error of the first failed outcome."""
    for one in [reports] if isinstance(reports, RankingReport) else reports:
        if isinstance(one, RankingReport):
            yield one
        elif one.report is None:
            error = one.error or ConfigurationError(
                f"the outcome of {one.id} has neither report nor error"
            )
            raise error.with_traceback(None)  # each further table would lengthen it
        else:
            yield one.report


def _counted(outcomes: Sequence[PullOutcome[Any]], feed: Feed) -> str:
    """Return the numbers of reports and failures, and the ids that failed first."""
    failed = [f"{one.id}: {type(one.error).__name__}" for one in outcomes if one.error]
    counts = ((len(outcomes) - len(failed), "report"), (len(failed), "failure"))
    words = ", ".join(f"{count:,} {noun}{'s' * (count != 1)}" for count, noun in counts)
    named = ", ".join(failed[:_SHOWN_ROWS]) + ", …" * (len(failed) > _SHOWN_ROWS)
    return f"Pull of feed {feed.value}: {words}" + (f" ({named})" if failed else "")
