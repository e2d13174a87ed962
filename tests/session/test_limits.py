"""The rules of the governor one by one, with the time as an argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seorep_async.session.flow_control.circuit_breaker import CircuitBreaker, FailingSubjects
from seorep_async.session.flow_control.concurrency_limit import ConcurrencyLimit
from seorep_async.session.flow_control.random_loss import RandomLoss
from seorep_async.session.flow_control.rate_limiter import RateLimiter
from seorep_async.session.retry_policy import RetryQuota

CLOSE = 1e-6


# rate


def send(limiter: RateLimiter, begin: float, end: float, accept: bool = True) -> None:
    """Start as many attempts as may start from one time to another, and have them accepted at once."""
    now = max(begin, limiter.next_start(begin))
    while now < end:
        limiter.start(now)
        if accept:
            limiter.record_success(0.0, now)
        now = max(now + 0.001, limiter.next_start(now))


def refuse(limiter: RateLimiter, now: float, started: float | None = None) -> bool:
    """Refuse an attempt about anything, and return whether that is news."""
    return limiter.record_refusal(now if started is None else started, now, is_doubtful=False, same_subject=False)


def put(
    limiter: RateLimiter,
    rate: float | None = None,
    *,
    refused_at: float | None = None,
    held_until: float | None = None,
    since: float | None = None,
) -> None:
    """Put a limiter where only a long story would lead: the one place here that sets what is its own."""
    limiter._known = limiter._known if rate is None else rate
    limiter._refused_at = limiter._refused_at if refused_at is None else refused_at
    limiter._held_until = limiter._held_until if held_until is None else held_until
    if since is not None:
        limiter._since = since
        limiter._accepted_at.clear()


def accepted_after(limiter: RateLimiter, moment: float) -> int:
    return sum(accepted > moment for accepted in limiter._accepted_at)


def slowed_down(accepted: int = 100, wait: bool = False) -> RateLimiter:
    """Return a limiter that saw so many attempts accepted from 9 to 10, was refused, and could go on at 10.1 or 11."""
    limiter = RateLimiter(None)
    limiter.start(9.0)
    for number in range(accepted):
        limiter.record_success(0.0, 9 + number / accepted)
    if wait:
        limiter.record_wait(10.0, 11.0)
    limiter.decrease(10.0, 11.0 if wait else 10.1, idle_time=1.0 if wait else 0.1)
    return limiter


def test_rate_is_free_at_first() -> None:
    limiter = RateLimiter(None)
    limiter.start(5.0)
    assert (limiter.rate, limiter.next_start(5.0), limiter.is_known) == (math.inf, 5.0, False)


@pytest.mark.parametrize(("accepted", "rate"), [(0, 5.0), (5, 5.0), (110, 80.0), (1100, 800.0)])
def test_first_rate_is_a_little_less_than_was_accepted(accepted: int, rate: float) -> None:
    assert slowed_down(accepted).rate == pytest.approx(rate, rel=0.02)


def test_first_rate_is_searched_upwards_at_once() -> None:
    limiter = slowed_down()
    send(limiter, 10.1, 11.1)
    assert 130 < limiter.rate < 250


def after_the_search(until: float = 12.0) -> RateLimiter:
    limiter = slowed_down()
    send(limiter, 10.1, until)
    limiter.decrease(until, until + 0.1, idle_time=0.1)
    return limiter


def growth(limiter: RateLimiter, begin: float) -> float:
    """Return by how much the rate grows in a second."""
    before = limiter.rate
    send(limiter, begin, begin + 1)
    return limiter.rate - before


def test_rate_is_held_after_a_cut_and_then_grows() -> None:
    limiter = after_the_search()
    assert growth(limiter, 12.1) == 0
    send(limiter, 13.1, 13.5)
    assert growth(limiter, 13.6) == pytest.approx(RateLimiter.STEP, rel=0.1)


@pytest.mark.parametrize("cuts", [1, 3, 30])
def test_cut_leaves_half_of_the_rate_at_least(cuts: int) -> None:
    limiter, now = after_the_search(), 12.1
    for _ in range(cuts):
        before = limiter.rate
        limiter.decrease(now, now + 5, idle_time=0.0)
        now += 5
        assert limiter.rate >= max(RateLimiter.SLOWEST, before / 2 - CLOSE)
    assert limiter.rate >= RateLimiter.SLOWEST


@pytest.mark.parametrize(
    ("accepted", "refused", "opened", "now", "idle", "rate"),
    [
        (10, 0, 11.0, 11.0, 0.0, 36),  # soon after the first
        (10, 0, 11.2, 11.2, 0.0, 0.8 * 10),
        (10, 0, 10.4, 11.4, 1.0, 36),  # a wait that was asked for tries nothing
        (10, 0, 10.4, 11.4, 0.0, 0.8 * 10 / 1.3),
        (1, 9, 10.4, 11.4, 1.0, 0.8 * 72 / 10),
    ],
)
def test_second_cut_leaves_half_unless_the_first_rate_was_tried(
    accepted: int, refused: int, opened: float, now: float, idle: float, rate: float
) -> None:
    limiter = slowed_down()  # to 72 a second, at 10.1
    limiter.reset_counts()
    for number in range(accepted):
        limiter.record_success(0.0, 10.3 + number / 100)
    for _ in range(refused):
        refuse(limiter, 10.4)
    limiter.decrease(opened, now, idle)
    assert limiter.rate == pytest.approx(rate)


def after_a_second_search(until: float = 26.1) -> tuple[RateLimiter, int]:
    """Return a limiter that searched from 12.1 on and is refused, and how many were accepted in the last second."""
    limiter = after_the_search()
    send(limiter, 12.1, until)
    accepted = accepted_after(limiter, until - 1.0)
    refuse(limiter, until)
    return limiter, accepted


@pytest.mark.parametrize(("until", "times", "part"), [(25.7, 2.4, 0.9), (26.1, 3.6, 1.0)])
def test_cut_after_a_search_leaves_what_was_accepted_or_nearly(until: float, times: float, part: float) -> None:
    limiter, accepted = after_a_second_search(until)
    assert limiter.rate / limiter._refused_at == pytest.approx(times, abs=0.1)
    limiter.decrease(until, until + 0.1, idle_time=0.1)
    assert limiter.rate == pytest.approx(part * accepted, rel=0.01)


def test_cut_after_a_search_leaves_half_if_probes_failed() -> None:
    limiter, _ = after_a_second_search()
    highest = limiter.rate
    limiter.decrease(26.1, 36.1, idle_time=0.0)
    assert limiter.rate == highest / 2


def test_search_that_costs_the_first_wait_leaves_less() -> None:
    limiter, accepted = after_a_second_search()  # to more than 3 times the rate that was refused
    refuse_and_ask_to_wait(limiter, 26.1)
    assert limiter.rate == pytest.approx(0.8 * accepted, rel=0.01)


@pytest.mark.parametrize(("later", "part"), [(0.4, 0.9), (2.9, 0.9), (3.1, 0.5)])
def test_limit_that_rose_less_than_it_seemed_is_soon_corrected(later: float, part: float) -> None:
    limiter, _ = after_a_second_search()
    limiter.decrease(26.1, 26.2, idle_time=0.1)
    found = limiter.rate
    for _ in range(RateLimiter.FEW):
        limiter.record_success(26.2, 26.2 + later)
    limiter.decrease(26.2 + later, 26.2 + later, idle_time=0.0)
    assert limiter.rate == pytest.approx(part * found)


def test_cut_after_a_search_leaves_no_more_than_was_sent() -> None:
    limiter = after_the_search()
    put(limiter, 50.0, refused_at=50.0)
    for number in range(360, 600):
        send(limiter, number / 20, number / 20 + 0.012)  # the loop is late 20 times a second
    accepted = accepted_after(limiter, 29.0)
    assert limiter.rate > 2.5 * accepted
    refuse(limiter, 30.0)
    limiter.decrease(30.0, 30.1, idle_time=0.1)
    assert limiter.rate == pytest.approx(accepted, rel=0.01)


def test_limit_that_refuses_nothing_for_long_is_searched_again() -> None:
    limiter = after_the_search()
    refuse(limiter, 12.1)
    send(limiter, 12.1, 40.0)
    assert limiter.rate > 4 * limiter._refused_at


def test_rate_that_is_refused_now_and_then_is_not_searched() -> None:
    limiter = after_the_search()
    refused_at = limiter._refused_at
    for second in range(13, 41):
        send(limiter, second - 0.9, float(second))
        refuse(limiter, float(second))
    assert 1.1 * refused_at < limiter.rate < 2 * refused_at


def refuse_and_ask_to_wait(limiter: RateLimiter, now: float) -> None:
    """Refuse an attempt with a Retry-After of 1 s, which is a cut."""
    refuse(limiter, now)
    limiter.record_wait(now, now + 1)
    limiter.decrease(now, now + 1, idle_time=1.0)


def after_a_wait(rate: float) -> RateLimiter:
    """Return a limiter that was asked to wait from 12.5 to 13.5, and goes on at the rate that was refused."""
    limiter = after_the_search()
    refuse_and_ask_to_wait(limiter, 12.5)
    put(limiter, rate, refused_at=rate)
    return limiter


@pytest.mark.parametrize(("rate", "step"), [(50, 10.8), (100, 5.8), (200, 4), (400, 4)])
def test_faster_one_grows_less_after_a_wait(rate: float, step: float) -> None:
    limiter = after_a_wait(rate)
    put(limiter, held_until=0.0)
    assert growth(limiter, 13.5) == pytest.approx(step, rel=0.1)


def test_slow_one_grows_by_two_fifths_after_a_wait() -> None:
    limiter = after_a_wait(20.0)
    put(limiter, held_until=0.0)
    limiter.start(limiter.next_start(13.5))
    assert limiter.rate == pytest.approx(20.4)


def test_next_cut_without_a_wait_lets_all_grow_alike_again() -> None:
    limiter = after_a_wait(200.0)
    limiter.decrease(14.0, 14.1, idle_time=0.1)
    put(limiter, 200.0, held_until=0.0)
    assert growth(limiter, 14.1) == pytest.approx(RateLimiter.STEP, rel=0.1)


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.4])
def test_shortest_waits_change_no_growth(seconds: float) -> None:
    limiter = after_the_search()
    limiter.record_wait(12.5, 12.5 + seconds)
    limiter.decrease(12.5, 13.5, idle_time=1.0)
    put(limiter, 200.0, held_until=0.0)
    assert growth(limiter, 13.5) == pytest.approx(RateLimiter.STEP, rel=0.1)


def quiet_after_a_wait(accepted: int, rate: float = 150.0, refused_at: float = 100.0) -> RateLimiter:
    """Return a limiter at a rate, after so many accepted from 13.5 on, since one was refused and it had to wait."""
    limiter = after_a_wait(refused_at)
    put(limiter, rate, held_until=0.0)
    for number in range(accepted):
        limiter.record_success(13.5, 13.5 + number / rate)
    return limiter


@pytest.mark.parametrize(
    ("accepted", "rate", "is_search"), [(690, 150, False), (710, 150, True), (710, 104, False), (710, 106, True)]
)
def test_limit_that_asked_to_wait_is_searched_later_and_higher(accepted: int, rate: float, is_search: bool) -> None:
    assert quiet_after_a_wait(accepted, rate)._is_search() is is_search


@pytest.mark.parametrize(
    ("refused_at", "rate", "step"), [(100, 110, 0.22), (100, 150, 0.3), (100, 600, 1), (20, 30, 0.4), (0, 30, 1)]
)
def test_limit_that_asked_to_wait_is_searched_slowly_at_first(refused_at: float, rate: float, step: float) -> None:
    limiter = quiet_after_a_wait(710, rate, refused_at)
    limiter.start(limiter.next_start(13.5))
    assert limiter.rate == pytest.approx(rate + step)


@pytest.mark.parametrize(("reached", "remaining"), [(160, 0.8 * 160), (400, 0.8 * 160)])
def test_cut_after_a_search_that_cost_a_wait_leaves_less(reached: float, remaining: float) -> None:
    limiter = quiet_after_a_wait(1600, rate=160.0)  # from 13.5 to 23.5
    put(limiter, reached)
    refuse_and_ask_to_wait(limiter, 23.5)
    assert limiter.rate == pytest.approx(remaining, rel=0.01)


def test_second_cut_soon_after_such_a_search_leaves_less_again() -> None:
    limiter = quiet_after_a_wait(1600, rate=160.0)
    put(limiter, 400.0)
    refuse_and_ask_to_wait(limiter, 23.5)
    limiter.reset_counts()
    limiter.decrease(25.0, 25.0, idle_time=0.0)
    assert limiter.rate == pytest.approx(0.8 * 160 / 2, rel=0.01)


def test_search_after_a_wait_that_costs_none_leaves_nearly_all() -> None:
    limiter = quiet_after_a_wait(1600, rate=160.0)  # from 13.5 to 23.5
    refuse(limiter, 23.5)
    limiter.decrease(23.5, 23.6, idle_time=0.1)
    assert limiter.rate == pytest.approx(0.9 * 160, rel=0.01)


def test_first_search_is_fast_after_a_wait_too() -> None:
    limiter = slowed_down(wait=True)
    first = limiter.rate
    limiter.start(limiter.next_start(11.0))
    assert limiter.rate == pytest.approx(first + 1)


def test_rate_grows_fast_where_refusals_are_by_chance() -> None:
    limiter = after_a_wait(100.0)
    limiter._loss.share = 0.1
    put(limiter, held_until=0.0)
    limiter.start(limiter.next_start(13.5))
    assert limiter.rate == pytest.approx(101)


def refused_after_waits(rate: float, since: float, *waits: tuple[float, float]) -> RateLimiter:
    """Return a limiter that sent at a rate but in these waits, which made no cut, and was refused at 20 for 1 s."""
    limiter = after_a_wait(rate)
    put(limiter, held_until=math.inf, since=since)
    for number in range(round((20 - since) * rate)):
        moment = since + number / rate
        if not any(begin <= moment < end for begin, end in waits):
            limiter.record_success(0.0, moment)
    for begin, end in (*waits, (20.0, 21.0)):
        limiter.record_wait(begin, end)
    limiter.decrease(20.0, 21.0, idle_time=1.0)
    return limiter


@pytest.mark.parametrize(
    ("rate", "waits"),
    [
        (50.0, ((16.0, 17.0),)),
        (50.0, ((18.5, 19.5),)),
        (50.0, ((18.9, 19.9),)),
        (50.0, ((17.5, 18.55), (18.6, 19.6))),
        (1000.0, ((18.5, 19.5),)),
    ],
)
def test_tolerated_wait_is_no_time_without_room(rate: float, waits: tuple[tuple[float, float], ...]) -> None:
    assert refused_after_waits(rate, 13.0, *waits).rate == pytest.approx(0.8 * rate, rel=0.05)


def test_wait_before_a_rest_is_no_tolerated_one() -> None:
    assert refused_after_waits(2.0, 13.9, (11.9, 13.9)).rate <= 0.8 * 2


def test_tolerated_wait_counts_where_it_was_most_of_the_time() -> None:
    limiter = after_a_wait(50.0)
    put(limiter, since=14.2)
    for number in range(40):  # saved up in the wait from 14.2 to 15.2, and accepted at once
        limiter.record_success(0.0, 15.3 + number / 100)
    limiter.record_wait(14.2, 15.2)
    limiter.record_wait(15.8, 16.8)
    limiter.decrease(15.8, 16.8, idle_time=1.0)
    assert limiter.rate == pytest.approx(0.8 * 40)


def test_tolerated_wait_spares_no_rate_above_what_is_counted() -> None:
    limiter = refused_after_waits(3000.0, 13.0, (17.5, 18.5))
    assert limiter.rate < 3000


@pytest.mark.parametrize(
    ("waits", "cut", "later", "count"),
    [
        ([(1.0, 2.0), (1.5, 2.5), (2.4, 2.5)], None, [], 1),  # the same, asked for longer
        ([(1.0, 2.5)], None, [(2.5, 3.5)], 2),
        ([(1.0, 2.5), (2.5, 3.5)], 3.0, [], 0),
        ([(1.0, 3.0)], 2.0, [(2.5, 3.5)], 0),  # it lasts beyond the cut
    ],
)
def test_waits_are_counted_since_the_last_cut(
    waits: list[tuple[float, float]], cut: float | None, later: list[tuple[float, float]], count: int
) -> None:
    limiter = RateLimiter(None)
    for begin, end in waits:
        limiter.record_wait(begin, end)
    if cut is not None:
        limiter.decrease(cut, cut + 0.5, idle_time=0.5)
    for begin, end in later:
        limiter.record_wait(begin, end)
    assert limiter.waits == count


def test_rate_is_not_held_for_long_however_slow_it_is() -> None:
    limiter = RateLimiter(None)
    limiter.start(0.0)
    for now in (1.0, 2.0):
        limiter.decrease(now, now, idle_time=0.0)
    assert limiter.rate < 1
    assert not limiter._is_held(12.1)


def test_time_in_which_nothing_was_accepted_counts() -> None:
    limiter = RateLimiter(None)
    limiter.start(0.0)
    for number in range(1, 101):
        limiter.record_success(0.0, number / 100)
    limiter.decrease(1.0, 10.0, idle_time=0.0)
    assert limiter.rate == pytest.approx(0.8 * 10)


@pytest.mark.parametrize("rest", [2.0, 3600.0])
def test_idle_time_does_not_raise_the_rate(rest: float) -> None:
    limiter = after_the_search()
    before = limiter.rate
    limiter.start(12.1 + rest)
    assert limiter.rate == before


@pytest.mark.parametrize(("probe", "rate"), [(True, 0.8 * 100 / 3), (False, 5.0)])
def test_wait_that_was_asked_for_is_no_rest(probe: bool, rate: float) -> None:
    limiter = RateLimiter(None)
    limiter.start(9.0)
    for number in range(100):
        limiter.record_success(9.0, 9 + number / 100)
    limiter.start(12.0, probe=probe)
    limiter.decrease(10.0, 12.0, idle_time=2.0)
    assert limiter.rate == pytest.approx(rate, rel=0.02)


def test_first_refusal_in_a_long_time_is_no_news() -> None:
    limiter = RateLimiter(None)
    news = []
    for accepted in (0, 40, 5):
        for _ in range(accepted):
            limiter.record_success(0.0, 1.0)
        news.append(refuse(limiter, 1.0, 0.0))
    assert news == [False, False, True]


@pytest.mark.parametrize(("suspect", "again"), [(True, False), (False, True), (True, True)])
def test_refusals_of_one_object_are_no_news(suspect: bool, again: bool) -> None:
    limiter = RateLimiter(None)
    for _ in range(50):
        limiter.record_success(0.0, 1.0)
        assert not limiter.record_refusal(0.0, 1.0, is_doubtful=suspect, same_subject=again)


def test_refusals_of_nearly_all_are_news_in_any_case() -> None:
    limiter = slowed_down()
    limiter.reset_counts()
    assert [limiter.record_refusal(0.0, 10.2, is_doubtful=True, same_subject=True) for _ in range(5)] == [False] * 3 + [
        True
    ] * 2


def test_rare_refusal_is_no_news_while_a_rate_is_held() -> None:
    limiter = after_the_search()
    send(limiter, 12.1, 13.0)
    held = refuse(limiter, 13.0, 0.0)
    send(limiter, 13.0, 15.0)
    assert (held, refuse(limiter, 15.0, 0.0)) == (False, True)


@pytest.mark.parametrize("cap", [0.05, 3.0, 100.0])
def test_hard_cap_holds_from_the_beginning(cap: float) -> None:
    assert RateLimiter(cap).rate == cap


@pytest.mark.parametrize(("rate", "burst"), [(1, 1), (49, 1), (51, 2), (99, 2), (101, 3), (1001, 21)])
@pytest.mark.parametrize("stall", [0.03, 3600.0])
def test_no_burst_follows_a_stall(rate: float, burst: int, stall: float) -> None:
    limiter = RateLimiter(rate)
    send(limiter, 0.0, 1.0)
    begun = 0
    now = limiter.next_start(1.0) + stall
    while limiter.next_start(now) <= now:
        limiter.start(now)
        begun += 1
    assert begun == burst


@given(
    st.lists(st.sampled_from([0.0, 0.001, 0.004, 0.015, 0.05, 0.3, 2.0]), min_size=1, max_size=60),
    st.sampled_from([0.5, 10.0, 200.0]),
)
def test_starts_are_bounded_by_the_rate_however_late_the_loop_is(gaps: list[float], rate: float) -> None:
    limiter = RateLimiter(rate)
    now = 100.0
    starts: list[float] = []
    for gap in gaps:
        now += gap
        while limiter.next_start(now) <= now:
            limiter.start(now)
            starts.append(now)
    for i, first in enumerate(starts):
        for j, last in enumerate(starts[i:], 1):
            assert j <= 1 + (last - first + RateLimiter.CATCH_UP) * rate + CLOSE


def test_timers_that_are_a_little_late_cost_no_rate() -> None:
    limiter = RateLimiter(50)
    now, starts = 100.0, 0
    while now < 110:
        limiter.start(now)
        starts += 1
        now = limiter.next_start(now) + 0.015
    assert starts == pytest.approx(500, abs=2)


# refusals that have nothing to do with the rate


def cut_in_vain(loss: RandomLoss, *refused: int, closed: bool = False) -> None:
    """Have so many of 20 attempts refused after each of some cuts; the last one is still to be judged."""
    for number, count in enumerate(refused):
        if number:
            loss.end_round(was_closed=closed)
        for _ in range(20):
            loss.record_start()
        for _ in range(count):
            loss.record_refusal(0.0)


def in_a_train(*refused: int, rate: float = 100.0, closed: bool = False) -> RandomLoss:
    """Return what a packet train is to decide, sent at 1 s if there is reason to."""
    loss = RandomLoss()
    cut_in_vain(loss, *refused, closed=closed)
    loss.start_train(1.0, rate)
    return loss


@pytest.mark.parametrize(
    ("refused", "rate", "closed", "size"),
    [
        ((1, 1), 1000.0, False, 8),  # a third of a second of the rate
        ((1, 1), 24.0, False, 8),
        ((1, 1), 17.0, False, 5),
        ((1, 1), 0.5, False, 4),
        ((1, 1, 1), 100.0, False, 8),
        ((3,), 100.0, False, 0),
        ((2, 0), 100.0, False, 0),
        ((2, 0, 1), 100.0, False, 0),
        ((3, 3), 100.0, True, 0),  # nothing was accepted
    ],
)
def test_train_begins_if_each_of_two_cuts_did_not_help(
    refused: tuple[int, ...], rate: float, closed: bool, size: int
) -> None:
    loss = in_a_train(*refused, rate=rate, closed=closed)
    assert (loss.train_left, loss.is_train_out) == (size, size > 0)


def tolerant(*refused: int) -> RandomLoss:
    loss = in_a_train(*refused)
    for _ in range(6):
        assert not loss.share
        loss.record_success(1.0)
    assert loss.share
    return loss


@pytest.mark.parametrize(("refused", "tolerated"), [(1, 0.05), (2, 0.1), (5, 0.25), (12, 0.4)])
def test_refusals_are_tolerated_if_most_of_a_burst_is_accepted(refused: int, tolerated: float) -> None:
    loss = tolerant(refused, refused)
    assert loss.share == pytest.approx(tolerated)
    assert not loss.is_train_out


@pytest.mark.parametrize(("rate", "accepted"), [(100.0, 6), (18.0, 4), (5.0, 2)])
def test_two_of_a_train_may_be_refused_by_chance(rate: float, accepted: int) -> None:
    loss = in_a_train(3, 3, rate=rate)
    assert not any(loss.record_refusal(1.0) for _ in range(2))
    for _ in range(accepted):
        assert loss.is_train_out
        loss.record_success(1.0)
    assert loss.share == pytest.approx(0.15)


def test_train_that_is_refused_shows_that_the_rate_is_the_reason() -> None:
    loss = in_a_train(1, 1)
    assert [loss.record_refusal(1.0) for _ in range(3)] == [False, False, True]
    assert (loss.is_train_out, loss.train_left, loss.share) == (False, 0, 0)


def test_responses_to_earlier_attempts_tell_nothing_of_a_train() -> None:
    loss = in_a_train(1, 1)
    for _ in range(9):
        loss.record_success(0.9)
        assert not loss.record_refusal(0.9)
    assert loss.is_train_out


def test_next_burst_after_one_in_vain_takes_twice_the_reason() -> None:
    loss = RandomLoss()
    for refused in (1, 2):
        cut_in_vain(loss, refused, refused)
        assert loss.start_train(1.0, 100.0)
        for _ in range(3):
            loss.record_refusal(1.0)
    cut_in_vain(loss, 2, 2)
    assert not loss.start_train(1.0, 100.0)


def test_no_train_begins_while_another_is_out_or_was_accepted() -> None:
    assert not in_a_train(2, 2).start_train(1.0, 100.0)
    assert not tolerant(2, 2).start_train(2.0, 100.0)


def refusals_until_news(loss: RandomLoss, share: float) -> int:
    """Return after how many attempts a share that is refused evenly is due to the rate, at most 1000."""
    for number in range(1, 1000):
        if number * share // 1 == (number - 1) * share // 1:
            loss.record_success(2.0)
        elif loss.record_refusal(2.0):
            return number
    return 1000


@pytest.mark.parametrize(("share", "least", "most"), [(0.1, 1000, 1000), (0.5, 6, 25), (1.0, 6, 6)])
def test_more_refusals_than_by_chance_are_due_to_the_rate(share: float, least: int, most: int) -> None:
    assert least <= refusals_until_news(tolerant(2, 2), share) <= most


@pytest.mark.parametrize(("refused", "tolerated"), [((0,), 0.05), ((8,), 0.1), ((16,), 0.15), ((0, 0), 0)])
def test_tolerated_share_follows_what_is_refused_after_cuts(refused: tuple[int, ...], tolerated: float) -> None:
    loss = tolerant(2, 2)
    for count in refused:
        for _ in range(80):
            loss.record_start()
        for _ in range(count):
            loss.record_refusal(2.0)
        loss.end_round(was_closed=False)
    assert loss.share == pytest.approx(tolerated)


def before_a_train(cap: float | None) -> RateLimiter:
    """Return a limiter whose packet train begins at 14."""
    limiter = RateLimiter(cap)
    limiter.start(9.0)
    for number in range(20):
        limiter.record_success(9.0, 9 + number / 20)
    limiter.decrease(10.0, 10.1, idle_time=0.1)
    for now in (10.2, 11.2):
        limiter.decrease(now, now + 0.1, idle_time=0.1)
        for moment in range(5):
            limiter.start(now + 0.1 + moment / 10)
            limiter.record_success(now, now + 0.1 + moment / 10)
        refuse(limiter, now + 0.6, now)
    assert limiter.start_train(14.0)
    return limiter


def test_refusals_count_for_the_train_when_the_rate_is_not_held() -> None:
    limiter = before_a_train(None)
    assert not limiter._is_held(100.0)
    counts = [refuse(limiter, 100.0, 14.0) for _ in range(3)]
    assert counts == [False, False, True]


def test_share_of_slow_attempts_that_is_refused_is_measured() -> None:
    limiter = after_the_search()
    for cut in (20.0, 40.0):
        for number in range(10):  # far below the rate
            limiter.start(cut + number)
            limiter.record_success(cut, cut + number)
        refuse(limiter, cut + 10)
        limiter.decrease(cut + 11, cut + 11.1, idle_time=0.1)
    limiter.start(60.0)
    refuse(limiter, 60.0)
    assert limiter.start_train(60.0)
    for _ in range(RandomLoss.LONGEST):
        limiter.record_success(61.0, 61.0)
    assert limiter._loss.share == pytest.approx(3 / 21)


def test_attempts_at_a_rate_that_grows_are_not_counted() -> None:
    limiter = after_the_search()
    send(limiter, 12.1, 13.65)
    held = limiter._loss._tried
    send(limiter, 13.65, 15.0)
    assert held > 50
    assert limiter._loss._tried == held


def test_most_is_tolerated_where_no_attempt_was_counted() -> None:
    loss = RandomLoss()
    for _ in range(2):
        loss.record_refusal(0.0)
        loss.end_round(was_closed=False)
    loss.record_refusal(0.0)
    assert loss.start_train(1.0, 100.0)
    for _ in range(RandomLoss.LONGEST):
        loss.record_success(1.0)
    assert loss.share == RandomLoss.MOST


@pytest.mark.parametrize(("cap", "gap"), [(None, 0.0), (50, 0.02)])
def test_train_starts_at_the_cap_and_what_follows_at_the_rate(cap: float | None, gap: float) -> None:
    limiter, starts = before_a_train(cap), [14.0]
    for _ in range(RandomLoss.SHORTEST + 1):
        starts.append(limiter.next_start(starts[-1]))
        limiter.start(starts[-1])
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert gaps[:-1] == pytest.approx([gap] * RandomLoss.SHORTEST)
    assert gaps[-1] >= 1 / 20


# requests at once


def past_the_start() -> ConcurrencyLimit:
    concurrency = ConcurrencyLimit(16)
    for now in (-2.0, -1.0):
        concurrency.next_start(now)
    return concurrency


def found(accepted: int, together: int, concurrency: ConcurrencyLimit | None = None) -> ConcurrencyLimit:
    concurrency = concurrency or past_the_start()
    concurrency.start_sample(together)
    for _ in range(accepted):
        concurrency.count_in_sample()
    concurrency.end_sample()
    return concurrency


def test_refusals_at_the_start_leave_the_ceiling() -> None:
    concurrency = ConcurrencyLimit(16)
    concurrency.start_sample(8)
    assert concurrency.limit == 16


TOGETHER = [
    (past_the_start, 16, {0: 16, 2: 16, 3: 3, 8: 8, 11: 11, 12: 16, 15: 16}),
    (lambda: ConcurrencyLimit(16), 8, {0: 16, 2: 16, 3: 3, 6: 6, 7: 7, 8: 16}),  # any refusal of the first shows it
    (lambda: found(8, 16), 8, {3: 16, 5: 16, 6: 6, 7: 7, 8: 16}),  # it is corrected or given up
]


@pytest.mark.parametrize(("make", "together", "limits"), TOGETHER, ids=["past the start", "start", "a limit of 8"])
def test_attempts_accepted_together_are_the_limit(
    make: Callable[[], ConcurrencyLimit], together: int, limits: dict[int, int]
) -> None:
    assert {accepted: found(accepted, together, make()).limit for accepted in limits} == limits


@pytest.mark.parametrize(("accepted", "in_flight", "limit"), [(23, 16, 5), (24, 16, 16), (500, 15, 5)])
def test_ceiling_that_was_accepted_before_is_not_too_high(accepted: int, in_flight: int, limit: int) -> None:
    concurrency = ConcurrencyLimit(16)
    for _ in range(accepted):
        concurrency.record_success(in_flight)
    assert found(5, 16, concurrency).limit == limit


def test_attempts_accepted_at_a_lower_limit_prove_no_ceiling() -> None:
    concurrency = ConcurrencyLimit(16)
    concurrency.record_timeout(1.0, 2.0)
    for _ in range(100):
        concurrency.record_success(11)
    assert found(5, 16, concurrency).limit == 5


def proven() -> ConcurrencyLimit:
    """Return a limit of 8 of which one more was tried and refused."""
    concurrency = found(8, 16)
    for _ in range(16):
        concurrency.record_success(8)
    assert concurrency.step_back(1.0, 2.0, in_flight=9)
    return concurrency


def test_limit_that_is_a_guess_grows_fast() -> None:
    concurrency = found(3, 16)
    accepted = 0
    while concurrency.limit < 16:
        concurrency.record_success(concurrency.limit)
        accepted += 1
    assert accepted == sum(max(8, 2 * limit) for limit in range(3, 16))


def test_one_more_is_tried_and_taken_back_if_refused() -> None:
    concurrency = proven()
    limits = [concurrency.limit]
    for _ in range(ConcurrencyLimit.STEP):
        concurrency.record_success(8)
        limits.append(concurrency.limit)
    taken_back = [concurrency.step_back(5.0, 6.0, in_flight=9) for _ in range(3)]  # refusals of the same step
    assert (limits, taken_back, concurrency.limit) == ([8] * ConcurrencyLimit.STEP + [9], [True] * 3, 8)


@pytest.mark.parametrize(
    ("accepted", "in_flight"),
    [(0, 8), (ConcurrencyLimit.STEP - 1, 8), (ConcurrencyLimit.STEP + ConcurrencyLimit.SOON, 9), (128, 8)],
)
def test_refusal_that_no_step_explains_takes_none_back(accepted: int, in_flight: int) -> None:
    concurrency = proven()
    for _ in range(accepted):
        concurrency.record_success(8)
    assert not concurrency.step_back(5.0, 6.0, in_flight)


def test_timeouts_of_one_burst_cut_the_limit_once() -> None:
    concurrency = ConcurrencyLimit(16)
    for started in (1.0, 1.1, 2.0):
        concurrency.record_timeout(started, 2.0)
    assert concurrency.limit == 11


def test_timeouts_leave_one() -> None:
    concurrency = ConcurrencyLimit(16)
    for now in range(30):
        concurrency.record_timeout(now, now + 0.5)
    assert concurrency.limit == 1


# circuit breaker


def opened(at: float = 5.0) -> CircuitBreaker:
    breaker = CircuitBreaker()
    for _ in range(CircuitBreaker.ROW):
        breaker.record_failure(at)
    return breaker


@pytest.mark.parametrize(("failures", "is_open"), [(0, False), (9, False), (10, True), (11, True)])
def test_row_of_failures_opens_the_breaker(failures: int, is_open: bool) -> None:
    breaker = CircuitBreaker()
    for _ in range(failures):
        breaker.record_failure(1.0)
    assert breaker.is_open is is_open


@pytest.mark.parametrize(("started", "is_open"), [(0.5, True), (1.0, True), (1.5, False)])
def test_success_from_before_the_row_makes_up_for_one_failure(started: float, is_open: bool) -> None:
    breaker = CircuitBreaker()
    for _ in range(9):
        breaker.record_failure(1.0)
    breaker.record_success(started)
    for _ in range(2):
        breaker.record_failure(2.0)
    assert breaker.is_open is is_open


@pytest.mark.parametrize(("started", "closes"), [(4.9, False), (5.0, False), (5.1, True)])
def test_success_of_an_attempt_that_started_later_closes_it(started: float, closes: bool) -> None:
    breaker = opened(5.0)
    assert (bool(breaker.record_success(started)), breaker.is_open) == (closes, not closes)


def test_one_probe_is_out_at_a_time() -> None:
    breaker = opened()
    breaker.start_probe(5.1)
    assert breaker.next_start(99.0) == math.inf
    breaker.end_probe()
    assert breaker.next_start(5.1) == pytest.approx(5.2)


def test_gaps_between_probes_are_a_quarter_of_the_time_open() -> None:
    breaker = opened(5.0)
    starts = []
    for _ in range(30):
        starts.append(breaker.next_start(0.0))
        breaker.start_probe(starts[-1])
        breaker.end_probe()
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert gaps == pytest.approx([min(4.0, max(0.1, (start - 5) / 4)) for start in starts[:-1]])
    assert gaps[-1] == 4.0


# failing


@pytest.mark.parametrize(("refused", "others", "suspect"), [(2, 5, False), (3, 1, True), (3, 0, False), (9, 1, True)])
def test_subject_refused_while_others_are_not_is_suspect(refused: int, others: int, suspect: bool) -> None:
    failing = FailingSubjects()
    again = [failing.record_refusal("campaign 1") for _ in range(refused)]
    for _ in range(others):
        failing.record_success("campaign 2")
    assert again == [False] + [True] * (refused - 1)
    assert failing.has("campaign 1") is suspect
    assert not failing.has("campaign 2")


def test_success_clears_a_subject() -> None:
    failing = FailingSubjects()
    for _ in range(5):
        failing.record_refusal("campaign 1")
    failing.record_success("campaign 2")
    failing.record_success("campaign 1")
    assert not failing.has("campaign 1")


def test_request_without_subject_is_no_failing_one() -> None:
    failing = FailingSubjects()
    assert [failing.record_refusal(None) for _ in range(5)] == [False] * 5
    failing.record_success(None)
    assert not failing.has(None)


# retry quota


@pytest.mark.parametrize(
    ("costs", "succeeded", "cancelled", "tokens"),
    [
        ([], [], [], 500),
        ([14, 14, 5], [], [], 467),
        ([14, 14, 5], [33], [], 500),
        ([14, 14, 14], [14], [], 486),
        ([14], [14], [], 500),
        ([14, 14], [0], [], 486),
        ([14, 14], [0] * 2, [], 500),
        ([], [0, 0], [], 500),
        ([400, 200], [], [], -100),
        ([28], [], [28], 500),
        ([28], [], [14], 486),
        ([0], [], [0], 500),
        ([5], [], [14], 500),
    ],
)
def test_call_gives_back_what_it_spent_and_a_success_more(
    costs: list[int], succeeded: list[int], cancelled: list[int], tokens: int
) -> None:
    quota = RetryQuota()
    for cost in costs:
        quota.spend(cost)
    for spent in succeeded:
        quota.succeed(spent)
    for spent in cancelled:
        quota.give_back(spent)
    assert quota.tokens == tokens
