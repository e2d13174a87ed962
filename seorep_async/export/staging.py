"""The reports of a pull that is not finished: the file `pieces` of a private folder beside the target.

Each of its blocks holds a group of reports: their rows, encoded for the target's format, and a record of where each
is, with its totals, and of the reports that failed. The first block says what is asked and of which campaigns. The
file is locked while the folder is open: no other pull, of this or another process, gets in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from pathlib import Path
from typing import Any

import msgspec

from seorep_async.errors import ExportError, SeoRepError
from seorep_async.export.formats import Columns, Format, Part, without_lead
from seorep_async.export.pieces import BlockFile
from seorep_async.export.request import Request
from seorep_async.models import Campaign, Feed
from seorep_async.reports import RankingReport
from seorep_async.tables.columns import Table, fits, model_columns
from seorep_async.tables.declared import TOTALS, campaigns_table, keywords_table, table_of, totals_values

UNSTORABLE = (OverflowError, RecursionError, ValueError)
"""Errors of a format for a value that it can't hold."""
_PIECE_ROWS = 2_000  # more leave the processor's cache while they are encoded, which takes a third longer
_CAMPAIGNS_AT_ONCE = 5_000
_FIGURES: Any = [int | float | None] * (len(TOTALS) - 1)
_POSITION = 32


class Record(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Where a report's rows are in its block, its totals, and the ids of its keywords, if they will be pulled."""

    id: int
    piece: int
    first: int
    size: int
    rows: int
    totals: tuple[(*_FIGURES, dict[str, Any])] | None = None
    keywords: tuple[int, ...] = ()


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """Why a report is missing."""

    id: int
    error: str
    message: str
    status: int | None
    attempts: int | None

    @classmethod
    def of(cls, id_: int, error: SeoRepError) -> Failure:
        return cls(id_, type(error).__name__, error.message, error.status, error.attempts)


class Plan(msgspec.Struct, frozen=True):
    """The campaigns to pull, in their order, and the accounts that the service says they are of."""

    ids: tuple[int, ...] = ()
    account_ids: tuple[int, ...] = ()

    @classmethod
    def of(cls, ids: Iterable[int], campaigns: Iterable[Campaign]) -> Plan:
        accounts = {one.account_id for one in campaigns if one.account_id}  # neither 0 nor null names one
        return cls(tuple(ids), tuple(sorted(accounts)))


class Block(msgspec.Struct, omit_defaults=True):
    """What one step stores: records and failures by the name of their table; `ended`: only `retry_failed` goes on."""

    pieces: list[tuple[int, int]] = []
    records: dict[str, list[Record]] = {}
    failures: dict[str, list[Failure]] = {}
    request: Request | None = None
    plan: Plan | None = None
    ended: bool = False


class Staging:
    """An open staging folder, used by one thread at a time; `request` is that of the pull's first run."""

    def __init__(self, folder: Path, format_: Format, request: Request, file: BlockFile[Block]) -> None:
        self.folder, self.request = folder, request
        self._format, self._file = format_, file
        self.has_keywords = format_.stages_keywords
        self.begin(request)

    def begin(self, request: Request) -> None:
        """Begin without reports; what is asked is stored with the campaigns."""
        self.request, self.ended = request, False
        self.plan: Plan | None = None
        self._stored: dict[str, dict[int, int]] = {}
        self._failed: dict[str, dict[int, int]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no report is stored."""
        return not any(self._stored.get(table_of(feed).name) for feed in Feed)

    def load(self) -> None:
        """Read what earlier runs have stored."""
        for block, record in enumerate(self._file.load()):
            self._note(block, record)

    def _note(self, block: int, record: Block) -> None:
        self.ended = record.ended
        if record.plan is not None:
            self.request, self.plan = record.request or self.request, record.plan
            for known in (self._stored, self._failed):
                known.pop(campaigns_table().name, None)
        for name, failures in record.failures.items():
            places = self._failed.setdefault(name, {})
            places.update((one.id, block << _POSITION | number) for number, one in enumerate(failures))
        for name, records in record.records.items():
            places, failed = self._stored.setdefault(name, {}), self._failed.get(name, {})
            places.update((one.id, block << _POSITION | number) for number, one in enumerate(records))
            for one in records if failed else ():
                failed.pop(one.id, None)

    def _append(self, record: Block, pieces: Sequence[bytes] = ()) -> None:
        self._file.append(record, pieces)
        self._note(self._file.last, record)

    def add_plan(self, plan: Plan, campaigns: Sequence[Campaign], error: SeoRepError | None = None) -> None:
        """Store what is asked, the campaigns to pull, and what the service says of them, or why it does not."""
        table, pieces = campaigns_table(), list[bytes]()
        records: list[Record] = []
        for start in range(0, len(campaigns), _CAMPAIGNS_AT_ONCE):
            some = [one for one in campaigns[start : start + _CAMPAIGNS_AT_ONCE] if self._can_hold(table, one)]
            data, (place,) = self._encode(table, model_columns(Campaign, some), [len(some)])
            pieces.append(data)
            records.append(Record(start, len(records), *place, len(some)))
        failures = {table.name: [Failure.of(-1, error)]} if error is not None else {}
        block = Block(request=self.request, plan=plan, records={table.name: records}, failures=failures)
        self._append(block, pieces)

    def _can_hold(self, table: Table, one: Campaign) -> bool:
        try:
            self._encode(table, model_columns(Campaign, [one]), [1])
        except UNSTORABLE:
            return False
        return fits(one.id)

    def _encode(self, table: Table, columns: Columns, sizes: Sequence[int]) -> tuple[bytes, list[tuple[int, int]]]:
        return self._format.encode(table, self._format.prepare(table, columns), sizes)

    def add(self, feed: Feed, reports: Sequence[RankingReport[Any]], errors: Iterable[tuple[int, SeoRepError]]) -> int:
        """Store reports, and the errors of others, in one step that survives a crash whole.

        A report that the format can't hold becomes an error. Return how many reports were stored.
        """
        name, failures = table_of(feed).name, [Failure.of(*one) for one in errors]
        records: dict[str, list[Record]] = {}
        try:
            pieces: list[bytes] = []
            for some in _split(reports):
                self._encode_reports(feed, some, pieces, records)
        except UNSTORABLE as error:
            if len(reports) > 1:  # each alone, as one of them fails the others
                if failures:
                    self._append(Block(failures={name: failures}))
                return sum(self.add(feed, [one], ()) for one in reports)
            problem = ExportError(f"a value can't be written to {self._format.ending}: {error}")
            failures += [Failure.of(one.id, problem) for one in reports]
            pieces, records, reports = [], {}, ()
        self._append(Block(records=records, failures={name: failures} if failures else {}), pieces)
        return len(reports)

    def _encode_reports(
        self,
        feed: Feed,
        reports: Sequence[RankingReport[Any]],
        pieces: list[bytes],
        records: dict[str, list[Record]],
    ) -> None:
        """Encode reports as one piece, and add it and a record of each."""
        table, compared = table_of(feed), self.request.compared
        rows = list(chain.from_iterable(one.rows for one in reports))
        columns = table.column_values(rows, (None,) * table.lead, compared=compared)[table.lead :]
        prepared = self._format.prepare(table, columns)
        data, places = self._format.encode(table, prepared, [len(one.rows) for one in reports])
        with_ids = feed is Feed.CAMPAIGN and Feed.KEYWORD_BY_DATE in self.request.feeds
        for one, place in zip(reports, places, strict=True):
            totals = None if one.totals is None else tuple(totals_values(one.totals, compared=compared))
            self._check_totals(totals or ())
            keywords = tuple(dict.fromkeys(row.keyword_id for row in one.rows)) if with_ids else ()
            record = Record(one.id, len(pieces), *place, len(one.rows), totals, keywords)
            records.setdefault(table.name, []).append(record)
        pieces.append(data)
        if feed is Feed.CAMPAIGN and self._format.stages_keywords:
            self._encode_keywords(prepared, reports, pieces, records)

    def _check_totals(self, totals: Sequence[Any]) -> None:
        if not self._format.stages_keywords and not all(fits(one) for one in totals if isinstance(one, int)):
            raise OverflowError("an integer has more than 64 bits")

    def _encode_keywords(
        self,
        prepared: Columns,
        reports: Sequence[RankingReport[Any]],
        pieces: list[bytes],
        records: dict[str, list[Record]],
    ) -> None:
        """Encode the table of keywords of the campaign feed's rows, each of a campaign once."""
        table, keywords = table_of(Feed.CAMPAIGN), keywords_table()
        names = [one.name for one in without_lead(table).columns]
        chosen = [prepared[names.index(one.name)] for one in without_lead(keywords).columns]
        kept, sizes = [], []
        for one in reports:
            seen: set[int] = set()
            for row in one.rows:
                kept.append(row.keyword_id not in seen)
                seen.add(row.keyword_id)
            sizes.append(len(seen))
        if not all(kept):
            chosen = [list(compress(column, kept)) for column in chosen]
        data, places = self._format.encode(keywords, chosen, sizes)
        for one, place, size in zip(reports, places, sizes, strict=True):
            records.setdefault(keywords.name, []).append(Record(one.id, len(pieces), *place, size))
        pieces.append(data)

    def note_end(self) -> None:
        """Store that the pull has ended with failures."""
        self._append(Block(ended=True))

    def read(self, piece: tuple[int, int]) -> bytes:
        """Return a piece by its block and its number in it."""
        return self._file.read(*piece)

    def failures(self, table: Table) -> dict[int, Failure]:
        """Return the failures of a table's reports, by their ids."""
        return {
            id_: self._file.record(place >> _POSITION).failures[table.name][place & (1 << _POSITION) - 1]
            for id_, place in self._failed.get(table.name, {}).items()
        }

    def failed_ids(self, feed: Feed) -> set[int]:
        return set(self._failed.get(table_of(feed).name, ()))

    def records(self, table: Table) -> Iterator[tuple[tuple[int, ...], int, Record]]:
        """Yield the reports of a table in the order of the campaigns: the ids in their lead, their block, the rest."""
        places, plan = self._stored.get(table.name, {}), self.plan or Plan()
        owners: Iterable[tuple[int, ...]] = zip(plan.ids)
        if table is campaigns_table():
            owners = zip(places)
        elif table is table_of(Feed.KEYWORD_BY_DATE):
            owners = self.keywords()
        for ids in owners:
            if (place := places.get(ids[-1])) is not None:
                block = place >> _POSITION
                yield ids, block, self._file.record(block).records[table.name][place & (1 << _POSITION) - 1]

    def keywords(self) -> Iterator[tuple[int, int]]:
        """Yield campaign and keyword for each keyword of the campaigns, in their order: those of its own report."""
        for (campaign,), _, record in self.records(table_of(Feed.CAMPAIGN)):
            yield from ((campaign, keyword) for keyword in record.keywords)

    def parts(self, table: Table) -> Iterator[Part]:
        for ids, block, one in self.records(table):
            yield Part(ids, (block, one.piece), one.first, one.size, one.rows)

    def missing(self, feed: Feed) -> list[int]:
        """Return the ids that lack their report of a feed."""
        stored = self._stored.get(table_of(feed).name, {})
        plan = self.plan or Plan()
        ids = (one for _, one in self.keywords()) if feed is Feed.KEYWORD_BY_DATE else iter(plan.ids)
        return [id_ for id_ in dict.fromkeys(ids) if id_ not in stored]

    def counts(self, feed: Feed) -> tuple[int, int]:
        """Return how many reports of a feed are stored, and how many rows."""
        name = table_of(feed).name
        places = self._stored.get(name, {})
        blocks = {place >> _POSITION for place in places.values()}
        return len(places), sum(one.rows for block in blocks for one in self._file.record(block).records[name])

    def discard_if_empty(self) -> None:
        """Remove the file if not even the campaigns are known."""
        if self.plan is None:
            self.discard()

    def discard(self) -> None:
        """Remove the file under its lock, so that what a pull that begins now makes here stays."""
        if os.name != "nt":  # which can't remove open files
            (self.folder / "pieces").unlink(missing_ok=True)


def _split(reports: Sequence[RankingReport[Any]]) -> Iterator[list[RankingReport[Any]]]:
    """Yield reports in lists for one piece each."""
    some: list[RankingReport[Any]] = []
    rows = 0
    for one in reports:
        some.append(one)
        rows += 1 + len(one.rows)
        if rows >= _PIECE_ROWS:
            yield some
            some, rows = [], 0
    if some:
        yield some
