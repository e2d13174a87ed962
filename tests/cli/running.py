"""The command run here or as a process, and a sandbox for it to talk to."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import attrs
import pytest

from seorep_async.cli.application import run
from seorep_async.cli.options import connection_options
from seorep_async.sandbox import Sandbox

NOW = dt.datetime(2023, 7, 15, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
NO_OPTIONS = dict.fromkeys(option.name for option in connection_options(writes=True))
"""The options of a connection, none of which is given."""
KEY = "s3cret-k3y"
COMMAND = (sys.executable, "-X", "dev", "-W", "error", "-c", "from seorep_async.cli import main; main()")


@attrs.frozen
class Ended:
    """What a run of the command left behind."""

    code: int
    out: str
    err: str


@attrs.frozen
class Seorep:
    """Runs the command in this process."""

    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *arguments: object, now: dt.datetime = NOW) -> Ended:
        code = run([str(argument) for argument in arguments], now=now)
        out, err = self.capsys.readouterr()
        return Ended(code, out, err)

    @contextmanager
    def account(self, **options: Any) -> Iterator[Sandbox]:
        """Run a sandbox that the environment names while the block runs."""
        with serving(**options) as sandbox:
            self.monkeypatch.setenv("SEOREP_BASE_URL", sandbox.base_url)
            self.monkeypatch.setenv("SEOREP_API_KEY", sandbox.api_key)
            yield sandbox

    def give_stdin(self, content: bytes) -> None:
        """Let stdin be a pipe that holds this."""
        self.monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))


@contextmanager
def serving(**options: Any) -> Iterator[Sandbox]:
    """Run a sandbox in a thread, as the command has an event loop of its own."""
    started: Future[tuple[Sandbox, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        stop = asyncio.Event()
        async with Sandbox(**{"campaigns": 4, "keywords": 6, **options}) as sandbox:
            started.set_result((sandbox, asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    sandbox, loop, stop = started.result()
    try:
        yield sandbox
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


@contextmanager
def process(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start the command as a process of its own, which ends with the block at the latest."""
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def shell(line: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell, in which `seorep` is the command."""
    # without `-X dev`, by which asyncio tells what took long
    command = shlex.join([sys.executable, "-W", "error", *COMMAND[-2:]])
    line = line.replace("seorep", command)
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, **options)
