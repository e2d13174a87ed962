"""Signals at random moments: each ends the command with 130, without a traceback, and the same command resumes."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import COMMAND, Seorep
from tests.cli.test_process import without_slow_callbacks

DAYS = ("--from", "2023-01-01", "--to", "2023-01-31")
PULL = ("pull", *DAYS, "--quiet")
LINES = {
    "pull": (*PULL, "--json", "-o", "a.csv"),
    "dataset": (*PULL, "-o", "a/"),
    "database": (*PULL, "-o", "a.duckdb"),
    "stdout": (*PULL, "-o", "-"),
    "shards": ("shards", "run", "shards.jsonl"),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LONGEST = 60
CAMPAIGNS = 12
ROWS = 1 + CAMPAIGNS * 3


def minds_signals(running: subprocess.Popen[str]) -> bool:
    """Return whether the command has begun, or has ended: before, it is Python that starts."""
    if running.poll() is not None:
        return True
    caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{running.pid}/status").read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGHUP - 1) & 1)


def start(line: str, folder: Path, *under: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*under, *COMMAND, *LINES[line]],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def interrupt(line: str, sent: signal.Signals, pause: float, folder: Path) -> int:
    """Interrupt a command, check how it ended, and return its exit code."""
    running = start(line, folder)
    try:
        while not minds_signals(running):
            time.sleep(0.002)
        time.sleep(pause)
        running.send_signal(sent)
        out, err = running.communicate(timeout=LONGEST)
    finally:
        running.kill()
    assert running.returncode in (0, 130), (sent, pause, running.returncode, err)
    assert not re.search("Traceback|never awaited|was destroyed|unexpected", err), (sent, pause, err)
    assert len(without_slow_callbacks(err).splitlines()) <= 2, (sent, pause, err)
    if line == "pull" and out:
        assert f'"exit_code": {running.returncode},' in out
    return running.returncode


def resume(line: str, folder: Path) -> str:
    ended = subprocess.run([*COMMAND, *LINES[line]], cwd=folder, capture_output=True, text=True, timeout=LONGEST)
    assert (ended.returncode, without_slow_callbacks(ended.stderr)) == (0, "")
    return ended.stdout


@pytest.fixture
def folder(tmp_path: Path, seorep: Seorep) -> Iterator[Path]:
    """A folder with planned shards, beside a service of which each pull takes about a second."""
    with seorep.account(campaigns=CAMPAIGNS, keywords=3, latency=0.05):
        plan = (*COMMAND, "shards", "plan", "-o", "b/", "--shards", "4", *DAYS)
        planned = subprocess.run(plan, cwd=tmp_path, capture_output=True, check=True).stdout
        (tmp_path / "shards.jsonl").write_bytes(planned)
        yield tmp_path


@pytest.mark.parametrize(
    ("line", "sent"), [("pull", "SIGHUP"), ("stdout", "SIGTERM"), ("shards", "SIGHUP"), ("shards", "SIGINT")]
)
def test_a_signal_at_any_moment_is_130_and_resumable(folder: Path, line: str, sent: str) -> None:
    interrupt(line, signal.Signals[sent], random.uniform(0, 1), folder)
    whole = resume(line, folder)
    assert line != "stdout" or whole.count("\n") == ROWS


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("line", LINES)
def test_thirty_signals_leave_nothing_behind(folder: Path, line: str) -> None:
    """Each run is in the folder that the one before has left behind."""
    began = time.monotonic()
    assert resume("stdout", folder).count("\n") == ROWS
    length = time.monotonic() - began
    codes = [interrupt(line, sent, random.uniform(0, length), folder) for sent in SIGNALS * 12]
    assert 130 in codes
    resume(line, folder)


def test_a_hangup_that_nohup_ignores_changes_nothing(folder: Path) -> None:
    with start("stdout", folder, "nohup") as running:
        assert running.stdout is not None
        rows = [running.stdout.readline()]
        running.send_signal(signal.SIGHUP)
        rows += running.communicate(timeout=LONGEST)[0].splitlines()
    assert (running.returncode, len(rows)) == (0, ROWS)
