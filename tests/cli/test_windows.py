"""Behaviour of Windows, simulated: its errors, signals, clocks and paths."""

import errno
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from seorep_async.cli import output
from seorep_async.cli.errors import ExitCode
from seorep_async.errors import ExportError
from seorep_async.profiles import config_file
from tests.cli.test_process import program

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("name", ["SIGBREAK", "SIGINT"])
def test_ctrl_break_ends_a_pull_as_ctrl_c_does(tmp_path: Path, name: str) -> None:
    # Linux has no SIGBREAK: another signal stands for it
    stand_in = "signal.SIGBREAK = signal.SIGUSR1"
    started = f"""
{stand_in}
import seorep_async.cli.pulling as pull
async def interrupted(*_, **__):
    interrupt(signal.{name})
    await asyncio.sleep(60)
pull.pull_to = interrupted
"""
    ended = program(started, "pull", "--sandbox", cwd=tmp_path)
    assert ended.returncode == ExitCode.INTERRUPTED
    assert ended.stderr.startswith("Interrupted")


class ClosedPipe:
    """The raw stdout of a pipe whose reader, such as `more`, has ended."""

    def __init__(self, error: int) -> None:
        self._error = error

    def write(self, data: object) -> int:
        raise OSError(self._error, os.strerror(self._error))


@pytest.mark.parametrize(
    ("platform", "error", "outcome"),
    [
        ("win32", errno.EINVAL, click.exceptions.Exit),
        ("win32", errno.EPIPE, click.exceptions.Exit),
        ("win32", errno.ENOSPC, ExportError),
        ("linux", errno.EINVAL, ExportError),
    ],
)
def test_a_reader_that_closes_the_pipe_early_is_not_an_error(
    tmp_path: Path, platform: str, error: int, outcome: type[Exception]
) -> None:
    # the file is closed in place of this process's stdout
    with (tmp_path / "stdout").open("wb") as file, pytest.MonkeyPatch.context() as patching:
        stdout = SimpleNamespace(
            buffer=ClosedPipe(error),
            fileno=file.fileno,
            flush=lambda: None,
            isatty=lambda: False,
        )
        patching.setattr(sys, "stdout", stdout)
        patching.setattr(sys, "platform", platform)
        with pytest.raises(outcome):
            output.write("rows")


def test_profiles_are_found_in_a_folder_with_backslashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os.path, "isabs", lambda path: path[1:3] == ":\\")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("APPDATA", r"C:\Users\me\AppData\Roaming")
    assert str(config_file()).startswith(r"C:\Users\me\AppData\Roaming")
