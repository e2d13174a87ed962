"""The dates that are asked for by default."""

from __future__ import annotations

import datetime as dt

import pytest

from seorep_async.cli.options import dates_to_pull


@pytest.mark.parametrize(
    ("first", "last", "today", "expected"),
    [
        (None, None, "2023-07-15", "2023-04-01 2023-06-30"),
        (None, None, "2023-07-01", "2023-04-01 2023-06-30"),
        (None, None, "2023-07-31", "2023-04-01 2023-06-30"),
        (None, None, "2023-01-31", "2022-10-01 2022-12-31"),
        (None, None, "2024-03-31", "2023-12-01 2024-02-29"),
        ("2022-05-06", None, "2023-07-15", "2022-05-06 2023-06-30"),
        (None, "2023-07-10", "2023-07-15", "2023-05-01 2023-07-10"),
        (None, "2023-02-28", "2023-07-15", "2022-12-01 2023-02-28"),
        (None, "0001-02-01", "2023-07-15", "0001-01-01 0001-02-01"),
        ("2023-07-01", "2023-07-02", "2023-07-15", "2023-07-01 2023-07-02"),
    ],
)
def test_a_missing_date_means_the_last_three_full_months(
    first: str | None, last: str | None, today: str, expected: str
) -> None:
    given = [text and dt.date.fromisoformat(text) for text in (first, last)]
    found = dates_to_pull(given[0] or None, given[1] or None, dt.date.fromisoformat(today))
    assert " ".join(map(str, found)) == expected
