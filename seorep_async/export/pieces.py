"""The staging file of an export. Blocks are appended to it, each with an index of its pieces.

A block is written in one step, and synced before the next one begins:

    head     20 bytes: the index's length, the length of all pieces, the index's checksum, then a
             checksum of these 16 bytes
    index    JSON, a `BlockIndex`: which reports are in the block, and where in its pieces
    pieces   bytes, one piece after the other; a `Format` encoded them

A crash can therefore damage only the last block. When the file is opened, everything is checked:

- The head ends with its own checksum, so its lengths can be trusted.
- The checksum of an index continues from the checksum of the previous index. A block that is
  missing, repeated or from another file is therefore noticed.
- An index has the checksum of each piece.

If the last block is incomplete or has a damaged index or piece, it is dropped, and its reports are
fetched again. Zeros at the end of the file are also dropped. Any other damage is a `DamagedError`.
The file is locked as long as it is open, so only one pull at a time can use it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
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
"""The name of the file in its folder."""
RECENT = 8
"""The number of cached indexes, and of cached pieces. A few suffice, because neighbouring reports
are often in the same piece.
"""
UNFINISHED = "made-"
"""The prefix of the names of unfinished files, which no later pull reads."""
_FAR_BYTE = 1 << 62
"""The byte that is locked on Windows, far past the end, because a locked byte can't be read."""
_READ_BYTES = 1 << 20
_HEAD = struct.Struct("<IQI")
_HEAD_CHECKSUM = struct.Struct("<I")
_HEAD_SIZE = _HEAD.size + _HEAD_CHECKSUM.size
_IN_USE = (
    "another pull into this target is running (it has {} open, and last wrote to it at "
    "{:%Y-%m-%d %H:%M} UTC); run this again when it has finished"
)
_ELSEWHERE = "write to a local disk, and move the file"
_NO_LOCKS = f"the file system of {{}} refuses locks; {_ELSEWHERE}"
_REMOVE = "remove it, and run this again"
_LOCKED_OR_REMOVED = (errno.EAGAIN, errno.EACCES, errno.EDEADLK, errno.ENOENT)
"""The errors if another pull has the lock, or has removed the file in the meantime."""


class Record(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A report in a block.

    Attributes:
        ids: the campaign, and the keyword if it is a keyword's report.
        piece: the number of the piece with the report's rows, from 0.
        first, size: the report's slice of the piece, in bytes or rows.
        rows: the number of the report's rows.
        totals: the values of its totals, or None.
        keywords: the ids of the campaign's keywords, if `keyword-by-date` is requested.
    """

    ids: tuple[int, ...]
    piece: int
    first: int
    size: int
    rows: int
    totals: tuple[Any, ...] | None = None
    keywords: tuple[int, ...] = ()


class StagedFailure(msgspec.Struct, frozen=True, array_like=True):
    """The reason why a report is missing.

    `ids` identify the report, as in `Record`. They are empty if the list of campaigns could not be
    fetched.
    """

    ids: tuple[int, ...]
    error: str
    message: str
    status: int | None
    attempts: int | None

    @classmethod
    def of(cls, ids: tuple[int, ...], error: SeoRepError) -> StagedFailure:
        return cls(ids, type(error).__name__, error.message, error.status, error.attempts)

    @property
    def facts(self) -> tuple[str, str, int | None, int | None]:
        """The last four columns of the table `failures`."""
        return self.error, self.message, self.status, self.attempts


class BlockIndex(msgspec.Struct, omit_defaults=True):
    """The index of a block.

    Attributes:
        pieces: the size and the checksum of each piece.
        records, failures: reports that arrived and reports that failed, by the name of their table.
        request, plan: the pull's request and plan, only in the block that lists its campaigns.
        ended: whether the pull has ended with failures, so that only `retry_failed` resumes it.
    """

    pieces: list[tuple[int, int]] = []
    records: dict[str, list[Record]] = {}
    failures: dict[str, list[StagedFailure]] = {}
    request: ExportRequest | None = None
    plan: Plan | None = None
    ended: bool = False


class DamagedError(Exception):
    """Stored bytes differ from what was written."""


class _Position(NamedTuple):
    """The position of a block. `checksum` covers all indexes up to and including its own."""

    index_start: int = 0
    index_size: int = 0
    end: int = 0
    checksum: int = 0


_decode_index = msgspec.json.Decoder(BlockIndex).decode
"""Created at import, because a decoder created under freezegun would expect fake dates."""


class BlockFile:
    """The open, locked file. Blocks are numbered from 1, the pieces of a block from 0."""

    def __init__(self, file: Path) -> None:
        # without O_BINARY, which only Windows has, Windows would change line endings
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._file = os.fdopen(os.open(file, flags, 0o600), "r+b", buffering=0)
        self._path = file
        # the first position stands for the beginning of the file
        self._positions = [_Position()]
        self._cached_index = lru_cache(RECENT)(self._read_index)
        changed_at = dt.datetime.fromtimestamp(os.fstat(self._file.fileno()).st_mtime, dt.UTC)
        refusal = ExportError(_IN_USE.format(file.parent, changed_at), file=file, retryable=True)
        try:
            self._lock()
            # another pull may have removed the file between its opening and the lock
            if os.path.samestat(os.fstat(self._file.fileno()), os.lstat(file)):
                return
        except OSError as error:
            if error.errno not in _LOCKED_OR_REMOVED:
                refusal = ExportError(_NO_LOCKS.format(file.parent), file=file)
        # the lock was refused, or the locked file was removed
        self._file.close()
        raise refusal

    def _lock(self) -> None:
        if sys.platform == "win32":
            self._file.seek(_FAR_BYTE)
            msvcrt.locking(self._file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def load(self) -> Iterator[BlockIndex]:
        """Check the whole file, and yield the index of each block.

        The damage that a crash can leave at the end is removed.

        Raises:
            DamagedError: there is other damage.
        """
        size = os.fstat(self._file.fileno()).st_size
        while self._positions[-1].end < size:
            start = self._positions[-1].end
            # an incomplete head is padded, which makes its checksum wrong
            head = self._read(start, _HEAD_SIZE).ljust(_HEAD_SIZE, b"\0")
            index_size, pieces_size, checksum = _HEAD.unpack_from(head)
            is_head = head.endswith(_HEAD_CHECKSUM.pack(zlib.crc32(head[: _HEAD.size])))
            index_start = start + _HEAD_SIZE
            end = index_start + index_size + pieces_size
            number = len(self._positions)
            # added before the checks, because `index` and `read_piece` need the position
            self._positions.append(_Position(index_start, index_size, end, checksum))
            try:
                if not is_head or end > size:
                    raise DamagedError(f"block {number} has changed since it was written")
                index = self.index(number)
                self._check_pieces(number, index)
            except DamagedError:
                self._positions.pop()
                # the next block gets the same number, so the cached index would be wrong
                self._cached_index.cache_clear()
                # A crash leaves either an incomplete head, or a complete head whose block is cut
                # short or damaged. In both cases nothing follows.
                is_last = index_start > size or (is_head and end >= size)
                # a crash may also leave zeros, in space that was reserved but not written
                if not is_last and not self._is_zero(start, size):
                    raise
                self._file.truncate(start)
                return
            yield index

    def _check_pieces(self, number: int, index: BlockIndex) -> None:
        for piece, (_, checksum) in enumerate(index.pieces):
            if zlib.crc32(self.read_piece(number, piece)) != checksum:
                raise DamagedError(f"a piece of block {number} has changed since it was written")

    def _is_zero(self, start: int, end: int) -> bool:
        # `any` finds a byte that is not zero
        return not any(any(self._read(at, _READ_BYTES)) for at in range(start, end, _READ_BYTES))

    def append(self, index: BlockIndex, pieces: Sequence[bytes] = ()) -> int:
        """Append a block, sync it, and return its number.

        The sizes and checksums of the pieces are stored in `index`. After an error, the file is cut
        to its earlier length if possible.
        """
        index.pieces = [(len(piece), zlib.crc32(piece)) for piece in pieces]
        encoded_index = msgspec.json.encode(index)
        last = self._positions[-1]
        checksum = zlib.crc32(encoded_index, last.checksum)
        head = _HEAD.pack(len(encoded_index), sum(map(len, pieces)), checksum)
        head += _HEAD_CHECKSUM.pack(zlib.crc32(head))
        # written and synced at once, so a crash can leave only a part of this block
        data = b"".join((head, encoded_index, *pieces))
        try:
            self._file.seek(last.end)
            remaining = memoryview(data)
            # an unbuffered file may write only a part of the data
            while remaining:
                remaining = remaining[self._file.write(remaining) :]
            os.fsync(self._file.fileno())
        except BaseException:
            # otherwise, after an error such as a full disk, the next block would follow a part of
            # this one
            with contextlib.suppress(OSError):
                self._file.truncate(last.end)
            raise
        position = _Position(
            last.end + len(head), len(encoded_index), last.end + len(data), checksum
        )
        self._positions.append(position)
        # position 0 is the beginning of the file, so blocks count from 1
        return len(self._positions) - 1

    def index(self, number: int) -> BlockIndex:
        """Return the index of a block. If its bytes have changed, raise a DamagedError."""
        return self._cached_index(number)

    def _read_index(self, number: int) -> BlockIndex:
        """Read and check the index of a block, which `_cached_index` then remembers."""
        position = self._positions[number]
        index = self._read(position.index_start, position.index_size)
        # each checksum continues the checksum of the previous block
        if zlib.crc32(index, self._positions[number - 1].checksum) != position.checksum:
            raise DamagedError(f"block {number} has changed since it was written")
        return _decode_index(index)

    def read_piece(self, number: int, piece: int) -> bytes:
        """Return a piece of a block."""
        sizes = [size for size, _ in self.index(number).pieces]
        position = self._positions[number]
        start = position.index_start + position.index_size + sum(sizes[:piece])
        return self._read(start, sizes[piece])

    def _read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        return self._file.read(size)

    def clear(self) -> None:
        """Remove all blocks without reading them."""
        self._file.truncate(0)
        # the next block gets number 1 again, and the cache would return the old one
        self._positions = [_Position()]
        self._cached_index.cache_clear()

    def close(self) -> None:
        """Close the file. If it is empty, remove it and its folder."""
        with self._file:
            is_empty = not os.fstat(self._file.fileno()).st_size
            # removed before the lock is released, because another pull may use the file afterwards
            if is_empty and os.name != "nt":
                self._path.unlink(missing_ok=True)
            # a process that was forked meanwhile has the file open as well, and would keep the lock
            if sys.platform != "win32":
                fcntl.flock(self._file, fcntl.LOCK_UN)
        if not is_empty:
            return
        # `rmdir` fails if another pull already uses the folder
        with contextlib.suppress(OSError):
            # Windows can't remove open files
            if os.name == "nt":
                self._path.unlink()
            self._path.parent.rmdir()


def opened_in(folder: Path) -> BlockFile:
    """Create the private folder if it is missing, and open its file.

    Raises:
        ExportError: the folder is not private, or another pull has the file open.
    """
    # try again once: another pull that ends may remove the folder after this one has found it
    with contextlib.suppress(FileNotFoundError):
        return _opened_at_once(folder)
    return _opened_at_once(folder)


def _opened_at_once(folder: Path) -> BlockFile:
    """Open a folder's file as `opened_in` does, without a second try.

    A FileNotFoundError may mean that another pull removed the folder.
    """
    # `exist_ok` would raise this error for a file or a dangling link, whose message comes below
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise ExportError(f"{folder} is a link or a file; {_REMOVE}", file=folder)
    if sys.platform != "win32" and (status.st_uid != os.getuid() or status.st_mode & 0o077):
        raise ExportError(
            f"the staging folder {folder} belongs to another user, or others can open it; "
            f"{_REMOVE}. If its file system has no private folders, {_ELSEWHERE}",
            file=folder,
        )
    return BlockFile(folder / PIECES)


def drop_staged(folder: Path) -> None:
    """Remove a staging folder without reading its reports.

    Raises:
        ExportError: the folder is not private, or another pull has the file open.
    """
    if not os.path.lexists(folder):
        return
    # opened to lock it: this fails while a pull is running
    file = opened_in(folder)
    try:
        drop_unfinished(folder)
        file.clear()
    finally:
        # removes the file, which is empty now, and its folder
        file.close()


def drop_unfinished(folder: Path) -> None:
    """Remove the unfinished files of a killed run."""
    for path in folder.glob(f"{UNFINISHED}*"):
        # if this is a link, remove only the link, not the folder behind it
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextlib.contextmanager
def as_export_errors(folder: Path) -> Iterator[None]:
    """Turn an error of the staging folder into an ExportError that says what to do."""
    try:
        yield
    except (DamagedError, msgspec.MsgspecError) as error:
        raise ExportError(
            f"the reports staged in {folder} are damaged, or from another version ({error}); start "
            "over with restart=True, which drops them",
            file=folder,
        ) from error
    except OSError as error:
        # an error about an open file, such as a full disk, has no file name
        path = Path(error.filename) if isinstance(error.filename, str) else folder
        problem = f"can't read or write {path}: {error.strerror or error}"
        if error.errno == errno.ENOSPC:
            problem += "; free some space, and run this again: staged reports are kept"
        raise ExportError(problem, file=path) from error


def unfinished_path(folder: Path, name: str) -> Path:
    """Return the path of an unfinished file."""
    return folder / f"{UNFINISHED}{name}"
