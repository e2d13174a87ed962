"""Many campaigns to files, a database or a pipe: whole, in a fixed order, and resumed where another run was cut off."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, Unpack

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError
from seorep_async.export.checkpoint import Checkpoint
from seorep_async.export.contents import Contents
from seorep_async.export.database_merge import write_database
from seorep_async.export.dataset import check_dataset, write_dataset
from seorep_async.export.existing_database import check_database
from seorep_async.export.fetch import Fetcher
from seorep_async.export.file_writers import write_files, write_stored
from seorep_async.export.formats import Format
from seorep_async.export.job import ExportJob, Snapshot, export_job
from seorep_async.export.preview import has_nothing_to_retry
from seorep_async.export.progress import (
    CampaignOutcome,
    OnProgress,
    ProgressTracker,
    PullFailure,
    PullSummary,
    Stage,
    any_received,
)
from seorep_async.export.sinks import PipeWriter, StagingWriter
from seorep_async.export.staging_area import StagingArea, in_thread
from seorep_async.export.target import DatasetTarget, StoredTarget, Target, target_of
from seorep_async.models import Feed
from seorep_async.resources.arguments import check_flags
from seorep_async.resources.rankings import FeedOptions, FeedValue
from seorep_async.session import Stats, check_callback
from seorep_async.tables.text import RFC_4180, CsvOptions

Write: TypeAlias = Callable[[Contents, Callable[[], None]], Sequence[Path | str]]


async def pull_to(
    client: SeoRepClient,
    ids: Iterable[int] | None,
    start_date: dt.date | str,
    end_date: dt.date | str,
    *,
    out: str | os.PathLike[str],
    feeds: Iterable[Feed | FeedValue] | Feed | FeedValue = (Feed.CAMPAIGN,),
    on_progress: OnProgress | None = None,
    restart: bool = False,
    retry_failed: bool = False,
    force: bool = False,
    csv: CsvOptions = RFC_4180,
    account: str | None = None,
    snapshot_date: dt.date | str | None = None,
    key_renewed: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    work_dir: str | os.PathLike[str] | None = None,
    **options: Unpack[FeedOptions],
) -> PullSummary:
    """Pull feeds of many campaigns into files, a database or a dataset, as `seorep_async.export` describes.

    It returns every outcome, also if cancelled too late. If every campaign failed, no row of a feed is written.

    Args:
        ids: campaign ids, also for `Feed.KEYWORD_BY_DATE`, whose keywords are found first; or None for all campaigns.
        start_date, end_date: first and last day, each a `datetime.date` or a string `YYYY-MM-DD`.
        out: a path that ends in `.csv`, `.jsonl`, `.parquet` or `.duckdb`, or in `/` for a dataset; or an address.
        feeds: which of the three feeds, one or several, or their values, such as `campaign-by-date`.
        on_progress: called with a `PullProgress` after every step; it must return soon.
        restart: start over; delete what an earlier run has staged without reading it.
        retry_failed: fetch only the reports that failed last time: nothing if none did, everything if no target exists.
        force, csv: replace also files that no pull wrote; line ends, byte order mark and guard against formulas of CSV.
        account, key_renewed: the name in every row, by default the client's; the mark of its new key or address.
        snapshot_date: the night that rows are of; default: the UTC day on which the pull began.
        storage_options: of the object store, such as `region`; default: what the environment says.
        work_dir: an existing folder for what is staged; default: beside the target, or the current folder.
        options: further arguments of the feeds (see `Rankings`), such as `limit` or `compare_previous_period`.

    Raises:
        ConfigurationError: an argument is wrong, or the target is another's or can't be replaced; nothing was sent.
        ImportError: the format needs an extra.
        SeoRepError: the key was refused, or the campaigns could not be listed; reports fetched until then are stored.
        ExportError: something could not be written, is damaged, or is in use; the target is as it was.
    """
    snapshot = Snapshot(account, snapshot_date, key_renewed)
    job = export_job(client, ids, start_date, end_date, feeds, options, snapshot=snapshot, csv=csv)
    find_target = partial(target_of, out, force=force, storage_options=storage_options, work_dir=work_dir)
    target = await asyncio.to_thread(find_target, job.feeds, account=job.account)  # importing an extra takes long
    return await run_export(client, job, target, on_progress, restart=restart, retry_failed=retry_failed)


async def run_export(
    client: SeoRepClient,
    job: ExportJob,
    target: Target,
    on_progress: OnProgress | None = None,
    *,
    restart: bool = False,
    retry_failed: bool = False,
    write: Write | None = None,
) -> PullSummary:
    """Run a checked job as `pull_to` does; `write` writes the fetched reports, even if every campaign failed."""
    _check_how(restart, retry_failed, target.force, on_progress)
    if job.campaigns == () and write is None:  # a plan for other machines may be of none
        raise ConfigurationError("ids is empty; give at least one, or None for all campaigns")
    _check_csv(job, target.format)
    run = _Run(client, job, ProgressTracker(on_progress))
    if write is None:
        await in_thread(_check_target, target, job)
    if retry_failed and write is None and await in_thread(has_nothing_to_retry, target, job):
        return run.summary((), target.named_row_files())
    area = StagingArea(target)
    finished: list[PullSummary] = []

    def finish(last_number: int, check: Callable[[], None]) -> None:
        outcomes = run.outcomes(area.checkpoint)
        received = any_received(outcomes)
        resumed = sum(area.checkpoint.counts(feed, last_number)[0] for feed in job.feeds)
        contents = Contents(area, outcomes, run.stats, run.tracker.names_error)
        paths: Sequence[Path | str] = ()
        if write is not None or target.accumulates or received:
            paths = (write or _write)(contents, check)
        leftover = None
        if run.tracker.failures:
            area.checkpoint.note(ended=True)
        else:
            leftover = area.remove()
        named = tuple(target.as_named(path) if isinstance(path, Path) else path for path in paths if received)
        finished.append(run.summary(outcomes, named, resumed, None if leftover is None else target.as_named(leftover)))

    try:
        async with StagingWriter(area, job, run.tracker, restart=restart, retry_failed=retry_failed) as writer:
            run.job = area.job
            last_number = await writer.run(area.checkpoint.last_number)
            await Fetcher(client, job, writer, run.tracker).run()
            run.tracker.start_stage(Stage.WRITING, job.feeds[-1])
            await writer.run(finish, last_number, writer.stop.check)
    except asyncio.CancelledError:
        if not finished:  # or else it was too late: everything is written
            raise
    return finished[0]


def _check_target(target: Target, job: ExportJob, check: Callable[[], None]) -> None:
    job.check_target(target)
    if isinstance(target, DatasetTarget):
        check_dataset(target.storage, job)
    elif target.format is Format.DUCKDB:
        check_database(target, job, check)
    elif isinstance(target, StoredTarget):
        target.check_objects()


def _write(contents: Contents, check: Callable[[], None]) -> Sequence[Path | str]:
    match contents.area.target:
        case DatasetTarget() as target:
            return write_dataset(target, contents, check)
        case StoredTarget() as target:
            return write_stored(target, contents, check)
        case target if target.format is Format.DUCKDB:
            return write_database(contents, check)
    return write_files(contents, check)


async def stream_rows(
    client: SeoRepClient,
    job: ExportJob,
    kind: Format,
    write: Callable[[bytes], Awaitable[object]],
    on_progress: OnProgress | None = None,
) -> PullSummary:
    """Pull one feed, and write it as CSV or JSON lines as it arrives, in the order of the campaigns and their keywords.

    Totals and failures are not written; the summary has the failures. A stream can't be resumed. A slow `write` slows
    the pull.

    Raises:
        ConfigurationError: there are several feeds, or another format; nothing was sent.
        AuthenticationError: the key was refused.
        SeoRepError: the account's campaigns could not be listed.
        OSError: `write` failed.
    """
    if len(job.feeds) != 1 or not kind.is_text:
        raise ConfigurationError("a stream holds one feed, as CSV or JSON lines; name a file for more")
    _check_csv(job, kind)
    run = _Run(client, job, ProgressTracker(on_progress))
    writer = PipeWriter(job, kind, write, run.tracker)
    with contextlib.closing(writer.checkpoint):
        await Fetcher(client, job, writer, run.tracker).run()
        return run.summary(run.outcomes(writer.checkpoint))


def _check_how(restart: bool, retry_failed: bool, force: bool, on_progress: object) -> None:
    check_flags(restart=restart, retry_failed=retry_failed, force=force)
    if restart and retry_failed:
        raise ConfigurationError("restart and retry_failed can't be combined; give one of them")
    check_callback("on_progress", on_progress, "a PullProgress")


def _check_csv(job: ExportJob, kind: Format) -> None:
    if job.csv != RFC_4180 and kind is not Format.CSV:
        raise ConfigurationError("csv=… is only for CSV: leave it out, or write CSV")


class _Run:
    """One run of a job: its start, and its summary."""

    def __init__(self, client: SeoRepClient, job: ExportJob, tracker: ProgressTracker) -> None:
        self._client = client
        self.job = job
        self.tracker = tracker
        self._started, self._stats_before = time.monotonic(), client.stats

    @property
    def stats(self) -> Stats:
        """What the client has done so far."""
        return self._client.stats.since(self._stats_before)

    def outcomes(self, checkpoint: Checkpoint) -> tuple[CampaignOutcome, ...]:
        """Return an outcome for each campaign, in their order."""
        rows: dict[int, dict[Feed, int]] = {}
        for feed in self.job.feeds:
            for campaign_id, count in checkpoint.rows_by_campaign(feed):
                rows.setdefault(campaign_id, {})[feed] = count
        missing: dict[int, list[PullFailure]] = {}
        for failure in self.tracker.failures:
            missing.setdefault(failure.campaign_id, []).append(failure)
        order = {feed: number for number, feed in enumerate(Feed)}
        return tuple(
            CampaignOutcome(
                campaign_id,
                rows.get(campaign_id, {}),
                tuple(sorted(missing.get(campaign_id, ()), key=lambda one: (order[one.feed], one.keyword_id or 0))),
            )
            for campaign_id in checkpoint.campaigns()
        )

    def summary(
        self,
        outcomes: tuple[CampaignOutcome, ...],
        paths: tuple[Path | str, ...] = (),
        resumed: int = 0,
        leftover: Path | None = None,
    ) -> PullSummary:
        """Return the summary at the end."""
        stats = self.stats
        return PullSummary(
            feeds=self.job.feeds,
            start_date=self.job.start_date,
            end_date=self.job.end_date,
            account=self.job.account,
            snapshot_date=self.job.snapshot_date,
            compared=self.job.compares,
            paths=paths,
            outcomes=outcomes,
            resumed=resumed,
            requests=stats.attempts,
            seconds=time.monotonic() - self._started,
            stats=stats,
            started_at=self.job.started_at,
            leftover=leftover,
        )
