"""Ranking reports and outcomes of pulls: rows and totals, and how they become tables and frames."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, NoReturn, TypeAlias, TypeVar

import attrs

from seorep_async.errors import SeoRepError
from seorep_async.models import Feed, RankingTotals
from seorep_async.models.model import Model, extra_field
from seorep_async.tables.columns import Column, Columns, Table
from seorep_async.tables.html import SHOWN_ROWS, html_table
from seorep_async.tables.output_tables import TOTALS, table_of, totals_values
from seorep_async.tables.tabular import TableList, Tabular

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_ROWS_IN_REPR = 3
_FAILURES_IN_REPR = 3
_SHARED_COLUMNS = 2
"""The number of columns, account and night, that are the same in all rows of a pull."""


def _first_rows(rows: Sequence[object]) -> str:
    if len(rows) <= _ROWS_IN_REPR:
        return repr(rows)
    first = ", ".join(map(repr, rows[:_ROWS_IN_REPR]))
    return f"({first}, … {len(rows) - _ROWS_IN_REPR:,} more)"


@attrs.frozen(weakref_slot=False)
class RankingReport(Model, Tabular, Generic[R_co]):
    """Every row of one feed for one campaign or keyword, with the request that it answers.

    Attributes:
        feed: the feed that was requested.
        id: the campaign's id, or the keyword's for `Feed.KEYWORD_BY_DATE`.
        start_date: first day requested.
        end_date: last day requested.
        rows: as many as the service announced, none twice, in its order.
        totals: the feed's totals, or None if it has none.
        total_records: rows that the service announced, or None if it did not.
        version: `metadata.version` of the response, or None. It is not compared, because it depends
            on the shape of the response.
        extra: unknown fields of the envelope, unchanged.
        account: name of the account in tables, taken from the client. It is not compared.
        snapshot_date: UTC day on which the report was fetched, or on which its pull began. It is
            not compared.
        compared: whether changes from the previous period were requested. If not, every change is
            null in tables, data frames and files; `rows` and `totals` hold what the service sent,
            often 0.
    """

    feed: Feed
    """The feed that was requested."""
    id: int
    """The campaign's id, or the keyword's for `Feed.KEYWORD_BY_DATE`."""
    start_date: dt.date
    """First day requested."""
    end_date: dt.date
    """Last day requested."""
    rows: tuple[R_co, ...] = attrs.field(repr=_first_rows)
    """As many as the service announced, none twice, in its order."""
    totals: RankingTotals | None = None
    """The feed's totals, or None if it has none."""
    total_records: int | None = None
    """Rows that the service announced, or None if it did not."""
    version: bool | None = attrs.field(default=None, eq=False)
    """`metadata.version` of the response, or None. It is not compared, because it depends on the
    shape of the response.
    """
    extra: Mapping[str, Any] = extra_field()
    """Unknown fields of the envelope, unchanged."""
    account: str | None = attrs.field(default=None, eq=False)
    """Name of the account in tables, taken from the client. It is not compared."""
    snapshot_date: dt.date | None = attrs.field(default=None, eq=False)
    """UTC day on which the report was fetched, or on which its pull began. It is not compared."""
    compared: bool = True
    """Whether changes from the previous period were requested. If not, every change is null in
    tables, data frames and files; `rows` and `totals` hold what the service sent, often 0.
    """

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

    def _frame_columns(self, table: Table) -> Sequence[Column]:
        return _constants_last(table, ())

    def _repr_html_(self) -> str:
        subject = f"{self.feed.object_name.title()} {self.id}"
        if self.account:
            subject += f" of {self.account}"
        caption = f"{subject}, {self.start_date} to {self.end_date}, feed {self.feed.value}"
        totals = None
        if self.totals:
            values = totals_values(self.totals, compared=self.compared)
            totals = dict(zip(TOTALS, values, strict=True))
        table = table_of(self.feed)
        columns = table.column_values(self.rows[:SHOWN_ROWS], compared=self.compared)
        rows = zip(*columns, strict=True)
        return html_table(caption, table.columns[table.lead :], rows, len(self.rows), totals)


@attrs.frozen(init=False)
class PullOutcome(Generic[R_co]):
    """The outcome of one campaign or keyword of a pull: a `PulledReport` or a `FailedReport`.

    After `if outcome.report is not None:` type checkers know which of the two it is.

    Attributes:
        id: id of the campaign or keyword.
        report: the whole report, or None if it failed.
        error: why it failed, or None if it did not.
        ok: whether there is a report.
    """

    id: int
    """Id of the campaign or keyword."""
    report: RankingReport[R_co] | None
    """The whole report, or None if it failed."""
    error: SeoRepError | None
    """Why it failed, or None if it did not."""
    ok: bool
    """Whether there is a report."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row of the report; see `RankingReport.to_dicts`.

        Raises:
            SeoRepError: the outcome's own error, if it failed: no rows are left out silently.
        """
        raise NotImplementedError


@attrs.frozen
class PulledReport(PullOutcome[R_co]):
    """The outcome of a campaign or keyword whose report was fetched.

    Attributes:
        id: id of the campaign or keyword.
        report: the whole report.
        error: why it failed, or None if it did not.
        ok: whether there is a report.
    """

    id: int
    """Id of the campaign or keyword."""
    report: RankingReport[R_co]
    """The whole report."""
    error: None = attrs.field(default=None, init=False, repr=False)
    """Why it failed, or None if it did not."""
    ok: Literal[True] = attrs.field(default=True, init=False, repr=False)
    """Whether there is a report."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row of the report; see `RankingReport.to_dicts`."""
        return self.report.to_dicts()


@attrs.frozen
class FailedReport(PullOutcome[Never]):
    """The outcome of a campaign or keyword whose report could not be fetched.

    Attributes:
        id: id of the campaign or keyword.
        error: why it failed.
        report: the whole report, or None if it failed.
        ok: whether there is a report.
    """

    id: int
    """Id of the campaign or keyword."""
    error: SeoRepError
    """Why it failed."""
    report: None = attrs.field(default=None, init=False, repr=False)
    """The whole report, or None if it failed."""
    ok: Literal[False] = attrs.field(default=False, init=False, repr=False)
    """Whether there is a report."""

    def to_dicts(self) -> NoReturn:
        """Raise the outcome's own error."""
        # Raised again and again, the error would collect a longer traceback each time.
        raise self.error.with_traceback(None)


def _new_outcome(cls: type, *_values: object, error: object = None, **_fields: object) -> object:
    """Make `PullOutcome(id, report=…)` or `PullOutcome(id, error=…)` of the class that fits."""
    if cls is PullOutcome:
        cls = PulledReport if error is None else FailedReport
    return object.__new__(cls)


# Set here, because editors would take its result for the type of every outcome.
PullOutcome.__new__ = _new_outcome  # type: ignore[method-assign, assignment]

Outcome: TypeAlias = PulledReport[R] | FailedReport


class PullOutcomes(TableList[Outcome[R]]):
    """The outcomes of an awaited pull: a list in the order of its ids, and a table of all rows.

    Slices, copies and concatenations are `PullOutcomes` too. Every conversion to a table raises the
    error of the first outcome that failed, unless `skip_failures=True` leaves failures out. Without any report it has
    the feed's columns and no rows.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # editors don't follow the alias `Outcome` to the list's items

        def __iter__(self) -> Iterator[PulledReport[R] | FailedReport]: ...

    def __init__(self, outcomes: Iterable[Outcome[R]], feed: Feed) -> None:
        super().__init__(outcomes, feed)

    @property
    def reports(self) -> list[RankingReport[R]]:
        """The reports that were fetched, in the order of their ids."""
        return [outcome.report for outcome in self if outcome.report is not None]

    @property
    def failures(self) -> list[FailedReport]:
        """The outcomes that failed, in the order of their ids."""
        return [outcome for outcome in self if isinstance(outcome, FailedReport)]

    def _takes(self, items: Iterable[Any]) -> bool:
        return all(self._takes_one(item) for item in items)

    def _takes_one(self, item: object) -> bool:
        if isinstance(item, PulledReport):
            return item.report.feed is self._kind
        return isinstance(item, FailedReport)

    def _rows(self, skip_failures: bool) -> _Rows:
        if not skip_failures:
            for failure in self.failures[:1]:
                failure.to_dicts()  # which raises its error
        return _Rows(self.reports, self._kind)

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
        return f"<{self._summary()}>"

    def _repr_html_(self) -> str:
        reports = self.reports
        first_rows = (attrs.evolve(report, rows=report.rows[:SHOWN_ROWS]) for report in reports)
        columns_of_reports = (column_values(report)[_SHARED_COLUMNS:] for report in first_rows)
        rows = chain.from_iterable(zip(*columns, strict=True) for columns in columns_of_reports)
        total = sum(len(report.rows) for report in reports)
        columns = _table(self._kind).columns[_SHARED_COLUMNS:]
        return html_table(self._summary(), columns, rows, total)

    def _summary(self) -> str:
        """Return the numbers of reports and failures, and the ids that failed first."""
        failures = self.failures
        counts = [
            _count(len(self) - len(failures), "report"),
            _count(len(failures), "failure"),
        ]
        summary = f"Pull of feed {self._kind.value}: {', '.join(counts)}"
        if failures:
            first = failures[:_FAILURES_IN_REPR]
            names = [f"{failure.id}: {type(failure.error).__name__}" for failure in first]
            if len(failures) > len(first):
                names.append("…")
            summary += f" ({', '.join(names)})"
        return summary


@attrs.frozen
class _Rows(Tabular):
    """One table: the rows of all reports of one feed."""

    reports: Sequence[RankingReport[Any]]
    feed: Feed

    def _parts(self) -> tuple[Table, Iterable[Columns]]:
        return _table(self.feed), map(column_values, self.reports)

    def _frame_columns(self, table: Table) -> Sequence[Column]:
        return _constants_last(table, ("campaign_id", "keyword_id"))


def _constants_last(table: Table, varying: Sequence[str]) -> list[Column]:
    """Return the columns of a frame: those that are the same in all rows of a pull stand last."""
    lead = table.columns[: table.lead]
    ids = [column for column in lead if column.name in varying]
    constants = [column for column in lead if column.name not in varying]
    return [*ids, *table.columns[table.lead :], *constants]


@cache
def _table(feed: Feed) -> Table:
    """Return the table of reports in memory: a keyword's report does not know its campaign."""
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
        campaign_id: the campaign of a keyword's report, which does not know it.
        snapshot_date: the night of the rows, if it is not the report's own.
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


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
