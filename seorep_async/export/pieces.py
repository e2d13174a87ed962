"""A private folder with one file that grows by blocks, each a JSON record and pieces of bytes: it is its own index.

A block is a head, its record and its pieces. The head has a CRC of the record that goes on from the block before, and
one of itself, and the record has a CRC of each piece: what is not as it was written shows when the file is opened. A
block is synced before the next one begins, so a crash can damage the last one only: that is cut off.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from seorep_async.errors import ExportError, SeoRepError
from seorep_async.export.request import ExportRequest, Plan

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PIECES = "pieces"
RECENT = 8
"""How many records, or pieces, stay in memory once they were read: neighbours are read together."""
_MADE = "made-"
"""Begins the names of files in the making, which nothing is read from later."""
_HELD = (
    "another pull into this target is at work (it has {} open); run this again when that has ended"
)
_ELSEWHERE, _REMOVE = "write to a local disk, and move the file", "remove it, and run this again"
_NO_LOCKS = f"the file system of {{}} refuses locks; {_ELSEWHERE}"
_START_OVER = "start over with restart=True, which drops it"
_HEAD, _CRC = struct.Struct("<IQI"), struct.Struct("<I")
_HEAD_SIZE = _HEAD.size + _CRC.size
_CHUNK = 1 << 20


class Record(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Where a report's rows are in its block, its totals, and the ids of its keywords, if they will be pulled."""

    id: int
    piece: int
    first: int
    size: int
    rows: int
    totals: tuple[Any, ...] | None = None
    keywords: tuple[int, ...] = ()


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """Why a report is missing."""

    id: int
    error: str
    message: str
    status: int | None
    attempts: int | None

    @classmethod
    def of(cls, id_: int, error: SeoRepError) -> Failure:
        return cls(id_, type(error).__name__, error.message, error.status, error.attempts)

    @property
    def facts(self) -> tuple[str, str, int | None, int | None]:
        return self.error, self.message, self.status, self.attempts


class Block(msgspec.Struct, omit_defaults=True):
    """What one step stores: records and failures by the name of their table; `ended`: only `retry_failed` goes on.

    `pieces` has the size and the CRC-32 of each.
    """

    pieces: list[tuple[int, int]] = []
    records: dict[str, list[Record]] = {}
    failures: dict[str, list[Failure]] = {}
    request: ExportRequest | None = None
    plan: Plan | None = None
    ended: bool = False


class DamagedError(Exception):
    """Stored bytes differ from those that were written."""


class _Place(NamedTuple):
    """Where a record is, its size, where its block ends, and the CRC of all records until here."""

    record: int = 0
    size: int = 0
    end: int = 0
    checksum: int = 0


_decode_block = msgspec.json.Decoder(Block).decode
"""Made at import: a decoder that is first made under freezegun would expect its fake dates."""


class BlockFile:
    """The file, open and locked; blocks have numbers from 1, their pieces from 0."""

    def __init__(self, file: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._file = os.fdopen(os.open(file, flags, 0o600), "r+b", buffering=0)
        self._path, self._places = file, [_Place()]
        self._decode = _decode_block
        self._recent = lru_cache(RECENT)(self._block)
        problem = _HELD
        try:
            if sys.platform == "win32":
                self._file.seek(1 << 62)
                msvcrt.locking(self._file.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(self._file.fileno()), os.lstat(file)):
                return
        except OSError as error:  # ENOENT: the pull that had it removed it meanwhile
            if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK, errno.ENOENT):
                problem = _NO_LOCKS
        self._file.close()
        raise ExportError(problem.format(file.parent), file=file)

    def load(self, *, only_look: bool) -> Iterator[Block]:
        """Yield all blocks, in order; DamagedError: one is not as it was written."""
        size = os.fstat(self._file.fileno()).st_size
        while (start := self._places[-1].end) < size:
            head = self._read(start, _HEAD_SIZE).ljust(_HEAD_SIZE, b"\0")
            (length, pieces, checksum), number = _HEAD.unpack_from(head), len(self._places)
            is_head, record = (
                head.endswith(_CRC.pack(zlib.crc32(head[: _HEAD.size]))),
                start + _HEAD_SIZE,
            )
            place = _Place(record, length, record + length + pieces, checksum)
            self._places.append(place)
            try:
                if not is_head or place.end > size:
                    raise DamagedError(f"block {number} is not as it was written")
                block = self.block(number)
                for piece, (_, checksum) in enumerate(block.pieces):
                    if zlib.crc32(self.read(number, piece)) != checksum:
                        raise DamagedError(f"a piece of block {number} is not as it was written")
            except DamagedError:
                self._places.pop()
                self._recent.cache_clear()  # its record may have been read, and its number is used again
                is_last = record > size or (is_head and place.end >= size)
                if not is_last and any(
                    any(self._read(at, _CHUNK)) for at in range(start, size, _CHUNK)
                ):
                    raise
                if not only_look:
                    self._file.truncate(start)  # a crash cut it off, or its place was only reserved
                return
            yield block

    def append(self, block: Block, pieces: Sequence[bytes] = ()) -> int:
        """Append a block, sync it, and return its number; after an error, the file is as it was."""
        block.pieces = [(len(data), zlib.crc32(data)) for data in pieces]
        text, before = msgspec.json.encode(block), self._places[-1]
        checksum = zlib.crc32(text, before.checksum)
        head = _HEAD.pack(len(text), sum(map(len, pieces)), checksum)
        head += _CRC.pack(zlib.crc32(head))
        rest = memoryview(b"".join((head, text, *pieces)))
        place = _Place(before.end + len(head), len(text), before.end + len(rest), checksum)
        try:
            self._file.seek(before.end)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                self._file.truncate(before.end)
            raise
        self._places.append(place)
        return len(self._places) - 1

    def block(self, number: int) -> Block:
        """Return a block by its number; DamagedError: it is not as it was written."""
        return self._recent(number)

    def _block(self, number: int) -> Block:
        before, place = self._places[number - 1 : number + 1]
        text = self._read(place.record, place.size)
        if zlib.crc32(text, before.checksum) != place.checksum:
            raise DamagedError(f"block {number} is not as it was written")
        return self._decode(text)

    def read(self, number: int, piece: int) -> bytes:
        """Return a piece of a block, as `load` found it or this run wrote it."""
        pieces, place = self.block(number).pieces, self._places[number]
        return self._read(
            place.record + place.size + sum(size for size, _ in pieces[:piece]), pieces[piece][0]
        )

    def _read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        return self._file.read(size)

    def clear(self) -> None:
        """Drop everything, unread."""
        self._file.truncate(0)
        self._places = [_Place()]
        self._recent.cache_clear()

    def close(self) -> None:
        """Close it; if it is empty, remove it and its folder while it is locked: what a pull makes here next stays."""
        with self._file:
            is_empty = not os.fstat(self._file.fileno()).st_size
            if is_empty and os.name != "nt":
                self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            if is_empty and os.name == "nt":  # which can't remove open files
                self._path.unlink()
            self._path.parent.rmdir()


def opened_in(folder: Path) -> BlockFile:
    """Make the private folder if it is missing, and open its file; an ExportError says what is wrong with them."""
    is_new = not os.path.lexists(folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise ExportError(f"{folder} is a link or a file; {_REMOVE}", file=folder)
    if sys.platform != "win32" and (found.st_uid != os.getuid() or found.st_mode & 0o077):
        problem, advice = (
            f"the staging folder {folder} is another user's, or open to others",
            _REMOVE,
        )
        if is_new:
            folder.rmdir()
            problem, advice = f"the file system of {folder} has no private folders", _ELSEWHERE
        raise ExportError(f"{problem}; {advice}", file=folder)
    return BlockFile(folder / PIECES)


def drop_leftovers(folder: Path, *, restart: bool) -> None:
    """Remove files in the making; what no pull of this version made is refused, or removed by `restart`."""
    for path in folder.iterdir():
        if path.name.startswith(_MADE) or (restart and path.name != PIECES):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        elif path.name != PIECES:
            problem = f"{folder} has reports that another version of seorep staged ({path.name})"
            raise ExportError(f"{problem}; {_START_OVER}", file=folder)


@contextlib.contextmanager
def errors_of(folder: Path) -> Iterator[None]:
    """Turn the errors of a staging folder into one ExportError each, which says what to do."""
    try:
        yield
    except (DamagedError, msgspec.MsgspecError) as error:
        problem = f"the reports staged in {folder} are damaged, or of another version ({error})"
        raise ExportError(f"{problem}; {_START_OVER}", file=folder) from error
    except OSError as error:
        where = Path(error.filename) if isinstance(error.filename, str) else folder
        raise ExportError(f"can't write {where}: {error.strerror or error}", file=where) from error


def made(folder: Path, name: str) -> Path:
    return folder / f"{_MADE}{name}"
