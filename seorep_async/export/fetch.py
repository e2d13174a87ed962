"""Fetching the reports that are not staged yet, in parallel, and storing them in groups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

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
)
from seorep_async.export.progress import Stage, Tracker
from seorep_async.export.request import Plan
from seorep_async.export.staging import Staging
from seorep_async.models import Campaign, Feed
from seorep_async.pull import MAX_REPULLS
from seorep_async.reports import PullOutcome
from seorep_async.resources.arguments import MAX_ID
from seorep_async.tables.declared import campaigns_table

GROUP_ROWS = 5_000
"""Rows that are stored in one step, however soon they came: a step costs some milliseconds, whatever its size."""
SECONDS = 0.25
"""Time after which a report that came is stored: a crash loses no more."""
Run = Callable[..., Awaitable[Any]]


class Group:
    """Outcomes of one feed that are stored together: once they have many rows, or soon after the first came."""

    def __init__(self, run: Run, staging: Staging, feed: Feed, tracker: Tracker, ids: Sequence[int]) -> None:
        self._run, self._staging, self._feed, self._tracker = run, staging, feed, tracker
        self._places = {id_: place for place, id_ in enumerate(ids)}
        self._waiting: list[PullOutcome[Any]] = []
        self._rows, self._since = 0, 0.0

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
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(outcome)
        self._rows += 1 if outcome.report is None else 1 + len(outcome.report.rows)
        if self._rows >= GROUP_ROWS:
            await self._store()
        if self._timer.done():
            self._timer.result()  # it raises what stopped it, such as a full disk

    async def _store_in_time(self) -> None:
        while not self._end.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), SECONDS / 4)
            if self._waiting and time.monotonic() - self._since >= SECONDS * 3 / 4:
                await self._store()

    async def _store(self) -> None:
        some, self._waiting, self._rows = self._waiting, [], 0
        if some:
            some.sort(key=lambda one: self._places[one.id])  # what is read together at the end stands together
            reports = [one.report for one in some if one.report is not None]
            errors = [(one.id, one.error) for one in some if one.error is not None]
            stored = await self._run(self._staging.add, self._feed, reports, errors)
            self._tracker.advance(stored, sum(len(one.rows) for one in reports), len(some) - stored)


@attrs.define
class Fetcher:
    """Fetches what a staging lacks; it begins no report once no request of `tracker` is left.

    `check_accounts` is called with the accounts of the campaigns, before their reports are fetched. Reports that failed
    before a pause come last, so that they don't take all requests of each run.
    """

    client: SeoRepClient
    options: Any
    staging: Staging
    run: Run
    tracker: Tracker
    check_accounts: Callable[[Sequence[int]], Awaitable[object]]
    _names_error: SeoRepError | None = attrs.field(default=None, init=False)
    _tried: set[tuple[Feed, int]] = attrs.field(factory=set, init=False)

    async def fetch(self) -> None:
        """Fetch every missing report; raises PullPausedError if some were not tried."""
        staging, request = self.staging, self.staging.request
        is_resumed = bool(staging.plan.ids)
        if is_resumed:
            await self._check_staged(staging.plan)
        if not is_resumed or staging.failures(campaigns_table()):
            await self._plan()
        if is_resumed:
            self.tracker.resume(staging)
        is_paused = False
        for again in (False, True):
            for feed in request.fetched_feeds:
                is_paused |= await self._fetch_feed(feed, again=again)
        if isinstance(self._names_error, AuthenticationError) and not any(map(staging.count, request.fetched_feeds)):
            raise self._names_error  # the key is refused, not some campaigns
        if is_paused:
            more = "; failed reports are tried again last" if self._tried else ""
            go_on = "run the same pull again, without restart=True, to fetch the rest"
            raise PullPausedError(f"stopped at max_requests=…{more}; {go_on}")
        for feed in request.fetched_feeds:
            lost = {*await self.run(staging.missing, feed)} - staging.failed_ids(feed)
            if lost:  # this must not happen, and nothing else would show it
                problem = f"{len(lost)} reports were neither stored nor failed, such as {feed.value} {min(lost)}"
                raise ExportError(f"{problem}; run the same pull again, or start over with restart=True")

    async def _plan(self) -> None:
        """Find the campaigns, check whose they are, and store both, before anything that would have to be resumed."""
        request, error = self.staging.request, None
        self.tracker.start(Stage.LISTING, request.feeds[0])
        if request.campaigns is None:
            campaigns = request.among(await listed(self.client, request.filter))
            plan = Plan.of([one.id for one in campaigns], campaigns)
        else:
            campaigns, error = await look_up(self.client, request.campaigns)
            plan = Plan.of(request.campaigns, campaigns)
        self._names_error = error
        staged = self.staging.plan
        if not plan.account_ids:  # what is staged stays theirs
            plan = msgspec.structs.replace(plan, account_ids=staged.account_ids, known=staged.known)
        await self.check_accounts(plan.account_ids)
        if not plan.ids:  # who minds can end it here, with nothing staged
            self.tracker.start(Stage.LISTING, request.feeds[0], 0)
        await self.run(self.staging.add_plan, plan, campaigns, error)

    async def _check_staged(self, plan: Plan) -> None:
        """Look one staged campaign up again: another key may be of another account, whose rows must not mix."""
        await self.check_accounts(plan.account_ids)
        if plan.known is None:
            return
        try:
            found = await self.client.campaigns.get(plan.known)
        except ConfigurationError:
            raise
        except SeoRepError as error:  # it may be gone; a key of another account gets no reports of this one
            if isinstance(error, AuthenticationError) and error.status == 401:
                raise
            return
        if found.account_id and found.account_id not in plan.account_ids:
            problem = f"campaign {found.id} is of account {found.account_id}, and what is staged is of account"
            advice = "finish it with that account's key, or drop it with restart=True"
            raise ConfigurationError(f"{problem} {plan.account_ids[0]}; {advice}", argument="account")

    async def _fetch_feed(self, feed: Feed, *, again: bool) -> bool:
        """Fetch missing reports of a feed, `again` also those that failed; return whether some were not tried."""
        request, staging = self.staging.request, self.staging
        missing, failed = await self.run(staging.missing, feed), staging.failed_ids(feed)
        left_out = {id_ for known, id_ in self._tried if known is feed} if again else failed
        ids = [id_ for id_ in missing if id_ not in left_out]
        if again and not ids:
            return False
        stored = staging.count(feed)
        stage, shown = (Stage.ROWS, feed) if feed in request.feeds else (Stage.KEYWORDS, Feed.KEYWORD_BY_DATE)
        self.tracker.start(stage, shown, stored + len(ids), stored)
        valid = [id_ for id_ in ids if 1 <= id_ <= MAX_ID]
        allowed = valid[: self.tracker.requests_left()]
        begun = 0
        async with Group(self.run, staging, feed, self.tracker, ids) as group:
            for id_ in {*ids}.difference(valid):
                error = DecodeError(f"the service listed an invalid id: {id_}")
                await self._add(group, feed, PullOutcome(id_, error=error))
            dates = request.start_date, request.end_date
            async with self.client.rankings.pull(allowed, *dates, feed=feed, **self.options) as outcomes:
                async for outcome in outcomes:
                    begun += 1
                    if self.tracker.requests_left() == 0:
                        outcomes.finish()
                    check_key(outcomes, outcome)
                    await self._add(group, feed, outcome)
        return not {*valid} - {*allowed[:begun]} <= failed | {id_ for known, id_ in self._tried if known is feed}

    async def _add(self, group: Group, feed: Feed, outcome: PullOutcome[Any]) -> None:
        if outcome.error is not None:
            self._tried.add((feed, outcome.id))
        await group.add(outcome)


def check_key(outcomes: Any, outcome: PullOutcome[Any]) -> None:
    """Raise what concerns the whole pull: a key that was refused, or a wrong argument."""
    refusal = outcomes.key_refusal if outcome.error is not None else None
    if refusal is None and isinstance(outcome.error, ConfigurationError):  # the client was closed, or its session
        refusal = outcome.error
    if refusal is not None:
        refusal.subject = None
        raise refusal


async def listed(client: SeoRepClient, filter: str | None = None) -> list[Campaign]:
    """List the campaigns; again, up to 3 times, if some were created or deleted meanwhile."""
    for tries_left in reversed(range(MAX_REPULLS + 1)):
        try:
            return list({one.id: one async for one in client.campaigns.list(filter=filter)}.values())
        except PaginationError:
            if not tries_left:
                raise
    raise AssertionError


async def look_up(client: SeoRepClient, ids: Sequence[int]) -> tuple[list[Campaign], SeoRepError | None]:
    """Return campaigns of these ids, from their list or one by one if that is shorter, and why some are missing."""
    found: Sequence[Campaign | BaseException]
    try:
        page = await client.campaigns.list().page(1)
        if page.total_pages == 1:
            found = page.items
        elif page.total_pages is None or page.total_pages <= len(ids):
            found = await listed(client)
        else:
            found = await asyncio.gather(*map(client.campaigns.get, ids), return_exceptions=True)
    except (ConfigurationError, ExportError):
        raise
    except SeoRepError as error:
        if isinstance(error, AuthenticationError) and error.status == 401:
            raise
        return [], error
    missing = None
    for one in found:
        if isinstance(one, SeoRepError) and not isinstance(one, ConfigurationError):
            missing = one
        elif isinstance(one, BaseException):
            raise one
    wanted = frozenset(ids)
    return [one for one in found if isinstance(one, Campaign) and one.id in wanted], missing
