"""The reports of a pull that is not finished: the file `pieces` of a private folder beside the target.

Each of its blocks holds a group of reports: their rows, encoded for the target's format, and a record of where each
is, with its totals, and of the reports that failed. The first block says what is asked and of which campaigns. The
file is locked while the folder is open: no other pull, of this or another process, gets in.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, repeat
from pathlib import Path
from typing import Any

import attrs
import msgspec

from seorep_async.errors import ConfigurationError, ExportError, SeoRepError
from seorep_async.export.formats import Format, Part, in_groups, without_lead
from seorep_async.export.pieces import PIECES, BlockFile, drop_leftovers, errors_of, locked, make_private
from seorep_async.export.request import Request
from seorep_async.models import Campaign, Feed
from seorep_async.reports import RankingReport
from seorep_async.tables.columns import Columns, Table, fits, model_columns
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

    @property
    def facts(self) -> tuple[str, str, int | None, int | None]:
        return self.error, self.message, self.status, self.attempts


class Plan(msgspec.Struct, frozen=True):
    """The campaigns to pull, in their order, the accounts that the service says they are of, and a campaign of one."""

    ids: tuple[int, ...] = ()
    account_ids: tuple[int, ...] = ()
    known: int | None = None

    @classmethod
    def of(cls, ids: Iterable[int], campaigns: Iterable[Campaign]) -> Plan:
        known = [(one.account_id, one.id) for one in campaigns if one.account_id]  # neither 0 nor null names one
        return cls(tuple(ids), tuple(sorted({account for account, _ in known})), known[0][1] if known else None)


class Block(msgspec.Struct, omit_defaults=True):
    """What one step stores: records and failures by the name of their table; `ended`: only `retry_failed` goes on."""

    pieces: list[tuple[int, int]] = []
    records: dict[str, list[Record]] = {}
    failures: dict[str, list[Failure]] = {}
    request: Request | None = None
    plan: Plan | None = None
    ended: bool = False


@attrs.frozen
class _Group:
    """What one step stores: pieces in a format, and the records of the reports in them, by table."""

    format: Format
    pieces: list[bytes] = attrs.field(factory=list)
    records: dict[str, list[Record]] = attrs.field(factory=dict)

    def add(
        self,
        table: Table,
        prepared: Columns,
        ids: Iterable[int],
        sizes: Sequence[int],
        totals: Iterable[Any] = repeat(None),
        keywords: Iterable[tuple[int, ...]] = repeat(()),
    ) -> None:
        data, places = self.format.encode(table, prepared, sizes)
        records = self.records.setdefault(table.name, [])
        for id_, place, *facts in zip(ids, places, sizes, totals, keywords, strict=False):
            records.append(Record(id_, len(self.pieces), *place, *facts))
        self.pieces.append(data)


class Staging:
    """An open staging folder, used by one thread at a time; `request` is that of the pull's first run."""

    def __init__(self, folder: Path, format_: Format, request: Request, file: BlockFile[Block]) -> None:
        self.folder: Path = folder
        self.request: Request = request
        self._format, self._file = format_, file
        self.has_keywords: bool = format_.stages_keywords
        self.begin(request)

    def begin(self, request: Request) -> None:
        """Begin without reports; what is asked is stored with the campaigns."""
        self.request = request
        self.ended: bool = False
        self.plan: Plan | None = None
        self._stored: dict[str, dict[int, int]] = {}
        self._failed: dict[str, dict[int, int]] = {}

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
        self._note(self._file.append(record, pieces), record)

    def add_plan(self, plan: Plan, campaigns: Sequence[Campaign], error: SeoRepError | None = None) -> None:
        """Store what is asked, the campaigns to pull, and what the service says of them, or why it does not."""
        table, group = campaigns_table(), _Group(self._format)
        for start in range(0, len(campaigns), _CAMPAIGNS_AT_ONCE):
            some = [one for one in campaigns[start : start + _CAMPAIGNS_AT_ONCE] if self._can_hold(table, one)]
            group.add(table, self._format.prepare(table, model_columns(Campaign, some)), [start], [len(some)])
        failures = {table.name: [Failure.of(-1, error)]} if error is not None else {}
        self._append(Block(request=self.request, plan=plan, records=group.records, failures=failures), group.pieces)

    def _can_hold(self, table: Table, one: Campaign) -> bool:
        try:
            self._format.encode(table, self._format.prepare(table, model_columns(Campaign, [one])), [1])
        except UNSTORABLE:
            return False
        return fits(one.id)

    def add(self, feed: Feed, reports: Sequence[RankingReport[Any]], errors: Iterable[tuple[int, SeoRepError]]) -> int:
        """Store reports, and the errors of others, in one step that survives a crash whole.

        A report that the format can't hold becomes an error. Return how many reports were stored.
        """
        name, group, failures = table_of(feed).name, _Group(self._format), [Failure.of(*one) for one in errors]
        try:
            for some in in_groups(reports, lambda one: 1 + len(one.rows), _PIECE_ROWS):
                self._encode(feed, some, group)
        except UNSTORABLE as error:
            if len(reports) > 1:  # each alone, as one of them fails the others
                if failures:
                    self._append(Block(failures={name: failures}))
                return sum(self.add(feed, [one], ()) for one in reports)
            problem = ExportError(f"a value can't be written to {self._format.ending}: {error}")
            failures += [Failure.of(one.id, problem) for one in reports]
            group, reports = _Group(self._format), ()
        self._append(Block(records=group.records, failures={name: failures} if failures else {}), group.pieces)
        return len(reports)

    def _encode(self, feed: Feed, reports: Sequence[RankingReport[Any]], group: _Group) -> None:
        """Add reports to a group as one piece, and what the format stages of their keywords as another."""
        table, request, ids = table_of(feed), self.request, [one.id for one in reports]
        rows = list(chain.from_iterable(one.rows for one in reports))
        columns = table.column_values(rows, (None,) * table.lead, compared=request.compared)[table.lead :]
        prepared = self._format.prepare(table, columns)
        totals = [one.totals and tuple(totals_values(one.totals, compared=request.compared)) for one in reports]
        figures = (one for some in totals for one in some or () if isinstance(one, int))
        if not self.has_keywords and not all(map(fits, figures)):
            raise OverflowError("an integer has more than 64 bits")
        keywords: Iterable[tuple[int, ...]] = repeat(())
        if feed is Feed.CAMPAIGN and Feed.KEYWORD_BY_DATE in request.feeds:
            keywords = [tuple(dict.fromkeys(row.keyword_id for row in one.rows)) for one in reports]
        group.add(table, prepared, ids, [len(one.rows) for one in reports], totals, keywords)
        if feed is not Feed.CAMPAIGN or not self.has_keywords:
            return
        names = [one.name for one in without_lead(table).columns]
        chosen = [prepared[names.index(one.name)] for one in without_lead(keywords_table()).columns]
        kept, sizes = [], []
        for one in reports:  # each keyword of a campaign once
            seen: set[int] = set()
            for row in one.rows:
                kept.append(row.keyword_id not in seen)
                seen.add(row.keyword_id)
            sizes.append(len(seen))
        group.add(keywords_table(), [list(compress(column, kept)) for column in chosen], ids, sizes)

    def note_end(self) -> None:
        """Store that the pull has ended with failures."""
        self._append(Block(ended=True))

    def read(self, piece: tuple[int, int]) -> bytes:
        """Return a piece by its block and its number in it."""
        return self._file.read(*piece)

    def failures(self, table: Table) -> dict[int, Failure]:
        """Return the failures of a table's reports, by their ids."""
        return {
            id_: self._file.recent[place >> _POSITION].failures[table.name][place & (1 << _POSITION) - 1]
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
                yield ids, block, self._file.recent[block].records[table.name][place & (1 << _POSITION) - 1]

    def keywords(self) -> Iterator[tuple[int, int]]:
        """Yield campaign and keyword for each keyword of the campaigns, in their order: those of its own report."""
        for (campaign,), _, record in self.records(table_of(Feed.CAMPAIGN)):
            yield from ((campaign, keyword) for keyword in record.keywords)

    def parts(self, table: Table) -> Iterator[Part]:
        for ids, block, one in self.records(table):
            lead = () if table is campaigns_table() else ids
            yield Part(lead, (block, one.piece), one.first, one.size, one.rows)

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
        return len(places), sum(one.rows for block in blocks for one in self._file.recent[block].records[name])

    def discard(self, *, if_empty: bool = False) -> None:
        """Remove the file under its lock, so that what a pull that begins now makes here stays.

        `if_empty`: only if not even the campaigns are known.
        """
        if os.name != "nt" and not (if_empty and self.plan):  # which can't remove open files
            (self.folder / PIECES).unlink(missing_ok=True)


@contextlib.contextmanager
def opened(
    folder: Path,
    format_: Format,
    *requests: Request,
    keeps_night: bool = False,
    restart: bool = False,
    retry_failed: bool = False,
    only_look: bool = False,
) -> Iterator[Staging]:
    """Open a folder, and go on with the pull staged in it if it has one of these requests, or else begin the last one.

    A pull that ended with failures is gone on with only by `retry_failed`; another unfinished one is refused;
    `only_look` leaves it as it is.

    Raises:
        ConfigurationError: an unfinished pull of another request is staged.
        ExportError: another pull is at work, what is staged is damaged or of another version, or can't be written.
    """
    with errors_of(folder), contextlib.ExitStack() as stack:
        make_private(folder)
        file = locked(folder / PIECES, Block)
        stack.callback(file.close)
        drop_leftovers(folder, restart=restart)
        staging = Staging(folder, format_, requests[-1], file)
        if restart:
            file.clear()
        else:
            staging.load()
        if not only_look and not restart:
            _resume(staging, file, requests, keeps_night, retry_failed)
        yield staging


def _resume(
    staging: Staging, file: BlockFile[Block], requests: tuple[Request, ...], keeps_night: bool, retry_failed: bool
) -> None:
    if staging.plan is None:
        file.clear()
        return
    found = [one.differences(staging.request, keeps_night=keeps_night) for one in requests]
    if all(found):
        if not staging.ended:
            problem = f"an unfinished pull is staged for this target, with {'; '.join(found[0])}"
            raise ConfigurationError(f"{problem}. Finish it with its own arguments, or drop it with restart=True")
    elif retry_failed or not staging.ended:
        return
    file.clear()
    staging.begin(requests[-1])
