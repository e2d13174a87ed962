"""Where finished files go: a local folder, or an object store; a file exists whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from seorep_async.errors import ConfigurationError
from seorep_async.export.atomic_replace import atomic_replace, resolve, sync_folder, translate_errors
from seorep_async.export.object_store import ObjectStore

T = TypeVar("T")

RECEIPTS = "_receipts"
"""The folder of a dataset's receipts. It stands apart from the tables, as polars refuses JSON beside Parquet."""
STAGING = "_staging"
"""The folder of a dataset for files in the making; readers of tables never open it."""
_PARALLEL = 8


class Storage(Protocol):
    """A place for files under names such as `totals/part-00000.parquet`."""

    def address(self, name: str = "") -> str:
        """Return the address of a file, for messages and for readers."""

    def put(self, file: Path, name: str) -> None:
        """Put a finished local file under a name, in one step; it may be moved.

        Raises:
            ExportError: that was not possible; an older file is as it was. So for the other methods.
        """

    def write(self, name: str, data: bytes) -> None:
        """Put a few bytes under a name, in one step."""

    def create(self, name: str, data: bytes) -> bool:
        """Put a few bytes under a name, in one step, and return True, or False if a file of that name exists."""

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, or None if there is no file of that name."""

    def inspect(self, name: str, look: Callable[[BinaryIO], T]) -> T | None:
        """Return what is found by a look into a file, of which no more is read, or None if there is no such file."""

    def names(self, folder: str) -> list[str]:
        """Return the names of all files in a folder and its folders, sorted; none if there is no such folder."""

    def copy(self, source: str, name: str) -> None:
        """Put a file under a second name, in one step; the first stays."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; files that do not exist are no error."""


def is_address(out: object) -> bool:
    """Return whether a target is in an object store."""
    return isinstance(out, str) and "://" in out


def storage_of(out: str, options: Mapping[str, Any] | None = None) -> Storage:
    """Return the storage of a folder or of an address such as `s3://bucket/rankings/`.

    Args:
        out: the folder or address.
        options: of the object store, as obstore names them, such as `region`, `endpoint` or `allow_http`; what is not
            given is taken from the environment, as obstore does it.

    Raises:
        ConfigurationError: the address or an option is wrong; nothing was sent.
        ImportError: the extra `cloud` is missing.
    """
    if options is not None and not isinstance(options, Mapping):
        raise ConfigurationError("storage_options must be a mapping of option names to strings")
    if is_address(out):
        return ObjectStore(out, dict(options or {}))
    if options:
        raise ConfigurationError("storage_options are for object stores; the target is a local path")
    return LocalFolder(resolve(Path(out)))


def each(step: Any, arguments: Iterable[tuple[Any, ...]]) -> None:
    """Call a step of a storage for many files, some at a time; the first error is raised."""
    with ThreadPoolExecutor(_PARALLEL, "seorep-storage") as threads:
        for done in [threads.submit(step, *one) for one in arguments]:
            done.result()


class LocalFolder:
    """A folder on this machine, or one that it can reach."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def address(self, name: str = "") -> str:
        return str(self._root / name)

    def put(self, file: Path, name: str) -> None:
        path = self._path(name)
        with translate_errors(path):
            if file.stat().st_dev != path.parent.stat().st_dev:  # a copy beside the target would be seen by readers
                near = self._temporary()
                shutil.copyfile(file, near)
                file.unlink()
                file = near
        atomic_replace(file, path)

    def write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with translate_errors(path):
            near = self._temporary()
            near.write_bytes(data)
        atomic_replace(near, path)

    def create(self, name: str, data: bytes) -> bool:
        path = self._path(name)
        with translate_errors(path):
            near = self._temporary()
            near.write_bytes(data)
            try:
                os.link(near, path)  # unlike a rename, it replaces nothing
            except FileExistsError:
                return False
            except OSError:  # a file system without links
                try:
                    with open(path, "xb") as file:
                        file.write(data)
                except FileExistsError:
                    return False
            finally:
                near.unlink()
            sync_folder(path.parent)
        return True

    def read(self, name: str) -> bytes | None:
        path = self._root / name
        with translate_errors(path):
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def inspect(self, name: str, look: Callable[[BinaryIO], T]) -> T | None:
        data = self.read(name)
        return None if data is None else look(BytesIO(data))

    def names(self, folder: str) -> list[str]:
        with translate_errors(self._root / folder):
            files = [Path(where, name) for where, _, names in os.walk(self._root / folder) for name in names]
        return sorted(file.relative_to(self._root).as_posix() for file in files)

    def copy(self, source: str, name: str) -> None:
        path = self._path(name)
        with translate_errors(path):
            near = self._temporary()
            try:
                os.link(self._root / source, near)
            except FileNotFoundError:
                raise
            except OSError:  # a file system without links
                shutil.copyfile(self._root / source, near)
        atomic_replace(near, path)
        with contextlib.suppress(OSError):  # it stays if it is the same file already
            near.unlink()

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            path = self._root / name
            with translate_errors(path):
                path.unlink(missing_ok=True)
                for folder in list(path.relative_to(self._root).parents)[:-1]:
                    with contextlib.suppress(OSError):  # it is not empty
                        (self._root / folder).rmdir()

    def _path(self, name: str) -> Path:
        path = self._root / name
        with translate_errors(path):
            missing = [folder for folder in path.parents if not folder.is_dir()]
            path.parent.mkdir(parents=True, exist_ok=True)
            for folder in missing:
                sync_folder(folder.parent)
        return path

    def _temporary(self) -> Path:
        """Return the path for a file in the making, on the same disk as the root."""
        near = self._root / STAGING / f"{uuid.uuid4().hex}.tmp"
        near.parent.mkdir(parents=True, exist_ok=True)
        return near
