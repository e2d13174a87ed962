"""Checks of options: each raises a ValueError that begins with the option's name.

The validators of attrs would name the type, but a user needs the allowed values.
"""

import math
from collections.abc import Callable
from typing import Any

from attrs import Attribute
from attrs.validators import and_

Check = Callable[[Any, "Attribute[Any]", Any], None]
"""A validator of attrs."""


def check_that(is_valid: Callable[[Any], bool], expectation: str) -> Check:
    """Require a valid value; the expectation completes "NAME must be …"."""

    def check(instance: object, attribute: "Attribute[Any]", value: object) -> None:
        if not is_valid(value):
            raise ValueError(f"{attribute.name} must be {expectation}, not {value!r}")

    return check


def check_integer(low: float = -math.inf, high: float = math.inf) -> Check:
    """Require an integer from low to high."""
    bounds = f"between {low} and {high}"
    if high == math.inf:
        bounds = f"at least {low}"
    # A boolean is an int, but certainly a mistake.
    is_integer = check_that(lambda value: type(value) is int, "an integer")
    is_within = check_that(lambda value: low <= value <= high, bounds)
    return and_(is_integer, is_within)


def check_number() -> Check:
    """Require a finite number above 0."""

    def is_valid(value: Any) -> bool:
        return type(value) in (int, float) and 0 < value < math.inf

    return check_that(is_valid, "a finite number above 0")


def check_seconds() -> Check:
    """Require a finite number of at least 0."""

    def is_valid(value: Any) -> bool:
        return isinstance(value, int | float) and 0 <= value < math.inf

    return check_that(is_valid, "a finite number of at least 0")


def check_choice(*allowed: object) -> Check:
    """Require one of the allowed values."""
    names = ", ".join(str(value) for value in allowed)
    return check_that(lambda value: value in allowed, f"one of {names}")
