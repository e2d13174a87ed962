"""What the system refuses as a file is written, told as an `ExportError`."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from seorep_async.errors import ExportError, SeoRepError

UNSTORABLE = (OverflowError, RecursionError, ValueError)
"""What a format or a database raises for a value that it can't hold."""


def export_error(file: Path, problem: str) -> ExportError:
    """Return the error that says what is wrong with a file."""
    return ExportError(f"can't write {file}: {problem}", file=file)


@contextlib.contextmanager
def translate_errors(file: Path) -> Iterator[None]:
    """Turn what is raised while a file is written into an `ExportError` that names the file; our own errors stay."""
    try:
        yield
    except SeoRepError:
        raise
    except OSError as error:
        raise export_error(file, reason(error)) from error
    except sqlite3.Error as error:
        raise export_error(file, f"{error}") from error
    except UNSTORABLE as error:
        raise export_error(file, str(error)) from error


def reason(error: OSError | ValueError) -> str:
    """Return why the system refused, in its own words."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or os.strerror(error.errno)
    return str(error)
