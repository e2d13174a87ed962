"""The sinks of an export: they write fetched reports to a staging area on the disk, or to a pipe.

`targets` write the finished target.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from types import TracebackType
from typing import Any, TypeVar

from seorep_async.models import Campaign, Feed
from seorep_async.old_export.atomic_replace import UNSTORABLE, translate_errors
from seorep_async.old_export.checkpoint import CAMPAIGNS, Checkpoint
from seorep_async.old_export.formats import Format, StagedReport, encode, encode_totals, prepare, unstorable
from seorep_async.old_export.lock import StopSignal
from seorep_async.old_export.progress import ProgressTracker, PullFailure
from seorep_async.old_export.spec import PullSpec
from seorep_async.old_export.staging_area import StagingArea
from seorep_async.reports import RankingReport, column_values
from seorep_async.tables.columns import model_columns
from seorep_async.tables.declared import (
    campaigns_table,
    keywords_table,
    table_of,
)
from seorep_async.tables.text import csv_header

_SYNC_SECONDS = 1.0

T = TypeVar("T")


def campaign_columns(campaigns: Sequence[Campaign], account: str, snapshot_date: object) -> list[Sequence[Any]]:
    lead = [[value] * len(campaigns) for value in (account, snapshot_date)]
    return [*lead, *model_columns(Campaign, campaigns)]


def keyword_columns(ranking_columns: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return the columns of the table of keywords, each keyword once, from those of the campaign feed."""
    names = [column.name for column in table_of(Feed.CAMPAIGN).columns]
    columns = [ranking_columns[index] for index in [names.index(column.name) for column in keywords_table().columns]]
    ids = columns[3]
    if len(set(ids)) == len(ids):
        return columns
    first = {id_: index for index, id_ in reversed(list(enumerate(ids)))}
    return [[column[index] for index in sorted(first.values())] for column in columns]


class StagingWriter:
    """Stores reports in a staging area, one step at a time in a thread; an async context manager.

    A group of reports is stored before the next one is taken, so a crash loses only reports that were in progress.
    The area is opened (see `StagingArea.open`) and closed with the writer.
    """

    checkpoint: Checkpoint
    ordered: bool = False

    def __init__(
        self, area: StagingArea, spec: PullSpec, tracker: ProgressTracker, *, restart: bool, retry_failed: bool
    ) -> None:
        self._area = area
        self._tracker = tracker
        self._open_area = lambda: area.open(spec, restart=restart, retry_failed=retry_failed)
        self._thread = ThreadPoolExecutor(1, "seorep-export")
        self.stop = StopSignal()
        self._next_sync = time.monotonic() + _SYNC_SECONDS
        self._key_digest: asyncio.Future[str] | None = None

    async def __aenter__(self) -> StagingWriter:
        try:
            await self.run(self._open_area)
            self.checkpoint = self._area.checkpoint
            if self._area.resumed is not None:
                self._tracker.on_resume(self._area.resumed)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop.set()
        await self._close()

    async def _close(self) -> None:
        """Close the area after the running step, which may take long, without blocking the loop."""
        closing = self._thread.submit(self._area.close)
        try:
            await asyncio.shield(asyncio.wrap_future(closing))
        finally:
            # a second Ctrl-C waits here: it must not come between fetched reports and the disk
            self._thread.shutdown()

    async def run(self, step: Callable[..., T], *args: Any) -> T:
        """Run a step in the thread, after those before it; a damaged checkpoint or a failing disk is an ExportError."""

        def translated() -> T:
            with self._area.translate_damage(), translate_errors(self._area.folder):
                return step(*args)

        return await asyncio.get_running_loop().run_in_executor(self._thread, translated)

    async def plan(self, campaigns: Iterable[int]) -> None:
        """Note the campaigns, and, while the first requests are sent, whose key it is."""
        await self.run(self.checkpoint.plan, campaigns)
        self._key_digest = asyncio.get_running_loop().run_in_executor(None, self._area.spec.key_digest)

    async def add_campaigns(self, campaigns: Sequence[Campaign], part: int) -> None:
        await self.run(self._add_campaigns, campaigns, part)

    def _add_campaigns(self, campaigns: Sequence[Campaign], part: int) -> None:
        report = encoded_campaigns(self._area.format, self._area.spec, campaigns, part)
        self.checkpoint.add([report], durable=True)  # it is not fetched again if a power failure loses it

    async def add(self, reports: Sequence[RankingReport[Any]], *, rows: bool, keywords: bool) -> None:
        if self._key_digest is not None:
            await self._key_digest
            await self.run(self._area.note_key)
            self._key_digest = None
        stored, failures = await self.run(self._add, reports, rows, keywords)
        self._tracker.failures += failures
        self._tracker.advance(len(reports), stored)

    def _add(self, reports: Sequence[RankingReport[Any]], rows: bool, keywords: bool) -> tuple[int, list[PullFailure]]:
        staged: list[StagedReport] = []
        failures: list[PullFailure] = []
        kind = self._area.format
        # Arrow tables of keywords are made from those of the rows at the end, for less
        of_keywords = reports[0].feed is Feed.CAMPAIGN and (kind.is_text or not rows)
        owned = list(with_owners(reports, self.checkpoint))
        # only Arrow gains from several at once
        for some in [[one] for one in owned] if kind.is_text or not owned else [owned]:
            for one in encoded(kind, self._area.spec, some, rows=rows, keywords=of_keywords):
                (staged if isinstance(one, StagedReport) else failures).append(one)  # type: ignore[arg-type]
        durable = time.monotonic() >= self._next_sync
        if durable:
            self._next_sync = time.monotonic() + _SYNC_SECONDS
        self.checkpoint.add(staged, keywords_in(reports) if keywords else None, durable=durable)
        return sum(one.rows for one in staged if one.table != keywords_table().name), failures


class PipeWriter:
    """Writes reports to a pipe, as CSV or JSON lines, in the order of their ids; its checkpoint is in memory.

    A slow `write` slows the pull.
    """

    ordered: bool = True

    def __init__(
        self, spec: PullSpec, kind: Format, write: Callable[[bytes], Awaitable[object]], tracker: ProgressTracker
    ) -> None:
        self.checkpoint: Checkpoint = Checkpoint(None)
        self._spec = spec
        self._kind = kind
        self._write = write
        self._tracker = tracker

    async def run(self, step: Callable[..., T], *args: Any) -> T:
        return step(*args)

    async def plan(self, campaigns: Iterable[int]) -> None:
        self.checkpoint.plan(campaigns)
        if self._kind is Format.CSV:  # not sooner: a pull without campaigns leaves the pipe empty
            await self._write(csv_header(table_of(self._spec.feeds[0]), excel=self._spec.csv.bom))

    async def add_campaigns(self, campaigns: Sequence[Campaign], part: int) -> None:
        """Leave the list of campaigns out: a pipe takes one table."""

    async def add(self, reports: Sequence[RankingReport[Any]], *, rows: bool, keywords: bool) -> None:
        written = 0
        for owned in with_owners(reports, self.checkpoint) if rows else ():
            for one in encoded(self._kind, self._spec, [owned], rows=True, keywords=False):
                if isinstance(one, PullFailure):
                    self._tracker.failures.append(one)
                    continue
                await self._write(one.data)
                written += one.rows
                self.checkpoint.add([StagedReport(one.table, one.campaign_id, one.id, one.rows, None, b"")])
        if keywords:
            self.checkpoint.add((), keywords_in(reports))
        self._tracker.advance(len(reports), written)


def with_owners(
    reports: Sequence[RankingReport[Any]], checkpoint: Checkpoint
) -> Iterator[tuple[RankingReport[Any], int]]:
    """Yield reports of one feed, each once for every campaign that it is of."""
    by_keyword = reports[0].feed is Feed.KEYWORD_BY_DATE
    owners = checkpoint.owners(report.id for report in reports) if by_keyword else {}
    for report in reports:
        for campaign_id in owners[report.id] if by_keyword else [report.id]:
            yield report, campaign_id


def encoded(
    kind: Format, spec: PullSpec, owned: Sequence[tuple[RankingReport[Any], int]], *, rows: bool, keywords: bool
) -> list[StagedReport | PullFailure]:
    """Return reports of one feed, each for a campaign and encoded for a format, or a failure if it can't hold one.

    `keywords` returns the keywords in the rows, too, for their own table.
    """
    lead = {"account": spec.account, "snapshot_date": spec.snapshot_date}
    columns: Sequence[Any] = [column_values(report, **lead, campaign_id=campaign_id) for report, campaign_id in owned]
    found: list[StagedReport | PullFailure] = []
    try:
        if rows:
            table = table_of(owned[0][0].feed)
            columns = prepare(kind, table, columns, spec.csv)
            for (report, campaign_id), prepared in zip(owned, columns, strict=True):
                totals, data = encode_totals(kind, report), encode(kind, table, prepared, spec.csv)
                found.append(StagedReport(table.name, campaign_id, report.id, len(report.rows), totals, data))
    except UNSTORABLE as error:
        if len(owned) > 1:  # each alone, as one of them fails the others
            return [one for alone in owned for one in encoded(kind, spec, [alone], rows=rows, keywords=keywords)]
        ((report, campaign_id),) = owned
        return [PullFailure(report.feed, campaign_id, report.keyword_id, unstorable(kind, error))]
    for (_, campaign_id), prepared in zip(owned, columns, strict=True) if keywords else ():
        with contextlib.suppress(*UNSTORABLE):  # the rows already report it
            of_keywords: Any = keyword_columns(prepared)
            if not rows:
                (of_keywords,) = prepare(kind, keywords_table(), [of_keywords], spec.csv)
            data = encode(kind, keywords_table(), of_keywords, spec.csv)
            found.append(StagedReport(keywords_table().name, campaign_id, campaign_id, len(of_keywords[0]), None, data))
    return found


def encoded_campaigns(kind: Format, spec: PullSpec, campaigns: Sequence[Campaign], part: int) -> StagedReport:
    """Return a part of the list of campaigns, encoded for a format, without those that the format can't hold."""

    def encode_some(some: Sequence[Campaign]) -> bytes:
        table, columns = campaigns_table(), campaign_columns(some, spec.account, spec.snapshot_date)
        (prepared,) = prepare(kind, table, [columns], spec.csv)
        return encode(kind, table, prepared, spec.csv)

    def fits_format(one: Campaign) -> bool:
        with contextlib.suppress(*UNSTORABLE):
            return bool(encode_some([one]))
        return False

    try:
        data = encode_some(campaigns)
    except UNSTORABLE:
        campaigns = list(filter(fits_format, campaigns))
        data = encode_some(campaigns)
    return StagedReport(CAMPAIGNS, 0, part, len(campaigns), None, data)


def keywords_in(reports: Iterable[RankingReport[Any]]) -> dict[int, Iterable[int]]:
    """Return campaign → the keywords in its report."""
    return {report.id: map(attrgetter("keyword_id"), report.rows) for report in reports}
