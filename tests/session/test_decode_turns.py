"""Work is dealt out over the iterations of the loop."""

import asyncio

import pytest

from seorep_async.session.response import DecodeTurns


async def done_by_iteration(queue: DecodeTurns, amounts: list[int]) -> list[int]:
    """Return in which iteration of the loop each piece of work is done, when all begin at once."""
    iterations = [0]

    async def count() -> None:
        while True:
            await asyncio.sleep(0)
            iterations[0] += 1

    async def work(amount: int) -> int:
        await queue.wait(amount)
        return iterations[0]

    found = [asyncio.ensure_future(work(amount)) for amount in amounts]
    counting = asyncio.ensure_future(count())
    done = await asyncio.gather(*found)
    counting.cancel()
    return done


TURNS: dict[str, tuple[list[int], list[int]]] = {
    "work within the share is done together": ([3, 3, 4], [0, 0, 0]),
    "small pieces share a turn": ([10, 5, 5, 5], [0, 1, 1, 2]),
    "more than the share in one piece goes alone": ([1, 50, 1], [0, 1, 2]),
    "nobody overtakes": ([9, 9, 1, 9, 1], [0, 1, 1, 2, 2]),
}


@pytest.mark.parametrize(("amounts", "turns"), TURNS.values(), ids=TURNS)
async def test_each_piece_has_its_turn(amounts: list[int], turns: list[int]) -> None:
    done = await done_by_iteration(DecodeTurns(10), amounts)
    assert [sorted(set(done)).index(iteration) for iteration in done] == turns


async def test_three_iterations_without_work_follow_each_with_work() -> None:
    first, second, third = await done_by_iteration(DecodeTurns(10), [10, 10, 10])
    assert second - first >= 4
    assert third - second >= 4


async def test_who_waits_no_more_is_passed_over() -> None:
    queue = DecodeTurns(10)
    await queue.wait(10)
    leaving, staying = (asyncio.ensure_future(queue.wait(10)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    await staying
    with pytest.raises(asyncio.CancelledError):
        await leaving
