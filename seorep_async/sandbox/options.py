"""Checks of the user's options, each a ValueError that begins with the option's name; those of attrs name types."""

import math
from collections.abc import Callable
from typing import Any

from attrs import Attribute
from attrs.validators import and_

Check = Callable[[Any, "Attribute[Any]", Any], None]


def require(expected: str, holds: Callable[[Any], bool], *, shown: bool = True) -> Check:
    """Require a value that is as expected."""

    def check(instance: object, attribute: "Attribute[Any]", value: object) -> None:
        if not holds(value):
            raise ValueError(
                f"{attribute.name} must be {expected}{f', not {value!r}' if shown else ''}"
            )

    return check


def integer(low: float = -math.inf, high: float = math.inf) -> Check:
    """Require an integer in low..high."""
    within = f"at least {low}" if high == math.inf else f"between {low} and {high}"
    return and_(
        require("an integer", lambda value: type(value) is int),
        require(within, lambda value: low <= value <= high),
    )


def number(*, or_zero: bool = False) -> Check:
    """Require a finite number above 0, or 0."""
    return require(
        f"a finite number {'of at least' if or_zero else 'above'} 0",
        lambda value: (
            type(value) in (int, float) and 0 <= value < math.inf and (or_zero or value > 0)
        ),
    )


def one_of(*allowed: object) -> Check:
    """Require one of some values."""
    return require(f"one of {', '.join(map(str, allowed))}", lambda value: value in allowed)
