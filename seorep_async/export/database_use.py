"""The database files that this package has open in this process.

DuckDB's own lock keeps other processes out. Within a process, all connections to a file share one
instance of DuckDB: two pulls would see each other's transactions, and a reader's settings would
refuse a pull.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

THIS_PULL = "a pull of this program"


class DatabaseUse:
    """The users of a database file in this process, and those who wait for it.

    Attributes:
        pull: held by the pull whose turn it is, also while it tries to open the file.
        opening: held while the file is opened, so that the other attributes then say why DuckDB
            refuses the file.
        is_written: whether a pull has the file open.
        readers: the number of open histories.
        waiting_pulls: the number of pulls that wait until this process closes the file.
    """

    def __init__(self) -> None:
        self.pull: threading.Lock = threading.Lock()
        self.opening: threading.Lock = threading.Lock()
        self.is_written: bool = False
        self.readers: int = 0
        self.waiting_pulls: int = 0

    @contextmanager
    def written(self) -> Iterator[None]:
        """Keep readers out, which otherwise would take the pull for the caller's connection."""
        self.is_written = True
        try:
            yield
        finally:
            self.is_written = False

    @contextmanager
    def read(self) -> Iterator[None]:
        """Count a reader. Call this with `opening`."""
        self.readers += 1
        try:
            yield
        finally:
            with self.opening:
                self.readers -= 1

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Let no new reader begin before a pull that waits for the present ones."""
        with self.opening:
            self.waiting_pulls += 1
        try:
            yield
        finally:
            with self.opening:
                self.waiting_pulls -= 1


_uses: defaultdict[str, DatabaseUse] = defaultdict(DatabaseUse)


def use_of(path: str | os.PathLike[str]) -> DatabaseUse:
    """Return the use of a file. All names of the same file have the same use."""
    return _uses[os.path.realpath(path)]
