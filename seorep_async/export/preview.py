"""What a pull would ask for, and what an earlier run of it has left."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.export.journal import Journal
from seorep_async.export.order import Order
from seorep_async.export.target import Target
from seorep_async.models import Feed, Page


@attrs.frozen
class KeptWork:
    """What an earlier run has left beside a target.

    Attributes:
        begun: when it was begun, as ISO text.
        reports: reports that are durably kept.
        ended: whether it came to its end, with failures; else it was cut off.
        campaigns: campaigns that it asked for, or None if it did not get to know them.
    """

    begun: str
    reports: int
    ended: bool
    campaigns: int | None


@attrs.frozen
class PullPreview:
    """What a pull would do.

    Attributes:
        files: where it would write.
        campaigns: campaigns that it would ask for.
        requests: requests that it would need without retries, judged by its first campaign.
        kept: what an earlier run has left, or None.
    """

    files: tuple[Path, ...]
    campaigns: int
    requests: int
    kept: KeptWork | None


def kept_work(target: Target) -> KeptWork | None:
    """Look what an earlier run has left; None if nothing is there, or a pull is at work on it."""
    path = target.work_folder / "journal"
    if not path.exists():
        return None
    try:
        journal = Journal(path)
    except sqlite3.Error:
        return None
    try:
        reports = sum(journal.counts(feed)[0] for feed in Feed)
        begun = journal.read("begun")
        if begun is None or journal.is_empty():
            return None
        campaigns = len(journal.campaigns()) if journal.read("planned") else None
        return KeptWork(begun, reports, bool(journal.read("ended")), campaigns)
    except sqlite3.Error:
        return None
    finally:
        journal.close()


async def preview(client: SeoRepClient, order: Order, target: Target | None) -> PullPreview:
    """Tell what a pull would ask for, by a handful of requests: one for the campaigns, one for each feed of the first.

    Args:
        client: an open client.
        order: what would be pulled.
        target: where to, or None for no file.

    Raises:
        SeoRepError: the service did not answer that.
    """
    limit, listing_requests = order.options.get("limit"), 0
    if order.campaigns is None:
        page = await client.campaigns.list().page(1)
        campaigns = page.total_records if page.total_records is not None else len(page.items)
        listing_requests = page.total_pages or 1
        first = page.items[0].id if page.items else None
    else:
        campaigns = len(order.campaigns)
        first = order.campaigns[0] if order.campaigns else None
    each = 0
    if first is not None:
        asked = {feed for feed in order.feeds if feed is not Feed.KEYWORD_BY_DATE}
        if Feed.KEYWORD_BY_DATE in order.feeds:
            asked.add(Feed.CAMPAIGN)
        for feed in sorted(asked, key=lambda feed: feed.value):
            feeds = client.rankings.campaign if feed is Feed.CAMPAIGN else client.rankings.campaign_by_date
            found: Page[object] = await feeds(first, order.start_date, order.end_date, limit=limit).page(1)  # type: ignore[assignment]
            each += found.total_pages or 1
            if feed is Feed.CAMPAIGN and Feed.KEYWORD_BY_DATE in order.feeds:
                each += found.total_records if found.total_records is not None else len(found.items)
    return PullPreview(
        files=()
        if target is None
        else tuple(dict.fromkeys(target.as_named(target.rows(feed)) for feed in order.feeds)),
        campaigns=campaigns,
        requests=listing_requests + campaigns * each,
        kept=None if target is None else kept_work(target),
    )
