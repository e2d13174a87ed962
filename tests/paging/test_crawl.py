"""Crawls: many listings at once, each read to its end first, within one budget of pages."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from seorep_async import ConfigurationError, NotFoundError, Page, SeoRepError, Settings
from seorep_async.paging import Crawl, Query, Reading, Schedule
from seorep_async.session import Clock, Deadline, Decode, Lane, Request
from seorep_async.session.flow_control import Share

FAR_TOO_MANY = 1000
"""The number of pages after which a listing is given up."""


class FakeSession:
    """Each response takes a random number of iterations of the event loop.

    Attributes:
        requested: the requests so far, as the numbers of listing and page.
        most_in_flight: the most first attempts in flight at once.
        arrived: the pages of each listing that have arrived.
    """

    def __init__(
        self, concurrency: int, random: Random, failures: float = 0.0, retries: float = 0.0
    ) -> None:
        self.settings = Settings(max_concurrency=concurrency)
        self.share = Share(self.settings, Clock())
        self.requested: list[tuple[int, int]] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.arrived: Counter[int] = Counter()
        self._random = random
        self._failures = failures
        self._retries = retries

    def spawn(self, work: Any) -> Any:
        return asyncio.get_running_loop().create_task(work)

    async def send(self, request: Request[Page[int]]) -> Page[int]:
        listing = int(request.path)
        page = int(request.query.removeprefix("page="))
        self.requested.append((listing, page))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.response(listing, page)
        finally:
            self.in_flight -= 1
        self.arrived[listing] += 1
        if self._random.random() < self._retries:
            await self.retry(request)
        return request.decode(b"")

    async def response(self, listing: int, page: int) -> None:
        for _ in range(self._random.randrange(6)):
            await asyncio.sleep(0)
        if self._random.random() < self._failures:
            raise NotFoundError("there is no such object")

    async def retry(self, request: Request[Page[int]]) -> None:
        """Try a request again, as a session does."""
        assert request.lane is not None
        request.lane.on_pause()
        for _ in range(self._random.randrange(20)):
            await asyncio.sleep(0)


class FakeSource:
    """Listings with some pages of one item each; those of a negative number announce no total."""

    def __init__(self, session: Any, pages: Iterable[int]) -> None:
        self.lane = Lane()
        self.crawl: Crawl[int] = Crawl(session, self, self.lane)
        self.items: dict[int, list[int]] = {}
        self.failed: dict[int, SeoRepError] = {}
        self.bugs: list[BaseException] = []
        self.ended = asyncio.Event()
        self._remaining = enumerate(pages)
        self._begun: dict[int, Reading[int]] = {}

    async def read_all(self) -> None:
        self.crawl.hire()
        await self.ended.wait()
        await self.crawl.close()

    def next_reading(self) -> Reading[int] | None:
        self.check_budget()
        for number, pages in self._remaining:
            query = Query(str(number), "", pages_of(pages), key=lambda item: item)
            schedule = Schedule(Deadline(), self.lane)
            reading = Reading(query, schedule, FAR_TOO_MANY, number)
            self._begun[number] = reading
            return reading
        if not self._begun:
            self.ended.set()
        return None

    def check_budget(self) -> None:
        # The pages of a listing that was given up are no longer in progress.
        readings = [reading for reading in self._begun.values() if not reading.is_given_up]
        in_progress = sum(reading.requested - reading.checked for reading in readings)
        assert in_progress <= self.crawl.budget

    def on_complete(self, reading: Reading[int]) -> None:
        items = [item for page in reading.pages for item in page.items]
        self.items[reading.place] = items
        del self._begun[reading.place]

    async def judge(self, reading: Reading[int], error: SeoRepError) -> None:
        await asyncio.sleep(0)

    def on_failure(self, reading: Reading[int], error: SeoRepError) -> None:
        self.failed[reading.place] = error
        del self._begun[reading.place]

    def on_bug(self, error: BaseException) -> None:
        self.bugs.append(error)
        self.ended.set()


def pages_of(count: int) -> Callable[[int], Decode[Page[int]]]:
    """Return the decoders of a listing whose page n holds the number n."""
    total = abs(count)

    def decoder(number: int) -> Decode[Page[int]]:
        items = (number,) if number <= total else ()
        if count < 0:
            return lambda body: Page(items, number)
        return lambda body: Page(items, number, total_pages=count, total_records=count)

    return decoder


listings = st.lists(st.integers(1, 12) | st.integers(-12, -1), min_size=1, max_size=12)
randoms = st.randoms(use_true_random=False)
concurrencies = st.integers(1, 5)


@given(listings, concurrencies, randoms, st.sampled_from([0.0, 0.1]))
def test_every_listing_is_completed_within_the_budget(
    pages: list[int], concurrency: int, random: Random, retries: float
) -> None:
    session = FakeSession(concurrency, random, retries=retries)

    async def read() -> FakeSource:
        source = FakeSource(session, pages)
        await source.read_all()
        return source

    source = asyncio.run(read())
    assert source.bugs == []
    assert source.items == {
        number: [*range(1, abs(count) + 1)] for number, count in enumerate(pages)
    }
    # A worker that was started beside a retry ends only after its page.
    assert session.most_in_flight <= (2 * concurrency if retries else concurrency)


@given(listings, concurrencies, randoms)
def test_failed_listings_do_not_affect_others(
    pages: list[int], concurrency: int, random: Random
) -> None:
    session = FakeSession(concurrency, random, failures=0.1, retries=0.1)

    async def read() -> FakeSource:
        source = FakeSource(session, pages)
        await source.read_all()
        return source

    source = asyncio.run(read())
    assert source.bugs == []
    assert source.items.keys() | source.failed.keys() == {*range(len(pages))}
    for number, items in source.items.items():
        assert items == [*range(1, abs(pages[number]) + 1)]
    assert session.in_flight == 0


@given(listings, concurrencies, randoms, st.integers(0, 40))
def test_a_crawl_that_is_closed_leaves_no_task(
    pages: list[int], concurrency: int, random: Random, iterations: int
) -> None:
    session = FakeSession(concurrency, random, failures=0.1)

    async def read() -> set[asyncio.Task[Any]]:
        source = FakeSource(session, pages)
        source.crawl.hire()
        for _ in range(iterations):
            await asyncio.sleep(0)
        await source.crawl.close()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(read()) == set()
    assert session.in_flight == 0


class SlowStart(FakeSession):
    """Checks that the pages of the first listing in progress are no more than have arrived."""

    async def response(self, listing: int, page: int) -> None:
        in_progress = page - self.arrived[listing]
        has_other_work = len({listing for listing, _ in self.requested}) < 40
        if listing == 0 and page > 1 and has_other_work:
            assert in_progress <= self.arrived[listing]
        await super().response(listing, page)


class ClosedWhileRereading(FakeSource):
    """Begins to read a failed listing again just before the client is closed."""

    def on_failure(self, reading: Reading[int], error: SeoRepError) -> Any:
        if isinstance(error, ConfigurationError):
            return super().on_failure(reading, error)
        worker: Any = asyncio.current_task()
        asyncio.get_running_loop().call_soon(worker.cancel)
        self._begun[reading.place] = reading.again()
        return self._begun[reading.place]


async def test_a_listing_that_begins_again_at_the_closing_fails() -> None:
    session: Any = FakeSession(4, Random(0), failures=1.0)
    source = ClosedWhileRereading(session, [1])
    async with asyncio.timeout(5):
        await source.read_all()
    assert isinstance(source.failed[0], ConfigurationError)


@pytest.mark.parametrize("seed", range(5))
def test_a_long_listing_starts_slowly_beside_others(seed: int) -> None:
    session = SlowStart(8, Random(seed))

    async def read() -> FakeSource:
        source = FakeSource(session, [30] + [1] * 40)
        await source.read_all()
        return source

    source = asyncio.run(read())
    assert source.bugs == []
    assert len(source.items) == 41


class DeadPage(FakeSession):
    """Never responds to page 2 of the first listing, which is tried again."""

    async def send(self, request: Request[Page[int]]) -> Page[int]:
        if (request.path, request.query) != ("0", "page=2"):
            return await super().send(request)
        assert request.lane is not None
        request.lane.on_pause()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_dead_page_takes_one_worker_while_others_begin(concurrency: int) -> None:
    session = DeadPage(concurrency, Random(1))

    async def read() -> FakeSource:
        source = FakeSource(session, [9] + [2] * 20)
        source.crawl.hire()
        for _ in range(1000):
            await asyncio.sleep(0)
        await source.crawl.close()
        return source

    source = asyncio.run(read())
    assert source.bugs == []
    assert len(source.items) == 20
    last_beginning = session.requested.index((20, 1))
    early_requests = session.requested[:last_beginning]
    assert [page for listing, page in early_requests if listing == 0] == [1]
    assert (0, 3) in session.requested, "there was no other work"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks")
def test_a_thousand_eager_workers_do_not_start_inside_each_other() -> None:
    session = FakeSession(1024, Random(1))

    async def read() -> int:
        factory = getattr(asyncio, "eager_task_factory")  # noqa: B009  # of 3.12
        asyncio.get_running_loop().set_task_factory(factory)
        source = FakeSource(session, [1] * 5000)
        await source.read_all()
        return len(source.items)

    assert asyncio.run(read()) == 5000
