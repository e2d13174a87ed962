"""A memory of bounded size."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """What was asked for lately; the longest unused goes first once the weights exceed the capacity.

    Args:
        capacity: the sum of weights kept; the newest value is kept whatever it weighs.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._weight = 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """Return the value kept under a key, or None."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def keep(self, key: K, value: V, weight: int = 1) -> V:
        """Keep a value that is not kept yet, and return it."""
        self._values[key] = (value, weight)
        self._weight += weight
        while self._weight > self._capacity and len(self._values) > 1:
            _, (_, dropped) = self._values.popitem(last=False)
            self._weight -= dropped
        return value
