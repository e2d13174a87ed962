"""The governor's rules, each alone: times in, times out."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seorep_async.session.governor import Breaker, Concurrency, Pace, RetryQuota

CLOSE = 1e-9


# concurrency


def cut_down(ceiling: int, cuts: int) -> Concurrency:
    concurrency = Concurrency(ceiling)
    for cut in range(cuts):
        concurrency.cut(started=cut + 0.5, now=cut + 1)
    return concurrency


@pytest.mark.parametrize("ceiling", [1, 16, 1024])
def test_concurrency_begins_at_its_ceiling(ceiling: int) -> None:
    assert Concurrency(ceiling).limit == ceiling


@pytest.mark.parametrize(("cuts", "limit"), [(1, 11), (2, 7), (3, 5), (7, 1), (8, 1), (50, 1)])
def test_concurrency_falls_with_every_bout_of_overload_but_never_to_nothing(cuts: int, limit: int) -> None:
    assert cut_down(16, cuts).limit == limit


@pytest.mark.parametrize(
    ("started", "limit"), [(0.5, 11), (0.999, 11), (1.0, 11), (1.001, 7), (5.0, 7)], ids=lambda value: str(value)
)
def test_attempt_from_before_the_last_cut_does_not_cut_again(started: float, limit: int) -> None:
    concurrency = cut_down(16, 1)
    concurrency.cut(started=started, now=6.0)
    assert concurrency.limit == limit


def test_attempts_of_the_first_bout_cut_once() -> None:
    concurrency = Concurrency(100)
    for attempt in range(50):
        concurrency.cut(started=0.0, now=1 + attempt / 100)
    assert concurrency.limit == 70


def test_attempt_from_between_two_cuts_does_not_cut_again() -> None:
    concurrency = cut_down(100, 2)  # at 1 s and 2 s
    concurrency.cut(started=1.5, now=3.0)
    assert concurrency.limit == 49


@pytest.mark.parametrize(
    ("successes", "limit"), [(0, 5), (2, 5), (3, 6), (9, 6), (10, 7), (100, 15), (112, 15), (113, 16), (400, 16)]
)
def test_concurrency_grows_by_one_with_each_round_up_to_its_ceiling(successes: int, limit: int) -> None:
    concurrency = cut_down(16, 3)  # 5.488
    for _ in range(successes):
        concurrency.grow()
    assert concurrency.limit == limit


@pytest.mark.parametrize(("successes", "limit"), [(0, 1), (1, 2), (3, 2), (4, 3), (11, 4), (12, 5)])
def test_concurrency_grows_back_from_one(successes: int, limit: int) -> None:
    concurrency = cut_down(16, 50)
    for _ in range(successes):
        concurrency.grow()
    assert concurrency.limit == limit


# pace


def throttled(accepted: int, *, cap: float | None = None, resume: float = 10.0) -> Pace:
    """Return a pace that met its first 429 at 10 s, with some attempts accepted in the second before."""
    pace = Pace(cap)
    for attempt in range(accepted):
        pace.accept(9.1 + 0.8 * attempt / accepted)
    pace.slow_down(started=9.5, now=10.0, resume=resume)
    return pace


def keep_up(pace: Pace, begin: float, end: float, *, accepted: bool = False) -> None:
    """Start attempts whenever the pace lets them."""
    while (now := max(begin, pace.next_start(begin))) <= end:
        pace.start(now)
        begin = now
        if accepted:
            pace.accept(now)


def on_plateau(rate: float = 100) -> Pace:
    """Return a pace whose limit was found to be `rate` at 20 s."""
    pace = throttled(math.ceil(rate / Pace.AFTER_SEARCH))
    for attempt in range(math.ceil(rate / Pace.AFTER_SEARCH)):
        pace.accept(19.5 + attempt / 1000)
    pace.slow_down(started=19.0, now=20.0, resume=20.0)
    return pace


def test_nothing_paces_before_the_first_429() -> None:
    pace = Pace(None)
    for attempt in range(1000):
        pace.start(1 + attempt / 1e6)
    assert (pace.rate(1.0), pace.next_start(1.0)) == (math.inf, 1.0)


@pytest.mark.parametrize(("accepted", "rate"), [(0, 1), (1, 1), (2, 2), (40, 40), (9_999, 9_999), (11_000, 10_000)])
def test_first_429_sets_the_pace_to_what_was_accepted_in_the_second_before(accepted: int, rate: float) -> None:
    assert throttled(accepted).rate(10.0) == rate


@pytest.mark.parametrize(("age", "counted"), [(1.5, 0), (1.0, 0), (0.99, 1), (0.0, 1)])
def test_only_the_last_second_counts(age: float, counted: int) -> None:
    pace = Pace(None)
    for _ in range(7):
        pace.accept(10.0 - age)
    pace.slow_down(started=9.9, now=10.0, resume=10.0)
    assert pace.rate(10.0) == (7 if counted else 1)


@pytest.mark.parametrize(("seconds", "factor"), [(0, 1), (0.5, math.sqrt(2)), (1, 2), (2, 4), (10, 1024)])
@pytest.mark.parametrize("resume", [10.0, 13.0])
def test_pace_doubles_every_second_until_the_next_429(seconds: float, factor: float, resume: float) -> None:
    assert throttled(4, resume=resume).rate(resume + seconds) == pytest.approx(4 * factor)


@pytest.mark.parametrize("now", [10.0, 11.0, 13.0])
def test_pace_does_not_grow_in_a_wait_that_was_asked_for(now: float) -> None:
    assert throttled(4, resume=13.0).rate(now) == 4


def test_pace_is_finite_after_a_year_of_doubling() -> None:
    assert throttled(4).rate(10 + 3e7) < math.inf


@pytest.mark.parametrize(("started", "counts"), [(9.9, False), (10.0, False), (10.001, True)])
def test_attempt_from_before_the_last_429_tells_nothing(started: float, counts: bool) -> None:
    pace = throttled(40)
    pace.slow_down(started=started, now=10.5, resume=10.5)
    assert pace.rate(10.5) == pytest.approx(20 if counts else 40 * math.sqrt(2))


def test_each_429_that_counts_begins_a_bout_of_its_own() -> None:
    pace = throttled(40)
    pace.slow_down(started=10.1, now=11.0, resume=11.0)
    pace.slow_down(started=10.9, now=11.5, resume=11.5)
    assert pace.rate(11.0) == 20


@pytest.mark.parametrize("accepted", [0, 4])
def test_search_that_hears_of_few_goes_on_from_half(accepted: int) -> None:
    pace = throttled(40)
    for _ in range(accepted):
        pace.accept(11.9)
    pace.slow_down(started=11.5, now=12.0, resume=12.0)
    assert [pace.rate(12.0 + second) for second in range(3)] == [20, 40, 80]


@pytest.mark.parametrize(
    ("accepted", "after", "limit"),
    [
        (5, 1.5, 4.0),  # five in one second
        (100, 2.0, 80.0),
        (20, 0.5, 32.0),  # in half a second: 40 a second
        (1000, 2.0, 0.8 * 128),  # more than the pace allowed: 32 * 2 ** 2
    ],
)
def test_search_ends_a_little_below_what_was_accepted(accepted: int, after: float, limit: float) -> None:
    pace = throttled(32)
    now = 10 + after
    for _ in range(accepted):
        pace.accept(now - 0.1)
    pace.slow_down(started=10.2, now=now, resume=now)
    assert pace.rate(now + Pace.PLATEAU) == pytest.approx(limit)


@pytest.mark.parametrize(
    ("seconds", "factor"),
    [(-1, 0.88), (0, 0.88), (1.5, 0.985), (3, 1.0), (4.5, 1.015), (6, 1.12), (9, 1.96), (12, 4.24)],
)
def test_pace_dips_comes_back_stays_and_looks_for_more(seconds: float, factor: float) -> None:
    assert on_plateau(100).rate(20 + seconds) == pytest.approx(100 * factor)


def test_pace_never_falls_between_two_429s() -> None:
    pace = on_plateau(100)
    rates = [pace.rate(20 + step / 10) for step in range(300)]
    assert all(earlier <= later for earlier, later in pairwise(rates))


def test_pace_is_finite_after_a_year_on_the_plateau() -> None:
    assert on_plateau(100).rate(20 + 3e7) == pytest.approx(100 * (1 + 0.12e6), rel=1e-9)


@pytest.mark.parametrize(
    ("accepted", "limit"), [(0, 0.7 * 98.5), (4, 0.7 * 98.5), (5, 5), (60, 60), (98, 98), (1000, 98.5)]
)
def test_429_on_the_plateau_sets_the_limit_to_what_was_accepted_or_less(accepted: int, limit: float) -> None:
    pace = on_plateau(100)
    for _ in range(accepted):
        pace.accept(21.4)
    pace.slow_down(started=21.0, now=21.5, resume=21.5)  # where the pace is 98.5
    assert pace.rate(21.5 + Pace.PLATEAU) == pytest.approx(limit)


def test_pace_never_falls_below_its_slowest() -> None:
    pace = throttled(0)
    slow = []
    for bout in range(100):
        pace.slow_down(started=11 + bout, now=11.1 + bout, resume=11.1 + bout)
        slow.append(pace.rate(11.1 + bout))
    assert min(slow) == slow[-1] == 0.2


def test_pace_that_fell_to_its_slowest_comes_back() -> None:
    pace = throttled(0)
    for bout in range(100):
        pace.slow_down(started=11 + bout, now=11.1 + bout, resume=11.1 + bout)
    assert pace.rate(110.1 + 5) == pytest.approx(0.2 * 32)


def test_dip_does_not_go_below_the_slowest_pace() -> None:
    pace = on_plateau(100)
    slow = []
    for bout in range(50):
        pace.slow_down(started=21 + bout, now=21.1 + bout, resume=21.1 + bout)
        slow.append(pace.rate(21.1 + bout))
    assert min(slow) == slow[-1] == 0.2


@pytest.mark.parametrize("cap", [0.05, 3.0, 100.0])
def test_hard_cap_holds_from_the_beginning(cap: float) -> None:
    assert Pace(cap).rate(0.0) == cap


@pytest.mark.parametrize(("cap", "rate"), [(10.0, 10), (39.0, 39), (50.0, 40), (0.05, 0.05)])
def test_pace_never_passes_the_hard_cap(cap: float, rate: float) -> None:
    assert throttled(40, cap=cap).rate(10.0) == rate
    assert throttled(40, cap=cap).rate(100.0) == cap


@pytest.mark.parametrize("rate", [0.2, 10.0, 40.0])
def test_attempts_start_a_rates_distance_apart(rate: float) -> None:
    pace = Pace(rate)
    pace.start(5.0)
    second = pace.next_start(5.0)
    pace.start(second)
    assert [second, pace.next_start(second)] == pytest.approx([5 - 0.02 + 1 / rate, 5 - 0.02 + 2 / rate])


@pytest.mark.parametrize(("rate", "burst"), [(1, 1), (10, 1), (49, 1), (51, 2), (99, 2), (101, 3), (1001, 21)])
@pytest.mark.parametrize("stall", [0.03, 2.0, 3600.0])
def test_no_burst_follows_a_stall(rate: float, burst: int, stall: float) -> None:
    pace = Pace(rate)
    keep_up(pace, 0.0, 1.0)
    begun = 0
    now = pace.next_start(1.0) + stall
    while pace.next_start(now) <= now:
        pace.start(now)
        begun += 1
    assert begun == burst


@given(
    st.lists(st.sampled_from([0.0, 0.001, 0.004, 0.015, 0.05, 0.3, 2.0]), min_size=1, max_size=60),
    st.sampled_from([0.5, 10.0, 200.0]),
)
def test_starts_of_any_time_are_bounded_by_the_rate_however_late_the_loop_is(gaps: list[float], rate: float) -> None:
    pace = Pace(rate)
    now = 100.0
    starts: list[float] = []
    for gap in gaps:
        now += gap
        while pace.next_start(now) <= now:
            pace.start(now)
            starts.append(now)
    for i, first in enumerate(starts):
        for j, last in enumerate(starts[i:], 1):
            assert j <= 1 + (last - first + Pace.CATCH_UP) * rate + CLOSE


def test_timers_that_are_a_little_late_cost_no_rate() -> None:
    pace = Pace(50)
    now, starts = 100.0, 0
    while now < 110:
        pace.start(now)
        starts += 1
        now = pace.next_start(now) + 0.015
    assert starts == pytest.approx(500, abs=2)


@pytest.mark.parametrize("rest", [0.5, 60.0, 1e6])
@pytest.mark.parametrize("begin", [throttled, on_plateau])
def test_time_that_nobody_used_teaches_nothing(begin: Callable[[int], Pace], rest: float) -> None:
    pace = begin(8)
    keep_up(pace, 20.0, 21.0)
    before = pace.rate(pace.next_start(21.0))
    after = pace.next_start(21.0) + rest
    pace.start(after)
    assert pace.rate(after) == pytest.approx(before, rel=0.02)


def test_wait_that_was_asked_for_is_no_time_that_nobody_used() -> None:
    pace = throttled(8, resume=40.0)
    pace.start(40.0)
    assert pace.rate(41.0) == 16


# breaker


def opened(at: float = 5.0) -> Breaker:
    breaker = Breaker()
    for _ in range(Breaker.ROW):
        breaker.no_contact(at)
    return breaker


@pytest.mark.parametrize(("failures", "is_open"), [(0, False), (1, False), (9, False), (10, True), (11, True)])
def test_row_of_failures_opens_the_breaker(failures: int, is_open: bool) -> None:
    breaker = Breaker()
    for _ in range(failures):
        breaker.no_contact(1.0)
    assert breaker.is_open is is_open


def test_answer_in_between_begins_the_row_anew() -> None:
    breaker = Breaker()
    for _ in range(9):
        breaker.no_contact(1.0)
    breaker.contact(2.0)
    for _ in range(9):
        breaker.no_contact(3.0)
    assert not breaker.is_open


@pytest.mark.parametrize("started", [0.5, 1.0])
def test_answer_to_an_attempt_from_before_the_row_makes_up_for_one_failure(started: float) -> None:
    breaker = Breaker()
    for _ in range(9):
        breaker.no_contact(1.0)
    breaker.contact(started)
    seen = []
    for _ in range(2):
        breaker.no_contact(2.0)
        seen.append(breaker.is_open)
    assert seen == [False, True]


def test_answers_make_up_for_no_more_failures_than_there_were() -> None:
    breaker = Breaker()
    breaker.no_contact(1.0)
    for _ in range(5):
        breaker.contact(started=0.5)
    seen = []
    for _ in range(Breaker.ROW):
        breaker.no_contact(2.0)
        seen.append(breaker.is_open)
    assert seen == [False] * 9 + [True]


def test_row_begins_with_its_first_failure() -> None:
    breaker = Breaker()
    for moment in range(1, 10):
        breaker.no_contact(moment)
    breaker.contact(started=1.5)
    for _ in range(9):
        breaker.no_contact(10.0)
    assert not breaker.is_open


def test_every_row_begins_at_its_own_time() -> None:
    breaker = Breaker()
    breaker.no_contact(1.0)
    breaker.contact(started=1.5)
    for _ in range(9):
        breaker.no_contact(3.0)
    breaker.contact(started=2.0)
    for _ in range(2):
        breaker.no_contact(3.0)
    assert breaker.is_open


def test_answer_from_before_the_outage_does_not_close_the_breaker() -> None:
    breaker = opened(5.0)
    for _ in range(20):
        breaker.contact(started=4.0)
    assert breaker.is_open
    assert breaker.next_start(5.0) == 5.1


def test_closed_breaker_lets_everything_start() -> None:
    breaker = Breaker()
    assert [breaker.start(now) for now in (1.0, 1.0, 2.0)] == [False] * 3
    assert breaker.next_start(2.0) == 2.0


def test_first_probe_waits_for_the_first_pause() -> None:
    assert opened(5.0).next_start(5.0) == 5.1


def test_failures_of_what_was_in_flight_do_not_put_the_probe_off() -> None:
    breaker = opened(5.0)
    breaker.no_contact(6.0)
    assert breaker.next_start(6.0) == 5.1


def test_one_probe_is_out_at_a_time() -> None:
    breaker = opened()
    assert breaker.start(5.1)
    assert breaker.next_start(99.0) == math.inf


def test_pause_between_probes_doubles_to_its_longest() -> None:
    breaker = opened(5.0)
    starts = []
    for _ in range(5):
        now = breaker.next_start(0.0)
        starts.append(now)
        breaker.start(now)
        breaker.end_probe()
    assert [later - earlier for earlier, later in pairwise(starts)] == pytest.approx([0.1, 0.2, 0.4, 0.4])


def test_slow_probe_is_followed_at_once() -> None:
    breaker = opened(5.0)
    breaker.start(5.1)
    breaker.end_probe()
    assert breaker.next_start(9.0) <= 9.0


def test_answer_closes_the_breaker() -> None:
    breaker = opened()
    breaker.start(5.1)
    breaker.end_probe()
    breaker.contact(5.1)
    assert (breaker.is_open, breaker.next_start(5.2), breaker.start(5.2)) == (False, 5.2, False)


def test_next_outage_begins_with_the_shortest_pause() -> None:
    breaker = opened(5.0)
    for _ in range(5):
        breaker.start(breaker.next_start(0.0))
        breaker.end_probe()
    breaker.contact(40.0)
    for _ in range(Breaker.ROW):
        breaker.no_contact(50.0)
    assert breaker.next_start(50.0) == 50.1


# retry quota


def test_quota_is_full_at_first() -> None:
    assert RetryQuota().tokens == 500


@pytest.mark.parametrize(
    ("costs", "refunds", "tokens"),
    [
        ([14, 14, 5], [], 467),
        ([14, 14, 5], [33], 500),
        ([14, 14, 14], [14], 486),
        ([14], [14], 500),
        ([14, 14], [0], 486),
        ([14, 14], [0] * 2, 500),
        ([], [0, 0], 500),
        ([400, 200], [], -100),
    ],
)
def test_call_that_succeeds_gives_back_all_it_spent_and_the_price_of_a_retry(
    costs: list[int], refunds: list[int], tokens: int
) -> None:
    quota = RetryQuota()
    for cost in costs:
        quota.spend(cost)
    for spent in refunds:
        quota.succeed(spent)
    assert quota.tokens == tokens


@pytest.mark.parametrize(("cost", "given_back", "tokens"), [(28, 28, 500), (28, 14, 486), (0, 0, 500), (5, 14, 500)])
def test_cancelled_call_gives_back_what_it_spent(cost: int, given_back: int, tokens: int) -> None:
    quota = RetryQuota()
    quota.spend(cost)
    quota.give_back(given_back)
    assert quota.tokens == tokens
