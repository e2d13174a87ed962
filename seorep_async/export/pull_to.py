"""Many campaigns to files or a database: staged while they are fetched, and written whole at the end."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, Unpack

import attrs
import msgspec

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, DecodeError, PaginationError, StatusError, shown
from seorep_async.export.database import Database
from seorep_async.export.fetch import Fetcher, concerns_all, listed
from seorep_async.export.files import Files, refusal
from seorep_async.export.formats import Parquet, Text, format_of
from seorep_async.export.pieces import errors_of
from seorep_async.export.progress import OnProgress, PullFailure, PullSummary, Stage, Tracker, outcomes_of
from seorep_async.export.request import Plan, PullOptions, Request, of_feeds
from seorep_async.export.staging import Contents, StagedPull, Staging, opened
from seorep_async.models import Feed
from seorep_async.resources.arguments import MAX_ID
from seorep_async.settings import require_booleans
from seorep_async.tables.columns import FeedTable
from seorep_async.tables.optional import require
from seorep_async.tables.output_tables import table_of

T = TypeVar("T")
_log = logging.getLogger("seorep_async")
_TRIED = 3
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
    **options: Unpack[PullOptions],
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
    request = Request.of(client, ids, (start_date, end_date), options)
    tracker = Tracker(client, on_progress, max_requests)
    how: Any = {"restart": restart, "retry_failed": retry_failed, "force": force}
    async with at_target(out, request, options, **how) as (run, target, staging):
        if staging.request.campaigns == ():  # none has failed
            return tracker.summary(request)
        await Fetcher(client, of_feeds(options), staging, run, tracker, target.check_accounts).fetch()
        tracker.start(Stage.WRITING, staging.request.feeds[-1])
        try:
            return await run(_write, target, staging, tracker)
        except asyncio.CancelledError:
            if tracker.written is None:
                raise
            return tracker.written


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
    **options: Unpack[PullOptions],
) -> PullPreview:
    """Estimate a pull with a few requests: for the campaigns, and for each feed of one campaign.

    The arguments and errors are those of `pull_to`; without `out`, of `stream`.
    """
    request, staged, listing = Request.of(client, ids, (start_date, end_date), options), None, 0
    plan, missing = Plan(), dict[Feed, Sequence[int]]()
    files: tuple[Path, ...] = ()
    if out is not None:
        how: Any = {"restart": restart, "retry_failed": retry_failed, "force": force, "only_look": True}
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
            found = tuple(one.id for one in request.among(await listed(client, request.filter)))
        listing = client.stats.attempts - before or min(1, len(found))  # for their names
        missing = {feed: found for feed in request.fetched_feeds if feed is not Feed.KEYWORD_BY_DATE}
    requests, sampled, skipped = await _estimate(client, request, missing, options.get("limit"))
    return PullPreview(files, len(found or ()), listing + requests, sampled, skipped, staged, bool(plan.ids))


async def _estimate(
    client: SeoRepClient, request: Request, missing: Mapping[Feed, Sequence[int]], limit: int | None
) -> tuple[int, int | None, tuple[int, ...]]:
    """Estimate the requests from a page of each feed of the first campaign that answers; name it, and those skipped."""
    needed = {feed: ids for feed, ids in missing.items() if ids and feed is not Feed.KEYWORD_BY_DATE}
    feeds: Any = {Feed.CAMPAIGN: client.rankings.campaign, Feed.CAMPAIGN_BY_DATE: client.rankings.campaign_by_date}
    requests, dates = sum(map(len, missing.values())), (request.start_date, request.end_date)
    skipped: tuple[int, ...] = ()
    candidates = dict.fromkeys(id_ for ids in needed.values() for id_ in ids if 1 <= id_ <= MAX_ID)
    for id_ in islice(candidates, _TRIED):
        try:
            pages = {feed: await feeds[feed](id_, *dates, limit=limit).page(1) for feed in needed}
        except (StatusError, DecodeError, PaginationError) as error:
            if concerns_all(error):
                raise
            skipped += (id_,)  # in the pull, it would fail alone
            continue
        for feed, page in pages.items():
            further = (page.total_pages or 1) - 1
            if feed is Feed.CAMPAIGN and Feed.KEYWORD_BY_DATE in request.feeds:
                further += len(page.items) if page.total_records is None else page.total_records
            requests += len(needed[feed]) * further
        return requests, id_, skipped
    return requests, None, skipped


@asynccontextmanager
async def at_target(
    out: str | os.PathLike[str],
    request: Request,
    options: PullOptions,
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
        raise ConfigurationError("restart=True and retry_failed=True can't be combined", argument="restart")
    with ThreadPoolExecutor(1, "seorep-pull") as pool:
        run = Background(pool)
        target = await run(_target, out, request, options, force, run.stop)  # importing an extra takes long
        request = target.request
        with errors_of(folder := target.staging_folder):
            await run(target.check)
            requests = [request]
            failed = await run(target.failed) if retry_failed else None
            if failed is not None:
                only = {"campaigns": tuple(failed), "groups": (), "filter": None, "exclude": ()}
                requests.append(msgspec.structs.replace(request, **only))
            how = {"restart": restart, "retry_failed": retry_failed, "only_look": only_look}
            stack = ExitStack()
            try:
                staging = await run(stack.enter_context, opened(folder, target.format, requests, **how))
                if retry_failed and failed is None and not staging.plan.ids:
                    night = f"of these days is there with the snapshot date {request.snapshot_date}"
                    _log.warning("retry_failed=…: no pull %s; everything is fetched", night)
                yield run, target, staging
            finally:
                await run(stack.close)


def _write(target: Files | Database, staging: Staging, tracker: Tracker) -> PullSummary:
    """Write the target from what is staged, and drop it, or keep it for `retry_failed`."""
    request = staging.request
    rows = ((feed, ids[0], one.rows) for feed in request.feeds for ids, _, one in staging.records(table_of(feed)))
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


def _pull_row(request: Request, found: PullSummary) -> list[Any]:
    stats = found.stats
    about = [request.account, request.snapshot_date, request.started_at, request.service]
    asked = [request.feed_names, request.start_date, request.end_date, len(found.outcomes), request.selection]
    waited = {reason: round(one, 3) for reason, one in stats.waited.items()}
    cost = [found.rows, stats.attempts, stats.retries, stats.throttled, waited, len(found.failures)]
    return [*about, *asked, *cost, request.compared, version("seorep-async")]


def _target(
    out: object, request: Request, options: PullOptions, force: bool, stop: threading.Event
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
        problem = f"search narrows the rows, and the rows found would replace whole reports in {path}"
        raise ConfigurationError(f"{problem}; leave it out, or write to a file of its own", argument="search")
    return Database(*where, found)


class Background:
    """Runs steps in one thread; a cancelled step is waited for, and `stop` is set for it to end soon."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self.stop: threading.Event = threading.Event()

    async def __call__(self, step: Callable[..., T], *args: Any) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._pool, partial(step, *args))
        future.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may take it any more
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self.stop.set()
            await asyncio.wait([future])
            raise
