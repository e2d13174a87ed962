"""Checks of the options that a user gives, each a clear ValueError."""

import math
from collections.abc import Callable
from typing import Any

from attrs import Attribute

Check = Callable[[Any, "Attribute[Any]", Any], None]


def integer(instance: object, attribute: "Attribute[Any]", value: object) -> None:
    """Require an integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{attribute.name} must be an integer, not {value!r}")


def at_least(low: int) -> Check:
    """Require an integer of at least `low`."""

    def check(instance: object, attribute: "Attribute[Any]", value: Any) -> None:
        integer(instance, attribute, value)
        if value < low:
            raise ValueError(f"{attribute.name} must be at least {low}, not {value}")

    return check


def between(low: int, high: int) -> Check:
    """Require an integer in low..high."""

    def check(instance: object, attribute: "Attribute[Any]", value: Any) -> None:
        integer(instance, attribute, value)
        if not low <= value <= high:
            raise ValueError(f"{attribute.name} must be between {low} and {high}, not {value}")

    return check


def not_negative(instance: object, attribute: "Attribute[Any]", value: Any) -> None:
    """Require a finite number of at least 0."""
    if not _is_number(value) or not 0 <= value < math.inf:
        raise ValueError(f"{attribute.name} must be a finite number of at least 0, not {value!r}")


def above_zero(instance: object, attribute: "Attribute[Any]", value: Any) -> None:
    """Require a finite number above 0."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"{attribute.name} must be a finite number above 0, not {value!r}")


def not_empty(instance: object, attribute: "Attribute[Any]", value: object) -> None:
    """Require a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{attribute.name} must be a string that is not empty")


def callable_(instance: object, attribute: "Attribute[Any]", value: object) -> None:
    """Require something to call."""
    if not callable(value):
        raise ValueError(f"{attribute.name} must be a function, not {value!r}")


def one_of(*allowed: str) -> Check:
    """Require one of some strings."""

    def check(instance: object, attribute: "Attribute[Any]", value: object) -> None:
        if value not in allowed:
            raise ValueError(f"{attribute.name} must be one of {', '.join(allowed)}, not {value!r}")

    return check


def optional(check: Check) -> Check:
    """Require nothing of None, and of any other value what `check` requires."""

    def check_unless_none(instance: object, attribute: "Attribute[Any]", value: object) -> None:
        if value is not None:
            check(instance, attribute, value)

    return check_unless_none


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
