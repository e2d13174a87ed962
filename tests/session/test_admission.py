"""Leave to send: never more attempts at once than allowed, and the most urgent waiter first."""

import asyncio
import math

import pytest

from seorep_async import Settings
from seorep_async.session.governor import Governor, Permit
from tests.session.fake_time import FakeTime


async def turn() -> None:
    """Let everything that can run, run."""
    for _ in range(5):
        await asyncio.sleep(0)


class Door:
    """A governor of one permit, which is taken, and tasks that wait for it."""

    def __init__(self, time: FakeTime) -> None:
        self.governor = Governor(Settings(max_concurrency=1), time.clock)
        self.served: list[int] = []
        self.waiting: list[asyncio.Task[Permit]] = []

    async def take(self) -> Permit:
        permit = await self.governor.acquire(0, math.inf)
        assert permit is not None
        return permit

    async def queue(self, *priorities: int) -> None:
        async def wait(place: int, priority: int) -> Permit:
            permit = await self.governor.acquire(priority, math.inf)
            assert permit is not None
            self.served.append(place)
            return permit

        self.waiting = [asyncio.create_task(wait(place, priority)) for place, priority in enumerate(priorities)]
        await turn()


@pytest.fixture
async def door(fake_time: FakeTime) -> Door:
    return Door(fake_time)


@pytest.mark.parametrize(
    ("priorities", "order"), [((0, 0, 0), [0, 1, 2]), ((2, 1, 0), [2, 1, 0]), ((5, -1, 5, -1, 0), [1, 3, 4, 0, 2])]
)
async def test_lowest_priority_goes_first_and_equals_in_their_order(
    priorities: tuple[int, ...], order: list[int], door: Door
) -> None:
    permit = await door.take()
    await door.queue(*priorities)
    for _ in priorities:
        door.governor.release(permit, None)
        await turn()
        permit = door.waiting[door.served[-1]].result()
    assert door.served == order


async def test_nobody_overtakes_a_waiter_that_was_called(door: Door) -> None:
    permit = await door.take()
    await door.queue(0)
    door.governor.release(permit, None)
    late = asyncio.create_task(door.take())
    await turn()
    assert (door.served, late.done()) == ([0], False)
    late.cancel()


async def test_cancelled_waiter_is_passed_over(door: Door) -> None:
    permit = await door.take()
    await door.queue(0, 0)
    door.waiting[0].cancel()
    await turn()
    door.governor.release(permit, None)
    await turn()
    assert door.served == [1]


async def test_waiter_cancelled_as_it_is_called_passes_its_leave_on(door: Door) -> None:
    permit = await door.take()
    await door.queue(0, 0)
    door.governor.release(permit, None)
    door.waiting[0].cancel()
    await turn()
    assert door.served == [1]


async def test_waiter_cancelled_as_it_is_called_gives_its_leave_back(door: Door) -> None:
    permit = await door.take()
    await door.queue(0)
    door.governor.release(permit, None)
    door.waiting[0].cancel()
    await turn()
    assert door.governor.in_flight == 0


async def test_waiter_whose_deadline_passes_gets_nothing_and_takes_nothing(door: Door, fake_time: FakeTime) -> None:
    permit = await door.take()
    assert await door.governor.acquire(0, fake_time.monotonic + 0.05) is None
    door.governor.release(permit, None)
    assert door.governor.in_flight == 0


async def test_leave_is_not_given_after_the_deadline(door: Door, fake_time: FakeTime) -> None:
    assert await door.governor.acquire(0, fake_time.monotonic) is None
    assert door.governor.in_flight == 0
