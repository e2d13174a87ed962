"""The staging area of an export: a private folder beside the target, with the checkpoint and files in the making."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export.atomic_replace import export_error, os_message, translate_errors
from seorep_async.export.checkpoint import Checkpoint
from seorep_async.export.job import ExportJob
from seorep_async.export.staged_report import DamagedError
from seorep_async.export.target import Target

try:
    import fcntl
except ImportError:  # Windows, where SQLite's own lock must do
    fcntl = None  # type: ignore[assignment]

_CHECKPOINT = "checkpoint"
_OPEN_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_TRIES = 3
_LOCK_TIMEOUT, _POLL_SECONDS = 600.0, 0.1

_locked_here: dict[Path, StagingArea] = {}
"""The folders that this process has locked: to wait for a pull on a loop that stands still would not help."""


class AtWorkError(ExportError):
    """Another pull is at work on the same export."""


class StagingArea:
    """The private folder of one export, locked to this process while it is open.

    Only its owner can have prepared it: another user's folder, one that others can open, a link, or a link in it is
    refused, and nothing outside is touched.

    Args:
        target: where the export goes.
    """

    checkpoint: Checkpoint
    job: ExportJob

    def __init__(self, target: Target) -> None:
        self.target = target
        self.folder: Path = target.staging_folder
        self._lock: int | None = None
        self.is_open: bool = False

    def open(self, job: ExportJob, *, restart: bool, retry_failed: bool) -> None:
        """Create it, or resume from what an earlier run has staged.

        Args:
            job: what to export.
            restart: delete what an earlier run has staged, unread.
            retry_failed: resume also an export that has ended, with failures.

        Raises:
            ConfigurationError: the folder is not ours alone, or an export of another job is staged there.
            ExportError: another process is at work on it, or it is damaged or can't be written.
        """
        self.job = job
        self._lock_folder(create=True)
        try:
            with translate_errors(self.folder):
                self._delete_all(but=() if restart else (_CHECKPOINT, f"{_CHECKPOINT}-wal", f"{_CHECKPOINT}-rows"))
                with _translate_damage(self.target):
                    self.checkpoint = Checkpoint(self.folder / _CHECKPOINT)
                    self.is_open = True
                    self._resume_or_start(retry_failed=retry_failed)
        except BaseException:
            self.close()
            raise

    def _resume_or_start(self, *, retry_failed: bool) -> None:
        if self.job.resumes(self.checkpoint, self.target, retry_failed=retry_failed):
            self.checkpoint.verify()
            self.checkpoint.note(ended=False)
            self.job = self.job.resumed(self.checkpoint)
            if self.job.key_renewed:
                self.note_key()
        else:
            self.checkpoint.clear()
            self.checkpoint.note(
                parameters=self.job.parameters(self.target),
                begun=dt.datetime.now().astimezone().isoformat(timespec="minutes"),
                started_at=self.job.started_at.isoformat(),
            )

    def note_key(self) -> None:
        """Note a digest of the API key, so that an export of another account is not resumed.

        The digest takes a twentieth of a second, so the first request does not wait for it.
        """
        self.checkpoint.note(key=self.job.key_digest())

    def close(self) -> None:
        """Close it; another process can resume from it then.

        One with nothing in it is removed, unless an older target would then look like that of this export.
        """
        empty = False
        if self.is_open:
            with contextlib.suppress(DamagedError, sqlite3.Error):
                empty = self.checkpoint.is_empty() and not self.target.exists()
            self.is_open = False
            with contextlib.suppress(sqlite3.Error):
                self.checkpoint.close()
        if self._lock is not None:
            if empty:
                self._delete_all()
            with contextlib.suppress(OSError):  # it is not empty, as a rule
                self.folder.rmdir()
            self._unlock()

    def remove(self) -> Path | None:
        """Close and delete it; return the folder if that was not possible, or None."""
        with contextlib.suppress(DamagedError, sqlite3.Error):
            self.checkpoint.note(parameters=None, begun=None)  # if it stays, nothing is resumed from it
        self.is_open = False
        self.checkpoint.close()
        self._delete_all()
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        self._unlock()
        return self.folder if self.folder.is_dir() else None

    @contextlib.contextmanager
    def inspect(self) -> Iterator[Checkpoint | None]:
        """Open the checkpoint of an earlier run for a look; None if there is none.

        Raises:
            ConfigurationError: the folder is not ours alone.
            ExportError: another process is at work on it, or it is damaged.
        """
        if not os.path.lexists(self.folder):
            yield None
            return
        self._lock_folder(create=False)
        try:
            with translate_errors(self.folder), _translate_damage(self.target):
                if not (self.folder / _CHECKPOINT).exists():
                    yield None
                    return
                with contextlib.closing(Checkpoint(self.folder / _CHECKPOINT)) as checkpoint:
                    yield checkpoint
        finally:
            self._unlock()

    def _lock_folder(self, *, create: bool) -> None:
        for _ in range(_TRIES):
            try:
                if create:
                    self._create_folder()
                if self._lock_once():
                    self._check_folder()
                    return
                self._unlock()  # the process that had it has finished and removed it meanwhile
            except FileNotFoundError:
                self._unlock()
            except OSError as error:
                self._unlock()
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    self._refuse("it is a link or a file")
                raise export_error(self.folder, os_message(error)) from error
            except BaseException:
                self._unlock()
                raise
        raise _at_work(self.target)

    def _create_folder(self) -> None:
        try:
            self.folder.mkdir(0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise ConfigurationError(
                f"can't write {self.target.label}: {os_message(error)}; name another folder"
            ) from error

    def _lock_once(self) -> bool:
        """Lock the folder, and return whether it is still the one at its path."""
        if fcntl is None:
            return True
        self._lock = os.open(self.folder, _OPEN_FOLDER)
        if not _lock_now(self._lock):  # without such locks, SQLite's own must do
            raise _at_work(self.target, here=self.folder in _locked_here)
        _locked_here[self.folder] = self
        return os.path.samestat(os.fstat(self._lock), self.folder.lstat())

    def _unlock(self) -> None:
        if self._lock is not None:
            if _locked_here.get(self.folder) is self:
                del _locked_here[self.folder]
            _unlock_and_close(self._lock)
            self._lock = None

    def _check_folder(self) -> None:
        """Refuse a folder that anybody but this user could have prepared."""
        found = self.folder.lstat()
        user = os.geteuid() if hasattr(os, "geteuid") else None
        if not stat.S_ISDIR(found.st_mode):
            self._refuse("it is a link or a file")
        if user is not None and found.st_uid != user:
            self._refuse("it belongs to another user")
        if user is not None and found.st_mode & 0o077:
            self._refuse("other users can open it")
        for entry in self._entries():
            held = entry.stat(follow_symlinks=False)
            plain = stat.S_ISDIR(held.st_mode) or (stat.S_ISREG(held.st_mode) and held.st_nlink == 1)
            if not plain or (user is not None and held.st_uid != user):
                self._refuse(f"{entry.name} in it is a link, or is not yours")

    def _refuse(self, problem: str) -> None:
        raise ConfigurationError(
            f"can't stage an export in {self.folder}: {problem}. Remove it, or name another target"
        )

    def _entries(self) -> list[os.DirEntry[str]]:
        with os.scandir(self.folder) as entries:
            return list(entries)

    def _delete_all(self, *, but: tuple[str, ...] = ()) -> None:
        for entry in self._entries():
            if entry.name in but:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


@contextlib.contextmanager
def write_lock(target: Target, check: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Wait until no other pull has a database in the target's folder open.

    Args:
        target: the database.
        check: called now and then; an exception that it raises ends the waiting.

    Raises:
        AtWorkError: the other one does not end.
    """
    folder, deadline = None, time.monotonic() + _LOCK_TIMEOUT
    try:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a folder that this user can't list, but write into
                folder = os.open(target.path.parent, _OPEN_FOLDER)
        while folder is not None and not _lock_now(folder):
            if time.monotonic() > deadline:
                raise AtWorkError(f"can't write {target.label}: another pull is writing it; run this again later")
            check()
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        if folder is not None:
            _unlock_and_close(folder)


def _lock_now(folder: int) -> bool:
    """Lock a folder, and return whether nobody else has it; on a file system without such locks, nobody has."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _unlock_and_close(folder: int) -> None:
    if fcntl is not None:
        with contextlib.suppress(OSError):  # closing is not enough where a process that was forked meanwhile lives on
            fcntl.flock(folder, fcntl.LOCK_UN)
    os.close(folder)


@contextlib.contextmanager
def _translate_damage(target: Target) -> Iterator[None]:
    try:
        yield
    except DamagedError as error:
        raise damaged(target) from error
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise _at_work(target) from error
        raise


def damaged(target: Target) -> ExportError:
    """Return the error for a checkpoint that is not as it was written."""
    return export_error(
        target.label,
        f"the checkpoint in {target.staging_folder.name} is damaged; pass restart=True to start over",
    )


def _at_work(target: Target, *, here: bool = False) -> AtWorkError:
    problem = "another pull is writing it; wait for its end"
    if here:
        end = "await or cancel it, or close its client and await asyncio.sleep(1)"
        problem = f"another pull of this program is writing it; {end}"
    return AtWorkError(f"can't write {target.label}: {problem}", file=target.path)
