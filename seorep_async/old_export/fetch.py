"""Fetching the reports that an export lacks, in parallel, into a sink: a staging area or a pipe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Container, Iterable, Sequence
from itertools import count
from typing import Any, TypeAlias

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    DecodeError,
    ExportError,
    PaginationError,
    PullPausedError,
    SeoRepError,
)
from seorep_async.models import Campaign, Feed
from seorep_async.old_export.notes import Errors, failed_reports
from seorep_async.old_export.progress import ProgressTracker, PullFailure, Stage
from seorep_async.old_export.sinks import PipeWriter, StagingWriter
from seorep_async.old_export.spec import PullSpec
from seorep_async.pull import MAX_REPULLS, Pull
from seorep_async.reports import PullOutcome, RankingReport
from seorep_async.resources.arguments import check_id

StoreCampaigns: TypeAlias = Callable[[Sequence[Campaign], int], Awaitable[None]]
"""Takes a part of the list of campaigns, and its number."""

_GO_ON = "run the same pull again, without restart=True, to fetch the rest"
_GROUP_ROWS = 500
"""Rows that complete a group of reports, to be stored in one step."""
_GATHERING_SECONDS = 0.002
"""Wait for more of a group: a step takes as long as to fetch a small report."""
_PAUSES = 10
"""Such waits for one group, at most."""


@attrs.frozen
class Fetcher:
    """Fetches every report that a sink lacks, and reports stages, steps and failures to the tracker.

    It begins no report when `requests_left` returns 0; None is no limit. Those that failed before a pause come last, so
    that they don't take all requests of each run; if none are left for them, the pull ends with their errors.
    """

    client: SeoRepClient
    spec: PullSpec
    sink: StagingWriter | PipeWriter
    tracker: ProgressTracker
    requests_left: Callable[[], int | None] = lambda: None
    _errors: Errors = attrs.field(factory=dict, init=False)
    _failed: set[tuple[Feed, int]] = attrs.field(factory=set, init=False)
    """Which of `_errors` are of this run."""

    async def run(self) -> None:
        """Fetch every report that the sink lacks; raises as `pull_to`, but for its arguments."""
        sink, checkpoint, feeds = self.sink, self.sink.checkpoint, self.spec.feeds
        if checkpoint.notes.planned is None:
            await sink.plan(await self._campaigns())
        self.tracker.rows = sum([(await sink.run(checkpoint.counts, feed))[1] for feed in feeds])
        if before := checkpoint.notes.paused:
            self._errors.update({(one.feed, one.id): one.error for one in before})
            await self._fetch_feeds(but=set(self._errors))
        await self._fetch_feeds(but=self._failed)
        await self._complete_failures()
        await sink.run(lambda: checkpoint.note(paused=None))
        await self._raise_if_all_refused()
        if self.spec.campaigns is not None and not self.spec.is_shard and not await sink.run(checkpoint.is_empty):
            await self._name_campaigns(self.spec.campaigns)

    async def _fetch_feeds(self, but: Container[tuple[Feed, int]]) -> None:
        """Fetch the missing reports of every feed, `but` some."""
        sink, checkpoint, feeds = self.sink, self.sink.checkpoint, self.spec.feeds
        wants_keywords = Feed.KEYWORD_BY_DATE in feeds
        for feed in feeds:
            if feed is not Feed.KEYWORD_BY_DATE:
                missing = await sink.run(checkpoint.missing, feed)
                await self._fetch(feed, missing, but, keywords=wants_keywords and feed is Feed.CAMPAIGN)
        if wants_keywords:
            if Feed.CAMPAIGN not in feeds:
                # find all first, and store only their ids: one pull over all campaigns keeps every permit busy; one for
                # each campaign would drain at its end
                missing = await sink.run(checkpoint.without_keywords)
                await self._fetch(Feed.CAMPAIGN, missing, but, keywords=True, stage=Stage.KEYWORDS)
            missing = await sink.run(checkpoint.missing, Feed.KEYWORD_BY_DATE)
            await self._fetch(Feed.KEYWORD_BY_DATE, missing, but)

    async def _raise_if_all_refused(self) -> None:
        """Raise the refusal if every report was refused, and the account's campaigns were not listed with the key."""
        if self.spec.campaigns is None or self.spec.is_shard or not await self.sink.run(self.sink.checkpoint.is_empty):
            return
        errors = list(self._errors.values())
        if errors and all(isinstance(error, AuthenticationError) for error in errors):
            errors[0].subject = None
            raise errors[0]

    async def _campaigns(self) -> list[int]:
        if self.spec.campaigns is not None:
            return list(self.spec.campaigns)
        self.tracker.start_stage(Stage.LISTING, self.spec.feeds[0])
        return await store_campaigns(lambda: self.spec.choice.campaigns(self.client), self.sink.add_campaigns)

    async def _name_campaigns(self, ids: Sequence[int]) -> None:
        """Store the rows of campaigns that the caller named; a failed lookup of names must not fail the export."""
        sink, tracker = self.sink, self.tracker
        if sink.checkpoint.notes.named:
            return
        tracker.names_error = await name_campaigns(self.client, ids, sink.add_campaigns)
        await sink.run(lambda: sink.checkpoint.note(named=tracker.names_error is None))

    async def _complete_failures(self) -> None:
        """Note those of missing reports that were not fetched again, and of keywords that another campaign has too.

        Keywords of a campaign whose own report failed are missing, too.
        """
        sink, checkpoint, failures = self.sink, self.sink.checkpoint, self.tracker.failures
        noted = {(one.feed, one.campaign_id, one.keyword_id) for one in failures}
        found = []
        for feed in self.spec.feeds if self._errors else ():
            for id_ in await sink.run(checkpoint.missing, feed):
                if (error := self._errors.get((feed, id_))) is not None:
                    found += await self._failures_of(feed, feed, id_, error)
            for id_ in await sink.run(checkpoint.without_keywords) if feed is Feed.KEYWORD_BY_DATE else ():
                if (error := self._errors.get((Feed.CAMPAIGN, id_))) is not None:
                    found.append(PullFailure(feed, id_, None, error))
        failures += [one for one in found if (one.feed, one.campaign_id, one.keyword_id) not in noted]

    async def _fetch(
        self,
        feed: Feed,
        missing: list[int],
        but: Container[tuple[Feed, int]],
        *,
        keywords: bool = False,
        stage: Stage = Stage.ROWS,
    ) -> None:
        spec, sink, checkpoint = self.spec, self.sink, self.sink.checkpoint
        ids = [id_ for id_ in missing if (feed, id_) not in but]
        ids.sort(key=lambda id_: (feed, id_) in self._errors)  # those not tried yet first
        if stage is Stage.KEYWORDS:
            shown, stored = Feed.KEYWORD_BY_DATE, len(await sink.run(checkpoint.campaigns)) - len(missing)
        else:
            shown, stored = feed, (await sink.run(checkpoint.counts, feed))[0]
        self.tracker.start_stage(stage, shown, stored + len(ids), stored)
        valid, refused = split_valid_ids("keyword" if feed is Feed.KEYWORD_BY_DATE else "campaign", ids)
        begun = 0
        for id_, error in refused.items():
            await self._fail(feed, shown, id_, error)
        async with self.client.rankings.pull(
            valid[: self.requests_left()],
            spec.start_date,
            spec.end_date,
            feed=feed,
            ordered=sink.ordered,
            **spec.options,
        ) as outcomes:
            async for outcome in outcomes:
                group = await _ready_group(outcome, outcomes)
                begun += len(group)
                if self.requests_left() == 0:
                    outcomes.finish()
                reports = [one.report for one in group if one.report is not None]
                if reports:
                    await self._add(feed, reports, rows=stage is Stage.ROWS, keywords=keywords)
                for one in group:
                    if one.error is not None:
                        if (refusal := outcomes.key_refusal) is not None:
                            # the other errors only follow from it, and the export can be resumed
                            refusal.subject = None
                            raise refusal
                        if isinstance(one.error, ConfigurationError):  # the client was closed, or its session
                            one.error.subject = None
                            raise one.error
                        await self._fail(feed, shown, one.id, one.error)
        if any((feed, id_) not in self._errors for id_ in valid[begun:]):
            await self._pause()

    async def _pause(self) -> None:
        checkpoint, key_digest = self.sink.checkpoint, self.spec.key_digest
        # with the key's digest, so that the pull is resumed even if nothing is stored yet
        await self.sink.run(lambda: checkpoint.note(paused=failed_reports(self._errors), key=key_digest()))
        await self._raise_if_all_refused()
        more = f"; failed reports ({len(self._errors)}) are tried again last" if self._errors else ""
        raise PullPausedError(f"stopped at max_requests=…{more}; {_GO_ON}")

    async def _add(self, feed: Feed, reports: list[RankingReport[Any]], *, rows: bool, keywords: bool) -> None:
        before = len(self.tracker.failures)
        await self.sink.add(reports, rows=rows, keywords=keywords)
        for report in reports:
            self._errors.pop((feed, report.id), None)
        for one in self.tracker.failures[before:]:  # the format can't hold them
            self._note_error(feed, one.campaign_id if one.keyword_id is None else one.keyword_id, one.error)

    async def _fail(self, asked: Feed, shown: Feed, id_: int, error: SeoRepError) -> None:
        self._note_error(asked, id_, error)
        self.tracker.failures += await self._failures_of(asked, shown, id_, error)
        self.tracker.advance()

    async def _failures_of(self, asked: Feed, shown: Feed, id_: int, error: SeoRepError) -> list[PullFailure]:
        if asked is not Feed.KEYWORD_BY_DATE:
            return [PullFailure(shown, id_, None, error)]
        owners = await self.sink.run(self.sink.checkpoint.owners_without_report, id_)
        return [PullFailure(shown, campaign_id, id_, error) for campaign_id in owners]

    def _note_error(self, asked: Feed, id_: int, error: SeoRepError) -> None:
        self._errors[asked, id_] = error
        self._failed.add((asked, id_))


async def store_campaigns(
    listing: Callable[[], AsyncIterable[Campaign]], store: StoreCampaigns, only: Container[int] | None = None
) -> list[int]:
    """Store campaigns part by part, as the list may be long, and return their ids.

    If campaigns were created or deleted meanwhile, they are listed again, up to 3 times.
    """
    seen: set[int] = set()
    waiting: list[Campaign] = []
    parts = count()
    for tries_left in reversed(range(MAX_REPULLS + 1)):
        ids: dict[int, None] = {}
        try:
            async for campaign in listing():
                if only is None or campaign.id in only:
                    ids[campaign.id] = None
                    waiting += [campaign] * (campaign.id not in seen)
                    seen.add(campaign.id)
                if len(waiting) == _GROUP_ROWS:
                    await store(waiting, next(parts))
                    waiting = []
            break
        except PaginationError:
            if not tries_left:
                raise
    if waiting:
        await store(waiting, next(parts))
    return list(ids)


async def name_campaigns(client: SeoRepClient, ids: Sequence[int], store: StoreCampaigns) -> SeoRepError | None:
    """Store campaigns of these ids, from their list, or one by one if that is shorter; return why some are missing."""
    missing: list[SeoRepError] = []

    async def named() -> AsyncIterator[Campaign]:
        page = await client.campaigns.list().page(1)
        if page.total_pages == 1:
            for campaign in page.items:
                yield campaign
        elif page.total_pages is None or page.total_pages <= len(ids):
            async for campaign in client.campaigns.list():
                yield campaign
        else:
            for result in await asyncio.gather(*map(client.campaigns.get, ids), return_exceptions=True):
                if isinstance(result, Campaign):
                    yield result
                elif not isinstance(result, SeoRepError) or isinstance(result, ConfigurationError):
                    raise result
                else:
                    missing.append(result)

    try:
        await store_campaigns(named, store, frozenset(ids))
    except SeoRepError as error:
        if isinstance(error, ExportError | ConfigurationError):
            raise
        missing.append(error)
    return missing[-1] if missing else None


def split_valid_ids(object_name: str, ids: Iterable[int]) -> tuple[list[int], dict[int, DecodeError]]:
    """Separate valid ids from ids that the API lists but does not accept, with the error for each of these."""
    valid: list[int] = []
    refused: dict[int, DecodeError] = {}
    for id_ in ids:
        try:
            valid.append(check_id(f"{object_name}_id", id_))
        except ConfigurationError as error:
            refused[id_] = DecodeError(f"the service listed a {object_name} with an invalid id: {error.message}")
    return valid, refused


async def _ready_group(first: PullOutcome[Any], outcomes: Pull[Any]) -> list[PullOutcome[Any]]:
    """Return an outcome and those that arrive with it, to be stored in one step, up to about `_GROUP_ROWS` rows."""
    group, rows, pauses = [first], _rows_of(first), _PAUSES
    while rows < _GROUP_ROWS:
        if (outcome := outcomes.take_ready()) is not None:
            group.append(outcome)
            rows += _rows_of(outcome)
        elif pauses and outcomes.more_may_come:
            pauses -= 1
            await asyncio.sleep(_GATHERING_SECONDS)
        else:
            break
    return group


def _rows_of(outcome: PullOutcome[Any]) -> int:
    return 0 if outcome.report is None else len(outcome.report.rows)
