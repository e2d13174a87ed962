"""Many campaigns in parallel: depth-first, bounded, one outcome each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Generic, Literal, TypeVar

import attrs

from seorep_async.errors import (
    AttemptTimeoutError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    PaginationError,
    ProtocolError,
    RateLimitedError,
    SeoRepError,
    ServerError,
)
from seorep_async.paging import Listing, PageBudget, Schedule, Slot
from seorep_async.reports import RankingReport
from seorep_async.session import CancelScope, Session, cancel_all

R = TypeVar("R")

MOST_REPULLS = 3
_STARTED_AT_ONCE = 4
_PASSING = (
    AttemptTimeoutError,
    ConnectionFailedError,
    DeadlineExceededError,
    ProtocolError,
    RateLimitedError,
    ServerError,
)


@attrs.frozen
class PullOutcome(Generic[R]):
    """What became of one campaign (or keyword) of a pull: either `report` or `error` is there.

    Attributes:
        id: the id that was asked for.
        report: the whole report, or None if it failed.
        error: why it failed, or None if it did not.
    """

    id: int
    report: RankingReport[R] | None = None
    error: SeoRepError | None = None

    @property
    def ok(self) -> bool:
        """Whether the report is there."""
        return self.error is None


class Pull(Generic[R]):
    """A pull of one feed for many ids: an async context manager that gives an async iterator of `PullOutcome`.

    Every id ends in exactly one outcome. Ids are worked on in their order, all pages of one before those of the next.
    At most twice `max_concurrency` pages are in progress, and as many ids in progress or waiting to be taken: a slow
    consumer slows the pull. An id whose pages don't add up is read again, up to 3 times; one that failed for a passing
    reason is tried once more when nothing else is in progress (not with `on_error="raise"`). Once the key is refused,
    nothing more is sent, and what is not finished ends in an AuthenticationError. Leaving the context stops everything.
    """

    def __init__(
        self,
        session: Session,
        ids: Sequence[int],
        listing: Callable[[int], Listing[R, RankingReport[R]]],
        subject: Callable[[int], str],
        *,
        on_error: Literal["collect", "raise"],
        ordered: bool,
    ) -> None:
        self._session = session
        self._ids = ids
        self._listing = listing
        self._subject = subject
        self._raise_errors = on_error == "raise"
        self._ordered = ordered
        self._open = False

    async def __aenter__(self) -> Pull[R]:
        self._session.require_open()
        if self._open:
            raise ConfigurationError("this pull is running already; make another one")
        self._open = True
        self._limit = 2 * self._session.settings.max_concurrency
        self._window = PageBudget(self._limit, on_free=self._start)
        self._cancel_scope = CancelScope()
        self._started = 0
        self._taken = 0
        self._running: dict[asyncio.Task[RankingReport[R]], tuple[int, Slot]] = {}
        self._landed: list[int] = []
        self._aside: dict[int, SeoRepError] = {}
        self._again: deque[int] = deque()
        self._swept: set[int] = set()
        self._succeeded = False
        self._outcomes: dict[int, PullOutcome[R]] = {}
        self._bug: BaseException | None = None
        self._changed = asyncio.Event()
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open = False
        self._outcomes.clear()
        self._changed.set()
        await cancel_all(self._running)

    def __len__(self) -> int:
        """Return the number of outcomes that there will be."""
        return len(self._ids)

    def __aiter__(self) -> Pull[R]:
        return self

    async def __anext__(self) -> PullOutcome[R]:
        """Return the next outcome: as they finish, or in the order of the ids if the pull is `ordered`.

        Raises:
            SeoRepError: with `on_error="raise"`, the error of the first id that failed; the pull has ended then.
        """
        while True:
            if not self._open:
                raise ConfigurationError(
                    "this pull has ended or was never begun: use it as "
                    "`async with client.rankings.pull(...) as outcomes:`"
                )
            if self._bug is not None:
                raise self._bug
            if self._taken == len(self._ids):
                raise StopAsyncIteration
            number = self._next_number()
            if number is not None:
                break
            self._changed.clear()
            await self._changed.wait()
        outcome = self._outcomes.pop(number)
        was_full = self._is_full()
        self._taken += 1
        if self._raise_errors and outcome.error is not None:
            await self.__aexit__(None, None, None)
            raise outcome.error
        if was_full:
            self._start()
        return outcome

    def _next_number(self) -> int | None:
        if self._ordered:
            return self._taken if self._taken in self._outcomes else None
        return self._landed.pop(0) if self._landed else None

    def _start(self) -> None:
        """Start ids as long as there is room, some now and more in the next iteration of the loop.

        With the key refused they end without a request.
        """
        for _ in range(_STARTED_AT_ONCE):
            if not self._open or not (self._again or (self._started < len(self._ids) and not self._is_full())):
                return
            if (place := self._window.enter()) is None:
                return
            if self._again:
                number = self._again.popleft()
            else:
                number = self._started
                self._started += 1
            task = self._session.spawn(self._unit(number, place), self._land)
            self._running[task] = (number, place)
        asyncio.get_running_loop().call_soon(self._start)

    def _is_full(self) -> bool:
        return self._started - self._taken - len(self._aside) >= self._limit

    async def _unit(self, number: int, place: Slot) -> RankingReport[R]:
        """Fetch one report; pages that don't add up may have changed as they were read, so they are read again."""
        schedule = Schedule(priority=number, window=self._window, place=place, cancel_scope=self._cancel_scope)
        listing = self._listing(self._ids[number])
        for _ in range(MOST_REPULLS):
            try:
                return await listing.fetch_all(schedule)
            except PaginationError:
                continue
        return await listing.fetch_all(schedule)

    def _land(self, task: asyncio.Task[RankingReport[R]]) -> None:
        number, place = self._running.pop(task)
        if not self._open:
            return
        unit = self._ids[number]
        if task.cancelled():
            closed = ConfigurationError("the client was closed during the pull", subject=self._subject(unit))
            self._finish(number, PullOutcome(unit, error=closed))
        elif isinstance(error := task.exception(), SeoRepError):
            if isinstance(error, _PASSING) and number not in self._swept and not self._raise_errors:
                self._aside[number] = error
            else:
                self._finish(number, PullOutcome(unit, error=error))
        elif error is not None:
            self._bug = error
            self._changed.set()
        else:
            self._succeeded = True
            if self._ordered and self._taken in self._aside:
                self._try_again(self._taken)  # all others wait for it, and the service answers
            self._finish(number, PullOutcome(unit, report=task.result()))
        if not place.release():  # which starts the next, if none in progress wants the place
            self._start()
        if not self._running:
            self._sweep()
            self._start()

    def _finish(self, number: int, outcome: PullOutcome[R]) -> None:
        self._outcomes[number] = outcome
        self._landed.append(number)
        self._changed.set()

    def _sweep(self) -> None:
        """Try those again that failed for a passing reason, now that nothing else runs; once, and if any succeeded."""
        for number, error in list(self._aside.items()):
            if self._succeeded:
                self._try_again(number)
            else:
                del self._aside[number]
                self._finish(number, PullOutcome(self._ids[number], error=error))

    def _try_again(self, number: int) -> None:
        self._aside.pop(number, None)
        self._swept.add(number)
        self._again.append(number)
