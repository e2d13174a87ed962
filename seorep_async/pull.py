"""Many campaigns in parallel: depth-first, bounded, one outcome each."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator
from functools import partial
from typing import Any, Generic, Literal, TypeVar

import attrs
import msgspec

from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    PaginationError,
    SeoRepError,
)
from seorep_async.key_check import QUESTION_SECONDS, AcceptedQuery, KeyCheck
from seorep_async.models import Feed
from seorep_async.normalisation.envelope import parse
from seorep_async.paging import Listing, Schedule
from seorep_async.reports import (
    FailedReport,
    Outcome,
    PulledReport,
    PullOutcomes,
    RankingReport,
)
from seorep_async.session import Deadline, Lane, Request, Session, cancel_all

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_log = logging.getLogger("seorep_async")
MAX_REPULLS = 3
_STARTED_AT_ONCE = 4


class _Item(msgspec.Struct, Generic[R], eq=False):
    """One id: running (with a `task`), deferred (with an `error`) until its second try, or done."""

    number: int
    id: int
    task: asyncio.Task[RankingReport[R]] | None = None
    error: SeoRepError | None = None


@attrs.define(slots=False, eq=False, repr=False)
class Pull(Generic[R_co]):
    """A pull of one feed for many ids: `await` it for `PullOutcomes`, or use it as an async context manager.

    `async with` gives an async iterator of `PulledReport` and `FailedReport`, and holds few of them at once.
    Every id ends in exactly one outcome. Ids are worked on in their order, all pages of one before those of the next.
    At most twice `max_concurrency` pages are in progress, and as many ids in progress or waiting to be taken: a slow
    consumer slows the pull. An id whose pages don't add up is read again, up to 3 times; one that failed for a
    transient reason is tried once more when nothing else is in progress (not with `on_error="raise"`). Leaving the
    context stops everything.

    A 401 means that the key is refused; a 403 may be about its id alone. After eight 403s in a row, and at its end, the
    pull asks for the page that the service accepted last. Once the key is refused, nothing more is sent, and unfinished
    ids end in an AuthenticationError.
    """

    _session: Session
    _feed: Feed
    _ids: Collection[int]
    _listing: Callable[[int], Listing[R_co, RankingReport[R_co]]]
    _on_error: Literal["collect", "raise"]
    _ordered: bool
    _accepted: AcceptedQuery
    _open: bool = attrs.field(default=False, init=False)
    _key: KeyCheck = attrs.field(init=False)

    @_key.default
    def _new_key_check(self) -> KeyCheck:
        return KeyCheck(self._send_question)

    async def __aenter__(self) -> Pull[R_co]:
        self._session.require_open()
        if self._open:
            raise ConfigurationError("this pull is running already; make another one")
        self._open = True
        self._schedule = Schedule.of(self._session, self._session.call_timeout.stream_deadline(), 0)
        self._schedule.lane = Lane()
        self._count = self._schedule.count
        self._limit = self._count.free
        self._most_running = (
            self._limit - 3 * self._limit // 8
        )  # the other pages are for those with several
        self._key = self._new_key_check()
        self._total = len(self)
        self._remaining: Iterator[tuple[int, int]] = enumerate(self._ids)
        self._items: dict[int, _Item[R_co]] = {}  # started and not taken, but for the deferred
        self._deferred: dict[int, _Item[R_co]] = {}
        self._retries: deque[_Item[R_co]] = deque()  # formerly deferred, to start again
        self._outcomes: dict[int, Outcome[R_co]] = {}  # not taken, in the order in which they came
        self._running = self._taken = self._succeeded = 0
        self._started = self._session.clock.monotonic()
        self._unexpected: BaseException | None = None
        self._changed = asyncio.Event()
        self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._open:
            failed = self._taken + len(self._outcomes) - self._succeeded
            facts = (
                self._total,
                self._succeeded,
                failed,
                self._session.clock.monotonic() - self._started,
            )
            fields: dict[str, Any] = {"account": self._session.observer.account}
            fields |= zip(("ids", "reports", "failures", "seconds"), facts, strict=True)
            _log.info("pull of %d ended: %d reports, %d failures, %.3g s", *facts, extra=fields)
        self._open = False
        self._changed.set()
        await cancel_all([item.task for item in self._items.values() if item.task is not None])

    def __len__(self) -> int:
        """Return the number of outcomes."""
        return len(self._ids)

    def __aiter__(self) -> Pull[R_co]:
        return self

    async def __anext__(self) -> Outcome[R_co]:
        """Return the next outcome: as they finish, or in the order of the ids if the pull is `ordered`.

        Raises:
            SeoRepError: with `on_error="raise"`, the error of the first id that failed; the pull has ended then.
            AuthenticationError: after the last outcome, if all failed with 403s and the service refuses the key itself.
        """
        if self._open and self._taken == self._total:
            refusal = await self._key.find_refusal()
            if refusal is not None and refusal.status != 401 and not self._succeeded:
                raise refusal
        while (outcome := self._take()) is None:
            self._changed.clear()
            await self._changed.wait()
        if self._on_error == "raise" and outcome.error is not None:
            await self.__aexit__(None, None, None)
            raise await self._key.find_refusal() or outcome.error
        self._start()
        return outcome

    @property
    def key_refusal(self) -> AuthenticationError | None:
        """The error with which the service refused the API key itself, or None."""
        refusal = self._key.refusal
        return None if refusal is None else refusal.evolve()

    def finish(self) -> None:
        """Start no more ids; each that has begun still ends in its outcome."""
        self._require_running()
        self._remaining = iter(())
        self._total = self._taken + len(self._items) + len(self._deferred) + len(self._retries)
        self._changed.set()

    def _require_running(self) -> None:
        if not self._open:
            problem = "this pull has ended or was not started"
            raise ConfigurationError(
                f"{problem}: await it, or use `async with client.rankings.pull(...) as outcomes:`"
            )

    def _take(self) -> Outcome[R_co] | None:
        """Return the next outcome, or None to wait for it."""
        self._require_running()
        if self._unexpected is not None:
            raise self._unexpected
        if self._taken == self._total:
            raise StopAsyncIteration
        number = self._taken if self._ordered else next(iter(self._outcomes), -1)
        if (outcome := self._outcomes.pop(number, None)) is not None:
            del self._items[number]
            self._taken += 1
        return outcome

    def _start(self) -> None:
        """Start ids while there is room, some now and more in the next loop iteration."""
        for _ in range(_STARTED_AT_ONCE):
            is_full = self._running >= self._most_running or self._count.free <= 0
            if not self._open or is_full or (item := self._next()) is None:
                return
            self._items[item.number] = item
            self._running += 1
            self._count.free -= 1
            item.task = self._session.spawn(self._fetch(item), partial(self._on_done, item))
        asyncio.get_running_loop().call_soon(self._start)

    def _next(self) -> _Item[R_co] | None:
        """Return the next id to start, unless the consumer is too far behind."""
        others_wait = self._ordered and self._retries and self._retries[0].number == self._taken
        if len(self._items) >= self._limit and not others_wait:
            return None
        if self._retries:
            return self._retries.popleft()
        number, one = next(self._remaining, (0, None))
        return None if one is None else _Item(number, one)

    async def _fetch(self, item: _Item[R_co]) -> RankingReport[R_co]:
        """Fetch one report, unless the key is refused."""
        key = self._key
        await key.answered.wait()
        if key.refusal is not None:
            raise self._stopped()
        listing = self._listing(item.id)
        try:
            report = await self._read(listing, item.number)
        except AuthenticationError as error:
            await key.refuse(error)
            if key.refusal is not None:
                self._cancel_others()
            raise
        key.accept()
        self._accepted.query = listing.query
        return report

    async def _read(
        self, listing: Listing[R_co, RankingReport[R_co]], number: int
    ) -> RankingReport[R_co]:
        """Read a report; read pages that don't add up again, because they may have changed meanwhile."""
        schedule = msgspec.structs.replace(self._schedule, priority=number)
        for _ in range(MAX_REPULLS):
            try:  # `suppress` would cost every report thousands of instructions
                return await listing.fetch_all(schedule)
            except PaginationError:
                continue
        return await listing.fetch_all(schedule)

    async def _send_question(self) -> object:
        """Ask for a page that the service accepted, or for one campaign if it has accepted none."""
        latest = self._session.clock.monotonic() + QUESTION_SECONDS
        deadline = Deadline.of_call(min(self._schedule.deadline.at, latest))
        if self._accepted.query is not None:
            schedule = msgspec.structs.replace(self._schedule, deadline=deadline)
            return await self._session.send(self._accepted.query.page(1, schedule))
        one_campaign: Request[object] = Request(
            "GET",
            "/v3/campaigns",
            parse,
            "limit=1",
            deadline=deadline,
            lane=self._schedule.lane,
        )
        return await self._session.send(one_campaign)

    def _cancel_others(self) -> None:
        for item in self._items.values():
            if item.task is not None and item.task is not asyncio.current_task():
                item.task.cancel()

    def _stopped(self) -> SeoRepError:
        """Return the error of an id that was stopped before its end."""
        refusal = self.key_refusal
        if refusal is None:
            return ConfigurationError("the client was closed during the pull")
        stopped = "stopped, because the API key was refused for another request"
        return AuthenticationError(stopped, status=refusal.status)

    def _on_done(self, item: _Item[R_co], task: asyncio.Task[RankingReport[R_co]]) -> None:
        error = self._stopped() if task.cancelled() else task.exception()
        if self._items.get(item.number) is not item:
            return  # it is of an earlier run, which was cancelled while it waited for its end
        self._running -= 1
        self._count.free += 1
        item.task = None
        if isinstance(error, SeoRepError) and error.subject is None:
            error = error.evolve(subject=f"{self._feed.object_name} {item.id}")
        if error is None:
            self._finish(item, PulledReport(item.id, task.result()))
            self._succeeded += 1
            if self._ordered and (awaited := self._deferred.pop(self._taken, None)):
                self._retries.appendleft(awaited)  # the others wait for it, and the service answers
        elif not isinstance(error, SeoRepError):
            self._unexpected = error
            self._changed.set()
        elif (
            error.retryable
            and item.error is None
            and self._on_error == "collect"
            and not self._is_late()
        ):
            item.error = error
            self._deferred[item.number] = self._items.pop(item.number)
        else:
            self._finish(item, FailedReport(item.id, error))
        if not self._running:
            self._end_deferral()
        self._start()

    def _is_late(self) -> bool:
        return self._session.clock.monotonic() >= self._schedule.deadline.at

    def _finish(self, item: _Item[R_co], outcome: Outcome[R_co]) -> None:
        self._outcomes[item.number] = outcome
        self._changed.set()

    def _end_deferral(self) -> None:
        """Retry deferred ids, now that nothing else runs; give up on them if nothing succeeded."""
        deferred = [self._deferred.pop(number) for number in sorted(self._deferred)]
        if self._succeeded:
            self._retries.extend(deferred)
            return
        for item in deferred:
            self._items[item.number] = item
            if item.error is not None:
                self._finish(item, FailedReport(item.id, item.error))

    def __await__(self) -> Generator[Any, None, PullOutcomes[R_co]]:
        """Return every outcome, in the order of the ids; of many rows, all are in memory: `async with` holds few.

        Raises:
            AuthenticationError: the service refused the key itself.
            SeoRepError: with `on_error="raise"`, the error of the first id that failed; the rest is cancelled.
        """
        return self._collected().__await__()

    async def _collected(self) -> PullOutcomes[R_co]:
        async with self:
            outcomes = {outcome.id: outcome async for outcome in self}
        if (refusal := self.key_refusal) is not None:
            raise refusal
        # After `finish()`, the ids that had not begun have no outcome.
        return PullOutcomes((outcomes[one] for one in self._ids if one in outcomes), self._feed)
