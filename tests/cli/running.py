"""The command run here, as a process or on a terminal with a person at it, and a sandbox for it to talk to."""

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
COMMAND = (
    sys.executable,
    "-X",
    "dev",
    "-W",
    "error",
    "-c",
    "from seorep_async.cli import main; main()",
)


@attrs.frozen
class Ended:
    code: int
    out: str
    err: str


@attrs.frozen
class Seorep:
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *arguments: object, today: dt.date = TODAY) -> Ended:
        code = run([str(argument) for argument in arguments], today=today)
        out, err = self.capsys.readouterr()
        return Ended(code, out, err)

    @contextmanager
    def account(self, **options: Any) -> Iterator[Sandbox]:
        """Run a sandbox that the environment names while the block runs."""
        with serving(**options) as sandbox:
            self.monkeypatch.setenv("SEOREP_BASE_URL", sandbox.base_url)
            self.monkeypatch.setenv("SEOREP_API_KEY", sandbox.api_key)
            yield sandbox


@contextmanager
def serving(**options: Any) -> Iterator[Sandbox]:
    """Run a sandbox in a thread, as the command has an event loop of its own."""
    with in_a_thread(Sandbox(**{"campaigns": 4, "keywords": 6, **options})) as sandbox:
        yield sandbox


@contextmanager
def process(
    *arguments: str, under: Sequence[str] = (), **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """Start the command as a process of its own, `under` another; it ends with the block at the latest."""
    pipes: Any = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([*under, *COMMAND, *arguments], text=True, **pipes, **options) as running:
        try:
            yield running
        finally:
            running.kill()


def shell(line: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell, in which `seorep` is the command."""
    # without `-X dev`, by which asyncio tells what took long
    command = shlex.join([sys.executable, "-W", "error", *COMMAND[-2:]])
    line = line.replace("seorep", command)
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, **options
    )


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

    def type_bytes(self, data: bytes) -> None:
        """Type bytes that need not be text."""
        os.write(self._screen, data)

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
def terminal(
    *arguments: str, columns: int = 80, environment: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Start the command on a terminal; it ends with the block at the latest."""
    screen, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "LINES", "NO_COLOR")
    }
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *arguments],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env=environ
        | {"TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[2])}
        | dict(environment or {}),
    ) as running:
        os.close(inside)
        try:
            yield Terminal(screen, running)
        finally:
            running.kill()
            os.close(screen)


def without_slow_callbacks(err: str) -> str:
    """Return stderr without asyncio's own word that a busy machine was slow."""
    return "".join(
        line for line in err.splitlines(keepends=True) if not line.startswith("Executing <")
    )


def wait_for(begun: Callable[[], object], running: subprocess.Popen[str]) -> None:
    while not begun():
        assert running.poll() is None, "it ended before it had begun"
        time.sleep(0.02)
