"""Months and other periods: the days that they name, and the files that they name."""

import datetime as dt
from typing import Any

import click
import pytest

from seorep_async.cli.pull import PullArguments, last_days_of_months

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


@pytest.mark.parametrize("month", ["2026-3", "03/2026", "3.2026", "Mar 2026", "March 2026"])
def test_a_month_that_is_written_otherwise_is_suggested(month: str) -> None:
    with pytest.raises(click.UsageError, match=r"Did you mean 2026-03\?"):
        last_days_of_months(month, TODAY)


@pytest.mark.parametrize(
    ("first_day", "last_day", "feeds", "name"),
    [
        ("2023-03-01", "2023-03-31", ("campaign",), "rankings-campaign-2023-03.csv"),
        ("2024-02-01", "2024-02-29", ("campaign",), "rankings-campaign-2024-02.csv"),
        ("2024-02-01", "2024-02-28", ("campaign",), "rankings-campaign-2024-02-01_2024-02-28.csv"),
        ("2023-01-01", "2023-03-31", ("campaign",), "rankings-campaign-2023-01-01_2023-03-31.csv"),
        (
            "2023-03-01",
            "2023-03-31",
            ("campaign-by-date",),
            "rankings-campaign-by-date-2023-03.csv",
        ),
        (
            "2023-03-01",
            "2023-03-31",
            ("campaign", "keyword-by-date"),
            "rankings-2023-03.csv",
        ),
    ],
)
def test_a_default_file_names_feed_and_period(
    first_day: str, last_day: str, feeds: tuple[str, ...], name: str
) -> None:
    values: dict[str, Any] = dict.fromkeys(PullArguments.__dataclass_fields__)
    arguments = PullArguments(**{**values, "feeds": feeds})
    window = (dt.date.fromisoformat(first_day), dt.date.fromisoformat(last_day))
    assert arguments.target(window) == name
