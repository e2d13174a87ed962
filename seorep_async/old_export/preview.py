"""A pull before it runs: its estimated requests, and the reports that an earlier run has staged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import AuthenticationError, DecodeError, ExportError, PaginationError, StatusError
from seorep_async.models import Feed, Page
from seorep_async.old_export.fetch import split_valid_ids
from seorep_async.old_export.formats import DamagedError
from seorep_async.old_export.lock import in_thread
from seorep_async.old_export.progress import StagedPull
from seorep_async.old_export.spec import EVERY_CAMPAIGN, PullSpec
from seorep_async.old_export.staging_area import staged_in
from seorep_async.old_export.targets import Target

_TRIED = 3


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
    """What a pull still has to fetch; `first` are the ids of the first campaigns with a missing report."""

    campaigns: int
    first: Sequence[int]
    reports: Mapping[Feed, int]
    without_keywords: int = 0
    keywords: int = 0
    listing: int = 0


async def preview(
    client: SeoRepClient, spec: PullSpec, target: Target | None, *, restart: bool = False, retry_failed: bool = False
) -> PullPreview:
    """Estimate a pull with a few requests: for the campaigns, and for each feed of one campaign."""
    staged, missing, files = None, None, () if target is None else tuple(target.row_files())
    if target is not None:
        await in_thread(partial(target.check, spec))
        if retry_failed and await in_thread(partial(target.has_nothing_to_retry, spec)):
            return PullPreview(files, 0, 0, None, (), None, resumes=False)
        staged, missing = await asyncio.to_thread(_look, target, spec, restart, retry_failed)
    needed = missing or await _full_pull(client, spec)
    estimate = await _estimate(client, spec, needed)
    return PullPreview(files, needed.campaigns, *estimate, staged, resumes=missing is not None)


def staged_pull(target: Target) -> StagedPull | None:
    """Return what an interrupted run into a target has staged; None also if a pull is at work on it."""
    try:
        with target.area().inspect() as checkpoint:
            staged = None if checkpoint is None else staged_in(checkpoint)
    except ExportError:  # the pull itself will raise it
        return None
    return None if staged is None or staged.ended else staged


def _look(
    target: Target, spec: PullSpec, restart: bool, retry_failed: bool
) -> tuple[StagedPull | None, _Missing | None]:
    """Return the pull staged by an earlier run, and the missing reports if the pull would resume it."""
    area = target.area()
    try:
        with area.inspect() as checkpoint:
            staged = None if checkpoint is None else staged_in(checkpoint)
            if checkpoint is None or restart or area.to_resume(checkpoint, spec, retry_failed=retry_failed) is None:
                return staged, None
            checkpoint.verify()
            if checkpoint.notes.planned is None:
                return staged, None
            missing = {feed: checkpoint.missing(feed) for feed in _of_campaigns(spec)}
            without = checkpoint.without_keywords() if Feed.KEYWORD_BY_DATE in spec.feeds else []
            reports, keywords = {feed: len(missing[feed]) for feed in missing}, checkpoint.missing(Feed.KEYWORD_BY_DATE)
            first = _first(chain(*missing.values(), without))
            return staged, _Missing(len(checkpoint.campaigns()), first, reports, len(without), len(keywords))
    except ExportError as error:
        if restart and isinstance(error.__cause__, DamagedError):
            return None, None  # it would be deleted unread
        raise


async def _full_pull(client: SeoRepClient, spec: PullSpec) -> _Missing:
    before = client.stats.attempts
    if spec.campaigns is not None:
        campaigns, first, listing = len(spec.campaigns), _first(spec.campaigns), 1  # for their names
    elif spec.choice == EVERY_CAMPAIGN:
        page = await client.campaigns.list().page(1)
        campaigns, listing = _total(page), page.total_pages or 1
        first = _first(campaign.id for campaign in page.items)
        if not campaigns:
            spec.choice.report_none()
    else:
        ids = {campaign.id: None async for campaign in spec.choice.campaigns(client)}
        campaigns, first, listing = len(ids), _first(ids), client.stats.attempts - before
    keywords = campaigns if Feed.KEYWORD_BY_DATE in spec.feeds else 0
    return _Missing(campaigns, first, dict.fromkeys(_of_campaigns(spec), campaigns), keywords, listing=listing)


async def _estimate(client: SeoRepClient, spec: PullSpec, missing: _Missing) -> tuple[int, int | None, tuple[int, ...]]:
    """Estimate the requests from a page of each feed of the first campaign that answers; name it, and those skipped."""
    needed = {feed: count for feed, count in missing.reports.items() if count}
    if missing.without_keywords:
        # keywords are found in the campaign feed, which is not fetched twice
        needed.setdefault(Feed.CAMPAIGN, missing.without_keywords)
    feeds: Any = {Feed.CAMPAIGN: client.rankings.campaign, Feed.CAMPAIGN_BY_DATE: client.rankings.campaign_by_date}
    days, limit = (spec.start_date, spec.end_date), spec.options.get("limit")
    skipped: tuple[int, ...] = ()
    for campaign_id in missing.first:
        try:
            pages = {feed: await feeds[feed](campaign_id, *days, limit=limit).page(1) for feed in needed}
        except (StatusError, DecodeError, PaginationError) as error:
            if isinstance(error, AuthenticationError):
                raise
            skipped += (campaign_id,)  # in the pull, it would fail alone
            continue
        requests = missing.keywords + sum(count * (pages[feed].total_pages or 1) for feed, count in needed.items())
        if missing.without_keywords:
            requests += missing.without_keywords * _total(pages[Feed.CAMPAIGN])
        return missing.listing + requests, campaign_id, skipped
    return missing.listing + missing.keywords + sum(needed.values()), None, skipped


def _total(page: Page[Any]) -> int:
    return page.total_records if page.total_records is not None else len(page.items)


def _of_campaigns(spec: PullSpec) -> list[Feed]:
    return [feed for feed in spec.feeds if feed is not Feed.KEYWORD_BY_DATE]


def _first(campaigns: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(split_valid_ids("campaign", campaigns)[0]))[:_TRIED]
