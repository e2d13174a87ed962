"""Run the command in this process, as a process or on a terminal, with a sandbox."""

import contextlib
import datetime as dt
import fcntl
import os
import pty
import select
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from seorep_async.cli.app import run
from seorep_async.sandbox import Sandbox
from tests.threads import in_a_thread

TODAY = dt.date(2023, 7, 15)
KEY = "s3cret-k3y"
REPO = Path(__file__).parents[2]
PROGRAM = "from seorep_async.cli import main; main()"
STRICT = (sys.executable, "-X", "dev", "-W", "error")
COMMAND = (*STRICT, "-c", PROGRAM)
WINDOW_VARIABLES = ("COLUMNS", "LINES", "NO_COLOR")


@attrs.frozen
class Ended:
    code: int
    out: str
    err: str


@attrs.frozen
class Seorep:
    """Runs the command in this process."""

    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *arguments: object, today: dt.date = TODAY) -> Ended:
        words = [str(argument) for argument in arguments]
        code = run(words, today=today)
        out, err = self.capsys.readouterr()
        return Ended(code, out, err)

    @contextmanager
    def account(self, **options: Any) -> Iterator[Sandbox]:
        """Run a sandbox while the block runs, with its address in the environment."""
        with serving(**options) as sandbox:
            self.monkeypatch.setenv("SEOREP_BASE_URL", sandbox.base_url)
            self.monkeypatch.setenv("SEOREP_API_KEY", sandbox.api_key)
            yield sandbox


@contextmanager
def serving(**options: Any) -> Iterator[Sandbox]:
    """Run a sandbox in a thread, because the command has an event loop of its own."""
    options = {"campaigns": 4, "keywords": 6, **options}
    with in_a_thread(Sandbox(**options)) as sandbox:
        yield sandbox


@contextmanager
def process(
    *arguments: str, under: Sequence[str] = (), **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """Start the command as a process, perhaps `under` another. It ends with the block."""
    with subprocess.Popen(
        [*under, *COMMAND, *arguments],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def shell(line: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell, in which `seorep` is the command."""
    # without `-X dev`, by which asyncio reports slow callbacks
    command = shlex.join([sys.executable, "-W", "error", "-c", PROGRAM])
    line = line.replace("seorep", command)
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, **options
    )


# a separate session, so that a prompt for a password finds its terminal
_PROGRAM_ON_TERMINAL = f"""
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
{PROGRAM}
"""


@attrs.define
class Terminal:
    """A screen, and a keyboard."""

    _screen: int
    _running: subprocess.Popen[bytes]
    text: str = ""
    _waited_to: int = 0

    def wait_for(self, text: str) -> None:
        """Wait until a text appears after the previously expected one."""
        while True:
            place = self.text.find(text, self._waited_to)
            if place >= 0:
                break
            has_ended = self._running.poll() is not None
            has_more = bool(self._read())
            assert has_more or not has_ended, f"{text!r} did not come in {self.text!r}"
        self._waited_to = place + len(text)

    def type(self, text: str) -> None:
        """Type a text unchanged. A line ends with a newline."""
        self.type_bytes(text.encode())

    def type_bytes(self, data: bytes) -> None:
        """Type bytes that need not be text."""
        os.write(self._screen, data)

    def interrupt(self) -> int:
        """Type Ctrl-C until the command ends, and return the exit status.

        Once may not be enough: Python misses one just before it begins to wait for a line.
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
        ready, _, _ = select.select([self._screen], [], [], 0.05)
        if not ready:
            return ""
        try:
            data = os.read(self._screen, 65536)
        except OSError:  # Linux says so when the other side is closed
            return ""
        text = data.decode(errors="replace").replace("\r\n", "\n")
        self.text += text
        return text


@contextmanager
def terminal(
    *arguments: str, columns: int = 80, environment: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Start the command on a terminal. It ends with the block."""
    screen, inside = pty.openpty()
    window = struct.pack("HHHH", 40, columns, 0, 0)
    fcntl.ioctl(inside, termios.TIOCSWINSZ, window)
    variables = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(REPO)}
    for name in WINDOW_VARIABLES:
        variables.pop(name, None)
    variables.update(environment or {})
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM_ON_TERMINAL, *arguments],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env=variables,
    ) as running:
        os.close(inside)
        try:
            yield Terminal(screen, running)
        finally:
            running.kill()
            os.close(screen)


def without_slow_callbacks(err: str) -> str:
    """Return stderr without asyncio's own lines about a slow machine."""
    lines = err.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("Executing <"))


def wait_for(begun: Callable[[], object], running: subprocess.Popen[str]) -> None:
    """Wait until a process has begun something."""
    while not begun():
        assert running.poll() is None, "it ended before it had begun"
        time.sleep(0.02)
