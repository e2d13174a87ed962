"""Single values: which are accepted, which are refused, and the messages."""

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

import pytest

from seorep_async.normalisation import values

NAN = math.nan
LONG = "9" * 5000

JANUARY_31 = dt.date(2023, 1, 31)
NO_DATES = (None, "", "0000-00-00", "0000-00-00 00:00:00", "0000-00-00 0:00:00")
MORE = {"value": 4, "previous": 5}

Read = Callable[[Any], Any]


def cases(read: Read, pairs: dict[Any, Any]) -> list[Any]:
    """Return a case for each value and the result of its reading."""
    return [pytest.param(read, value, result) for value, result in pairs.items()]


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        *cases(values.integer, {number: number for number in (0, -17, 2**64)}),
        *cases(values.integer, {"12": 12, "-12": -12, "0": 0, "007": 7, "9" * 18: 10**18 - 1}),
        *cases(values.string, {text: text for text in ("", "null", " pâtes fraîches ", LONG)}),
        *cases(values.boolean, {True: True, "true": True, "TRUE": True}),
        *cases(values.boolean, {False: False, "false": False, "False": False, "fAlSe": False}),
        *cases(values.date_time, dict.fromkeys(NO_DATES)),
        *cases(
            values.date_time,
            {
                "2023-01-31 09:32:19": dt.datetime(2023, 1, 31, 9, 32, 19),
                "2015-03-31 9:32:19": dt.datetime(2015, 3, 31, 9, 32, 19),
                "2015-03-31 0:00:00": dt.datetime(2015, 3, 31),
                "2024-02-29 23:59:59": dt.datetime(2024, 2, 29, 23, 59, 59),
            },
        ),
        *cases(values.day, dict.fromkeys(NO_DATES, (None, None))),
        *cases(
            values.day,
            {
                "2024-02-29": (dt.date(2024, 2, 29), None),
                "2023-01-31": (JANUARY_31, None),
                "2023-01-31 00:00:00": (JANUARY_31, None),
                "2023-01-31 0:00:00": (JANUARY_31, None),
                # A time is kept beside its day.
                "2023-01-31 00:00:01": (JANUARY_31, "2023-01-31 00:00:01"),
                "2023-01-31 9:32:19": (JANUARY_31, "2023-01-31 9:32:19"),
            },
        ),
        *cases(
            values.period,
            {
                "2023-01": (dt.date(2023, 1, 1), "month"),
                "2023-12": (dt.date(2023, 12, 1), "month"),
                "2023-01-31": (JANUARY_31, "day"),
                "2023-01-01": (dt.date(2023, 1, 1), "day"),
            },
        ),
        *[
            pytest.param(values.total, {"value": number}, (number, None))
            for number in (7, 7.5, 0, 2.0, -0.25, None)
        ],
        pytest.param(values.total, {"value": "7"}, (7, None)),
        pytest.param(values.total, None, (None, None)),
        # A total with more than its value is kept whole as well.
        pytest.param(values.total, MORE, (4, MORE)),
    ],
)
def test_a_value_is_taken_as_this(read: Read, value: Any, expected: Any) -> None:
    # The repr tells 1 from True and 2 from 2.0.
    assert repr(read(value)) == repr(expected)


def refusal(read: Read, value: Any) -> str:
    with pytest.raises(ValueError, match=r"^expected ") as refused:
        read(value)
    return str(refused.value)


NUMBERS = [0, 1, 1.5, 20230131]
CONTAINERS: list[Any] = [[], {}]
WIDE_DIGITS = "\uff12\uff10\uff12\uff13-01"


@pytest.mark.parametrize(
    ("read", "expected", "wrong_values"),
    [
        (
            values.integer,
            "an integer",
            [
                None,
                True,
                False,
                1.0,
                1.9,
                NAN,
                *CONTAINERS,
                "",
                "n/a",
                "1.0",
                "1e3",
                "+1",
                "--1",
                "1_000",
                "0x1",
                "null",
                " 12",
                "12\n",
                "١٢",
                "\uff11\uff12",
                "²",
                "1" * 19,
                LONG,
                f"-{LONG}",
            ],
        ),
        (values.string, "a string", [None, True, *NUMBERS, *CONTAINERS]),
        (
            values.boolean,
            "true or false",
            [
                None,
                *NUMBERS,
                *CONTAINERS,
                "",
                "0",
                "1",
                "yes",
                " true",
                "true\n",
                LONG,
                "\uff54\uff52\uff55\uff45",
            ],
        ),
        (
            values.date_time,
            'a date-time "YYYY-MM-DD HH:MM:SS"',
            [
                True,
                *NUMBERS,
                *CONTAINERS,
                "now",
                " ",
                "null",
                LONG,
                "2023-01-31",
                "2023-01-31 09:32",
                "2023-01-31 09:32:19Z",
                "2023-01-31 09:32:19.5",
                "2023-01-31 09:32:19 ",
                "2023-01-31 9:2:19",
                "2023-02-30 00:00:00",
                "2023-01-31 24:00:00",
                "٢٠٢٣-01-31 09:32:19",
                "2023-01-31 ٩:32:19",
                "0000-01-01 00:00:00",
            ],
        ),
        (
            values.day,
            'a date "YYYY-MM-DD"',
            [
                True,
                *NUMBERS,
                *CONTAINERS,
                "today",
                " ",
                "null",
                LONG,
                "2023-01",
                "2023-02-30",
                "2023-00-00",
                "2023-1-31",
                "31-01-2023",
                "20230131",
                "0000-01-01",
                " 2023-01-31",
                "2023-01-31\n",
                f"{WIDE_DIGITS}-31",
                "2023-02-30 00:00:00",
                "2023-01-31 09:32",
                "2023-01-31T",
            ],
        ),
        (
            values.period,
            'a period "YYYY-MM" or "YYYY-MM-DD"',
            [
                None,
                True,
                *NUMBERS,
                *CONTAINERS,
                "",
                "2023",
                "January",
                LONG,
                "2023-13",
                "0000-00",
                "0000-00-00",
                "2023-02-30",
                "2023-1",
                "2023-01-31 00:00:00",
                "2023-01\n",
                WIDE_DIGITS,
                "2023-Q1",
            ],
        ),
        (
            values.total,
            'an object with "value"',
            [7, 7.5, "7", True, "", *CONTAINERS, [{"value": 7}], {"Value": 7}],
        ),
    ],
)
def test_a_value_is_refused_with_the_expected_kind(
    read: Read, expected: str, wrong_values: list[Any]
) -> None:
    for value in wrong_values:
        words = f"expected {expected}, got {values.describe(value)}"
        assert refusal(read, value) == words


@pytest.mark.parametrize(
    "value", [True, NAN, math.inf, "", "1.5", "nan", LONG, [], {"value": 7}], ids=range(9)
)
def test_a_total_without_a_number_is_refused(value: Any) -> None:
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
