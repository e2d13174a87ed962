"""The storage of finished files: a local folder, or an object store; a file exists whole, or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from seorep_async.errors import ConfigurationError
from seorep_async.export.atomic_replace import resolve
from seorep_async.export.local_folder import LocalFolder
from seorep_async.export.object_store import ObjectStore

T = TypeVar("T")

RECEIPTS = "_receipts"
"""The folder of a dataset's receipts. It stands apart from the tables, as polars refuses JSON beside Parquet."""
_PARALLEL = 8
_OPTION_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Storage(Protocol):
    """A place for files under names such as `totals/part-00000.parquet`."""

    def address(self, name: str = "") -> str:
        """Return the address of a file, for messages and for readers."""

    def put(self, file: Path, name: str) -> None:
        """Put a finished local file under a name, in one step; it may be moved.

        After an ExportError, an older file is unchanged. So for the other methods.
        """

    def write(self, name: str, data: bytes) -> None:
        """Put a few bytes under a name, in one step."""

    def exchange(self, name: str, old: bytes | None, new: bytes) -> bool:
        """Replace the few bytes of a file in one step, and return True, or False if they are no longer the old ones.

        `old` is None if the file must not exist; no file of that name may ever have had the bytes `new`.
        """

    def read(self, name: str, most: int | None = None) -> bytes | None:
        """Return a file's bytes, but at most the first `most`, or None if there is no file."""

    def inspect(self, name: str, look: Callable[[BinaryIO], T]) -> T | None:
        """Return the result of a look into a file, of which no more is read, or None if there is no file."""

    def names(self, folder: str) -> list[str]:
        """Return the names of all files in a folder and its folders, sorted; none if there is no such folder."""

    def move(self, source: str, name: str) -> None:
        """Give a file another name; it appears there in one step."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; files that do not exist are no error."""


def is_address(out: object) -> bool:
    """Return whether a target is in an object store."""
    return isinstance(out, str) and "://" in out


def check_options(options: object) -> dict[str, str | bool]:
    """Return a copy of options of an object store, or refuse what does not map names to strings and switches."""
    if not isinstance(options, Mapping) or not all(
        isinstance(name, str) and _OPTION_NAME.fullmatch(name) and isinstance(value, str | bool)
        for name, value in options.items()
    ):
        problem = "storage_options must be a mapping of option names to strings"
        raise ConfigurationError(problem, argument="storage_options")
    return dict(options)


def storage_of(out: str, options: Mapping[str, Any] | None = None) -> Storage:
    """Return the storage of a folder or of an address such as `s3://bucket/rankings/`.

    The options are obstore's, such as `region`, `endpoint` or `allow_http`; obstore reads missing ones from the
    environment.

    ConfigurationError: the address or an option is wrong; nothing was sent.
    """
    options = {} if options is None else check_options(options)
    if is_address(out):
        return ObjectStore(out, options)
    if options:
        problem = "storage_options are for object stores; the target is a local path"
        raise ConfigurationError(problem, argument="storage_options")
    return LocalFolder(resolve(Path(out)))


def each(step: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> list[T]:
    """Call a step of a storage for many files, some at a time, and return the results; the first error is raised."""
    with ThreadPoolExecutor(_PARALLEL, "seorep-storage") as threads:
        return [done.result() for done in [threads.submit(step, *one) for one in arguments]]
