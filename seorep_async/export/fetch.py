"""Fetch reports. An export stages those that are missing; a stream gets all of them in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, TypeVar

import attrs
import msgspec

from seorep_async.client import SeoRepClient
from seorep_async.errors import (
    ConfigurationError,
    ExportError,
    NotFoundError,
    PullPausedError,
    SeoRepError,
)
from seorep_async.export.lookups import (
    concerns_all,
    list_campaigns,
    list_selected,
    look_up,
    refuse_future_period,
)
from seorep_async.export.pieces import StagedFailure
from seorep_async.export.progress import PullFailure, Stage, Tracker
from seorep_async.export.request import ExportRequest, Plan
from seorep_async.export.staging import LeadIds, Staging
from seorep_async.models import Campaign, Feed
from seorep_async.pull import Pull
from seorep_async.reports import FailedReport, PullOutcome, RankingReport
from seorep_async.resources.arguments import listed_ids
from seorep_async.resources.rankings import FeedOptions
from seorep_async.tables.output_tables import campaigns_table

GROUP_ROWS = 5_000
"""The number of rows stored in one step. A step of any size costs some milliseconds."""
GROUP_SECONDS = 0.25
"""The longest time before a report is stored. A crash loses the reports of at most this time."""
T = TypeVar("T")


class Background(ThreadPoolExecutor):
    """Runs functions in one thread, one after the other.

    A cancelled call sets `stop`, so that its function ends soon, and waits for that end.
    """

    def __init__(self) -> None:
        super().__init__(1, "seorep-pull")
        self.stop: threading.Event = threading.Event()

    async def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function in the thread, and return its result."""
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self, partial(function, *arguments))
        # after a second cancellation nobody awaits the future, and asyncio would log its error
        future.add_done_callback(_retrieve_error)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self.stop.set()
            await asyncio.wait([future])
            raise


def _retrieve_error(future: asyncio.Future[Any]) -> None:
    """Retrieve a future's error. Asyncio logs only errors that were never retrieved."""
    if not future.cancelled():
        future.exception()


class OutcomeGroup:
    """Collects outcomes of a feed. Stores them when there are many rows, and at short intervals."""

    def __init__(
        self,
        run: Background,
        staging: Staging,
        feed: Feed,
        tracker: Tracker,
        lead_ids: LeadIds,
    ) -> None:
        self._run = run
        self._staging = staging
        self._feed = feed
        self._tracker = tracker
        self._lead_ids = lead_ids
        # the order in which the target is written
        self._positions = {id_: position for position, id_ in enumerate(lead_ids)}
        self._waiting: list[PullOutcome[Any]] = []
        # the cost of storing the waiting outcomes, in rows
        self._weight = 0
        self._end = asyncio.Event()

    async def __aenter__(self) -> OutcomeGroup:
        self._timer = asyncio.create_task(self._store_at_intervals())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Store the rest, even if the pull was cancelled or failed."""
        # the timer is not cancelled, because it may be storing outcomes
        self._end.set()
        await self._timer
        await self._store()

    async def add(self, outcome: PullOutcome[Any]) -> None:
        """Take an outcome. If many rows are waiting, store them."""
        self._waiting.append(outcome)
        # one more than the rows, because even a report without rows costs something
        self._weight += 1
        if outcome.report is not None:
            self._weight += len(outcome.report.rows)
        if self._weight >= GROUP_ROWS:
            await self._store()
        if self._timer.done():
            # raises the error that ended the timer, such as a full disk
            self._timer.result()

    async def _store_at_intervals(self) -> None:
        """Store the waiting outcomes at short intervals until the group ends."""
        while not self._end.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), GROUP_SECONDS)
            await self._store()

    async def _store(self) -> None:
        """Store the waiting outcomes in one step, and report the progress."""
        # replaced before the first await, because outcomes may arrive while these are stored
        outcomes = self._waiting
        self._waiting = []
        self._weight = 0
        if not outcomes:
            return
        # reports that are next to each other in the target should be in the same piece
        outcomes.sort(key=lambda outcome: self._positions[outcome.id])
        reports = [outcome.report for outcome in outcomes if outcome.report is not None]
        errors = [(outcome.id, outcome.error) for outcome in outcomes if outcome.error is not None]
        add = partial(self._staging.add, self._feed, reports, errors, self._lead_ids)
        stored, rows = await self._run(add)
        self._tracker.advance(reports=stored, rows=rows, failures=len(outcomes) - stored)
        self._staging.require_room()


@attrs.frozen
class Fetcher:
    """Fetches the reports that a staging folder lacks.

    Attributes:
        tracker: counts requests. Once it has none left, no further report begins.
        check_accounts: called with the accounts that own the campaigns, before any report is
            fetched.
    """

    client: SeoRepClient
    options: FeedOptions
    staging: Staging
    run: Background
    tracker: Tracker
    check_accounts: Callable[[Sequence[int]], object]

    async def fetch(self) -> None:
        """Fetch every missing report.

        Raises:
            PullPausedError: the requests were used up before every report was tried.
        """
        staging = self.staging
        feeds = staging.request.fetched_feeds
        is_resumed = bool(staging.plan.ids)
        if is_resumed:
            await self._check_staged_account(staging.plan)
        # if the campaigns could not be looked up, try again, because the table `campaigns` lacks
        # their names
        if not is_resumed or staging.failures(campaigns_table()):
            await self._find_campaigns(is_resumed=is_resumed)
        if is_resumed:
            self.tracker.resume(staging)
        failed_before = {feed: staging.failed_ids(feed) for feed in feeds}
        for feed in feeds:
            await self._fetch_feed(feed, retried=set())
        # reports that failed in an earlier run come last; otherwise they could use up all requests
        for feed in feeds:
            await self._fetch_feed(feed, retried=failed_before[feed])
        for feed in feeds:
            await self._require_all(feed)

    async def _require_all(self, feed: Feed) -> None:
        """Raise an error if some reports were never tried."""
        staging = self.staging
        missing = await self.run(staging.missing, feed)
        untried = set(missing) - staging.failed_ids(feed)
        if not untried:
            return
        stored = staging.count(feed)
        if self.tracker.requests_left() == 0:
            total = stored + len(missing)
            done = f"with {stored:,} of {total:,} {feed.value} reports stored"
            has_failures = any(map(staging.failed_ids, staging.request.fetched_feeds))
            if has_failures:
                done += "; failed reports are tried again last"
            raise PullPausedError(
                f"stopped at max_requests={self.tracker.max_requests}, {done}; run the same pull "
                "again, without restart=True, to fetch the rest"
            )
        # only a bug leads here; without this error, it would go unnoticed
        raise ExportError(
            f"{len(untried)} reports were neither stored nor failed, such as {feed.value} "
            f"{min(untried)}; run the same pull again, or start over with restart=True"
        )

    async def _find_campaigns(self, *, is_resumed: bool) -> None:
        """Find the campaigns, check which accounts own them, and store the plan."""
        staging = self.staging
        request = staging.request
        self.tracker.start(Stage.LISTING, request.feeds[0])
        # The error of campaigns that could not be looked up, or None. Their reports can still be
        # fetched, so the error is only stored.
        error = None
        if request.campaigns is None:
            campaigns = await list_selected(self.client, request)
            campaign_ids = [campaign.id for campaign in campaigns]
        else:
            campaigns, error = await look_up(self.client, request.campaigns)
            campaign_ids = list(request.campaigns)
        plan = Plan.of(campaign_ids, campaigns)
        if not plan.account_ids:
            # the lookup failed or found no owners, so a resumed pull keeps those of its earlier
            # plan, and the campaign (`sample`) whose owner is known
            earlier_plan = staging.plan
            plan = msgspec.structs.replace(
                plan, account_ids=earlier_plan.account_ids, sample=earlier_plan.sample
            )
        await self.run(self.check_accounts, plan.account_ids)
        if not plan.ids:
            # `on_progress` can end an empty pull here, before anything is staged
            self.tracker.start(Stage.LISTING, request.feeds[0], total=0)
        # a resumed pull has passed this check in its first run
        if not is_resumed:
            await refuse_future_period(self.client, request, self.options, campaign_ids)
        await self.run(staging.add_plan, plan, campaigns, error)

    async def _check_staged_account(self, plan: Plan) -> None:
        """Refuse the key of another account, whose rows would mix with the staged rows."""
        # only the owners are needed, so this plan has no ids
        visible = Plan.of((), await self._visible_campaigns(plan))
        owners = plan.account_ids or visible.account_ids
        # without account ids from the service, there is nothing to compare
        if visible.account_ids and set(owners).isdisjoint(visible.account_ids):
            raise ConfigurationError(
                f"campaign {visible.sample} belongs to account {visible.account_ids[0]}, but the "
                f"staged reports belong to account {owners[0]}; finish the staged pull with a key "
                "of that account, or drop it with restart=True",
                argument="account",
            )
        await self.run(self.check_accounts, owners)

    async def _visible_campaigns(self, plan: Plan) -> list[Campaign]:
        """Return a campaign of the staged pull, or all campaigns if the key can't see that one."""
        if plan.sample is not None:
            try:
                return [await self.client.campaigns.get(plan.sample)]
            except SeoRepError as error:
                # the campaign is gone, or the key of another account can't see it
                if concerns_all(error):
                    raise
        elif self.staging.failures(campaigns_table()):
            # `_find_campaigns` will request the failed list again, and check the owners then
            return []
        # if the service has no list of campaigns (404), no owners are known or compared
        with suppress(NotFoundError):
            return await list_campaigns(self.client)
        return []

    async def _fetch_feed(self, feed: Feed, *, retried: set[int]) -> None:
        """Fetch the missing reports of a feed. Skip failed reports unless they are in `retried`."""
        request = self.staging.request
        skipped = self.staging.failed_ids(feed) - retried
        missing = await self.run(self.staging.missing, feed)
        needed = {id_: lead_ids for id_, lead_ids in missing.items() if id_ not in skipped}
        if not needed:
            return
        # If the campaign feed is fetched only to find the keywords, the progress shows that as a
        # stage of the keyword feed.
        stage = Stage.ROWS if feed in request.feeds else Stage.KEYWORDS
        shown_feed = feed if feed in request.feeds else Feed.KEYWORD_BY_DATE
        stored = self.staging.count(feed)
        self.tracker.start(stage, shown_feed, total=stored + len(needed), stored=stored)
        fetched = outcomes_of_feed(self.client, request, feed, needed, self.options, self.tracker)
        # if an error ends this block, the pull is closed first, and the group stores the rest
        async with (
            OutcomeGroup(self.run, self.staging, feed, self.tracker, needed) as group,
            aclosing(fetched) as outcomes,
        ):
            async for outcome in outcomes:
                await group.add(outcome)


async def outcomes_of_feed(
    client: SeoRepClient,
    request: ExportRequest,
    feed: Feed,
    ids: Iterable[int],
    options: FeedOptions,
    tracker: Tracker,
    *,
    ordered: bool = False,
) -> AsyncGenerator[PullOutcome[Any], None]:
    """Yield the outcomes of reports of a feed, as long as the tracker has requests left.

    Raises:
        SeoRepError: a failure that concerns the whole pull: a refused key, or a wrong argument.
    """
    # an invalid id can't be requested, so its report fails at once
    valid_ids, errors = listed_ids(ids)
    for id_, error in errors.items():
        yield FailedReport(id_, error)
    pull = client.rankings.pull(
        # each report takes at least one request; None means no limit
        valid_ids[: tracker.requests_left()],
        request.start_date,
        request.end_date,
        feed=feed,
        ordered=ordered,
        **options,
    )
    async with pull as outcomes:
        async for outcome in outcomes:
            # reports in progress are still completed, which takes a few requests beyond the limit
            if tracker.requests_left() == 0:
                outcomes.finish()
            if outcome.error is not None:
                _raise_key_refusal(outcomes)
                if concerns_all(outcome.error):
                    # this is about the whole pull, so it names no campaign
                    raise outcome.error.evolve(subject=None)
            yield outcome
        # the pull asks about the key for the last time after the last outcome
        _raise_key_refusal(outcomes)


def _raise_key_refusal(outcomes: Pull[Any]) -> None:
    """Raise the error with which the service refused the key, if it did."""
    if outcomes.key_refusal is not None:
        raise outcomes.key_refusal


@attrs.frozen
class OrderedFetcher:
    """Fetches the reports of a request in order, without staging them.

    The request has exactly one feed. If that is a keyword feed, the reports of the campaign feed
    are fetched first, to find the keywords. If one of these fails, this counts as a failure of the
    requested feed.

    In its methods, `campaigns_of` maps the id of each report to its campaigns. A keyword may be in
    several.
    """

    client: SeoRepClient
    request: ExportRequest
    options: FeedOptions
    tracker: Tracker
    failures: list[PullFailure] = attrs.field(factory=list, init=False)

    async def keywords(self, campaigns_of: Mapping[int, list[int]]) -> dict[int, list[int]]:
        """Find the keywords of campaigns. Return the campaigns of each keyword, by its id."""
        campaigns_of_keyword: dict[int, list[int]] = {}
        self.tracker.start(Stage.KEYWORDS, Feed.KEYWORD_BY_DATE, total=len(campaigns_of))
        async for report in self.reports(Feed.CAMPAIGN, campaigns_of):
            for row in report.rows:
                campaigns_of_keyword.setdefault(row.keyword_id, []).append(report.id)
            self.tracker.advance(reports=1)
        return campaigns_of_keyword

    async def reports(
        self, feed: Feed, campaigns_of: Mapping[int, list[int]]
    ) -> AsyncIterator[RankingReport[Any]]:
        """Yield the reports that succeed, and add the failures of the others to `failures`."""
        fetched = outcomes_of_feed(
            self.client, self.request, feed, campaigns_of, self.options, self.tracker, ordered=True
        )
        async for outcome in fetched:
            if outcome.report is not None:
                yield outcome.report
            elif outcome.error is not None:
                self.fail(feed, outcome.id, campaigns_of, outcome.error)

    def fail(
        self, feed: Feed, id_: int, campaigns_of: Mapping[int, list[int]], error: SeoRepError
    ) -> None:
        """Add a failure for each campaign of a report."""
        (requested_feed,) = self.request.feeds
        # `facts` leaves the ids out, so any ids will do
        facts = StagedFailure.of((), error).facts
        keyword_id = id_ if feed is Feed.KEYWORD_BY_DATE else None
        for campaign_id in campaigns_of[id_]:
            failure = PullFailure(requested_feed, campaign_id, keyword_id, *facts)
            self.failures.append(failure)
        self.tracker.advance(failures=1)
