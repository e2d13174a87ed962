"""Which records, in which order, and which of them go on a page."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from attrs import frozen

from .fields import int32

T = TypeVar("T")

PAGE = int32("page", "page to return, counted from 1; the first unless given")
LIMIT = int32("limit", "records a page; a limit over the maximum is lowered to it")


@frozen
class Page:
    """A page to cut: its number, counted from 1, and its size in records."""

    number: int
    limit: int

    def cut(self, rows: Sequence[T]) -> Sequence[T]:
        """Return this page's rows, none beyond the end."""
        return rows[(self.number - 1) * self.limit : self.number * self.limit]

    def count(self, records: int) -> int:
        """Return how many pages so many records fill."""
        return -(-records // self.limit)


def matches(text: str, *wanted: str) -> bool:
    """Say whether each wanted text occurs in a text, whatever its case."""
    folded = text.casefold()
    return all(one.casefold() in folded for one in wanted)


def in_order(rows: Iterable[T], value: Callable[[T], Any], descending: bool) -> list[T]:
    """Sort rows by a value; None goes last either way, and rows that tie keep their order."""
    pairs = [(value(row), row) for row in rows]
    some = sorted((pair for pair in pairs if pair[0] is not None), key=lambda pair: pair[0], reverse=descending)
    return [row for _, row in some] + [row for key, row in pairs if key is None]
