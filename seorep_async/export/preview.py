"""A pull before it runs: its estimated requests, and the reports that an earlier run has staged."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import AuthenticationError, DecodeError, PaginationError, StatusError
from seorep_async.export.database import Database
from seorep_async.export.fetch import listed
from seorep_async.export.files import Files
from seorep_async.export.pull_to import background, target_of
from seorep_async.export.request import PullOptions, Request, of_feeds
from seorep_async.export.staging import opened
from seorep_async.models import Feed, Page
from seorep_async.resources.arguments import MAX_ID

_TRIED = 3


@attrs.frozen
class StagedPull:
    """What a run has staged: its start in UTC, its dates, its reports, and whether it ended with failures."""

    started_at: dt.datetime
    start_date: dt.date
    end_date: dt.date
    reports: int
    ended: bool


@attrs.frozen
class PullPreview:
    """An estimate of a pull.

    Attributes:
        requests: the number that it would still need, without retries, estimated from one campaign.
        sampled: that campaign, the first missing one that the service answers for; or None if there is none: then
            each report counts as one page.
        skipped: the campaigns skipped before it, as the service did not answer for them.
        resumes: whether it would resume the staged pull, or else start over.
    """

    files: tuple[Path, ...]
    campaigns: int
    requests: int
    sampled: int | None
    skipped: tuple[int, ...]
    staged: StagedPull | None
    resumes: bool


@attrs.frozen
class _Missing:
    """What a pull still has to fetch: reports by feed; `first` are the ids of campaigns that lack one."""

    campaigns: int
    first: Sequence[int]
    reports: Mapping[Feed, int]
    listing: int = 0


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
    request = Request.of(client, ids, (start_date, end_date), options)
    staged, missing, resumes = None, None, False
    files: tuple[Path, ...] = ()
    if out is not None:
        async with background() as run:
            target = await run(target_of, out, request, of_feeds(options), force)
            await run(target.check, request, run.stop)
            files = tuple(target.row_files(request))
            if not restart:
                staged, missing = await run(_look, target, request, options, retry_failed)
                resumes = missing is not None
            if retry_failed and not resumes and (failed := await run(target.failed, request, run.stop)) is not None:
                count = len(failed)
                missing = _Missing(count, failed, dict.fromkeys(request.fetched_feeds, count), min(1, count))
    needed = missing or await _full_pull(client, request)
    return PullPreview(
        files, needed.campaigns, *await _estimate(client, request, needed, options.get("limit")), staged, resumes
    )


async def staged_pull(
    client: SeoRepClient,
    ids: Iterable[int] | None,
    start_date: dt.date | str,
    end_date: dt.date | str,
    *,
    out: str | os.PathLike[str],
    **options: Unpack[PullOptions],
) -> StagedPull | None:
    """Return what an earlier run has staged beside a target; nothing is sent. The arguments are those of `preview`."""
    request = Request.of(client, ids, (start_date, end_date), options)
    async with background() as run:
        target = await run(target_of, out, request, of_feeds(options), False)
        return (await run(_look, target, request, options, False))[0]


def _look(
    target: Files | Database, request: Request, options: PullOptions, retry_failed: bool
) -> tuple[StagedPull | None, _Missing | None]:
    """Return the pull staged by an earlier run, and the missing reports if this pull would resume it."""
    folder, keeps_night = target.staging_folder(request), options.get("snapshot_date") is not None
    if not folder.exists():
        return None, None
    with opened(folder, target.format, request, only_look=True) as staging:
        if staging.plan is None:
            return None, None
        found, ids = staging.request, staging.plan.ids
        reports = sum(staging.counts(feed)[0] for feed in request.fetched_feeds)
        staged = StagedPull(found.started_at, found.start_date, found.end_date, reports, staging.ended)
        if request.differences(found, keeps_night=keeps_night) or (staging.ended and not retry_failed):
            return staged, None
        missing = {feed: staging.missing(feed) for feed in found.fetched_feeds}
    first = [id_ for feed, some in missing.items() if feed is not Feed.KEYWORD_BY_DATE for id_ in some]
    return staged, _Missing(len(ids), first, {feed: len(some) for feed, some in missing.items()})


async def _full_pull(client: SeoRepClient, request: Request) -> _Missing:
    before, first, listing = client.stats.attempts, request.campaigns or (), 1  # for their names
    campaigns = len(first)
    if request.campaigns is None and (request.groups or request.exclude):
        first = tuple(one.id for one in request.among(await listed(client, request.filter)))
        campaigns, listing = len(first), client.stats.attempts - before
    elif request.campaigns is None:
        page = await client.campaigns.list(filter=request.filter).page(1)
        campaigns, listing, first = _total(page), page.total_pages or 1, tuple(one.id for one in page.items)
    reports: dict[Feed, int] = {feed: campaigns for feed in request.fetched_feeds if feed is not Feed.KEYWORD_BY_DATE}
    return _Missing(campaigns, first, reports, listing)


async def _estimate(
    client: SeoRepClient, request: Request, missing: _Missing, limit: int | None
) -> tuple[int, int | None, tuple[int, ...]]:
    """Estimate the requests from a page of each feed of the first campaign that answers; name it, and those skipped."""
    needed = {feed: count for feed, count in missing.reports.items() if count and feed is not Feed.KEYWORD_BY_DATE}
    keywords = missing.reports.get(Feed.KEYWORD_BY_DATE, 0)
    feeds: Any = {Feed.CAMPAIGN: client.rankings.campaign, Feed.CAMPAIGN_BY_DATE: client.rankings.campaign_by_date}
    skipped: tuple[int, ...] = ()
    for campaign_id in [one for one in missing.first if 1 <= one <= MAX_ID][:_TRIED]:
        try:
            dates = request.start_date, request.end_date
            pages = {feed: await feeds[feed](campaign_id, *dates, limit=limit).page(1) for feed in needed}
        except (StatusError, DecodeError, PaginationError) as error:
            if isinstance(error, AuthenticationError):
                raise
            skipped += (campaign_id,)  # in the pull, it would fail alone
            continue
        requests = keywords + sum(count * (pages[feed].total_pages or 1) for feed, count in needed.items())
        if Feed.KEYWORD_BY_DATE in request.feeds and Feed.CAMPAIGN in needed:
            requests += needed[Feed.CAMPAIGN] * _total(pages[Feed.CAMPAIGN])
        return missing.listing + requests, campaign_id, skipped
    return missing.listing + keywords + sum(needed.values()), None, skipped


def _total(page: Page[Any]) -> int:
    return page.total_records if page.total_records is not None else len(page.items)
