"""What a pull would ask for, and what an earlier run of it has left."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import AuthenticationError, DecodeError, PaginationError, StatusError
from seorep_async.export.database import check_database
from seorep_async.export.formats import Format
from seorep_async.export.job import ExportJob
from seorep_async.export.journal import Journal
from seorep_async.export.target import Target
from seorep_async.export.valid_ids import split_valid_ids
from seorep_async.export.work import journal_error, may_resume
from seorep_async.models import Feed, Page

_TRIED = 3


@attrs.frozen
class StagedPull:
    """What an earlier run has left beside a target.

    Attributes:
        begun: when it was begun, as ISO text.
        reports: reports that are durably kept.
        ended: whether it came to its end, with failures; else it was cut off.
    """

    begun: str
    reports: int
    ended: bool


@attrs.frozen
class PullPreview:
    """What a pull would do.

    Attributes:
        files: where it would write.
        campaigns: campaigns that it would ask for.
        requests: requests that it would still need, without retries, judged by one campaign.
        judged_by: that campaign, the first one that answers of those that are missing; or None if none was asked, or
            none answered: then each report counts as one page.
        unanswered: campaigns that were asked before it and did not answer.
        staged: what an earlier run has left, or None.
        resumes: whether it would go on with that, or else begin anew.
    """

    files: tuple[Path, ...]
    campaigns: int
    requests: int
    judged_by: int | None
    unanswered: tuple[int, ...]
    staged: StagedPull | None
    resumes: bool


@attrs.frozen
class _Missing:
    """What a pull has still to ask for.

    Attributes:
        campaigns: the campaigns that it is for.
        first: the first of them that something is missing of and that can be asked for.
        reports: for each feed of campaigns, how many reports are missing.
        without_keywords: campaigns whose keywords are to be found, if they are wanted.
        keywords: known keywords whose report is missing.
    """

    campaigns: int
    first: Sequence[int]
    reports: Mapping[Feed, int]
    without_keywords: int
    keywords: int


@attrs.frozen
class _Judgement:
    """How many requests are still needed, and by what that is judged; see `PullPreview`."""

    requests: int
    judged_by: int | None
    unanswered: tuple[int, ...]


def staged_pull(target: Target) -> StagedPull | None:
    """Look what an earlier run has left; None if nothing is there, or a pull is at work on it."""
    try:
        with _journal(target) as journal:
            return None if journal is None else _kept(journal)
    except sqlite3.Error:
        return None


def resumable_pull(target: Target, job: ExportJob, *, restart: bool, retry_failed: bool) -> StagedPull | None:
    """Look what an earlier run has left that a pull would go on with; None also if a pull is at work on it.

    Raises:
        ConfigurationError: it was begun otherwise, or with another key.
    """
    try:
        with _journal(target) as journal:
            if journal is None or not may_resume(journal, target, job, restart=restart, retry_failed=retry_failed):
                return None
            return _kept(journal)
    except sqlite3.Error:
        return None


async def preview(
    client: SeoRepClient, job: ExportJob, target: Target | None, *, restart: bool = False, retry_failed: bool = False
) -> PullPreview:
    """Tell what a pull would ask for, by a handful of requests: one for the campaigns, one for each feed of one.

    One that does not answer would only fail alone in the pull, so the next one is asked.

    Args:
        client: an open client.
        job: what would be pulled.
        target: where to, or None for no file.
        restart: see `pull_to`.
        retry_failed: likewise.

    Raises:
        ConfigurationError: the pull would be refused; nothing was sent.
        ExportError: another pull is at work on it, the work kept is damaged, or the database is open elsewhere.
        AuthenticationError: the key was refused.
        SeoRepError: the account's campaigns could not be listed, or the service can't be reached.
    """
    staged, missing, requests = None, None, 0
    if target is not None:
        if target.format is Format.DUCKDB:
            await asyncio.to_thread(check_database, target)
        staged, missing = await asyncio.to_thread(_left, target, job, restart, retry_failed)
    resumes = missing is not None
    if missing is None:
        missing, requests = await _everything(client, job)
    judgement = await _judge(client, job, missing)
    return PullPreview(
        files=tuple(dict.fromkeys(target.as_named(target.rows(feed)) for feed in job.feeds)) if target else (),
        campaigns=missing.campaigns,
        requests=requests + judgement.requests,
        judged_by=judgement.judged_by,
        unanswered=judgement.unanswered,
        staged=staged,
        resumes=resumes,
    )


def _left(
    target: Target, job: ExportJob, restart: bool, retry_failed: bool
) -> tuple[StagedPull | None, _Missing | None]:
    """Return what an earlier run has left, and what is missing of it if the pull would go on with it."""
    try:
        with _journal(target) as journal:
            if journal is None:
                return None, None
            resumes = may_resume(journal, target, job, restart=restart, retry_failed=retry_failed)
            if not resumes or not journal.read("planned"):
                return _kept(journal), None
            reports = {feed: journal.missing(feed) for feed in _of_campaigns(job)}
            without_keywords = journal.without_keywords() if Feed.KEYWORD_BY_DATE in job.feeds else []
            return _kept(journal), _Missing(
                campaigns=len(journal.campaigns()),
                first=_first(chain(*reports.values(), without_keywords)),
                reports={feed: len(missing) for feed, missing in reports.items()},
                without_keywords=len(without_keywords),
                keywords=len(journal.missing(Feed.KEYWORD_BY_DATE)),
            )
    except sqlite3.Error as error:
        if restart and not isinstance(error, sqlite3.OperationalError):
            return None, None
        raise journal_error(target, error) from error


@contextlib.contextmanager
def _journal(target: Target) -> Iterator[Journal | None]:
    path = target.work_folder / "journal"
    if not path.exists():
        yield None
        return
    with contextlib.closing(Journal(path)) as journal:
        yield journal


def _kept(journal: Journal) -> StagedPull | None:
    begun = journal.read("begun")
    if begun is None or journal.is_empty():
        return None
    return StagedPull(begun, sum(journal.counts(feed)[0] for feed in Feed), bool(journal.read("ended")))


async def _everything(client: SeoRepClient, job: ExportJob) -> tuple[_Missing, int]:
    """Return what a pull has to ask for that begins anew, and how many requests it needs to know the campaigns."""
    if job.campaigns is None:
        page = await client.campaigns.list().page(1)
        campaigns = page.total_records if page.total_records is not None else len(page.items)
        first, requests = _first(campaign.id for campaign in page.items), page.total_pages or 1
    else:
        campaigns, first, requests = len(job.campaigns), _first(job.campaigns), 0
    without_keywords = campaigns if Feed.KEYWORD_BY_DATE in job.feeds else 0
    return _Missing(campaigns, first, dict.fromkeys(_of_campaigns(job), campaigns), without_keywords, 0), requests


async def _judge(client: SeoRepClient, job: ExportJob, missing: _Missing) -> _Judgement:
    """Return how many requests are still needed, by asking for a page of each feed of the first that answers."""
    needed = {feed: count for feed, count in missing.reports.items() if count}
    if Feed.KEYWORD_BY_DATE in job.feeds and missing.without_keywords:
        # keywords are found in the feed of the campaigns' rows, which is not asked for twice
        needed.setdefault(Feed.CAMPAIGN, missing.without_keywords)
    unanswered: tuple[int, ...] = ()
    for campaign_id in missing.first:
        try:
            pages = {feed: await _page(client, job, feed, campaign_id) for feed in needed}
        except AuthenticationError:
            raise
        except (StatusError, DecodeError, PaginationError):
            unanswered += (campaign_id,)
            continue
        requests = missing.keywords + sum(count * (pages[feed].total_pages or 1) for feed, count in needed.items())
        if missing.without_keywords:
            found = pages[Feed.CAMPAIGN]
            keywords = found.total_records if found.total_records is not None else len(found.items)
            requests += missing.without_keywords * keywords
        return _Judgement(requests, campaign_id, unanswered)
    return _Judgement(missing.keywords + sum(needed.values()), None, unanswered)


async def _page(client: SeoRepClient, job: ExportJob, feed: Feed, campaign_id: int) -> Page[Any]:
    feeds = client.rankings.campaign if feed is Feed.CAMPAIGN else client.rankings.campaign_by_date
    return await feeds(campaign_id, job.start_date, job.end_date, limit=job.options.get("limit")).page(1)


def _of_campaigns(job: ExportJob) -> list[Feed]:
    return [feed for feed in job.feeds if feed is not Feed.KEYWORD_BY_DATE]


def _first(campaigns: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(split_valid_ids("campaign", campaigns)[0]))[:_TRIED]
