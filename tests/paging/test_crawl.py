"""Crawls: many listings at once, and each is read to its end first."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from seorep_async import Limits, PullOutcomes
from seorep_async.paging import Crawl
from seorep_async.resources import Rankings
from seorep_async.session.request import Response
from tests.rankings import rankings_of, report_page
from tests.session.simulated_service import ApiRequest, SimulatedService
from tests.session.virtual_loop import VirtualLoop, here

JANUARY = ("2023-01-01", "2023-01-31")

Answer = Callable[[ApiRequest], Response | int | None]


def page_of(request: ApiRequest, pages: int, records: int | None = None) -> Response:
    """Return a page of one row, of a report of some pages."""
    return report_page([request.id * 100 + request.page], pages, records or pages)


@asynccontextmanager
async def serving(
    answer: Answer, latency: float = 0.02, **settings: Any
) -> AsyncIterator[tuple[Rankings, SimulatedService]]:
    service = SimulatedService(says=answer, latency=latency)
    async with rankings_of(service, page_size=None, **settings) as (_, rankings):
        yield rankings, service


async def pulled(rankings: Rankings, campaigns: int) -> PullOutcomes[Any]:
    return await rankings.pull(range(1, campaigns + 1), *JANUARY)


@pytest.mark.virtual
async def test_a_long_report_starts_slowly_beside_others() -> None:
    def answer(request: ApiRequest) -> Response:
        return page_of(request, 30 if request.id == 1 else 1)

    async with serving(answer, max_concurrency=8) as (rankings, service):
        assert all(outcome.ok for outcome in await pulled(rankings, 41))
    early_ids = [request.id for request in service.requests[:24]]
    assert early_ids.count(1) <= 8


@pytest.mark.virtual
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_dead_page_takes_one_worker_while_others_begin(concurrency: int) -> None:
    def answer(request: ApiRequest) -> Response | int:
        if request.id == 1 and request.page == 2:
            return 500
        return page_of(request, 9 if request.id == 1 else 2)

    async with serving(answer, max_concurrency=concurrency) as (rankings, service):
        first, *others = await pulled(rankings, 21)
    assert not first.ok
    assert all(outcome.ok for outcome in others)
    requests = service.requests
    last_beginning = [request.id for request in requests].index(21)
    early_pages = {request.page for request in requests[:last_beginning] if request.id == 1}
    assert early_pages == {1, 2}
    dead_place = [(request.id, request.page) for request in requests].index((1, 2))
    assert requests[dead_place + 1].id != 1


@pytest.mark.virtual
async def test_pages_behind_a_dead_one_are_fetched_within_the_budget() -> None:
    def answer(request: ApiRequest) -> Response | int:
        if request.page == 2:
            return 500
        return page_of(request, 50 if request.id == 1 else 1)

    # The consumer can take no other report before the first one.
    async with serving(answer, max_concurrency=2) as (rankings, service):
        await rankings.pull(range(1, 9), *JANUARY, ordered=True)
    # page 1, and twice the permits ahead
    assert max(service.pages) == 5


@pytest.mark.virtual
async def test_a_long_report_uses_all_permits_of_shared_limits() -> None:
    limits = Limits(max_concurrency=64)
    async with serving(lambda request: page_of(request, 200), 1.0, limits=limits) as (rankings, _):
        assert (await pulled(rankings, 1)).reports
        assert here().now < 7
        begun = here().now
        await rankings.campaign(1, *JANUARY)
        assert here().now - begun < 7


@pytest.mark.virtual
@pytest.mark.usefixtures("only_new_garbage")
async def test_a_streamed_pull_keeps_nothing_of_taken_reports() -> None:
    """This is the memory of row 24 of the fault matrix."""

    def answer(request: ApiRequest) -> Response | int:
        if request.id % 11:
            return page_of(request, 3)
        return 500 if request.id == 11 else 404

    objects = []
    async with serving(answer, attempt_timeout=1) as (rankings, _):
        async with rankings.pull(range(1, 341), *JANUARY) as outcomes:
            for taken in range(1, 301):
                await anext(outcomes)
                if taken in (30, 300):
                    # The simulated service keeps each answer until the end of its time limit.
                    await asyncio.sleep(2)
                    gc.collect()
                    objects.append(len(gc.get_objects()))
        del outcomes
        gc.collect()
        # The client keeps the last accepted request and the last failure, but not their pull.
        assert not any(isinstance(kept, Crawl) for kept in gc.get_objects())
    assert objects[1] < objects[0] + 200


@pytest.mark.virtual
async def test_a_failed_report_leaves_its_place_to_others() -> None:
    def answer(request: ApiRequest) -> Response | int | None:
        # Before page 3 fails, page 4 arrives, or never arrives at all.
        service.latency = 0.3 if request.page == 3 else 0.02
        if request.id <= 20 and request.page == 3:
            return 404
        if request.id <= 20 and request.page == 4 and request.id % 2:
            return None
        return page_of(request, 4)

    async with serving(answer, max_concurrency=2, attempt_timeout=60) as (rankings, service):
        outcomes = await pulled(rankings, 23)
        assert here().now < 5
    assert [outcome.id for outcome in outcomes if outcome.ok] == [21, 22, 23]


@pytest.mark.virtual
@pytest.mark.parametrize("iterations", range(1, 16))
async def test_a_report_that_is_read_again_at_the_closing_fails(iterations: int) -> None:
    # It announces two rows and has one.
    async with serving(lambda request: page_of(request, 1, 2), latency=0) as (rankings, _):
        pulling = asyncio.ensure_future(pulled(rankings, 1))
        for _ in range(iterations):
            await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert (await pulling).failures


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks")
def test_a_thousand_eager_workers_do_not_start_inside_each_other() -> None:
    loop = VirtualLoop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009  # of 3.12

    async def pull() -> int:
        answer: Answer = lambda request: page_of(request, 1)  # noqa: E731
        async with serving(answer, max_concurrency=1024) as (rankings, _):
            return len(await pulled(rankings, 3000))

    assert loop.run_until_complete(pull()) == 3000
    loop.close()
