"""The staging area of an export: a private folder beside the target, with the checkpoint and files in the making."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shutil
import sqlite3
import stat
import time
import uuid
from collections.abc import Callable, Generator
from pathlib import Path

import attrs
import msgspec

from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.models import Feed
from seorep_async.old_export.atomic_replace import export_error, os_message, translate_errors
from seorep_async.old_export.checkpoint import Checkpoint
from seorep_async.old_export.formats import DamagedError, Format, OtherVersionError, decoding
from seorep_async.old_export.lock import POLL_SECONDS, HeldError, PullLock, at_work
from seorep_async.old_export.progress import StagedPull
from seorep_async.old_export.spec import Parameters, PullSpec, differences

_CHECKPOINT, _LOCK, _RESTART = "checkpoint", "lock", "restart"
_TRIES = 3


@attrs.define(eq=False, slots=False)
class StagingArea:
    """The private folder of one export, locked to this process while it is open.

    Another user's folder, one that others can open, a link, or a link in it is refused, and nothing outside is touched.

    Attributes:
        format: that in which reports are staged.
        label: the target's name in messages.
        accumulates: whether the rows of a pull that ended with failures are in the target for good.
        has_older: returns whether an older target exists, which must not look like that of a pull that stored nothing.
        resumed: the staged reports of an earlier run with which this one began, or None.
        left: after an early end, the staged reports with which the next one can begin, or None.
    """

    folder: Path
    format: Format
    label: Path | str
    accumulates: bool
    has_older: Callable[[], bool]
    checkpoint: Checkpoint = attrs.field(init=False)
    spec: PullSpec = attrs.field(init=False)
    resumed: StagedPull | None = attrs.field(default=None, init=False)
    left: StagedPull | None = attrs.field(default=None, init=False)
    is_open: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._making = self.folder / f"making-{uuid.uuid4().hex[:12]}"
        self._lock = PullLock(self.folder / _LOCK)
        self._restart = self.folder / _RESTART  # exists while a restart is due

    @property
    def making(self) -> Path:
        """The folder of files in the making, this run's alone."""
        self._making.mkdir(0o700, exist_ok=True)
        return self._making

    def open(self, spec: PullSpec, *, restart: bool, retry_failed: bool) -> None:
        """Create it, or resume from the staged reports of an earlier run; `restart` deletes these, unread.

        So does a restart that is due, because an earlier one could not begin.
        `retry_failed` resumes also an export that has ended, with failures. ConfigurationError: others may open the
        folder, or another pull is staged there. ExportError: another process is at work on it, or it is damaged.
        """
        self.spec = spec
        self._lock_folder(create=True)
        try:
            with translate_errors(self.folder):
                is_noted = self._note_restart() if restart else self._restart.is_file()
                starts_over = restart or is_noted
                staged = (_CHECKPOINT, f"{_CHECKPOINT}-wal", f"{_CHECKPOINT}-rows")
                self._delete_all(but=(_RESTART,) * is_noted if starts_over else staged)
                with self.translate_damage():
                    self.checkpoint = Checkpoint(self.folder / _CHECKPOINT)
                    self.is_open = True
                    self._resume_or_start(starts_over, retry_failed)
                self._restart.unlink(missing_ok=True)
        except BaseException as error:
            self.close()
            self.left = None
            if restart and isinstance(error, ExportError):
                self._announce_restart(error)
            raise

    def restart_later(self, error: ExportError) -> None:
        """Note that the next run starts over, as an error has kept this one from it; the error says so then.

        ConfigurationError: others may open the folder. ExportError: another process is at work; its reports stay.
        """
        with self._locked(create=True):
            if not self._note_restart():
                self._delete_all()
        self._announce_restart(error)

    def _announce_restart(self, error: ExportError) -> None:
        if self._restart.is_file() or not (self.folder / _CHECKPOINT).exists():
            error.message += "; the next pull starts over, without the reports stored before"

    def _note_restart(self) -> bool:
        """Note that a restart is due; return whether the disk took it."""
        try:
            os.close(os.open(self._restart, os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError:
            return False
        return True

    def _resume_or_start(self, starts_over: bool, retry_failed: bool) -> None:
        checkpoint = self.checkpoint
        earlier = None if starts_over else self.to_resume(checkpoint, self.spec, retry_failed=retry_failed)
        if earlier is not None:
            checkpoint.verify()
            self.resumed = staged_in(checkpoint)
            self.spec = attrs.evolve(
                self.spec, started_at=earlier["started_at"], snapshot_date=earlier["snapshot_date"]
            )
            checkpoint.note(ended=False)
            if self.spec.key_renewed is not None:
                self.note_key()
        else:
            checkpoint.clear()
            checkpoint.note(parameters=msgspec.convert(self.spec.to_json(self.format), Parameters))

    def to_resume(self, checkpoint: Checkpoint, spec: PullSpec, *, retry_failed: bool) -> Parameters | None:
        """Return the parameters of the run that a pull resumes, or None if it starts over.

        `retry_failed` resumes also one that ended with failures. ConfigurationError: the earlier run was of another
        pull, and its reports would be lost.
        """
        notes, earlier = checkpoint.notes, _staged(checkpoint)
        if earlier is None or (notes.ended and not retry_failed):
            return None
        wrong = differences(msgspec.to_builtins(earlier), spec.wanted(self.format))
        same_account = (earlier["service"], earlier["account"]) == (spec.service, spec.account)
        if same_account and notes.key != spec.key_digest() and not spec.confirms_key():
            confirm = f'key_renewed="{spec.key_mark()}" confirms the new one'
            wrong.append(f"another API key (another account's, or an older one of the same: {confirm})")
        if wrong and not (spec.is_shard or checkpoint.is_empty() or (notes.ended and self.accumulates)):
            first, last = earlier["start_date"], earlier["end_date"]
            dates = f' with start_date="{first}" and end_date="{last}"' if (first, last) != spec.window else ""
            raise ConfigurationError(
                f"{self.label} has an unfinished pull of {'; '.join(wrong)}. "
                f"Repeat the original pull{dates} to resume it, or pass restart=True to start over"
            )
        return None if wrong else earlier  # its rows and failures are in the target, or only requests are lost

    def note_key(self) -> None:
        """Note a digest of the API key, so that an export of another account is not resumed.

        The digest takes a twentieth of a second, so the first request does not wait for it.
        """
        self.checkpoint.note(key=self.spec.key_digest())

    def close(self) -> None:
        """Close it; another process can resume from it then.

        An empty one is removed, unless an older target would then look like that of this export.
        """
        empty = False
        if self.is_open:
            with contextlib.suppress(DamagedError, sqlite3.Error):
                self.left = staged_in(self.checkpoint)
                empty = self.left is None and not self.has_older()
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
            self.checkpoint.note(parameters=None)  # if it stays, nothing is resumed from it
        self.is_open = False
        self.checkpoint.close()
        self._delete_all()
        self._unlock()
        return self.folder if self.folder.is_dir() else None

    @contextlib.contextmanager
    def inspect(self) -> Generator[Checkpoint | None, None, None]:
        """Open the checkpoint of an earlier run for a look, or None; also if the next run starts over.

        ConfigurationError: others may open the folder. ExportError: another process is at work, or it is damaged.
        """
        if not os.path.lexists(self.folder):
            yield None
            return
        with self._locked(create=False), translate_errors(self.folder), self.translate_damage():
            file = self.folder / _CHECKPOINT
            if file.exists() and not self._restart.is_file():
                with contextlib.closing(Checkpoint(file)) as checkpoint:
                    yield checkpoint
            else:
                yield None

    @contextlib.contextmanager
    def emptied(self) -> Generator[None, None, None]:
        """Delete everything staged, and let no other run open it meanwhile; raises as `inspect`."""
        with self._locked(create=True):
            self._delete_all()
            yield

    @contextlib.contextmanager
    def _locked(self, *, create: bool) -> Generator[None, None, None]:
        self._lock_folder(create=create)
        try:
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
                time.sleep(POLL_SECONDS)  # the holder may be about to write its name
            except OSError as error:
                self._unlock()
                raise export_error(self.folder, os_message(error)) from error
        raise at_work(self.label, held)

    def _create_folder(self) -> None:
        try:
            self.folder.mkdir(0o700)
        except FileExistsError:
            pass
        except OSError as error:
            problem = f"can't write {self.label}: {os_message(error)}; name another folder"
            raise ConfigurationError(problem, argument="out") from error

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

    @contextlib.contextmanager
    def translate_damage(self) -> Generator[None, None, None]:
        """Translate a checkpoint that is damaged, or another version's, into an ExportError."""
        try:
            yield
        except DamagedError as error:
            problem = "is damaged; pass restart=True to start over"
            if isinstance(error, OtherVersionError):
                problem = "is of another version of seorep; end that pull with it, or pass restart=True to start over"
            raise export_error(str(self.label), f"the checkpoint in {self.folder.name} {problem}") from error


def _staged(checkpoint: Checkpoint) -> Parameters | None:
    """Return the parameters of an earlier run, or None if there is nothing to resume."""
    is_useless = checkpoint.notes.paused is None and checkpoint.is_empty()
    return None if is_useless else checkpoint.notes.parameters


def staged_in(checkpoint: Checkpoint) -> StagedPull | None:
    """Return what an earlier run has staged, or None if there is nothing to resume."""
    earlier = _staged(checkpoint)
    if earlier is None:
        return None
    with decoding():
        started_at = earlier["started_at"].replace(tzinfo=dt.UTC).astimezone()
    reports = sum(checkpoint.counts(feed)[0] for feed in Feed)
    return StagedPull(started_at, earlier["start_date"], earlier["end_date"], reports, checkpoint.notes.ended)
