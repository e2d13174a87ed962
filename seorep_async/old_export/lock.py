"""A lock that one pull holds at a time: a file that its process has locked, or, where that is refused, just the file.

The system's lock ends with its process. Some network file systems refuse it, and then the file must do: it names its
owner, so that another pull can take over the lock of a process that has ended. No clock decides, and a lock whose owner
might be alive is never taken over, as on another machine, of which nothing is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import errno
import hashlib
import os
import socket
import stat
import sys
import threading
import time
import uuid
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Annotated, TypeVar

import attrs
import msgspec

from seorep_async.errors import ExportError, shown
from seorep_async.old_export.atomic_replace import export_error, os_message

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

T = TypeVar("T")

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_OPEN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_LONGEST = 4096
_BEYOND = 1 << 30
POLL_SECONDS = 0.1
_TIMEOUT = 600.0
_DOUBTFUL_SECONDS = 5.0
"""The longest wait for a lock whose holder may be dead and never release it."""


@attrs.frozen
class Holder:
    """The process that holds a lock.

    Attributes:
        since: when it took the lock, by its clock.
        boot: names the run of the machine and the namespace of the process id.
        started: when the process started, in the system's words, as ids are used again; empty if unknown.
        mark: differs each time.
    """

    host: str
    process: Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
    since: dt.datetime
    boot: str
    started: str
    is_locked: bool
    mark: str

    @property
    def is_this_process(self) -> bool:
        return (self.boot, self.process, self.started) == (_boot(), os.getpid(), _start_of(os.getpid()) or "")

    @property
    def is_alive(self) -> bool | None:
        """Whether the process still runs; None if this can't be told here."""
        started = _start_of(self.process) if self.boot == _boot() else ""
        if started is None:
            return False
        return started == self.started if started and self.started else None


class HeldError(Exception):
    """Another pull holds the lock.

    Attributes:
        file: the file to delete if that pull has ended; None if it is known to be at work.
        holder: its process, if the file names it.
    """

    def __init__(self, file: Path | None, holder: Holder | None) -> None:
        super().__init__(file, holder)
        self.file, self.holder = file, holder


class AtWorkError(ExportError):
    """Another pull is known to be at work on the same export."""


class Stopped(Exception):
    """The pull is being cancelled, so a step in a thread ended early."""


class StopSignal(threading.Event):
    """Set when a pull is cancelled; its steps in threads check it now and then."""

    def check(self) -> None:
        if self.is_set():
            raise Stopped


async def in_thread(step: Callable[[Callable[[], None]], T]) -> T:
    """Run a step that may wait for a lock in a thread; it gets a `check` that raises once this is cancelled."""
    stop = StopSignal()
    try:
        return await asyncio.to_thread(step, stop.check)
    finally:
        stop.set()


class PullLock:
    """A lock: a file in an existing folder, as long as it is held."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take it, or take it over from a process that has ended.

        HeldError: another pull has it. FileNotFoundError: it was released just now, or its folder is gone; try again.
        """
        try:
            self._take()
        except BaseException:
            self._close()
            raise

    def _take(self) -> None:
        try:
            self._descriptor, is_new = os.open(self.file, _CREATE, 0o666), True
        except FileExistsError:
            try:
                self._descriptor, is_new = os.open(self.file, _OPEN), False
            except PermissionError:  # another user's
                raise HeldError(self.file, None) from None
            except OSError as error:
                if error.errno in (errno.EISDIR, errno.ELOOP):
                    raise self._planted() from error
                raise
        found = os.fstat(self._descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise self._planted()
        is_locked = _lock(self._descriptor)
        data = b"" if is_new else _content(self._descriptor)
        holder = _holder(data)
        if is_locked is False:
            raise HeldError(None, holder)
        if not os.path.samestat(found, self.file.lstat()):
            raise FileNotFoundError(f"{self.file} was replaced")
        if not is_new and not (is_locked and (holder is None or holder.is_locked)):
            is_alive = None if holder is None else holder.is_alive
            if is_alive is not False:
                raise HeldError(None if is_alive else self.file, holder)
            if not is_locked:
                self._replace(data)
                return
        try:
            os.ftruncate(self._descriptor, 0)
            _write(self._descriptor, is_locked=bool(is_locked))
        except OSError:  # a full disk
            self.release()
            raise

    def _planted(self) -> OSError:
        return FileExistsError(f"{self.file} is not the file of a lock; delete it")

    def _replace(self, data: bytes) -> None:
        """Replace the file of an ended process, unless another process has replaced it since it was read."""
        claim = self.file.with_name(f"{self.file.name}-{hashlib.sha256(data).hexdigest()[:16]}")
        self._close()
        try:
            self._descriptor = os.open(claim, _CREATE, 0o666)
        except FileExistsError:
            raise HeldError(claim, _holder(data)) from None
        try:
            _write(self._descriptor, is_locked=False)
            # only the holder of the claim replaces a file of this content
            if self.file.read_bytes() != data:
                raise FileNotFoundError(f"{self.file} was replaced")
            os.replace(claim, self.file)
        except BaseException:
            claim.unlink(missing_ok=True)
            raise

    def release(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(self._descriptor), self.file.lstat()):
                    self.file.unlink()
            self._close()
            if sys.platform == "win32":  # where an open file can't be deleted
                with contextlib.suppress(OSError):
                    self.file.unlink()

    @property
    def is_held(self) -> bool:
        return self._descriptor is not None

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextlib.contextmanager
def write_lock(path: Path, check: Callable[[], None] = lambda: None) -> Generator[None, None, None]:
    """Wait until no other pull has a database open; an exception of `check` ends the waiting.

    AtWorkError: the other pull does not end.
    """
    lock, began = PullLock(path.with_name(f".{path.name[-50:]}.pull.lock")), time.monotonic()
    while not lock.is_held:
        try:
            lock.take()
        except (FileNotFoundError, HeldError) as error:
            is_doubtful = isinstance(error, HeldError) and error.file is not None
            if time.monotonic() - began > (_DOUBTFUL_SECONDS if is_doubtful else _TIMEOUT):
                raise at_work(path, error) from None
            check()
            time.sleep(POLL_SECONDS)
        except OSError as error:
            raise export_error(path, os_message(error)) from error
    try:
        yield
    finally:
        lock.release()


def at_work(label: Path | str, error: Exception | None) -> ExportError:
    """Return the error for a target that another pull writes, from the last refusal of its lock."""
    holder, file = (error.holder, error.file) if isinstance(error, HeldError) else (None, None)
    problem = "another pull is writing it; wait for its end"
    if holder is not None and holder.is_this_process:
        end = "await or cancel it, or close its client and await asyncio.sleep(1)"
        problem = f"another pull of this program is writing it; {end}"
    elif holder is not None:
        who = f"process {holder.process} on {shown(holder.host)}, since {holder.since:%Y-%m-%d %H:%M:%S %Z}"
        problem = f"another pull is writing it ({who}); wait for its end"
    target = label if isinstance(label, Path) else None
    if file is None:
        return AtWorkError(f"can't write {label}: {problem}", file=target)
    problem = f"{problem}. If it has ended, which this file system does not tell, delete {file}"
    return ExportError(f"can't write {label}: {problem}", file=target)


def _lock(descriptor: int) -> bool | None:
    """Lock a file for this process; return False if another has it, None if the file system has no locks."""
    if sys.platform == "win32":
        os.lseek(descriptor, _BEYOND, os.SEEK_SET)  # others can't read a locked range
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
    else:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # ENOTSUP, ENOLCK, ENOSYS, EINVAL …: each file system has its own
            return None
    return True


def _content(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, _LONGEST)


def _holder(data: bytes) -> Holder | None:
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(data, type=Holder)
    return None


def _write(descriptor: int, *, is_locked: bool) -> None:
    now, process = dt.datetime.now(dt.UTC).replace(microsecond=0), os.getpid()
    started = _start_of(process) or ""
    holder = Holder(socket.gethostname(), process, now, _boot(), started, is_locked, uuid.uuid4().hex)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, msgspec.json.encode(holder))


def _boot() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # macOS
        return f"{socket.gethostname()} {uuid.getnode():x}"


def _start_of(process: int) -> str | None:
    """Return the start of a process, "" if the system doesn't tell, or None if it has ended."""
    with contextlib.suppress(OSError):
        state, *others = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return None if state in "ZX" else others[18]
    if sys.platform != "win32":
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return None
        except OSError:  # it is another user's, and hidden
            pass
    return ""
