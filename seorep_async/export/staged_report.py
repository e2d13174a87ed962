"""A staged report, and the file of the rows of all beside the checkpoint: SQLite takes four times as long for them."""

from __future__ import annotations

import contextlib
import io
import os
import zlib
from pathlib import Path
from typing import BinaryIO

import attrs

_BUFFER_BYTES = 1 << 16


class DamagedError(Exception):
    """The checkpoint is damaged."""


class OtherVersionError(DamagedError):
    """Another version of this package wrote the checkpoint, with other tables."""


@attrs.frozen
class StagedReport:
    """Rows of one table in a checkpoint: those of a report, the keywords in it, or a part of the list of campaigns.

    Attributes:
        campaign_id: 0 for a part of the list of campaigns.
        id: the campaign's or the keyword's id, or the number of the part.
        totals: a JSON list of values, or None.
        data: the rows, encoded for the target's format.
    """

    table: str
    campaign_id: int
    id: int
    rows: int
    totals: str | None
    data: bytes


@attrs.frozen
class RowsLocation:
    """The location of some rows in a file, and their checksum."""

    start: int
    size: int
    checksum: int


class RowsFile:
    """An open file of rows, to which more are appended; None as path: in memory.

    A new file is open to its owner only; a link is not followed.
    """

    def __init__(self, path: Path | None) -> None:
        self._file: BinaryIO = io.BytesIO()
        if path is not None:
            self._file = open(path, "a+b", _BUFFER_BYTES, opener=_open_own)  # noqa: SIM115

    def append(self, data: bytes) -> RowsLocation:
        """Append rows; they survive a crash after the next `flush`."""
        start = self._file.seek(0, os.SEEK_END)
        self._file.write(data)
        return RowsLocation(start, len(data), zlib.crc32(data))

    def flush(self, *, durable: bool) -> None:
        """Hand everything to the system; if durable, wait until it survives a power failure too."""
        self._file.flush()
        if durable:
            os.fsync(self._file.fileno())

    def read(self, location: RowsLocation) -> bytes:
        """Return the rows at a location; damaged ones raise DamagedError."""
        self._file.seek(location.start)
        data = self._file.read(location.size)
        if zlib.crc32(data) != location.checksum:
            raise DamagedError("a report's rows are not as they were written")
        return data

    def cut(self, end: int) -> None:
        """Drop everything from an offset on, such as rows without a record after a crash."""
        self._file.truncate(end)

    def close(self) -> None:
        """Close it."""
        with contextlib.suppress(OSError):  # no record names rows that a full disk refused
            self._file.close()


def _open_own(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
