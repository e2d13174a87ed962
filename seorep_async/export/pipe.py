"""One feed of many campaigns as text, given out as it comes: for a pipe, which can't be gone on with."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from seorep_async.client import SeoRepClient
from seorep_async.errors import AuthenticationError, ConfigurationError
from seorep_async.export import csv_text
from seorep_async.export.errors import UNSTORABLE
from seorep_async.export.formats import Format, Unit, block_of, unstorable
from seorep_async.export.job import ExportJob
from seorep_async.export.progress import CampaignOutcome, OnProgress, ProgressTracker, PullFailure, PullSummary, Stage
from seorep_async.export.valid_ids import split_valid_ids
from seorep_async.models import Feed
from seorep_async.tables.columns import table_of


async def stream_rows(
    client: SeoRepClient,
    job: ExportJob,
    kind: Format,
    write: Callable[[bytes], Awaitable[object]],
    on_progress: OnProgress | None = None,
) -> PullSummary:
    """Pull one feed and give it out as text, in the order of the campaigns and their keywords.

    Totals and failures are not written; the summary tells of the failures.

    Args:
        client: an open client.
        job: what to pull; one feed.
        kind: CSV or JSON lines.
        write: takes the text, piece by piece; a slow one slows the pull.
        on_progress: is called with a `PullProgress` after every step.

    Raises:
        ConfigurationError: there are several feeds, or the format is no text; nothing was sent.
        AuthenticationError: the key was refused.
        SeoRepError: the account's campaigns could not be listed.
        OSError: `write` failed.
    """
    if len(job.feeds) != 1 or not kind.is_text:
        raise ConfigurationError("a stream holds one feed, as CSV or JSON lines; name a file for more")
    started, requests_before = time.monotonic(), client.stats.attempts
    (feed,) = job.feeds
    table, tally, rows = table_of(feed), ProgressTracker(on_progress), dict[int, int]()
    if kind is Format.CSV:
        await write(csv_text.header(table))
    if job.campaigns is None:
        tally.begin(Stage.LISTING, feed)
        campaigns = list(dict.fromkeys([campaign.id async for campaign in client.campaigns.list()]))
    else:
        campaigns = list(job.campaigns)
    good, wrong = split_valid_ids("campaign", campaigns)
    tally.failures += [PullFailure(feed, campaign_id, None, error) for campaign_id, error in wrong.items()]
    owners = {campaign_id: [campaign_id] for campaign_id in good}
    if feed is Feed.KEYWORD_BY_DATE:
        owners = await _keywords(client, job, good, tally)
        good, wrong = split_valid_ids("keyword", owners)
        tally.failures += [PullFailure(feed, owner, id_, wrong[id_]) for id_ in wrong for owner in owners[id_]]
    tally.begin(Stage.ROWS, feed, len(good))
    async with client.rankings.pull(
        good, job.start_date, job.end_date, feed=feed, ordered=True, **job.options
    ) as outcomes:
        async for outcome in outcomes:
            report = outcome.report
            if isinstance(outcome.error, AuthenticationError):
                raise outcome.error
            for campaign_id in owners[outcome.id]:
                error = outcome.error
                if report is not None:
                    try:
                        text = block_of(kind, table, [Unit(campaign_id, report)]).data
                    except UNSTORABLE as refused:
                        error = unstorable(kind, refused)
                    else:
                        await write(text)
                        rows[campaign_id] = rows.get(campaign_id, 0) + len(report.rows)
                        tally.rows += len(report.rows)
                if error is not None:
                    keyword_id = outcome.id if feed is Feed.KEYWORD_BY_DATE else None
                    tally.failures.append(PullFailure(feed, campaign_id, keyword_id, error))
            tally.step()
    return PullSummary(
        feeds=job.feeds,
        start_date=job.start_date,
        end_date=job.end_date,
        paths=(),
        outcomes=tuple(
            CampaignOutcome(
                campaign_id,
                {feed: rows[campaign_id]} if campaign_id in rows else {},
                tuple(failure for failure in tally.failures if failure.campaign_id == campaign_id),
            )
            for campaign_id in campaigns
        ),
        resumed=0,
        requests=client.stats.attempts - requests_before,
        seconds=time.monotonic() - started,
    )


async def _keywords(
    client: SeoRepClient, job: ExportJob, campaigns: list[int], tally: ProgressTracker
) -> dict[int, list[int]]:
    """Return keyword → the campaigns that it belongs to."""
    owners: dict[int, list[int]] = {}
    tally.begin(Stage.KEYWORDS, Feed.KEYWORD_BY_DATE, len(campaigns))
    async with client.rankings.pull(campaigns, job.start_date, job.end_date, ordered=True, **job.options) as outcomes:
        async for outcome in outcomes:
            if isinstance(outcome.error, AuthenticationError):
                raise outcome.error
            if outcome.report is not None:
                for row in outcome.report.rows:
                    owners.setdefault(row.keyword_id, []).append(outcome.id)
            elif outcome.error is not None:
                tally.failures.append(PullFailure(Feed.KEYWORD_BY_DATE, outcome.id, None, outcome.error))
            tally.step()
    return owners
