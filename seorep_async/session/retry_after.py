"""The header Retry-After: how long the service asks to wait."""

from __future__ import annotations

import datetime as dt
import email.utils
import math
import re
import sys

_SECONDS = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


def parse_retry_after(header: str | None, date: str | None, wall_time: float) -> float | None:
    """Return the seconds to wait, finite and not negative, or None if the header is absent or makes no sense.

    Args:
        header: the header Retry-After: seconds (a fraction is accepted too), or an HTTP date.
        date: the header Date of the same response, which says what the service's clock shows, or None.
        wall_time: what ours shows, in seconds since the epoch; used without a Date.
    """
    if header is None:
        return None
    header = header.strip()
    if _SECONDS.fullmatch(header):
        seconds = float(header)
        return max(0.0, seconds if math.isfinite(seconds) else math.copysign(sys.float_info.max, seconds))
    moment = _seconds_since_epoch(header)
    if moment is None:
        return None
    now = _seconds_since_epoch(date) if date else None
    return max(0.0, moment - (wall_time if now is None else now))


def _seconds_since_epoch(date: str) -> float | None:
    try:
        moment = email.utils.parsedate_to_datetime(date)
        return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
