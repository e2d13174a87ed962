"""The staged reports of a pull, kept until its target is written.

They are in the file `pieces`, in a private folder beside the target. `Staging` knows which reports
the file has, and adds more. At the end, `Contents` reads the tables from the file.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import attrs

from seorep_async.errors import ConfigurationError, ExportError, SeoRepError
from seorep_async.export.formats import (
    Format,
    StagedReport,
    TableSource,
    in_groups,
)
from seorep_async.export.pieces import (
    BlockFile,
    BlockIndex,
    Record,
    StagedFailure,
    as_export_errors,
    drop_unfinished,
    opened_in,
)
from seorep_async.export.request import ExportRequest, Plan, is_about_row_options
from seorep_async.models import Campaign, Feed
from seorep_async.reports import RankingReport
from seorep_async.settings import require_booleans
from seorep_async.tables.columns import Columns, FeedTable, Table, fits, model_columns
from seorep_async.tables.output_tables import (
    campaigns_table,
    keywords_table,
    metrics_of_totals,
    table_of,
    totals_values,
)

CANCELLED = "the pull was cancelled; run it again to write what is staged"
UNENCODABLE = (OverflowError, RecursionError, ValueError)
"""The errors that a format raises for a value that it can't encode."""
_PIECE_ROWS = 2_000
"""The rows of a piece. More would be slower, because they would not fit the processor's cache."""
_ROWS_AT_ONCE = 1 << 12
"""The rows in a part of `failures`, `totals` or `pulls`, which are not staged."""
LeadIds: TypeAlias = Mapping[int, Sequence[tuple[int, ...]]]
"""Maps the id of a report to the ids that its rows begin with, such as `(campaign,)`.

A keyword has one `(campaign, keyword)` for each of its campaigns: its rows are stored for each.
"""
T = TypeVar("T")


@attrs.frozen
class StagedPull:
    """A pull that an earlier run has staged.

    Attributes:
        account: the account's name.
        snapshot_date: the snapshot date of its rows.
        started_at: its start, in UTC.
        start_date, end_date: the first and the last day that it requests.
        reports: the number of staged reports.
        ended: whether it ended with failures.
    """

    account: str
    snapshot_date: dt.date
    started_at: dt.datetime
    start_date: dt.date
    end_date: dt.date
    reports: int
    ended: bool


class _Location(NamedTuple):
    """The location of a report. `record_index` is its place in the block's records."""

    block_number: int
    record_index: int


class Staging:
    """An open staging folder, used by one thread at a time.

    Attributes:
        file: contains the pieces.
        request: the request of the pull's first run.
        plan: the campaigns to pull; empty until they are known.
        ended: whether the pull ended with failures, so that only `retry_failed` resumes it.
        rows: the number of stored rows, by the name of their table.
        earlier_pull: the pull that an earlier run has staged, or None.
        refusal: the error that refuses the pull, or None.
    """

    def __init__(self, format_: Format, request: ExportRequest, file: BlockFile) -> None:
        self._format = format_
        self.file: BlockFile = file
        self.request: ExportRequest = request
        self.plan: Plan = Plan()
        self.ended: bool = False
        self.rows: Counter[str] = Counter()
        # both by the name of the table, then by the ids of the report
        self._stored: defaultdict[str, dict[tuple[int, ...], _Location]] = defaultdict(dict)
        self._failed: defaultdict[str, dict[tuple[int, ...], StagedFailure]] = defaultdict(dict)
        self.earlier_pull: StagedPull | None = None
        self.refusal: ConfigurationError | None = None

    def begin(self, request: ExportRequest) -> None:
        """Begin without reports. `add_plan` stores the request."""
        self.request = request
        self.plan = Plan()
        self.ended = False
        for by_table in (self.rows, self._stored, self._failed):
            by_table.clear()

    def load(self) -> None:
        """Read which reports earlier runs have stored."""
        for number, index in enumerate(self.file.load(), 1):
            self._remember(number, index)
        # reports are stored only after the plan
        if self.plan.ids:
            request = self.request
            reports = sum(map(self.count, request.fetched_feeds))
            self.earlier_pull = StagedPull(
                **request.labels, started_at=request.started_at, reports=reports, ended=self.ended
            )

    def _remember(self, block_number: int, index: BlockIndex) -> None:
        """Remember the contents of a block."""
        # a block after an `ended` one belongs to a retry that has not ended
        self.ended = index.ended
        if index.plan is not None:
            self.request = index.request or self.request
            self.plan = index.plan
            # the list of campaigns may have failed before; this block has its latest outcome
            self._failed.pop(campaigns_table().name, None)
        for name, failures in index.failures.items():
            self._failed[name].update((failure.ids, failure) for failure in failures)
        for name, records in index.records.items():
            for record_index, record in enumerate(records):
                self._stored[name][record.ids] = _Location(block_number, record_index)
                # the report may have failed before; a retry has stored it
                self._failed[name].pop(record.ids, None)
                self.rows[name] += record.rows

    def _append(self, index: BlockIndex, pieces: Sequence[bytes] = ()) -> None:
        """Write a block to the file, and remember its contents."""
        self._remember(self.file.append(index, pieces), index)

    def add_plan(
        self, plan: Plan, campaigns: Sequence[Campaign], error: SeoRepError | None = None
    ) -> None:
        """Store the request, the ids to pull, the campaigns' records, and the error of a lookup."""
        table = campaigns_table()
        group = _Group(self._format)

        def add(part: Sequence[Campaign]) -> None:
            """Add the rows of some campaigns to the group. Each campaign is one record."""
            ids = [(campaign.id,) for campaign in part]
            sizes = [1] * len(part)
            # the first column is the id, which `_identifying_columns` also yields
            _, *columns = model_columns(Campaign, part)
            lead = self._identifying_columns(table, ids, sizes)
            group.add(table, [*lead, *columns], ids, sizes)

        # no report of a larger id can be requested, and few formats could store it
        storable = [campaign for campaign in campaigns if fits(campaign.id)]
        for part in in_groups(storable, lambda _: 1, _PIECE_ROWS):
            # the reports of a campaign that the format can't store are fetched nevertheless
            _add_without_unencodable(add, part)
        failures = {}
        if error is not None:
            # without ids, because it may be the error of the whole list
            failures[table.name] = [StagedFailure.of((), error)]
        index = BlockIndex(
            request=self.request, plan=plan, records=group.records, failures=failures
        )
        self._append(index, group.pieces)

    def add(
        self,
        feed: Feed,
        reports: Sequence[RankingReport[Any]],
        errors: Iterable[tuple[int, SeoRepError]],
        lead_ids: LeadIds,
    ) -> tuple[int, int]:
        """Store reports, and the errors of failed ones. After a crash, all or none are stored.

        A report that the format can't store becomes a failure.

        Args:
            lead_ids: the ids under which each report, or its failure, is stored: one tuple, or for
                a keyword one tuple for each of its campaigns.

        Returns:
            The number of stored reports, and the number of their stored rows.
        """
        name = table_of(feed).name
        # one block, so the disk is synced once
        group = _Group(self._format)
        all_errors = list(errors)
        add = partial(self._add_reports, feed, group, lead_ids)
        # a report counts as one row more than it has, because an empty one costs something as well
        for part in in_groups(reports, lambda report: 1 + len(report.rows), _PIECE_ROWS):
            for report, error in _add_without_unencodable(add, part):
                problem = f"a value can't be written to {self._format.ending}: {error}"
                all_errors.append((report.id, ExportError(problem)))
        index = BlockIndex(records=group.records)
        failures = []
        for id_, error in all_errors:
            failures += [StagedFailure.of(ids, error) for ids in lead_ids[id_]]
        if failures:
            index.failures = {name: failures}
        self._append(index, group.pieces)
        stored = group.records.get(name, ())
        # a keyword in several campaigns has several records, which all end with its id
        stored_ids = {record.ids[-1] for record in stored}
        return len(stored_ids), sum(record.rows for record in stored)

    def _add_reports(
        self,
        feed: Feed,
        group: _Group,
        lead_ids: LeadIds,
        distinct_reports: Sequence[RankingReport[Any]],
    ) -> None:
        """Encode reports, and add them to `group` as one piece.

        For the campaign feed, their keywords are added as another piece.

        Args:
            lead_ids: as in `add`.
        """
        table = table_of(feed)
        request = self.request
        # the report of a keyword is stored for each of its campaigns
        reports = []
        ids: list[tuple[int, ...]] = []
        for report in distinct_reports:
            reports += [report] * len(lead_ids[report.id])
            ids += lead_ids[report.id]
        sizes = [len(report.rows) for report in reports]
        rows = list(chain.from_iterable(report.rows for report in reports))
        columns = [
            *self._identifying_columns(table, ids, sizes),
            *table.column_values(rows, compared=request.compared),
        ]
        totals = [self._totals_of(report) for report in reports]
        self._require_storable(totals)
        keywords: Iterable[tuple[int, ...]] = repeat(())
        # so that a resumed pull knows the keywords without fetching the campaigns' reports again
        if feed is Feed.CAMPAIGN and Feed.KEYWORD_BY_DATE in request.feeds:
            keywords = [tuple(row.keyword_id for row in report.rows) for report in reports]
        group.add(table, columns, ids, sizes, totals, keywords)
        if feed is Feed.CAMPAIGN:
            names = [column.name for column in table.columns]
            by_name = dict(zip(names, columns, strict=True))
            keyword_columns = [by_name[column.name] for column in keywords_table().columns]
            group.add(keywords_table(), keyword_columns, ids, sizes)

    def _totals_of(self, report: RankingReport[Any]) -> tuple[Any, ...] | None:
        """Return the values of a report's totals, or None if it has none."""
        if not report.totals:
            return None
        return tuple(totals_values(report.totals, compared=self.request.compared))

    def _require_storable(self, totals: Iterable[tuple[Any, ...] | None]) -> None:
        """Encode totals, only to find a value that the format can't store.

        The table `totals` is written last, and such a value would then end the whole pull.
        """
        rows = [values for values in totals if values is not None]
        if rows:
            columns = list(zip(*rows, strict=True))
            self._format.encode(metrics_of_totals(), columns, [len(rows)])

    def _identifying_columns(
        self, table: Table, ids: Iterable[tuple[int, ...]], sizes: Sequence[int]
    ) -> Iterator[Sequence[Any]]:
        """Yield the leading columns of reports' rows. They identify the report of each row."""
        labels = self.request.labels
        # in the order of the columns: campaign, then keyword
        columns_of_ids = zip(*ids, strict=True)
        for column in table.columns[: table.lead]:
            if column.name in labels:
                yield [labels[column.name]] * sum(sizes)
            else:
                yield list(chain.from_iterable(map(repeat, next(columns_of_ids), sizes)))

    @property
    def is_too_large(self) -> bool:
        """Whether a table has more rows than the target can store."""
        most_rows = self._format.most_rows
        return most_rows is not None and max(self.rows.values(), default=0) > most_rows

    def require_room(self) -> None:
        """Raise an error if a table has more rows than a sheet can hold.

        Only workbooks have a limit.
        """
        if self.is_too_large:
            table, _ = self.rows.most_common(1)[0]
            raise ExportError(
                f"a sheet holds {self._format.most_rows:,} rows, and {table} has more: write "
                ".parquet or .duckdb"
            )

    def note_end(self) -> None:
        """Record that the pull has ended with failures."""
        self._append(BlockIndex(ended=True))

    def failures(self, table: Table) -> dict[tuple[int, ...], StagedFailure]:
        """Return why reports of a table failed. A report's ids are its campaign and any keyword."""
        return self._failed[table.name]

    def failed_ids(self, feed: Feed) -> set[int]:
        """Return the ids of a feed's failed reports. They are ids of keywords or of campaigns."""
        return {ids[-1] for ids in self.failures(table_of(feed))}

    def count(self, feed: Feed) -> int:
        """Return the number of stored reports of a feed."""
        # the last id is the report's own; a keyword in several campaigns has one report
        return len({ids[-1] for ids in self._stored[table_of(feed).name]})

    def staged_reports(self, table: Table) -> Iterator[StagedReport]:
        """Yield the staged reports of a table in the order of the campaigns."""
        locations = self._stored[table.name]
        for report_ids in self._ids_of(table):
            if report_ids in locations:
                block_number, record_index = locations[report_ids]
                records = self.file.index(block_number).records[table.name]
                yield StagedReport(block_number, records[record_index])

    def _ids_of(self, table: Table) -> Iterator[tuple[int, ...]]:
        """Yield the ids of each report that a table may have.

        They are `(campaign,)`, or `(campaign, keyword)` if its reports are about keywords.
        """
        if table is not table_of(Feed.KEYWORD_BY_DATE):
            # `zip` makes a tuple of each id
            yield from zip(self.plan.ids)
            return
        # only the records of the campaign feed name the keywords
        for _, record in self.staged_reports(table_of(Feed.CAMPAIGN)):
            for keyword_id in record.keywords:
                yield *record.ids, keyword_id

    def failed_reports(self) -> Iterator[tuple[FeedTable, int, int | None, StagedFailure]]:
        """Yield the table, the campaign, the keyword and the reason of each failed report.

        The keyword is None for a report of a whole campaign, or if the campaign's keywords could
        not be found.
        """
        for feed in self.request.feeds:
            table = table_of(feed)
            of_campaigns: defaultdict[int, list[tuple[int | None, StagedFailure]]] = defaultdict(
                list
            )
            if feed is Feed.KEYWORD_BY_DATE:
                # without a campaign's report, its keywords are unknown
                for (campaign_id,), failure in self.failures(table_of(Feed.CAMPAIGN)).items():
                    of_campaigns[campaign_id].append((None, failure))
            for ids, failure in sorted(self.failures(table).items()):
                keyword_id = ids[1] if len(ids) > 1 else None
                of_campaigns[ids[0]].append((keyword_id, failure))
            for campaign_id in self.plan.ids:
                for keyword_id, failure in of_campaigns[campaign_id]:
                    yield table, campaign_id, keyword_id, failure

    def missing(self, feed: Feed) -> dict[int, list[tuple[int, ...]]]:
        """Return the reports of a feed that are not stored, as `LeadIds`."""
        table = table_of(feed)
        stored = self._stored[table.name]
        missing: dict[int, list[tuple[int, ...]]] = {}
        for ids in self._ids_of(table):
            if ids not in stored:
                missing.setdefault(ids[-1], []).append(ids)
        return missing


@attrs.frozen
class _Group:
    """The pieces of a block that is not written yet, and their reports' records by table."""

    format: Format
    pieces: list[bytes] = attrs.field(factory=list)
    records: dict[str, list[Record]] = attrs.field(factory=dict)

    def add(
        self,
        table: Table,
        columns: Columns,
        ids: Iterable[tuple[int, ...]],
        sizes: Sequence[int],
        totals: Iterable[tuple[Any, ...] | None] = repeat(None),
        keywords: Iterable[tuple[int, ...]] = repeat(()),
    ) -> None:
        """Add several reports as one piece.

        Args:
            columns: the rows of all reports, by column.
            ids, sizes, totals, keywords: a value for each report; `sizes` has the numbers of rows.
        """
        data, slices = self.format.encode(table, columns, sizes)
        piece = len(self.pieces)
        records = self.records.setdefault(table.name, [])
        # not strict, because `totals` and `keywords` may repeat without an end
        facts = zip(ids, slices, sizes, totals, keywords, strict=False)
        for report_ids, (first, size), rows, report_totals, report_keywords in facts:
            record = Record(report_ids, piece, first, size, rows, report_totals, report_keywords)
            records.append(record)
        self.pieces.append(data)


def _add_without_unencodable(
    add: Callable[[Sequence[T]], None], items: Sequence[T]
) -> list[tuple[T, Exception]]:
    """Add items as one piece. If the format can't encode some, leave these out, and add the rest.

    Return the items left out, each with the format's error. The rest may need several pieces.
    """
    try:
        add(items)
    except UNENCODABLE as error:
        half = len(items) // 2
        if not half:
            return [(items[0], error)]
        # halving finds one bad report among 1,000 with 20 attempts
        first_half = _add_without_unencodable(add, items[:half])
        return first_half + _add_without_unencodable(add, items[half:])
    return []


@attrs.frozen
class Opening:
    """The options with which a target and its staging folder are opened.

    Attributes:
        out: the path as the caller named it.
        force: whether to replace also files that no pull wrote or that somebody changed.
        restart: whether to remove the staged pull without reading it.
        retry_failed: whether to fetch the failed reports of a pull that has ended.
        engine_names: names of engine A and engine B for a workbook, or None.
        only_look: whether to change nothing in the folder.
    """

    out: str | os.PathLike[str]
    force: bool = False
    restart: bool = False
    retry_failed: bool = False
    engine_names: tuple[str, str] | None = None
    only_look: bool = False

    def __attrs_post_init__(self) -> None:
        require_booleans(force=self.force, restart=self.restart, retry_failed=self.retry_failed)
        if self.restart and self.retry_failed:
            raise ConfigurationError(
                "restart=True and retry_failed=True can't be combined", argument="restart"
            )


@contextlib.contextmanager
def opened_staging(
    folder: Path,
    format_: Format,
    requests: Sequence[ExportRequest],
    opening: Opening,
    refusal: ConfigurationError | None = None,
) -> Iterator[Staging]:
    """Open a staging folder. Resume the staged pull if it has one of the requests, or start over.

    A pull that ended with failures is resumed only by `retry_failed`. With `only_look`, the folder
    is not changed, and a refusal is not raised but stored in `Staging.refusal`.

    Args:
        requests: the requests that may be resumed. If none of them is staged, the last one begins.
        refusal: the error to raise unless the staged pull is resumed.

    Raises:
        ConfigurationError: reports of an unfinished pull of another request are staged, or
            `refusal`.
        DamagedError, ExportError, OSError: another pull uses the folder, or the staged pull
            is damaged or from another version.
    """
    file = opened_in(folder)
    only_look = opening.only_look
    try:
        staging = Staging(format_, requests[-1], file)
        drop_unfinished(folder)
        if not opening.restart:
            staging.load()
        differences = [request.differences(staging.request) for request in requests]
        # every request differs from the staged request
        is_another = all(differences)
        is_resumed = not is_another and staging.earlier_pull is not None
        if is_another:
            refusal = _refusal_to_start_over(staging, opening, differences) or refusal
        if refusal is not None and not is_resumed:
            staging.refusal = refusal
            if not only_look:
                raise refusal
        # a pull that ended has written its target, so its repetition fetches everything again
        is_repetition = staging.ended and not opening.retry_failed
        if opening.restart or is_another or is_repetition:
            staging.begin(requests[-1])
            if not only_look:
                file.clear()
        yield staging
    finally:
        file.close()


def staged_in(folder: Path, format_: Format, request: ExportRequest) -> StagedPull | None:
    """Return the pull that is staged in a folder. Nothing is changed.

    Args:
        request: any request for the same target, not necessarily that of the staged pull.

    Raises:
        ExportError: another pull uses the folder, or its reports are damaged.
    """
    opening = Opening(folder, only_look=True)
    with as_export_errors(folder), opened_staging(folder, format_, [request], opening) as staging:
        return staging.earlier_pull


def _refusal_to_start_over(
    staging: Staging, opening: Opening, differences: Sequence[Mapping[str, str]]
) -> ConfigurationError | None:
    """Return an error if starting over for another request would lose something.

    Args:
        differences: the differences of each request from the staged request. With `retry_failed`,
            the request for only the failed campaigns comes last.
    """
    # There are four cases:
    # 1. No report is staged, so nothing is lost.
    if staging.earlier_pull is None or not staging.earlier_pull.reports:
        return None
    # 2. The staged pull is unfinished: its reports would be lost.
    if not staging.ended:
        return _unfinished(staging.request, differences[0])
    # 3. It has ended with failures, and the caller retries them with other row options. A target
    #    can't mix the rows of both. The request for only the failed campaigns differs least, so it
    #    is looked at first.
    if opening.retry_failed:
        for difference in reversed(differences):
            if is_about_row_options(difference):
                return other_row_options(difference)
    # 4. Otherwise it has ended, so its target is written, and its staged reports are not needed.
    return None


def _unfinished(staged: ExportRequest, differences: Mapping[str, str]) -> ConfigurationError:
    """Return the error that protects an unfinished pull of another request."""
    days = f"{staged.start_date} to {staged.end_date}"
    how = "; ".join(differences.values())
    return ConfigurationError(
        f"an unfinished pull ({staged.account}, night of {staged.snapshot_date}) is staged for "
        f"this target, with {how}. Repeat that pull ({days}) first, or drop it with restart=True"
    )


def other_row_options(differences: Mapping[str, str]) -> ConfigurationError:
    """Return the error for a retry of failed reports with other row options."""
    how = "; ".join(differences.values())
    return ConfigurationError(
        f"retry_failed=…: the pull whose reports failed was made with {how}, and a target can't "
        "mix the rows of both; pass the options of that pull, or leave out retry_failed=True to "
        "fetch everything again",
        argument="retry_failed",
    )


@attrs.frozen
class Contents:
    """The tables of a pull, in the order of the campaigns.

    Attributes:
        pull: the pull's row in the table `pulls`.
        received: whether anything was received. If not, only `failures` and `pulls` have rows.
        stop: an event; once it is set, reading stops with an error.
    """

    staging: Staging
    pull: Sequence[Any]
    received: bool
    stop: threading.Event

    @property
    def request(self) -> ExportRequest:
        return self.staging.request

    def source_of(self, table: Table) -> TableSource:
        """Return the rows of one table for a format.

        Pulls, failures and totals are made here. All other tables come from staged reports.
        """
        rows: Iterable[Sequence[Any]] = ()
        reports: Iterable[StagedReport] = ()
        if table.name == "pulls":
            rows = [self.pull]
        elif table.name == "failures":
            rows = self._failures()
        elif self.received and table.name == "totals":
            rows = self._totals()
        elif self.received:
            reports = self.staging.staged_reports(table)
        # each row counts 1
        groups = in_groups(rows, lambda _: 1, _ROWS_AT_ONCE)
        parts = (list(zip(*group, strict=True)) for group in groups)
        return TableSource(table, parts, reports, self._read)

    def _read(self, block_number: int, piece: int) -> bytes:
        if self.stop.is_set():
            raise ExportError(CANCELLED)
        return self.staging.file.read_piece(block_number, piece)

    def _failures(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the table `failures`."""
        for table, campaign_id, keyword_id, failure in self.staging.failed_reports():
            identity = self._identifying_values(table, campaign_id, keyword_id)
            # if an id is too large for the column of a database or Parquet, only the message has it
            if not fits(campaign_id):
                identity = self._identifying_values(table, campaign_id=None)
            yield (*identity, *failure.facts)
        # a failed list of campaigns is about no single campaign
        for failure in self.staging.failures(campaigns_table()).values():
            identity = self._identifying_values(campaigns_table(), campaign_id=None)
            yield (*identity, *failure.facts)

    def _totals(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the table `totals`."""
        for feed in self.request.feeds:
            table = table_of(feed)
            for _, record in self.staging.staged_reports(table):
                if record.totals is not None:
                    identity = self._identifying_values(table, *record.ids)
                    yield (*identity, *record.totals)

    def _identifying_values(
        self, table: Table, campaign_id: int | None, keyword_id: int | None = None
    ) -> tuple[Any, ...]:
        """Return the first values of a row of `failures` or `totals`. They identify the report."""
        request = self.request
        return (
            request.account,
            request.snapshot_date,
            table.name,
            campaign_id,
            keyword_id,
            request.start_date,
            request.end_date,
        )
