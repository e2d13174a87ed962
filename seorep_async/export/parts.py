"""The file of parts: rows of finished reports, block after block as they came."""

from __future__ import annotations

import os
import zlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from seorep_async.export.journal import BlockPlace

_CHUNK = 1 << 20

T = TypeVar("T")


class Parts:
    """An append-only file of blocks.

    Args:
        path: its file, which is made if it is not there.

    Raises:
        OSError: it can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        self._end = os.fstat(self._file).st_size

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def append(self, data: bytes) -> BlockPlace:
        """Write a block at the end; from then on it outlives this process.

        Raises:
            OSError: it could not be written; the file is as it was, but for what follows its end.
        """
        start = self._end
        os.lseek(self._file, start, os.SEEK_SET)
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]
        self._end += len(data)
        return BlockPlace(start, len(data), zlib.crc32(data))

    def sync(self) -> None:
        """Put on the disk what was written; from then on it outlives a power failure too.

        Raises:
            OSError: that was not possible.
        """
        os.fsync(self._file)

    def read(self, start: int, length: int) -> bytes:
        """Read bytes.

        Raises:
            OSError: they are not there.
        """
        pieces = []
        os.lseek(self._file, start, os.SEEK_SET)
        while length:
            piece = os.read(self._file, length)
            if not piece:
                raise OSError("the kept rows are cut short")
            pieces.append(piece)
            length -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def is_whole(self, block: BlockPlace) -> bool:
        """Tell whether a block is there as it was written."""
        checksum, place, end = 0, block.start, block.start + block.length
        if end > os.fstat(self._file).st_size:
            return False
        while place < end:
            piece = self.read(place, min(_CHUNK, end - place))
            checksum = zlib.crc32(piece, checksum)
            place += len(piece)
        return checksum == block.checksum

    def cut(self, end: int) -> None:
        """Take off what follows a place: the torn end of a block that was never finished."""
        os.truncate(self._file, end)
        self._end = end


class RecentBlocks(Generic[T]):
    """Blocks read lately, so that neighbours in a block are not read one by one.

    Args:
        parts: the file.
        decode: makes of a block's bytes what is kept.
        kept: how many blocks are kept.
    """

    def __init__(self, parts: Parts, decode: Callable[[bytes], T], kept: int = 4) -> None:
        self._parts = parts
        self._decode = decode
        self._kept = kept
        self._recent: OrderedDict[int, T] = OrderedDict()

    def read(self, block: BlockPlace) -> T:
        """Return a block.

        Raises:
            OSError: its bytes are not there.
        """
        found = self._recent.pop(block.start, None)
        if found is None:
            found = self._decode(self._parts.read(block.start, block.length))
        self._recent[block.start] = found
        if len(self._recent) > self._kept:
            self._recent.popitem(last=False)
        return found
