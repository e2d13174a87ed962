"""Seeded random numbers: the same key gives the same numbers on every machine and Python."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_MASK = 2**64 - 1


def mix(key: int) -> int:
    """Return a random 64-bit number for a key: the finaliser of splitmix64."""
    key = (key + 0x9E3779B97F4A7C15) & _MASK
    key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & _MASK
    return key ^ (key >> 31)


class SeededRandom:
    """A stream of draws from one key.

    Only `random()` is used: Python promises for it alone that later versions give the same numbers.
    """

    def __init__(self, key: int) -> None:
        self._random = random.Random(key).random

    def below(self, bound: int) -> int:
        """Draw an integer in 0..bound-1."""
        return int(self._random() * bound)

    def chance(self, share: float) -> bool:
        """Return True in this share (0 to 1) of the draws."""
        return self._random() < share

    def skewed(self, bound: int, power: float) -> int:
        """Draw an integer in 0..bound-1, the smaller ones more often the higher the power."""
        return int(self._random() ** power * bound)

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        return options[int(self._random() * len(options))]
