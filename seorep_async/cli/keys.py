"""The file of the profiles, and keys from a command's output."""

from __future__ import annotations

import os
import queue
import shlex
import stat
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

from seorep_async.cli.exit_codes import UsageError
from seorep_async.resources.arguments import Secret

_MOST_BYTES, _MOST_KEY_BYTES = 1024 * 1024, 64 * 1024
COMMAND_SECONDS, PASSPHRASE_SECONDS = 7.0, 300.0
"""The longest run of a command; the second where a person may have to type a passphrase."""


def config_file() -> Path:
    """Return the file of the profiles."""
    folder = os.environ.get("XDG_CONFIG_HOME") or (os.environ.get("APPDATA") if sys.platform == "win32" else None)
    try:
        return Path(folder or Path.home() / ".config", "seorep", "config.toml")
    except RuntimeError:  # no HOME, and a user id without a name
        raise UsageError("there is no home folder for profiles: set HOME or XDG_CONFIG_HOME.") from None


def profiles(*, every: bool = False) -> dict[str, Any]:
    """Return the profiles of the file, or `every` value; who can change it chooses where the key is sent."""
    file = config_file()
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:  # a pipe would block
            raise OSError(f"it is not a regular file of at most {_MOST_BYTES >> 10} KiB")
        found = tomllib.loads(file.read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"can't read {file}: {_why(error)}.") from None
    held = {name: profile for name, profile in found.items() if isinstance(profile, dict)}
    if sys.platform != "win32":  # it has access lists instead
        readers = stat.S_IRGRP | stat.S_IROTH if any("key" in profile for profile in held.values()) else 0
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH | readers) or status.st_uid not in (os.getuid(), 0):
            advice = f"make it yours alone: chmod 600 {shlex.quote(str(file))}"
            raise UsageError(f"others can read or change {file}; {advice}")
    return found if every else held


def _why(error: Exception) -> object:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, OSError):
        return error.strerror or error
    known = isinstance(error, tomllib.TOMLDecodeError)
    return error if known else "a number in it is too long, or it is nested too deeply"


def key_of_command(command: object) -> Secret:
    """Return the first line that a command prints; a UsageError says why there is none."""
    # the command may ask a person for a passphrase; without one, nobody answers, and its messages may hold the key
    person = sys.stderr is not None and sys.stderr.isatty()
    seconds, theirs = (PASSPHRASE_SECONDS, None) if person else (COMMAND_SECONDS, subprocess.DEVNULL)
    try:
        words = shlex.split(command) if isinstance(command, str) else command
        if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
            raise UsageError("key_command must be a string, or a list of strings, and not empty.")
        running = subprocess.Popen(words, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs)  # noqa: S603
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"key_command can't be run: {why}; it is run without a shell.") from None
    printed: queue.SimpleQueue[tuple[bytes, int]] = queue.SimpleQueue()

    def read() -> None:  # in a thread, as a process that the command leaves behind may hold the pipe for ever
        with running.stdout as pipe:  # type: ignore[union-attr]  # it is a pipe; closed early, it would end the command
            printed.put((pipe.readline(_MOST_KEY_BYTES), running.wait()))

    threading.Thread(target=read, daemon=True).start()
    try:
        line, code = printed.get(timeout=seconds)
    except queue.Empty:
        raise UsageError(f"key_command took longer than {seconds:g} seconds.") from None
    finally:
        running.kill()
        running.wait()
    if code:
        raise UsageError(f"key_command failed with exit status {code}; it is run without a shell.")
    key = Secret(line.rstrip(b"\r\n").decode("utf-8-sig", "replace"))
    if not key.strip() or "\N{REPLACEMENT CHARACTER}" in key:
        raise UsageError(f"key_command gives no key: it printed {'what is not UTF-8' if key.strip() else 'nothing'}.")
    return key
