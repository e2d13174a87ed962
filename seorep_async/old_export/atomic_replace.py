"""Files that appear whole or not at all, and errors that name the file."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import uuid
from collections.abc import Generator
from pathlib import Path

from seorep_async.errors import ExportError, SeoRepError

UNSTORABLE = (OverflowError, RecursionError, ValueError)
"""Errors of a format or a database for a value that it can't hold."""


def atomic_replace(temporary: Path, target: Path) -> None:
    """Make a finished file durable, and move it to its target in one step, through a link too, also to another disk.

    The target's permissions stay. After an `ExportError` the target is unchanged.
    """
    path = resolve(target)
    with translate_errors(target), contextlib.ExitStack() as cleaning:
        if temporary.stat().st_dev != path.parent.stat().st_dev:
            near = path.with_name(f".{path.name[-50:]}.{uuid.uuid4().hex[:12]}.pull")
            cleaning.callback(near.unlink, missing_ok=True)
            with open(temporary, "rb") as source, open(near, "xb") as copy:  # "x" follows no link
                shutil.copyfileobj(source, copy)
            temporary.unlink()
            temporary = near
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):  # no file existed, or the file system has no permissions
            temporary.chmod(path.stat().st_mode & 0o7777)
        try:
            os.replace(temporary, path)
        except PermissionError as error:
            # some systems report an open file like this
            raise export_error(target, f"{error.strerror}; is it open in another program?") from error
        sync_folder(path.parent)


def resolve(path: Path) -> Path:
    """Return the path that a link leads to, or the path itself."""
    return Path(os.path.realpath(path))


def export_error(file: Path | str, problem: str, verb: str = "write") -> ExportError:
    return ExportError(f"can't {verb} {file}: {problem}", file=file if isinstance(file, Path) else None)


@contextlib.contextmanager
def translate_errors(file: Path) -> Generator[None, None, None]:
    """Translate OS and SQLite errors into an `ExportError` that names the file; our own errors pass."""
    try:
        yield
    except SeoRepError:
        raise
    except (OSError, sqlite3.Error, *UNSTORABLE) as error:
        raise export_error(file, os_message(error)) from error


def os_message(error: Exception) -> str:
    """Return an error's own words, or the system's for its number."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or os.strerror(error.errno)
    return str(error)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
