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
from seorep_async.export.fetch import listed
from seorep_async.export.pull_to import at_target
from seorep_async.export.request import Plan, PullOptions, Request
from seorep_async.export.staging import StagedPull
from seorep_async.models import Feed, Page
from seorep_async.resources.arguments import MAX_ID

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
    request = Request.of(client, ids, (start_date, end_date), options)
    files: tuple[Path, ...] = ()
    plan, staged = Plan(), None
    if out is not None:
        how: Any = {"restart": restart, "retry_failed": retry_failed, "force": force, "only_look": True}
        async with at_target(out, request, options, **how) as (run, target, staging):
            request, plan, staged = staging.request, staging.plan, staging.found
            files = tuple(target.row_files(request))
            missing = {feed: await run(staging.missing, feed) for feed in request.fetched_feeds}
    if plan.ids:
        first: Sequence[int] = [
            id_ for feed, some in missing.items() if feed is not Feed.KEYWORD_BY_DATE for id_ in some
        ]
        campaigns, listing = len(plan.ids), 0
        reports = {feed: len(some) for feed, some in missing.items()}
    else:
        first, campaigns, listing = await _find_campaigns(client, request)
        reports = {feed: campaigns for feed in request.fetched_feeds if feed is not Feed.KEYWORD_BY_DATE}
    estimate = await _estimate(client, request, reports, first, options.get("limit"))
    return PullPreview(files, campaigns, listing + estimate[0], *estimate[1:], staged, bool(plan.ids))


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
    async with at_target(out, request, options, only_look=True) as (_, _, staging):
        return staging.found


async def _find_campaigns(client: SeoRepClient, request: Request) -> tuple[Sequence[int], int, int]:
    """Return the ids of campaigns to pull, at least the first, how many there are, and the requests to find them."""
    if request.campaigns is not None:
        return request.campaigns, len(request.campaigns), min(1, len(request.campaigns))  # for their names
    if not request.groups and not request.exclude:
        page = await client.campaigns.list(filter=request.filter).page(1)
        return [one.id for one in page.items], _total(page), page.total_pages or 1
    before = client.stats.attempts
    chosen = request.among(await listed(client, request.filter))
    return [one.id for one in chosen], len(chosen), client.stats.attempts - before


async def _estimate(
    client: SeoRepClient, request: Request, reports: Mapping[Feed, int], ids: Sequence[int], limit: int | None
) -> tuple[int, int | None, tuple[int, ...]]:
    """Estimate the requests from a page of each feed of the first campaign that answers; name it, and those skipped."""
    needed = {feed: count for feed, count in reports.items() if count and feed is not Feed.KEYWORD_BY_DATE}
    keywords = reports.get(Feed.KEYWORD_BY_DATE, 0)
    feeds: Any = {Feed.CAMPAIGN: client.rankings.campaign, Feed.CAMPAIGN_BY_DATE: client.rankings.campaign_by_date}
    skipped: tuple[int, ...] = ()
    for campaign_id in [one for one in ids if 1 <= one <= MAX_ID][:_TRIED]:
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
        return requests, campaign_id, skipped
    return keywords + sum(needed.values()), None, skipped


def _total(page: Page[Any]) -> int:
    return page.total_records if page.total_records is not None else len(page.items)
