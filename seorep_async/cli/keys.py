"""Keys from a command's output, and the small private file of the profiles."""

from __future__ import annotations

import os
import queue
import shlex
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

from seorep_async.cli.exit_codes import UsageError

_MOST_BYTES, _MOST_KEY_BYTES = 1024 * 1024, 64 * 1024
COMMAND_SECONDS, PASSPHRASE_SECONDS = 7.0, 300.0
"""The longest run of a command; the second where a person may have to type a passphrase."""


def key_of_command(words: list[str]) -> str:
    """Return the first line that a command prints; a UsageError says why there is none."""
    # the command may ask a person for a passphrase; without one, nobody answers, and its messages may hold the key
    person = sys.stderr is not None and sys.stderr.isatty()
    seconds = PASSPHRASE_SECONDS if person else COMMAND_SECONDS
    theirs = None if person else subprocess.DEVNULL
    try:
        running = subprocess.Popen(words, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs)  # noqa: S603
    except (OSError, ValueError) as error:
        raise UsageError(f"key_command can't be run: {words[0]}: {why(error)}; it is run without a shell.") from None
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:  # in a thread, as a process that the command leaves behind may hold the pipe for ever
        with running.stdout as pipe:  # type: ignore[union-attr]  # it is a pipe
            lines.put(pipe.readline(_MOST_KEY_BYTES + 1))

    threading.Thread(target=read, daemon=True).start()
    until = time.monotonic() + seconds
    try:
        line = lines.get(timeout=seconds)
        code = running.wait(max(0.0, until - time.monotonic())) if len(line) <= _MOST_KEY_BYTES else 0
    except (queue.Empty, subprocess.TimeoutExpired):
        raise UsageError(f"key_command took longer than {seconds:g} seconds.") from None
    finally:
        running.kill()
        running.wait()
    if len(line) > _MOST_KEY_BYTES:
        raise UsageError(f"key_command printed more than {_MOST_KEY_BYTES >> 10} KiB.")
    if code:
        raise UsageError(f"key_command failed with exit status {code}; it is run without a shell.")
    try:
        return line.rstrip(b"\r\n").decode("utf-8-sig")
    except UnicodeDecodeError:
        problem = "the output of key_command is not UTF-8."
    raise UsageError(problem)  # outside the handler: the caught error holds the key


def config_file() -> Path:
    """Return the file of the profiles."""
    folder = os.environ.get("XDG_CONFIG_HOME") or (os.environ.get("APPDATA") if sys.platform == "win32" else None)
    try:
        return Path(folder or Path.home() / ".config", "seorep", "config.toml")
    except RuntimeError:  # no HOME, and a user id without a name
        raise UsageError("there is no home folder for profiles: set HOME or XDG_CONFIG_HOME.") from None


def read_config(file: Path) -> tuple[str, os.stat_result]:
    """Return the text of a regular, small file, and its status; a pipe would block, a device may have no end."""
    with open(file, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is not a regular file")
        data = opened.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(f"it holds more than {_MOST_BYTES >> 10} KiB")
    return data.decode("utf-8-sig"), status


def require_private(status: os.stat_result, file: Path, *, holds_key: bool) -> None:
    """Refuse another user's file, or one that others can change; where it holds a key, also one that they can read.

    Its writer can choose the address that the key is sent to, and the command that finds the key.
    """
    if sys.platform == "win32":  # it has access lists instead
        return
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH | (stat.S_IRGRP | stat.S_IROTH if holds_key else 0)):
        what = "read or change" if holds_key else "change"
        raise UsageError(f"others can {what} {file}; run: chmod 600 {shlex.quote(str(file))}")
    if status.st_uid not in (os.getuid(), 0):
        raise UsageError(f"{file} belongs to another user; use a file of your own.")


def why(error: Exception) -> object:
    """Return a few words on a file that could not be read, or a command that could not be run."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if "set_int_max_str_digits" in str(error):
        return "it holds a number of too many digits"
    return error.strerror or error if isinstance(error, OSError) else error
