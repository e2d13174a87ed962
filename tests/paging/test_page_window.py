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
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from seorep_async import Listing, NotFoundError, Page, Settings
from seorep_async.paging import PageBudget, Query, Schedule, Slot, all_items
from seorep_async.paging.page_window import SlotWaiter
from seorep_async.session import Decode, Request
from tests.session.virtual_loop import VirtualLoop
from tests.session.virtual_loop import at_rest as everything_rests


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


async def test_one_that_was_woken_is_not_overtaken_before_it_runs() -> None:
    budget = PageBudget(2, in_flight=1)
    waiting = Waiting(budget)
    held = await budget.acquire(0)
    await waiting.begin("urgent", 1)
    budget.queue(2, lambda: waiting.served.append("other"))
    held.release()  # as it lands, one more may fly; then it leaves its slot
    await at_rest()
    assert waiting.served == ["urgent"]


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


# --- Any use


Claim = tuple[bool, int]
"""Whether it is for a first page, and the priority; the lowest goes first."""
priorities = st.integers(0, 2)
claims = st.tuples(st.booleans(), priorities)


@attrs.define(eq=False)
class Held:
    """A slot, and what became of it by the model."""

    slot: Slot
    priority: int
    is_held: bool = True
    is_flying: bool = True


class Watched(PageBudget):
    """A budget that reports each slot that it grants, before it can grant another."""

    def __init__(self, limit: int, in_flight: int | None, granted: Callable[[Claim], None]) -> None:
        super().__init__(limit, in_flight)
        self._granted = granted

    def try_acquire(self, priority: int, *, first: bool = False) -> Slot | None:
        slot = super().try_acquire(priority, first=first)
        if slot is not None:
            self._granted((first, priority))
        return slot


class Reader:
    """Wants some slots for further pages, and is called once there are any, as a listing that fetches ahead."""

    def __init__(self, machine: "AnyUse", priority: int, wanted: int) -> None:
        self._machine, self._priority, self._wanted = machine, priority, wanted
        self._waiter: SlotWaiter | None = None

    def start(self) -> None:
        self._machine.waiting.pop(self, None)
        if self._waiter is not None:
            self._waiter.is_over = True
        self._waiter = None
        while self._wanted:
            slot = self._machine.budget.try_acquire(self._priority)
            if slot is None:
                self._machine.waiting[self] = False, self._priority
                self._waiter = self._machine.budget.queue(self._priority, self.start)
                return
            self._machine.slots.append(Held(slot, self._priority))
            self._wanted -= 1
        self._machine.budget.pass_on()

    def cancel(self) -> None:
        assert self._waiter is not None
        self._waiter.is_over = True
        self._waiter = None
        self._machine.budget.pass_on()


class AnyUse(RuleBasedStateMachine):
    """Any order of asking, landing, returning and giving up, against what must hold whatever happens."""

    @initialize(limit=st.integers(1, 4), in_flight=st.integers(1, 4) | st.none())
    def open(self, limit: int, in_flight: int | None) -> None:
        self.loop = VirtualLoop()
        self.limit, self.may_fly = limit, in_flight or limit
        self.budget = Watched(limit, in_flight, self.grant)
        self.in_use = self.flying = 0
        self.slots: list[Held] = []
        self.asking: dict[asyncio.Task[None], Claim] = {}
        self.waiting: dict[asyncio.Task[None] | Reader, Claim] = {}  # as it was known when nothing could run
        self.readers: list[weakref.ref[Reader]] = []

    def may_have(self, claim: Claim) -> bool:
        if claim[0]:
            return self.in_use < self.budget.first_pages
        return self.in_use < self.limit and self.flying < self.may_fly

    def grant(self, claim: Claim) -> None:
        assert self.may_have(claim)
        if task := asyncio.current_task(self.loop):
            assert self.waiting.pop(task, claim) == claim
        assert all(claim <= other for other in self.waiting.values())
        self.in_use += 1
        self.flying += 1

    def settle(self, hurried: bool = False) -> None:
        """Let everybody run, unless something else is to happen before."""
        if hurried:
            return
        self.loop.run_until_complete(everything_rests())
        for task in [task for task in self.asking if task.done()]:
            del self.asking[task]
            if not task.cancelled():
                task.result()
        for task, claim in self.asking.items():
            self.waiting[task] = claim
        # nobody sleeps who could have a slot, and none is lost
        assert not self.waiting or not self.may_have(min(self.waiting.values()))
        assert (self.in_use, self.flying) == tuple(
            sum(getattr(slot, name) for slot in self.slots) for name in ("is_held", "is_flying")
        )

    @rule(several=st.lists(claims, min_size=1, max_size=3), hurried=st.booleans())
    def ask(self, several: list[Claim], hurried: bool) -> None:
        for claim in several:
            self.asking[self.loop.create_task(self.acquire(claim))] = claim
        self.settle(hurried)

    async def acquire(self, claim: Claim) -> None:
        self.slots.append(Held(await self.budget.acquire(claim[1], first=claim[0]), claim[1]))

    @rule(claim=claims)
    def take(self, claim: Claim) -> None:
        self.settle()
        may_have = self.may_have(claim) and all(claim <= other for other in self.waiting.values())
        slot = self.budget.try_acquire(claim[1], first=claim[0])
        assert (slot is not None) == may_have
        if slot is not None:
            self.slots.append(Held(slot, claim[1]))

    @rule(priority=priorities, wanted=st.integers(1, 4), hurried=st.booleans())
    def read(self, priority: int, wanted: int, hurried: bool) -> None:
        reader = Reader(self, priority, wanted)
        self.readers.append(weakref.ref(reader))
        reader.start()
        self.settle(hurried)

    @precondition(lambda self: any(held.is_held for held in self.slots))
    @rule(
        data=st.data(),
        steps=st.lists(st.sampled_from(["land", "release", "release twice"]), max_size=3),
        hurried=st.booleans(),
    )
    def give(self, data: st.DataObject, steps: list[str], hurried: bool) -> None:
        for step in steps:
            if held_ones := [held for held in self.slots if held.is_held]:
                held = data.draw(st.sampled_from(held_ones))
                if step == "land":
                    self.land(held)
                for _ in range(step.count("release") + step.count("twice")):
                    self.release(held)
        self.settle(hurried)

    def land(self, held: Held) -> None:
        self.flying -= held.is_flying
        held.is_flying = False
        held.slot.land()

    def release(self, held: Held) -> None:
        self.flying -= held.is_flying
        self.in_use -= held.is_held
        held.is_flying = held.is_held = False
        held.slot.release()

    @precondition(lambda self: not all(held.is_held for held in self.slots))
    @rule(data=st.data(), hurried=st.booleans())
    def take_back(self, data: st.DataObject, hurried: bool) -> None:
        self.settle()
        lent = [held for held in self.slots if not held.is_held]
        if lent:
            held = data.draw(st.sampled_from(lent))
            self.slots.remove(held)

            async def take_back() -> None:
                await held.slot.take_back()
                self.slots.append(Held(held.slot, held.priority))

            self.asking[self.loop.create_task(take_back())] = False, held.priority
        self.settle(hurried)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), hurried=st.booleans())
    def give_up(self, data: st.DataObject, hurried: bool) -> None:
        self.stop_waiting(data.draw(st.integers(0, len(self.waiting) - 1)))
        self.settle(hurried)

    def stop_waiting(self, number: int) -> None:
        one = list(self.waiting)[number]
        del self.waiting[one]
        one.cancel()

    @rule(hurried=st.booleans())
    def pass_on(self, hurried: bool) -> None:
        self.budget.pass_on()
        self.settle(hurried)

    def teardown(self) -> None:
        self.settle()
        while self.waiting:
            self.stop_waiting(0)
        for held in self.slots:
            self.release(held)
        self.settle()
        assert (self.in_use, self.asking, self.waiting) == (0, {}, {})
        for is_first in (True, False):
            for _ in range(self.limit + 1):
                self.take((is_first, 0))
                self.land(self.slots[-1])
        assert self.in_use == self.limit
        assert not any(reader() for reader in self.readers)
        self.loop.close()


TestAnyUse = AnyUse.TestCase
TestAnyUse.settings = settings(max_examples=60, stateful_step_count=30)
