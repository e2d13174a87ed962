"""Where finished files go: a local folder, or an object store; a file is there whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export.atomic_replace import atomic_replace, reason, resolve, sync_folder, translate_errors
from seorep_async.tables.optional import require

T = TypeVar("T")

SCHEMES = ("s3", "gs", "az")
"""The object stores, as their addresses begin."""
RECEIPTS = "_receipts"
"""The folder of a dataset's receipts. It stands apart from the tables, as polars refuses JSON beside Parquet."""
STAGING = "_staging"
"""The folder of a dataset for files in the making; readers of tables never open it."""
_CLIENT_OPTIONS = {
    *("allow_http", "allow_invalid_certificates", "connect_timeout", "default_headers", "pool_idle_timeout"),
    *("proxy_ca_certificate", "proxy_excludes", "proxy_url", "root_certificate", "timeout", "user_agent"),
}
_RETRIES = {"max_retries": 5}
_ONE_PUT = 64 << 20
"""Bytes of the largest file that is sent in one request; larger ones in pieces, which appear together."""
_PIECE = 16 << 20
_PARALLEL = 8
_OPTION_NAME = re.compile(r"[a-z][a-z0-9_]*")


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
        """Put a few bytes under a name, in one step, unless a file of that name is there; return whether it was not."""

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, or None if there is no file of that name."""

    def names(self, folder: str) -> list[str]:
        """Return the names of all files in a folder and its folders, sorted; none if there is no such folder."""

    def copy(self, source: str, name: str) -> None:
        """Put a file under a second name, in one step; the first stays."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; those that are not there are no error."""


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
        return _ObjectStore(out, dict(options or {}))
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
        place = self._place(name)
        with translate_errors(place):
            if file.stat().st_dev != place.parent.stat().st_dev:  # a copy beside the target would be seen by readers
                near = self._temporary()
                shutil.copyfile(file, near)
                file.unlink()
                file = near
        atomic_replace(file, place)

    def write(self, name: str, data: bytes) -> None:
        place = self._place(name)
        with translate_errors(place):
            near = self._temporary()
            near.write_bytes(data)
        atomic_replace(near, place)

    def create(self, name: str, data: bytes) -> bool:
        place = self._place(name)
        with translate_errors(place):
            near = self._temporary()
            near.write_bytes(data)
            try:
                os.link(near, place)  # unlike a rename, it replaces nothing
            except FileExistsError:
                return False
            except OSError:  # a file system without links
                try:
                    with open(place, "xb") as file:
                        file.write(data)
                except FileExistsError:
                    return False
            finally:
                near.unlink()
            sync_folder(place.parent)
        return True

    def read(self, name: str) -> bytes | None:
        place = self._root / name
        with translate_errors(place):
            try:
                return place.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def names(self, folder: str) -> list[str]:
        with translate_errors(self._root / folder):
            files = [Path(where, name) for where, _, names in os.walk(self._root / folder) for name in names]
        return sorted(file.relative_to(self._root).as_posix() for file in files)

    def copy(self, source: str, name: str) -> None:
        place = self._place(name)
        with translate_errors(place):
            near = self._temporary()
            try:
                os.link(self._root / source, near)
            except FileNotFoundError:
                raise
            except OSError:  # a file system without links
                shutil.copyfile(self._root / source, near)
        atomic_replace(near, place)
        with contextlib.suppress(OSError):  # it stays if it is the same file already
            near.unlink()

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            place = self._root / name
            with translate_errors(place):
                place.unlink(missing_ok=True)
                for folder in list(place.relative_to(self._root).parents)[:-1]:
                    with contextlib.suppress(OSError):  # it is not empty
                        (self._root / folder).rmdir()

    def _place(self, name: str) -> Path:
        place = self._root / name
        with translate_errors(place):
            missing = [folder for folder in place.parents if not folder.is_dir()]
            place.parent.mkdir(parents=True, exist_ok=True)
            for folder in missing:
                sync_folder(folder.parent)
        return place

    def _temporary(self) -> Path:
        """Return the path for a file in the making, on the same disk as the root."""
        near = self._root / STAGING / f"{uuid.uuid4().hex}.tmp"
        near.parent.mkdir(parents=True, exist_ok=True)
        return near


class _ObjectStore:
    def __init__(self, out: str, options: dict[str, Any]) -> None:
        self._address = _checked_address(out)
        self._obstore = require("obstore")
        for name, value in options.items():
            if not isinstance(name, str) or not _OPTION_NAME.fullmatch(name) or not isinstance(value, str | bool):
                raise ConfigurationError("storage_options must be a mapping of option names to strings")
        secrets = {word for value in options.values() for word in re.findall(r"\w{4,}", str(value))}
        client = {name: options.pop(name) for name in sorted(_CLIENT_OPTIONS & options.keys())}
        try:
            self._store = require("obstore.store").from_url(
                self._address, client_options=client or None, retry_config=_RETRIES, **options
            )
            return
        except (OSError, TypeError, ValueError, self._obstore.exceptions.BaseError) as error:
            problem = str(error).partition("\n")[0]
        for word in sorted(secrets, key=len, reverse=True):
            problem = problem.replace(word, "…")
        # outside of the handler, as else the store's own error, which holds the options, would be its context
        raise ConfigurationError(f"can't use {self._address}: {problem}")

    def address(self, name: str = "") -> str:
        return f"{self._address.rstrip('/')}/{name}"

    def put(self, file: Path, name: str) -> None:
        def step() -> None:
            large = file.stat().st_size > _ONE_PUT
            self._obstore.put(
                self._store, name, file, use_multipart=large, chunk_size=_PIECE, max_concurrency=_PARALLEL // 2
            )

        self._do(step, name)

    def write(self, name: str, data: bytes) -> None:
        self._do(lambda: self._obstore.put(self._store, name, data), name)

    def create(self, name: str, data: bytes) -> bool:
        def step() -> bool:
            try:
                self._obstore.put(self._store, name, data, mode="create")
            except self._obstore.exceptions.AlreadyExistsError:
                return False
            return True

        return bool(self._do(step, name))

    def read(self, name: str) -> bytes | None:
        return self._do(lambda: bytes(self._obstore.get(self._store, name).bytes()), name, "read", may_be_missing=True)

    def names(self, folder: str) -> list[str]:
        def step() -> list[str]:
            pieces = self._obstore.list(self._store, prefix=folder)
            return sorted(entry["path"] for piece in pieces for entry in piece)

        return self._do(step, folder, "read") or []

    def copy(self, source: str, name: str) -> None:
        self._do(lambda: self._obstore.copy(self._store, source, name), name)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._do(partial(self._obstore.delete, self._store, name), name, may_be_missing=True)

    def _do(self, step: Callable[[], T], name: str, verb: str = "write", *, may_be_missing: bool = False) -> T | None:
        """Do one step, and translate the store's errors into an `ExportError` of one line.

        Nothing of their own text is shown but code and message: it holds addresses, which may be signed. Nor are they
        the context of the error, which loggers show, so it is raised outside of their handler.
        """
        try:
            return step()
        except (self._obstore.exceptions.BaseError, OSError, ValueError) as error:
            # an object may be missing, though not its bucket
            known = _error_code(error) in (None, "NoSuchKey", "BlobNotFound")
            if may_be_missing and isinstance(error, FileNotFoundError) and known:
                return None
            problem = _in_words(error)
        raise ExportError(f"can't {verb} {self.address(name)}: {problem}")


def _checked_address(out: str) -> str:
    parts = urlsplit(out)
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ConfigurationError(f"a target in an object store begins with {known}; got {parts.scheme}://")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigurationError(
            "the address of a target holds no credentials and no parameters; give them as storage_options, or in the "
            "environment"
        )
    if not parts.netloc or "//" in parts.path or {".", ".."} & set(parts.path.split("/")):
        raise ConfigurationError(f"{out} is not an address such as {parts.scheme}://bucket/rankings/")
    return out


def _error_code(error: BaseException) -> str | None:
    found = re.search(r"<Code>([^<]{1,60})</Code>", str(error))
    return found and found[1]


def _in_words(error: BaseException) -> str:
    text = str(error)
    message = re.search(r"<Message>([^<]{1,200})", text)
    code = _error_code(error)
    if code or message:
        return ": ".join(part.strip() for part in (code, message and message[1].partition("\n")[0]) if part)
    if found := re.search(r"status code: (\d{3}[ \w]{0,40})", text):
        return f"the store answered {found[1].strip()}"
    if "BadScheme" in text:
        return "its endpoint is http://, which needs the option allow_http"
    if found := re.search(r'(?:message|error): "([^"]{1,100})"', text):
        return f"the store can't be reached ({found[1]})"
    if isinstance(error, OSError) and error.errno is not None:
        return reason(error)
    return f"the store can't be reached ({type(error).__name__})"
