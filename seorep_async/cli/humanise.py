"""Counts, times and sizes for a person."""

from __future__ import annotations

import datetime as dt


def counted(count: int, one: str, several: str) -> str:
    """Return a number with its word in singular or plural."""
    return f"{count:,} {one if count == 1 else several}"


def duration(seconds: float, *, rough: bool = False) -> str:
    """Return a time such as `1 min 05 s`; a rough one has no fractions, and no seconds beside hours."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s" if rough else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if rough and (hours or minutes >= 10):
        return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"
    return f"{hours} h {minutes:02} min {rest:02} s" if hours else f"{minutes} min {rest:02} s"


def size(count: float) -> str:
    """Return a number of bytes such as `1.2 MB`."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def moment(iso: str) -> str:
    """Return an ISO date and time to the minute."""
    return dt.datetime.fromisoformat(iso).strftime("%Y-%m-%d %H:%M")
