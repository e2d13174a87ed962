"""Ranking days of pulls of any windows on any nights, against an oracle of dicts.

`pytest -m slow tests/history/test_days.py` tries 500 examples of nights in place of 25.
"""

import datetime as dt
import operator
from pathlib import Path
from random import Random

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from seorep_async import ConfigurationError
from seorep_async.history import changes, open_history
from tests.history.databases import Pull, Ranks, counted, database_of, day, days, expected_changes
from tests.history.test_report import page_of

THE_NIGHT = dt.date(2026, 3, 3)
NIGHTS = [THE_NIGHT + dt.timedelta(number) for number in range(30)]
A_DAY = dt.timedelta(1)
RANKS: Ranks = {11: 7, 12: None, 21: 30}


def full_months(night: dt.date) -> tuple[dt.date, dt.date]:
    """Return the default window: the last three full months."""
    last = night.replace(day=1) - A_DAY
    month = last.year * 12 + last.month - 3
    return dt.date(month // 12, month % 12 + 1, 1), last


@pytest.mark.parametrize("count", [2, 20])
def test_nights_of_one_day_are_refused_in_a_sentence(tmp_path: Path, count: int) -> None:
    pulls = [Pull(night, *full_months(night), RANKS) for night in NIGHTS[:count]]
    words = (
        f"no day before 2026-02-28 .*The last {count} nights have the same ranking day, 2026-02-28"
        ".*--last 30d -o .*a.duckdb"
    )
    with pytest.raises(ConfigurationError, match=words):
        changes(database_of(tmp_path, pulls))


def test_nights_that_repeat_a_day_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pulls = [Pull(night, *full_months(night), RANKS) for night in NIGHTS]
    database = database_of(tmp_path, pulls)
    night = dt.date(2026, 4, 2)
    database_of(database, [Pull(night, *full_months(night), RANKS)])
    changes(database)
    advice = (
        "The last 2 nights have the same ranking day, 2026-03-31. To have a day for each night, "
        f"pull the last 30 days each night (seorep pull --last 30d -o {database})."
    )
    assert advice in caplog.text
    assert advice in page_of(database)


@pytest.mark.parametrize(("length", "is_told"), [(31, False), (32, True)])
def test_windows_of_other_lengths_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, length: int, is_told: bool
) -> None:
    pulls = [
        Pull(day(0), day(-27), day(0), RANKS),
        Pull(day(30), day(31 - length), day(30), RANKS),
    ]
    database = database_of(tmp_path, pulls)
    changes(database)
    words = f"cover {day(-27)} to {day(0)}, and those of {day(30)} cover"
    assert (words in caplog.text) is is_told


# --- Any nights, against dicts


@st.composite
def any_pulls(draw: st.DrawFn) -> Pull:
    first = draw(st.integers(-6, 4))
    last = first + draw(st.integers(0, 6))
    keywords = st.sampled_from([11, 12, 13, 21, 22, 31])
    any_rank = st.none() | st.integers(0, 120)
    ranks = draw(st.dictionaries(keywords, any_rank, max_size=5))
    # The report of a campaign either came or failed.
    campaign_ids = {keyword // 10 for keyword in ranks}
    may_fail = st.sampled_from([1, 2, 3])
    failed = draw(st.sets(may_fail, max_size=2)) - campaign_ids
    account = draw(st.sampled_from(["acme", "acme", "other"]))
    night = day(draw(st.integers(-3, 5)))
    return Pull(night, day(first), day(last), ranks, tuple(failed), account)


def without_replaced(pulls: list[Pull]) -> list[Pull]:
    """Return pulls as a database has them.

    A later pull of the same night and window replaces the reports that it asked for.
    """
    remaining: list[Pull] = []
    for pull in pulls:
        for index, earlier in enumerate(remaining):
            if earlier.place == pull.place:
                remaining[index] = without_reports_of(pull, earlier)
        remaining.append(pull)
    return remaining


def without_reports_of(pull: Pull, earlier: Pull) -> Pull:
    ranks = {}
    for keyword, rank in earlier.ranks.items():
        if keyword // 10 not in pull.reports:
            ranks[keyword] = rank
    failed = {*earlier.failed} - pull.reports - {*pull.failed}
    return attrs.evolve(earlier, ranks=ranks, failed=tuple(failed))


@pytest.mark.parametrize(
    "examples",
    [pytest.param(25, marks=pytest.mark.heavy), pytest.param(500, marks=pytest.mark.slow)],
)
def test_any_nights_agree_with_the_oracle(tmp_path: Path, examples: int) -> None:
    file = tmp_path / "any.duckdb"

    @settings(max_examples=examples, deadline=None)
    @given(
        all_pulls=st.lists(any_pulls(), min_size=1, max_size=9),
        moved=st.integers(1, 6),
        dice=st.randoms(use_true_random=False),
    )
    def agree(all_pulls: list[Pull], moved: int, dice: Random) -> None:
        file.unlink(missing_ok=True)
        database = database_of(file, all_pulls)
        pulls = without_replaced(all_pulls)
        check_views(database, pulls)
        ranking_days = days(pulls)
        if len(ranking_days) < 2:
            with pytest.raises(ConfigurationError):
                changes(database, account="acme")
            return
        before, after = sorted(dice.sample(ranking_days, 2))
        compared = changes(database, account="acme", before=before, after=after, moved=moved)
        row_of = operator.attrgetter("campaign_id", "keyword_id", "kinds", "before", "after")
        rows = [row_of(change) for change in compared]
        assert (rows, compared.left_out) == expected_changes(pulls, before, after, moved)

    agree()


def check_views(database: Path, pulls: list[Pull]) -> None:
    rows = []
    for (account, campaign_id, as_of), pull in counted(pulls).items():
        for keyword, rank in pull.ranks.items():
            if keyword // 10 == campaign_id:
                rows.append((account, as_of, keyword, rank, pull.night))
    rows.sort()
    last_days = {(account, keyword // 10): as_of for account, as_of, keyword, _, _ in rows}
    latest = []
    for row in rows:
        account, as_of, keyword, _, _ = row
        if as_of == last_days[account, keyword // 10]:
            latest.append(row)
    query = (
        "SELECT account, as_of, keyword_id, engine_a_ranking, snapshot_date "
        "FROM keyword_rankings_{} ORDER BY ALL"
    )
    with open_history(database) as history:
        connection = history.connection
        assert connection.execute(query.format("by_day")).fetchall() == rows
        assert connection.execute(query.format("latest")).fetchall() == latest
        assert history.days("acme") == days(pulls)
