"""The Retry-After header in every form that services send (fault matrix, row 25)."""

import math
import sys

import pytest
from hypothesis import given, strategies as st

from seorep_async.session.failures import parse_retry_after

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        (None, ["nan", "NaN", "inf", "Infinity", "-inf", "1e3", "0x10", "1_000", "1,5", "٣"]),
        (None, ["", "  ", "soon", "10 seconds"]),
        (None, ["Tue, 32 Nov 2023 22:13:50 GMT", "Tue, 14 Nov 2023 25:13:50 GMT"]),
        (None, ["Tue, 14 Nov 99999 22:13:50 GMT", "Tue, 14 Nov 2023 22:13:50 +9999"]),
        (0.0, ["0", "-5", "-0", "-1" + "0" * 400, "Tue, 14 Nov 2023 22:13:20 GMT"]),
        (0.0, ["Tue, 14 Nov 2023 21:13:20 GMT", "Thu, 01 Jan 1970 00:00:00 GMT"]),
        (0.0, ["Mon, 01 Jan 0001 00:00:00 +2359"]),
        (30.0, [" 30 ", "Tue, 14 Nov 2023 22:13:50 GMT", "Tue, 14 Nov 2023 22:13:50 -0000"]),
        (30.0, ["Tue, 14 Nov 2023 23:13:50 +0100", "Tuesday, 14-Nov-23 22:13:50 GMT"]),
        (30.0, ["Tue Nov 14 22:13:50 2023"]),
        (1.0, ["1", "1."]),
        (1.5, ["1.5"]),
        (5.0, ["+5"]),
        (7.0, ["007"]),
        (3600.0, ["3600"]),
        (86400.0, ["Wed, 15 Nov 2023 22:13:20 GMT"]),
        (sys.float_info.max, ["1" + "0" * 400, "9" * 5000]),
    ],
    ids=range(17),
)
def test_header_means_seconds(seconds: float | None, texts: list[str]) -> None:
    for text in texts:
        assert parse_retry_after(text, None, NOW) == seconds, text


@given(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.integers(-(10**30), 10**30).map(str)
    # Most of these are almost dates.
    | st.lists(
        st.sampled_from(
            [
                "Tue",
                ",",
                "14",
                "Nov",
                "2023",
                "99999",
                "22:13:50",
                "22:13",
                "1:2:3:4",
                "GMT",
                "+9999",
                "-",
                "(",
            ]
        ),
        max_size=8,
    ).map(" ".join)
)
def test_any_string_means_a_finite_wait_or_nothing(text: str) -> None:
    seconds = parse_retry_after(text, None, NOW)
    assert seconds is None or (math.isfinite(seconds) and seconds >= 0)
