"""The Retry-After header in every form that services send (fault matrix, row 25)."""

import email.utils
import math
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seorep_async.session.response import parse_retry_after

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("1", 1.0),
        (" 30 ", 30.0),
        ("+5", 5.0),
        ("007", 7.0),
        ("-5", 0.0),
        ("-0", 0.0),
        ("1.5", 1.5),
        ("1.", 1.0),
        ("3600", 3600.0),
        ("1" + "0" * 400, sys.float_info.max),
        ("-1" + "0" * 400, 0.0),
        ("9" * 5000, sys.float_info.max),
        ("nan", None),
        ("NaN", None),
        ("inf", None),
        ("Infinity", None),
        ("-inf", None),
        ("1e3", None),
        ("0x10", None),
        ("1_000", None),
        ("1,5", None),
        ("٣", None),
        ("", None),
        ("  ", None),
        ("soon", None),
        ("10 seconds", None),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("Tue, 14 Nov 2023 22:13:50 -0000", 30.0),
        ("Tue, 14 Nov 2023 23:13:50 +0100", 30.0),
        ("Tuesday, 14-Nov-23 22:13:50 GMT", 30.0),
        ("Tue Nov 14 22:13:50 2023", 30.0),
        ("Tue, 14 Nov 2023 22:13:20 GMT", 0.0),
        ("Tue, 14 Nov 2023 21:13:20 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Wed, 15 Nov 2023 22:13:20 GMT", 86400.0),
        ("Tue, 32 Nov 2023 22:13:50 GMT", None),
        ("Tue, 14 Nov 2023 25:13:50 GMT", None),
        ("Tue, 14 Nov 99999 22:13:50 GMT", None),
        ("Tue, 14 Nov 2023 22:13:50 +9999", None),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0.0),
    ],
)
def test_header_means_seconds(text: str | None, seconds: float | None) -> None:
    assert parse_retry_after(text, None, NOW) == seconds


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize("text", ["Tue, 14 Nov 2023 22:13:50 -0000", "Tue Nov 14 22:13:50 2023"])
def test_a_date_without_zone_is_universal_time_everywhere(
    text: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", zone)
        time.tzset()
        seconds = parse_retry_after(text, None, NOW)
    time.tzset()
    assert seconds == 30.0


@given(st.text() | st.from_regex(r"[+-]?[0-9]{1,500}(\.[0-9]*)?"))
def test_any_string_means_a_finite_wait_or_nothing(text: str) -> None:
    seconds = parse_retry_after(text, None, NOW)
    assert seconds is None or (math.isfinite(seconds) and seconds >= 0)


@given(
    st.lists(
        st.sampled_from(
            ["Tue", ",", "14", "Nov", "2023", "99999", "22:13:50", "22:13", "1:2:3:4", "GMT", "+9999", "-", "("]
        ),
        max_size=8,
    )
)
def test_anything_like_a_date_means_a_finite_wait_or_nothing(words: list[str]) -> None:
    seconds = parse_retry_after(" ".join(words), None, NOW)
    assert seconds is None or (math.isfinite(seconds) and seconds >= 0)


@given(st.integers(0, 10**6))
def test_date_is_as_far_away_as_it_says(seconds: int) -> None:
    assert parse_retry_after(email.utils.formatdate(NOW + seconds, usegmt=True), None, NOW) == seconds
