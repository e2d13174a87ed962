"""What becomes of the command when stdout can't be written, or is not read."""

from __future__ import annotations

import fcntl
import signal
import struct
import termios
from pathlib import Path

import pytest

from tests.cli.resource_account import account
from tests.cli.running import process, shell
from tests.cli.test_process import told, wait_for

PULL = "seorep pull --sandbox --campaigns 2 --keywords 3 --quiet"


CLOSED = [(">/dev/full", "No space left on device"), (">&-", "it is closed")]


@pytest.mark.parametrize("command", [f"{PULL} -o -", f"{PULL} --dry-run", "seorep sandbox --port 0"])
@pytest.mark.parametrize(("stdout", "problem"), CLOSED)
def test_if_it_can_not_be_written_it_is_7_and_one_line(tmp_path: Path, command: str, stdout: str, problem: str) -> None:
    ended = shell(f"{command} {stdout}", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (7, f"Error: can't write to stdout: {problem}\n")


@pytest.mark.parametrize("command", [f"{PULL} -o -", f"{PULL} --dry-run"])
def test_who_stops_reading_is_no_error_to_tell(tmp_path: Path, command: str) -> None:
    ended = shell(f"{command} | true; exit ${{PIPESTATUS[0]}}", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (130, "")


@pytest.mark.parametrize(("stdout", "problem"), CLOSED)
def test_a_summary_that_can_not_be_written_is_7_and_the_target_is_told_to_be_whole(
    tmp_path: Path, stdout: str, problem: str
) -> None:
    ended = shell(f"{PULL} --json -o a.csv {stdout}", cwd=tmp_path)
    assert (tmp_path / "a.csv").exists()
    told = f"Error: a.csv is written, but the summary is not: can't write to stdout: {problem}\n"
    assert (ended.returncode, ended.stderr) == (7, told)


def test_who_does_not_read_the_summary_learns_it_from_the_code_and_stderr(tmp_path: Path) -> None:
    ended = shell(f"{PULL.replace(' --quiet', '')} --json -o a.csv | true; exit ${{PIPESTATUS[0]}}", cwd=tmp_path)
    assert (ended.returncode, ended.stderr.splitlines()[0][:7]) == (0, "Pulled ")


def test_nor_is_that_an_error_to_tell(tmp_path: Path) -> None:
    ended = shell(f"{PULL} --json -o a.csv | true; exit ${{PIPESTATUS[0]}}", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("stdout", [">/dev/full", "| true; exit ${PIPESTATUS[0]}"])
def test_a_code_that_tells_of_failures_outlives_an_unwritten_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stdout: str
) -> None:
    with account(monkeypatch, failing={2: 404}):
        assert shell(f"seorep pull --quiet --json {stdout}", cwd=tmp_path).returncode == 4


def test_if_nothing_was_written_at_all_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with account(monkeypatch, campaigns=1, failing={1: 404}):
        ended = shell("seorep pull --quiet --json >&-", cwd=tmp_path)
    assert ended.stderr.endswith(
        "Error: neither a file nor the summary is written: can't write to stdout: it is closed\n"
    )


def test_without_stderr_it_pulls_all_the_same(tmp_path: Path) -> None:
    ended = shell("seorep pull --sandbox --campaigns 1 2>&-", cwd=tmp_path)
    assert (ended.returncode, (tmp_path / "rankings-campaign.csv").exists()) == (0, True)


def waiting(pipe: int) -> int:
    """Return how many bytes wait in a pipe to be read."""
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return int(count)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "command", [("pull", "-o", "-", "--limit", "200"), ("keywords", "list", "--format", "csv", "--limit", "200")]
)
def test_interrupted_while_nobody_reads_it_ends_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], sent: signal.Signals
) -> None:
    with account(monkeypatch, campaigns=20, keywords=200), process(*command, cwd=tmp_path) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        pipe = running.stdout.fileno()
        most = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
        wait_for(lambda: waiting(pipe) > most - 4096)
        running.send_signal(sent)
        assert running.wait(timeout=5) == 130
        assert told(running.stderr.read()).strip() == "Interrupted."
