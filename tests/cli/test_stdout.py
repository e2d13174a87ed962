"""The command with a stdout that can't be written, or is not read."""

from __future__ import annotations

import fcntl
import signal
import struct
import termios
from pathlib import Path

import pytest

from tests.cli.running import Seorep, process, shell
from tests.cli.test_process import wait_for, without_slow_callbacks

PULL = "seorep pull --sandbox --campaigns 2 --keywords 3 --quiet"


FULL = (">/dev/full", "No space left on device")
CLOSED = (">&-", "it is closed")


@pytest.mark.parametrize(
    ("command", "stdout", "problem"),
    [
        (f"{PULL} -o -", *FULL),
        (f"{PULL} -o -", *CLOSED),
        (f"{PULL} --dry-run", *CLOSED),
        ("seorep sandbox --port 0", *FULL),
    ],
)
def test_an_unwritable_stdout_is_7_and_one_line(tmp_path: Path, command: str, stdout: str, problem: str) -> None:
    ended = shell(f"{command} {stdout}", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (7, f"Error: can't write to stdout: {problem}\n")


@pytest.mark.parametrize("command", [f"{PULL} -o -", f"{PULL} --dry-run"])
def test_a_reader_that_stops_is_not_reported(tmp_path: Path, command: str) -> None:
    ended = shell(f"{command} | true; exit ${{PIPESTATUS[0]}}", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_unwritable_summary_is_7_although_the_target_is(tmp_path: Path) -> None:
    ended = shell(f"{PULL} --json -o a.csv >/dev/full", cwd=tmp_path)
    assert (tmp_path / "a.csv").exists()
    message = "Error: a.csv is written, but the summary is not: can't write to stdout: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (7, message)


def test_an_unread_summary_is_no_error(tmp_path: Path) -> None:
    ended = shell(f"{PULL.replace(' --quiet', '')} --json -o a.csv | true; exit ${{PIPESTATUS[0]}}", cwd=tmp_path)
    assert (ended.returncode, ended.stderr.splitlines()[0][:7]) == (0, "Pulled ")


def test_the_code_for_failures_outlives_an_unwritten_summary(tmp_path: Path, seorep: Seorep) -> None:
    with seorep.account(failing={2: 404}):
        assert shell("seorep pull --quiet --json >/dev/full", cwd=tmp_path).returncode == 4


def test_an_error_says_that_nothing_was_written(tmp_path: Path, seorep: Seorep) -> None:
    with seorep.account(campaigns=1, failing={1: 404}):
        ended = shell("seorep pull --quiet --json >&-", cwd=tmp_path)
    assert ended.stderr.endswith("Error: nothing is written: can't write to stdout: it is closed\n")


@pytest.mark.parametrize("stderr", ["2>&-", "--verbose 2>/dev/full", "--verbose 2> >(true)"])
def test_a_pull_needs_no_stderr(tmp_path: Path, stderr: str) -> None:
    ended = shell(f"seorep pull --sandbox --campaigns 1 --faults 500s=30% {stderr}", cwd=tmp_path)
    assert (ended.returncode, (tmp_path / "rankings-campaign.csv").exists()) == (0, True)


def waiting(pipe: int) -> int:
    """Return how many unread bytes are in a pipe."""
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return int(count)


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        (("pull", "-o", "-", "--limit", "200"), signal.SIGINT),
        (("keywords", "list", "--format", "csv", "--limit", "200"), signal.SIGTERM),
    ],
)
def test_an_interrupt_ends_it_even_if_nobody_reads(
    tmp_path: Path, seorep: Seorep, command: tuple[str, ...], sent: signal.Signals
) -> None:
    with seorep.account(campaigns=20, keywords=200), process(*command, cwd=tmp_path) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        pipe = running.stdout.fileno()
        most = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
        wait_for(lambda: waiting(pipe) > most - 4096, running)
        running.send_signal(sent)
        assert running.wait() == 130
        assert without_slow_callbacks(running.stderr.read()).strip() == "Interrupted."
