"""Checks of the user's options, each a clear ValueError."""

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
            raise ValueError(f"{attribute.name} must be {expected}{f', not {value!r}' if shown else ''}")

    return check


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


integer: Check = require("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool))
not_negative: Check = require(
    "a finite number of at least 0", lambda value: _is_number(value) and 0 <= value < math.inf
)
above_zero: Check = require("a finite number above 0", lambda value: _is_number(value) and 0 < value < math.inf)
not_empty: Check = require(
    "a string that is not empty", lambda value: isinstance(value, str) and value != "", shown=False
)
callable_: Check = require("a function", callable)


def at_least(low: int) -> Check:
    """Require an integer of at least `low`."""
    return and_(integer, require(f"at least {low}", lambda value: value >= low))


def between(low: int, high: int) -> Check:
    """Require an integer in low..high."""
    return and_(integer, require(f"between {low} and {high}", lambda value: low <= value <= high))


def one_of(*allowed: str) -> Check:
    """Require one of some strings."""
    return require(f"one of {', '.join(allowed)}", lambda value: value in allowed)
