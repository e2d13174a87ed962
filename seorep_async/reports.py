"""Ranking reports and pull outcomes, and their conversion to tables and data frames."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, NoReturn, TypeAlias, TypeVar

import attrs

from seorep_async.errors import NotFoundError, SeoRepError, counted
from seorep_async.models import Feed, RankingTotals
from seorep_async.models.model import Model, extra_field, first_items
from seorep_async.tables.columns import Column, Columns, Table
from seorep_async.tables.html import SHOWN_ROWS, html_table, is_important
from seorep_async.tables.output_tables import TOTALS, table_of, totals_values
from seorep_async.tables.tabular import TableList, Tabular

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_FAILURES_IN_REPR = 3
_LONGEST_REASON = 160
"""The maximum length of a failure's reason in a summary."""
_SHARED_COLUMNS = 2
"""The number of leading columns that are equal in all rows of a pull. They are the account and the
snapshot date.
"""
_SKIP_FAILURES = "skip_failures=True leaves failed reports out of the table"


@attrs.frozen(weakref_slot=False)
class RankingReport(Model, Tabular, Generic[R_co]):
    """All rows of a feed for one campaign or keyword, with the request that returned them.

    Attributes:
        feed: the feed that was requested.
        id: the campaign's id, or the keyword's for `Feed.KEYWORD_BY_DATE`.
        start_date: the first day requested.
        end_date: the last day requested.
        rows: all rows that the service announced, without duplicates, in its order.
        totals: the feed's totals, or None if the response has no totals.
        total_records: the number of rows that the service announced, or None.
        version: `metadata.version` of the response, or None. Comparisons ignore it, because it
            depends on the shape of the response.
        extra: unknown fields of the envelope, unchanged.
        account: the client's account name, which tables show. Comparisons ignore it.
        snapshot_date: the UTC day on which its pull started or, without a pull, on which it was
            fetched. Comparisons ignore it.
        compared: whether changes from the previous period were requested. If not, every change is
            null in tables, data frames and files; `rows` and `totals` have the service's values,
            often 0.
    """

    feed: Feed
    """The feed that was requested."""
    id: int
    """The campaign's id, or the keyword's for `Feed.KEYWORD_BY_DATE`."""
    start_date: dt.date
    """The first day requested."""
    end_date: dt.date
    """The last day requested."""
    rows: tuple[R_co, ...] = attrs.field(repr=first_items)
    """All rows that the service announced, without duplicates, in its order."""
    totals: RankingTotals | None = None
    """The feed's totals, or None if the response has no totals."""
    total_records: int | None = None
    """The number of rows that the service announced, or None."""
    version: bool | None = attrs.field(default=None, eq=False)
    """`metadata.version` of the response, or None. Comparisons ignore it, because it depends on the
    shape of the response.
    """
    extra: Mapping[str, Any] = extra_field()
    """Unknown fields of the envelope, unchanged."""
    account: str | None = attrs.field(default=None, eq=False)
    """The client's account name, which tables show. Comparisons ignore it."""
    snapshot_date: dt.date | None = attrs.field(default=None, eq=False)
    """The UTC day on which its pull started or, without a pull, on which it was fetched.
    Comparisons ignore it.
    """
    compared: bool = True
    """Whether changes from the previous period were requested. If not, every change is null in
    tables, data frames and files; `rows` and `totals` have the service's values, often 0.
    """

    @property
    def campaign_id(self) -> int | None:
        """The id of the campaign, or None for a keyword's report."""
        return None if self.feed is Feed.KEYWORD_BY_DATE else self.id

    @property
    def keyword_id(self) -> int | None:
        """The id of the keyword, or None for a campaign's report."""
        return self.id if self.feed is Feed.KEYWORD_BY_DATE else None

    if not TYPE_CHECKING:  # type checkers already refuse a loop over a report

        def __iter__(self):
            # pandas.DataFrame(report) would otherwise fail without an explanation
            raise TypeError("a report is not a list: use its .rows, or .to_pandas() for a frame")

    def _parts(self) -> tuple[Table, Iterable[Columns]]:
        return _table_in_memory(self.feed), [column_values(self)]

    def _frame_columns(self, table: Table) -> Sequence[Column]:
        return _constants_last(table, ())

    def __str__(self) -> str:
        return f"<{self._caption()}: {counted(len(self.rows), 'row')}>"

    def _caption(self) -> str:
        caption = f"{self.feed.object_name.title()} {self.id}"
        if self.account:
            caption += f" of {self.account}"
        return f"{caption}, {self.start_date} to {self.end_date}, feed {self.feed.value}"

    def _repr_html_(self) -> str:
        totals = None
        if self.totals:
            values = totals_values(self.totals, compared=self.compared)
            totals = dict(zip(TOTALS, values, strict=True))
        table = table_of(self.feed)
        columns = table.column_values(self.rows[:SHOWN_ROWS], compared=self.compared)
        rows = zip(*columns, strict=True)
        # the caption says which report it is, so the leading columns are not shown; `column_values`
        # has no values for them either
        columns_shown = table.columns[table.lead :]
        return html_table(self._caption(), columns_shown, rows, len(self.rows), totals)


@attrs.frozen(init=False)
class PullOutcome(Generic[R_co]):
    """The outcome of a campaign or keyword. It is a `PulledReport` or a `FailedReport`.

    After `if outcome.report is not None:`, type checkers know which class it is.

    Attributes:
        id: the id of the campaign or keyword.
        report: the complete report, or None if it failed.
        error: the reason for the failure, or None.
        ok: whether there is a report.
    """

    id: int
    """The id of the campaign or keyword."""
    report: RankingReport[R_co] | None
    """The complete report, or None if it failed."""
    error: SeoRepError | None
    """The reason for the failure, or None."""
    ok: bool
    """Whether there is a report."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row of the report; see `RankingReport.to_dicts`.

        Raises:
            SeoRepError: the outcome's own error, if it failed.
        """
        raise NotImplementedError


@attrs.frozen
class PulledReport(PullOutcome[R_co]):
    """The outcome of a campaign or keyword whose report was fetched.

    Attributes:
        id: the id of the campaign or keyword.
        report: the complete report.
        error: always None.
        ok: always True.
    """

    id: int
    """The id of the campaign or keyword."""
    report: RankingReport[R_co]
    """The complete report."""
    error: None = attrs.field(default=None, init=False, repr=False)
    """Always None."""
    ok: Literal[True] = attrs.field(default=True, init=False, repr=False)
    """Always True."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row of the report; see `RankingReport.to_dicts`."""
        return self.report.to_dicts()

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


@attrs.frozen
class FailedReport(PullOutcome[Never]):
    """The outcome of a campaign or keyword whose report could not be fetched.

    Attributes:
        id: the id of the campaign or keyword.
        error: the reason for the failure.
        report: always None.
        ok: always False.
    """

    id: int
    """The id of the campaign or keyword."""
    error: SeoRepError
    """The reason for the failure."""
    report: None = attrs.field(default=None, init=False, repr=False)
    """Always None."""
    ok: Literal[False] = attrs.field(default=False, init=False, repr=False)
    """Always False."""

    def to_dicts(self) -> NoReturn:
        """Raise the outcome's own error."""
        # Otherwise the traceback would grow each time this error is raised.
        raise self.error.with_traceback(None)


def _new_outcome(cls: type, *_values: object, error: object = None, **_fields: object) -> object:
    """Create a PulledReport or a FailedReport for `PullOutcome(…)`, according to `error`."""
    if cls is PullOutcome:
        cls = PulledReport if error is None else FailedReport
    return object.__new__(cls)


# Set outside the class: editors would otherwise take its return type, `object`, for the type of
# every outcome.
PullOutcome.__new__ = _new_outcome  # type: ignore[method-assign, assignment]

Outcome: TypeAlias = PulledReport[R] | FailedReport


class PullOutcomes(TableList[Outcome[R]]):
    """The outcomes of an awaited pull, in the order of the ids. This list is also a table.

    Slices, copies and concatenations are also `PullOutcomes`. Every conversion to a table raises
    the error of the first failed outcome, unless `skip_failures=True` leaves failures out. If there
    are no reports, the table has the feed's columns but no rows.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # editors can't resolve the alias `Outcome` in the list's type

        def __iter__(self) -> Iterator[PulledReport[R] | FailedReport]: ...

    def __init__(self, outcomes: Iterable[Outcome[R]], feed: Feed) -> None:
        super().__init__(outcomes, feed)

    @property
    def reports(self) -> list[RankingReport[R]]:
        """The reports that were fetched, in the order of the ids."""
        return [outcome.report for outcome in self if outcome.report is not None]

    @property
    def failures(self) -> list[FailedReport]:
        """The outcomes that failed, in the order of the ids."""
        return [outcome for outcome in self if isinstance(outcome, FailedReport)]

    def _accepts(self, items: Iterable[Any]) -> bool:
        return all(self._accepts_item(item) for item in items)

    def _accepts_item(self, item: object) -> bool:
        if isinstance(item, PulledReport):
            return item.report.feed is self._kind
        return isinstance(item, FailedReport)

    def _rows_of_reports(self, skip_failures: bool) -> _Rows:
        """Return the rows of all reports. Raise the first failure unless failures are skipped."""
        if not skip_failures and self.failures:
            error = self.failures[0].error
            # The same error may be raised several times, but needs only one note.
            if _SKIP_FAILURES not in getattr(error, "__notes__", ()):
                error.add_note(_SKIP_FAILURES)
            self.failures[0].to_dicts()  # raises the error without its earlier traceback
        return _Rows(self.reports, self._kind)

    def to_dicts(self, *, skip_failures: bool = False) -> list[dict[str, Any]]:
        """Return a dictionary for each row of all reports; see `RankingReport.to_dicts`.

        Args:
            skip_failures: whether to leave out failed outcomes instead of raising.

        Raises:
            SeoRepError: the first failed outcome's own error.
        """
        return self._rows_of_reports(skip_failures).to_dicts()

    def to_jsonl(self, *, skip_failures: bool = False) -> bytes:
        """Return all rows as JSON lines; see `to_dicts` for arguments and errors."""
        return self._rows_of_reports(skip_failures).to_jsonl()

    def to_arrow(self, *, skip_failures: bool = False) -> pa.Table:
        """Return all rows as an Arrow table; see `to_dicts` for arguments and errors."""
        return self._rows_of_reports(skip_failures).to_arrow()

    def to_pandas(self, *, skip_failures: bool = False) -> pd.DataFrame:
        """Return all rows as a pandas frame; see `to_dicts` for arguments and errors."""
        return self._rows_of_reports(skip_failures).to_pandas()

    def to_polars(self, *, skip_failures: bool = False) -> pl.DataFrame:
        """Return all rows as a polars frame; see `to_dicts` for arguments and errors."""
        return self._rows_of_reports(skip_failures).to_polars()

    def __repr__(self) -> str:
        return f"<{self._summary()}>"

    def _repr_html_(self) -> str:
        reports = self.reports
        first_rows = (attrs.evolve(report, rows=report.rows[:SHOWN_ROWS]) for report in reports)
        columns_of_reports = (column_values(report)[_SHARED_COLUMNS:] for report in first_rows)
        rows = chain.from_iterable(zip(*columns, strict=True) for columns in columns_of_reports)
        row_count = sum(len(report.rows) for report in reports)
        columns = _table_in_memory(self._kind).columns[_SHARED_COLUMNS:]
        # Otherwise the id's column would come last if all shown rows have the same id.
        first_columns = [f"{self._kind.object_name}_id"]
        return html_table(self._summary(), columns, rows, row_count, first=first_columns)

    def _summary(self) -> str:
        """Return the numbers of reports and failures, and the reasons of the first failures."""
        failures = self.failures
        reports = self.reports
        counts = [
            counted(len(reports), "report"),
            counted(len(failures), "failure"),
        ]
        summary = f"Pull of feed {self._kind.value}"
        if reports:
            first_day = min(report.start_date for report in reports)
            last_day = max(report.end_date for report in reports)
            summary += f", {first_day} to {last_day}"
        summary += f": {', '.join(counts)}"
        if failures:
            first_failures = failures[:_FAILURES_IN_REPR]
            reasons = [f"{failure.id}: {_cut(failure.error.message)}" for failure in first_failures]
            if len(failures) > len(first_failures):
                reasons.append("…")
            summary += f" ({'; '.join(reasons)})"
        all_failed = bool(failures) and not reports
        are_unknown = all(isinstance(failure.error, NotFoundError) for failure in failures)
        if self._kind is Feed.KEYWORD_BY_DATE and all_failed and are_unknown:
            summary += f"; {self._kind.value} takes keyword ids, not campaign ids"
        return summary


def _cut(reason: str) -> str:
    """Shorten a long reason between words."""
    short_reason = shorten(reason, _LONGEST_REASON, placeholder="…")
    # `shorten` drops a word that is too long, and a Japanese sentence counts as one word.
    if len(short_reason) < _LONGEST_REASON // 2 and len(reason) > _LONGEST_REASON:
        return f"{reason[: _LONGEST_REASON - 1]}…"
    return short_reason


@attrs.frozen
class _Rows(Tabular):
    """The rows of several reports of a feed as one table."""

    reports: Sequence[RankingReport[Any]]
    feed: Feed

    def _parts(self) -> tuple[Table, Iterable[Columns]]:
        return _table_in_memory(self.feed), map(column_values, self.reports)

    def _frame_columns(self, table: Table) -> Sequence[Column]:
        return _constants_last(table, ("campaign_id", "keyword_id"))


def _constants_last(table: Table, varying: Sequence[str]) -> list[Column]:
    """Return a frame's columns. Ids come first, then `_order_in_frame` decides; constants are last.

    Args:
        table: the table of the feed.
        varying: the names of the ids that differ between rows. All other leading columns are equal
            in all rows.
    """
    lead = table.columns[: table.lead]
    ids = [column for column in lead if column.name in varying]
    constants = [column for column in lead if column.name not in varying]
    columns_after_lead = sorted(table.columns[table.lead :], key=_order_in_frame)
    return [*ids, *columns_after_lead, *constants]


def _order_in_frame(column: Column) -> int:
    """Return a sort key. The phrase, dates and ranks come first, then changes, then all others."""
    if not is_important(column.name):
        return 2
    # Changes are null unless they were requested.
    return 1 if column.name.endswith("_change") else 0


@cache
def _table_in_memory(feed: Feed) -> Table:
    """Return the table for reports in memory, where a keyword's campaign is unknown."""
    table = table_of(feed)
    if feed is not Feed.KEYWORD_BY_DATE:
        return table
    columns = [
        attrs.evolve(column, nullable=True) if column.name == "campaign_id" else column
        for column in table.columns
    ]
    return attrs.evolve(table, columns=tuple(columns))


def column_values(
    report: RankingReport[Any],
    *,
    campaign_id: int | None = None,
    snapshot_date: dt.date | None = None,
) -> list[Sequence[Any]]:
    """Return a report's rows as columns of its feed's table.

    Args:
        report: the report.
        campaign_id: the campaign, for a keyword's report, which does not name it.
        snapshot_date: the snapshot date of the rows, if it differs from the report's.
    """
    lead = [
        report.account,
        snapshot_date or report.snapshot_date,
        report.campaign_id or campaign_id,
    ]
    if report.feed is Feed.KEYWORD_BY_DATE:
        lead.append(report.id)
    lead += [report.start_date, report.end_date]
    lead_columns = [[value] * len(report.rows) for value in lead]
    rows = table_of(report.feed).column_values(report.rows, compared=report.compared)
    return [*lead_columns, *rows]
