"""Files in a folder of this machine, as `Storage` describes them; no link below the folder is followed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Generator, Iterable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, TypeVar

import attrs

from seorep_async.errors import ExportError
from seorep_async.old_export.atomic_replace import export_error, os_message, translate_errors

T = TypeVar("T")

STAGING = "_staging"
"""The folder of a dataset for files in the making; readers of tables never open it."""
_NEXT = "next"
_IN_PLACE_OF_RECEIPT = re.compile(r"snapshot_date=.*\.json")
"""The name of a folder that is listed as a file, so that reading it is an error."""
_HAS_DESCRIPTORS = {os.open, os.mkdir, os.stat, os.unlink, os.rename, os.rmdir} <= os.supports_dir_fd
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_OPEN_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_OPEN_FILE = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | _NO_LINK
_CREATE_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | _NO_LINK
_TRIES = 20
_REPARSE_POINT = 0x400  # of Windows: a link, a junction


@attrs.frozen
class _Place:
    """A name in an open folder, in the form for system calls: a path and no folder where a call takes no folder."""

    path: Path
    name: str
    folder: int | None
    verb: str = "write"

    def inside(self, name: str, folder: int | None) -> _Place:
        path = self.path / name
        return _Place(path, str(path) if folder is None else name, folder, self.verb)

    def refuse_link(self, *, or_other: bool = False) -> None:
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode) or getattr(found, "st_file_attributes", 0) & _REPARSE_POINT:
                problem = "it is a link, and a dataset has no links below its folder; remove it"
                raise export_error(self.path, problem, self.verb)
            if or_other and not stat.S_ISREG(found.st_mode):
                raise export_error(self.path, "it is not a regular file; delete it", self.verb)

    def open(self, flags: int) -> int:
        try:
            return os.open(self.name, flags, 0o666, dir_fd=self.folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                self.refuse_link()
            raise

    def replace_by(self, other: _Place) -> None:
        """Move another file here, in one step."""
        other.refuse_link(or_other=True)
        self.refuse_link(or_other=True)
        try:
            os.replace(other.name, self.name, src_dir_fd=other.folder, dst_dir_fd=self.folder)
        except PermissionError as error:  # some systems report an open file like this
            raise export_error(self.path, f"{error.strerror}; is it open in another program?") from error
        self.sync_folder()

    def take_in(self, beside: str) -> bool:
        """Move the folder beside this place here, in one step; return False if one with files is here."""
        with contextlib.suppress(OSError):  # not every system replaces an empty folder
            os.rmdir(self.name, dir_fd=self.folder)
        other = beside if self.folder is not None else str(self.path.with_name(beside))
        try:
            os.rename(other, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            return False
        self.sync_folder()
        return True

    def sync_folder(self) -> None:
        """Make the names in its folder durable, where the system can."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                os.fsync(self.folder)


class LocalFolder:
    """A folder of this machine, or of a mounted disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def address(self, name: str = "") -> str:
        return str(self._root / name)

    def put(self, file: Path, name: str) -> None:
        with translate_errors(file), open(file, "rb+") as opened:
            os.fsync(opened.fileno())
        try:
            self._publish(_Place(file, str(file), None), name)
            return
        except ExportError as error:
            if not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.EXDEV:
                raise
        # readers would see a copy beside the target
        with open(file, "rb") as source, self._temporary(lambda copy: shutil.copyfileobj(source, copy)) as near:
            self._publish(near, name)
        file.unlink()

    def write(self, name: str, data: bytes) -> None:
        with self._temporary(lambda file: file.write(data)) as near:
            self._publish(near, name)

    def exchange(self, name: str, old: bytes | None, new: bytes) -> bool:
        # the next contents of a file stand in a folder named after its contents now, and any writer that finds them
        # publishes them: so there is one successor, and a delayed writer is too late for the last step; that folder
        # appears with the whole file in it, and as long as it holds one, no other takes its place
        mark = hashlib.sha256(b"%b\0%b" % (name.encode(), b"" if old is None else b"\1" + old)).hexdigest()
        successor = f"{STAGING}/{mark}.next"
        if self.read(name) != old:
            return False
        with self._temporary(lambda file: file.write(new), f"/{_NEXT}") as near, self._at(successor) as folder:
            is_ours = folder.take_in(near.path.parent.name)
            try:
                with self._at(f"{successor}/{_NEXT}") as found:
                    if self.read(name) == old:
                        self._publish(found, name)
                    elif is_ours:
                        os.unlink(found.name, dir_fd=found.folder)
                        is_ours = False
            except (FileNotFoundError, NotADirectoryError):  # another writer has published it, unless nobody has
                if self.read(name) == old:
                    raise export_error(folder.path, "no pull wrote it; delete it") from None
            with contextlib.suppress(OSError):
                os.rmdir(folder.name, dir_fd=folder.folder)
            return is_ours

    def read(self, name: str, most: int | None = None) -> bytes | None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._at(name, verb="read") as place:
            place.refuse_link(or_other=True)
            with open(place.open(_OPEN_FILE), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                return file.read(size if most is None else min(size, most))
        return None

    def inspect(self, name: str, look: Callable[[BinaryIO], T]) -> T | None:
        data = self.read(name)
        return None if data is None else look(BytesIO(data))

    def names(self, folder: str) -> list[str]:
        found: list[str] = []
        prefix = f"{folder.rstrip('/')}/" if folder else ""
        any_file = f"{prefix}any"
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._at(any_file, verb="read") as place:
            _collect(place.folder, place.path.parent, prefix, found)
        return sorted(found)

    def move(self, source: str, name: str) -> None:
        try:
            with self._at(source) as staged:
                self._publish(staged, name)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise export_error(self._root / source, os_message(error)) from error

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                with self._at(name) as place:
                    place.refuse_link(or_other=True)
                    os.unlink(place.name, dir_fd=place.folder)
                while (name := name.rpartition("/")[0]) not in ("", STAGING):  # others put files there at any time
                    with self._at(name) as place, contextlib.suppress(OSError):  # it is not empty
                        os.rmdir(place.name, dir_fd=place.folder)

    def remove_empty_folders(self, folder: str) -> None:
        """Remove a folder and its folders as far as they hold no files."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._at(folder) as place:
            place.refuse_link()
            for inner, _, _ in os.walk(place.path, topdown=False):
                with contextlib.suppress(OSError):  # it is not empty
                    os.rmdir(inner)

    def _publish(self, file: _Place, name: str) -> None:
        """Move a file to its name in one step; a missing one is a `FileNotFoundError`."""
        for more in reversed(range(_TRIES)):
            try:
                with self._at(name, make=True) as place:
                    place.replace_by(file)
                return
            except ExportError as error:
                if not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError) or not more:
                    raise
            # another writer has deleted the folder, as it was empty still, unless the file is missing
            os.stat(file.name, dir_fd=file.folder, follow_symlinks=False)

    @contextlib.contextmanager
    def _at(self, name: str, *, make: bool = False, verb: str = "write") -> Generator[_Place]:
        """Open the folders of a name one after the other, or make them; a missing one is an `OSError`."""
        *folders, last = parts_of(name)
        opened: list[int] = []
        at = _Place(self._root, str(self._root), None, verb)
        try:
            if make:
                self._root.mkdir(parents=True, exist_ok=True)
            for one in (None, *folders):
                at = at if one is None else at.inside(one, opened[-1] if opened else None)
                if make and one is not None:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(at.name, dir_fd=at.folder)
                        at.sync_folder()
                if _HAS_DESCRIPTORS:
                    opened.append(at.open(_OPEN_FOLDER))
                else:
                    at.refuse_link()
            at = at.inside(last, opened[-1] if opened else None)
            yield at
        except (FileNotFoundError, NotADirectoryError) as error:
            if make:
                raise export_error(at.path, os_message(error)) from error
            raise
        except OSError as error:
            raise export_error(at.path, os_message(error), verb) from error
        finally:
            for folder in opened:
                os.close(folder)

    @contextlib.contextmanager
    def _temporary(self, fill: Callable[[BinaryIO], object], inside: str = "") -> Generator[_Place]:
        """Let `fill` write a file on the folder's disk, and delete it unless it was moved.

        `inside` is a slash and its name in a folder of its own; empty for none.
        """
        name = f"{STAGING}/{uuid.uuid4().hex}.tmp{inside}"
        with self._at(name, make=True) as near:
            try:
                with open(near.open(_CREATE_FILE), "wb") as file:
                    fill(file)
                    file.flush()
                    os.fsync(file.fileno())
                yield near
            finally:
                self.delete([name])


def parts_of(name: str) -> list[str]:
    """Return the folders and the file of a name; refuse one that might lead out of the dataset's folder."""
    parts = name.split("/")
    if {"", ".", ".."} & {*parts} or "\0" in name or (os.sep != "/" and re.search(r"[\\:]", name)):
        raise ExportError(f"{name[:200]!r} is no name of a file in a dataset")
    return parts


def _collect(folder: int | None, path: Path, prefix: str, found: list[str]) -> None:
    with os.scandir(path if folder is None else folder) as entries:
        for entry in entries:
            at = _Place(path, "", folder, "read").inside(entry.name, folder)
            if not entry.is_dir(follow_symlinks=False) or _IN_PLACE_OF_RECEIPT.fullmatch(entry.name):
                if entry.is_symlink():
                    at.refuse_link()
                found.append(f"{prefix}{entry.name}")
                continue
            inner = None
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                try:
                    at.refuse_link()
                    inner = at.open(_OPEN_FOLDER) if _HAS_DESCRIPTORS else None
                    _collect(inner, at.path, f"{prefix}{entry.name}/", found)
                finally:
                    if inner is not None:
                        os.close(inner)
