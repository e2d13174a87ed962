"""Keys from a file or a command's output, and the small private files of keys and profiles."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import click

from seorep_async.cli.terminal import can_ask

_MOST_BYTES = 64 * 1024
"""The largest file with a key, and the largest output of a command."""
_COMMAND_SECONDS, _PASSPHRASE_SECONDS = 7.0, 300.0
"""The longest run of a command; the second where a person may have to type a passphrase."""


def key_of_command(command: str) -> str:
    """Return the first line that a command prints; a ClickException says why there is none."""
    # the command may ask a person for a passphrase; without one, nobody answers, and its messages may hold the key
    person = sys.stderr is not None and sys.stderr.isatty()
    seconds = _PASSPHRASE_SECONDS if person else _COMMAND_SECONDS
    try:
        words = shlex.split(command)
        if not words:
            raise click.ClickException("key_command is empty.")
        running = subprocess.Popen(  # noqa: S603  # the command is the user's own
            words,
            bufsize=0,
            stdin=None if can_ask() else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if person else subprocess.DEVNULL,
        )
    except (OSError, ValueError) as error:
        program = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        problem = f"key_command can't be run: {program}{why(error)}; it is run without a shell."
        raise click.ClickException(problem) from None
    output, enough = bytearray(), threading.Event()
    threading.Thread(target=_collect, args=(running, output, enough), daemon=True).start()
    until = time.monotonic() + seconds
    try:
        enough.wait(seconds)
        code = running.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise click.ClickException(f"key_command took longer than {seconds:g} seconds.") from None
    finally:
        running.kill()
        running.wait()
    if len(output) > _MOST_BYTES:
        raise click.ClickException(f"key_command printed more than {_MOST_BYTES >> 10} KiB.")
    if code:
        raise click.ClickException(f"key_command failed with exit status {code}; it is run without a shell.")
    return _first_line(bytes(output), "key_command")


def _collect(running: subprocess.Popen[bytes], output: bytearray, enough: threading.Event) -> None:
    """Collect a command's output, and kill it if that is too much; `enough` is set by a whole line or the end.

    A process that the command leaves behind may hold the pipe for ever.
    """
    with running.stdout as pipe:  # type: ignore[union-attr]  # it is a pipe
        while len(output) <= _MOST_BYTES and (block := pipe.read(_MOST_BYTES)):
            output += block
            if b"\n" in block:
                enough.set()
    if len(output) > _MOST_BYTES:
        running.kill()
    enough.set()


def key_of_file(folder: Path, name: str) -> str:
    """Return the first line of a private file, or of one in the folder; a ClickException says why there is none."""
    file = folder / os.path.expanduser(name)  # `Path.expanduser` raises where there is no such user
    try:
        data, status = read_small_file(file)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"can't read key_file {file}: {why(error)}.") from None
    require_private(status, file)
    return _first_line(data, f"key_file {file}")


def read_small_file(file: Path, most: int = _MOST_BYTES) -> tuple[bytes, os.stat_result]:
    """Return up to `most` bytes of a regular file, and its status; a pipe would block, a device may have no end."""
    with open(file, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is not a regular file")
        data = opened.read(most + 1)
    if len(data) > most:
        raise OSError(f"it holds more than {most >> 10} KiB")
    return data, status


def why(error: Exception) -> object:
    """Return a few words on a file that could not be read, or a command that could not be run."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if "set_int_max_str_digits" in str(error):
        return "it holds a number of too many digits"
    return error.strerror or error if isinstance(error, OSError) else error


def _first_line(data: bytes, source: str) -> str:
    try:
        return data.partition(b"\n")[0].removesuffix(b"\r").decode("utf-8-sig")
    except UnicodeDecodeError:
        problem = f"the key of {source} is not UTF-8."
    raise click.ClickException(problem)  # outside the handler: the caught error holds the key


def require_private(status: os.stat_result, file: Path, *, writable_only: bool = False) -> None:
    """Refuse another user's file, or one that others could read or change, with `writable_only` only change."""
    if sys.platform == "win32":  # it has access lists instead
        return
    forbidden = stat.S_IWGRP | stat.S_IWOTH | (0 if writable_only else stat.S_IRGRP | stat.S_IROTH)
    if status.st_mode & forbidden:
        what = "change" if writable_only else "read or change"
        raise click.ClickException(f"others can {what} {file}; run: chmod 600 {shlex.quote(str(file))}")
    if status.st_uid not in (os.getuid(), 0):
        raise click.ClickException(f"{file} belongs to another user; use a file of your own.")
