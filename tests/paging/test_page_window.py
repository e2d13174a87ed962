"""The budget of pages: slots go to the most urgent listing, and every slot comes back once."""

import asyncio
import gc
import itertools
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seorep_async import Listing, NotFoundError, Page, Settings
from seorep_async.paging import PageBudget, Query, Schedule, Slot, all_items
from seorep_async.session import Decode, Request


class Waiting:
    """Calls of `acquire` that run until they have a slot, in the order in which they got it."""

    def __init__(self, budget: PageBudget) -> None:
        self._budget = budget
        self.served: list[str] = []
        self.tasks: dict[str, asyncio.Task[Slot]] = {}

    async def begin(self, name: str, priority: int, *, first: bool = False) -> None:
        async def acquire() -> Slot:
            slot = await self._budget.acquire(priority, first=first)
            self.served.append(name)
            return slot

        self.tasks[name] = asyncio.ensure_future(acquire())
        await at_rest()


async def at_rest() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def free_slots(budget: PageBudget) -> int:
    """Take all free slots and return how many there were."""

    async def count() -> int:
        for taken in itertools.count():
            claim = asyncio.ensure_future(budget.acquire(99))
            await at_rest()
            if not claim.done():
                claim.cancel()
                return taken
        raise AssertionError

    return asyncio.run(count())


async def test_a_free_slot_goes_to_the_most_urgent_listing() -> None:
    budget = PageBudget(1)
    waiting = Waiting(budget)
    held = await budget.acquire(0)
    for name, priority in ("third", 3), ("second", 2), ("fourth", 3):
        await waiting.begin(name, priority)
    for _ in range(3):
        held.release()
        await at_rest()
        held = waiting.tasks[waiting.served[-1]].result()
    assert waiting.served == ["second", "third", "fourth"]


async def test_further_pages_go_before_first_pages() -> None:
    budget = PageBudget(1)
    waiting = Waiting(budget)
    held = await budget.acquire(0)
    await waiting.begin("first page", 1, first=True)
    await waiting.begin("further page", 2)
    held.release()
    await at_rest()
    assert waiting.served == ["further page"]


@pytest.mark.parametrize(("limit", "first_pages"), [(6, 4), (8, 5), (10, 7), (14, 9)])
async def test_first_pages_leave_three_eighths_to_further_pages(limit: int, first_pages: int) -> None:
    budget = PageBudget(limit)
    waiting = Waiting(budget)
    for number in range(limit):
        await waiting.begin(f"first page {number}", number, first=True)
    assert len(waiting.served) == budget.first_pages == first_pages
    await waiting.begin("further page", 0)
    assert waiting.served[-1] == "further page"


async def test_one_that_has_its_turn_may_take_all_free_slots() -> None:
    budget = PageBudget(2)
    held = [await budget.acquire(0), await budget.acquire(0)]

    async def take_two() -> None:
        await budget.acquire(1)
        await budget.acquire(1)

    urgent = asyncio.ensure_future(take_two())
    other = asyncio.ensure_future(budget.acquire(2))
    await at_rest()
    for slot in held:
        slot.release()
    await at_rest()
    assert (urgent.done(), other.done()) == (True, False)
    other.cancel()


async def test_one_that_is_cancelled_lets_the_next_have_its_turn() -> None:
    budget = PageBudget(1)
    waiting = Waiting(budget)
    held = await budget.acquire(0)
    await waiting.begin("cancelled", 1)
    await waiting.begin("next", 2)
    held.release()
    waiting.tasks["cancelled"].cancel()  # though it was its turn already
    await at_rest()
    assert waiting.served == ["next"]


async def test_a_page_that_waits_for_no_response_lets_another_be_sent() -> None:
    budget = PageBudget(8, in_flight=2)
    waiting = Waiting(budget)
    landed = await budget.acquire(0)
    for name in ("second", "third", "fourth"):
        await waiting.begin(name, 0)
    assert waiting.served == ["second"]
    landed.land()
    await at_rest()
    assert waiting.served == ["second", "third"]
    landed.release()  # it gave its place in flight away before
    await at_rest()
    assert waiting.served == ["second", "third"]


def test_a_slot_is_given_back_once() -> None:
    budget = PageBudget(2)
    slot = asyncio.run(budget.acquire(0))
    slot.release()
    slot.release()
    assert free_slots(budget) == 2


# --- Listings that share a budget


class Unhurried:
    """A session that takes a number of iterations of the event loop over each response, and over reading it."""

    settings = Settings(max_concurrency=2)

    def __init__(self, iterations: Callable[[], int], fails: Callable[[], bool] = lambda: False) -> None:
        self._iterations = iterations
        self._fails = fails
        self.in_flight = self.most_in_flight = 0

    def spawn(self, work: Coroutine[Any, Any, Any], when_done: Callable[[asyncio.Task[Any]], None]) -> Any:
        task = asyncio.ensure_future(work)
        task.add_done_callback(when_done)
        return task

    async def send(self, request: Request[Page[int]]) -> Page[int]:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            for then in (request.slot.land if request.slot else lambda: None, lambda: None):
                for _ in range(self._iterations()):
                    await asyncio.sleep(0)
                then()
            if self._fails():
                raise NotFoundError("there is no such object")
        finally:
            self.in_flight -= 1
        return cast("Page[int]", request.decode(b""))


def listing_of(session: Any, pages: int) -> Listing[int, list[int]]:
    def decode(number: int) -> Decode[Page[int]]:
        return lambda _: Page(items=(number,), number=number, total_pages=pages, total_records=pages)

    return Listing(session, Query("/", "", decode, lambda item: item), all_items)


async def read_together(session: Any, pages: list[int], budget: PageBudget) -> list[list[int] | BaseException]:
    return await asyncio.gather(
        *(
            listing_of(session, count).fetch_all(Schedule(priority=place, budget=budget))
            for place, count in enumerate(pages)
        ),
        return_exceptions=True,
    )


some_listings = st.lists(st.integers(1, 12), min_size=1, max_size=5)
limits = st.tuples(st.integers(1, 5), st.integers(1, 5))  # of slots, of pages in flight
chance = st.randoms(use_true_random=False)


@given(some_listings, limits, chance)
def test_listings_that_share_a_budget_all_end_within_it(
    pages: list[int], both: tuple[int, int], random: Random
) -> None:
    session = Unhurried(lambda: random.randrange(6))
    read = asyncio.run(read_together(session, pages, PageBudget(*both)))
    assert read == [list(range(1, count + 1)) for count in pages]
    assert session.most_in_flight <= both[0]


@given(some_listings, limits, chance)
def test_listings_give_every_slot_back_however_they_end(
    pages: list[int], both: tuple[int, int], random: Random
) -> None:
    budget = PageBudget(*both)
    asyncio.run(read_together(Unhurried(lambda: random.randrange(6), lambda: random.random() < 0.1), pages, budget))
    assert free_slots(budget) == min(both)


@given(some_listings, limits, chance)
def test_listings_that_are_cancelled_give_every_slot_back(
    pages: list[int], both: tuple[int, int], random: Random
) -> None:
    budget = PageBudget(*both)

    async def cancel_soon() -> None:
        reading = asyncio.ensure_future(read_together(Unhurried(lambda: random.randrange(6)), pages, budget))
        for _ in range(random.randrange(20)):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])

    asyncio.run(cancel_soon())
    assert free_slots(budget) == min(both)


def test_errors_of_pages_that_fail_together_are_all_retrieved() -> None:
    unhandled: list[Any] = []
    answered = iter([False])  # page 1 comes, the others fail at once

    async def read() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
        (error,) = await read_together(Unhurried(lambda: 0, lambda: next(answered, True)), [5], PageBudget(5))
        assert isinstance(error, NotFoundError)

    asyncio.run(read())
    gc.collect()
    assert unhandled == []
