"""Checks of the user's options, each a ValueError that begins with the option's name; those of attrs name types."""

import math
from collections.abc import Callable
from typing import Any

from attrs import Attribute

Check = Callable[[Any, "Attribute[Any]", Any], None]


def require(expected: str, holds: Callable[[Any], bool], *, shown: bool = True) -> Check:
    """Require a value that is as expected."""

    def check(instance: object, attribute: "Attribute[Any]", value: object) -> None:
        if not holds(value):
            raise ValueError(f"{attribute.name} must be {expected}{f', not {value!r}' if shown else ''}")

    return check


def integer(low: int | None = None, high: int | None = None) -> Check:
    """Require an integer, of at least `low`, or between two."""
    within = "" if low is None else f" of at least {low}" if high is None else f" between {low} and {high}"
    low_, high_ = -math.inf if low is None else low, math.inf if high is None else high
    return require(
        f"an integer{within}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and low_ <= value <= high_,
    )


def number(*, or_zero: bool = False) -> Check:
    """Require a finite number above 0, or 0."""

    def holds(value: object) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and 0 <= value < math.inf and (or_zero or value > 0)  # type: ignore[operator]

    return require(f"a finite number {'of at least' if or_zero else 'above'} 0", holds)


def one_of(*allowed: object) -> Check:
    """Require one of some values."""
    return require(f"one of {', '.join(map(str, allowed))}", lambda value: value in allowed)
