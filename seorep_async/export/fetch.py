"""Fetching reports: those that are not staged yet, stored in groups; all in order, for a stream; some, to estimate."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import attrs
import msgspec

from seorep_async.client import SeoRepClient
from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    DecodeError,
    ExportError,
    PaginationError,
    PullPausedError,
    SeoRepError,
    StatusError,
)
from seorep_async.export.pieces import Failure
from seorep_async.export.progress import PullFailure, Stage, Tracker
from seorep_async.export.request import ExportRequest, Plan
from seorep_async.export.staging import Staging
from seorep_async.key_check import QUESTION_SECONDS, KeyCheck
from seorep_async.models import Campaign, Feed
from seorep_async.pull import MAX_REPULLS, Pull
from seorep_async.reports import FailedReport, PullOutcome, RankingReport
from seorep_async.resources.arguments import MAX_ID
from seorep_async.session import cancel_all
from seorep_async.tables.output_tables import campaigns_table

GROUP_ROWS = 5_000
"""Rows that are stored in one step, however soon they came: a step costs some milliseconds, whatever its size."""
SECONDS = 0.25
"""Time after which a report that came is stored: a crash loses no more."""
_IDS = range(1, MAX_ID + 1)
_TRIED = 3
"""Campaigns that an estimate asks for, until the service answers for one."""
T = TypeVar("T")


class Background(ThreadPoolExecutor):
    """Runs steps in one thread; a cancelled step is waited for, and `stop` is set for it to end soon."""

    def __init__(self) -> None:
        super().__init__(1, "seorep-pull")
        self.stop: threading.Event = threading.Event()

    async def __call__(self, step: Callable[..., T], *args: Any) -> T:
        future = asyncio.get_running_loop().run_in_executor(self, partial(step, *args))
        future.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # nobody may take it any more
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self.stop.set()
            await asyncio.wait([future])
            raise


class Group:
    """Outcomes of one feed that are stored together: once they have many rows, or soon after the first came."""

    def __init__(
        self, run: Background, staging: Staging, feed: Feed, tracker: Tracker, ids: Sequence[int]
    ) -> None:
        self._run, self._staging, self._feed, self._tracker = run, staging, feed, tracker
        self._places = {id_: place for place, id_ in enumerate(ids)}
        self._waiting: list[PullOutcome[Any]] = []
        self._rows = 0

    async def __aenter__(self) -> Group:
        self._end = asyncio.Event()
        self._timer = asyncio.create_task(self._store_in_time())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Store the rest, also of a pull that was cancelled or failed; the timer is never cancelled while it stores."""
        self._end.set()
        await self._timer
        await self._store()

    async def add(self, outcome: PullOutcome[Any]) -> None:
        self._waiting.append(outcome)
        self._rows += 1 if outcome.report is None else 1 + len(outcome.report.rows)
        if self._rows >= GROUP_ROWS:
            await self._store()
        if self._timer.done():
            self._timer.result()  # it raises what stopped it, such as a full disk

    async def _store_in_time(self) -> None:
        while not self._end.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), SECONDS)
            await self._store()

    async def _store(self) -> None:
        some, self._waiting, self._rows = self._waiting, [], 0
        if some:
            some.sort(
                key=lambda one: self._places[one.id]
            )  # what is read together at the end stands together
            reports = [one.report for one in some if one.report is not None]
            errors = [(one.id, one.error) for one in some if one.error is not None]
            stored, rows = await self._run(self._staging.add, self._feed, reports, errors)
            self._tracker.advance(stored, rows, len(some) - stored)


@attrs.frozen
class Fetcher:
    """Fetches what a staging lacks; it begins no report once no request of `tracker` is left.

    `check_accounts` is called with the accounts of the campaigns, before their reports are fetched.
    """

    client: SeoRepClient
    options: Any
    staging: Staging
    run: Background
    tracker: Tracker
    check_accounts: Callable[[Sequence[int]], object]

    async def fetch(self) -> None:
        """Fetch every missing report; raises PullPausedError if some were not tried."""
        staging = self.staging
        is_resumed, feeds = bool(staging.plan.ids), staging.request.fetched_feeds
        if is_resumed:
            await self._check_staged(staging.plan)
        if not is_resumed or staging.failures(campaigns_table()):
            await self._plan()
        if is_resumed:
            self.tracker.resume(staging)
        failed = {
            feed: staging.failed_ids(feed) for feed in feeds
        }  # they come last, or would take all requests
        for again in (False, True):
            for feed in feeds:
                await self._fetch_feed(feed, failed[feed] if again else set())
        for feed in feeds:
            missing, stored = await self.run(staging.missing, feed), staging.count(feed)
            left = {*missing} - staging.failed_ids(feed)
            if left and self.tracker.requests_left() == 0:
                more = (
                    "; failed reports are tried again last"
                    if any(map(staging.failed_ids, feeds))
                    else ""
                )
                go_on = "run the same pull again, without restart=True, to fetch the rest"
                done = f"with {stored:,} of {stored + len(missing):,} {feed.value} reports stored"
                raise PullPausedError(f"stopped at max_requests=…, {done}{more}; {go_on}")
            if left:  # this must not happen, and nothing else would show it
                problem = f"{len(left)} reports were neither stored nor failed, such as {feed.value} {min(left)}"
                raise ExportError(
                    f"{problem}; run the same pull again, or start over with restart=True"
                )

    async def _plan(self) -> None:
        """Find the campaigns, check whose they are, and store both, before anything that would have to be resumed."""
        request, staged, error = self.staging.request, self.staging.plan, None
        self.tracker.start(Stage.LISTING, request.feeds[0])
        if request.campaigns is None:
            campaigns = request.chosen(await listed(self.client, request.filter))
        else:
            campaigns, error = await look_up(self.client, request.campaigns)
        plan = Plan.of(request.campaigns or [one.id for one in campaigns], campaigns)
        if not plan.account_ids:  # what is staged stays theirs
            plan = msgspec.structs.replace(
                plan, account_ids=staged.account_ids, sample=staged.sample
            )
        await self.run(self.check_accounts, plan.account_ids)
        if not plan.ids:  # who minds can end it here, with nothing staged
            self.tracker.start(Stage.LISTING, request.feeds[0], 0)
        await self.run(self.staging.add_plan, plan, campaigns, error)

    async def _check_staged(self, plan: Plan) -> None:
        """Look a staged campaign, or else all, up again: with another account's key, rows of two would mix."""
        found, problem = list[Campaign](), None
        try:
            if plan.sample is not None:
                found = [await self.client.campaigns.get(plan.sample)]
        except SeoRepError as error:  # it may be gone, or hidden from another account's key
            if concerns_all(error):
                raise
        try:
            found = found or await listed(self.client)
        except SeoRepError as error:
            if concerns_all(error):
                raise
            problem = error
        now = Plan.of((), found)
        if plan.account_ids and problem is not None and problem.retryable:
            raise problem
        is_hidden = isinstance(problem, AuthenticationError)
        if (
            plan.account_ids
            and not {*plan.account_ids} & {*now.account_ids}
            and (now.account_ids or is_hidden)
        ):
            whose = (
                f"campaign {now.sample} is of account {now.account_ids[0]}"
                if found
                else "no campaign can be seen"
            )
            advice = "finish it with that account's key, or drop it with restart=True"
            staged = f"what is staged is of account {plan.account_ids[0]}"
            raise ConfigurationError(f"{whose}, and {staged}; {advice}", argument="account")
        await self.run(self.check_accounts, plan.account_ids or now.account_ids)

    async def _fetch_feed(self, feed: Feed, again: set[int]) -> None:
        """Fetch missing reports of a feed, but for those that failed and are not to be fetched `again`."""
        request, staging = self.staging.request, self.staging
        failed, stored = staging.failed_ids(feed) - again, staging.count(feed)
        ids = [id_ for id_ in await self.run(staging.missing, feed) if id_ not in failed]
        if not ids:
            return
        stage, shown = (
            (Stage.ROWS, feed) if feed in request.feeds else (Stage.KEYWORDS, Feed.KEYWORD_BY_DATE)
        )
        self.tracker.start(stage, shown, stored + len(ids), stored)
        valid, invalid = _sorted_out(ids)
        async with Group(self.run, staging, feed, self.tracker, ids) as group:
            for id_, error in invalid.items():
                await group.add(FailedReport(id_, error))
            allowed, dates = (
                valid[: self.tracker.requests_left()],
                (request.start_date, request.end_date),
            )
            async with self.client.rankings.pull(
                allowed, *dates, feed=feed, **self.options
            ) as outcomes:
                async for outcome in outcomes:
                    if self.tracker.requests_left() == 0:
                        outcomes.finish()
                    _check_outcome(outcomes, outcome)
                    await group.add(outcome)
                _check_key(outcomes)


@attrs.frozen
class OrderedFetcher:
    """Fetches the reports of a request, in the order of their `owners`: the campaigns of each."""

    client: SeoRepClient
    request: ExportRequest
    options: Any
    tracker: Tracker
    failures: list[PullFailure] = attrs.field(factory=list, init=False)

    async def keywords(self, owners: Mapping[int, list[int]]) -> dict[int, list[int]]:
        """Return the campaigns of each of their keywords."""
        found: dict[int, list[int]] = {}
        self.tracker.start(Stage.KEYWORDS, Feed.KEYWORD_BY_DATE, len(owners))
        async for report in self.reports(Feed.CAMPAIGN, owners):
            for row in report.rows:
                found.setdefault(row.keyword_id, []).append(report.id)
            self.tracker.advance(1, 0, 0)
        return found

    async def reports(
        self, feed: Feed, owners: Mapping[int, list[int]]
    ) -> AsyncIterator[RankingReport[Any]]:
        dates, (valid, invalid) = (
            (self.request.start_date, self.request.end_date),
            _sorted_out(owners),
        )
        for id_, error in invalid.items():
            self.fail(feed, id_, owners, error)
        async with self.client.rankings.pull(
            valid, *dates, feed=feed, ordered=True, **self.options
        ) as outcomes:
            async for outcome in outcomes:
                _check_outcome(outcomes, outcome)
                if outcome.report is not None:
                    yield outcome.report
                elif outcome.error is not None:
                    self.fail(feed, outcome.id, owners, outcome.error)
            _check_key(outcomes)

    def fail(
        self, feed: Feed, id_: int, owners: Mapping[int, list[int]], error: SeoRepError
    ) -> None:
        facts = Failure.of(id_, error).facts
        keyword = id_ if feed is Feed.KEYWORD_BY_DATE else None
        self.failures.extend(
            PullFailure(self.request.feeds[0], owner, keyword, *facts) for owner in owners[id_]
        )
        self.tracker.advance(0, 0, 1)


def _sorted_out(listed: Collection[int]) -> tuple[list[int], dict[int, DecodeError]]:
    """Return the valid ones of ids that the service listed, and the error of each other."""
    valid = [id_ for id_ in listed if id_ in _IDS]
    return valid, {
        id_: DecodeError(f"the service listed an invalid id: {id_}")
        for id_ in listed
        if id_ not in _IDS
    }


def concerns_all(error: SeoRepError) -> bool:
    """Return whether an error is about the whole pull: the key was refused, or the client was closed."""
    return isinstance(error, ConfigurationError) or (
        isinstance(error, AuthenticationError) and error.status == 401
    )


def _check_outcome(outcomes: Pull[Any], outcome: PullOutcome[Any]) -> None:
    """Raise a failure that concerns the whole pull: a refused key, or a wrong argument."""
    if outcome.error is None:
        return
    _check_key(outcomes)
    if concerns_all(outcome.error):
        raise outcome.error.evolve(subject=None)


def _check_key(outcomes: Pull[Any]) -> None:
    if outcomes.key_refusal is not None:
        raise outcomes.key_refusal


async def listed(client: SeoRepClient, filter: str | None = None) -> list[Campaign]:
    """List the campaigns; again, up to 3 times, if some were created or deleted meanwhile."""
    for _ in range(MAX_REPULLS):
        with suppress(PaginationError):
            return [one async for one in client.campaigns.list(filter=filter)]
    return [one async for one in client.campaigns.list(filter=filter)]


async def look_up(
    client: SeoRepClient, ids: Sequence[int]
) -> tuple[list[Campaign], SeoRepError | None]:
    """Return campaigns of these ids, from their list or one by one if that is shorter, and why some are missing."""
    try:
        page = await client.campaigns.list().page(1)
        if page.total_pages == 1:
            return _among(page.items, ids), None
        if (page.total_pages or 0) <= len(ids):
            return _among(await listed(client), ids), None
    except SeoRepError as error:
        if concerns_all(error):
            raise
        return [], error
    return await _get_each(client, ids)


def _among(campaigns: Iterable[Campaign], ids: Sequence[int]) -> list[Campaign]:
    wanted_ids = frozenset(ids)
    return [campaign for campaign in campaigns if campaign.id in wanted_ids]


async def _get_each(
    client: SeoRepClient, ids: Sequence[int]
) -> tuple[list[Campaign], SeoRepError | None]:
    """Get campaigns one by one, several at once; raise as soon as the service refuses the key."""

    async def send_question() -> object:
        with client.timeout(QUESTION_SECONDS):
            return await client.campaigns.list(limit=1).page(1)

    key = KeyCheck(send_question)
    remaining_ids = iter(ids)
    campaigns: dict[int, Campaign] = {}
    failure: SeoRepError | None = None

    async def work() -> None:
        nonlocal failure
        for campaign_id in remaining_ids:
            await key.require_good_key()
            try:
                campaigns[campaign_id] = await client.campaigns.get(campaign_id)
                key.accept()
            except AuthenticationError as error:
                await key.refuse(error)
                failure = error
            except SeoRepError as error:
                if concerns_all(error):
                    raise
                failure = error
        await key.require_good_key()

    workers = [asyncio.create_task(work()) for _ in range(client.settings.max_concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        await cancel_all(workers)
    found = [campaigns[campaign_id] for campaign_id in ids if campaign_id in campaigns]
    return found, failure


async def estimate(
    client: SeoRepClient,
    request: ExportRequest,
    missing: Mapping[Feed, Sequence[int]],
    limit: int | None,
) -> tuple[int, int | None, tuple[int, ...]]:
    """Estimate the requests from a page of each feed of the first campaign that answers; name it, and those skipped."""
    needed = {
        feed: ids for feed, ids in missing.items() if ids and feed is not Feed.KEYWORD_BY_DATE
    }
    feeds: Any = {
        Feed.CAMPAIGN: client.rankings.campaign,
        Feed.CAMPAIGN_BY_DATE: client.rankings.campaign_by_date,
    }
    requests, dates = sum(map(len, missing.values())), (request.start_date, request.end_date)
    skipped: tuple[int, ...] = ()
    candidates = dict.fromkeys(id_ for ids in needed.values() for id_ in ids if id_ in _IDS)
    for id_ in islice(candidates, _TRIED):
        try:
            pages = {feed: await feeds[feed](id_, *dates, limit=limit).page(1) for feed in needed}
        except (StatusError, DecodeError, PaginationError) as error:
            if concerns_all(error):
                raise
            skipped += (id_,)  # in the pull, it would fail alone
            continue
        for feed, page in pages.items():
            further = (page.total_pages or 1) - 1
            if feed is Feed.CAMPAIGN and Feed.KEYWORD_BY_DATE in request.feeds:
                further += len(page.items) if page.total_records is None else page.total_records
            requests += len(needed[feed]) * further
        return requests, id_, skipped
    return requests, None, skipped
