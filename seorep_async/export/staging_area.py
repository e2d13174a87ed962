"""The staging area of an export: a private folder beside the target, with the checkpoint and files in the making."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import shutil
import sqlite3
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from seorep_async.errors import ConfigurationError, ExportError, shown
from seorep_async.export.atomic_replace import export_error, os_message, translate_errors
from seorep_async.export.checkpoint import Checkpoint
from seorep_async.export.job import ExportJob
from seorep_async.export.lock import HeldError, PullLock
from seorep_async.export.staged_report import DamagedError, OtherVersionError
from seorep_async.export.target import Target

T = TypeVar("T")

_CHECKPOINT, _LOCK = "checkpoint", "lock"
_TRIES = 3
_LOCK_TIMEOUT, _POLL_SECONDS = 600.0, 0.1
_DOUBTFUL_SECONDS = 5.0
"""The longest wait for a lock whose holder may be dead and never release it."""


class AtWorkError(ExportError):
    """Another pull is known to be at work on the same export."""


class Stopped(Exception):
    """The pull is being cancelled, so a step in a thread ended early."""


class StopSignal(threading.Event):
    """Set when a pull is cancelled; its steps in threads check it now and then."""

    def check(self) -> None:
        """Raise `Stopped` if it is set."""
        if self.is_set():
            raise Stopped


class StagingArea:
    """The private folder of one export, locked to this process while it is open.

    Another user's folder, one that others can open, a link, or a link in it is refused, and nothing outside is touched.
    """

    checkpoint: Checkpoint
    job: ExportJob

    def __init__(self, target: Target) -> None:
        self.target = target
        self.folder: Path = target.staging_folder
        self._making = self.folder / f"making-{uuid.uuid4().hex[:12]}"
        self._lock = PullLock(self.folder / _LOCK)
        self.is_open: bool = False

    @property
    def making(self) -> Path:
        """The folder of files in the making, this run's alone."""
        self._making.mkdir(0o700, exist_ok=True)
        return self._making

    def open(self, job: ExportJob, *, restart: bool, retry_failed: bool) -> None:
        """Create it, or resume from the staged reports of an earlier run; `restart` deletes these, unread.

        `retry_failed` resumes also an export that has ended, with failures.

        Raises:
            ConfigurationError: others may open the folder, or an export of another job is staged there.
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
            if self.job.key_renewed is not None:
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

        An empty one is removed, unless an older target would then look like that of this export.
        """
        empty = False
        if self.is_open:
            with contextlib.suppress(DamagedError, sqlite3.Error):
                empty = self.checkpoint.is_empty() and not self.target.exists()
            self.is_open = False
            with contextlib.suppress(sqlite3.Error):
                self.checkpoint.close()
        if self._lock.is_held:
            shutil.rmtree(self._making, ignore_errors=True)
            if empty:
                self._delete_all()
            self._unlock()

    def remove(self) -> Path | None:
        """Close and delete it; return the folder if that failed, or None."""
        with contextlib.suppress(DamagedError, sqlite3.Error):
            self.checkpoint.note(parameters=None, begun=None)  # if it stays, nothing is resumed from it
        self.is_open = False
        self.checkpoint.close()
        self._delete_all()
        self._unlock()
        return self.folder if self.folder.is_dir() else None

    @contextlib.contextmanager
    def inspect(self) -> Iterator[Checkpoint | None]:
        """Open the checkpoint of an earlier run for a look, or None.

        ConfigurationError: others may open the folder. ExportError: another process is at work, or it is damaged.
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

    @contextlib.contextmanager
    def emptied(self) -> Iterator[None]:
        """Delete everything staged, and let no other run open it meanwhile; raises as `inspect`."""
        self._lock_folder(create=True)
        try:
            self._delete_all()
            yield
        finally:
            shutil.rmtree(self._making, ignore_errors=True)
            self._unlock()

    def _lock_folder(self, *, create: bool) -> None:
        held = None
        for _ in range(_TRIES):
            try:
                if create:
                    self._create_folder()
                self._check_folder()
                self._lock.take()
                return
            except FileNotFoundError:  # its process has finished and removed it meanwhile
                continue
            except HeldError as error:
                held = error
                if error.file is None or error.holder is not None:
                    break
                time.sleep(_POLL_SECONDS)  # the holder may be about to write its name
            except OSError as error:
                self._unlock()
                raise export_error(self.folder, os_message(error)) from error
        raise _at_work(self.target, held)

    def _create_folder(self) -> None:
        try:
            self.folder.mkdir(0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise ConfigurationError(
                f"can't write {self.target.label}: {os_message(error)}; name another folder"
            ) from error

    def _unlock(self) -> None:
        self._lock.release()
        with contextlib.suppress(OSError):  # it is not empty, as a rule
            self.folder.rmdir()

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
            plain = stat.S_ISDIR(held.st_mode) or (stat.S_ISREG(held.st_mode) and held.st_nlink <= 1)  # 0: just deleted
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
            if entry.name in (*but, _LOCK):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


async def in_thread(step: Callable[[Target, ExportJob, Callable[[], None]], T], target: Target, job: ExportJob) -> T:
    """Run a step that may wait for another pull in a thread; it gets a `check` that raises once this is cancelled."""
    stop = StopSignal()
    try:
        return await asyncio.to_thread(step, target, job, stop.check)
    finally:
        stop.set()


@contextlib.contextmanager
def write_lock(target: Target, check: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Wait until no other pull has a database in the target's folder open; an exception of `check` ends the waiting.

    AtWorkError: the other pull does not end.
    """
    path, began = target.path, time.monotonic()
    lock = PullLock(path.with_name(f".{path.name[-50:]}.pull.lock"))
    while not lock.is_held:
        try:
            lock.take()
        except (FileNotFoundError, HeldError) as error:
            is_doubtful = isinstance(error, HeldError) and error.file is not None
            if time.monotonic() - began > (_DOUBTFUL_SECONDS if is_doubtful else _LOCK_TIMEOUT):
                raise _at_work(target, error) from None
            check()
            time.sleep(_POLL_SECONDS)
        except OSError as error:
            raise export_error(path, os_message(error)) from error
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _translate_damage(target: Target) -> Iterator[None]:
    try:
        yield
    except DamagedError as error:
        raise damaged(target, error) from error


def damaged(target: Target, error: DamagedError) -> ExportError:
    """Return the error for a checkpoint that is damaged, or another version's."""
    problem = "is damaged; pass restart=True to start over"
    if isinstance(error, OtherVersionError):
        problem = "is of another version of seorep; end that pull with it, or pass restart=True to start over"
    return export_error(target.label, f"the checkpoint in {target.staging_folder.name} {problem}")


def _at_work(target: Target, error: Exception | None) -> ExportError:
    holder, file = (error.holder, error.file) if isinstance(error, HeldError) else (None, None)
    problem = "another pull is writing it; wait for its end"
    if holder is not None and holder.is_this_process:
        end = "await or cancel it, or close its client and await asyncio.sleep(1)"
        problem = f"another pull of this program is writing it; {end}"
    elif holder is not None:
        who = f"process {holder.process} on {shown(holder.host)}, since {holder.since:%Y-%m-%d %H:%M:%S %Z}"
        problem = f"another pull is writing it ({who}); wait for its end"
    if file is None:
        return AtWorkError(f"can't write {target.label}: {problem}", file=target.path)
    problem = f"{problem}. If it has ended, which this file system does not tell, delete {file}"
    return ExportError(f"can't write {target.label}: {problem}", file=target.path)
