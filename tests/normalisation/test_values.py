"""One value at a time: what is taken, what is refused, and in which words."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from seorep_async.normalisation import values

NAN = float("nan")
INFINITY = float("inf")
LONG = "9" * 5000

INTEGER = "an integer"
TEXT = "a string"
BOOLEAN = "true or false"
DATE_TIME = 'a date-time "YYYY-MM-DD HH:MM:SS"'
DATE = 'a date "YYYY-MM-DD"'
PERIOD = 'a period "YYYY-MM" or "YYYY-MM-DD"'
METRIC = 'an object with "value"'
JANUARY_31 = dt.date(2023, 1, 31)
ZERO_TIMES = ("0000-00-00 00:00:00", "0000-00-00 0:00:00")
MORE = [{"value": 4, "previous": 5}]


TAKEN: list[tuple[Callable[[Any], Any], list[tuple[Any, Any]]]] = [
    (
        values.integer,
        [(0, 0), (-17, -17), (2**64, 2**64), ("12", 12), ("-12", -12), ("0", 0), ("007", 7)],
    ),
    (values.integer, [("9" * 18, 10**18 - 1)]),
    (
        values.string,
        [("", ""), ("null", "null"), (" pâtes fraîches ", " pâtes fraîches "), (LONG, LONG)],
    ),
    (
        values.boolean,
        [(True, True), (False, False), ("true", True), ("false", False), ("TRUE", True)],
    ),
    (values.boolean, [("False", False), ("fAlSe", False)]),
    (values.date_time, [("2023-01-31 09:32:19", dt.datetime(2023, 1, 31, 9, 32, 19))]),
    (values.date_time, [("2015-03-31 9:32:19", dt.datetime(2015, 3, 31, 9, 32, 19))]),
    (values.date_time, [("2015-03-31 0:00:00", dt.datetime(2015, 3, 31))]),
    (
        values.date_time,
        [("2024-02-29 23:59:59", dt.datetime(2024, 2, 29, 23, 59, 59)), (None, None), ("", None)],
    ),
    (values.date_time, [(nothing, None) for nothing in ("0000-00-00", *ZERO_TIMES)]),
    (
        values.day,
        [("2024-02-29", (dt.date(2024, 2, 29), None)), ("2023-01-31 00:00:00", (JANUARY_31, None))],
    ),
    (values.day, [("2023-01-31", (JANUARY_31, None)), ("2023-01-31 0:00:00", (JANUARY_31, None))]),
    (
        values.day,
        [(text, (JANUARY_31, text)) for text in ("2023-01-31 00:00:01", "2023-01-31 9:32:19")],
    ),
    (values.day, [(nothing, (None, None)) for nothing in (None, "", "0000-00-00", *ZERO_TIMES)]),
    (
        values.period,
        [("2023-01", (dt.date(2023, 1, 1), "month")), ("2023-12", (dt.date(2023, 12, 1), "month"))],
    ),
    (
        values.period,
        [
            ("2023-01-31", (dt.date(2023, 1, 31), "day")),
            ("2023-01-01", (dt.date(2023, 1, 1), "day")),
        ],
    ),
    (
        values.total,
        [({"value": number}, (number, None)) for number in (7, 7.5, 0, 2.0, -0.25, None)],
    ),
    (
        values.total,
        [({"value": "7"}, (7, None)), (None, (None, None)), *((more, (4, more)) for more in MORE)],
    ),
]

REFUSED: list[tuple[Callable[[Any], Any], str, list[Any]]] = [
    (values.integer, INTEGER, [None, True, False, 1.0, 1.9, NAN, INFINITY, [], {}, [1]]),
    (
        values.integer,
        INTEGER,
        ["", " ", "n/a", "1.0", "1.", "1e3", "+1", "--1", "1_000", "1,000", "0x1", "null"],
    ),
    (
        values.integer,
        INTEGER,
        [" 12", "12 ", "12\n", "\t12", "١٢", "\uff11\uff12", "²", "1" * 19, LONG, f"-{LONG}"],
    ),
    (values.string, TEXT, [None, True, False, 0, 1, 1.5, NAN, [], {}, ["x"]]),
    (
        values.boolean,
        BOOLEAN,
        [None, 0, 1, 1.0, "", "0", "1", "yes", "no", "on", "t", "null", " true", "true\n"],
    ),
    (values.boolean, BOOLEAN, ["\uff54\uff52\uff55\uff45", [], {}, [True], LONG]),
    (
        values.date_time,
        DATE_TIME,
        [True, 0, 20230131, 1675157539, 1.5, NAN, [], {}, "now", " ", "null", LONG],
    ),
    (
        values.date_time,
        DATE_TIME,
        ["2023-01-31", "2023-01", "2023-01-31 09:32", "2023-01-31 09:32:19Z"],
    ),
    (
        values.date_time,
        DATE_TIME,
        ["2023-01-31 09:32:19+01:00", "2023-01-31 09:32:19.5", "2023-01-31 09:32:19 "],
    ),
    (values.date_time, DATE_TIME, ["2023-1-31 09:32:19", "2023-01-31 9:2:19", "23-01-31 09:32:19"]),
    (
        values.date_time,
        DATE_TIME,
        ["2023-02-30 00:00:00", "2023-13-01 00:00:00", "2023-00-10 00:00:00"],
    ),
    (
        values.date_time,
        DATE_TIME,
        ["2023-01-31 24:00:00", "2023-01-31 09:60:00", "2023-01-31 09:00:60"],
    ),
    (
        values.date_time,
        DATE_TIME,
        ["٢٠٢٣-01-31 09:32:19", "2023-01-31 ٩:32:19", "0000-01-01 00:00:00"],
    ),
    (
        values.day,
        DATE,
        [True, 0, 20230131, 1.5, NAN, [], {}, "today", " ", "null", LONG, "2023-01", "2023"],
    ),
    (
        values.day,
        DATE,
        [
            "2023-02-30",
            "2023-13-01",
            "2023-00-00",
            "2023-1-31",
            "31-01-2023",
            "2023/01/31",
            "20230131",
        ],
    ),
    (
        values.day,
        DATE,
        [
            "2023-01-31 ",
            " 2023-01-31",
            "2023-01-31\n",
            "\uff12\uff10\uff12\uff13-01-31",
            "0000-01-01",
        ],
    ),
    (values.day, DATE, ["-2023-01-31"]),
    (
        values.day,
        DATE,
        ["2023-02-30 00:00:00", "2023-01-31 25:00:00", "2023-01-31 09:32", "2023-01-31T"],
    ),
    (
        values.period,
        PERIOD,
        [None, True, 202301, 2023.01, NAN, [], {}, "", "2023", "January", LONG, "null"],
    ),
    (
        values.period,
        PERIOD,
        ["2023-13", "2023-00", "0000-00", "0000-00-00", "2023-02-30", "2023-1", "2023-01-1"],
    ),
    (
        values.period,
        PERIOD,
        ["2023-01-31 00:00:00", "2023-01\n", "\uff12\uff10\uff12\uff13-01", "2023-Q1"],
    ),
    (
        values.total,
        METRIC,
        [7, 7.5, "7", True, False, "", [], {}, [{"value": 7}], {"values": 7}, {"Value": 7}],
    ),
]

REFUSED_INSIDE_A_METRIC = [
    *(
        True,
        False,
        NAN,
        INFINITY,
        -INFINITY,
        "",
        "1.5",
        "n/a",
        "nan",
        "inf",
        "\uff11\uff12",
        LONG,
        [],
        {},
        {"value": 7},
    )
]


@pytest.mark.parametrize(("take", "pairs"), TAKEN)
def test_a_value_is_taken_as_this(take: Callable[[Any], Any], pairs: list[tuple[Any, Any]]) -> None:
    assert [repr(take(value)) for value, _ in pairs] == [repr(expected) for _, expected in pairs]


def refusal(take: Callable[[Any], Any], value: Any) -> str:
    with pytest.raises(ValueError, match=r"^expected ") as refused:
        take(value)
    return str(refused.value)


@pytest.mark.parametrize(("take", "expected", "refused"), REFUSED)
def test_a_value_is_refused_with_what_was_expected(
    take: Callable[[Any], Any], expected: str, refused: list[Any]
) -> None:
    refusals = [refusal(take, value) for value in refused]
    assert refusals == [f"expected {expected}, got {values.describe(value)}" for value in refused]


def test_a_total_that_holds_no_number_is_refused() -> None:
    refusals = [refusal(values.total, {"value": value}) for value in REFUSED_INSIDE_A_METRIC]
    described = [values.describe(value) for value in REFUSED_INSIDE_A_METRIC]
    assert refusals == [f'expected a number as "value", got {value}' for value in described]


DESCRIBED: list[tuple[Any, str]] = [
    *(
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (1, "1"),
        (1.0, "1.0"),
        ("n/a", '"n/a"'),
        ("", '""'),
    ),
    *(("x" * 40, '"' + "x" * 40 + '"'), ("x" * 41, '"' + "x" * 40 + '…"'), ("größer", '"größer"')),
    *(([1, 2], "an array"), ({"a": 1}, "an object"), (1e300, "1e+300"), (10**40 - 1, "9" * 40)),
    *(
        (huge, "an integer of more than 40 digits")
        for huge in (10**40, -(10**40), 10**4300, 10**10_000)
    ),
    *(("a\nb", '"a\\nb"'), ("\x1b[31mred", '"\\x1b[31mred"'), ("\u202egnp", '"\\u202egnp"')),
]


def test_a_value_is_described_briefly_in_the_words_of_json() -> None:
    assert [values.describe(value) for value, _ in DESCRIBED] == [
        described for _, described in DESCRIBED
    ]
