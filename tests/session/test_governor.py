"""The governor: who may start now, in which order, why not, and that no permit is ever lost or given twice."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from seorep_async import RateLimitedError, Settings
from seorep_async.session import Clock
from seorep_async.session.flow_control import Governor, Permit
from seorep_async.session.flow_control.circuit_breaker import CircuitBreaker
from seorep_async.session.flow_control.rate_limiter import RateLimiter
from seorep_async.session.retry_policy import Signal
from tests.session.virtual_loop import VirtualLoop, here

pytestmark = pytest.mark.virtual

NEVER = math.inf
NO_CONTACT = [Signal.TIMED_OUT, Signal.UNREACHABLE]


def new_governor(**options: Any) -> Governor:
    return Governor(Settings(**options), Clock(monotonic=here().time))


def govern(**options: Any) -> Governor:
    """Return a governor that is past its start."""
    governor = new_governor(**options)
    for now in (-2.0, -1.0):
        governor.admission._concurrency.next_start(now)
    return governor


def started_at(started: float) -> Permit:
    """Return the permit of an attempt that started at some time."""
    return Permit(started, probe=False, refused=False, subject=None)


async def turn() -> None:
    """Let everything that can run, run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def granted(governor: Governor) -> Permit:
    """Return a permit that must be there at once or after a wait."""
    permit = await governor.acquire(0, NEVER)
    assert permit is not None
    return permit


class Queue:
    """Tasks that wait for a permit.

    Attributes:
        tasks: the tasks, in the order in which they came.
        served: the places of those that got a permit, from 0, in the order in which they got it.
        times: when they did.
    """

    def __init__(self, governor: Governor, *priorities: int, deadline: float = NEVER) -> None:
        self.served: list[int] = []
        self.times: list[float] = []
        self.tasks = [
            asyncio.create_task(self._wait(governor, place, priority, deadline))
            for place, priority in enumerate(priorities)
        ]

    async def _wait(self, governor: Governor, place: int, priority: int, deadline: float) -> Permit | None:
        permit = await governor.acquire(priority, deadline)
        if permit is not None:
            self.served.append(place)
            self.times.append(permit.started)
        return permit

    async def __aenter__(self) -> Queue:
        await turn()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


# concurrency, order, cancelling


@pytest.mark.parametrize("limit", [1, 2, 16])
async def test_as_many_start_at_once_as_the_limit_says(limit: int) -> None:
    governor = govern(max_concurrency=limit)
    async with Queue(governor, *[0] * (limit + 3)) as waiters:
        admission = governor.admission
        assert (len(waiters.served), admission.in_flight, admission.concurrency) == (limit, limit, limit)


async def test_eight_start_at_once_at_first_and_the_rest_soon() -> None:
    governor = new_governor(max_concurrency=16)
    async with Queue(governor, *[0] * 20) as waiters:
        assert (governor.admission.in_flight, governor.admission.concurrency) == (8, 16)
        await asyncio.sleep(100)
        assert waiters.times == pytest.approx([0] * 8 + [0.1] * 8)


async def test_all_start_when_the_first_eight_were_accepted() -> None:
    governor = new_governor(max_concurrency=64)
    first = [await granted(governor) for _ in range(8)]
    async with Queue(governor, *[0] * 90) as waiters:
        for permit in first[:7]:
            governor.release(permit, Signal.FINE)
        await turn()
        before = len(waiters.served)
        governor.release(first[7], Signal.FINE)
        await turn()
        assert (before, len(waiters.served), governor.admission.in_flight) == (7, 64, 64)


async def test_refusals_at_the_start_let_no_more_start() -> None:
    governor = new_governor(max_concurrency=16)
    first = [await granted(governor) for _ in range(2)]
    async with Queue(governor, *[0] * 20) as waiters:
        for permit in first:
            governor.release(permit, Signal.THROTTLED)
        await asyncio.sleep(1)
        assert (len(waiters.served), governor.admission.in_flight) == (8, 8)


@asynccontextmanager
async def busy(*priorities: int, deadline: float = NEVER) -> AsyncIterator[tuple[Governor, Permit, Queue]]:
    """Have others wait while the only permit is held."""
    governor = govern(max_concurrency=1)
    held = await granted(governor)
    async with Queue(governor, *priorities, deadline=deadline) as waiters:
        yield governor, held, waiters


@pytest.mark.parametrize(
    ("waiting", "left", "changed", "seconds"),
    [
        (8, NEVER, {}, 2.0),
        (8, 4.0, {}, 1.0),
        (80, NEVER, {}, 10.0),
        (0, NEVER, {}, 0.0),
        (8, NEVER, {"accepted": 0}, 0.0),
        (8, NEVER, {"refusals": 2}, 0.0),
        (8, NEVER, {"rate": math.inf}, 0.0),
    ],
)
async def test_failing_subject_leaves_the_pace_to_those_that_wait(
    waiting: int, left: float, changed: dict[str, Any], seconds: float
) -> None:
    story = {"rate": 4.0, "refusals": 3, "accepted": 1} | changed
    governor = govern(max_concurrency=1)
    await granted(governor)
    governor.admission._rate._known = story["rate"]
    for _ in range(int(story["refusals"])):
        governor.admission.failing.record_refusal("campaign 1")
    for _ in range(int(story["accepted"])):
        governor.admission.failing.record_success("campaign 2")
    async with Queue(governor, *[0] * waiting):
        assert governor.courtesy("campaign 1", here().time() + left) == pytest.approx(seconds)


async def test_probe_cancelled_as_it_is_called_is_followed_by_another() -> None:
    governor = await in_an_outage()
    async with Queue(governor, 0, 0) as waiters:
        here().call_later(0.1, waiters.tasks[1].cancel)  # just after the alarm that calls it
        await asyncio.sleep(1)
        assert waiters.served == [0]
        assert waiters.times == [pytest.approx(0.2)]


# deadlines


@pytest.mark.parametrize("deadline", [0.0, -1.0, -math.inf])
async def test_who_comes_too_late_gets_no_permit(deadline: float) -> None:
    governor = govern()
    assert await governor.acquire(0, deadline) is None
    assert (governor.admission.in_flight, here().now) == (0, 0)


async def test_who_waited_too_long_gets_no_permit_and_the_next_does() -> None:
    async with busy(0, deadline=3.0) as (governor, held, impatient), Queue(governor, 1) as patient:
        assert await impatient.tasks[0] is None
        assert (here().now, governor.admission.in_flight) == (3.0, 1)
        await asyncio.sleep(5)
        governor.release(held, Signal.FINE)
        await turn()
        assert (impatient.served, patient.served) == ([], [0])


async def test_deadline_of_who_got_a_permit_is_forgotten() -> None:
    async with busy(0, deadline=3.0) as (governor, held, waiters):
        governor.release(held, Signal.FINE)
        await asyncio.sleep(10)
        assert (waiters.served, governor.admission.in_flight) == ([0], 1)


# pauses


@pytest.mark.parametrize(
    ("said", "start"),
    [
        ([(Signal.THROTTLED, 7.0)], 7.0),
        ([(Signal.OVERLOADED, 7.0)], 7.0),
        ([(Signal.OVERLOADED, 0.0)], 0.0),
        ([(Signal.UNREACHABLE, 7.0)], 0.0),
        ([(Signal.FINE, 7.0)], 0.0),
        ([(Signal.OVERLOADED, 7.0), (Signal.OVERLOADED, 3.0)], 7.0),
        ([(Signal.OVERLOADED, 3.0), (Signal.OVERLOADED, 7.0)], 7.0),
        ([(Signal.OVERLOADED, 3.0), (Signal.OVERLOADED, None)], 3.0),
        ([(Signal.THROTTLED, 1e308)], 3600.0),  # a mistake in a header stops all for an hour at most
    ],
)
async def test_nothing_starts_in_the_longest_wait_asked_for(
    said: list[tuple[Signal, float | None]], start: float
) -> None:
    governor = govern(retry_after_max=120)
    for signal, wait in said:
        governor.observe(started_at(-1.0), signal, wait)
    await asyncio.sleep(max(0.0, start - 100))
    assert (await granted(governor)).started == start


@pytest.mark.parametrize("since", [None, 0.0, 2.0])
@pytest.mark.parametrize(
    ("wait", "deadline", "is_too_long"),
    [(5.0, 5.1, False), (120.0, NEVER, False), (5.1, 5.0, True), (120.1, NEVER, True), (3598.0, 5.0, True)],
)
async def test_wait_is_waited_or_an_error_at_once(
    wait: float, deadline: float, is_too_long: bool, since: float | None
) -> None:
    """At 100 so much of a pause is left, and a permit is asked for; or some time before the pause, if it has no age."""
    governor = govern(max_concurrency=1, retry_after_max=120)
    held = await granted(governor)
    await asyncio.sleep(100 - (since or 0))
    asks = asyncio.ensure_future(governor.acquire(0, 100 + deadline)) if since is None else None
    await turn()
    governor.release(held, Signal.THROTTLED, wait + (since or 0))
    await asyncio.sleep(since or 0)
    (end,) = await asyncio.gather(asks or governor.acquire(0, 100 + deadline), return_exceptions=True)
    assert isinstance(end, RateLimitedError if is_too_long else Permit)
    assert (here().now, governor.admission.in_flight) == ((100, 0) if is_too_long else (100 + wait, 1))
    if isinstance(end, RateLimitedError):
        assert end.retry_after == pytest.approx(wait)
        assert end.message == f"not sent, because the service asked for a pause of another {wait:.3g} s"


def overloads(governor: Governor, subjects: Iterable[str]) -> None:
    """Let attempts about subjects, one after the other, be asked to wait for an hour with a 503."""
    for subject in subjects:
        here().now += 1
        permit = Permit(here().now - 0.5, probe=False, refused=False, subject=subject)
        governor.observe(permit, Signal.OVERLOADED, 3600.0)


@pytest.mark.parametrize("stories", [["1" * 9], ["1234567", "abcdefg"]], ids=["one subject", "accepted in between"])
async def test_few_subjects_overloaded_for_long_stop_no_other(stories: list[str]) -> None:
    governor = govern(retry_after_max=120)
    for subjects in stories:
        governor.observe(started_at(-1.0), Signal.FINE, None)
        overloads(governor, subjects)
    assert (await granted(governor)).started < 60


async def test_many_subjects_overloaded_for_long_stop_all() -> None:
    governor = govern(retry_after_max=120)
    overloads(governor, "1234567")
    governor.observe(started_at(-1.0), Signal.OVERLOADED, 3600.0)  # under way before the others were heard of
    governor.release(await granted(governor), None)
    overloads(governor, "8")
    with pytest.raises(RateLimitedError, match="asked for a pause of another"):
        await governor.acquire(0, NEVER)


async def test_wait_that_is_too_long_for_one_is_waited_by_another() -> None:
    async with busy(0, deadline=5.0) as (governor, held, impatient), Queue(governor, 0) as patient:
        governor.release(held, Signal.THROTTLED, 7.0)
        await patient.tasks[0]
        assert isinstance(impatient.tasks[0].exception(), RateLimitedError)
        assert patient.times == [7.0]


# what attempts tell


# what follows from outcomes, but for the concurrency of 16 and a next start at once: what was said, with a Retry-After
OUTCOMES: dict[str, tuple[list[Signal | None], float | None, dict[str, Any], dict[str, Any]]] = {
    "success": ([Signal.FINE], None, {}, {}),
    "one refusal": ([Signal.THROTTLED], None, {}, {}),
    "one 503": ([Signal.OVERLOADED], None, {}, {}),
    "cancelled attempts": ([None] * 50, None, {"max_concurrency": 2}, {"concurrency": 2}),
    "one timeout": ([Signal.TIMED_OUT], None, {}, {"concurrency": 11}),
    "timeout, then successes": ([Signal.TIMED_OUT, *[Signal.FINE] * 12], None, {}, {"concurrency": 12}),
    "row of successes": ([Signal.FINE] * CircuitBreaker.ROW, None, {}, {}),
    "row of timeouts": ([Signal.TIMED_OUT] * CircuitBreaker.ROW, None, {}, {"concurrency": 11, "outage": 0.1}),
    "row of failures": ([Signal.UNREACHABLE] * CircuitBreaker.ROW, None, {}, {"outage": 0.1}),
    "hard cap": ([None], None, {"requests_per_second": 2}, {"pace": 0.48}),
    "Retry-After": ([Signal.THROTTLED], 7.0, {}, {"asked to wait": 7.0}),
}


@pytest.mark.parametrize(("said", "retry_after", "options", "follows"), OUTCOMES.values(), ids=OUTCOMES)
async def test_outcomes_change_the_concurrency_and_the_next_start(
    said: list[Signal | None], retry_after: float | None, options: dict[str, Any], follows: dict[str, float]
) -> None:
    governor = govern(**options)
    for signal in said:
        governor.release(await granted(governor), signal, retry_after)
    permit, waited = await granted(governor), dict(follows)
    assert governor.admission.concurrency == waited.pop("concurrency", 16)
    assert governor.waited == pytest.approx(waited)
    assert permit.started == pytest.approx(sum(waited.values()))
    assert permit.probe is ("outage" in waited)


async def test_growth_lets_another_one_start() -> None:
    governor = govern(max_concurrency=2)
    governor.release(await granted(governor), Signal.TIMED_OUT)
    held = await granted(governor)
    async with Queue(governor, 0, 0, 0) as waiters:
        governor.release(held, Signal.FINE)
        await turn()
        assert (len(waiters.served), governor.admission.concurrency) == (2, 2)


async def refuse_a_burst(governor: Governor, accepted: int, refused: int, signal: Signal = Signal.THROTTLED) -> None:
    """Start a burst of which some are refused at once, and the others accepted when the breaker is open."""
    burst = [await granted(governor) for _ in range(accepted + refused)]
    await asyncio.sleep(0.01)
    for permit in burst[accepted:]:
        governor.release(permit, signal)
    for permit in burst[:accepted]:
        governor.release(permit, Signal.FINE)


@pytest.mark.parametrize("signal", [Signal.THROTTLED, Signal.OVERLOADED])
async def test_second_refusal_lets_only_a_probe_out(signal: Signal) -> None:
    governor = govern()
    await refuse_a_burst(governor, 8, 8, signal)
    async with Queue(governor, 0, 0) as waiters:
        await asyncio.sleep(100)
        assert waiters.times == [pytest.approx(0.11)]


@pytest.mark.parametrize("signal", [Signal.THROTTLED, Signal.OVERLOADED])
@pytest.mark.parametrize(("accepted", "concurrency", "pace"), [(8, 8, None), (14, 16, pytest.approx(0.8 * 15))])
async def test_part_of_a_burst_that_was_accepted_tells_the_limit(
    accepted: int, concurrency: int, pace: Any, signal: Signal
) -> None:
    governor = govern()
    await refuse_a_burst(governor, accepted, 16 - accepted, signal)
    governor.release(await granted(governor), Signal.FINE)
    assert (governor.admission.concurrency, governor.admission.pace) == (concurrency, pace)


async def test_refusals_of_what_was_in_flight_do_not_count() -> None:
    governor = govern()
    burst = [await granted(governor) for _ in range(16)]
    for permit in burst[:2]:
        governor.release(permit, Signal.THROTTLED)
    governor.release(await granted(governor), Signal.FINE)  # the probe
    pace = governor.admission.pace
    for permit in burst[2:]:
        governor.release(permit, Signal.THROTTLED)
    assert (governor.admission.pace, (await granted(governor)).probe) == (pace, False)


async def test_probe_is_the_last_that_was_not_refused_before() -> None:
    governor = govern()
    await refuse_a_burst(governor, 0, 2)
    waits = [
        asyncio.ensure_future(governor.acquire(priority, NEVER, None, refused))
        for priority, refused in ((-1, True), (0, False), (1, False), (2, True))
    ]
    await asyncio.sleep(1)
    assert [wait.done() for wait in waits] == [False, False, True, False]
    for wait in waits:
        wait.cancel()


@pytest.mark.parametrize("known", [True, False])
async def test_request_that_was_refused_before_does_not_count(known: bool) -> None:
    governor = govern()
    if known:
        await refuse_a_burst(governor, 14, 2)
        governor.release(await granted(governor), Signal.FINE)
        await asyncio.sleep(5)
    pace = governor.admission.pace
    for _ in range(3):
        permit = await governor.acquire(0, NEVER, None, refused=True)
        assert permit is not None
        governor.release(permit, Signal.THROTTLED)
        governor.release(await granted(governor), Signal.FINE)
    assert not (await granted(governor)).probe
    assert (governor.admission.pace is None) == (pace is None)


@pytest.mark.parametrize("wait", [None, 1.0])
async def test_second_wait_since_a_cut_counts_while_a_rate_is_held(wait: float | None) -> None:
    governor = govern()
    governor.admission._rate._known, governor.admission._rate._held_until = 50.0, 10.0
    for _ in range(50):
        governor.admission._rate._loss.record_start()
    governor.observe(started_at(0.0), Signal.THROTTLED, wait)
    governor.observe(started_at(0.0), Signal.THROTTLED, wait)
    assert not governor.admission.breaker.is_open
    here().now = 2.0
    governor.observe(started_at(1.5), Signal.THROTTLED, wait)
    assert governor.admission.breaker.is_open == (wait is not None)


async def test_campaign_that_fails_while_others_succeed_does_not_count() -> None:
    governor = govern()
    for _ in range(50):
        for subject, signal in (("campaign 1", Signal.OVERLOADED), ("campaign 2", Signal.FINE)):
            permit = governor.try_acquire(NEVER, subject=subject)
            assert permit is not None
            governor.release(permit, signal)
    assert (governor.admission.pace, governor.admission.concurrency) == (None, 16)


async def test_nothing_starts_without_waiting_when_others_wait() -> None:
    governor = govern(requests_per_second=10)
    await granted(governor)
    async with Queue(governor, 0):
        here().now = 60.0
        assert governor.try_acquire(NEVER) is None


@pytest.mark.parametrize("obstacle", ["closed", "deadline", "concurrency", "pause", "breaker", "rate"])
async def test_permit_at_once_only_if_no_rule_forbids_it(obstacle: str) -> None:
    governor = govern(max_concurrency=2, requests_per_second=10 if obstacle == "rate" else None)
    held = governor.try_acquire(NEVER)
    assert held is not None
    match obstacle:
        case "closed":
            governor.close()
        case "concurrency":
            governor.try_acquire(NEVER)
        case "pause":
            governor.release(held, Signal.THROTTLED, 7.0)
        case "breaker":
            for _ in range(CircuitBreaker.ROW):
                governor.observe(held, Signal.UNREACHABLE, None)
    in_flight = governor.admission.in_flight
    assert governor.try_acquire(here().now if obstacle == "deadline" else NEVER) is None
    assert governor.admission.in_flight == in_flight


async def test_starts_keep_to_the_hard_cap() -> None:
    governor = govern(requests_per_second=10)
    assert governor.admission.pace == 10
    async with Queue(governor, *[0] * 11) as waiters:
        await asyncio.wait(waiters.tasks)
        assert waiters.times == pytest.approx([0, *(place / 10 - 0.02 for place in range(1, 11))])


async def in_an_outage(signal: Signal = Signal.UNREACHABLE, **options: Any) -> Governor:
    """Return a governor whose breaker has just opened."""
    governor = govern(**options)
    for _ in range(CircuitBreaker.ROW):
        governor.release(await granted(governor), signal)
    return governor


@pytest.mark.parametrize("said", [*NO_CONTACT, None])
async def test_the_end_of_an_older_attempt_starts_no_second_probe(said: Signal | None) -> None:
    governor = govern()
    old = await granted(governor)
    for _ in range(CircuitBreaker.ROW):
        governor.release(await granted(governor), Signal.UNREACHABLE)
    await granted(governor)
    async with Queue(governor, 0) as waiters:
        governor.release(old, said)
        await asyncio.sleep(100)
        assert waiters.served == []


@pytest.mark.parametrize(
    ("said", "times"), [*((said, [0.1, 0.2]) for said in (*NO_CONTACT, None)), (Signal.FINE, [0.1, 0.1])]
)
async def test_probe_that_failed_is_followed_by_another(said: Signal | None, times: list[float]) -> None:
    governor = await in_an_outage()
    async with Queue(governor, 0, 0) as waiters:
        probe = await waiters.tasks[1]
        assert probe is not None
        governor.release(probe, said)
        await waiters.tasks[0]
        assert waiters.times == pytest.approx(times)


# why requests waited


@pytest.mark.parametrize("deadline", [5.0, NEVER])
async def test_waits_are_added_up_also_those_in_vain(deadline: float) -> None:
    async with busy(0, 0, deadline=deadline) as (governor, held, waiters):
        await asyncio.sleep(2)
        governor.release(held, Signal.FINE)
        await waiters.tasks[0]
        await asyncio.sleep(3)
        waiters.tasks[1].cancel()
        await turn()
        assert governor.waited == {"concurrency": 7.0}


# closing


async def test_who_waits_as_the_governor_is_closed_gets_no_permit() -> None:
    async with busy(0, 1) as (governor, held, waiters):
        governor.close()
        assert [await task for task in waiters.tasks] == [None, None]
        assert await governor.acquire(0, NEVER) is None
        assert here().now == 0
        governor.release(held, None)
        assert governor.admission.in_flight == 0


# alarms


class Alarms:
    """The alarms that a governor sets.

    Attributes:
        delays: for how long they were set.
    """

    def __init__(self) -> None:
        self.delays: list[float] = []
        self._set: list[asyncio.TimerHandle] = []

    def call_later(self, delay: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        self.delays.append(delay)
        self._set.append(here().call_later(delay, call))
        return self._set[-1]

    @property
    def pending(self) -> list[float]:
        """When those will go off that were neither taken back nor have gone off."""
        return [alarm.when() for alarm in self._set if not alarm.cancelled() and alarm.when() > here().now]


def alarmed(**options: Any) -> tuple[Governor, Alarms]:
    alarms = Alarms()
    return Governor(Settings(**options), Clock(monotonic=here().time, call_later=alarms.call_later)), alarms


async def test_who_waits_for_others_or_a_probe_sets_no_alarm() -> None:
    governor, alarms = alarmed(max_concurrency=1)
    held = await granted(governor)
    async with Queue(governor, 0, 0):
        governor.release(held, Signal.FINE)
    assert alarms.delays == []
    for _ in range(CircuitBreaker.ROW):
        governor.release(await granted(governor), Signal.UNREACHABLE)
    await granted(governor)
    alarms.delays.clear()
    async with Queue(governor, 0, 0):
        assert alarms.delays == []


@pytest.mark.parametrize("ending", ["served", "cancelled", "refused", "closed"])
async def test_who_waits_no_more_leaves_no_alarm(ending: str) -> None:
    governor, alarms = alarmed(max_concurrency=1)
    held = await granted(governor)
    async with Queue(governor, 0, deadline=60.0) as waiters:
        assert alarms.pending == [60.0]
        match ending:
            case "cancelled":
                waiters.tasks[0].cancel()
            case "closed":
                governor.release(held, Signal.THROTTLED, 7.0)
                assert alarms.pending == [60.0, 7.0]
                governor.close()
            case _:
                governor.release(held, Signal.FINE if ending == "served" else Signal.THROTTLED, 3600.0)
        await turn()
        assert alarms.pending == []


async def test_one_alarm_for_all_moves_with_what_is_waited_for() -> None:
    governor, alarms = alarmed()
    first, second = await granted(governor), await granted(governor)
    governor.release(first, Signal.THROTTLED, 7.0)
    async with Queue(governor, *[0] * 20):
        assert alarms.pending == [7.0]
        governor.release(second, Signal.THROTTLED, 9.0)
        assert alarms.pending == [9.0]


class AnyUse(RuleBasedStateMachine):
    """Any order of asking, waiting, cancelling, answers and time, against what must hold whatever happens."""

    CEILING = 3
    CAP = 20.0

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.governor = Governor(
            Settings(max_concurrency=self.CEILING, requests_per_second=self.CAP, retry_after_max=10),
            Clock(monotonic=self.loop.time, call_later=self.loop.call_later),
        )
        self.held: list[Permit] = []
        self.waiting: dict[tuple[int, int], asyncio.Task[None]] = {}
        self.arrivals = 0
        self.paused_until = 0.0
        self.starts: list[float] = []
        self.served: list[tuple[int, int]] = []

    def let_run(self, seconds: float = 0.0) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.loop.run_until_complete(turn())
        # nobody went before someone more urgent, but for probes
        assert self.served == sorted(self.served)
        assert not self.served or not self.waiting or self.served[-1] < min(self.waiting)
        self.served.clear()

    async def ask(self, key: tuple[int, int], deadline: float) -> None:
        came = self.loop.now
        try:
            permit = await self.governor.acquire(key[0], deadline)
        except RateLimitedError:
            assert self.paused_until > min(deadline, self.loop.now + 10)
            return
        finally:
            del self.waiting[key]
        if permit is None:
            assert self.loop.now >= deadline
            return
        if not permit.probe:
            self.served.append(key)
        self.held.append(permit)
        self.starts.append(permit.started)
        assert came <= permit.started < deadline
        assert permit.started >= self.paused_until
        assert self.governor.admission.in_flight <= self.CEILING

    @rule(priority=st.integers(-1, 2), patience=st.sampled_from([math.inf, 0.03, 1.0, 8.0]))
    def arrive(self, priority: int, patience: float) -> None:
        self.arrivals += 1
        key = (priority, self.arrivals)
        self.waiting[key] = self.loop.create_task(self.ask(key, self.loop.now + patience))
        self.let_run()

    def draw_held(self, data: st.DataObject) -> Permit:
        return self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))

    def release(self, permit: Permit, signal: Signal | None, retry_after: float | None) -> None:
        is_long_overload = signal is Signal.OVERLOADED and (retry_after or 0) > 10  # of one subject
        if retry_after is not None and signal in (Signal.THROTTLED, Signal.OVERLOADED) and not is_long_overload:
            self.paused_until = max(self.paused_until, self.loop.now + retry_after)
        self.governor.release(permit, signal, retry_after)

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        signal=st.sampled_from([None, *Signal, Signal.FINE, Signal.FINE]),
        retry_after=st.sampled_from([None, None, None, 0.0, 0.5, 5.0, 11.0]),
    )
    def answer(self, data: st.DataObject, signal: Signal | None, retry_after: float | None) -> None:
        self.release(self.draw_held(data), signal, retry_after)
        self.let_run()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), called_at_once=st.booleans(), signal=st.sampled_from([Signal.FINE, Signal.THROTTLED]))
    def cancel(self, data: st.DataObject, called_at_once: bool, signal: Signal) -> None:
        key = data.draw(st.sampled_from(sorted(self.waiting)))
        task = self.waiting[key]
        if called_at_once and self.held:
            self.release(self.draw_held(data), signal, None if signal is Signal.FINE else 11.0)
        task.cancel()
        self.let_run()
        assert task.cancelled()

    @rule(seconds=st.sampled_from([0.001, 0.04, 0.05, 0.3, 3.0]))
    def wait(self, seconds: float) -> None:
        self.let_run(seconds)

    @rule(seconds=st.sampled_from([0.01, 2.0]))
    def stall(self, seconds: float) -> None:
        self.loop.now += seconds
        self.let_run()

    @invariant()
    def permits_are_neither_lost_nor_invented(self) -> None:
        assert self.governor.admission.in_flight == len(self.held)

    @invariant()
    def limits_stay_between_their_bounds(self) -> None:
        assert 1 <= self.governor.admission.concurrency <= self.CEILING
        pace = self.governor.admission.pace
        assert pace is not None
        assert RateLimiter.SLOWEST <= pace <= self.CAP

    @invariant()
    def starts_keep_to_the_rate(self) -> None:
        recent = self.starts[-20:]
        for back, start in enumerate(reversed(recent), 1):
            assert back <= 1 + (recent[-1] - start + RateLimiter.CATCH_UP) * self.CAP + 1e-6

    def teardown(self) -> None:
        # nobody starves: with answers and time everyone gets a permit
        for _ in range(200):
            if not (self.waiting or self.held):
                break
            while self.held:
                self.release(self.held.pop(), Signal.FINE, None)
            self.let_run(1.0)
        assert not self.waiting
        assert self.governor.admission.in_flight == 0
        self.loop.close()


TestAnyUse = AnyUse.TestCase
TestAnyUse.settings = settings(max_examples=60, stateful_step_count=30)


async def test_withdrawn_group_waits_no_more() -> None:
    governor = govern(max_concurrency=1)
    await granted(governor)
    group = object()
    waits = [asyncio.ensure_future(governor.acquire(0, NEVER, one)) for one in (group, None)]
    await asyncio.sleep(0)
    governor.withdraw(group)
    await asyncio.sleep(0)
    assert [wait.done() for wait in waits] == [True, False]
    assert await waits[0] is None
    waits[1].cancel()


@pytest.mark.parametrize("waits_already", [True, False])
async def test_without_deadline_an_outage_is_waited_for_call_timeout(waits_already: bool) -> None:
    governor = await in_an_outage(call_timeout=5.0)
    probe = await granted(governor)
    wait = asyncio.ensure_future(governor.acquire(0, NEVER)) if waits_already else None
    await asyncio.sleep(6)
    came = here().now
    if waits_already:
        governor.release(probe, Signal.UNREACHABLE)
    assert await (wait or governor.acquire(0, NEVER)) is None
    assert here().now == came


async def test_late_call_in_an_outage_waits_for_its_deadline_only() -> None:
    governor = await in_an_outage(call_timeout=5.0)
    await granted(governor)  # the probe, which hangs
    await asyncio.sleep(6)
    came = here().now
    assert await governor.acquire(0, came + 3) is None
    assert here().now == came + 3


async def test_refusals_in_a_row_end_with_any_other_outcome() -> None:
    governor = govern()
    counts = []
    for signal in (Signal.THROTTLED, Signal.OVERLOADED, None, Signal.THROTTLED, Signal.UNREACHABLE, Signal.FINE):
        if signal is not None:
            governor.observe(started_at(-1.0), signal, None)
        counts.append(governor.admission.refused_in_a_row)
    assert counts == [1, 2, 2, 3, 0, 0]
