"""The queue for permits: its order, its waits, and no permit is lost or granted twice."""

from __future__ import annotations

import asyncio
import itertools
import math
import re
from collections.abc import Awaitable
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from seorep_async import Settings, errors
from seorep_async.errors import (
    AttemptTimeoutError,
    ConnectionFailedError,
    DeadlineExceededError,
    RateLimitedError,
    SeoRepError,
    ServerError,
)
from seorep_async.session import Clock, Deadline, Lane, Limits, Request, Session
from seorep_async.session.failures import Cause, Failure, Sent
from seorep_async.session.flow_control import ClientClosed, Permit, Share, WaitReason, WaitTimeout
from tests.session.calls import failure_of
from tests.session.simulated_service import ApiRequest, SimulatedService, pull, session_above
from tests.session.virtual_loop import VirtualLoop, at_rest, here

pytestmark = pytest.mark.virtual

NEVER = math.inf


def get(path: str = "/1", **options: Any) -> Request[int]:
    return Request("GET", path, len, **options)


async def call(session: Session) -> float:
    """Make a single call, and return the seconds that it took."""
    begun = here().now
    await session.send(get(deadline=session.call_timeout.deadline()))
    return here().now - begun


# turns


async def report(session: Session, pages: int) -> float:
    """Read a single listing, page 1 and then the others, and return its duration in seconds."""
    begun = here().now
    await call(session)
    await asyncio.gather(*(call(session) for _ in range(pages - 1)))
    return here().now - begun


@pytest.mark.parametrize(("callers", "pages"), [(16, 1), (16, 20), (64, 3)])
async def test_a_pull_beside_steady_callers_keeps_a_third_of_its_speed(
    callers: int, pages: int
) -> None:
    waits: list[float] = []
    alone = 200 * 0.02 / 8
    async with session_above(SimulatedService(), max_concurrency=8) as session:

        async def ask_steadily() -> None:
            while True:
                waits.append(await report(session, pages))

        steady = [session.spawn(ask_steadily()) for _ in range(callers)]
        await asyncio.sleep(4)
        before = max(waits[len(waits) // 2 :])
        waits.clear()
        begun = here().now
        assert await pull(session, 200, in_progress=16) == []
        assert here().now - begun <= 3 * alone
        assert max(waits) <= 2.2 * before
        for task in steady:
            task.cancel()


@pytest.mark.parametrize(
    ("requests", "wait"),
    [
        pytest.param([("retry", 300), ("new", 300)], 1, id="a retry goes first"),
        pytest.param(
            [("retry 1", 60), ("new", 300), ("retry 2", 61)],
            1,
            id="the nearest deadline goes first",
        ),
        pytest.param(
            [("retry 1", 60), ("page retry", 300), ("retry 2", 61)], 1, id="lanes take turns"
        ),
        # Without this, the new request would go between the first two retries.
        pytest.param(
            [("retry 1", 30), ("retry 2", 31), ("new", 300), ("retry 3", 300)],
            10.5,
            id="a third of the time is over",
        ),
    ],
)
async def test_waiting_requests_are_served_in_this_order(
    requests: list[tuple[str, float]], wait: float
) -> None:
    share = share_of(max_concurrency=1)
    permit = await granted(share)
    order: list[tuple[str, float]] = []
    pull_lane = Lane()

    async def ask(name: str, seconds: float) -> None:
        deadline = Deadline.of_call(here().now + seconds)
        lane = pull_lane if "page" in name else None
        permit = await share.acquire(deadline, lane=lane, is_retry="retry" in name)
        order.append((name, seconds))
        release(share, permit, None)

    async with asyncio.TaskGroup() as group:
        for request in reversed(requests):
            group.create_task(ask(*request))
        await asyncio.sleep(wait)
        release(share, permit, None)
    assert order == requests


async def test_a_retry_without_a_deadline_waits_a_minute_at_most() -> None:
    share = share_of(max_concurrency=1)

    async def retry_steadily() -> None:
        while True:
            deadline = Deadline.of_call(here().now + 20)
            permit = await share.acquire(deadline, is_retry=True)
            await asyncio.sleep(1)
            release(share, permit, None)

    others = [asyncio.create_task(retry_steadily()) for _ in range(8)]
    await asyncio.sleep(5)
    async with asyncio.timeout(60):
        await share.acquire(Deadline(), is_retry=True)
    for task in others:
        task.cancel()


async def test_a_wait_for_a_permit_is_not_part_of_the_attempt() -> None:
    service = SimulatedService(latency=1.0)
    async with session_above(
        service, max_concurrency=1, max_attempts=1, attempt_timeout=1.5
    ) as session:
        assert await pull(session, 10) == []


# waits


async def granted(share: Share) -> Permit:
    permit = await share.acquire(Deadline())
    assert permit is not None
    return permit


def share_of(**options: Any) -> Share:
    share = Share(Settings(**options), Clock(monotonic=here().time))
    share.open()
    return share


def release(share: Share, permit: Permit, outcome: object | None) -> None:
    """End an attempt with a response, a Failure, or None if it was cancelled."""
    share.take_back(permit, outcome)


@pytest.mark.parametrize("inconclusive", [False, True])
async def test_a_failure_that_may_be_our_own_says_nothing(inconclusive: bool) -> None:
    share = share_of()
    error = AttemptTimeoutError("no answer")
    failure = Failure(Sent.MAYBE, Cause.OVERLOAD, error, inconclusive=inconclusive)
    for _attempt in range(20):
        release(share, await granted(share), failure)
        if share.only_probes:
            break
    assert share.only_probes is not inconclusive


def refusal(retry_after: float | None = None, status: int = 429) -> Failure:
    cause = Cause.THROTTLE if status == 429 else Cause.OVERLOAD
    return Failure(Sent.RESPONDED, cause, ServerError("no", status=status), retry_after)


UNREACHABLE = Failure(Sent.NO, Cause.TRANSIENT, ConnectionFailedError("no"))


async def test_a_mistake_in_a_header_stops_all_for_an_hour_at_most() -> None:
    share = share_of(retry_after_max=120)
    release(share, await granted(share), refusal(1e308))
    await asyncio.sleep(3590)
    assert (await granted(share)).started == 3600


@pytest.mark.parametrize("waits_already", [True, False])
@pytest.mark.parametrize(
    ("pause", "deadline", "is_too_long"),
    [
        (5.0, 5.1, False),
        (120.0, NEVER, False),
        (5.1, 5.0, True),
        (120.1, NEVER, True),
        (3598.0, 5.0, True),
    ],
)
async def test_a_pause_is_waited_for_or_an_error_at_once(
    pause: float, deadline: float, is_too_long: bool, waits_already: bool
) -> None:
    share = share_of(max_concurrency=1, retry_after_max=120)
    permit = await granted(share)
    waiting: Awaitable[Permit] = share.acquire(Deadline.of_call(deadline))
    if waits_already:
        waiting = asyncio.ensure_future(waiting)
    await at_rest()
    release(share, permit, refusal(pause))
    if is_too_long:
        said = f"because the service asked for a pause of at least another {errors.duration(pause)}"
        with pytest.raises(RateLimitedError, match=re.escape(f"not sent, {said}")):
            await waiting
        assert here().now == 0
    else:
        await waiting
        assert here().now == pause


async def test_a_pause_that_has_ended_is_no_reason_to_give_up() -> None:
    share = share_of()
    release(share, await granted(share), refusal(1.0))
    await asyncio.sleep(3)
    with pytest.raises(WaitTimeout):
        await share.acquire(Deadline.of_call(0.5))


ONE_IN_FLIGHT = "at most 1 requests may be in flight (max_concurrency=1)"


@pytest.mark.parametrize(
    ("said", "options"),
    [
        (f"for its turn: {ONE_IN_FLIGHT}", {"max_concurrency": 1}),
        (
            "for its turn, at the 0.1 requests a second that your own requests_per_second allows",
            {"requests_per_second": 0.1},
        ),
    ],
)
async def test_the_error_of_a_long_wait_names_its_length_and_cause(
    options: dict[str, Any], said: str
) -> None:
    async with session_above(
        SimulatedService(latency=60.0), call_timeout=20.0, **options
    ) as session:
        first = session.spawn(session.send(get()))
        await at_rest()
        second = session.send(get(deadline=Deadline.of_call(7.0)))
        message = re.escape(f"after a wait of 7 s {said}; this request was not sent")
        error = await failure_of(second, DeadlineExceededError, message)
        assert error.attempts == 0
        assert here().now == 7.0
        first.cancel()


async def test_a_call_cut_short_names_the_wait_before_it() -> None:
    said = rf"a wait of [345]\.\d+ s for its turn: {re.escape(ONE_IN_FLIGHT)}; last error"
    async with session_above(SimulatedService(latency=5.0), max_concurrency=1) as session:
        session.spawn(session.send(get()))
        await at_rest()
        with pytest.raises(DeadlineExceededError, match=said):
            await session.send(get(deadline=Deadline.of_call(7.0)))


async def test_the_end_of_a_wait_names_the_limit_of_the_service() -> None:
    said = r"allows \(if it limits concurrent requests, set max_concurrency\); this request was not"
    async with session_above(SimulatedService("2/s", latency=0.05)) as session:
        await pull(session, 40)
        await call(session)
        with pytest.raises(DeadlineExceededError, match=said):
            await session.send(get(deadline=Deadline.of_call(here().now + 0.2)))


async def test_the_clock_of_a_stream_starts_with_its_first_permit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with session_above(
        SimulatedService(latency=1.0), call_timeout=5.0, max_concurrency=1
    ) as session:
        sending = [session.send(get()) for _ in range(40)]
        assert await asyncio.gather(*sending) == [0] * 40
    said = f"for its turn: {ONE_IN_FLIGHT}; nothing was sent"
    assert caplog.messages == [f"a request has waited 5 s {said}"]


async def test_a_wait_is_added_up_and_leaves_no_alarm_however_it_ends() -> None:
    share = share_of(max_concurrency=1)
    permit = await granted(share)
    deadlines = map(Deadline.of_call, (60.0, 60.0, NEVER))
    waits = [asyncio.ensure_future(share.acquire(deadline)) for deadline in deadlines]
    await asyncio.sleep(2)
    release(share, permit, object())
    await waits[0]
    await asyncio.sleep(3)
    waits[1].cancel()
    await asyncio.wait(waits[:2])
    share.close()
    with pytest.raises(ClientClosed):
        await waits[2]
    assert share.waited[WaitReason.CONCURRENCY] == 12.0
    assert sum(share.waited.values()) == 12.0
    await at_rest()
    assert all(alarm.cancelled() for alarm in here().alarms)


# probes


async def outage(session: Session, calls: int = 16) -> None:
    deadline = Deadline.of_call(here().now + 1)
    sending = [session.send(get(deadline=deadline)) for _ in range(calls)]
    await asyncio.gather(*sending, return_exceptions=True)


async def test_a_lost_probe_delays_nobody() -> None:
    lost: list[ApiRequest] = []

    def swallow(request: ApiRequest) -> int | None:
        if here().now < 1.0 or lost:
            return 200
        lost.append(request)
        return None

    async with session_above(SimulatedService(down=(0, 1.0), says=swallow)) as session:
        calls = [asyncio.create_task(call(session)) for _ in range(20)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert here().now <= 1 + 5
        assert len(lost) == 1
        with session.call_timeout.limit(5):
            assert [await call(session) for _ in range(7)]
        await asyncio.wait(calls, timeout=5)
        assert sum(task.done() for task in calls) >= 19
        for task in calls:
            task.cancel()


async def test_calls_that_are_probes_in_turn_outlast_a_minute() -> None:
    service = SimulatedService(down=(0.1, 60.0))
    async with session_above(service) as session:
        await call(session)
        await asyncio.sleep(0.2)
        await asyncio.gather(*(call(session) for _ in range(3)))
        assert 60 <= here().now <= 90
        assert session.share.quota.tokens > 400


@pytest.mark.parametrize("kind", ["503", "refused", "hang"])
async def test_a_service_that_never_comes_back_is_not_hammered(kind: str) -> None:
    service = SimulatedService(down=(0, NEVER), outage=kind)
    attempt_timeout = 1 if kind == "hang" else 30
    async with session_above(service, call_timeout=30, attempt_timeout=attempt_timeout) as session:
        calls = [call(session) for _ in range(1000)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert here().now <= 30
    assert all(isinstance(result, SeoRepError) for result in results)
    assert service.attempts <= 1.05 * 1000


async def test_a_call_that_never_started_names_the_failure_of_others() -> None:
    async with session_above(
        SimulatedService(down=(0, NEVER), outage="hang"), attempt_timeout=1.0
    ) as session:
        sending = [session.send(get(deadline=Deadline.of_call(3.0))) for _ in range(16)]
        await asyncio.gather(*sending, return_exceptions=True)
        probe = session.spawn(session.send(get()))
        await at_rest()
        late = session.send(get(deadline=Deadline.of_call(here().now + 0.1)))
        message = "for the service to accept anything again.*last error"
        error = await failure_of(late, DeadlineExceededError, message)
        probe.cancel()
    assert error.attempts == 0
    assert type(error.__cause__) is AttemptTimeoutError


@pytest.mark.parametrize("waits_already", [True, False])
async def test_a_stream_waits_for_an_outage_as_long_as_a_call(waits_already: bool) -> None:
    service = SimulatedService(down=(0, NEVER), outage="refused")
    async with session_above(service, call_timeout=5.0) as session:
        await outage(session)
        if not waits_already:
            await asyncio.sleep(6)
        with pytest.raises(DeadlineExceededError, match=r"the call (timed out|was given up)"):
            await session.send(get())
        assert here().now <= 12


async def test_a_stream_that_begins_in_an_outage_outlasts_it() -> None:
    service = SimulatedService(down=(0, 9.0), outage="refused")
    async with session_above(service, call_timeout=5.0) as session:
        await outage(session)
        await asyncio.sleep(6)
        # The first is a probe at once; the second waits for the next one.
        bodies = await asyncio.gather(session.send(get("/1")), session.send(get("/2")))
    assert list(bodies) == [0, 0]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("service", "options"),
    [
        pytest.param(SimulatedService(latency=60.0), {"max_concurrency": 1}, id="a permit"),
        pytest.param(SimulatedService(latency=60.0), {"requests_per_second": 0.1}, id="the rate"),
        pytest.param(
            SimulatedService("1/m,burst=1", retry_after=50.0), {}, id="the end of a pause"
        ),
        pytest.param(
            SimulatedService(down=(0, NEVER), outage="refused"),
            {"backoff_initial": 0.01},
            id="a probe",
        ),
        pytest.param(
            SimulatedService(down=(0, NEVER), outage="hang"), {}, id="an answer to a probe"
        ),
        pytest.param(
            SimulatedService(says=lambda path: 500),
            {"backoff_initial": 60},
            id="the end of a back-off",
        ),
    ],
)
async def test_closing_ends_every_wait_at_once(
    service: SimulatedService, options: dict[str, Any], stream: bool
) -> None:
    before = asyncio.all_tasks()
    async with session_above(service, attempt_timeout=2.0, **options) as session:
        deadline = None if stream else session.call_timeout.deadline()
        calls = [asyncio.create_task(session.send(get(deadline=deadline))) for _ in range(20)]
        await asyncio.sleep(5)
        waiting = [call for call in calls if not call.done()]
        assert waiting
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    assert all(isinstance(call.exception(), SeoRepError) for call in waiting)


@pytest.mark.parametrize("stream", [False, True])
async def test_nothing_is_sent_after_the_end_of_a_call(stream: bool) -> None:
    service = SimulatedService(says=lambda path: 500)
    async with session_above(service, call_timeout=5.0, backoff_initial=4.0) as session:
        deadline = None if stream else session.call_timeout.deadline()
        sending = session.spawn(session.send(get(deadline=deadline)))
        await asyncio.sleep(0.1)
        here().now = 10.0  # the loop is blocked during the back-off
        with pytest.raises(DeadlineExceededError, match="last error: the service failed"):
            await sending
    assert service.attempts == 1


async def test_nothing_is_sent_if_the_loop_was_blocked_after_a_grant() -> None:
    async with session_above(SimulatedService(latency=1.0), max_concurrency=1) as session:
        first = session.spawn(call(session))
        await asyncio.sleep(0.1)
        session.observer.on_attempt = lambda _: setattr(here(), "now", 10.0)
        with pytest.raises(DeadlineExceededError, match="this request was not sent"):
            await session.send(get(deadline=Deadline(5.0)))
        await first
        assert session.stats.attempts == 1
        assert session.share.in_flight == 0


# too many open files


async def test_too_many_open_files_are_no_outage() -> None:
    class FewFiles(SimulatedService):
        open = 0

        def attempt(self, client: int, request: Request[Any], timeout: float) -> Any:
            if self.open >= 20:
                failed = here().create_future()
                error = ConnectionFailedError("no")
                failed.set_result(Failure(Sent.NO, Cause.TRANSIENT, error, out_of_resources=True))
                return failed
            self.open += 1
            answer = super().attempt(client, request, timeout)
            answer.add_done_callback(lambda _: setattr(self, "open", self.open - 1))
            return answer

    async def seconds(service: SimulatedService, permits: int) -> float:
        begun = here().now
        async with session_above(service, max_concurrency=permits) as session:
            assert await pull(session, 400, in_progress=2 * permits) == []
        return here().now - begun

    assert await seconds(FewFiles(), 64) <= 1.5 * await seconds(SimulatedService(), 16)


# random use


class AnyUse(RuleBasedStateMachine):
    """Clients request, wait, cancel, receive answers and close in any order, while time passes."""

    CEILING = 3
    CAP = 20.0
    LONGEST_PAUSE = 10.0

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.limits = Limits(max_concurrency=self.CEILING, requests_per_second=self.CAP)
        self.shares: list[Share] = []
        self.lanes: dict[Share, list[Lane | None]] = {}
        self.granted_permits: list[tuple[Share, Permit]] = []
        self.waiting: dict[int, tuple[Share, asyncio.Task[None]]] = {}
        self.arrivals = 0
        self.starts: list[float] = []
        self.defects: list[BaseException | None] = []

    @initialize(clients=st.integers(1, 4))
    def open_clients(self, clients: int) -> None:
        self.shares = [self.open_client() for _ in range(clients)]

    def open_client(self) -> Share:
        settings = Settings(retry_after_max=self.LONGEST_PAUSE)
        clock = Clock(
            monotonic=self.loop.time,
            call_later=self.loop.call_later,
            wake_later=self.loop.call_later,
        )
        share = Share(settings, clock, self.limits)

        async def open_it() -> None:
            share.open()

        self.loop.run_until_complete(open_it())
        self.lanes[share] = [Lane(), Lane(), None]
        return share

    def let_run(self, seconds: float = 0.0) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.loop.run_until_complete(at_rest())

    async def ask(
        self, key: int, share: Share, priority: int, deadline: Deadline, lane: Lane | None
    ) -> None:
        came = self.loop.now
        try:
            permit = await share.acquire(deadline, None, lane, priority, is_retry=priority < 0)
        except RateLimitedError:
            longest = min(deadline.at, self.loop.now + self.LONGEST_PAUSE)
            assert self.limits.queue.pace.paused_until > max(self.loop.now, longest)
            return
        except WaitTimeout:
            assert self.loop.now >= deadline.at
            return
        except ClientClosed:
            assert share not in self.shares
            return
        finally:
            del self.waiting[key]
        self.granted_permits.append((share, permit))
        self.starts.append(permit.started)
        assert came <= permit.started < deadline.at
        assert permit.started >= self.limits.queue.pace.paused_until
        assert len(self.granted_permits) <= self.CEILING

    @rule(
        data=st.data(),
        priority=st.integers(-1, 2),
        seconds=st.sampled_from([NEVER, -1.0, 0.0, 0.03, 1.0, 8.0]),
        lane=st.integers(0, 2),
    )
    def arrive(self, data: st.DataObject, priority: int, seconds: float, lane: int) -> None:
        share = data.draw(st.sampled_from(self.shares))
        deadline = Deadline.of_call(self.loop.now + seconds)
        self.arrivals += 1
        work = self.ask(self.arrivals, share, priority, deadline, self.lanes[share][lane])
        task = self.loop.create_task(work)
        task.add_done_callback(self.note_defect)
        self.waiting[self.arrivals] = share, task
        self.let_run()

    def note_defect(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.defects.append(task.exception())

    def release(self, data: st.DataObject, outcome: Failure | object | None) -> None:
        place = data.draw(st.integers(0, len(self.granted_permits) - 1))
        share, permit = self.granted_permits.pop(place)
        release(share, permit, outcome)

    late = Failure(Sent.MAYBE, Cause.OVERLOAD, ServerError("late"))
    pauses = itertools.product([None, 0.5, 5.0, 11.0], [429, 503])
    refusals = itertools.starmap(refusal, pauses)
    outcomes = st.sampled_from([None, object(), object(), UNREACHABLE, late, *refusals])

    @precondition(lambda self: self.granted_permits)
    @rule(data=st.data(), outcome=outcomes)
    def answer(self, data: st.DataObject, outcome: Failure | object | None) -> None:
        self.release(data, outcome)
        self.let_run()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), called_at_once=st.booleans(), outcome=outcomes)
    def cancel(
        self, data: st.DataObject, called_at_once: bool, outcome: Failure | object | None
    ) -> None:
        _, task = self.waiting[data.draw(st.sampled_from(sorted(self.waiting)))]
        if called_at_once and self.granted_permits:
            self.release(data, outcome)
        task.cancel()
        self.let_run()
        assert task.cancelled()

    @rule(data=st.data())
    def close_and_open_another(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.shares) - 1))
        closed = self.shares.pop(place)
        closed.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        assert not any(share is closed for share, _ in self.waiting.values())
        for share, permit in [pair for pair in self.granted_permits if pair[0] is closed]:
            self.granted_permits.remove((share, permit))
            share.take_back(permit)
        assert closed.in_flight == 0
        self.shares.append(self.open_client())
        self.let_run()

    @rule(seconds=st.sampled_from([0.001, 0.04, 0.05, 0.3, 3.0]))
    def wait(self, seconds: float) -> None:
        self.let_run(seconds)

    @rule(seconds=st.sampled_from([0.01, 2.0]))
    def stall(self, seconds: float) -> None:
        self.loop.now += seconds
        self.let_run()

    @invariant()
    def every_wait_ends_as_it_should(self) -> None:
        assert self.defects == []

    @invariant()
    def permits_are_neither_lost_nor_invented(self) -> None:
        assert sum(share.in_flight for share in self.shares) == len(self.granted_permits)

    @invariant()
    def starts_keep_to_the_rate(self) -> None:
        recent = self.starts[-20:]
        for back, start in enumerate(reversed(recent), 1):
            assert back <= 1 + (recent[-1] - start + 0.02) * self.CAP + 1e-6

    def teardown(self) -> None:
        # With answers and time, every request gets a permit.
        for _ in range(200):
            while self.granted_permits:
                share, permit = self.granted_permits.pop()
                release(share, permit, object())
            if not self.waiting:
                break
            self.let_run(1.0)
        assert not self.waiting
        for share in self.shares:
            assert share.in_flight == 0
        self.loop.close()


TestAnyUse = AnyUse.TestCase
TestAnyUse.settings = settings(stateful_step_count=30)
