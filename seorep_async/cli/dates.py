"""The dates that a pull asks for when it is not told."""

from __future__ import annotations

import datetime as dt

_MONTHS = 3


def dates_to_pull(first: dt.date | None, last: dt.date | None, today: dt.date) -> tuple[dt.date, dt.date]:
    """Return first and last day: those given, and for those left out the last three full months.

    Without a last day it is the end of last month; without a first day it is the first of the month two months before
    that of the last day.

    Args:
        first: first day, or None.
        last: last day, or None.
        today: today; its month is not a full one.
    """
    if last is None:
        last = today.replace(day=1) - dt.timedelta(days=1)
    if first is None:
        year, month = divmod(last.year * 12 + last.month - _MONTHS, 12)
        first = dt.date(year, month + 1, 1) if year else dt.date.min
    return first, last
