"""The header Retry-After."""

from __future__ import annotations

import datetime as dt
import email.utils
import math
import re
import sys

_SECONDS = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


def parse_retry_after(header: str | None, date: str | None, wall_time: float) -> float | None:
    """Return the seconds to wait, finite and not negative, or None if the header is absent or makes no sense.

    The header holds seconds, also a fraction, or an HTTP date: by the service's clock (the response's header Date) or,
    without one, by ours (`wall_time`, seconds since the epoch).
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
