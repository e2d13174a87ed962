"""Listings: awaited, iterated over, or read page by page."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import aclosing
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

import attrs

from seorep_async.errors import ConfigurationError, SeoRepError, short_repr
from seorep_async.models import Page
from seorep_async.paging.page_size import PageSize
from seorep_async.paging.query import PageRequests, Query
from seorep_async.paging.reading import Reading
from seorep_async.plain_values import plain_integer
from seorep_async.session import Deadline, Lane, Session, cancel_all

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class NotAwaited:
    """The base class of `Listing` and `Pull`, whose errors point out a forgotten `await`."""

    if not TYPE_CHECKING:  # type checkers find a forgotten `await` anyway

        def __getattr__(self, name: str) -> NoReturn:
            kind = type(self).__name__
            raise AttributeError(
                f"a {kind} has no {name!r}; if its result has one, you forgot `await`: "
                f"(await {kind.lower()}).{name}",
                name=name,
                obj=self,
            )

        def _refuse(self, *_: object) -> NoReturn:
            raise TypeError(repr(self))  # the repr says what to do

        __iter__ = __len__ = __getitem__ = __contains__ = _refuse


@attrs.define(slots=False, eq=False, repr=False)
class Listing(NotAwaited, Generic[T, R_co]):
    """A listing that is fetched when it is used. Await it, iterate over it, or take single pages.

    - `await listing` returns everything, in the service's order. If the number of items is not the
      announced one, or an item is repeated, it raises an error.
    - `async for item in listing` yields items one at a time while pages arrive.
    - `listing.pages()` yields pages, and `await listing.page(3)` returns one page.

    Every use fetches the listing again, and may raise a SeoRepError, such as a PaginationError if
    the pages do not add up.

    Attributes:
        query: the requests of its pages.
        assemble: makes the result from all pages: a list of records, or a report.
    """

    _session: Session
    query: Query[T]
    assemble: Callable[[list[Page[T]]], R_co]
    """For a report, continue at `FeedQuery.report` in `resources/rankings.py`."""
    # Finds the page size of the endpoint. None if the caller or the settings give one.
    _page_size: PageSize | None

    def __await__(self) -> Generator[Any, None, R_co]:
        return self.fetch_all().__await__()

    def __aiter__(self) -> AsyncGenerator[T, None]:
        reading = self._streamed_reading()
        return _Iteration(_items(self._pages(reading)), reading)

    def pages(self) -> AsyncGenerator[Page[T], None]:
        """Yield the pages in order.

        A bounded number of pages is fetched in advance. If you stop early, their requests are
        cancelled when the generator is garbage-collected, or at once within
        `async with contextlib.aclosing(listing.pages())`.
        """
        reading = self._streamed_reading()
        return _Iteration(self._pages(reading), reading)

    def _streamed_reading(self) -> Reading[T]:
        reading = self.reading(Deadline())
        # Finding the page size costs a request, which pays only if the whole listing is read.
        reading.page_size = None
        return reading

    async def _pages(self, reading: Reading[T]) -> AsyncGenerator[Page[T], None]:
        # The time of a stream begins with its first request.
        reading.requests.deadline = self._session.call_timeout.stream_deadline()
        async with aclosing(self._read_ahead(reading)) as pages:
            async for page in pages:
                yield page

    async def page(self, number: int) -> Page[T]:
        """Fetch one page.

        Args:
            number: from 1. Beyond the end, most services send an empty page.

        Raises:
            ConfigurationError: `number` is not an integer of 1 or more.
        """
        plain_number = plain_integer(number)
        if plain_number is None or plain_number < 1:
            problem = f"number must be an integer from 1, got {short_repr(number)}"
            raise ConfigurationError(problem, argument="number")
        requests = PageRequests(self.query, self._session.call_timeout.deadline())
        return await self._session.send(requests.page(plain_number, limit=None))

    async def first_page(self) -> Page[T]:
        """Fetch page 1 as `await listing` does, for the package's own estimates.

        Unlike `page(1)`, this uses the endpoint's page size.
        """
        deadline = self._session.call_timeout.deadline()
        return await self.reading(deadline).fetch(1)

    async def fetch_all(self) -> R_co:
        """Fetch everything within `Settings.call_timeout`, as `await listing` does.

        This is a coroutine, so it can be given to `asyncio.create_task` or a `TaskGroup`.
        """
        return await self._read_whole(self._session.call_timeout.deadline())

    async def fetch_patiently(self) -> R_co:
        """Fetch everything, for exports.

        `Settings.call_timeout` limits each request, and not the whole listing.
        """
        return await self._read_whole(self._session.call_timeout.stream_deadline())

    def reading(
        self, deadline: Deadline, lane: Lane | None = None, position: int = 0
    ) -> Reading[T]:
        """Return a reading of the whole listing, from which nothing was requested yet.

        Args:
            deadline, lane, position: see `PageRequests`.
        """
        requests = PageRequests(self.query, deadline, lane, position)
        return Reading(requests, self._session, self._page_size)

    async def _read_whole(self, deadline: Deadline) -> R_co:
        """Read everything, if necessary a second time with pages of the default size."""
        reading = self.reading(deadline)
        try:
            return await self._assembled(reading)
        except SeoRepError as error:
            if not reading.may_be_too_large(error):
                raise
            # The large pages may be the cause, so start over with pages of the default size.
            reading = reading.at_default_size(error)
        try:
            return await self._assembled(reading)
        except SeoRepError as error:
            failure = reading.failure(error)
        # Raised outside the handler. Inside, an earlier error would get this one as its context.
        raise failure

    async def _assembled(self, reading: Reading[T]) -> R_co:
        async with aclosing(self._read_ahead(reading)) as pages:
            return self.assemble([page async for page in pages])

    async def _read_ahead(self, reading: Reading[T]) -> AsyncGenerator[Page[T], None]:
        """Yield the pages in order, and request the next ones in advance."""
        # Most listings have one page, which needs no task.
        first_page = await reading.fetch(reading.take_number())
        reading.check(first_page)
        yield first_page
        if reading.is_complete:
            return
        tasks: deque[asyncio.Task[Page[T]]] = deque()
        try:
            while not reading.is_complete:
                while reading.wants_request:
                    request = reading.request(reading.take_number())
                    tasks.append(self._session.spawn(self._session.send(request)))
                # Closing the client cancels the task, and `wait` does not raise that cancellation.
                await asyncio.wait([tasks[0]])
                oldest = tasks.popleft()
                if oldest.cancelled():
                    closed = "the client was closed while a listing was being read"
                    raise ConfigurationError(closed)
                page = oldest.result()
                reading.check(page)
                # The last page may be empty.
                if page.items:
                    yield page
        finally:
            await cancel_all(tasks)

    def __repr__(self) -> str:
        return f"<Listing of {self.query.name}, not fetched: await it, or use `async for`>"


async def _items(pages: AsyncGenerator[Page[T], None]) -> AsyncGenerator[T, None]:
    async with aclosing(pages):
        async for page in pages:
            for item in page.items:
                yield item


class _Iteration(AsyncGenerator[T, None]):
    """An async generator that does not just end after an interruption, but raises an error.

    Python closes a generator that was interrupted, for example by a timeout around `anext`. Its
    next step would look like the end of the listing, although rows are missing.
    """

    def __init__(self, generator: AsyncGenerator[T, None], reading: Reading[Any]) -> None:
        self._generator = cast("AsyncGeneratorType[T, None]", generator)
        self._reading = reading

    def __anext__(self) -> Coroutine[Any, Any, T]:
        # A generator without a frame has ended.
        if self._generator.ag_frame is None and not self._reading.is_complete:
            return self._refuse_to_end()
        return self._generator.__anext__()

    async def _refuse_to_end(self) -> NoReturn:
        # Raised by a coroutine, because `anext(iteration, default)` crashes Python if `__anext__`
        # itself raises.
        raise ConfigurationError(
            "this iteration ended early, so rows are missing; iterate over the listing again"
        )

    def asend(self, value: None) -> Coroutine[Any, Any, T]:
        return self._generator.asend(value)

    def athrow(self, *error: Any) -> Coroutine[Any, Any, T]:
        return self._generator.athrow(*error)

    def aclose(self) -> Coroutine[Any, Any, None]:
        return self._generator.aclose()
