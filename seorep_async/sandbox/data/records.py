"""Records of one kind: seeded ones, made when they are asked for, and what was written over and beside them."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from .recent import Recent

T = TypeVar("T")


class Records(Generic[T]):
    """Seeded records under what was written since; an id is never given twice.

    Args:
        is_seeded: says whether a record of this id is in the seeded account.
        make: makes it.
        first_new_id: the id of the first record that is added; it is above all seeded ones.
        kept: how many made records are kept for the next time.
    """

    def __init__(
        self, is_seeded: Callable[[int], bool], make: Callable[[int], T], *, first_new_id: int, kept: int
    ) -> None:
        self._is_seeded = is_seeded
        self._make = make
        self._first_new_id = self._next_id = first_new_id
        self._made: Recent[int, T] = Recent(kept)
        self._written: dict[int, T | None] = {}
        self.writes = 0

    def get(self, id_: int) -> T | None:
        """Return a record, or None if there is none with this id."""
        if id_ in self._written:
            return self._written[id_]
        if not self._is_seeded(id_):
            return None
        made = self._made.get(id_)
        return self._made.keep(id_, self._make(id_)) if made is None else made

    def present(self, seeded: Sequence[int]) -> Sequence[int]:
        """Return those of the seeded ids that are still there, then all added ones, oldest first."""
        if not self._written:
            return seeded
        gone = {id_ for id_, record in self._written.items() if record is None}
        added = [id_ for id_ in self._written if id_ >= self._first_new_id]
        return [id_ for id_ in (*seeded, *added) if id_ not in gone]

    def add(self, build: Callable[[int], T]) -> T:
        """Add the record that is built for a new id."""
        id_ = self._next_id
        self._next_id += 1
        return self.put(id_, build(id_))

    def put(self, id_: int, record: T) -> T:
        """Put a record in the place of the one with this id."""
        self._written[id_] = record
        self.writes += 1
        return record

    def remove(self, id_: int) -> None:
        """Remove the record with this id."""
        self._written[id_] = None
        self.writes += 1
