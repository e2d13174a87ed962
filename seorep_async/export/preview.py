"""A pull before it runs: its estimated requests, and the reports that an earlier run has staged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import AuthenticationError, DecodeError, ExportError, PaginationError, StatusError
from seorep_async.export.campaign_choice import EVERY_CAMPAIGN
from seorep_async.export.fetch import split_valid_ids
from seorep_async.export.progress import StagedPull
from seorep_async.export.spec import PullSpec
from seorep_async.export.staged_report import DamagedError
from seorep_async.export.staging_area import in_thread, staged_in
from seorep_async.export.targets import Target
from seorep_async.models import Feed, Page

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
    """The reports that a pull still has to fetch, in numbers.

    Attributes:
        campaigns: all of the pull.
        first: the ids of the first of them with a missing report.
        reports: missing ones, by feed of campaigns.
        without_keywords: campaigns whose keywords are still to be found, if they are wanted.
        keywords: known ones that lack their report.
        listing: requests for the list of campaigns.
    """

    campaigns: int
    first: Sequence[int]
    reports: Mapping[Feed, int]
    without_keywords: int = 0
    keywords: int = 0
    listing: int = 0


async def preview(
    client: SeoRepClient, spec: PullSpec, target: Target | None, *, restart: bool = False, retry_failed: bool = False
) -> PullPreview:
    """Estimate a pull with a few requests: for the campaigns, and for each feed of one campaign.

    A campaign that fails would fail alone in the pull, so the next one is tried.

    Raises:
        ConfigurationError: the pull would be refused; nothing was sent.
        ExportError: another pull is at work on it, the checkpoint is damaged, or the database is open elsewhere.
        AuthenticationError: the key was refused.
        SeoRepError: the account's campaigns could not be listed, or the service can't be reached.
    """
    staged, missing, files = None, None, () if target is None else tuple(target.row_files())
    if target is not None:
        await in_thread(target.check, spec)
        if retry_failed and await in_thread(target.has_nothing_to_retry, spec):
            return PullPreview(files, 0, 0, None, (), None, resumes=False)
        staged, missing = await asyncio.to_thread(_staged, target, spec, restart, retry_failed)
    needed = missing or await _full_pull(client, spec)
    requests, sampled, skipped = await _estimate(client, spec, needed)
    requests += needed.listing
    return PullPreview(files, needed.campaigns, requests, sampled, skipped, staged, resumes=missing is not None)


def _staged(
    target: Target, spec: PullSpec, restart: bool, retry_failed: bool
) -> tuple[StagedPull | None, _Missing | None]:
    """Return the pull staged by an earlier run, and the missing reports if the pull would resume it."""
    area = target.area()
    try:
        with area.inspect() as checkpoint:
            if checkpoint is None:
                return None, None
            staged = staged_in(checkpoint)
            if restart or not area.resumes(checkpoint, spec, retry_failed=retry_failed):
                return staged, None
            checkpoint.verify()
            if not checkpoint.planned:
                return staged, None
            reports = {feed: checkpoint.missing(feed) for feed in _of_campaigns(spec)}
            without_keywords = checkpoint.without_keywords() if Feed.KEYWORD_BY_DATE in spec.feeds else []
            return staged, _Missing(
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


async def _full_pull(client: SeoRepClient, spec: PullSpec) -> _Missing:
    """Return the reports that a pull from the start has to fetch."""
    before = client.stats.attempts
    if spec.campaigns is not None:
        campaigns, first, listing = len(spec.campaigns), _first(spec.campaigns), 1  # for their names
    elif spec.choice == EVERY_CAMPAIGN:
        page = await client.campaigns.list().page(1)
        campaigns = page.total_records if page.total_records is not None else len(page.items)
        first, listing = _first(campaign.id for campaign in page.items), page.total_pages or 1
        if not campaigns:
            spec.choice.report_none()
    else:
        ids = {campaign.id: None async for campaign in spec.choice.campaigns(client)}
        campaigns, first, listing = len(ids), _first(ids), client.stats.attempts - before
    without_keywords = campaigns if Feed.KEYWORD_BY_DATE in spec.feeds else 0
    reports = dict.fromkeys(_of_campaigns(spec), campaigns)
    return _Missing(campaigns, first, reports, without_keywords, listing=listing)


async def _estimate(client: SeoRepClient, spec: PullSpec, missing: _Missing) -> tuple[int, int | None, tuple[int, ...]]:
    """Estimate the requests for reports from a page of each feed of the first campaign that answers.

    Return them, that campaign, and those that were skipped.
    """
    needed = {feed: count for feed, count in missing.reports.items() if count}
    if missing.without_keywords:
        # keywords are found in the campaign feed, which is not fetched twice
        needed.setdefault(Feed.CAMPAIGN, missing.without_keywords)
    skipped: tuple[int, ...] = ()
    for campaign_id in missing.first:
        try:
            pages = {feed: await _page(client, spec, feed, campaign_id) for feed in needed}
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
        return requests, campaign_id, skipped
    return missing.keywords + sum(needed.values()), None, skipped


async def _page(client: SeoRepClient, spec: PullSpec, feed: Feed, campaign_id: int) -> Page[Any]:
    feeds = client.rankings.campaign if feed is Feed.CAMPAIGN else client.rankings.campaign_by_date
    return await feeds(campaign_id, spec.start_date, spec.end_date, limit=spec.options.get("limit")).page(1)


def _of_campaigns(spec: PullSpec) -> list[Feed]:
    return [feed for feed in spec.feeds if feed is not Feed.KEYWORD_BY_DATE]


def _first(campaigns: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(split_valid_ids("campaign", campaigns)[0]))[:_TRIED]
