"""The Retry-After header, in every form that services send."""

from __future__ import annotations

import datetime as dt
import email.utils
import math
import re
import sys

_SECONDS = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


def parse_retry_after(text: str | None, wall_time: float) -> float | None:
    """Return the seconds to wait, finite and not negative, or None if the header is absent or makes no sense.

    Args:
        text: the header: seconds (a fraction is taken too), or an HTTP date.
        wall_time: now, in seconds since the epoch.
    """
    if text is None:
        return None
    text = text.strip()
    if _SECONDS.fullmatch(text):
        seconds = float(text)
        return max(0.0, seconds if math.isfinite(seconds) else math.copysign(sys.float_info.max, seconds))
    try:
        moment = email.utils.parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        return max(0.0, moment.timestamp() - wall_time)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
