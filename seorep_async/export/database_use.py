"""The database files that this package has open in this process.

DuckDB's own lock keeps other processes out. Within a process, however, all connections to a file
share one instance of DuckDB: two pulls would see each other's transactions, and DuckDB would refuse
a pull while a reader with other settings is open.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

THIS_PULL = "a pull of this program"


class DatabaseUse:
    """The pulls of a database file in this process, including those that wait.

    Attributes:
        pull: held by the pull whose turn it is, also while it tries to open the file.
        opening: held while the file is opened. The other attributes can't change meanwhile, so they
            explain why DuckDB refuses the file.
        is_written: whether a pull has the file open.
        waiting_pulls: the number of pulls that wait until this process closes the file.
    """

    def __init__(self) -> None:
        self.pull: threading.Lock = threading.Lock()
        self.opening: threading.Lock = threading.Lock()
        self.is_written: bool = False
        self.waiting_pulls: int = 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Mark the file as written, so that readers in this process wait.

        Without the mark, they would report that the caller's own code has the file open.
        """
        self.is_written = True
        try:
            yield
        finally:
            self.is_written = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Keep new readers out while a pull waits for the present ones to end."""
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
