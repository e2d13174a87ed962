"""The requests that an export sends before it fetches reports, and those of an estimate."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import islice
from typing import Any

from seorep_async.client import SeoRepClient
from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    ConnectionFailedError,
    DecodeError,
    PaginationError,
    SeoRepError,
    StatusError,
)
from seorep_async.export.request import ExportRequest, Plan
from seorep_async.key_check import QUESTION_SECONDS, KeyCheck
from seorep_async.models import Campaign, Feed, Page
from seorep_async.paging import Listing
from seorep_async.pull import MAX_REPULLS
from seorep_async.resources.arguments import VALID_IDS
from seorep_async.resources.rankings import FeedOptions
from seorep_async.session import cancel_all

_MOST_SAMPLES = 3
"""The maximum number of campaigns to try as samples, until the service returns one."""
_MAY_FAIL_ALONE = (StatusError, DecodeError, PaginationError)
"""Errors that may concern only one campaign, except those that `concerns_all` finds."""


def concerns_all(error: SeoRepError) -> bool:
    """Return whether an error would end the whole pull.

    That is a refused key (401), a closed client or a wrong argument; a 403 may be about one
    campaign.
    """
    if isinstance(error, AuthenticationError):
        return error.status == 401
    return isinstance(error, ConfigurationError)


async def list_campaigns(client: SeoRepClient, filter: str | None = None) -> list[Campaign]:
    """List the campaigns. A PaginationError means that the list changed while it was read.

    The list is then read again, up to three times. The call timeout limits each request, not the
    whole list.
    """
    for _ in range(MAX_REPULLS):
        with suppress(PaginationError):
            return await client.campaigns.list(filter=filter).fetch_patiently()
    return await client.campaigns.list(filter=filter).fetch_patiently()


async def list_selected(client: SeoRepClient, request: ExportRequest) -> list[Campaign]:
    """List the campaigns that a request's groups, filter and exclusions select."""
    return request.select(await list_campaigns(client, request.filter))


async def requested_ids(
    client: SeoRepClient,
    request: ExportRequest,
    check_accounts: Callable[[Sequence[int]], object] | None = None,
) -> tuple[int, ...]:
    """Return the ids that a request names, or the ids of the campaigns that it selects.

    `check_accounts` gets the accounts that own the selected campaigns, and may raise an error.
    """
    if request.campaigns is not None:
        return request.campaigns
    campaigns = await list_selected(client, request)
    plan = Plan.of((campaign.id for campaign in campaigns), campaigns)
    if check_accounts is not None and campaigns:
        await asyncio.to_thread(check_accounts, plan.account_ids)
    return plan.ids


async def look_up(
    client: SeoRepClient, ids: Sequence[int]
) -> tuple[list[Campaign], SeoRepError | None]:
    """Return the campaigns with these ids, and the last error if any could not be fetched.

    They are read from the list of all campaigns. If the list has more pages than there are ids,
    each campaign is fetched by itself.

    Raises:
        SeoRepError: the key was refused, or the service can't be reached at all.
    """
    try:
        page = await client.campaigns.list().first_page()
        # this page is the whole list
        if page.total_pages == 1:
            return _among(page.items, ids), None
        # if the number of pages is unknown, the list is read
        if (page.total_pages or 0) <= len(ids):
            return _among(await list_campaigns(client), ids), None
    except SeoRepError as error:
        # in an outage, all reports would fail as well, one after the other, so the pull ends here
        if concerns_all(error) or isinstance(error, ConnectionFailedError):
            raise
        return [], error
    return await _get_each(client, ids)


def _among(campaigns: Iterable[Campaign], ids: Sequence[int]) -> list[Campaign]:
    """Return the campaigns that have one of the wanted ids."""
    wanted_ids = frozenset(ids)
    return [campaign for campaign in campaigns if campaign.id in wanted_ids]


async def _get_each(
    client: SeoRepClient, ids: Sequence[int]
) -> tuple[list[Campaign], SeoRepError | None]:
    """Get each campaign, several in parallel. Raise as soon as the service refuses the key."""

    async def request_one_campaign() -> object:
        with client.timeout(QUESTION_SECONDS):
            return await client.campaigns.list(limit=1).page(1)

    # after several 403s in a row, the check asks whether the service still accepts the key
    key = KeyCheck(request_one_campaign)
    remaining_ids = iter(ids)
    campaigns = {}
    last_error: SeoRepError | None = None

    async def get_remaining() -> None:
        """Get campaigns until no id is left. The workers share `remaining_ids`.

        A campaign that can't be fetched is left out, and its error becomes `last_error`.
        """
        nonlocal last_error
        for campaign_id in remaining_ids:
            await key.require_good_key()
            try:
                campaigns[campaign_id] = await client.campaigns.get(campaign_id)
                key.accept()
            except AuthenticationError as error:
                # At most this many requests of other workers are in flight. They may have been
                # accepted before the key was revoked, so their success will not prove it good.
                await key.refuse(error, other_requests=len(workers) - 1)
                last_error = error
            except SeoRepError as error:
                if concerns_all(error):
                    raise
                last_error = error
        # another worker may still be asking whether the key is good
        await key.require_good_key()

    workers = [asyncio.create_task(get_remaining()) for _ in range(client.settings.max_concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        await cancel_all(workers)
    in_order = [campaigns[campaign_id] for campaign_id in ids if campaign_id in campaigns]
    return in_order, last_error


async def refuse_future_period(
    client: SeoRepClient,
    request: ExportRequest,
    options: FeedOptions,
    campaign_ids: Sequence[int],
) -> None:
    """Refuse a period in the future, unless the service has rows of it.

    Otherwise empty reports would replace the rows of the target.
    """
    # in some time zones it is already tomorrow
    tomorrow = client.now().date() + dt.timedelta(1)
    if request.start_date <= tomorrow:
        return
    feed = Feed.CAMPAIGN
    if Feed.CAMPAIGN_BY_DATE in request.feeds:
        feed = Feed.CAMPAIGN_BY_DATE
    has_answer = False
    async with aclosing(_samples(client, request, campaign_ids, [feed], options)) as samples:
        async for _, pages in samples:
            # the service's clock may differ, or the service may have forecasts
            if pages[feed].items or pages[feed].total_records:
                return
            has_answer = True
    # without an answer, nothing is known about the period
    if has_answer:
        raise ConfigurationError(
            f"start_date {request.start_date} is in the future, and the service has no rows of it; "
            "name an earlier period",
            argument="start_date",
        )


async def estimate(
    client: SeoRepClient,
    request: ExportRequest,
    missing: Mapping[Feed, Collection[int]],
    limit: int | None,
) -> tuple[int, int | None]:
    """Estimate the requests of a pull from the first page of each feed of one campaign.

    Each missing report counts as one request. The further pages of the sampled campaign are added
    once for each missing report of the same feed. Keyword-by-date is not sampled, so each of its
    reports counts as one request.

    Args:
        missing: the ids of the reports still to fetch, by feed. They are ids of keywords for
            keyword-by-date, and of campaigns for the other feeds.
        limit: the page size that the caller gave, or None.

    Returns:
        The number of requests, and the id of the sampled campaign, or None if no campaign could be
        sampled.
    """
    sampled_feeds: dict[Feed, Collection[int]] = {
        feed: ids for feed, ids in missing.items() if ids and feed is not Feed.KEYWORD_BY_DATE
    }
    requests = sum(map(len, missing.values()))
    # the service may list an invalid id, which can't be requested
    candidates = dict.fromkeys(
        id_ for ids in sampled_feeds.values() for id_ in ids if id_ in VALID_IDS
    )
    samples = _samples(client, request, candidates, sampled_feeds, {"limit": limit})
    async with aclosing(samples):
        sample = await anext(samples, None)
    if sample is None:
        return requests, None
    campaign_id, pages = sample
    for feed, page in pages.items():
        further_requests = (page.total_pages or 1) - 1
        # If a campaign's own report is missing, its keywords are not known yet, so `missing` lacks
        # them. The campaign is assumed to have as many keywords as the sampled one, and each takes
        # one more request.
        if feed is Feed.CAMPAIGN and Feed.KEYWORD_BY_DATE in request.feeds:
            further_requests += _keyword_count(page)
        requests += len(sampled_feeds[feed]) * further_requests
    return requests, campaign_id


def _keyword_count(page: Page[Any]) -> int:
    return len(page.items) if page.total_records is None else page.total_records


async def _samples(
    client: SeoRepClient,
    request: ExportRequest,
    campaign_ids: Iterable[int],
    feeds: Iterable[Feed],
    options: FeedOptions,
) -> AsyncGenerator[tuple[int, dict[Feed, Page[Any]]], None]:
    """Request the first page of each feed for the first `_MOST_SAMPLES` campaigns.

    Yield the id and the pages of each campaign for which all requests succeed.
    """
    dates = (request.start_date, request.end_date)
    # Keyword-by-date is never sampled, because its ids are keywords, not campaigns.
    listing_of: dict[Feed, Callable[..., Listing[Any, Any]]] = {
        Feed.CAMPAIGN: client.rankings.campaign,
        Feed.CAMPAIGN_BY_DATE: client.rankings.campaign_by_date,
    }
    for campaign_id in islice(campaign_ids, _MOST_SAMPLES):
        try:
            pages = {
                feed: await listing_of[feed](campaign_id, *dates, **options).first_page()
                for feed in feeds
            }
        except _MAY_FAIL_ALONE as error:
            if concerns_all(error):
                raise
            continue
        yield campaign_id, pages
