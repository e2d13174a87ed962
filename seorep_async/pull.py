"""Pulls: the reports of many campaigns in parallel, with one outcome for each campaign."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import Any, Generic, Literal, TypeVar

import attrs
import msgspec

from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    DeadlineExceededError,
    PaginationError,
    SeoRepError,
)
from seorep_async.key_check import QUESTION_SECONDS, KeyCheck
from seorep_async.models import Feed
from seorep_async.normalisation.envelope import parse
from seorep_async.paging import Crawl, Listing, NotAwaited, Reading
from seorep_async.reports import (
    FailedReport,
    Outcome,
    PulledReport,
    PullOutcomes,
    RankingReport,
)
from seorep_async.session import Deadline, Lane, Request, Session

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

MAX_REPULLS = 3
"""How often a report is read again if its pages don't add up."""
_TAKEN_BETWEEN_RESTS = 64
"""The number of outcomes that a consumer takes before other work of the loop gets a turn."""


@attrs.frozen(kw_only=True)
class PullRequest(Generic[R]):
    """The checked arguments of a pull, and the session that sends its requests.

    Attributes:
        listing_of: makes the listing of an id.
    """

    session: Session
    feed: Feed
    ids: Collection[int]
    listing_of: Callable[[int], Listing[R, RankingReport[R]]]
    on_error: Literal["collect", "raise"]
    ordered: bool


@attrs.define(slots=False, eq=False, repr=False)
class Pull(NotAwaited, Generic[R_co]):
    """A pull of one feed for many ids. `await` it once, or use it once as an async context manager.

    `await` returns `PullOutcomes`. `async with` returns an async iterator of `PulledReport` and
    `FailedReport` objects, and keeps only a few of them in memory. Every id has exactly one
    outcome, unless `finish()` or an error ends the pull early.

    Ids are processed in order: pages of earlier ids are requested first. The next id may begin
    while pages of an earlier one are in progress. At most twice `max_concurrency` ids are in
    progress or waiting for the consumer, so a slow consumer slows the pull down. If the pages of an
    id don't add up, it is read again up to 3 times. After a transient failure, an id is tried once
    more when all others have had their first try (not with `ordered=True` or `on_error="raise"`).
    Leaving the context stops the pull.

    A 401 means that the key is refused, but a 403 may be about a single id. To find out, the pull
    asks the service a question: it requests the first row of the last accepted request again. If
    nothing was accepted, or if that request is of an earlier pull and is refused now, it requests
    one campaign of the list. It asks after eight 403s in a row, then after 32 and after every 128.
    At the end, it asks if the last 403 may have been about the key. Once the key is refused,
    nothing more is sent, and unfinished ids end in an AuthenticationError.
    """

    _request: PullRequest[R_co]
    _run: _Run[R_co] | None = attrs.field(default=None, init=False)

    async def __aenter__(self) -> Pull[R_co]:
        self._request.session.require_open()
        if self._run is not None:
            raise ConfigurationError("a pull runs only once; create another one")
        self._run = _Run(self._request)
        self._run.crawl.hire()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._run is not None:
            await self._run.close()

    def __len__(self) -> int:
        """Return the number of ids. After `finish()`, some of them have no outcome."""
        return len(self._request.ids)

    def __aiter__(self) -> Pull[R_co]:
        return self

    async def __anext__(self) -> Outcome[R_co]:
        """Return the next outcome, in the order of the ids if the pull is `ordered`.

        Raises:
            SeoRepError: with `on_error="raise"`, the error of the first id that failed. This ends
                the pull.
            AuthenticationError: after the last outcome, if every id failed with a 403 and the
                service refuses the key itself.
        """
        run = self._running()
        # After a refused key, all outcomes are ready at once, and would hold up the loop.
        if run.taken % _TAKEN_BETWEEN_RESTS == 0:
            await asyncio.sleep(0)
            self._running()
        outcome = run.take()
        while outcome is None:
            if run.is_over:
                await run.check_key_at_end()
                raise StopAsyncIteration
            run.changed.clear()
            await run.changed.wait()
            # The pull may have ended in the meantime.
            self._running()
            outcome = run.take()
        if outcome.error is not None and self._request.on_error == "raise":
            await run.close()
            # If the key is in doubt, this sends one last question.
            refusal = await run.key.find_refusal()
            raise refusal or outcome.error
        run.crawl.hire()
        return outcome

    @property
    def key_refusal(self) -> AuthenticationError | None:
        """The service's refusal of the API key itself, or None."""
        return None if self._run is None else self._run.key.copy_of_refusal()

    def finish(self) -> None:
        """Start no more ids. Those in progress still end in an outcome."""
        self._running().finish()

    def _running(self) -> _Run[R_co]:
        """Return the run, or raise an error if the pull was not started or has ended."""
        run = self._run
        if run is None or not run.crawl.is_open:
            raise ConfigurationError(
                "this pull has ended or was not started: await it, or use "
                "`async with client.rankings.pull(...) as outcomes:`"
            )
        return run

    def __await__(self) -> Generator[Any, None, PullOutcomes[R_co]]:
        """Return every outcome, in the order of the ids.

        All rows are then in memory; `async with` keeps only a few reports.

        Raises:
            AuthenticationError: the service refused the key itself.
            SeoRepError: with `on_error="raise"`, the error of the first id that failed. All others
                are cancelled.
        """
        return self._collected().__await__()

    async def _collected(self) -> PullOutcomes[R_co]:
        """Run the whole pull, and return the outcomes in the order of the ids."""
        async with self:
            outcomes = {outcome.id: outcome async for outcome in self}
        refusal = self.key_refusal
        if refusal is not None:
            raise refusal
        # After `finish()`, ids that had not started have no outcome.
        ordered = [outcomes[id_] for id_ in self._request.ids if id_ in outcomes]
        return PullOutcomes(ordered, self._request.feed)

    def __repr__(self) -> str:
        state = ""
        if self._run is None:
            state = ", not started: await it, or use `async with`"
        elif not self._run.is_over:
            state = ", started: take outcomes with `async for`"
        return f"<Pull of feed {self._request.feed.value} for {len(self)} ids{state}>"


class _Item(msgspec.Struct, Generic[R], eq=False):
    """An id of a pull, with the state of its report.

    Attributes:
        number: the position of the id in the pull.
        reading: its pages while they are being read.
        repulls: how often the report was read again because its pages did not add up.
        error: the transient failure that deferred the id, or None.
    """

    number: int
    id: int
    listing: Listing[R, RankingReport[R]]
    reading: Reading[R]
    repulls: int = 0
    error: SeoRepError | None = None


class _Run(Generic[R]):
    """A run of a pull. It chooses the ids that its crawl reads, and keeps their outcomes.

    An id moves from `_new_items` to `_begun`, and then to `_outcomes` until the consumer takes its
    outcome. After a transient failure, an id waits in `_deferred` until all others have had their
    first try, unless the pull is ordered or raises errors.
    """

    def __init__(self, request: PullRequest[R]) -> None:
        session = request.session
        self._request = request
        self._session = session
        self._lane = Lane()
        self._deadline = session.call_timeout.stream_deadline()
        self.crawl: Crawl[R] = Crawl(session, self, self._lane)
        self.key: KeyCheck = KeyCheck(self._ask_about_key)
        self.changed: asyncio.Event = asyncio.Event()
        self._new_items: Iterator[_Item[R]] = self._items_of(request.ids)
        self._begun: dict[int, _Item[R]] = {}  # by number, which is the position of its reading
        self._deferred: list[_Item[R]] = []
        self._outcomes: dict[int, Outcome[R]] = {}  # by number, in order of arrival
        self._total = len(request.ids)  # outcomes in all
        self.taken: int = 0  # outcomes that the consumer has
        self._succeeded = 0
        self._accepted_before = session.accepted_first_rows
        # The error of a request that was not sent in time. Ids that have not begun get it as well.
        self._late_error: SeoRepError | None = None
        self._bug: BaseException | None = None

    # For the consumer

    @property
    def is_over(self) -> bool:
        """Whether every outcome was taken."""
        return self.taken == self._total

    def take(self) -> Outcome[R] | None:
        """Return the next outcome, or None if it has not arrived yet."""
        if self._bug is not None:
            raise self._bug
        outcome = self._outcomes.pop(self._next_number, None)
        if outcome is not None:
            self.taken += 1
        return outcome

    @property
    def _next_number(self) -> int:
        """The position of the id whose outcome `take` returns next. -1 if none has arrived.

        An ordered pull takes outcomes in the order of the ids, so its next one may still be absent.
        Any other pull takes them as they arrive.
        """
        if self._request.ordered:
            return self.taken
        return next(iter(self._outcomes), -1)  # no id has the position -1

    def finish(self) -> None:
        """Start no more ids."""
        self._new_items = iter(())
        # Each id that has begun still ends in an outcome.
        self._total = self.taken + len(self._outcomes) + len(self._begun) + len(self._deferred)
        self.changed.set()

    async def check_key_at_end(self) -> None:
        """Ask about the key if the last 403 may be about it.

        The consumer of `async for` already has all reports, so this raises only if every id failed.
        An awaited pull raises for every refused key (`Pull._collected`).

        Raises:
            AuthenticationError: the key is refused, and nothing succeeded.
        """
        refusal = await self.key.find_refusal()
        if refusal is None or self._succeeded:
            return
        # After a 401, each outcome already has this error.
        if refusal.status != 401:
            raise refusal

    async def close(self) -> None:
        self.changed.set()
        await self.crawl.close()

    # For the crawl: the methods of `Source` in `paging/crawl.py`

    @property
    def awaits_consumer(self) -> bool:
        return self._is_full and self._next_number in self._outcomes

    def next_reading(self) -> Reading[R] | None:
        """Return the reading of the next id. Ids that will not be read end here."""
        while (item := self._next_item()) is not None:
            if self.key.refusal is not None:
                self._fail(item, self._stopped_error())
            elif self._late_error is not None:
                self._fail(item, item.error or self._late_error)
            elif item.error is not None and self._succeeded == 0:
                # If everything has failed, deferred ids are not tried again.
                self._fail(item, item.error)
            else:
                self._begun[item.number] = item
                return item.reading
        return None

    def on_complete(self, reading: Reading[R]) -> None:
        """Assemble a report from its complete pages. It is the outcome of its id."""
        item = self._begun[reading.requests.position]
        self.key.accept()
        try:
            report = item.listing.assemble(reading.pages)
        except SeoRepError as error:
            # Even complete pages can be refused, for example if the period is in the future.
            self._fail(item, error)
            return
        self._succeeded += 1
        self._end(item, PulledReport(item.id, report))

    async def judge(self, reading: Reading[R], error: AuthenticationError) -> None:
        """Stop everything if a 401 or 403 is about the key."""
        await self.key.refuse(error, self.crawl.other_workers)
        if self.key.refusal is None:
            return
        item = self._begun.get(reading.requests.position)
        # This id ends with the error of its own request, all others with that of a stopped pull.
        if item is not None and item.reading is reading:
            self._stop(item, error)
        for other_item in list(self._begun.values()):
            self._stop(other_item, self._stopped_error())
        # Ids that are not in progress end in `next_reading` when the consumer takes outcomes.

    def on_failure(self, reading: Reading[R], error: SeoRepError) -> Reading[R] | None:
        """End an id, defer it, or return another reading of it that may succeed."""
        item = self._begun.get(reading.requests.position)
        if item is None or item.reading is not reading:
            # The id has ended, or another reading has replaced this one.
            return None
        if isinstance(error, DeadlineExceededError) and error.attempts == 0 and self._is_late:
            self._late_error = error.evolve(subject=None)
        error = reading.failure(error)
        if reading.may_be_too_large(error):
            item.reading = reading.at_default_size(error)
            return item.reading
        if isinstance(error, PaginationError) and item.repulls < MAX_REPULLS:
            # The rows may have changed while they were read.
            item.repulls += 1
            item.reading = reading.again(error)
            return item.reading
        if not self._may_try_again(item, error):
            self._fail(item, error)
            return None
        # The id waits for its second try.
        item.error = error
        item.reading = reading.again(error)
        del self._begun[item.number]
        self._deferred.append(item)
        return None

    def on_bug(self, error: BaseException) -> None:
        self._bug = error
        self.changed.set()

    # From one state of an id to the next

    def _items_of(self, ids: Iterable[int]) -> Iterator[_Item[R]]:
        for number, id_ in enumerate(ids):
            listing = self._request.listing_of(id_)
            yield _Item(number, id_, listing, listing.reading(self._deadline, self._lane, number))

    @property
    def _is_full(self) -> bool:
        """Whether no id may begin until an outcome is taken."""
        # An id counts as one page here, although it may have more.
        return len(self._begun) + len(self._outcomes) >= self.crawl.budget

    def _next_item(self) -> _Item[R] | None:
        """Return the id to begin next, or None if all have begun or none may begin now."""
        if self._is_full or not self.key.answered.is_set():
            return None
        new_item = next(self._new_items, None)
        if new_item is not None:
            return new_item
        # Second tries come last, because the service may have recovered by then.
        first_tries_ended = all(item.error is not None for item in self._begun.values())
        if self._deferred and first_tries_ended:
            return self._deferred.pop(0)
        return None

    def _fail(self, item: _Item[R], error: SeoRepError) -> None:
        if error.subject is None:
            error = error.evolve(subject=item.listing.query.subject)
        self._end(item, FailedReport(item.id, error))

    def _end(self, item: _Item[R], outcome: Outcome[R]) -> None:
        self._begun.pop(item.number, None)
        self._outcomes[item.number] = outcome
        self.changed.set()

    def _may_try_again(self, item: _Item[R], error: SeoRepError) -> bool:
        """Return whether an id gets a second try after its failure."""
        # A second try comes after all other ids. The consumer of an ordered pull would wait for
        # them, and a pull that raises ends with its first failure.
        if self._request.ordered or self._request.on_error == "raise" or item.error is not None:
            return False
        # If the pages didn't add up, the report was read again already.
        was_repulled = isinstance(error, PaginationError)
        return error.retryable and not was_repulled and not self._is_late

    @property
    def _is_late(self) -> bool:
        """Whether the time of a `client.timeout()` around the pull is over."""
        return self._session.clock.monotonic() >= self._deadline.at

    # The key

    async def _ask_about_key(self) -> object:
        """Ask the service about the key. Meanwhile the pull sends only retries."""
        now = self._session.clock.monotonic()
        deadline = Deadline.of_call(min(self._deadline.at, now + QUESTION_SECONDS))
        list_question = Request("GET", "/v3/campaigns", parse, "limit=1", deadline=deadline)
        question: Request[Any] = list_question
        accepted_first_rows = self._session.accepted_first_rows
        if accepted_first_rows is not None:
            # The lane of the pull is on hold until the response, so the question needs another.
            question = msgspec.structs.replace(
                accepted_first_rows(1), deadline=deadline, lane=Lane()
            )
        # Whether the service has accepted no pull's request since this pull began.
        is_of_earlier_pull = (
            accepted_first_rows is not None and accepted_first_rows is self._accepted_before
        )
        share = self._session.share
        share.hold(self._lane)
        try:
            response = await self._session.send(question)
            # If it was about a campaign of an earlier pull, that is one of this pull now.
            self._accepted_before = None
            return response
        except AuthenticationError:
            if not is_of_earlier_pull:
                raise
            # The campaign in the question was accepted in an earlier pull. It may be forbidden by
            # now although the key is good, so the list of campaigns decides.
            return await self._session.send(list_question)
        finally:
            share.release(self._lane)

    def _stop(self, item: _Item[R], error: SeoRepError) -> None:
        self.crawl.drop(item.reading)
        self._fail(item, error)

    def _stopped_error(self) -> AuthenticationError:
        stopped = "stopped, because the API key was refused for another request"
        refusal = self.key.refusal
        status = None if refusal is None else refusal.status
        return AuthenticationError(stopped, status=status)
