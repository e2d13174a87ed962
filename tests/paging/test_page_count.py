"""The pages that listings of a pull may have in progress together: never more, and every one comes back."""

import asyncio
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from seorep_async import Listing, NotFoundError, Page, Settings
from seorep_async.paging.listing import PageCount, Query, Schedule
from seorep_async.session import Deadline, Decode, Request, Session


class Unhurried:
    """A session that takes a number of iterations of the event loop over each response."""

    settings = Settings(max_concurrency=2)

    def __init__(self, random: Random, failures: float = 0.0) -> None:
        self._random, self._failures = random, failures
        self.in_flight = self.most_in_flight = 0

    def spawn(self, work: Any, when_done: Any) -> Any:
        task = asyncio.ensure_future(work)
        task.add_done_callback(when_done)
        return task

    async def send(self, request: Request[Page[int]]) -> Page[int]:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            for _ in range(self._random.randrange(6)):
                await asyncio.sleep(0)
            if self._random.random() < self._failures:
                raise NotFoundError("there is no such object")
        finally:
            self.in_flight -= 1
        return request.decode(b"")


def listing_of(session: Any, pages: int) -> Listing[int, list[int]]:
    def decode(number: int) -> Decode[Page[int]]:
        return lambda _: Page(
            items=(number,), number=number, total_pages=pages, total_records=pages
        )

    return Listing(
        session,
        Query("/", "", decode, lambda item: item),
        lambda pages: [item for page in pages for item in page.items],
    )


some_listings = st.lists(st.integers(1, 12), min_size=1, max_size=5)
chance = st.randoms(use_true_random=False)


async def read_together(
    session: Unhurried, pages: list[int], count: PageCount, cancel: bool = False
) -> list[Any]:
    count.free -= len(pages)  # each has one of them for itself
    reading = [
        asyncio.ensure_future(
            listing_of(session, number).fetch_all(Schedule(Deadline(), count, place))
        )
        for place, number in enumerate(pages)
    ]
    if cancel:
        for task in reading:
            await asyncio.sleep(0)
            task.cancel()
    ends = await asyncio.gather(*reading, return_exceptions=True)
    count.free += len(pages)
    return ends


@given(some_listings, st.integers(0, 5), chance)
def test_listings_that_share_a_count_all_end_within_it(
    pages: list[int], more: int, random: Random
) -> None:
    session, count = Unhurried(random), PageCount(len(pages) + more)
    assert asyncio.run(read_together(session, pages, count)) == [
        list(range(1, number + 1)) for number in pages
    ]
    assert session.most_in_flight <= len(pages) + more
    assert (count.free, count.asking) == (len(pages) + more, [])


@pytest.mark.parametrize(("failures", "cancel"), [(0.1, False), (0.0, True)])
@given(pages=some_listings, more=st.integers(0, 5), random=chance)
def test_listings_give_their_pages_back_however_they_end(
    pages: list[int], more: int, random: Random, failures: float, cancel: bool
) -> None:
    session, count = Unhurried(random, failures), PageCount(len(pages) + more)
    asyncio.run(read_together(session, pages, count, cancel))
    assert (count.free, count.asking) == (len(pages) + more, [])
    assert session.in_flight == 0


def test_a_lone_listing_has_two_pages_for_each_permit() -> None:
    session = Unhurried(Random(1))
    count = Schedule.of(cast("Session", session), Deadline(), 0).count
    assert asyncio.run(read_together(session, [40], count)) == [list(range(1, 41))]
    assert session.most_in_flight == 4
