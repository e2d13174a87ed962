"""The three entry points of exports.

`pull_to` stages reports as they arrive and writes the target in one step. `preview` estimates a
pull with a few requests. `stream` writes one feed to a pipe as it arrives and stages nothing.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError, short_repr
from seorep_async.export.database import Database
from seorep_async.export.fetch import Fetcher, OrderedFetcher
from seorep_async.export.formats import Csv, JsonLines, Text
from seorep_async.export.lookups import (
    estimate,
    refuse_future_period,
    requested_ids,
)
from seorep_async.export.opening import OpenTarget, opened_target
from seorep_async.export.progress import (
    OnProgress,
    PullFailure,
    PullSummary,
    Stage,
    Tracker,
    outcomes_of,
)
from seorep_async.export.request import (
    DEFAULT_OPTIONS,
    ExportOptions,
    ExportRequest,
    feed_options,
)
from seorep_async.export.staging import (
    UNENCODABLE,
    Contents,
    Opening,
    StagedPull,
    Staging,
)
from seorep_async.models import Feed
from seorep_async.reports import column_values
from seorep_async.resources.arguments import check_engine_names, signature_with_options
from seorep_async.resources.rankings import FeedOptions
from seorep_async.tables.output_tables import table_of
from seorep_async.version import __version__


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
    engine_names: Sequence[str] | None = None,
    **options: Unpack[ExportOptions],
) -> PullSummary:
    """Pull feeds of many campaigns into files or a database.

    The target is complete and in a fixed order, or unchanged.

    Args:
        ids: campaign ids, also for `Feed.KEYWORD_BY_DATE`, whose keywords are found first; or None
            for all campaigns.
        start_date, end_date: first and last day, each a `datetime.date` or a string `YYYY-MM-DD`,
            or a month, `YYYY-MM`.
        out: a path that ends in `.csv`, `.jsonl`, `.xlsx`, `.parquet` or `.duckdb`.
        on_progress: called with a `PullProgress` after every step; it must return soon.
        restart: first remove all staged reports, without reading them.
        retry_failed: finish the last pull of these days with the same snapshot date. Only reports
            that failed or were not requested yet are fetched. If there was no such pull, everything
            is fetched, with a warning.
        force: also replace files that no pull wrote, and workbooks that a person changed. In a
            database that has this account of the service under a similar name, begin a new account.
        max_requests: stop after this number of requests, retries included. Reports that have begun
            are finished. A resumed pull first looks up one campaign; that request doesn't count.
        engine_names: the names of engine A and engine B for the headers of a workbook.
        feeds: one or several of the three feeds, or their values, such as `campaign-by-date`.
        groups: without ids, only campaigns of groups with these titles (upper or lower case does
            not matter).
        filter: without ids, only campaigns that the service's filter finds.
        exclude: campaign ids to leave out.
        account: the account's name in every row. Default: the client's name, or the name that the
            database has for this account of the service.
        snapshot_date: the snapshot date of every row. Default: the UTC day on which the pull began.
        options: `feeds` to `snapshot_date` above, and the arguments of the feeds, such as `limit`
            (see `Rankings`).

    Raises:
        ConfigurationError, ImportError: an argument is wrong, the target contains something else,
            or an extra is missing.
        SeoRepError: the key was refused, or the campaigns could not be listed. Reports that arrived
            before are staged.
        PullPausedError: the pull stopped at `max_requests`; the same call resumes it.
        ExportError: something could not be written, is damaged, or is in use. The target is
            unchanged.
    """
    request = ExportRequest.of(client, ids, (start_date, end_date), options)
    # while campaigns are listed, progress names the first feed
    tracker = Tracker(client, request.feeds[0], on_progress, max_requests)
    names = None if engine_names is None else check_engine_names(engine_names)
    opening = Opening(
        out, force=force, restart=restart, retry_failed=retry_failed, engine_names=names
    )
    try:
        return await _pull_into_target(client, request, opening, tracker, feed_options(options))
    except asyncio.CancelledError as error:
        # if the target was already written, the caller gets the summary
        if tracker.written is None:
            error.add_note("any reports that arrived are kept: the same call of pull_to resumes")
            raise
        return tracker.written


async def _pull_into_target(
    client: SeoRepClient,
    request: ExportRequest,
    opening: Opening,
    tracker: Tracker,
    options: FeedOptions,
) -> PullSummary:
    """Fetch the missing reports, and write the target."""
    async with opened_target(client, request, opening) as opened:
        staging = opened.staging
        # `retry_failed` found no failed report, so the request names no campaign
        if staging.request.campaigns == ():
            tracker.start(Stage.DONE, staging.request.feeds[-1])
            return tracker.summary(request)
        # called with the owners of the campaigns before any report is fetched; refuses another
        # account
        check_accounts = opened.target.check_accounts
        fetcher = Fetcher(client, options, staging, opened.run, tracker, check_accounts)
        try:
            await fetcher.fetch()
        except ExportError:
            if staging.is_too_large:
                # the format can't store the staged rows, so they are useless
                await opened.run(staging.file.clear)
            raise
        tracker.start(Stage.WRITING, staging.request.feeds[-1])
        summary = await opened.run(_write, opened, tracker)
        tracker.finish()
        return summary


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
    """Pull one feed, and write it as CSV or JSON lines while it arrives.

    Reports are written in the order of the campaigns.

    Totals and failures are not written; the summary has the failures. Nothing is staged, so a
    stream can't be resumed.

    Args:
        write: awaited with each part of the text. If it is slow, the pull is slow as well.
        format: `csv` or `jsonl`.
        ids, start_date, end_date, on_progress, options: as in `pull_to`; `feeds` names one feed.

    Raises:
        ConfigurationError: an argument is wrong.
        SeoRepError: the key was refused, or the campaigns could not be listed.
    """
    request = ExportRequest.of(client, ids, (start_date, end_date), options)
    if len(request.feeds) != 1:
        raise ConfigurationError(
            "a stream has exactly one feed; pull several feeds into files", argument="feeds"
        )
    if format not in ("csv", "jsonl"):
        raise ConfigurationError(
            f"format must be csv or jsonl, got {short_repr(format)}", argument="format"
        )
    (feed,) = request.feeds
    table = table_of(feed)
    encoder: Text = Csv() if format == "csv" else JsonLines()
    tracker = Tracker(client, feed, on_progress)
    fetcher = OrderedFetcher(client, request, feed_options(options), tracker)
    tracker.start(Stage.LISTING, feed)
    campaign_ids = await requested_ids(client, request)
    await refuse_future_period(client, request, feed_options(options), campaign_ids)
    # the campaigns of each report: a campaign's report has one, a keyword's may have several
    campaigns_of = {id_: [id_] for id_ in campaign_ids}
    if feed is Feed.KEYWORD_BY_DATE:
        campaigns_of = await fetcher.keywords(campaigns_of)
    written = []
    if format == "csv":
        await write(encoder.header(table))
    tracker.start(Stage.ROWS, feed, total=len(campaigns_of))
    async for report in fetcher.reports(feed, campaigns_of):
        labelled = attrs.evolve(
            report, account=request.account, snapshot_date=request.snapshot_date
        )
        campaigns = campaigns_of[report.id]
        try:
            # for each campaign: its rows, then their text
            columns_of_campaigns = [column_values(labelled, campaign_id=id_) for id_ in campaigns]
            rows_of_campaigns = [encoder.rows(table, columns) for columns in columns_of_campaigns]
            text = b"".join(map(encoder.text, rows_of_campaigns))
        except UNENCODABLE as error:
            unencodable = ExportError(f"a value can't be written: {error}")
            fetcher.fail(feed, report.id, campaigns_of, unencodable)
            continue
        row_count = len(report.rows)
        written += [(feed, campaign_id, row_count) for campaign_id in campaigns]
        if row_count:
            await write(text)
        tracker.advance(reports=1, rows=row_count * len(campaigns))
    tracker.finish()
    return tracker.summary(request, outcomes_of(campaign_ids, written, fetcher.failures))


@attrs.frozen
class PullPreview:
    """An estimate of a pull.

    Attributes:
        files: the files of the feeds' rows.
        campaigns: the number of campaigns.
        requests: the number of requests that the pull would still need, without retries, estimated
            from one campaign.
        sampled: the id of that campaign: the first with a missing report that the service
            returned. If it is None, each report counts as one page.
        staged: the pull that an earlier run has staged, or None.
        resumes: whether the pull would resume the staged one. Otherwise it would start over.
        account: the account's name in every row.
        page_sizes: the page sizes that the client found, in records, by the path of the endpoint.
        notes: sentences about the contents of the target that the pull would replace.
    """

    files: tuple[Path, ...]
    campaigns: int
    requests: int
    sampled: int | None
    staged: StagedPull | None
    resumes: bool
    account: str
    page_sizes: Mapping[str, int]
    notes: tuple[str, ...] = ()


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
    """Estimate a pull with a few requests, which get campaigns and one page of each feed.

    It has the arguments and errors of `pull_to`, or of `stream` if there is no `out`.
    """
    request = ExportRequest.of(client, ids, (start_date, end_date), options)
    target = None
    staged = None
    # the campaigns of the staged pull, if this one would resume it
    campaign_ids: tuple[int, ...] = ()
    missing: dict[Feed, Collection[int]] = {}
    if out is not None:
        opening = Opening(
            out, force=force, restart=restart, retry_failed=retry_failed, only_look=True
        )
        async with opened_target(client, request, opening) as opened:
            target = opened.target
            staging = opened.staging
            if staging.refusal is not None:
                raise staging.refusal
            request = staging.request
            staged = staging.earlier_pull
            campaign_ids = staging.plan.ids
            for feed in request.fetched_feeds:
                missing[feed] = await opened.run(staging.missing, feed)
    is_new = not campaign_ids
    listing_requests = 0
    if is_new:
        attempts_before = client.stats.attempts
        check_accounts = None if target is None else target.check_accounts
        campaign_ids = await requested_ids(client, request, check_accounts)
        listing_requests = client.stats.attempts - attempts_before
        # campaigns that the caller named are not listed here, but the pull will list them
        if campaign_ids and not listing_requests:
            listing_requests = 1
        # the keywords are not known yet, so `estimate` counts their reports by the sample
        feeds = [feed for feed in request.fetched_feeds if feed is not Feed.KEYWORD_BY_DATE]
        missing = dict.fromkeys(feeds, campaign_ids)
    notes: tuple[str, ...] = ()
    if target is not None and campaign_ids:
        notes = await asyncio.to_thread(target.notes_on_replaced_pull, len(campaign_ids))
    requests, sampled = await estimate(client, request, missing, options.get("limit"))
    return PullPreview(
        files=() if target is None else tuple(target.row_files()),
        campaigns=len(campaign_ids),
        requests=listing_requests + requests,
        sampled=sampled,
        staged=staged,
        resumes=not is_new,
        account=request.account,
        page_sizes=client.stats.page_sizes,
        notes=notes,
    )


def _write(opened: OpenTarget, tracker: Tracker) -> PullSummary:
    """Write the target. Then remove the staged reports, or keep them if some reports failed."""
    target = opened.target
    staging = opened.staging
    request = staging.request
    outcomes = outcomes_of(staging.plan.ids, _row_counts(staging), _failures(staging))
    # the row in the table `pulls` needs a summary, before the paths and the notes are known
    summary = tracker.summary(request, outcomes)
    contents = Contents(staging, _pull_row(request, summary), summary.received, target.stop)
    notes: tuple[str, ...] = opened.notes
    # The other notes are about reports. If none was received, at most rows of `failures` and
    # `pulls` are written, so there is nothing to note.
    if summary.received:
        if isinstance(target, Database):
            notes += target.notes_on_new_account()
        notes += target.notes_on_replaced_pull(summary.campaigns_complete)
        notes += _notes_on_future_days(request)
    paths = target.write(contents, target.staging_folder)
    # the final summary, with the paths and all notes
    tracker.written = tracker.summary(request, outcomes, paths, notes)
    # after a failure, the reports stay staged, so that `retry_failed` needs few requests
    if summary.ok:
        staging.file.clear()
    elif not staging.ended:
        # from now on, only `retry_failed` resumes this pull
        staging.note_end()
    return tracker.written


def _notes_on_future_days(request: ExportRequest) -> tuple[str, ...]:
    """Return a note if none of a pull's days had begun. Called only if reports were received."""
    # in some time zones the next day had begun, so a pull that ends with it needs no note
    tomorrow = request.snapshot_date + dt.timedelta(1)
    if request.start_date < tomorrow or request.end_date == tomorrow:
        return ()
    return (
        f"{request.start_date} is after the snapshot date {request.snapshot_date}, and the service "
        "has rows of days that had not begun",
    )


def _row_counts(staging: Staging) -> Iterator[tuple[Feed, int, int]]:
    """Yield the feed, the campaign and the number of rows of each staged report."""
    for feed in staging.request.feeds:
        for report in staging.staged_reports(table_of(feed)):
            yield feed, report.record.ids[0], report.record.rows


def _failures(staging: Staging) -> Iterator[PullFailure]:
    """Yield the missing reports of a staged pull."""
    for table, campaign_id, keyword_id, failure in staging.failed_reports():
        yield PullFailure(table.feed, campaign_id, keyword_id, *failure.facts)


def _pull_row(request: ExportRequest, summary: PullSummary) -> list[Any]:
    """Return the row of the table `pulls`, in the order of its columns."""
    stats = summary.stats
    waited = {reason: round(seconds, 3) for reason, seconds in stats.waited.items()}
    return [
        request.account,
        request.snapshot_date,
        request.started_at,
        request.service,
        request.feed_names,
        request.start_date,
        request.end_date,
        len(summary.outcomes),
        request.selection,
        summary.rows,
        stats.attempts,
        stats.retries,
        stats.throttled,  # the column `refusals`
        waited,
        len(summary.failures),
        request.compared,
        request.row_options,  # the column `reading`
        __version__,
    ]


# type checkers read the options from `Unpack`
if not TYPE_CHECKING:
    for _function in (pull_to, stream, preview):
        _function.__signature__ = signature_with_options(
            _function, ExportOptions.__annotations__, DEFAULT_OPTIONS
        )
