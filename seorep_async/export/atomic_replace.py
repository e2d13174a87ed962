"""Files that appear at their places whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from seorep_async.export.errors import export_error, translate_errors


def atomic_replace(made: Path, target: Path) -> None:
    """Make a finished file durable, and put it at its place in one step; what was there keeps its permissions.

    A link is followed, also to another disk.

    Raises:
        ExportError: that was not possible; nothing has changed in the target's place.
    """
    place = followed(target)
    with translate_errors(target), contextlib.ExitStack() as cleaning:
        if made.stat().st_dev != place.parent.stat().st_dev:
            near = place.with_name(f".{place.name[-100:]}.pull.new")
            cleaning.callback(near.unlink, missing_ok=True)
            shutil.move(made, near)
            made = near
        with open(made, "rb+") as file:
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):  # none was there, or the file system has no permissions to keep
            made.chmod(place.stat().st_mode & 0o7777)
        try:
            os.replace(made, place)
        except PermissionError as error:
            # a system that locks open files says so like this
            raise export_error(target, f"{error.strerror}; is it open in another program?") from error
        _sync_folder(place.parent)


def followed(path: Path) -> Path:
    """Return where a path leads, if it is a link."""
    return Path(os.path.realpath(path))


@contextlib.contextmanager
def temporary_file(path: Path, target: Path) -> Iterator[Path]:
    """Give the path of a file to make, which is gone after an error; errors are told as the target's."""
    try:
        with translate_errors(target):
            yield path
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
