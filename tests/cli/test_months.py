"""The days that `seorep changes --month` compares."""

import datetime as dt

import click
import pytest

from seorep_async.cli.pull import last_days_of_months

TODAY = dt.date(2023, 4, 2)


@pytest.mark.parametrize(
    ("month", "before", "after"),
    [
        ("2023-03", "2023-02-28", "2023-03-31"),
        ("2024-03", "2024-02-29", "2024-03-31"),
        ("2023-01", "2022-12-31", "2023-01-31"),
        ("last", "2023-02-28", "2023-03-31"),
    ],
)
def test_the_last_days_of_two_months_are_compared(month: str, before: str, after: str) -> None:
    assert [str(day) for day in last_days_of_months(month, TODAY)] == [before, after]


@pytest.mark.parametrize("month", ["2023-13", "0001-01", "9999-12", "this", "2023-01..2023-02"])
def test_other_words_are_no_month(month: str) -> None:
    with pytest.raises(click.UsageError, match="is not a month such as 2023-03, or last"):
        last_days_of_months(month, TODAY)
