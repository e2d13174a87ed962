"""What `stats` counts."""

import asyncio

import pytest
from attrs.exceptions import FrozenInstanceError

from seorep_async.sandbox.traffic import Traffic
from tests.sandbox.calls import CAMPAIGN, FEEDS, Caller, Clock, calling


async def test_requests_are_counted_by_path_operation_and_status(call: Caller) -> None:
    for path in ("/v3/campaigns/1", "/v3/campaigns/2", "/v3/campaigns/99", "/nowhere"):
        await call.send(path)
    await call.send("/v3/keywords", method="POST")
    await call.send("/v3/campaigns/3", method="DELETE")
    stats = call.sandbox.stats
    assert stats.requests == 6
    assert stats.per_path == {"/v3/campaigns/:id": 4, "unknown": 2}
    assert stats.per_operation == {"GET /v3/campaigns/:id": 3, "DELETE /v3/campaigns/:id": 1, "unknown": 2}
    assert stats.per_status == {200: 2, 204: 1, 404: 2, 405: 1}


async def test_bytes_of_bodies_are_counted(call: Caller) -> None:
    sizes = [len((await call.send(path, query)).body) for path, query in FEEDS.items()]
    assert call.sandbox.stats.bytes_sent == sum(sizes)


async def test_the_most_in_flight_is_kept_and_all_leave_in_the_end() -> None:
    async with calling(latency=0.05) as call:
        await asyncio.gather(*(call.get("/v3/campaigns") for _ in range(16)))
        stats = call.sandbox.stats
    assert (stats.in_flight, stats.most_in_flight) == (0, 16)
    assert stats.at_in_flight[16] > 0.02


async def test_each_answer_takes_the_latency_at_least() -> None:
    loop = asyncio.get_running_loop()
    async with calling(latency=0.03) as call:
        start = loop.time()
        await call.get(CAMPAIGN, **FEEDS[CAMPAIGN])
        assert loop.time() - start >= 0.03


def test_seconds_are_kept_for_each_number_in_flight_but_none() -> None:
    clock = Clock()
    traffic = Traffic(clock)
    traffic.arrive("/a", "GET /a")
    clock.now += 1
    traffic.arrive("/a", "GET /a")
    clock.now += 2
    traffic.leave(200, 10)
    clock.now += 4
    traffic.leave(None, 0)
    clock.now += 8
    traffic.arrive("/b", "GET /b")
    clock.now += 0.5
    stats = traffic.snapshot()
    assert stats.at_in_flight == {1: 5.5, 2: 2.0}
    assert (stats.requests, stats.in_flight, stats.per_status, stats.bytes_sent) == (3, 1, {200: 1}, 10)


def test_a_snapshot_neither_changes_nor_can_be_changed() -> None:
    traffic = Traffic()
    before = traffic.snapshot()
    traffic.arrive("/a", "GET /a")
    assert (before.requests, before.per_path) == (0, {})
    with pytest.raises(FrozenInstanceError):
        before.requests = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        before.per_path["/a"] = 5  # type: ignore[index]
