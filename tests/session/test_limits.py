"""The rules of the governor one by one, with the time as an argument."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from seorep_async.session.flow_control.circuit_breaker import CircuitBreaker, FailingSubjects
from seorep_async.session.flow_control.concurrency_limit import ConcurrencyLimit
from seorep_async.session.flow_control.random_loss import RandomLoss
from seorep_async.session.flow_control.rate_limiter import RateLimiter
from seorep_async.session.retry_policy import RetryQuota

CLOSE = 1e-6


# the rate: what happens to a limiter, at which times


def send(limiter: RateLimiter, begin: float, end: float) -> RateLimiter:
    """Start as many attempts as may start from one time to another, and have them accepted at once."""
    now = max(begin, limiter.next_start(begin))
    while now < end:
        limiter.start(now)
        limiter.record_success(0.0, now)
        now = max(now + 0.001, limiter.next_start(now))
    return limiter


def accept(limiter: RateLimiter, count: int, begin: float, end: float, started: float = 0.0) -> RateLimiter:
    """Have attempts accepted, evenly from one time to another, that started before."""
    for number in range(count):
        limiter.record_success(started, begin + (end - begin) * number / count)
    return limiter


def refuse(limiter: RateLimiter, now: float, started: float | None = None) -> bool:
    """Refuse an attempt about anything, and return whether that counts."""
    return limiter.record_refusal(now if started is None else started, now, is_doubtful=False, same_subject=False)


def cut(limiter: RateLimiter, opened: float, now: float | None = None, idle: float = 0.1) -> RateLimiter:
    """Decrease the rate for a refusal, after a probe that was accepted 0.1 s later, unless another time is given."""
    limiter.decrease(opened, opened + 0.1 if now is None else now, idle_time=idle)
    return limiter


def cut_and_wait(limiter: RateLimiter, now: float) -> RateLimiter:
    """Refuse an attempt with a Retry-After of 1 s, which is a decrease."""
    refuse(limiter, now)
    limiter.record_wait(now, now + 1)
    return cut(limiter, now, now + 1, idle=1.0)


def put(limiter: RateLimiter, **own: float) -> RateLimiter:
    """Put a limiter where only a long story would lead: the one place here that sets what is its own."""
    for name, value in own.items():
        setattr(limiter, f"_{name}", value)
    return limiter


def slowed_down(accepted: int = 100, wait: bool = False) -> RateLimiter:
    """Return a limiter that saw so many attempts accepted from 9 to 10, was refused, and could go on at 10.1 or 11."""
    limiter = RateLimiter(None)
    limiter.start(9.0)
    accept(limiter, accepted, 9.0, 10.0)
    if wait:
        limiter.record_wait(10.0, 11.0)
    return cut(limiter, 10.0, 11.0 if wait else 10.1, idle=1.0 if wait else 0.1)


def after_the_search() -> RateLimiter:
    """Return a limiter whose first search ended at 12.1."""
    return cut(send(slowed_down(), 10.1, 12.0), 12.0)


def after_a_wait(rate: float, held_until: float = 0.0) -> RateLimiter:
    """Return a limiter that waited from 12.5 to 13.5, and goes on at the rate that was refused."""
    return put(cut_and_wait(after_the_search(), 12.5), known=rate, refused_at=rate, held_until=held_until)


def after_a_search_and_a_wait(reached: float, wait: bool = True) -> RateLimiter:
    """Return a limiter that had 160/s accepted from 13.5 to 23.5, searched from 100/s on, and is refused at 23.5."""
    limiter = put(accept(after_a_wait(100.0), 1600, 13.5, 23.5), known=reached)
    if wait:
        return cut_and_wait(limiter, 23.5)
    refuse(limiter, 23.5)
    return cut(limiter, 23.5)


# the rate: what follows


def growth(limiter: RateLimiter, begin: float, seconds: float = 1.0) -> float:
    """Return by how much the rate grows in a second, or in more."""
    before = limiter.rate
    return send(limiter, begin, begin + seconds).rate - before


def first_step(limiter: RateLimiter, now: float) -> float:
    """Return by how much the rate grows with one attempt."""
    before = limiter.rate
    limiter.start(limiter.next_start(now))
    return limiter.rate - before


def second_cut(accepted: int, refused: int, opened: float, now: float, idle: float) -> float:
    """Return the rate after a second decrease, of 72 a second since 10.1."""
    limiter = slowed_down()
    limiter.reset_counts()
    accept(limiter, accepted, 10.3, 10.3 + accepted / 100)
    for _ in range(refused):
        refuse(limiter, 10.4)
    return cut(limiter, opened, now, idle).rate


def part_left_by_failed_probes() -> float:
    """Return the part of the rate that remains after a second search, if nothing was accepted for 10 s."""
    limiter = send(after_the_search(), 12.1, 26.1)
    highest = limiter.rate
    refuse(limiter, 26.1)
    return cut(limiter, 26.1, 36.1, idle=0.0).rate / highest


def rise_until(end: float, *refused: int) -> float:
    """Return how many times as high the rate is at a time, with refusals at some seconds before."""
    limiter = after_the_search()
    before = limiter.rate
    for second in refused:
        send(limiter, second - 0.9, float(second))
        refuse(limiter, float(second))
    return send(limiter, max(refused, default=12.1), end).rate / before


def quiet_after_a_wait(accepted: int, rate: float, refused_at: float = 100.0) -> float:
    """Return the step from a rate, after so many were accepted since a lower one was refused with a wait."""
    limiter = put(after_a_wait(refused_at), known=rate)
    return first_step(accept(limiter, accepted, 13.5, 13.5 + accepted / rate), 13.5)


def short_wait(seconds: float) -> RateLimiter:
    limiter = after_the_search()
    limiter.record_wait(12.5, 12.5 + seconds)
    return put(cut(limiter, 12.5, 13.5, idle=1.0), known=200.0, held_until=0.0)


def refused_after_waits(rate: float, since: float, *waits: tuple[float, float]) -> float:
    """Return the rate after a wait of 1 s at 20, if a limiter sent at a rate but in waits that made no decrease."""
    limiter = put(after_a_wait(rate, held_until=math.inf), since=since)
    limiter._accepted_at.clear()
    for number in range(round((20 - since) * rate)):
        moment = since + number / rate
        if not any(begin <= moment < end for begin, end in waits):
            limiter.record_success(0.0, moment)
    for wait in (*waits, (20.0, 21.0)):
        limiter.record_wait(*wait)
    return cut(limiter, 20.0, 21.0, idle=1.0).rate


def saved_up_in_a_wait() -> float:
    limiter = put(after_a_wait(50.0), since=14.2)
    limiter._accepted_at.clear()
    accept(limiter, 40, 15.3, 15.7)  # saved up in the wait from 14.2 to 15.2
    limiter.record_wait(14.2, 15.2)
    limiter.record_wait(15.8, 16.8)
    return cut(limiter, 15.8, 16.8, idle=1.0).rate


def always_at_a_second() -> RateLimiter:
    """Return a limiter with the slowest rate, held from 2 on."""
    limiter = RateLimiter(None)
    limiter.start(0.0)
    return cut(cut(limiter, 1.0, 1.0, idle=0.0), 2.0, 2.0, idle=0.0)


def long_closed(probe: bool | None) -> float:
    """Return the first rate if 100 a second were accepted, and then nothing for 2 s, or 9 without any wait."""
    limiter = RateLimiter(None)
    limiter.start(9.0)
    accept(limiter, 100, 9.0, 10.0)
    if probe is None:
        return cut(limiter, 10.0, 19.0, idle=0.0).rate
    limiter.start(12.0, probe=probe)
    return cut(limiter, 10.0, 12.0, idle=2.0).rate


def refused_again(limiter: RateLimiter) -> float:
    limiter.reset_counts()
    return cut(limiter, 25.0, 25.0, idle=0.0).rate


def by_chance() -> RateLimiter:
    limiter = after_a_wait(100.0)
    limiter._loss.share = 0.1
    return limiter


def after_a_rest(seconds: float) -> float:
    limiter = after_the_search()
    before = limiter.rate
    limiter.start(12.1 + seconds)
    return limiter.rate - before


def about(value: float, rel: float = 0.02) -> Any:
    return pytest.approx(value, rel=rel)


STEP = about(RateLimiter.STEP, 0.1)
RATES: dict[str, tuple[Callable[[], float], Any]] = {
    "first rate after too few were accepted": (lambda: slowed_down(5).rate, 5.0),
    "first rate is a little less than was accepted": (lambda: slowed_down(110).rate, about(80)),
    "first rate counts time in which nothing was accepted": (lambda: long_closed(None), about(0.8 * 10)),
    "first rate: a wait that was asked for is no rest": (lambda: long_closed(True), about(0.8 * 100 / 3)),
    "first rate: attempts before a rest show none": (lambda: long_closed(False), 5.0),
    "first rate is searched upwards at once": (lambda: send(slowed_down(), 10.1, 11.1).rate, about(190, 0.3)),
    "first search is as fast after a wait": (lambda: first_step(slowed_down(wait=True), 11.0), about(1)),
    "a rate is held after a decrease": (lambda: growth(after_the_search(), 12.1), 0),
    "a rate grows by the same step for all after its hold": (
        lambda: growth(send(after_the_search(), 12.1, 13.6), 13.6),
        STEP,
    ),
    "a slow rate is not held for long": (lambda: growth(always_at_a_second(), 2.0, 30.0) > 0, True),
    "an hour without requests does not raise a rate": (lambda: after_a_rest(3600.0), 0),
    "second decrease: soon after the first it leaves half": (lambda: second_cut(10, 0, 11.0, 11.0, 0.0), about(36)),
    "second decrease: after 1 s it leaves what was accepted": (
        lambda: second_cut(10, 0, 11.2, 11.2, 0.0),
        about(0.8 * 10),
    ),
    "second decrease: a wait tries nothing": (lambda: second_cut(10, 0, 10.4, 11.4, 1.0), about(36)),
    "second decrease: time that the breaker is open counts": (
        lambda: second_cut(10, 0, 10.4, 11.4, 0.0),
        about(0.8 * 10 / 1.3),
    ),
    "second decrease: few accepted ones count by their share": (
        lambda: second_cut(1, 9, 10.4, 11.4, 1.0),
        about(0.8 * 72 / 10),
    ),
    "a search whose probes failed leaves half": (lambda: part_left_by_failed_probes(), 0.5),
    "a limit that refuses nothing is searched again": (lambda: rise_until(25.7), about(3.0, 0.05)),
    "a rate refused now and then is not searched": (lambda: rise_until(40.0, *range(13, 41)), about(1.9, 0.3)),
    "after a wait 50/s grow by 10.8": (lambda: growth(after_a_wait(50), 13.5), about(10.8, 0.1)),
    "after a wait 200/s grow by half of the usual step": (lambda: growth(after_a_wait(200), 13.5), about(4, 0.1)),
    "after a wait a step is two fifths of the rate at most": (lambda: first_step(after_a_wait(20.0), 13.5), about(0.4)),
    "a decrease without a wait lets all grow alike again": (
        lambda: growth(put(cut(after_a_wait(200.0), 14.0), known=200.0, held_until=0.0), 14.1),
        STEP,
    ),
    "a wait under half a second changes no growth": (lambda: growth(short_wait(0.4), 13.5), STEP),
    "after a wait 690 accepted ones start no search": (lambda: quiet_after_a_wait(690, 150), about(0.4 / 15)),
    "after a wait 710 accepted ones start a search": (lambda: quiet_after_a_wait(710, 150), about(0.3)),
    "after a wait no search begins at 1.04 of the refused rate": (
        lambda: quiet_after_a_wait(710, 104),
        about(6 / 108.2),
    ),
    "after a wait a search begins at 1.06 of the refused rate": (lambda: quiet_after_a_wait(710, 106), about(0.212)),
    "after a wait a search has the usual steps far above": (lambda: quiet_after_a_wait(710, 600), about(1)),
    "after a wait a search has no smaller steps than without": (lambda: quiet_after_a_wait(710, 30, 20), about(0.4)),
    "after a wait a search goes on where no rate was refused": (lambda: quiet_after_a_wait(710, 30, 0), about(1)),
    "a search that costs a wait leaves no more if it went far": (
        lambda: after_a_search_and_a_wait(400).rate,
        about(0.8 * 160),
    ),
    "a search that costs no wait leaves 0.9": (
        lambda: after_a_search_and_a_wait(160, wait=False).rate,
        about(0.9 * 160),
    ),
    "a search that costs a wait is soon cut again": (lambda: refused_again(after_a_search_and_a_wait(400)), about(64)),
    "a rate grows fast where refusals are by chance": (lambda: first_step(by_chance(), 13.5), about(1)),
    "two waits are no time without room": (
        lambda: refused_after_waits(50, 13, (17.5, 18.55), (18.6, 19.6)),
        about(40, 0.05),
    ),
    "a wait at a high rate is no time without room": (
        lambda: refused_after_waits(1000, 13, (18.5, 19.5)),
        about(800, 0.05),
    ),
    "a wait spares no rate above what is counted": (lambda: refused_after_waits(3000, 13, (17.5, 18.5)) < 3000, True),
    "a wait before a rest is not spared": (lambda: refused_after_waits(2, 13.9, (11.9, 13.9)) <= 1.6, True),
    "a wait counts where it was most of the time": (lambda: saved_up_in_a_wait(), about(0.8 * 40)),
}


@pytest.mark.parametrize(("measure", "expected"), RATES.values(), ids=RATES)
def test_rate_follows_what_was_accepted(measure: Callable[[], float], expected: Any) -> None:
    assert measure() == expected


def test_cut_leaves_half_of_the_rate_at_least() -> None:
    limiter = after_the_search()
    for number in range(30):
        before = limiter.rate
        cut(limiter, 12.1 + 5 * number, 17.1 + 5 * number, idle=0.0)
        assert limiter.rate >= max(RateLimiter.SLOWEST, before / 2 - CLOSE)


@pytest.mark.parametrize(
    ("waits", "decreased", "later", "count"),
    [
        ([(1.0, 2.0), (1.5, 2.5), (2.4, 2.5)], None, [], 1),  # the same, asked for longer
        ([(1.0, 2.5)], None, [(2.5, 3.5)], 2),
        ([(1.0, 2.5), (2.5, 3.5)], 3.0, [], 0),
        ([(1.0, 3.0)], 2.0, [(2.5, 3.5)], 0),  # it lasts beyond the decrease
    ],
)
def test_waits_are_counted_since_the_last_decrease(
    waits: list[tuple[float, float]], decreased: float | None, later: list[tuple[float, float]], count: int
) -> None:
    limiter = RateLimiter(None)
    for wait in waits:
        limiter.record_wait(*wait)
    if decreased is not None:
        cut(limiter, decreased, decreased + 0.5, idle=0.5)
    for wait in later:
        limiter.record_wait(*wait)
    assert limiter.waits == count


# which refusals count


def test_first_refusal_in_a_long_time_does_not_count() -> None:
    limiter = RateLimiter(None)
    assert [refuse(accept(limiter, accepted, 1.0, 1.0), 1.0, 0.0) for accepted in (0, 40, 5)] == [False, False, True]


@pytest.mark.parametrize(("is_doubtful", "same_subject"), [(True, False), (False, True), (True, True)])
def test_refusals_of_one_object_do_not_count(is_doubtful: bool, same_subject: bool) -> None:
    limiter = RateLimiter(None)
    for _ in range(50):
        limiter.record_success(0.0, 1.0)
        assert not limiter.record_refusal(0.0, 1.0, is_doubtful=is_doubtful, same_subject=same_subject)


def test_refusals_of_nearly_all_count_in_any_case() -> None:
    limiter = slowed_down()
    limiter.reset_counts()
    counts = [limiter.record_refusal(0.0, 10.2, is_doubtful=True, same_subject=True) for _ in range(5)]
    assert counts == [False, False, False, True, True]


def test_rare_refusal_does_not_count_while_a_rate_is_held() -> None:
    limiter = send(after_the_search(), 12.1, 13.0)
    assert not refuse(limiter, 13.0, 0.0)
    assert refuse(send(limiter, 13.0, 15.0), 15.0, 0.0)


# starts


def test_starts_are_free_at_first() -> None:
    limiter = RateLimiter(None)
    limiter.start(5.0)
    assert (limiter.rate, limiter.next_start(5.0), limiter.is_known) == (math.inf, 5.0, False)


@pytest.mark.parametrize("cap", [0.05, 3.0, 100.0])
def test_hard_cap_holds_from_the_beginning(cap: float) -> None:
    assert RateLimiter(cap).rate == cap


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


def cut_in_vain(loss: RandomLoss, *refused: int, closed: bool = False) -> RandomLoss:
    """Have so many of 20 attempts refused after each of some decreases; the last one is still to be judged."""
    for number, count in enumerate(refused):
        if number:
            loss.end_round(was_closed=closed)
        for _ in range(20):
            loss.record_start()
        for _ in range(count):
            loss.record_refusal(0.0)
    return loss


def in_a_train(*refused: int, rate: float = 100.0, closed: bool = False) -> RandomLoss:
    """Return what a packet train is to decide, sent at 1 s if there is reason to."""
    loss = cut_in_vain(RandomLoss(), *refused, closed=closed)
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


def after_a_train(loss: RandomLoss, accepted: int = 6, refused: int = 0, earlier: int = 0) -> RandomLoss:
    """Have attempts of a train refused, or earlier ones end in between, until so many are accepted; not before."""
    for _ in range(earlier):
        loss.record_success(0.9)
        assert not loss.record_refusal(0.9)
    assert not any(loss.record_refusal(1.0) for _ in range(refused))
    for _ in range(accepted):
        assert loss.is_train_out
        assert not loss.share
        loss.record_success(1.0)
    assert not loss.is_train_out
    return loss


def measured_again(*refused: int) -> RandomLoss:
    """Return what tolerates a tenth, after decreases with so many refusals of 80 attempts each."""
    loss = after_a_train(in_a_train(2, 2))
    for count in refused:
        for _ in range(80):
            loss.record_start()
        for _ in range(count):
            loss.record_refusal(2.0)
        loss.end_round(was_closed=False)
    return loss


def never_counted() -> RandomLoss:
    loss = RandomLoss()
    for _ in range(2):
        loss.record_refusal(0.0)
        loss.end_round(was_closed=False)
    loss.record_refusal(0.0)
    assert loss.start_train(1.0, 100.0)
    return loss


SHARES: dict[str, tuple[Callable[[], RandomLoss], float]] = {
    "1 of 20 was refused": (lambda: after_a_train(in_a_train(1, 1)), 0.05),
    "5 of 20 were refused": (lambda: after_a_train(in_a_train(5, 5)), 0.25),
    "12 of 20 are tolerated to two fifths": (lambda: after_a_train(in_a_train(12, 12)), RandomLoss.MOST),
    "two of a train of 8 may be refused": (lambda: after_a_train(in_a_train(3, 3), 6, 2), 0.15),
    "two of a train of 6 may be refused": (lambda: after_a_train(in_a_train(3, 3, rate=18.0), 4, 2), 0.15),
    "two of a train of 4 may be refused": (lambda: after_a_train(in_a_train(3, 3, rate=5.0), 2, 2), 0.15),
    "earlier attempts tell nothing of a train": (lambda: after_a_train(in_a_train(1, 1), 6, 0, 9), 0.05),
    "the most is tolerated where none was counted": (lambda: after_a_train(never_counted()), RandomLoss.MOST),
    "half remains if none of 80 was refused since": (lambda: measured_again(0), 0.05),
    "it remains if as many were refused since": (lambda: measured_again(8), 0.1),
    "it rises if twice as many were refused since": (lambda: measured_again(16), 0.15),
    "nothing remains if none was refused for long": (lambda: measured_again(0, 0), 0),
}


@pytest.mark.parametrize(("loss", "share"), SHARES.values(), ids=SHARES)
def test_share_that_is_refused_by_chance_is_tolerated(loss: Callable[[], RandomLoss], share: float) -> None:
    assert loss().share == pytest.approx(share)


def test_train_that_is_refused_shows_that_the_rate_is_the_reason() -> None:
    loss = in_a_train(1, 1)
    assert [loss.record_refusal(1.0) for _ in range(3)] == [False, False, True]
    assert (loss.is_train_out, loss.train_left, loss.share) == (False, 0, 0)


def test_next_train_after_one_in_vain_takes_twice_the_reason() -> None:
    loss = RandomLoss()
    for refused in (1, 2):
        assert cut_in_vain(loss, refused, refused).start_train(1.0, 100.0)
        for _ in range(3):
            loss.record_refusal(1.0)
    assert not cut_in_vain(loss, 2, 2).start_train(1.0, 100.0)


def test_no_train_begins_while_another_is_out_or_was_accepted() -> None:
    assert not in_a_train(2, 2).start_train(1.0, 100.0)
    assert not after_a_train(in_a_train(2, 2)).start_train(2.0, 100.0)


@pytest.mark.parametrize(("share", "least", "most"), [(0.1, 1000, 1000), (0.5, 6, 25), (1.0, 6, 6)])
def test_more_refusals_than_by_chance_are_due_to_the_rate(share: float, least: int, most: int) -> None:
    loss, number = after_a_train(in_a_train(2, 2)), 1
    while number < 1000:
        if number * share // 1 == (number - 1) * share // 1:
            loss.record_success(2.0)
        elif loss.record_refusal(2.0):
            break
        number += 1
    assert least <= number <= most


def before_a_train(cap: float | None) -> RateLimiter:
    """Return a limiter whose packet train begins at 14."""
    limiter = RateLimiter(cap)
    limiter.start(9.0)
    cut(accept(limiter, 20, 9.0, 10.0), 10.0)
    for now in (10.2, 11.2):
        cut(limiter, now)
        for moment in range(5):
            limiter.start(now + 0.1 + moment / 10)
            limiter.record_success(now, now + 0.1 + moment / 10)
        refuse(limiter, now + 0.6, now)
    assert limiter.start_train(14.0)
    return limiter


def test_refusals_count_for_the_train_when_the_rate_is_not_held() -> None:
    limiter = before_a_train(None)  # held no more at 100
    assert [refuse(limiter, 100.0, 14.0) for _ in range(3)] == [False, False, True]


def test_share_of_slow_attempts_that_is_refused_is_measured() -> None:
    limiter = after_the_search()
    for begun in (20.0, 40.0):
        for number in range(10):  # far below the rate
            limiter.start(begun + number)
            limiter.record_success(begun, begun + number)
        refuse(limiter, begun + 10)
        cut(limiter, begun + 11)
    limiter.start(60.0)
    refuse(limiter, 60.0)
    assert limiter.start_train(60.0)
    accept(limiter, RandomLoss.LONGEST, 61.0, 61.0, started=61.0)
    assert limiter._loss.share == pytest.approx(3 / 21)


def test_attempts_at_a_rate_that_grows_are_not_counted() -> None:
    limiter = send(after_the_search(), 12.1, 13.65)
    held = limiter._loss._tried
    assert send(limiter, 13.65, 15.0)._loss._tried == held > 50


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


@pytest.mark.parametrize(
    ("timeouts", "limit"),
    [([(1.0, 2.0), (1.1, 2.0), (2.0, 2.0)], 11), ([(now, now + 0.5) for now in range(30)], 1)],
    ids=["of one burst", "again and again"],
)
def test_timeouts_cut_the_limit_once_a_round_and_leave_one(timeouts: list[tuple[float, float]], limit: int) -> None:
    concurrency = ConcurrencyLimit(16)
    for started, now in timeouts:
        concurrency.record_timeout(started, now)
    assert concurrency.limit == limit


# circuit breaker


def opened(at: float = 5.0) -> CircuitBreaker:
    breaker = CircuitBreaker()
    for _ in range(CircuitBreaker.ROW):
        breaker.record_failure(at)
    return breaker


@pytest.mark.parametrize(
    ("first", "accepted", "then", "is_open"),
    [
        *((0, None, 0, False), (9, None, 0, False), (10, None, 0, True), (9, None, 2, True)),
        # an attempt that started before the row makes up for one failure
        *((9, 0.5, 1, False), (9, 0.5, 2, True), (9, 1.0, 2, True), (9, 1.5, 9, False), (9, 1.5, 10, True)),
    ],
)
def test_row_of_failures_opens_the_breaker(first: int, accepted: float | None, then: int, is_open: bool) -> None:
    breaker = CircuitBreaker()
    for _ in range(first):
        breaker.record_failure(1.0)
    if accepted is not None:
        breaker.record_success(accepted)
    for _ in range(then):
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


@pytest.mark.parametrize("subject", ["campaign 1", None])
def test_success_clears_a_subject_and_none_is_no_subject(subject: str | None) -> None:
    failing = FailingSubjects()
    again = [failing.record_refusal(subject) for _ in range(5)]
    failing.record_success("campaign 2")
    assert (any(again), failing.has(subject)) == (subject is not None,) * 2
    failing.record_success(subject)
    assert not failing.has(subject)


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
