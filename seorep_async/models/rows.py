"""Rows that are held as compact records, and become models as they are looked at."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar, overload

R = TypeVar("R")
V = TypeVar("V")


class Rows(Sequence[R]):
    """The checked rows of a page or report: an immutable sequence of models, each made as it is looked at.

    Compares, hashes, adds and prints as the tuple of its models does. Making a model takes about half a microsecond; a
    record, unlike a model, is of no concern to the garbage collector, so that many rows can be held without pauses.
    `list(rows)` makes all models at once, for many looks at the same rows.

    Args:
        records: objects with the attributes of the model, not to be changed any more.
        make: makes a model of a record.
    """

    __slots__ = ("_make", "_records")

    def __init__(self, records: Sequence[Any], make: Callable[[Any], R]) -> None:
        self._records = records
        self._make = make

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[R]:
        return map(self._make, self._records)

    @overload
    def __getitem__(self, place: int) -> R: ...
    @overload
    def __getitem__(self, place: slice) -> Rows[R]: ...
    def __getitem__(self, place: int | slice) -> R | Rows[R]:
        if isinstance(place, slice):
            return Rows(self._records[place], self._make)
        return self._make(self._records[place])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rows | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(operator.eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __add__(self, other: Sequence[R]) -> Rows[R]:
        return joined([self, other]) if isinstance(other, Rows | tuple) else NotImplemented

    def __radd__(self, other: Sequence[R]) -> Rows[R]:
        return joined([other, self]) if isinstance(other, Rows | tuple) else NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return rows_of, (tuple(self),)


def rows_of(models: Sequence[R]) -> Rows[R]:
    """Return rows that hold models as they are."""
    return Rows(models, _itself)


def joined(parts: Sequence[Sequence[R]]) -> Rows[R]:
    """Return the rows of several pages as one sequence."""
    first = parts[0]
    if isinstance(first, Rows):
        if len(parts) == 1:
            return first
        if all(isinstance(part, Rows) and part._make is first._make for part in parts):
            return Rows(list(chain.from_iterable(part._records for part in parts)), first._make)  # type: ignore[attr-defined]
    return rows_of(tuple(chain.from_iterable(parts)))


def attributes(items: Sequence[Any], read: Callable[[Any], V]) -> Iterator[V]:
    """Give what a function reads from the attributes of each item, without making models of rows."""
    return map(read, items._records if isinstance(items, Rows) else items)


def _itself(model: R) -> R:
    return model
