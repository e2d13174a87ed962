"""The doors: many campaigns to files or a database, staged while they are fetched, and written whole at the end; an
estimate of that; and one feed to a pipe, in the order of the campaigns, of which nothing is staged.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Unpack

import attrs
import msgspec

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError, shown
from seorep_async.export.database import Database
from seorep_async.export.fetch import Background, Fetcher, OrderedFetcher, estimate, listed
from seorep_async.export.files import Files, Retry, refusal
from seorep_async.export.formats import MARK, Parquet, Text, format_of
from seorep_async.export.pieces import errors_of
from seorep_async.export.progress import (
    OnProgress,
    PullFailure,
    PullSummary,
    Stage,
    Tracker,
    outcomes_of,
)
from seorep_async.export.request import ExportOptions, ExportRequest, Plan, feed_options
from seorep_async.export.staging import UNSTORABLE, Contents, StagedPull, Staging, opened, prepared
from seorep_async.models import Feed
from seorep_async.settings import require_booleans
from seorep_async.tables.columns import FeedTable
from seorep_async.tables.optional import require
from seorep_async.tables.output_tables import table_of
from seorep_async.version import __version__

_log = logging.getLogger("seorep_async")
_ENDINGS = ".csv, .jsonl, .parquet or .duckdb"


async def pull_to(
    client: SeoRepClient,
    ids: Iterable[int] | None,
    start_date: dt.date | str,
    end_date: dt.date | str,
    *,
    out: str | os.PathLike[str],
    on_progress: OnProgress | None = None,
    restart: bool = False,
    retry_failed: bool = False,
    force: bool = False,
    max_requests: int | None = None,
    **options: Unpack[ExportOptions],
) -> PullSummary:
    """Pull feeds of many campaigns into files or a database: complete, in a fixed order, or not written at all.

    Args:
        ids: campaign ids, also for `Feed.KEYWORD_BY_DATE`, whose keywords are found first; or None for all campaigns.
        start_date, end_date: first and last day, each a `datetime.date` or a string `YYYY-MM-DD`.
        out: a path that ends in `.csv`, `.jsonl`, `.parquet` or `.duckdb`.
        on_progress: called with a `PullProgress` after every step; it must return soon.
        restart, retry_failed: drop what is staged, unread; or finish this night's last pull of these days: fetch what
            failed or was not asked for yet, or everything, with a warning, if there was no such pull.
        force, excel: replace also files that no pull wrote; write CSV with a byte order mark, and no formulas.
        max_requests: stop after this number of requests, retries included; reports that have begun are finished, and
            the look at one campaign with which a resumed pull begins does not count.
        feeds: which of the three feeds, one or several, or their values, such as `campaign-by-date`.
        groups, filter: without ids: only campaigns of groups with these titles, in any case; those the service finds.
        exclude: campaign ids to leave out.
        account, snapshot_date: of the rows; default: the client's, and the UTC day on which the pull began.
        options: these, and further arguments of the feeds (see `Rankings`), such as `limit`.

    Raises:
        ConfigurationError, ImportError: an argument is wrong, the target is another's, or an extra is missing.
        SeoRepError: the key was refused, or the campaigns could not be listed; reports fetched until then are stored.
        PullPausedError: it stopped at `max_requests`; the same call goes on with the rest.
        ExportError: something could not be written, is damaged, or is in use; the target is as it was.
    """
    request = ExportRequest.of(client, ids, (start_date, end_date), options)
    tracker = Tracker(client, on_progress, max_requests)
    how: Any = {"restart": restart, "retry_failed": retry_failed, "force": force}
    async with at_target(out, request, options, **how) as (run, target, staging):
        if staging.request.campaigns == ():  # none has failed
            return tracker.summary(request)
        await Fetcher(
            client, feed_options(options), staging, run, tracker, target.check_accounts
        ).fetch()
        tracker.start(Stage.WRITING, staging.request.feeds[-1])
        try:
            return await run(_write, target, staging, tracker)
        except asyncio.CancelledError:
            if tracker.written is None:
                raise
            return tracker.written


async def stream(
    client: SeoRepClient,
    ids: Iterable[int] | None,
    start_date: dt.date | str,
    end_date: dt.date | str,
    *,
    write: Callable[[bytes], Awaitable[object]],
    format: Literal["csv", "jsonl"] = "csv",
    on_progress: OnProgress | None = None,
    **options: Unpack[ExportOptions],
) -> PullSummary:
    """Pull one feed, and write it as CSV or JSON lines as it arrives, in the order of the campaigns.

    Totals and failures are not written; the summary has the failures. Nothing is staged, so it can't be resumed.

    Args:
        write: awaited with each part of the text; if it is slow, so is the pull.
        format: `csv` or `jsonl`.
        ids, start_date, end_date, on_progress, options: as `pull_to` takes them; `feeds` names one.

    Raises:
        ConfigurationError: an argument is wrong.
        SeoRepError: the key was refused, or the campaigns could not be listed.
    """
    request = ExportRequest.of(client, ids, (start_date, end_date), options)
    found = format_of(f".{format}", excel=request.excel)
    if len(request.feeds) != 1 or not isinstance(found, Text):
        raise ConfigurationError(
            "a stream holds one feed, as csv or jsonl; name a file for more", argument="feeds"
        )
    (feed,), table, tracker = (
        request.feeds,
        table_of(request.feeds[0]),
        Tracker(client, on_progress),
    )
    source, campaigns = (
        OrderedFetcher(client, request, feed_options(options), tracker),
        request.campaigns,
    )
    if campaigns is None:
        tracker.start(Stage.LISTING, feed)
        campaigns = tuple(one.id for one in request.chosen(await listed(client, request.filter)))
    owners = {id_: [id_] for id_ in campaigns}
    if feed is Feed.KEYWORD_BY_DATE:
        owners = await source.keywords(owners)
    lead, written = found.lead(table, request.labels), list[tuple[Feed, int, int]]()
    await write(found.header(table))
    tracker.start(Stage.ROWS, feed, len(owners))
    async for report in source.reports(feed, owners):
        try:
            columns = prepared(found, request, feed, [report])
            text, _ = found.encode(table, columns, [len(report.rows)])
        except UNSTORABLE as error:
            source.fail(feed, report.id, owners, ExportError(f"a value can't be written: {error}"))
            continue
        for owner in owners[report.id]:
            written.append((feed, owner, len(report.rows)))
            if text:
                place = (owner, report.id) if feed is Feed.KEYWORD_BY_DATE else (owner,)
                await write(text.replace(MARK, lead % place))
        tracker.advance(1, len(report.rows), 0)
    return tracker.summary(request, outcomes_of(campaigns, written, source.failures))


@attrs.frozen
class PullPreview:
    """An estimate of a pull.

    Attributes:
        requests: the number that it would still need, without retries, estimated from one campaign.
        sampled: that campaign, the first missing one that the service answers for; or None if there is none: then
            each report counts as one page.
        skipped: the campaigns skipped before it, as the service did not answer for them.
        resumes: whether it would resume the staged pull, or else, as that ended with failures, start over.
    """

    files: tuple[Path, ...]
    campaigns: int
    requests: int
    sampled: int | None
    skipped: tuple[int, ...]
    staged: StagedPull | None
    resumes: bool


async def preview(
    client: SeoRepClient,
    ids: Iterable[int] | None,
    start_date: dt.date | str,
    end_date: dt.date | str,
    *,
    out: str | os.PathLike[str] | None = None,
    restart: bool = False,
    retry_failed: bool = False,
    force: bool = False,
    **options: Unpack[ExportOptions],
) -> PullPreview:
    """Estimate a pull with a few requests: for the campaigns, and for each feed of one campaign.

    The arguments and errors are those of `pull_to`; without `out`, of `stream`.
    """
    request, staged, listing = (
        ExportRequest.of(client, ids, (start_date, end_date), options),
        None,
        0,
    )
    plan, missing = Plan(), dict[Feed, Sequence[int]]()
    files: tuple[Path, ...] = ()
    if out is not None:
        how: Any = {
            "restart": restart,
            "retry_failed": retry_failed,
            "force": force,
            "only_look": True,
        }
        async with at_target(out, request, options, **how) as (run, target, staging):
            if staging.refusal is not None:
                raise staging.refusal
            request, plan, staged = staging.request, staging.plan, staging.found
            files = tuple(target.row_files())
            missing = {feed: await run(staging.missing, feed) for feed in request.fetched_feeds}
    found = plan.ids or request.campaigns
    if not plan.ids:
        before = client.stats.attempts
        if found is None:
            found = tuple(one.id for one in request.chosen(await listed(client, request.filter)))
        listing = client.stats.attempts - before or min(1, len(found))  # for their names
        missing = {
            feed: found for feed in request.fetched_feeds if feed is not Feed.KEYWORD_BY_DATE
        }
    requests, sampled, skipped = await estimate(client, request, missing, options.get("limit"))
    return PullPreview(
        files, len(found or ()), listing + requests, sampled, skipped, staged, bool(plan.ids)
    )


@asynccontextmanager
async def at_target(
    out: str | os.PathLike[str],
    request: ExportRequest,
    options: ExportOptions,
    *,
    restart: bool = False,
    retry_failed: bool = False,
    force: bool = False,
    only_look: bool = False,
) -> AsyncIterator[tuple[Background, Files | Database, Staging]]:
    """Check a target, and open what is staged for it; `only_look` leaves both as they are.

    With `retry_failed` the staging may be of a request for the campaigns that failed, even of none.
    """
    require_booleans(restart=restart, retry_failed=retry_failed, force=force)
    if restart and retry_failed:
        raise ConfigurationError(
            "restart=True and retry_failed=True can't be combined", argument="restart"
        )
    with Background() as run:
        target = await run(
            _target, out, request, options, force, run.stop
        )  # importing an extra takes long
        request = target.request
        with errors_of(folder := target.staging_folder):
            await run(target.check)
            requests = [request]
            retry = await run(target.failed) if retry_failed else Retry()
            failed = retry.campaign_ids
            if failed is not None:
                only = msgspec.structs.replace(
                    request, campaigns=tuple(failed), groups=(), filter=None, exclude=()
                )
                requests.append(only)
            how: Any = {"restart": restart, "retry_failed": retry_failed, "only_look": only_look}
            how |= {"refusal": retry.refusal}
            stack = ExitStack()
            try:
                staging = await run(
                    stack.enter_context, opened(folder, target.format, requests, **how)
                )
                if retry_failed and failed is None and not staging.plan.ids:
                    asked = f"{request.start_date} to {request.end_date} with the snapshot date {request.snapshot_date}"
                    _log.warning(
                        "retry_failed=…: no such pull of %s is there; everything is fetched", asked
                    )
                yield run, target, staging
            finally:
                await run(stack.close)


def _write(target: Files | Database, staging: Staging, tracker: Tracker) -> PullSummary:
    """Write the target from what is staged, and drop it, or keep it for `retry_failed`."""
    request = staging.request
    rows = (
        (feed, ids[0], one.rows)
        for feed in request.feeds
        for ids, _, one in staging.records(table_of(feed))
    )
    failures = (
        PullFailure(table.feed, campaign, keyword, *one.facts)
        for table, campaign, keyword, one in staging.failed_reports()
        if isinstance(table, FeedTable) and campaign is not None
    )
    found = tracker.summary(request, outcomes_of(staging.plan.ids, rows, failures))
    contents = Contents(staging, _pull_row(request, found), found.received, target.stop)
    paths = target.write(contents, target.staging_folder)
    tracker.written = tracker.summary(request, found.outcomes, paths)
    if found.ok:
        staging.file.clear()
    elif not staging.ended:
        staging.note_end()
    return tracker.written


def _pull_row(request: ExportRequest, found: PullSummary) -> list[Any]:
    stats = found.stats
    about = [request.account, request.snapshot_date, request.started_at, request.service]
    asked = [
        request.feed_names,
        request.start_date,
        request.end_date,
        len(found.outcomes),
        request.selection,
    ]
    waited = {reason: round(one, 3) for reason, one in stats.waited.items()}
    cost = [found.rows, stats.attempts, stats.retries, stats.throttled, waited, len(found.failures)]
    return [*about, *asked, *cost, request.compared, request.reading, __version__]


def _target(
    out: object, request: ExportRequest, options: ExportOptions, force: bool, stop: threading.Event
) -> Files | Database:
    """Return the target of a path; its extra must be installed."""
    if not isinstance(out, str | os.PathLike) or not isinstance(named := os.fspath(out), str):
        raise ConfigurationError(f"out must be a path, got {shown(out)}", argument="out")
    if named.endswith(("/", os.sep)) or "://" in named or os.path.isdir(named):
        problem = f"folders and object stores are no targets; name a file that ends in {_ENDINGS}"
        raise refusal(named, f"{problem} (`seorep guide engines` shows how to write elsewhere)")
    if any("\ud800" <= one <= "\udfff" for one in named):
        raise refusal(repr(named), "its name is not UTF-8; name another")
    path = Path(named)
    found = format_of(path.suffix.lower(), excel=request.excel)
    if found is None or "\0" in named:
        raise refusal(named, f"the name must end in {_ENDINGS}")
    for library in found.needs:
        require(library)
    request = msgspec.structs.replace(request, format=found.ending)
    where = path, Path(os.path.realpath(path)), request, stop
    if isinstance(found, Text | Parquet):
        return Files(*where, found, force)
    if options.get("search") is not None:
        problem = (
            f"search narrows the rows, and the rows found would replace whole reports in {path}"
        )
        raise ConfigurationError(
            f"{problem}; leave it out, or write to a file of its own", argument="search"
        )
    return Database(*where, found)
