"""Which reports a pull still needs, asked for in parallel, and kept as they finish."""

from __future__ import annotations

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import AuthenticationError, SeoRepError
from seorep_async.export.job import ExportJob
from seorep_async.export.progress import ProgressTracker, PullFailure, Stage
from seorep_async.export.staging import StagingWriter
from seorep_async.export.valid_ids import split_valid_ids
from seorep_async.export.work import Arrived, Work
from seorep_async.models import Feed


@attrs.frozen
class Fetcher:
    """The asking part of a pull.

    Args:
        client: an open client.
        job: what is wanted.
        work: what is there already.
        shelf: where reports go.
        tally: is told of stages, steps and failures.
    """

    client: SeoRepClient
    job: ExportJob
    work: Work
    shelf: StagingWriter
    tally: ProgressTracker

    async def run(self) -> None:
        """Fetch every report that is not there yet.

        Raises:
            AuthenticationError: the key was refused; what came before is kept.
            SeoRepError: the account's campaigns could not be listed.
            ExportError: what came could not be kept.
        """
        if not await self.shelf.do(lambda: self.work.planned):
            await self.shelf.do(self.work.plan, await self._campaigns())
        journal, feeds = self.work.journal, self.job.feeds
        self.tally.rows = sum([(await self.shelf.do(journal.counts, feed))[1] for feed in feeds])
        wants_keywords = Feed.KEYWORD_BY_DATE in feeds
        for feed in feeds:
            if feed is not Feed.KEYWORD_BY_DATE:
                missing = await self.shelf.do(journal.missing, feed)
                await self._fetch(feed, missing, keywords=wants_keywords and feed is Feed.CAMPAIGN)
        if wants_keywords:
            if Feed.CAMPAIGN not in feeds:
                await self._find_keywords()
            self._fail_without_keywords(set(await self.shelf.do(journal.without_keywords)))
            await self._fetch(Feed.KEYWORD_BY_DATE, await self.shelf.do(journal.missing, Feed.KEYWORD_BY_DATE))

    async def _campaigns(self) -> list[int]:
        if self.job.campaigns is not None:
            return list(self.job.campaigns)
        self.tally.begin(Stage.LISTING, self.job.feeds[0])
        return list(dict.fromkeys([campaign.id async for campaign in self.client.campaigns.list()]))

    async def _find_keywords(self) -> None:
        # all are found first, and only their ids kept: one pull over all of them keeps every permit busy, where one
        # for each campaign would drain at each one's end
        missing = await self.shelf.do(self.work.journal.without_keywords)
        await self._fetch(Feed.CAMPAIGN, missing, keywords=True, stage=Stage.KEYWORDS)

    def _fail_without_keywords(self, campaigns: set[int]) -> None:
        """Tell that keywords are missing whose campaign's own report failed."""
        for failure in list(self.tally.failures):
            if failure.campaign_id in campaigns and failure.feed is Feed.CAMPAIGN:
                self.tally.failures.append(attrs.evolve(failure, feed=Feed.KEYWORD_BY_DATE))

    async def _fetch(self, feed: Feed, ids: list[int], *, keywords: bool = False, stage: Stage = Stage.ROWS) -> None:
        job, journal = self.job, self.work.journal
        there = (
            len(await self.shelf.do(journal.campaigns)) - len(ids)
            if stage is Stage.KEYWORDS
            else (await self.shelf.do(journal.counts, feed))[0]
        )
        told = Feed.KEYWORD_BY_DATE if stage is Stage.KEYWORDS else feed
        self.tally.begin(stage, told, there + len(ids), there)
        good, wrong = split_valid_ids("keyword" if feed is Feed.KEYWORD_BY_DATE else "campaign", ids)
        for id_, error in wrong.items():
            await self._fail(feed, told, id_, error)
        async with self.client.rankings.pull(good, job.start_date, job.end_date, feed=feed, **job.options) as outcomes:
            async for outcome in outcomes:
                if outcome.report is not None:
                    await self.shelf.keep(feed, Arrived(outcome.report, stage is Stage.ROWS, keywords))
                elif isinstance(outcome.error, AuthenticationError):
                    # the others would only follow from it; one error says it all, and the work can be gone on with
                    outcome.error.subject = None
                    raise outcome.error
                elif outcome.error is not None:
                    await self._fail(feed, told, outcome.id, outcome.error)

    async def _fail(self, asked: Feed, told: Feed, id_: int, error: SeoRepError) -> None:
        if asked is Feed.KEYWORD_BY_DATE:
            for campaign_id in await self.shelf.do(self.work.journal.owners_without_report, id_):
                self.tally.failures.append(PullFailure(told, campaign_id, id_, error))
        else:
            self.tally.failures.append(PullFailure(told, id_, None, error))
        self.tally.step()
