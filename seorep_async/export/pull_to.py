"""Many campaigns to files or a database: whole, in a fixed order, and gone on with where another run was cut off."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Unpack

from seorep_async.client import SeoRepClient
from seorep_async.export.database import check_database, write_database
from seorep_async.export.fetch import Fetcher
from seorep_async.export.files import write_files
from seorep_async.export.formats import Format
from seorep_async.export.job import ExportJob, export_job
from seorep_async.export.journal import Journal
from seorep_async.export.progress import CampaignOutcome, OnProgress, ProgressTracker, PullFailure, PullSummary, Stage
from seorep_async.export.staging import StagingWriter
from seorep_async.export.target import Target, target_of
from seorep_async.export.work import Work
from seorep_async.models import Feed
from seorep_async.resources.rankings import FeedOptions


async def pull_to(
    client: SeoRepClient,
    ids: Iterable[int] | None,
    start_date: dt.date | str,
    end_date: dt.date | str,
    *,
    out: str | os.PathLike[str],
    feeds: Iterable[Feed] | Feed = (Feed.CAMPAIGN,),
    on_progress: OnProgress | None = None,
    restart: bool = False,
    retry_failed: bool = False,
    **options: Unpack[FeedOptions],
) -> PullSummary:
    """Pull feeds of many campaigns into files or a database.

    The ending of `out` says what it becomes: `.csv`, `.jsonl`, `.parquet` or `.duckdb`. A database gets a table for
    each feed, and `totals` and `failures`; rows of the same campaigns and dates are replaced. Of the others, one feed
    is written to `out` itself and several to `name.FEED.csv` each. Beside each file of rows are its totals and its
    failures, `name.totals.csv` and `name.failures.csv`, if there are any; those of an earlier pull into the same file
    of rows are replaced or removed with it, and no other file is.

    Rows stand in the order of the campaigns, and within one in the service's order, so the same answers give the same
    bytes. Reports are kept in a hidden folder beside `out` as they come; the target appears when all are there, each
    file in one step, and what was there before stays until then. Cut off, the same call goes on with what is kept. A
    report that fails is told in the summary, and the others go on.

    Args:
        client: an open client.
        ids: campaign ids, also for `Feed.KEYWORD_BY_DATE`, whose keywords are found first; or None for every campaign
            of the account.
        start_date: first day, a `datetime.date` or text `YYYY-MM-DD`.
        end_date: last day.
        out: where the target is to appear; its folder must be there.
        feeds: which of the three feeds, one or several.
        on_progress: is called with a `PullProgress` after every step; must return soon.
        restart: begin anew, whatever another run has left.
        retry_failed: go on with a pull that has ended, asking only for what had failed; without one, pull everything.
        options: further arguments of the feeds (see `Rankings`), such as `limit` or `compare_previous_period`.

    Returns:
        A `PullSummary`, with every outcome. If every campaign failed, nothing is written. It is returned also if the
        call is cancelled when everything is in its place already.

    Raises:
        ConfigurationError: an argument is wrong, nothing can be written there, or another run has left work there
            that was begun otherwise or with another key; nothing was sent.
        ImportError: the format needs an extra; the message says how to get it.
        AuthenticationError: the key was refused; what came before is kept.
        SeoRepError: the account's campaigns could not be listed.
        ExportError: the target or the work beside it could not be written, or another process is at work on it;
            nothing has changed in the target's place.
    """
    job = export_job(client, ids, start_date, end_date, feeds, options)
    # in a thread: importing an extra takes long enough for others in this loop to notice
    target = await asyncio.to_thread(target_of, out, job.feeds)
    return await run_export(client, job, target, on_progress, restart=restart, retry_failed=retry_failed)


async def run_export(
    client: SeoRepClient,
    job: ExportJob,
    target: Target,
    on_progress: OnProgress | None = None,
    *,
    restart: bool = False,
    retry_failed: bool = False,
) -> PullSummary:
    """Do what `pull_to` does, for a job that was checked."""
    started, requests_before = time.monotonic(), client.stats.attempts
    if target.format is Format.DUCKDB:
        await asyncio.to_thread(check_database, target)
    tally = ProgressTracker(on_progress)
    work = Work(target, job, restart=restart, retry_failed=retry_failed)
    ended: list[PullSummary] = []

    def finish(last_block: int, check: Callable[[], None]) -> None:
        outcomes = _outcomes(work.journal, tally.failures)
        resumed = sum(work.journal.counts(feed, last_block)[0] for feed in job.feeds)
        paths: list[Path] = []
        if any(outcome.rows or outcome.ok for outcome in outcomes) or not outcomes:
            write = write_database if target.format is Format.DUCKDB else write_files
            paths = write(work, [failure for outcome in outcomes for failure in outcome.failures], check)
        left = None
        if tally.failures:
            work.end()
        else:
            left = work.remove()
            left = None if left is None else target.as_named(left)
        ended.append(
            PullSummary(
                feeds=job.feeds,
                start_date=job.start_date,
                end_date=job.end_date,
                paths=tuple(target.as_named(path) for path in paths),
                outcomes=outcomes,
                resumed=resumed,
                requests=client.stats.attempts - requests_before,
                seconds=time.monotonic() - started,
                leftover=left,
            )
        )

    try:
        async with StagingWriter(work, tally) as shelf:
            last_block = await shelf.do(work.journal.last_block)
            await Fetcher(client, job, work, shelf, tally).run()
            tally.begin(Stage.WRITING, job.feeds[-1])
            await shelf.do(finish, last_block, shelf.check)
    except asyncio.CancelledError:
        if not ended:  # or else it came too late: everything is in its place
            raise
    return ended[0]


def _outcomes(journal: Journal, failures: Sequence[PullFailure]) -> tuple[CampaignOutcome, ...]:
    rows: dict[int, dict[Feed, int]] = {}
    for campaign_id, feed, count in journal.rows_by_campaign():
        rows.setdefault(campaign_id, {})[feed] = count
    missing: dict[int, list[PullFailure]] = {}
    for failure in failures:
        missing.setdefault(failure.campaign_id, []).append(failure)
    place = {feed: number for number, feed in enumerate(Feed)}
    return tuple(
        CampaignOutcome(
            campaign_id,
            rows.get(campaign_id, {}),
            tuple(sorted(missing.get(campaign_id, ()), key=lambda one: (place[one.feed], one.keyword_id or 0))),
        )
        for campaign_id in journal.campaigns()
    )
