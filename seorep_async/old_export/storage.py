"""The storage of finished files: a local folder, or an object store; a file exists whole, or not at all."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar
from urllib.parse import urlsplit

from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.old_export.atomic_replace import os_message, resolve
from seorep_async.old_export.local_folder import LocalFolder, parts_of
from seorep_async.tables.optional import require

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


SCHEMES = ("s3", "gs", "az")
"""The beginnings of object stores' addresses."""
_CLIENT_OPTIONS = {
    *("allow_http", "allow_invalid_certificates", "connect_timeout", "default_headers", "pool_idle_timeout"),
    *("proxy_ca_certificate", "proxy_excludes", "proxy_url", "root_certificate", "timeout", "user_agent"),
}
_RETRIES = {"max_retries": 5}
_ONE_PUT = 64 << 20
"""Bytes of the largest file that is sent in one request; larger ones in chunks, which appear together."""
_CHUNK = 16 << 20
_PARALLEL_CHUNKS = 4


class ObjectStore:
    """A folder of an object store, as `Storage` describes it."""

    def __init__(self, out: str, options: dict[str, Any]) -> None:
        self._address = _checked_address(out)
        self._obstore = require("obstore")
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
        # outside the handler: the store's own error holds the options, and would be its context
        raise ConfigurationError(f"can't use {self._address}: {problem}", argument="out")

    def address(self, name: str = "") -> str:
        return f"{self._address.rstrip('/')}/{name}"

    def put(self, file: Path, name: str) -> None:
        def step() -> None:
            large = file.stat().st_size > _ONE_PUT
            self._obstore.put(
                self._store, name, file, use_multipart=large, chunk_size=_CHUNK, max_concurrency=_PARALLEL_CHUNKS
            )

        self._do(step, name)

    def write(self, name: str, data: bytes) -> None:
        self._do(lambda: self._obstore.put(self._store, name, data), name)

    def exchange(self, name: str, old: bytes | None, new: bytes) -> bool:
        known = self._obstore.exceptions

        def step() -> bool:
            mode: Any = "create"
            try:
                if old is not None:
                    found = self._obstore.get(self._store, name)
                    if found.meta["size"] != len(old) or bytes(found.bytes()) != old:
                        return False
                    mode = {key: found.meta[key] for key in ("e_tag", "version") if found.meta[key]}
                self._obstore.put(self._store, name, new, mode=mode)
            except (known.AlreadyExistsError, known.PreconditionError):
                return self.read(name, len(new) + 1) == new  # the response to a first attempt was lost
            return True

        return bool(self._do(step, name, may_be_missing=True))

    def read(self, name: str, most: int | None = None) -> bytes | None:
        def step() -> bytes:
            found = self._obstore.get(self._store, name)
            if most is not None and found.meta["size"] > most:
                return bytes(self._obstore.get_range(self._store, name, start=0, length=most))
            return bytes(found.bytes())

        return self._do(step, name, "read", may_be_missing=True)

    def inspect(self, name: str, look: Callable[[BinaryIO], T]) -> T | None:
        def step() -> T:
            with BufferedReader(_Reader(self._obstore.open_reader(self._store, name))) as opened:
                return look(opened)

        return self._do(step, name, "read", may_be_missing=True)

    def names(self, folder: str) -> list[str]:
        def step() -> list[str]:
            chunks = self._obstore.list(self._store, prefix=folder)
            return sorted(entry["path"] for chunk in chunks for entry in chunk)

        return self._do(step, folder, "read") or []

    def move(self, source: str, name: str) -> None:
        parts_of(source)
        self._do(lambda: self._obstore.copy(self._store, source, name), name)
        self.delete([source])

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._do(partial(self._obstore.delete, self._store, name), name, may_be_missing=True)

    def _do(self, step: Callable[[], T], name: str, verb: str = "write", *, may_be_missing: bool = False) -> T | None:
        """Do one step, and translate the store's errors into an `ExportError` of one line.

        It shows only their code and message, as their text holds addresses, which may be signed. For the same reason it
        is raised outside their handler: loggers show an error's context.
        """
        parts_of(name.rstrip("/") or "any")
        try:
            return step()
        except (self._obstore.exceptions.BaseError, OSError, ValueError) as error:
            # an object may be missing, though not its bucket
            known = _error_code(error) in (None, "NoSuchKey", "BlobNotFound")
            if may_be_missing and isinstance(error, FileNotFoundError) and known:
                return None
            problem = _in_words(error)
        raise ExportError(f"can't {verb} {self.address(name)}: {problem}")


class _Reader(RawIOBase):
    """An obstore reader with the interface of Python's own files."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._reader.read(len(buffer))
        except OSError as error:  # without a number it would pass for a file that pyarrow finds damaged
            number = errno.ENOENT if isinstance(error, FileNotFoundError) else errno.EIO
            raise OSError(number, os.strerror(number)) from error  # its own text holds an address, which may be signed
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._reader.seek(offset, whence))


def _checked_address(out: str) -> str:
    parts = urlsplit(out)
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        problem = f"a target in an object store begins with {known}; got {parts.scheme}://"
        raise ConfigurationError(problem, argument="out")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigurationError(
            "the address of a target must hold no credentials or parameters; give them as storage_options, or in the "
            "environment",
            argument="out",
        )
    if not parts.netloc or "//" in parts.path or {".", ".."} & set(parts.path.split("/")):
        raise ConfigurationError(f"{out} is not an address such as {parts.scheme}://bucket/rankings/", argument="out")
    return out


def _error_code(error: BaseException) -> str | None:
    found = re.search(r"<Code>([^<]{1,60})</Code>", str(error))
    return found and found[1]


def _in_words(error: BaseException) -> str:
    string = str(error)
    message = re.search(r"<Message>([^<]{1,200})", string)
    code = _error_code(error)
    if code or message:
        return ": ".join(part.strip() for part in (code, message and message[1].partition("\n")[0]) if part)
    if found := re.search(r"status code: (\d{3}[ \w]{0,40})", string):
        return f"the store answered {found[1].strip()}"
    if "BadScheme" in string:
        return "its endpoint is http://, which needs the option allow_http"
    if found := re.search(r'(?:message|error): "([^"]{1,100})"', string):
        return f"the store can't be reached ({found[1]})"
    if isinstance(error, OSError) and error.errno is not None:
        return os_message(error)
    return f"the store can't be reached ({type(error).__name__})"
