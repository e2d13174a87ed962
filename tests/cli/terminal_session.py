"""The command on a terminal of its own, and a person at it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

# a session of its own, so that what asks for passwords finds its terminal
_PROGRAM = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from seorep_async.cli import main
main()
"""


@attrs.define
class Terminal:
    """What is on the screen, and the keyboard."""

    _screen: int
    _running: subprocess.Popen[bytes]
    shown: str = ""
    _waited_to: int = 0

    def wait_for(self, text: str) -> None:
        """Wait until a text has come, after what was waited for before."""
        while (found := self.shown.find(text, self._waited_to)) < 0:
            has_ended = self._running.poll() is not None
            assert self._read() or not has_ended, f"{text!r} did not come; shown: {self.shown!r}"
        self._waited_to = found + len(text)

    def type(self, text: str) -> None:
        """Type a text as it is; a line ends with a newline."""
        os.write(self._screen, text.encode())

    def interrupt(self) -> int:
        """Type Ctrl-C until the command ends, and return the exit status.

        Once may not be enough: Python does not see what comes just before it begins to wait for a line.
        """
        while self._running.poll() is None:
            self.type("\x03")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._running.wait(5)
        return self.end()

    def end(self) -> int:
        """Wait for the end, and return the exit status."""
        while self._running.poll() is None:
            self._read()
        while self._read():
            pass
        return self._running.returncode

    def _read(self) -> str:
        if not select.select([self._screen], [], [], 0.05)[0]:
            return ""
        try:
            text = os.read(self._screen, 65536).decode(errors="replace").replace("\r\n", "\n")
        except OSError:  # Linux says so when the other side is closed
            return ""
        self.shown += text
        return text


@contextmanager
def terminal(*arguments: str, columns: int = 80, environment: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """Start the command on a terminal; it ends with the block at the latest."""
    screen, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *arguments],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env=environ | {"TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[2])} | dict(environment or {}),
    ) as running:
        os.close(inside)
        try:
            yield Terminal(screen, running)
        finally:
            running.kill()
            os.close(screen)
