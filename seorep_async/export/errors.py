"""The one error of exporting: something could not be written or read here, whatever the service answered."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from seorep_async.errors import SeoRepError


class ExportError(SeoRepError):
    """A target, or the work kept beside it, could not be written or read; nothing has changed in the target's place.

    The disk is full, the folder read-only, the target open elsewhere, another pull at work on it. What came is kept
    where that was possible: the same pull, run again, goes on from there.

    Attributes:
        file: what could not be written, or None.
    """

    file: Path | None = None


def export_error(file: Path, problem: str) -> ExportError:
    """Return the error that says what is wrong with a file."""
    error = ExportError(f"can't write {file}: {problem}")
    error.file = file
    return error


@contextlib.contextmanager
def told_as_export_errors(file: Path) -> Iterator[None]:
    """Turn what the system raises while a file is written into an `ExportError` that names the file."""
    try:
        yield
    except OSError as error:
        raise export_error(file, reason(error)) from error
    except sqlite3.Error as error:
        raise export_error(file, f"{error}") from error


def reason(error: OSError | ValueError) -> str:
    """Return why the system refused, in its own words."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or os.strerror(error.errno)
    return str(error)
