"""A pull before it runs: its estimated requests, and the reports that an earlier run has staged."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import AuthenticationError, DecodeError, ExportError, PaginationError, SeoRepError, StatusError
from seorep_async.export.campaign_choice import EVERY_CAMPAIGN
from seorep_async.export.checkpoint import Checkpoint
from seorep_async.export.dataset import last_night_was_whole
from seorep_async.export.existing_database import check_database, last_pull_was_whole
from seorep_async.export.fetch import split_valid_ids
from seorep_async.export.formats import Format
from seorep_async.export.job import ExportJob
from seorep_async.export.staged_report import DamagedError
from seorep_async.export.staging_area import StagingArea, in_thread
from seorep_async.export.target import DatasetTarget, Target
from seorep_async.models import Feed, Page
from seorep_async.tables.declared import failures_table

_TRIED = 3


@attrs.frozen
class StagedPull:
    """The number of reports that an earlier run has staged, and its start in ISO format.

    It `ended` with failures, or else was interrupted.
    """

    started_at: str
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

    files: tuple[Path | str, ...]
    campaigns: int
    requests: int
    sampled: int | None
    skipped: tuple[int, ...]
    staged: StagedPull | None
    resumes: bool


@attrs.frozen
class _Missing:
    """The reports that a pull still has to fetch, in numbers.

    Attributes:
        campaigns: all of the pull.
        first: the ids of the first of them with a missing report.
        reports: missing ones, by feed of campaigns.
        without_keywords: campaigns whose keywords are still to be found, if they are wanted.
        keywords: known ones that lack their report.
    """

    campaigns: int
    first: Sequence[int]
    reports: Mapping[Feed, int]
    without_keywords: int
    keywords: int


@attrs.frozen
class _Estimate:
    """The number of requests still needed, and the campaigns behind this estimate; see `PullPreview`."""

    requests: int
    sampled: int | None
    skipped: tuple[int, ...]


def has_nothing_to_retry(target: Target, job: ExportJob, check: Callable[[], None]) -> bool:
    """Return whether nothing is staged of a job, and its target has a pull of it and no failure."""
    if os.path.lexists(target.staging_folder):
        return False
    if isinstance(target, DatasetTarget):
        return last_night_was_whole(target.storage, job)
    if target.format is Format.DUCKDB:
        return last_pull_was_whole(target, job, check)
    failures = (file for file, table in target.sidecar_files() if table is failures_table())
    return target.exists() and not any(file.exists() for file in failures)


def staged_pull(target: Target) -> StagedPull | None:
    """Return the pull that an earlier run has staged; None if there is none, or a pull is at work on it."""
    try:
        with StagingArea(target).inspect() as checkpoint:
            return None if checkpoint is None else _staged(checkpoint)
    except SeoRepError:
        return None


def resumable_pull(target: Target, job: ExportJob, *, restart: bool, retry_failed: bool) -> StagedPull | None:
    """Return the staged pull that a pull would resume; None also if a pull is at work on it.

    ConfigurationError: it is of another job or another key, or the folder may be another user's.
    """
    if restart:
        return None
    try:
        with StagingArea(target).inspect() as checkpoint:
            if checkpoint is None or not job.resumes(checkpoint, target, retry_failed=retry_failed):
                return None
            return _staged(checkpoint)
    except ExportError:  # the pull itself will raise it
        return None


async def preview(
    client: SeoRepClient, job: ExportJob, target: Target | None, *, restart: bool = False, retry_failed: bool = False
) -> PullPreview:
    """Estimate a pull with a few requests: for the campaigns, and for each feed of one campaign.

    A campaign that fails would fail alone in the pull, so the next one is tried.

    Raises:
        ConfigurationError: the pull would be refused; nothing was sent.
        ExportError: another pull is at work on it, the checkpoint is damaged, or the database is open elsewhere.
        AuthenticationError: the key was refused.
        SeoRepError: the account's campaigns could not be listed, or the service can't be reached.
    """
    staged, missing, requests = None, None, 0
    if target is not None and target.format is Format.DUCKDB:
        await in_thread(check_database, target, job)
    if target is not None and retry_failed and await in_thread(has_nothing_to_retry, target, job):
        return PullPreview(target.named_row_files(), 0, 0, None, (), None, resumes=False)
    if target is not None:
        staged, missing = await asyncio.to_thread(_look, target, job, restart, retry_failed)
    resumes = missing is not None
    if missing is None:
        missing, requests = await _full_pull(client, job)
    estimate = await _estimate(client, job, missing)
    return PullPreview(
        files=target.named_row_files() if target else (),
        campaigns=missing.campaigns,
        requests=requests + estimate.requests,
        sampled=estimate.sampled,
        skipped=estimate.skipped,
        staged=staged,
        resumes=resumes,
    )


def _look(
    target: Target, job: ExportJob, restart: bool, retry_failed: bool
) -> tuple[StagedPull | None, _Missing | None]:
    """Return the pull staged by an earlier run, and the missing reports if the pull would resume it."""
    try:
        with StagingArea(target).inspect() as checkpoint:
            if checkpoint is None:
                return None, None
            if restart or not job.resumes(checkpoint, target, retry_failed=retry_failed):
                return _staged(checkpoint), None
            checkpoint.verify()
            if not checkpoint.planned:
                return _staged(checkpoint), None
            reports = {feed: checkpoint.missing(feed) for feed in _of_campaigns(job)}
            without_keywords = checkpoint.without_keywords() if Feed.KEYWORD_BY_DATE in job.feeds else []
            return _staged(checkpoint), _Missing(
                campaigns=len(checkpoint.campaigns()),
                first=_first(chain(*reports.values(), without_keywords)),
                reports={feed: len(missing) for feed, missing in reports.items()},
                without_keywords=len(without_keywords),
                keywords=len(checkpoint.missing(Feed.KEYWORD_BY_DATE)),
            )
    except ExportError as error:
        if restart and isinstance(error.__cause__, DamagedError):
            return None, None  # it would be deleted unread
        raise


def _staged(checkpoint: Checkpoint) -> StagedPull | None:
    started_at = checkpoint.read("begun")
    if started_at is None or checkpoint.is_empty():
        return None
    return StagedPull(started_at, sum(checkpoint.counts(feed)[0] for feed in Feed), bool(checkpoint.read("ended")))


async def _full_pull(client: SeoRepClient, job: ExportJob) -> tuple[_Missing, int]:
    """Return the reports that a pull from the start has to fetch, and the requests for the list of campaigns."""
    if job.campaigns is None and job.choice != EVERY_CAMPAIGN:
        before = client.stats.attempts
        ids = list(dict.fromkeys([campaign.id async for campaign in job.choice.campaigns(client)]))
        campaigns, first, requests = len(ids), _first(ids), client.stats.attempts - before
    elif job.campaigns is None:
        page = await client.campaigns.list().page(1)
        campaigns = page.total_records if page.total_records is not None else len(page.items)
        first, requests = _first(campaign.id for campaign in page.items), page.total_pages or 1
        if not campaigns:
            job.choice.report_none()
    else:
        campaigns, first, requests = len(job.campaigns), _first(job.campaigns), 1  # for their names
    without_keywords = campaigns if Feed.KEYWORD_BY_DATE in job.feeds else 0
    return _Missing(campaigns, first, dict.fromkeys(_of_campaigns(job), campaigns), without_keywords, 0), requests


async def _estimate(client: SeoRepClient, job: ExportJob, missing: _Missing) -> _Estimate:
    """Estimate the requests still needed from a page of each feed of the first campaign that answers."""
    needed = {feed: count for feed, count in missing.reports.items() if count}
    if Feed.KEYWORD_BY_DATE in job.feeds and missing.without_keywords:
        # keywords are found in the campaign feed, which is not fetched twice
        needed.setdefault(Feed.CAMPAIGN, missing.without_keywords)
    skipped: tuple[int, ...] = ()
    for campaign_id in missing.first:
        try:
            pages = {feed: await _page(client, job, feed, campaign_id) for feed in needed}
        except AuthenticationError:
            raise
        except (StatusError, DecodeError, PaginationError):
            skipped += (campaign_id,)
            continue
        requests = missing.keywords + sum(count * (pages[feed].total_pages or 1) for feed, count in needed.items())
        if missing.without_keywords:
            found = pages[Feed.CAMPAIGN]
            keywords = found.total_records if found.total_records is not None else len(found.items)
            requests += missing.without_keywords * keywords
        return _Estimate(requests, campaign_id, skipped)
    return _Estimate(missing.keywords + sum(needed.values()), None, skipped)


async def _page(client: SeoRepClient, job: ExportJob, feed: Feed, campaign_id: int) -> Page[Any]:
    feeds = client.rankings.campaign if feed is Feed.CAMPAIGN else client.rankings.campaign_by_date
    return await feeds(campaign_id, job.start_date, job.end_date, limit=job.options.get("limit")).page(1)


def _of_campaigns(job: ExportJob) -> list[Feed]:
    return [feed for feed in job.feeds if feed is not Feed.KEYWORD_BY_DATE]


def _first(campaigns: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(split_valid_ids("campaign", campaigns)[0]))[:_TRIED]
