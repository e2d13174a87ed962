"""An outage just after a refusal barely lowers the rate."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from seorep_async import Limits, SeoRepError
from seorep_async.session import Request, Session
from seorep_async.session.flow_control.breaker import CircuitBreaker
from seorep_async.session.session import cancel_all
from tests.session.simulated_service import Limited, SimulatedService, session_above, simulate
from tests.session.virtual_loop import here

pytestmark = pytest.mark.virtual


class DownAfterRefusal(Limited):
    """A rate limit. From `not_before` on, its first refusal starts an outage."""

    service: SimulatedService

    def __init__(self, limit: str, not_before: float, seconds: float) -> None:
        super().__init__(limit)
        self._not_before = not_before
        self._seconds = seconds

    def take(self) -> bool:
        is_accepted = super().take()
        was_down = self.service.down != (0, 0)
        if not is_accepted and not was_down and here().now >= self._not_before:
            begin = here().now + 0.01
            self.service.down = (begin, begin + self._seconds)
        return is_accepted


def page() -> Request[int]:
    return Request("GET", "/page", len)


async def call_again_and_again(session: Session) -> None:
    while True:
        # An outage may outlast a call's time limit.
        with suppress(SeoRepError):
            await session.send(page())


@asynccontextmanager
async def calling(session: Session, callers: int) -> AsyncIterator[None]:
    """Let some callers call again and again while the block runs."""
    calls = [asyncio.create_task(call_again_and_again(session)) for _ in range(callers)]
    yield
    await cancel_all(calls)


@pytest.mark.parametrize(
    ("limit", "begins", "seconds", "outage", "callers"),
    [
        pytest.param("40/s,retry-after=seconds", 0, 60, "refused", 16, id="no limit known"),
        pytest.param("40/s,retry-after=seconds", 5, 10, "502", 16, id="ten seconds"),
        pytest.param("40/s,retry-after=seconds", 5, 600, "refused", 16, id="ten minutes"),
        pytest.param("40/s,retry-after=seconds", 5, 60, "hang", 64, id="timeouts"),
        pytest.param("40/s", 5, 60, "refused", 64, id="bare"),
        pytest.param("40/s", 5, 60, "503", 16, id="bare 503s"),
        pytest.param("5/s,burst=5,retry-after=seconds", 5, 60, "reset", 1, id="one caller"),
        pytest.param("200/s,retry-after=seconds", 20, 60, "refused", 16, id="200 a second"),
    ],
)
async def test_an_outage_after_a_refusal_keeps_the_rate(
    limit: str, begins: float, seconds: float, outage: str, callers: int
) -> None:
    limiter = DownAfterRefusal(limit, begins, seconds)
    service = SimulatedService(limiter, latency=0.05, outage=outage)
    limiter.service = service
    async with (
        session_above(service, attempt_timeout=2.0, max_attempts=100) as session,
        calling(session, callers),
    ):
        # The next probe is due at most four seconds after the outage.
        await asyncio.sleep(begins + 25 + seconds)
    _, end = service.down
    assert end + 10 <= begins + 25 + seconds
    rate = int(limit.partition("/")[0])
    accepted = sum(end + 4 <= moment < end + 10 for moment in service.accepted[0])
    assert accepted >= 0.6 * 6 * rate


@pytest.mark.parametrize("begins", [0.3, 0.8])
@pytest.mark.parametrize("limit", ["40/s,burst=5", "5/s,burst=5"])
def test_503s_just_after_the_first_successes_leave_no_crawl(limit: str, begins: float) -> None:
    service = SimulatedService(limit, latency=0.05, down=(begins, begins + 6))
    figures = simulate(service, 100)
    assert figures.lost == 0
    # Without a limit found before, the first rate is halved at most: this was 0.2 a second.
    assert figures.rate(begins + 10, begins + 16) >= 2


async def assert_timed(watched: Session, other: Session) -> None:
    """Let a client call through an outage of 30 seconds. The stats of another one must time it."""
    async with calling(other, 20):
        await asyncio.sleep(20)
        assert watched.stats.outage == pytest.approx(20, abs=1)
        await asyncio.sleep(20)
        assert watched.stats.outage is None


async def test_the_stats_of_any_client_time_an_outage() -> None:
    service = SimulatedService(latency=0.05, outage="refused")
    limits = Limits()
    async with (
        session_above(service, 0, limits=limits) as waiting,
        session_above(service, 1, limits=limits) as other,
    ):
        await other.send(page())
        assert waiting.stats.outage is None
        service.down = (here().now, here().now + 30)
        await assert_timed(waiting, other)


async def test_503s_without_a_known_limit_are_an_outage_in_the_stats() -> None:
    service = SimulatedService(latency=0.05, down=(0, 30))
    async with session_above(service) as session:
        await assert_timed(session, session)


async def test_503s_beside_successes_are_no_outage() -> None:
    service = SimulatedService(latency=0.05, down=(0.01, 0.06))
    async with session_above(service) as session:
        calls = [asyncio.create_task(session.send(page())) for _ in range(20)]
        while not all(call.done() for call in calls):
            assert session.stats.outage is None
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("status", [429, 503])
async def test_refusals_of_a_minute_are_an_outage_at_a_known_limit(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    service = SimulatedService("20/s", status=status, down=(10, 90), outage=str(status))
    async with session_above(service) as session, calling(session, 20):
        await asyncio.sleep(60)
        assert session.share.knows_limit
        assert session.stats.outage is None
        await asyncio.sleep(20)
        assert session.stats.outage == pytest.approx(70, abs=1)
        assert "no request has been accepted for 1 min" in caplog.text


@pytest.mark.parametrize(
    ("limit", "seconds"), [("1/20s,burst=1", 15), ("60/60s,sliding-window", 61)]
)
async def test_a_refused_rate_is_no_outage(limit: str, seconds: float) -> None:
    service = SimulatedService(limit, latency=0.05)
    async with session_above(service) as session:
        async with calling(session, 20):
            await asyncio.sleep(seconds)
            assert session.share.only_probes
            assert session.stats.outage is None
        # Nothing is sent.
        await asyncio.sleep(120)
        assert session.stats.outage is None


@pytest.mark.parametrize("seconds", [6, 30])
@pytest.mark.parametrize("limit", ["40/s,burst=5", "5/s,burst=5", "2/s,fixed-window"])
def test_a_known_limit_outlasts_an_outage_of_503s(limit: str, seconds: float) -> None:
    rate = int(limit.partition("/")[0])
    service = SimulatedService(limit, latency=0.05, down=(20, 20 + seconds))
    figures = simulate(service, 40 * rate)
    assert figures.lost == 0
    # The next probe is due at most four seconds after the outage. A held rate is 80 % of the one
    # that was measured, which may be slightly below the limit.
    assert figures.rate(seconds + 25, seconds + 30) >= 0.75 * rate


@pytest.mark.parametrize(("failures_before", "must_open"), [(8, False), (9, True)])
def test_the_tenth_failure_in_a_row_opens_the_breaker(
    failures_before: int, must_open: bool
) -> None:
    assert CircuitBreaker(failures=failures_before).fail(0.0) is must_open
