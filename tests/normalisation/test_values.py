"""Single values: which are accepted, which are refused, and the messages."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from seorep_async.normalisation import values

NAN = float("nan")
INFINITY = float("inf")
LONG = "9" * 5000

JANUARY_31 = dt.date(2023, 1, 31)
ZERO_TIMES = ("0000-00-00 00:00:00", "0000-00-00 0:00:00")
MORE = {"value": 4, "previous": 5}


Read = Callable[[Any], Any]


def cases(read: Read, pairs: dict[Any, Any]) -> list[Any]:
    """Return a case for each value and the result of its reading."""
    return [pytest.param(read, value, result) for value, result in pairs.items()]


INTEGERS: dict[Any, Any] = {0: 0, -17: -17, 2**64: 2**64, "12": 12, "-12": -12, "0": 0, "007": 7}
INTEGERS["9" * 18] = 10**18 - 1
STRINGS: dict[Any, Any] = {text: text for text in ("", "null", " pâtes fraîches ", LONG)}
BOOLEANS: dict[Any, Any] = {True: True, False: False, "true": True, "TRUE": True}
BOOLEANS |= {"false": False, "False": False, "fAlSe": False}
NO_DATES = (None, "", "0000-00-00", *ZERO_TIMES)
MOMENTS: dict[Any, Any] = dict.fromkeys(NO_DATES)
MOMENTS["2023-01-31 09:32:19"] = dt.datetime(2023, 1, 31, 9, 32, 19)
MOMENTS["2015-03-31 9:32:19"] = dt.datetime(2015, 3, 31, 9, 32, 19)
MOMENTS["2015-03-31 0:00:00"] = dt.datetime(2015, 3, 31)
MOMENTS["2024-02-29 23:59:59"] = dt.datetime(2024, 2, 29, 23, 59, 59)
DAYS: dict[Any, Any] = dict.fromkeys(NO_DATES, (None, None))
DAYS["2024-02-29"] = (dt.date(2024, 2, 29), None)
DAYS["2023-01-31"] = (JANUARY_31, None)
DAYS["2023-01-31 00:00:00"] = (JANUARY_31, None)
DAYS["2023-01-31 0:00:00"] = (JANUARY_31, None)
# A time is kept beside its day.
DAYS["2023-01-31 00:00:01"] = (JANUARY_31, "2023-01-31 00:00:01")
DAYS["2023-01-31 9:32:19"] = (JANUARY_31, "2023-01-31 9:32:19")
PERIODS: dict[Any, Any] = {
    "2023-01": (dt.date(2023, 1, 1), "month"),
    "2023-12": (dt.date(2023, 12, 1), "month"),
    "2023-01-31": (JANUARY_31, "day"),
    "2023-01-01": (dt.date(2023, 1, 1), "day"),
}
TOTALS: list[Any] = []
for number in (7, 7.5, 0, 2.0, -0.25, None):
    TOTALS.append(pytest.param(values.total, {"value": number}, (number, None)))
TOTALS += [
    pytest.param(values.total, {"value": "7"}, (7, None)),
    pytest.param(values.total, None, (None, None)),
    # A total with more than its value is kept whole as well.
    pytest.param(values.total, MORE, (4, MORE)),
]


NO_INTEGERS: list[Any] = [None, True, False, 1.0, 1.9, NAN, [], {}]
NO_INTEGERS += ["", "n/a", "1.0", "1e3", "+1", "--1", "1_000", "0x1", "null"]
NO_INTEGERS += [" 12", "12\n", "١٢", "\uff11\uff12", "²"]
NO_INTEGERS += ["1" * 19, LONG, f"-{LONG}"]
NO_STRINGS: list[Any] = [None, True, 0, 1.5, [], {}]
NO_BOOLEANS: list[Any] = [None, 0, 1, 1.0, "", "0", "1", "yes", " true", "true\n"]
NO_BOOLEANS += ["\uff54\uff52\uff55\uff45", [], {}, LONG]
NO_MOMENTS: list[Any] = [True, 0, 20230131, 1.5, [], {}, "now", " ", "null", LONG]
NO_MOMENTS += ["2023-01-31", "2023-01-31 09:32", "2023-01-31 09:32:19Z"]
NO_MOMENTS += ["2023-01-31 09:32:19.5", "2023-01-31 09:32:19 ", "2023-01-31 9:2:19"]
NO_MOMENTS += ["2023-02-30 00:00:00", "2023-01-31 24:00:00"]
NO_MOMENTS += ["٢٠٢٣-01-31 09:32:19", "2023-01-31 ٩:32:19", "0000-01-01 00:00:00"]
NO_DAYS: list[Any] = [True, 0, 20230131, 1.5, [], {}, "today", " ", "null", LONG, "2023-01"]
NO_DAYS += ["2023-02-30", "2023-00-00", "2023-1-31", "31-01-2023", "20230131", "0000-01-01"]
NO_DAYS += [" 2023-01-31", "2023-01-31\n", "\uff12\uff10\uff12\uff13-01-31"]
NO_DAYS += ["2023-02-30 00:00:00", "2023-01-31 09:32", "2023-01-31T"]
NO_PERIODS: list[Any] = [None, True, 202301, 2023.01, [], {}, "", "2023", "January", LONG]
NO_PERIODS += ["2023-13", "0000-00", "0000-00-00", "2023-02-30", "2023-1"]
NO_PERIODS += ["2023-01-31 00:00:00", "2023-01\n", "\uff12\uff10\uff12\uff13-01", "2023-Q1"]
NO_TOTALS: list[Any] = [7, 7.5, "7", True, "", [], {}, [{"value": 7}], {"Value": 7}]

NO_NUMBERS: list[Any] = [True, NAN, INFINITY, "", "1.5", "nan", LONG, [], {"value": 7}]


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        *cases(values.integer, INTEGERS),
        *cases(values.string, STRINGS),
        *cases(values.boolean, BOOLEANS),
        *cases(values.date_time, MOMENTS),
        *cases(values.day, DAYS),
        *cases(values.period, PERIODS),
        *TOTALS,
    ],
)
def test_a_value_is_taken_as_this(read: Read, value: Any, expected: Any) -> None:
    # The repr tells 1 from True and 2 from 2.0.
    assert repr(read(value)) == repr(expected)


def refusal(read: Read, value: Any) -> str:
    with pytest.raises(ValueError, match=r"^expected ") as refused:
        read(value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("read", "expected", "wrong_values"),
    [
        (values.integer, "an integer", NO_INTEGERS),
        (values.string, "a string", NO_STRINGS),
        (values.boolean, "true or false", NO_BOOLEANS),
        (values.date_time, 'a date-time "YYYY-MM-DD HH:MM:SS"', NO_MOMENTS),
        (values.day, 'a date "YYYY-MM-DD"', NO_DAYS),
        (values.period, 'a period "YYYY-MM" or "YYYY-MM-DD"', NO_PERIODS),
        (values.total, 'an object with "value"', NO_TOTALS),
    ],
)
def test_a_value_is_refused_with_the_expected_kind(
    read: Read, expected: str, wrong_values: list[Any]
) -> None:
    for value in wrong_values:
        words = f"expected {expected}, got {values.describe(value)}"
        assert refusal(read, value) == words


def test_a_total_without_a_number_is_refused() -> None:
    for value in NO_NUMBERS:
        words = f'expected a number as "value", got {values.describe(value)}'
        assert refusal(values.total, {"value": value}) == words


HUGE = "an integer of more than 40 digits"


@pytest.mark.parametrize(
    ("value", "description"),
    [
        (None, "null"),
        (False, "false"),
        (1.0, "1.0"),
        (10**40 - 1, "9" * 40),
        (-(10**40), HUGE),
        (10**10_000, HUGE),
        ("", '""'),
        ("x" * 40, '"' + "x" * 40 + '"'),
        ("x" * 41, '"' + "x" * 40 + '…"'),
        ("größer", '"größer"'),
        ("\x1b[31mred", '"\\u001b[31mred"'),
        ("\u202egnp", '"\\u202egnp"'),
        ([1, 2], "an array"),
        ({"a": 1}, "an object"),
    ],
    ids=range(14),
)
def test_a_value_is_described_briefly_in_the_words_of_json(value: Any, description: str) -> None:
    assert values.describe(value) == description
