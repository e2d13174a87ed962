"""What 401s and 403s do to a client: which requests stop, when a probe is sent, and which one."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from seorep_async import AuthenticationError, DeadlineExceededError, EngineNames
from seorep_async.normalisation.decoder import decoder_for
from seorep_async.reports import PullOutcomes
from seorep_async.resources.rankings import Rankings
from seorep_async.session import Deadline, Request, Session
from seorep_async.session.response import Response
from tests.session.simulated_service import SimulatedService, session_above
from tests.session.virtual_loop import at_rest, here

pytestmark = pytest.mark.virtual


def guarded(status: Callable[[str], int | None], latency: float = 0.05) -> SimulatedService:
    return SimulatedService(says=status, latency=latency)


def ask(session: Session, path: str, **options: Any) -> asyncio.Task[int]:
    return session.spawn(session.send(Request("GET", path, len, **options)))


async def ends(session: Session, paths: list[str]) -> list[Any]:
    return await asyncio.gather(*(ask(session, path) for path in paths), return_exceptions=True)


async def pulled(session: Session, campaigns: int) -> PullOutcomes[Any]:
    rankings = Rankings(session, decoder_for(EngineNames()), "account")
    return await rankings.pull(range(1, campaigns + 1), "2023-01-01", "2023-01-31")


async def run_through(
    status: Callable[[str], int], count: int
) -> tuple[list[Any], list[str], float]:
    """Ask for paths one after the other; return what they gave, all that was sent, and the seconds."""
    service = guarded(status)
    async with session_above(service, max_concurrency=1) as session:
        return await ends(session, [f"/{n}" for n in range(count)]), service.paths, here().now


def probes(paths: list[str]) -> list[int]:
    """Return how many had been sent before each probe."""
    return [place for place, path in enumerate(paths) if path in paths[:place] or "limit=1" in path]


# which paths are accepted, how many are asked for, and how many had been sent before each probe
PROBES: dict[str, tuple[list[str], int, list[int]]] = {
    "after eight 403s, then 16, then 32": ([], 100, [8, 8 + 1 + 16, 8 + 1 + 16 + 1 + 32]),
    "a success sets it back to eight": (["/20", "/28"], 37, [8, 8 + 1 + 12 + 8 + 1 + 8]),
}


@pytest.mark.parametrize(("accepted", "count", "expected"), PROBES.values(), ids=PROBES)
async def test_a_probe_is_sent_after_403s_in_a_row(
    accepted: list[str], count: int, expected: list[int]
) -> None:
    found, paths, _ = await run_through(
        lambda path: 200 if "limit" in path or path in accepted else 403, count
    )
    assert probes(paths) == expected
    assert accepted or {path for path in paths if "limit" in path} == {"/v3/campaigns?limit=1"}
    assert {type(end) for end in found} <= {AuthenticationError, int}
    assert not any("stopped" in str(end) for end in found)


async def test_the_probe_repeats_the_last_success() -> None:
    _, paths, _ = await run_through(lambda path: 200 if path in ("/0", "/1") else 403, 20)
    assert paths[:11] == [f"/{n}" for n in range(10)] + ["/1"]


async def test_a_write_or_a_private_answer_is_never_repeated() -> None:
    service = guarded(lambda path: 403 if path.startswith("/no") else 200)
    async with session_above(service, max_concurrency=1) as session:
        await session.send(Request("GET", "/read", len))
        await session.send(Request("GET", "/private", len, private=True))
        await session.send(Request("POST", "/write", len, idempotent=False))
        await ends(session, [f"/no{n}" for n in range(9)])
    assert service.paths.count("/read") == 2
    assert (service.paths.count("/write"), service.paths.count("/private")) == (1, 1)


async def test_a_refused_probe_stops_everything() -> None:
    found, paths, _ = await run_through(lambda path: 403, 100)
    assert len(paths) == 9
    assert {end.status for end in found} == {403}
    assert sum("stopped, because the API key was refused" in end.message for end in found) == 92


async def test_a_probe_that_fails_otherwise_speaks_for_the_key() -> None:
    found, paths, _ = await run_through(lambda path: 404 if "limit" in path else 403, 20)
    assert len(paths) == 21
    assert not any("stopped" in end.message for end in found)


async def test_a_401_stops_everything_at_once() -> None:
    service = guarded(lambda path: 401)
    async with session_above(service, requests_per_second=0.001) as session:
        found = await ends(session, [f"/{n}" for n in range(100)])
        assert here().now < 1
    assert len(service.paths) == 1
    assert {type(end) for end in found} == {AuthenticationError}


async def test_a_late_401_of_before_does_not_stop_what_began_after() -> None:
    statuses = iter([401, 401])
    service = guarded(lambda path: 200 if path == "/new" else next(statuses))
    async with session_above(service) as session:
        first = ask(session, "/1")
        await asyncio.sleep(0.02)
        second = ask(session, "/2")
        await asyncio.wait([first])
        new = session.key.refusals
        await asyncio.wait([second])
        assert await ask(session, "/new", refusals=new) == 0


async def test_nothing_new_starts_until_the_probe_is_answered() -> None:
    service = guarded(lambda path: 200 if "limit" in path else 403)
    async with session_above(service, max_concurrency=4) as session:
        calls = [ask(session, f"/{n}") for n in range(30)]
        for _ in range(200):
            if not any("limit" in path for path in service.paths):
                await asyncio.sleep(0.001)
        sent = len(service.paths)
        await asyncio.sleep(0.04)
        assert len(service.paths) == sent
        await asyncio.wait(calls)


async def test_a_wait_for_the_probe_ends_with_the_deadline() -> None:
    service = guarded(lambda path: 200 if "limit" in path else 403, latency=1.0)
    async with session_above(service, max_concurrency=8) as session:
        await ends(session, [f"/{n}" for n in range(8)])
        with pytest.raises(
            DeadlineExceededError, match="for an answer that shows whether the key is refused"
        ) as caught:
            await ask(session, "/x", deadline=Deadline.of_call(here().now + 0.5))
        assert caught.value.attempts == 0


class ByHand(SimulatedService):
    """Answers when the test says so."""

    def __attrs_post_init__(self) -> None:
        self.open: list[asyncio.Future[Any]] = []

    def attempt(self, client: int, request: Request[Any], timeout: float) -> asyncio.Future[Any]:
        self.open.append(here().create_future())
        return self.open[-1]

    def answer(self, status: int, count: int = 1) -> None:
        """Answer the oldest requests, all at once."""
        for _ in range(count):
            self.open.pop(0).set_result(Response(status, b"", 9.0 if status == 429 else None))


@pytest.mark.parametrize("later", range(4))
async def test_a_wait_for_a_probe_lasts_through_the_next(later: int) -> None:
    service = ByHand()
    async with session_above(service, max_concurrency=64) as session:
        for count in (8, 16, 32):  # until so many are sent at once
            calls = [ask(session, "/yes") for _ in range(count)]
            await at_rest()
            service.answer(200, count)
        forbidden = [ask(session, "/no") for _ in range(60)]
        await at_rest()
        service.answer(403, 8)
        calls = [ask(session, "/yes") for _ in range(5)]
        await at_rest()
        service.open.pop().set_result(Response(200, b""))
        for _ in range(later):  # before those that wait notice
            await asyncio.sleep(0)
        service.answer(403, 52)
        await at_rest()
        while service.open:
            service.answer(200)
            await at_rest()
        await asyncio.gather(*forbidden, return_exceptions=True)
        assert await asyncio.gather(*calls) == [0] * 5


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks")
async def test_a_probe_that_is_over_at_once_is_not_the_last() -> None:
    service = ByHand()
    async with session_above(service, retry_after_max=1.0) as session:
        here().set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009  # of 3.12
        calls = [ask(session, "/no") for _ in range(8)]
        service.answer(403)
        await at_rest()
        calls.append(ask(session, "/no"))
        service.answer(429)
        await at_rest()
        service.answer(403, 7)
        for _ in range(16):
            await asyncio.sleep(9)
            calls.append(ask(session, "/no"))
            service.answer(403)
        await at_rest()
        assert session.key.probe is not None
        await asyncio.gather(*calls, return_exceptions=True)


async def test_a_pull_keeps_its_time_as_it_asks_about_the_key() -> None:
    async with session_above(guarded(lambda path: None if "limit=1" in path else 403)) as session:
        with session.call_timeout.limit(1.0):
            assert [outcome.ok for outcome in await pulled(session, 3)] == [False] * 3
        assert here().now == pytest.approx(1.0)


@pytest.mark.parametrize("campaigns", [3, 20])
async def test_a_pull_that_is_left_stops_no_others_probe(campaigns: int) -> None:
    async with session_above(guarded(lambda path: 403, latency=1.0)) as session:
        left, stays = (session.spawn(pulled(session, campaigns)) for _ in range(2))
        await asyncio.sleep(1.5)
        left.cancel()
        with pytest.raises(AuthenticationError):
            await stays


async def test_a_pull_whose_key_a_401_refused_does_not_ask_again() -> None:
    service = ByHand()
    async with session_above(service) as session:
        ends = session.spawn(pulled(session, 2))
        for status in (401, 403):
            await at_rest()
            service.answer(status)
        with pytest.raises(AuthenticationError) as caught:
            await ends
    assert (caught.value.status, service.open) == (401, [])


async def test_each_refused_pull_raises_an_error_of_its_own() -> None:
    async with session_above(guarded(lambda path: 401)) as session:
        found = await asyncio.gather(
            *(pulled(session, 1) for _ in range(3)), return_exceptions=True
        )
    assert len({id(error) for error in found if isinstance(error, AuthenticationError)}) == 3


async def seconds_with(forbidden: Callable[[int], bool]) -> float:
    service = guarded(lambda path: 403 if path[1:].isdigit() and forbidden(int(path[1:])) else 200)
    async with session_above(service) as session:
        begun = here().now
        await ends(session, [f"/{n}" for n in range(400)])
        return here().now - begun


@pytest.mark.parametrize(
    "forbidden", [lambda n: n % 2 == 1, lambda n: 100 <= n < 300, lambda n: n < 200]
)
async def test_nothing_waits_for_403s(forbidden: Callable[[int], bool]) -> None:
    assert await seconds_with(forbidden) <= 1.15 * await seconds_with(lambda n: False)


PAGE = b"<!DOCTYPE html><html><body>Request blocked</body></html>"


def firewalled(first: int, last: int, body: bytes = PAGE) -> SimulatedService:
    """Return a service whose firewall answers some requests itself, counted from 1."""

    def says(path: str) -> int | Response:
        blocked = len(service.paths) in range(first, last)
        return Response(403, body, None, {"Content-Type": "text/html"}) if blocked else 200

    service = SimulatedService(says=says, latency=0.05)
    return service


@pytest.mark.parametrize(
    ("blocked", "body", "lost"),
    [
        ((40, 61), PAGE, []),
        ((0, 99), PAGE, [0, 1]),
        ((2, 99), b'{"status": "error"}', [*range(1, 10)]),
    ],
    ids=["it is slowed down for and retried", "before any success it is a 403", "JSON stays a 403"],
)
async def test_a_page_after_a_success_is_a_firewall_s(
    blocked: tuple[int, int], body: bytes, lost: list[int]
) -> None:
    async with session_above(firewalled(*blocked, body), max_concurrency=1) as session:
        found = await ends(session, [f"/{n}" for n in range(60 if not lost else lost[-1] + 1)])
        assert (session.stats.pace is None) is bool(lost)
    assert [n for n, end in enumerate(found) if isinstance(end, AuthenticationError)] == lost
    assert all(end == 0 or n in lost for n, end in enumerate(found))


async def test_a_write_that_a_firewall_refused_is_sent_again() -> None:
    service = firewalled(2, 3)
    async with session_above(service, max_concurrency=1) as session:
        await session.send(Request("GET", "/read", len))
        assert await session.send(Request("POST", "/write", len, idempotent=False)) == 0
    assert service.paths == ["/read", "/write", "/write"]
