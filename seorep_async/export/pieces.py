"""A private folder with one file that grows by blocks, each a JSON record and pieces of bytes: it is its own index.

A block is a head, its record and its pieces. The head has a CRC of the record that goes on from the block before, and
the record has a CRC of each piece: what is not as it was written shows when the file is opened or read. A block is
synced before the next one begins, so a crash can damage the last one only: that is cut off.
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
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from seorep_async.errors import ExportError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PIECES = "pieces"
_MADE = "made-"
"""Begins the names of files in the making, which nothing is read from later."""
_HELD = "another pull into this target is at work (it has {} open); run this again when that has ended"
_NO_LOCKS = "the file system of {} refuses locks; write to a local disk, and move the file"
_OF_LOCKING = dict.fromkeys((errno.EAGAIN, errno.EACCES, errno.EDEADLK), _HELD)
_OF_LOCKING |= dict.fromkeys((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL), _NO_LOCKS)
_START_OVER = "start over with restart=True, which drops it"
_TRIES = 20
R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")
_MAGIC = b"SEOR"
_HEAD = struct.Struct("<4sIQI")
_CHUNK = 1 << 20
_RECENT = 8


class DamagedError(Exception):
    """What is stored is not what was written."""


class Recent(OrderedDict[K, V]):
    """The values that were read last: neighbours are read together."""

    def __init__(self, read: Callable[[K], V]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, key: K) -> V:
        if len(self) >= _RECENT:
            self.popitem(last=False)
        found = self[key] = self._read(key)
        return found


class _Block(NamedTuple):
    """The place of a record, offset and size, where its block ends, and the CRC of all records until here."""

    record: int
    size: int
    end: int
    checksum: int


class BlockFile(Generic[R]):
    """The file, open and locked; `kind` is the type of the records, each with a list of `pieces`: (size, CRC-32)."""

    def __init__(self, file: Path, kind: type[R]) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        self._file = os.fdopen(os.open(file, flags, 0o600), "r+b", buffering=0)
        self.descriptor: int = self._file.fileno()
        try:
            lock(self.descriptor)
        except OSError:
            self.close()
            raise
        self._decode = msgspec.json.Decoder(kind).decode
        self._encode = msgspec.json.Encoder().encode
        self._blocks: list[_Block] = []
        self._end = self._checksum = 0
        self.recent: Recent[int, R] = Recent(self._record)
        """The records of blocks, by their numbers."""

    def load(self) -> Iterator[R]:
        """Yield the records of all blocks, in order; DamagedError: a block is not as it was written."""
        size = os.fstat(self._file.fileno()).st_size
        while self._end < size and (record := self._load_block(size)) is not None:
            yield record
        self._file.truncate(self._end)

    def _load_block(self, size: int) -> R | None:
        """Return the record of the next block, or None if a crash cut it off."""
        head = self._read(self._end, min(_HEAD.size, size - self._end))
        if len(head) < _HEAD.size:
            return None
        magic, length, pieces, checksum = _HEAD.unpack(head)
        start = self._end + _HEAD.size
        place = _Block(start, length, start + length + pieces, checksum)
        if magic == _MAGIC and place.end <= size:
            text = self._read(place.record, length)
            if zlib.crc32(text, self._checksum) == checksum:
                record: Any = self._decode(text)
                if all(self._piece(place, record, number) is not None for number in range(len(record.pieces))):
                    self._note(place)
                    return cast(R, record)
        chunks = (self._read(at, _CHUNK) for at in range(self._end, size, _CHUNK))
        if (magic == _MAGIC and place.end >= size) or not any(map(any, chunks)):
            return None  # the last block, or a place that was reserved for it
        raise DamagedError(f"block {len(self._blocks) + 1} is not as it was written")

    def _note(self, place: _Block) -> None:
        self._blocks.append(place)
        self._end, self._checksum = place.end, place.checksum

    def append(self, record: Any, pieces: Sequence[bytes] = ()) -> int:
        """Append a block, sync it, and return its number; after an error, the file is as it was."""
        record.pieces = [(len(data), zlib.crc32(data)) for data in pieces]
        text = self._encode(record)
        checksum, held, start = zlib.crc32(text, self._checksum), sum(map(len, pieces)), self._end + _HEAD.size
        try:
            self._file.seek(self._end)
            for data in (_HEAD.pack(_MAGIC, len(text), held, checksum), text, *pieces):
                rest = memoryview(data)
                while rest:
                    rest = rest[self._file.write(rest) or 0 :]
            os.fsync(self._file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            raise
        self._note(_Block(start, len(text), start + len(text) + held, checksum))
        return len(self._blocks) - 1

    def _record(self, block: int) -> R:
        place = self._blocks[block]
        text = self._read(place.record, place.size)
        if zlib.crc32(text, self._blocks[block - 1].checksum if block else 0) != place.checksum:
            raise DamagedError(f"block {block + 1} is not as it was written")
        return self._decode(text)

    def read(self, block: int, number: int) -> bytes:
        """Return a piece of a block; DamagedError: it is not as it was written."""
        data = self._piece(self._blocks[block], self.recent[block], number)
        if data is None:
            raise DamagedError(f"a piece of block {block + 1} is not as it was written")
        return data

    def _piece(self, place: _Block, record: Any, number: int) -> bytes | None:
        """Return a piece, or None if it is not as it was written."""
        size, checksum = record.pieces[number]
        data = self._read(place.record + place.size + sum(size for size, _ in record.pieces[:number]), size)
        return data if len(data) == size and zlib.crc32(data) == checksum else None

    def _read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        return self._file.read(size) or b""

    def clear(self) -> None:
        """Drop everything, unread."""
        self._file.truncate(0)
        self._blocks, self._end, self._checksum = [], 0, 0
        self.recent.clear()

    def close(self) -> None:
        self._file.close()


def lock(descriptor: int) -> None:
    """Lock an open file until it is closed; BlockingIOError or PermissionError: another pull has it."""
    if sys.platform == "win32":
        os.lseek(descriptor, 1 << 62, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


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


def remove_rest(folder: Path) -> None:
    """Remove a folder once it is closed, unless another pull has begun in it."""
    if os.name == "nt":
        shutil.rmtree(folder, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            folder.rmdir()


def made(folder: Path, name: str) -> Path:
    """Return the path of a file in the making."""
    return folder / f"{_MADE}{name}"


def make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise ExportError(f"{folder} is a link or a file; remove it, and run this again", file=folder)
    if sys.platform != "win32" and (found.st_uid != os.getuid() or found.st_mode & 0o077):
        problem = f"the staging folder {folder} is another user's, or open to others"
        raise ExportError(f"{problem}; remove it, and run this again", file=folder)


def locked(path: Path, kind: type[R]) -> BlockFile[R]:
    """Open and lock the file; again, if the pull that had it removed it meanwhile."""
    for _ in range(_TRIES):
        try:
            file = BlockFile(path, kind)
        except OSError as error:
            problem = _OF_LOCKING.get(error.errno or 0) if error.filename is None else None
            if error.errno == errno.ELOOP:
                problem = "{0}/pieces is a link; remove it, and run this again"
            if problem is not None:
                raise ExportError(problem.format(path.parent), file=path.parent) from error
            if error.errno != errno.ENOENT:
                raise
            path.parent.mkdir(mode=0o700, exist_ok=True)
            continue
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(file.descriptor), os.lstat(path)):
                return file
        file.close()
    raise ExportError(_HELD.format(path.parent), file=path.parent)


def drop_leftovers(folder: Path, *, restart: bool) -> None:
    """Remove files in the making; what no pull of this version made is refused, or removed by `restart`."""
    for path in folder.iterdir():
        if path.name == PIECES:
            continue
        if not restart and not path.name.startswith(_MADE):
            problem = f"{folder} has reports that another version of seorep staged ({path.name})"
            raise ExportError(f"{problem}; {_START_OVER}", file=folder)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
