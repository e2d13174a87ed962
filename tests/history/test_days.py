"""Ranking days of pulls of any windows on any nights, against an oracle of dicts."""

import calendar
import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from seorep_async import ConfigurationError
from seorep_async.history import changes, open_history, report
from tests.history.made import Pull, Ranks, counted, day, days, expected_changes, made

MONTHS = [dt.date(2021 + number // 12, number % 12 + 1, 1) for number in range(24)]
NIGHTS = [dt.date(2026, 3, 3) + dt.timedelta(number) for number in range(30)]
RANKS: Ranks = {11: 7, 12: None, 21: 30}


def last_of_month(first: dt.date) -> dt.date:
    return first.replace(day=calendar.monthrange(first.year, first.month)[1])


def full_months(night: dt.date) -> tuple[dt.date, dt.date]:
    """Return the default window: the last three full months."""
    last = night.replace(day=1) - dt.timedelta(1)
    month = last.year * 12 + last.month - 3
    return dt.date(month // 12, month % 12 + 1, 1), last


SHAPES: dict[str, tuple[list[Pull], int]] = {
    "two years in months": (
        [Pull(dt.date(2026, 3, 3), one, last_of_month(one), RANKS) for one in MONTHS],
        24,
    ),
    "thirty nights of the last 30 days": (
        [Pull(one, one - dt.timedelta(30), one - dt.timedelta(1), RANKS) for one in NIGHTS],
        30,
    ),
    "the default window each night": ([Pull(one, *full_months(one), RANKS) for one in NIGHTS], 2),
    "month to date": (
        [Pull(one, one.replace(day=1), last_of_month(one), RANKS) for one in NIGHTS],
        30,
    ),
    "a window in the future": (
        [Pull(one, dt.date(2027, 1, 1), dt.date(2027, 1, 31), RANKS) for one in NIGHTS],
        1,
    ),
    # the account's clock is a day behind UTC, or a day ahead of it: its first two nights speak of the first
    "a day west of UTC": (
        [Pull(one, one - dt.timedelta(30), one - dt.timedelta(1), RANKS) for one in NIGHTS],
        30,
    ),
    "month to date, a day east of UTC": (
        [Pull(day(number - 1), day(0), day(number), RANKS) for number in range(7)],
        6,
    ),
    "a day east of UTC": (
        [Pull(one, one - dt.timedelta(30), one + dt.timedelta(1), RANKS) for one in NIGHTS],
        30,
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_of_nights_has_its_days(tmp_path: Path, shape: str) -> None:
    pulls, count = SHAPES[shape]
    with open_history(made(tmp_path / "a.duckdb", pulls)) as history:
        assert history.days("acme") == days(pulls)
        assert len(days(pulls)) == count
    page = report(tmp_path / "a.duckdb", out=tmp_path / "a.html").read_text(encoding="utf-8")
    assert f", {count} days</p>" in page or ("One day is shown" in page and count == 1)


def test_month_to_date_east_of_utc_has_a_day_less_than_nights(tmp_path: Path) -> None:
    pulls, _ = SHAPES["month to date, a day east of UTC"]
    with open_history(made(tmp_path / "a.duckdb", pulls)) as history:
        assert history.days("acme") == [dt.date(2026, 3, number) for number in (1, 2, 3, 4, 5, 6)]


def test_a_backfill_of_months_compares_the_last_two(tmp_path: Path) -> None:
    pulls = [
        Pull(dt.date(2026, 3, 3), first, last_of_month(first), {11: 30 - number})
        for number, first in enumerate(MONTHS)
    ]
    found = changes(made(tmp_path / "a.duckdb", pulls), moved=1)
    assert (found.before, found.after) == (dt.date(2022, 11, 30), dt.date(2022, 12, 31))
    assert [(one.kinds, one.before, one.after) for one in found] == [(("rose",), 8, 7)]


@pytest.mark.parametrize("count", [2, 20])
def test_nights_of_one_day_are_refused_in_a_sentence(tmp_path: Path, count: int) -> None:
    pulls = [Pull(one, *full_months(one), RANKS) for one in NIGHTS[:count]]
    said = f"no day before 2026-02-28 .*The last {count} nights have one ranking day, 2026-02-28.*--last 30d -o a.duckdb"
    with pytest.raises(ConfigurationError, match=said):
        changes(made(tmp_path / "a.duckdb", pulls))


def test_nights_that_repeat_a_day_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = made(tmp_path / "a.duckdb", SHAPES["the default window each night"][0])
    found = changes(database)
    assert (found.before, found.after) == (dt.date(2026, 2, 28), dt.date(2026, 3, 31))
    assert "one ranking day" not in caplog.text  # one night, 1 April, speaks of March
    made(database, [Pull(dt.date(2026, 4, 2), *full_months(dt.date(2026, 4, 2)), RANKS)])
    changes(database)
    said = "The last 2 nights have one ranking day, 2026-03-31. To have a day for each night, pull the last 30 days "
    said += "each night (seorep pull --last 30d -o a.duckdb)."
    assert said in caplog.text
    for end, told in ((None, True), ("2026-02-28", False)):
        assert (
            said
            in report(database, out=tmp_path / "a.html", end_date=end).read_text(encoding="utf-8")
        ) is told


@pytest.mark.parametrize(("campaign", "told"), [(1, False), (2, True), (None, True)])
def test_notes_speak_of_the_chosen_campaigns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, campaign: int | None, told: bool
) -> None:
    nightly = [Pull(one, one - dt.timedelta(30), one, {11: 7}) for one in (day(0), day(1))]
    others = [
        Pull(day(0), day(-1), day(0), {21: 3}),
        *(Pull(day(n), day(-80), day(1), {21: 3}) for n in (2, 3)),
    ]
    database = made(tmp_path / "a.duckdb", [*nightly, *others])
    changes(database, campaign=campaign)
    page = report(database, out=tmp_path / "a.html", campaign=campaign).read_text(encoding="utf-8")
    for said in ("nights have one ranking day", "windows of other lengths compare badly"):
        assert (said in caplog.text, said in page) == (told, told)


def test_both_days_that_a_page_compares_with_are_checked(tmp_path: Path) -> None:
    lengths = [30, 7, 30]
    pulls = [Pull(day(n), day(n - length), day(n), RANKS) for n, length in enumerate(lengths)]
    page = report(made(tmp_path / "a.duckdb", pulls), out=tmp_path / "a.html").read_text(
        encoding="utf-8"
    )
    assert page.count("compare badly") == 1
    assert f"The ranks of {day(1)} are of a window from {day(-6)}" in page


@pytest.mark.parametrize(("length", "told"), [(28, False), (31, False), (32, True), (90, True)])
def test_windows_of_other_lengths_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, length: int, told: bool
) -> None:
    windows = [(day(-27), day(0)), (day(31 - length), day(30))]
    pulls = [Pull(last, first, last, RANKS) for first, last in windows]
    database = made(tmp_path / "a.duckdb", pulls)
    changes(database)
    page = report(database, out=tmp_path / "a.html").read_text(encoding="utf-8")
    (first, last), (_, later_last) = windows
    words = f"of a window from {first} to {last}, those of {later_last} of one from"
    assert (words in caplog.text, words in page) == (told, told)


@pytest.mark.parametrize(
    "pulls",
    [
        [Pull(day(1), day(-9), day(0), {11: 15}), Pull(day(1), day(-29), day(0), {11: 2})],
        [Pull(day(1), day(-29), day(0), {11: 2}), Pull(day(1), day(-19), day(0), {11: 40})],
        [Pull(day(9), day(-40), day(0), {11: 2}), Pull(day(8), day(-60), day(0), {11: 8})],
    ],
)
def test_of_a_day_the_last_nights_longest_window_counts(tmp_path: Path, pulls: list[Pull]) -> None:
    database = made(tmp_path / "a.duckdb", [Pull(day(-1), day(-30), day(-1), {11: 50}), *pulls])
    assert [(one.before, one.after) for one in changes(database)] == [(50, 2)]


# --- Any nights, against dicts

windows = st.tuples(st.integers(-6, 4), st.integers(0, 6)).map(
    lambda one: (day(one[0]), day(one[0] + one[1]))
)
ranks: st.SearchStrategy[Ranks] = st.dictionaries(
    st.sampled_from([11, 12, 13, 21, 22, 31]), st.none() | st.integers(0, 120), max_size=5
)
pulls_of_any_nights = st.lists(
    st.builds(
        lambda night, window, ranks, failed, account: Pull(
            day(night),
            window[0],
            window[1],
            ranks,
            tuple({*failed} - {keyword // 10 for keyword in ranks}),
            account,
        ),
        st.integers(-3, 5),
        windows,
        ranks,
        st.lists(st.sampled_from([1, 2, 3]), max_size=2),
        st.sampled_from(["acme", "acme", "other"]),
    ),
    min_size=1,
    max_size=9,
)


def without_replaced(pulls: list[Pull]) -> list[Pull]:
    """Return pulls as a database has them: a later one of the same night and window replaces what it asked for."""
    left: list[Pull] = []
    for pull in pulls:
        place = (pull.account, pull.night, pull.first, pull.last)
        for index, one in enumerate(left):
            if (one.account, one.night, one.first, one.last) == place:
                kept = {
                    keyword: rank
                    for keyword, rank in one.ranks.items()
                    if keyword // 10 not in pull.reports
                }
                failed = tuple({*one.failed} - pull.reports - {*pull.failed})
                left[index] = Pull(one.night, one.first, one.last, kept, failed, one.account)
        left.append(pull)
    return left


@pytest.mark.heavy
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(asked=pulls_of_any_nights, moved=st.integers(1, 6), pick=st.randoms(use_true_random=False))
def test_any_nights_are_what_dicts_say(
    tmp_path: Path, asked: list[Pull], moved: int, pick: Any
) -> None:
    (file := tmp_path / "any.duckdb").unlink(missing_ok=True)
    database, pulls = made(file, asked), without_replaced(asked)
    counts = sorted(
        (account, as_of, keyword, rank, pull.night)
        for (account, campaign, as_of), pull in counted(pulls).items()
        for keyword, rank in pull.ranks.items()
        if keyword // 10 == campaign
    )
    last = {(one, keyword // 10): as_of for one, as_of, keyword, *_ in counts}
    with open_history(database) as history:
        query = "SELECT account, as_of, keyword_id, engine_a_ranking, snapshot_date FROM keyword_rankings_{} ORDER BY ALL"
        assert history.connection.execute(query.format("by_day")).fetchall() == counts
        latest = [row for row in counts if row[1] == last[row[0], row[2] // 10]]
        assert history.connection.execute(query.format("latest")).fetchall() == latest
        assert history.days("acme") == days(pulls)
    if len(known := days(pulls)) < 2:
        with pytest.raises(ConfigurationError):
            changes(database, account="acme")
        return
    before, after = sorted(pick.sample(known, 2))
    found = changes(database, account="acme", before=before, after=after, moved=moved)
    rows = [(one.campaign_id, one.keyword_id, one.kinds, one.before, one.after) for one in found]
    assert (rows, found.left_out) == expected_changes(pulls, before, after, moved)
