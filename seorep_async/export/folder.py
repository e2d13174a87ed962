"""The staging folder: private, made and opened for one pull at a time, and removed once the target is written."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export.formats import Format
from seorep_async.export.pieces import BlockFile, DamagedError
from seorep_async.export.request import Request
from seorep_async.export.staging import Block, Staging

PIECES = "pieces"
_MADE = "made-"
"""Begins the names of files in the making, which nothing is read from later."""
_HELD = "another pull into this target is at work (it has {} open); run this again when that has ended"
_NO_LOCKS = "the file system of {} refuses locks; write to a local disk, and move the file"
_START_OVER = "start over with restart=True, which drops it"
_TRIES = 20


@contextlib.contextmanager
def opened(
    folder: Path,
    format_: Format,
    *requests: Request,
    keeps_night: bool = False,
    restart: bool = False,
    retry_failed: bool = False,
    only_look: bool = False,
) -> Iterator[Staging]:
    """Open a folder, and go on with the pull staged in it if it has one of these requests, or else begin the last one.

    A pull that ended with failures is gone on with only by `retry_failed`; another unfinished one is refused;
    `only_look` leaves it as it is.

    Raises:
        ConfigurationError: an unfinished pull of another request is staged.
        ExportError: another pull is at work, what is staged is damaged or of another version, or can't be written.
    """
    with errors_of(folder), contextlib.ExitStack() as stack:
        _make_private(folder)
        file = _locked(folder / PIECES)
        stack.callback(file.close)
        _drop_leftovers(folder, restart=restart)
        staging = Staging(folder, format_, requests[-1], file)
        if restart:
            file.clear()
        else:
            staging.load()
        if not only_look and not restart:
            _resume(staging, file, requests, keeps_night, retry_failed)
        yield staging


def _resume(
    staging: Staging, file: BlockFile[Block], requests: tuple[Request, ...], keeps_night: bool, retry_failed: bool
) -> None:
    if staging.plan is None:
        file.clear()
        return
    found = [one.differences(staging.request, keeps_night=keeps_night) for one in requests]
    if all(found):
        if not staging.ended:
            problem = f"an unfinished pull is staged for this target, with {'; '.join(found[0])}"
            raise ConfigurationError(f"{problem}. Finish it with its own arguments, or drop it with restart=True")
    elif retry_failed or not staging.ended:
        return
    file.clear()
    staging.begin(requests[-1])


@contextlib.contextmanager
def errors_of(folder: Path) -> Iterator[None]:
    """Turn the errors of a staging folder into one ExportError each, which says what to do."""
    try:
        yield
    except (DamagedError, msgspec.MsgspecError) as error:
        problem = f"the reports staged in {folder} are damaged, or of another version ({error})"
        raise ExportError(f"{problem}; {_START_OVER}", file=folder) from error
    except OSError as error:
        where = Path(error.filename) if isinstance(error.filename, str) else folder
        raise ExportError(f"can't write {where}: {error.strerror or error}", file=where) from error


def remove_rest(folder: Path) -> None:
    """Remove a folder once it is closed, unless another pull has begun in it."""
    if os.name == "nt":
        shutil.rmtree(folder, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            folder.rmdir()


def made(folder: Path, name: str) -> Path:
    """Return the path of a file in the making."""
    return folder / f"{_MADE}{name}"


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise ExportError(f"{folder} is a link or a file; remove it, and run this again", file=folder)
    if os.name != "nt" and (found.st_uid != os.getuid() or found.st_mode & 0o077):
        problem = f"the staging folder {folder} is another user's, or open to others"
        raise ExportError(f"{problem}; remove it, and run this again", file=folder)


def _locked(path: Path) -> BlockFile[Block]:
    """Open and lock the file; again, if the pull that had it removed it meanwhile."""
    for _ in range(_TRIES):
        try:
            file = BlockFile(path, Block)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK) and error.filename is None:
                raise ExportError(_HELD.format(path.parent), file=path.parent) from None
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL):
                raise ExportError(_NO_LOCKS.format(path.parent), file=path.parent) from error
            if error.errno == errno.ELOOP:
                raise ExportError(f"{path} is a link; remove it, and run this again", file=path) from error
            if error.errno != errno.ENOENT:
                raise
            path.parent.mkdir(mode=0o700, exist_ok=True)
            continue
        if file.is_in_place:
            return file
        file.close()
    raise ExportError(_HELD.format(path.parent), file=path.parent)


def _drop_leftovers(folder: Path, *, restart: bool) -> None:
    """Remove files in the making; what no pull of this version made is refused, or removed by `restart`."""
    for path in folder.iterdir():
        if path.name == PIECES:
            continue
        if not restart and not path.name.startswith(_MADE):
            problem = f"{folder} has reports that another version of seorep staged ({path.name})"
            raise ExportError(f"{problem}; {_START_OVER}", file=folder)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
