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
from typing import Any, Unpack

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError, SeoRepError
from seorep_async.models import Feed
from seorep_async.old_export.checkpoint import Checkpoint
from seorep_async.old_export.csv_options import RFC_4180, CsvOptions
from seorep_async.old_export.fetch import Fetcher
from seorep_async.old_export.formats import Format
from seorep_async.old_export.lock import in_thread
from seorep_async.old_export.progress import (
    CampaignOutcome,
    OnProgress,
    ProgressTracker,
    PullFailure,
    PullSummary,
    Stage,
    any_received,
    summary_of,
)
from seorep_async.old_export.sinks import PipeWriter, StagingWriter
from seorep_async.old_export.spec import PullSpec, SpecOptions
from seorep_async.old_export.targets import Target, target_of
from seorep_async.old_export.targets.target import Contents
from seorep_async.resources.arguments import check_id
from seorep_async.resources.rankings import FeedOptions, FeedValue
from seorep_async.session import Stats
from seorep_async.settings import require_booleans


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
    max_requests: int | None = None,
    **options: Unpack[FeedOptions],
) -> PullSummary:
    """Pull feeds of many campaigns into files, a database or a dataset, as `seorep_async.old_export` describes.

    Args:
        ids: campaign ids, also for `Feed.KEYWORD_BY_DATE`, whose keywords are found first; or None for all campaigns.
        start_date, end_date: first and last day, each a `datetime.date` or a string `YYYY-MM-DD`.
        out: a path that ends in `.csv`, `.jsonl`, `.parquet` or `.duckdb`, or in `/` for a dataset; or an address.
        feeds: which of the three feeds, one or several, or their values, such as `campaign-by-date`.
        on_progress: called with a `PullProgress` after every step; it must return soon.
        restart: start over; delete what an earlier run has staged without reading it.
        retry_failed: fetch only the reports that failed last time: nothing if none did, all if there is no such night.
        force, csv: replace also files that no pull wrote; line ends, byte order mark and guard against formulas of CSV.
        account, key_renewed: the name in every row, by default the client's; the mark of its new key or address.
        snapshot_date: the night that rows are of; default: the UTC day on which the pull began.
        storage_options, work_dir: of the object store, by default the environment's; an existing folder for staging.
        max_requests: stop after this number of requests, retries included; reports that have begun are finished.
        options: further arguments of the feeds (see `Rankings`), such as `limit` or `compare_previous_period`.

    Raises:
        ConfigurationError, ImportError: an argument is wrong, the target is another's, or an extra is missing.
        SeoRepError: the key was refused, or the campaigns could not be listed; reports fetched until then are stored.
        PullPausedError: it stopped at `max_requests`; the same call goes on with the rest.
        ExportError: something could not be written, is damaged, or is in use; the target is as it was.
    """
    labels: SpecOptions = {"account": account, "snapshot_date": snapshot_date, "key_renewed": key_renewed, "csv": csv}
    spec = PullSpec.of(client, ids, start_date, end_date, feeds, options, **labels)
    find_target = partial(target_of, out, force=force, storage_options=storage_options, work_dir=work_dir)
    target = await asyncio.to_thread(find_target, spec.feeds, account=spec.account)  # importing an extra takes long
    how: Any = {"restart": restart, "retry_failed": retry_failed, "max_requests": max_requests}
    return await run_export(client, spec, target, ProgressTracker(on_progress), **how)


async def run_export(
    client: SeoRepClient,
    spec: PullSpec,
    target: Target,
    tracker: ProgressTracker,
    *,
    restart: bool = False,
    retry_failed: bool = False,
    max_requests: int | None = None,
) -> PullSummary:
    """Pull a spec into a target as `pull_to` does."""
    _check_how(restart, retry_failed, target.force)
    if spec.campaigns == () and not spec.is_shard:
        raise ConfigurationError("ids is empty; give at least one, or None for all campaigns", argument="ids")
    spec.check_format(target.format)
    count = _Count(client, None if max_requests is None else check_id("max_requests", max_requests))
    await in_thread(partial(check_target, target, spec, restart=restart))
    if retry_failed and await in_thread(partial(target.has_nothing_to_retry, spec)):
        return count.summary(spec, (), tuple(target.row_files()))
    area = target.area()
    finished: list[PullSummary] = []

    def finish(last_number: int, check: Callable[[], None]) -> None:
        outcomes = _outcomes(spec, area.checkpoint, tracker.failures)
        received = any_received(outcomes)
        resumed = sum(area.checkpoint.counts(feed, last_number)[0] for feed in spec.feeds)
        contents = Contents(area, outcomes, count.stats, tracker.names_error)
        paths = target.write(contents, check) if target.accumulates or received else ()
        leftover = None
        if tracker.failures:
            area.checkpoint.note(ended=True)
        else:
            leftover = area.remove()
        named = tuple(target.as_named(path) if isinstance(path, Path) else path for path in paths if received)
        left = None if leftover is None else target.as_named(leftover)
        finished.append(count.summary(area.spec, outcomes, named, resumed=resumed, leftover=left))

    try:
        async with StagingWriter(area, spec, tracker, restart=restart, retry_failed=retry_failed) as writer:
            last_number = await writer.run(area.checkpoint.last_number)
            await Fetcher(client, spec, writer, tracker, count.requests_left).run()
            tracker.start_stage(Stage.WRITING, spec.feeds[-1])
            await writer.run(finish, last_number, writer.stop.check)
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and finished:  # it was too late: everything is written
            return finished[0]
        tracker.on_stop(area.left)
        raise
    return finished[0]


def check_target(target: Target, spec: PullSpec, check: Callable[[], None], *, restart: bool) -> None:
    """Check a target, as `Target.check`; a restart that it prevents is made up for by the next pull."""
    try:
        target.check(spec, check)
    except ExportError as error:
        if restart:  # a later try must not resume the pull that was to be dropped
            with contextlib.suppress(SeoRepError):
                target.area().restart_later(error)
        raise


async def stream_rows(
    client: SeoRepClient,
    spec: PullSpec,
    kind: Format,
    write: Callable[[bytes], Awaitable[object]],
    tracker: ProgressTracker,
) -> PullSummary:
    """Pull one feed, and write it as CSV or JSON lines as it arrives, in the order of the campaigns and their keywords.

    Totals and failures are not written; the summary has the failures. A stream can't be resumed. A slow `write` slows
    the pull.
    It raises as `pull_to`, and what `write` raises.
    """
    if len(spec.feeds) != 1 or not kind.is_text:
        problem = "a stream holds one feed, as CSV or JSON lines; name a file for more"
        raise ConfigurationError(problem, argument="feeds")
    spec.check_format(kind)
    count, writer = _Count(client), PipeWriter(spec, kind, write, tracker)
    with contextlib.closing(writer.checkpoint):
        await Fetcher(client, spec, writer, tracker).run()
        return count.summary(spec, _outcomes(spec, writer.checkpoint, tracker.failures))


def _check_how(restart: bool, retry_failed: bool, force: bool) -> None:
    require_booleans(restart=restart, retry_failed=retry_failed, force=force)
    if restart and retry_failed:
        problem = "restart=True and retry_failed=True can't be combined; give one of them"
        raise ConfigurationError(problem, argument="restart")


class _Count:
    """The statistics and seconds of a run so far, and the requests that it may still send."""

    def __init__(self, client: SeoRepClient, max_requests: int | None = None) -> None:
        self._client = client
        self._max_requests = max_requests
        self._started, self._before = time.monotonic(), client.stats

    @property
    def stats(self) -> Stats:
        return self._client.stats.since(self._before)

    def requests_left(self) -> int | None:
        """Return the number of requests that it may still send, or None for any."""
        return None if self._max_requests is None else max(0, self._max_requests - self.stats.attempts)

    def summary(
        self, spec: PullSpec, outcomes: Sequence[CampaignOutcome], paths: Sequence[Path | str] = (), **further: Any
    ) -> PullSummary:
        stats, seconds = self.stats, time.monotonic() - self._started
        facts = {"resumed": 0, "requests": stats.attempts, "stats": stats, "seconds": seconds, **further}
        return summary_of(spec, outcomes=outcomes, paths=paths, **facts)


def _outcomes(spec: PullSpec, checkpoint: Checkpoint, failures: Iterable[PullFailure]) -> tuple[CampaignOutcome, ...]:
    """Return an outcome for each campaign, in their order."""
    rows: dict[int, dict[Feed, int]] = {}
    for feed in spec.feeds:
        for campaign_id, count in checkpoint.rows_by_campaign(feed):
            rows.setdefault(campaign_id, {})[feed] = count
    missing: dict[int, list[PullFailure]] = {}
    order = {feed: number for number, feed in enumerate(Feed)}
    for one in sorted(failures, key=lambda one: (order[one.feed], one.keyword_id or 0)):
        missing.setdefault(one.campaign_id, []).append(one)
    return tuple(CampaignOutcome(id_, rows.get(id_, {}), tuple(missing.get(id_, ()))) for id_ in checkpoint.campaigns())
