"""What the service's answers look like, judged by the first campaign."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, TypeVar

import attrs

from seorep_async.cli.findings import Finding, Verdict
from seorep_async.client import SeoRepClient
from seorep_async.models import Page
from seorep_async.paging import Listing

T = TypeVar("T")


async def look_at_answers(client: SeoRepClient, first: dt.date, last: dt.date) -> AsyncIterator[Finding]:
    """Ask for a page of campaigns and of each feed, and tell shapes, rows, page sizes and unknown fields.

    Args:
        client: an open client.
        first: first day to ask the feeds for.
        last: last day.

    Raises:
        SeoRepError: the service did not answer one of these.
    """
    campaigns = await client.campaigns.list().page(1)
    yield Finding(Verdict.GOOD, "key", "it was accepted")
    yield Finding(Verdict.FACT, "campaigns", f"{_count(campaigns.total_records)}, {_pages(campaigns)}")
    for finding in _unknown("campaigns", campaigns.items):
        yield finding
    if not campaigns.items:
        yield Finding(Verdict.NOTE, "feeds", "the account has no campaign to look at")
        return
    campaign_id = campaigns.items[0].id
    rankings, envelope = await _page(client, client.rankings.campaign(campaign_id, first, last))
    for finding in _feed("campaign", f"campaign {campaign_id}", rankings, envelope):
        yield finding
    periods, envelope = await _page(client, client.rankings.campaign_by_date(campaign_id, first, last))
    for finding in _feed("campaign-by-date", f"campaign {campaign_id}", periods, envelope):
        yield finding
    if not rankings.items:
        yield Finding(Verdict.NOTE, "feeds", f"campaign {campaign_id} has no keyword to look at")
        return
    keyword_id = rankings.items[0].keyword_id
    dates, envelope = await _page(client, client.rankings.keyword_by_date(keyword_id, first, last))
    for finding in _feed("keyword-by-date", f"keyword {keyword_id}", dates, envelope):
        yield finding


async def _page(client: SeoRepClient, feed: Listing[T, Any]) -> tuple[Page[T], Any]:
    """Return page 1, and the data of its answer as it came: models don't tell in which shape."""
    with client.record_answers() as answers:
        page = await feed.page(1)
    return page, json.loads(answers[-1].body)["data"]


def _feed(name: str, subject: str, page: Page[Any], data: Any) -> Iterator[Finding]:
    rows = data if isinstance(data, list) else data.get("rows") or []
    facts = [
        f"{subject}: {_count(page.total_records)} rows",
        _pages(page),
        f"{'flat' if isinstance(data, list) else 'nested'} shape",
        f"{'older' if any('globalMonthlySearches' in row for row in rows) else 'current'} rows",
        "totals" if page.totals is not None else "no totals",
    ]
    yield Finding(Verdict.FACT, name, ", ".join(facts))
    yield from _unknown(name, page.items)
    if page.total_records is None or page.total_pages is None:
        yield Finding(Verdict.NOTE, name, "counts are not announced; pages are read until one is empty")


def _unknown(name: str, items: Iterable[Any]) -> Iterator[Finding]:
    """Tell which fields no model knows; they are kept in `extra`."""
    fields: Counter[str] = Counter()
    for item in items:
        fields.update(item.extra)
        for field in attrs.fields(type(item)):
            nested = getattr(item, field.name)
            if attrs.has(type(nested)):
                fields.update(f"{field.name}.{extra}" for extra in nested.extra)
    if fields:
        named = ", ".join(sorted(fields)[:10])
        yield Finding(Verdict.NOTE, name, f"fields that are not documented, kept in `extra`: {named}")


def _pages(page: Page[Any]) -> str:
    return f"{len(page.items)} on page 1 of {_count(page.total_pages)}"


def _count(number: int | None) -> str:
    return "an unknown number" if number is None else f"{number:,}"
