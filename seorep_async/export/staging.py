"""The reports of a pull, until its target is written: the file `pieces` of a private folder beside it.

Each of its blocks holds a group of reports: their rows, encoded for the target's format, and a record of where each
is, with its totals, and of the reports that failed. The first block says what is asked and of which campaigns. The
file is locked while the folder is open: no other pull, of this or another process, gets in. `Contents` reads the
tables from it at the end.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TypeVar

import attrs

from seorep_async.errors import ConfigurationError, ExportError, SeoRepError
from seorep_async.export.formats import Format, Source, StagedReport, in_groups, without_lead
from seorep_async.export.pieces import Block, BlockFile, Failure, Record, drop_leftovers, opened_in
from seorep_async.export.request import ExportRequest, Plan, is_about_reading
from seorep_async.models import Campaign, Feed
from seorep_async.reports import RankingReport
from seorep_async.settings import require_booleans
from seorep_async.tables.columns import Columns, Table, fits, model_columns
from seorep_async.tables.output_tables import (
    campaigns_table,
    keywords_table,
    table_of,
    totals_values,
)

UNSTORABLE = (OverflowError, RecursionError, ValueError)
"""Errors of a format for a value that it can't hold."""
_PIECE_ROWS = (
    2_000  # more leave the processor's cache while they are encoded, which takes a third longer
)
_POSITION = 32
_AT_ONCE = 1 << 12
T = TypeVar("T")


@attrs.frozen
class StagedPull:
    """What a run has staged: its start in UTC, its dates, its reports, and whether it ended with failures."""

    started_at: dt.datetime
    start_date: dt.date
    end_date: dt.date
    reports: int
    ended: bool


class Staging:
    """An open staging folder, used by one thread at a time.

    Attributes:
        file: where the pieces are.
        request: that of the pull's first run.
        plan: the campaigns to pull; empty until they are known.
        ended: whether it ended with failures, so that only `retry_failed` goes on.
        rows: rows stored, by the name of their table.
        found: what an earlier run had stored, or None.
        refusal: why a pull is refused, as another one is staged unfinished, or None.
    """

    def __init__(self, format_: Format, request: ExportRequest, file: BlockFile) -> None:
        self._format = format_
        self.file: BlockFile = file
        self._has_keywords = format_.stages_keywords
        self.found: StagedPull | None = None
        self.refusal: ConfigurationError | None = None
        self.begin(request)

    def begin(self, request: ExportRequest) -> None:
        """Begin without reports; what is asked is stored with the campaigns."""
        self.request: ExportRequest = request
        self.ended: bool = False
        self.plan: Plan = Plan()
        self.rows: Counter[str] = Counter()
        self._stored: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._failed: defaultdict[str, dict[int, Failure]] = defaultdict(dict)

    def load(self, *, only_look: bool) -> None:
        """Read what earlier runs have stored."""
        for number, block in enumerate(self.file.load(only_look=only_look), 1):
            self._note(number, block)
        if self.plan.ids:
            asked, reports = self.request, sum(map(self.count, self.request.fetched_feeds))
            self.found = StagedPull(
                asked.started_at, asked.start_date, asked.end_date, reports, self.ended
            )

    def _note(self, number: int, block: Block) -> None:
        self.ended = block.ended
        if block.plan is not None:
            self.request, self.plan = block.request or self.request, block.plan
            for known in (self._stored, self._failed, self.rows):
                known.pop(campaigns_table().name, None)
        for name, failures in block.failures.items():
            self._failed[name].update((one.id, one) for one in failures)
        for name, records in block.records.items():
            self._stored[name].update(
                (one.id, number << _POSITION | place) for place, one in enumerate(records)
            )
            self.rows[name] += sum(one.rows for one in records)
            for one in records:
                self._failed[name].pop(one.id, None)

    def _append(self, block: Block, pieces: Sequence[bytes] = ()) -> None:
        self._note(self.file.append(block, pieces), block)

    def add_plan(
        self, plan: Plan, campaigns: Sequence[Campaign], error: SeoRepError | None = None
    ) -> None:
        """Store what is asked, the campaigns to pull, and what the service says of them, or why it does not."""
        table, group = campaigns_table(), _Group(self._format)

        def add(some: Sequence[Campaign]) -> None:
            columns = self._format.prepare(table, model_columns(Campaign, some))
            group.add(table, columns, [len(group.pieces)], [len(some)])

        for some in in_groups((one for one in campaigns if fits(one.id)), lambda _: 1, _PIECE_ROWS):
            _add(add, some)
        failures = {table.name: [Failure.of(-1, error)]} if error is not None else {}
        self._append(
            Block(request=self.request, plan=plan, records=group.records, failures=failures),
            group.pieces,
        )

    def add(
        self,
        feed: Feed,
        reports: Sequence[RankingReport[Any]],
        errors: Iterable[tuple[int, SeoRepError]],
    ) -> tuple[int, int]:
        """Store reports, and the errors of others, in one step that survives a crash whole.

        A report that the format can't hold becomes an error. Return how many reports were stored, and their rows.
        """
        name, group, failures = (
            table_of(feed).name,
            _Group(self._format),
            [Failure.of(*one) for one in errors],
        )
        for some in in_groups(reports, lambda one: 1 + len(one.rows), _PIECE_ROWS):
            for one, error in _add(partial(self._encode, feed, group), some):
                problem = ExportError(f"a value can't be written to {self._format.ending}: {error}")
                failures.append(Failure.of(one.id, problem))
        self._append(
            Block(records=group.records, failures={name: failures} if failures else {}),
            group.pieces,
        )
        stored = group.records.get(name, ())
        return len(stored), sum(one.rows for one in stored)

    def _encode(self, feed: Feed, group: _Group, reports: Sequence[RankingReport[Any]]) -> None:
        """Add reports to a group as one piece, and what the format stages of their keywords as another."""
        table, request, columns = (
            table_of(feed),
            self.request,
            prepared(self._format, self.request, feed, reports),
        )
        ids, sizes = [one.id for one in reports], [len(one.rows) for one in reports]
        totals = [
            one.totals and tuple(totals_values(one.totals, compared=request.compared))
            for one in reports
        ]
        figures = (one for some in totals for one in some or () if isinstance(one, int))
        if not self._has_keywords and not all(map(fits, figures)):
            raise OverflowError("an integer has more than 64 bits")
        keywords: Iterable[tuple[int, ...]] = repeat(())
        if feed is Feed.CAMPAIGN and Feed.KEYWORD_BY_DATE in request.feeds:
            keywords = [tuple(row.keyword_id for row in one.rows) for one in reports]
        group.add(table, columns, ids, sizes, totals, keywords)
        if feed is Feed.CAMPAIGN and self._has_keywords:
            names = [one.name for one in without_lead(table).columns]
            chosen = [
                columns[names.index(one.name)] for one in without_lead(keywords_table()).columns
            ]
            group.add(keywords_table(), chosen, ids, sizes)

    @property
    def is_too_large(self) -> bool:
        """Whether a table has more rows than the target can hold."""
        most_rows = self._format.most_rows
        return most_rows is not None and max(self.rows.values(), default=0) > most_rows

    def require_room(self) -> None:
        """Raise an error if a table has more rows than the target can hold."""
        if self.is_too_large:
            table, _ = self.rows.most_common(1)[0]
            problem = f"a sheet holds {self._format.most_rows:,} rows, and {table} has more"
            raise ExportError(f"{problem}: write .parquet or .duckdb")

    def note_end(self) -> None:
        self._append(Block(ended=True))

    def failures(self, table: Table) -> dict[int, Failure]:
        return self._failed[table.name]

    def failed_ids(self, feed: Feed) -> set[int]:
        return set(self._failed[table_of(feed).name])

    def count(self, feed: Feed) -> int:
        """Return how many reports of a feed are stored."""
        return len(self._stored[table_of(feed).name])

    def records(self, table: Table) -> Iterator[StagedReport]:
        """Yield the reports of a table in the order of the campaigns: the ids in their lead, their block, the rest."""
        if table is keywords_table() and not self._has_keywords:  # they are read from the rows
            table = table_of(Feed.CAMPAIGN)
        places = self._stored[table.name]
        owners: Iterable[tuple[int, ...]] = zip(self.plan.ids)
        if table is campaigns_table():
            owners = zip(places)
        elif table is table_of(Feed.KEYWORD_BY_DATE):
            owners = self.keywords()
        for ids in owners:
            if (place := places.get(ids[-1])) is not None:
                block = place >> _POSITION
                record = self.file.block(block).records[table.name][place & (1 << _POSITION) - 1]
                yield StagedReport(() if table is campaigns_table() else ids, block, record)

    def keywords(self) -> Iterator[tuple[int, int]]:
        """Yield campaign and keyword for each keyword of the campaigns, in their order: those of its own report."""
        for (campaign,), _, record in self.records(table_of(Feed.CAMPAIGN)):
            yield from ((campaign, keyword) for keyword in record.keywords)

    def failed_reports(self) -> Iterator[tuple[Table, int | None, int | None, Failure]]:
        """Yield the reports that failed: table, campaign, keyword, why; without keyword if none could be found."""
        ids, of_campaigns = self.plan.ids, self.failures(table_of(Feed.CAMPAIGN))
        for table in map(table_of, self.request.feeds):
            failed, keywords = self.failures(table), defaultdict[int, list[int]](list)
            if table.feed is not Feed.KEYWORD_BY_DATE:
                yield from ((table, id_, None, failed[id_]) for id_ in ids if id_ in failed)
            elif failed or of_campaigns:
                for campaign, keyword in self.keywords():
                    if keyword in failed:
                        keywords[campaign].append(keyword)
                for id_ in ids:
                    if id_ in of_campaigns:
                        yield table, id_, None, of_campaigns[id_]
                    yield from ((table, id_, one, failed[one]) for one in sorted(keywords[id_]))
        for failure in self.failures(campaigns_table()).values():
            yield campaigns_table(), None, None, failure

    def missing(self, feed: Feed) -> list[int]:
        """Return the ids that lack their report of a feed."""
        stored = self._stored[table_of(feed).name]
        ids = (
            (one for _, one in self.keywords())
            if feed is Feed.KEYWORD_BY_DATE
            else iter(self.plan.ids)
        )
        return [id_ for id_ in dict.fromkeys(ids) if id_ not in stored]


def prepared(
    format_: Format, request: ExportRequest, feed: Feed, reports: Iterable[RankingReport[Any]]
) -> Columns:
    """Return the rows of reports as `format_` encodes them."""
    table, rows = table_of(feed), list(chain.from_iterable(one.rows for one in reports))
    return format_.prepare(table, table.column_values(rows, compared=request.compared))


@attrs.frozen
class _Group:
    """What one step stores: pieces in a format, and the records of the reports in them, by table."""

    format: Format
    pieces: list[bytes] = attrs.field(factory=list)
    records: dict[str, list[Record]] = attrs.field(factory=dict)

    def add(
        self,
        table: Table,
        columns: Columns,
        ids: Iterable[int],
        sizes: Sequence[int],
        *facts: Iterable[Any],
    ) -> None:
        """Add a piece; `facts` are the totals and the keywords of each report."""
        data, places = self.format.encode(table, columns, sizes)
        records = self.records.setdefault(table.name, [])
        for id_, place, *others in zip(ids, places, sizes, *facts, strict=False):
            records.append(Record(id_, len(self.pieces), *place, *others))
        self.pieces.append(data)


def _add(add: Callable[[Sequence[T]], None], items: Sequence[T]) -> list[tuple[T, Exception]]:
    """Add items as one piece, or as several without those that the format can't hold: return these."""
    try:
        add(items)
    except UNSTORABLE as error:
        half = len(items) // 2
        return [*_add(add, items[:half]), *_add(add, items[half:])] if half else [(items[0], error)]
    return []


@attrs.frozen(kw_only=True)
class Beginning:
    """How a pull begins where another one is staged.

    Attributes:
        restart: drop the staged pull, unread.
        retry_failed: fetch what failed, of a pull that has ended.
        only_look: leave everything as it is.
    """

    restart: bool = False
    retry_failed: bool = False
    only_look: bool = False

    def __attrs_post_init__(self) -> None:
        require_booleans(restart=self.restart, retry_failed=self.retry_failed)
        if self.restart and self.retry_failed:
            problem = "restart=True and retry_failed=True can't be combined"
            raise ConfigurationError(problem, argument="restart")


@contextlib.contextmanager
def opened(
    folder: Path,
    format_: Format,
    requests: Sequence[ExportRequest],
    beginning: Beginning,
    refusal: ConfigurationError | None,
) -> Iterator[Staging]:
    """Open a staging folder: resume the staged pull if it has one of the requests, or begin anew.

    A pull that ended with failures is resumed only by `retry_failed`. With `only_look` the folder
    stays as it is, and a refusal is an attribute of the staging.

    Args:
        requests: the requests that may be resumed; the last one is begun if none of them is staged.
        refusal: raised unless the staged pull is resumed.

    Raises:
        ConfigurationError: an unfinished pull of another request is staged, or `refusal`.
        DamagedError, ExportError, OSError: another pull is at work, or the staged one is damaged or
            of another version.
    """
    file = opened_in(folder)
    only_look = beginning.only_look
    try:
        staging = Staging(format_, requests[-1], file)
        if not (beginning.restart and only_look):
            drop_leftovers(folder, restart=beginning.restart)
        if not beginning.restart:
            staging.load(only_look=only_look)
        differences = [request.differences(staging.request) for request in requests]
        is_another = all(differences)
        if is_another and not staging.ended:
            refusal = _unfinished(staging.request, differences[0])
        elif is_another and beginning.retry_failed:
            for difference in filter(is_about_reading, differences):
                refusal = other_reading(difference)
        if refusal is not None and (is_another or staging.found is None):
            staging.refusal = refusal
            if not only_look:
                raise refusal
        has_ended = staging.ended and not beginning.retry_failed
        if beginning.restart or is_another or has_ended:
            staging.begin(requests[-1])
            if not only_look:
                file.clear()
        yield staging
    finally:
        file.close()


def _unfinished(staged: ExportRequest, differences: Mapping[str, str]) -> ConfigurationError:
    """Refuse to drop an unfinished pull of another request."""
    days = f"{staged.start_date} to {staged.end_date}"
    how = "; ".join(differences.values())
    problem = f"an unfinished pull is staged for this target, with {how}"
    advice = f"Repeat that pull ({days}) first, or drop it with restart=True"
    return ConfigurationError(f"{problem}. {advice}")


def other_reading(differences: Mapping[str, str]) -> ConfigurationError:
    """Refuse to fetch failed reports under settings that would read them in another way."""
    how = "; ".join(differences.values())
    problem = f"retry_failed=…: the pull whose reports failed was made with {how}"
    advice = (
        "the rows of both would differ in one target: pass the same, or leave out "
        "retry_failed=True to fetch everything again"
    )
    return ConfigurationError(f"{problem}; {advice}", argument="retry_failed")


@attrs.frozen
class Contents:
    """The tables of a pull, in the order of the campaigns.

    Attributes:
        pull: its row in the table of pulls.
        received: whether anything came: if not, only failures and pulls have rows.
        stop: set to end the reading.
    """

    staging: Staging
    pull: Sequence[Any]
    received: bool
    stop: threading.Event

    @property
    def request(self) -> ExportRequest:
        return self.staging.request

    def table(self, table: Table) -> Source:
        """Return one table, as formats take it."""
        rows: Iterable[Sequence[Any]] = ()
        reports: Iterable[StagedReport] = ()
        if table.name == "pulls":
            rows = [self.pull]
        elif table.name == "failures":
            rows = (
                (*self._lead(of, id_, keyword), *one.facts)
                for of, id_, keyword, one in self.staging.failed_reports()
            )
        elif self.received and table.name == "totals":
            rows = self._totals()
        elif self.received:
            reports = self.staging.records(table)
        columns = (list(zip(*some, strict=True)) for some in in_groups(rows, lambda _: 1, _AT_ONCE))
        return Source(table, self.request.labels, columns, reports, self._read)

    def _read(self, block: int, piece: int) -> bytes:
        if self.stop.is_set():
            raise ExportError("the pull was cancelled; run it again to write what is staged")
        return self.staging.file.read(block, piece)

    def _totals(self) -> Iterator[tuple[Any, ...]]:
        for table in map(table_of, self.request.feeds):
            for ids, _, record in self.staging.records(table):
                if record.totals is not None:
                    yield (*self._lead(table, *ids), *record.totals)

    def _lead(
        self, table: Table, campaign: int | None, keyword: int | None = None
    ) -> tuple[Any, ...]:
        request = self.request
        ids = (one if one is not None and fits(one) else None for one in (campaign, keyword))
        return (
            request.account,
            request.snapshot_date,
            table.name,
            *ids,
            request.start_date,
            request.end_date,
        )
