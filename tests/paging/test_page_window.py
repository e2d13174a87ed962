"""The budget of pages: slots go to the most urgent listing, and every slot comes back once."""

import asyncio
import gc
import itertools
import weakref
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, cast

import attrs
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seorep_async import Listing, NotFoundError, Page, Settings
from seorep_async.paging import PageBudget, Query, Schedule, Slot, all_items
from seorep_async.paging.page_window import Waiter
from seorep_async.session import Decode, Request
from tests.session.virtual_loop import VirtualLoop, at_rest as everything_rests


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


@pytest.mark.parametrize(("limit", "first_pages"), [(6, 4), (8, 5), (10, 7), (14, 9)])
async def test_first_pages_leave_three_eighths_to_further_pages(limit: int, first_pages: int) -> None:
    budget = PageBudget(limit)
    waiting = Waiting(budget)
    for number in range(limit):
        await waiting.begin(f"first page {number}", number, first=True)
    assert len(waiting.served) == budget.first_pages == first_pages
    await waiting.begin("further page", 0)
    assert waiting.served[-1] == "further page"


async def test_slots_that_come_back_together_are_passed_on_at_once() -> None:
    budget = PageBudget(64)
    held = [await budget.acquire(0) for _ in range(64)]
    waiting = Waiting(budget)
    for number in range(65):
        await waiting.begin(str(number), number)
    for slot in held:
        slot.release()
    await asyncio.sleep(0)
    assert waiting.served == [str(number) for number in range(64)]
    waiting.tasks["64"].cancel()


async def test_one_that_is_granted_a_slot_is_not_overtaken() -> None:
    budget = PageBudget(2, in_flight=1)
    waiting = Waiting(budget)
    held = await budget.acquire(0)
    await waiting.begin("urgent", 1)
    budget.queue(2, lambda _: waiting.served.append("other"))
    held.release()  # as it lands, one more may fly; then it leaves its slot
    await at_rest()
    assert waiting.served == ["urgent"]


async def test_one_that_gives_up_makes_way_for_a_first_page() -> None:
    budget = PageBudget(4, in_flight=1)
    waiting = Waiting(budget)
    await budget.acquire(0)
    await waiting.begin("further page", 1)
    await waiting.begin("first page", 2, first=True)
    waiting.tasks["further page"].cancel()
    await at_rest()
    assert waiting.served == ["first page"]


# --- Listings that share a budget


class Unhurried:
    """A session that takes a number of iterations of the event loop over each response, and over reading it."""

    settings = Settings(max_concurrency=2)

    def __init__(self, iterations: Callable[[], int], fails: Callable[[], bool] = lambda: False) -> None:
        self._iterations = iterations
        self._fails = fails
        self.in_flight = self.most_in_flight = self.too_late = 0
        self.ended: set[int] = set()
        """Priorities of the listings that ended, and so must send nothing more."""

    def spawn(self, work: Coroutine[Any, Any, Any], when_done: Callable[[asyncio.Task[Any]], None]) -> Any:
        task = asyncio.ensure_future(work)
        task.add_done_callback(when_done)
        return task

    async def send(self, request: Request[Page[int]]) -> Page[int]:
        self.too_late += request.priority in self.ended
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


async def read_together(session: Unhurried, pages: list[int], budget: PageBudget) -> list[list[int] | BaseException]:
    async def read(place: int, count: int) -> list[int]:
        try:
            return await listing_of(session, count).fetch_all(Schedule(None, budget, place))
        finally:
            session.ended.add(place)

    outcomes = await asyncio.gather(*itertools.starmap(read, enumerate(pages)), return_exceptions=True)
    assert session.too_late == 0
    return outcomes


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


class OneAtATime(Unhurried):
    """A session with one permit, which notes whose pages are asked for."""

    settings = Settings(max_concurrency=1)

    def __init__(self) -> None:
        super().__init__(lambda: 2)
        self.asked: list[int] = []

    async def send(self, request: Request[Page[int]]) -> Page[int]:
        self.asked.append(request.priority)
        return await super().send(request)


async def test_a_listing_in_progress_goes_before_one_to_start() -> None:
    session, budget = OneAtATime(), PageBudget(2, 1)
    long, short = (listing_of(session, pages).fetch_all(Schedule(None, budget, pages)) for pages in (20, 1))
    begun = asyncio.ensure_future(long)
    while len(session.asked) < 3:  # noqa: ASYNC110  # it has both slots
        await asyncio.sleep(0)
    await asyncio.gather(begun, short)
    assert session.asked == [20] * 20 + [1]


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


# --- Any use


Claim = tuple[bool, int]
"""Whether it is for a first page, and the priority; the lowest goes first."""
priorities = st.integers(0, 2)
claims = st.tuples(st.booleans(), priorities)
pauses = st.none() | st.integers(0, 2)  # iterations of the loop before the next step


@attrs.define(eq=False)
class Held:
    """A slot, and what became of it by the model."""

    slot: Slot
    priority: int
    is_held: bool = True
    is_flying: bool = True


class Watched(PageBudget):
    """A budget that checks each slot that it grants, before it can grant another."""

    def __init__(self, limit: int, in_flight: int | None) -> None:
        super().__init__(limit, in_flight)
        self._limit, self._most_in_flight = limit, in_flight or limit
        self.in_use = self.flying = 0
        self.claims: list[Claim] = []
        """Of those that wait."""

    def may_have(self, claim: Claim) -> bool:
        if any(other < claim for other in self.claims):
            return False
        if claim[0]:
            return self.in_use < self.first_pages
        return self.in_use < self._limit and self.flying < self._most_in_flight

    def try_acquire(self, priority: int, *, first: bool = False) -> Slot | None:
        slot = super().try_acquire(priority, first=first)
        assert (slot is not None) == self.may_have((first, priority))
        self.in_use += slot is not None
        self.flying += slot is not None
        return slot

    def queue(self, priority: int, grant: Callable[[Slot], object], *, first: bool = False) -> Waiter:
        def granted(slot: Slot) -> None:
            self.claims.remove((first, priority))
            grant(slot)

        self.claims.append((first, priority))
        return super().queue(priority, granted, first=first)

    def leave(self, waiter: Waiter) -> None:
        self.claims.remove(waiter[:2])
        super().leave(waiter)

    def land(self) -> None:
        self.flying -= 1
        super().land()

    def release(self) -> None:
        self.in_use -= 1
        super().release()


class Reader:
    """Wants some slots for further pages, as a listing that fetches ahead."""

    def __init__(self, machine: "AnyUse", priority: int, wanted: int) -> None:
        self._machine, self._priority, self._wanted = machine, priority, wanted
        self.start()

    def start(self) -> None:
        budget = self._machine.budget
        while self._wanted:
            slot = budget.try_acquire(self._priority)
            if slot is None:
                self._machine.readers[self] = budget.queue(self._priority, self.take)
                return
            self.keep(slot)

    def take(self, slot: Slot) -> None:
        del self._machine.readers[self]
        self.keep(slot)
        self.start()

    def keep(self, slot: Slot) -> None:
        self._wanted -= 1
        self._machine.slots.append(Held(slot, self._priority))


class AnyUse(RuleBasedStateMachine):
    """Any order of asking, landing, returning and giving up, against what must hold whatever happens."""

    @initialize(limit=st.integers(1, 4), in_flight=st.integers(1, 4) | st.none())
    def open(self, limit: int, in_flight: int | None) -> None:
        self.loop = VirtualLoop()
        self.limit = limit
        self.budget = Watched(limit, in_flight)
        self.slots: list[Held] = []
        self.asking: dict[asyncio.Task[None], Claim] = {}
        self.readers: dict[Reader, Waiter] = {}  # that wait
        self.all_readers: list[weakref.ref[Reader]] = []

    @invariant()
    def nobody_waits_who_could_have_a_slot(self) -> None:
        claims = self.budget.claims
        assert not claims or not self.budget.may_have(min(claims))

    def settle(self, iterations: int | None = None) -> None:
        """Let everybody run, or only for some iterations, so that the next step comes between."""
        if iterations is not None:
            for _ in range(iterations):
                self.loop.run_until_complete(asyncio.sleep(0))
            return
        self.loop.run_until_complete(everything_rests())
        for task in [task for task in self.asking if task.done()]:
            del self.asking[task]
            if not task.cancelled():
                task.result()
        readers = [waiter[:2] for waiter in self.readers.values()]
        assert sorted(self.budget.claims) == sorted([*self.asking.values(), *readers])
        assert (self.budget.in_use, self.budget.flying) == tuple(
            sum(getattr(slot, name) for slot in self.slots) for name in ("is_held", "is_flying")
        )

    @rule(several=st.lists(claims, min_size=1, max_size=3), iterations=pauses)
    def ask(self, several: list[Claim], iterations: int | None) -> None:
        for claim in several:
            self.asking[self.loop.create_task(self.acquire(claim))] = claim
        self.settle(iterations)

    async def acquire(self, claim: Claim) -> None:
        self.slots.append(Held(await self.budget.acquire(claim[1], first=claim[0]), claim[1]))

    @rule(claim=claims)
    def take(self, claim: Claim) -> None:
        slot = self.budget.try_acquire(claim[1], first=claim[0])
        if slot is not None:
            self.slots.append(Held(slot, claim[1]))

    @rule(priority=priorities, wanted=st.integers(1, 4), iterations=pauses)
    def read(self, priority: int, wanted: int, iterations: int | None) -> None:
        self.all_readers.append(weakref.ref(Reader(self, priority, wanted)))
        self.settle(iterations)

    @rule(
        data=st.data(),
        steps=st.lists(st.sampled_from(["land", "release", "release twice", "stop"]), min_size=1, max_size=4),
        iterations=pauses,
    )
    def end(self, data: st.DataObject, steps: list[str], iterations: int | None) -> None:
        for step in steps:
            held_ones = [held for held in self.slots if held.is_held]
            if step == "stop" and (waiting := len(self.asking) + len(self.readers)):
                self.stop_waiting(data.draw(st.integers(0, waiting - 1)))
            elif step != "stop" and held_ones:
                held = data.draw(st.sampled_from(held_ones))
                if step == "land":
                    held.is_flying = False
                    held.slot.land()
                for _ in range(step.count("release") + step.count("twice")):
                    self.release(held)
        self.settle(iterations)

    def release(self, held: Held) -> None:
        held.is_flying = held.is_held = False
        held.slot.release()

    @precondition(lambda self: not all(held.is_held for held in self.slots))
    @rule(data=st.data(), iterations=pauses)
    def take_back(self, data: st.DataObject, iterations: int | None) -> None:
        held = data.draw(st.sampled_from([held for held in self.slots if not held.is_held]))
        self.slots.remove(held)

        async def take_back() -> None:
            await held.slot.take_back()
            self.slots.append(Held(held.slot, held.priority))

        self.asking[self.loop.create_task(take_back())] = False, held.priority
        self.settle(iterations)

    def stop_waiting(self, number: int) -> None:
        """Stop one that asks, maybe as a slot is granted to it."""
        waiting: list[asyncio.Task[None] | Reader] = [*self.asking, *self.readers]
        one = waiting[number]
        if isinstance(one, Reader):
            self.budget.leave(self.readers.pop(one))
        else:
            one.cancel()

    def teardown(self) -> None:
        while self.asking or self.readers:
            self.stop_waiting(0)
            self.settle()
        for held in self.slots:
            self.release(held)
        self.settle()
        assert (self.budget.in_use, self.asking, self.readers) == (0, {}, {})
        for is_first in (True, False):
            for _ in range(self.limit + 1):
                self.take((is_first, 0))
                self.slots[-1].slot.land()
        assert self.budget.in_use == self.limit
        assert not any(reader() for reader in self.all_readers)
        self.loop.close()


TestAnyUse = AnyUse.TestCase
TestAnyUse.settings = settings(max_examples=60, stateful_step_count=30)
