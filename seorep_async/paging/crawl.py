"""The crawl reads many listings at once. It has a limited number of workers, one page each."""

from __future__ import annotations

import asyncio
import bisect
from operator import attrgetter
from typing import Generic, Protocol, TypeAlias, TypeVar, cast

from seorep_async.errors import AuthenticationError, ConfigurationError, SeoRepError
from seorep_async.models import Page
from seorep_async.paging.reading import Reading
from seorep_async.session import Lane, Session, cancel_all

T = TypeVar("T")


_BY_POSITION = attrgetter("requests.position")

Job: TypeAlias = tuple[Reading[T], int]
"""A page to request, as its listing and its number."""


class Source(Protocol[T]):
    """Gives a crawl its listings, and takes their results. `_Run` in `pull.py` is one."""

    @property
    def awaits_consumer(self) -> bool:
        """Whether the consumer must take a finished result before another listing may begin."""

    def next_reading(self) -> Reading[T] | None:
        """Return the listing that begins next, or None to begin none now."""

    def on_complete(self, reading: Reading[T]) -> None:
        """Accept the pages of a listing."""

    async def judge(self, reading: Reading[T], error: AuthenticationError) -> None:
        """Find out whether a 401 or 403 for a listing affects other listings."""

    def on_failure(self, reading: Reading[T], error: SeoRepError) -> Reading[T] | None:
        """Record the failure of a listing; do nothing if the listing has already ended.

        Return a reading that starts the listing over, or None.
        """

    def on_bug(self, error: BaseException) -> None:
        """Handle an unexpected error."""


class Crawl(Generic[T]):
    """Reads listings with one worker for each page in progress.

    A worker requests a page, hands it to its listing, and takes the next page to request:

    1. The next page of the same listing, if it announced no number of pages: only this worker
       knows whether there is another page.
    2. A page of the first listing that has more to request. Listings are thus finished in order, as
       far as possible. A listing is passed over if one of its pages is being tried again, or if it
       has at least as many pages in progress as have arrived. Otherwise, a listing whose requests
       always fail would hold up the others, and its failures would look like a limit of the
       service.
    3. Page 1 of the next listing that begins.
    4. If there is no other work, a page of the first listing that was passed over. A listing with
       a page that is being tried again comes last: it is taken only if every unfinished listing
       has such a page, and the consumer is not holding back a new listing.

    There is a worker for each permit, plus one for each worker whose request is being tried again.
    With more workers, nearly every request would wait in the queue for its permit, which costs
    more than decoding its rows. The budget limits the workers to twice the number of permits.
    """

    def __init__(self, session: Session, source: Source[T], lane: Lane) -> None:
        self._session = session
        self._source = source
        self._lane = lane
        lane.on_retry = self._on_retry
        self._permits = session.share.max_concurrency
        self.budget: int = 2 * self._permits
        # Listings that have more to request, and whose number of pages is known, in order.
        self._unfinished: list[Reading[T]] = []
        # Each worker, with the listing that it is reading.
        self._workers: dict[asyncio.Task[None], Reading[T]] = {}
        # The workers whose request is being tried again.
        self._retrying: set[asyncio.Task[None]] = set()
        self.is_open: bool = True

    def hire(self) -> None:
        """Start one more worker, if there is a page to request and room for a worker."""
        workers = len(self._workers)
        has_room = workers < self._permits + len(self._retrying) and workers < self.budget
        if not self.is_open or not has_room:
            return
        job = self._next_job()
        if job is not None:
            worker = self._session.spawn(self._work(job))
            worker.add_done_callback(self._on_worker_end)
            self._workers[worker] = job[0]  # its listing

    async def close(self) -> None:
        """Stop, and wait until nothing is in progress."""
        self.is_open = False
        # The session keeps the last accepted request, which has this lane. With the callback, it
        # would keep the whole pull in memory.
        self._lane.on_retry = None
        await cancel_all(self._workers)

    def drop(self, reading: Reading[T]) -> None:
        """End a listing. Its requests are cancelled, and no more are sent."""
        self._give_up(reading)
        self._cancel_requests(reading)

    @property
    def other_workers(self) -> int:
        """The number of workers, not counting the calling worker."""
        return len(self._workers) - 1

    def _next_job(self) -> Job[T] | None:
        """Return the next page to request by rules 2 to 4 of the class, if there is any."""
        candidates = self._unfinished
        if self._retrying:
            failing = {self._workers[worker] for worker in self._retrying}
            candidates = [reading for reading in self._unfinished if reading not in failing]
        # 2. A listing without a retry. More of its pages have arrived than are in progress.
        for reading in candidates:
            if reading.wants_request and reading.in_progress < reading.arrived:
                return self._take_job(reading)
        # 3. The listing that begins next.
        next_reading = self._source.next_reading()
        if next_reading is not None:
            return next_reading, next_reading.take_number()
        # 4. Without other work, a listing that was passed over. If only listings with a retry are
        # left, and the consumer holds back no new listing, one of those.
        if not candidates and not self._source.awaits_consumer:
            candidates = self._unfinished
        for reading in candidates:
            if reading.wants_request:
                return self._take_job(reading)
        return None

    def _take_job(self, reading: Reading[T]) -> Job[T]:
        """Return the next page of a listing as a job."""
        number = reading.take_number()
        if number == reading.last_page:
            self._unfinished.remove(reading)
        return reading, number

    async def _work(self, job: Job[T] | None) -> None:
        """Request one page after the other, until nothing is left for this worker."""
        worker = cast("asyncio.Task[None]", asyncio.current_task())
        if worker not in self._workers:
            # An eager task runs before `hire` has registered it, and would start the next worker
            # inside itself.
            await asyncio.sleep(0)
        while job is not None:
            reading, number = job
            self._workers[worker] = reading
            # Each worker starts the next one, one per turn of the event loop. If all of them
            # started in one turn, their first attempts would block the loop.
            self.hire()
            try:
                # The page is not assigned to a variable, because that would keep it in memory.
                self._store(reading, number, await reading.fetch(number))
            except SeoRepError as error:
                reading = await self._fail(reading, error)
                # If the client is closed now, `_on_worker_end` reports the new reading as failed.
                self._workers[worker] = reading
            self._retrying.discard(worker)
            # Let other workers run first, so that requests are sent one right after the other.
            # Without this turn, decoding and sending alternate, and pulls of small pages take a
            # tenth more processor time.
            await asyncio.sleep(0)
            job = self._following(reading)
            # This reference would keep the listing's pages in memory until the next page arrives.
            del reading

    def _following(self, reading: Reading[T]) -> Job[T] | None:
        """Return the page that a worker requests next, after a response of this listing."""
        if not self.is_open:
            return None
        # 1. Without a number of pages, only this worker may read on in the listing.
        if reading.wants_request and reading.last_page is None:
            return self._take_job(reading)
        # For each retry, a further worker was started. Now that a retry is over, there is one too
        # many, and this one ends.
        if len(self._workers) > self._permits + len(self._retrying):
            return None
        return self._next_job()

    def _store(self, reading: Reading[T], number: int, page: Page[T]) -> None:
        """Store a page. Hand the listing to the source once it is complete."""
        if reading.is_given_up:
            return
        reading.store(number, page)
        if reading.is_complete:
            self._source.on_complete(reading)
        elif number == 1 and reading.last_page is not None:
            bisect.insort(self._unfinished, reading, key=_BY_POSITION)

    async def _fail(self, reading: Reading[T], error: SeoRepError) -> Reading[T]:
        """Hand a failure to the source.

        Return the reading that starts the listing over, or else `reading` itself.
        """
        if reading.is_given_up and not isinstance(error, AuthenticationError):
            # Another request of the listing failed first. The worker of that request reports the
            # failure, but may first ask the service about the key.
            return reading
        self._give_up(reading)
        if isinstance(error, AuthenticationError):
            # The other requests of the listing will also get a 401 or 403. They are not cancelled,
            # because the source counts each of them to decide whether the key is refused.
            await self._source.judge(reading, error)
        else:
            self._cancel_requests(reading)
        return self._source.on_failure(reading, error) or reading

    def _give_up(self, reading: Reading[T]) -> None:
        """Request no more pages of a listing."""
        reading.is_given_up = True
        if reading in self._unfinished:
            self._unfinished.remove(reading)
        # Pages that arrived before one with a lower number. Nobody waits for them any more.
        reading.early.clear()

    def _on_retry(self) -> None:
        """Start a worker in place of the calling one, which needs no permit for a while."""
        worker = cast("asyncio.Task[None]", asyncio.current_task())
        self._retrying.add(worker)
        self.hire()

    def _cancel_requests(self, reading: Reading[T]) -> None:
        current_worker = asyncio.current_task()
        for worker, its_reading in self._workers.items():
            if its_reading is reading and worker is not current_worker:
                worker.cancel()

    def _on_worker_end(self, worker: asyncio.Task[None]) -> None:
        """Remove a worker, and start another one. Report the listing of a cancelled worker."""
        reading = self._workers.pop(worker)
        self._retrying.discard(worker)
        if not worker.cancelled():
            bug = worker.exception()
            if bug is not None:
                self._source.on_bug(bug)
        elif self.is_open:
            # Closing the client cancels workers, and so does the failure of their listing. After a
            # failure, the listing has already ended, so `on_failure` does nothing.
            self.drop(reading)
            closed = ConfigurationError("the client was closed while its pages were being read")
            self._source.on_failure(reading, closed)
        # Now there may be room for another page, or a listing may begin. If the client was closed,
        # listings that begin here fail at once, so each of them has an outcome.
        self.hire()
