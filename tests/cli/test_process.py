"""The command as a process: real exit codes, signals at random moments, a terminal."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.cli.running import (
    COMMAND,
    REPO,
    Seorep,
    process,
    terminal,
    wait_for,
    without_slow_callbacks,
)
from tests.processes import run_python

pytestmark = pytest.mark.heavy

SLOW = ("pull", "-o", "slow.csv", "-s", "campaigns=8000", "-s", "latency=0.2")  # 100 s


def has_stored_reports(folder: Path) -> bool:
    return any(file.stat().st_size > 100_000 for file in folder.glob("pieces*"))


def test_an_interrupt_is_130_and_says_how_to_resume(tmp_path: Path) -> None:
    with process(*SLOW, cwd=tmp_path) as running:
        folder = tmp_path / ".slow.csv.pull"
        wait_for(lambda: has_stored_reports(folder), running)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate()
    assert (running.returncode, out) == (130, "")
    assert re.fullmatch(
        r"Interrupted( at [\d,]+ of 8,000 reports)?\.\n"
        r"Repeat the command to resume\. With --restart, it would start over\.\n",
        without_slow_callbacks(err),
    )
    assert os.listdir(tmp_path) == [".slow.csv.pull"]


def test_help_is_shown_where_the_locale_is_latin_1() -> None:
    latin_1 = os.environ | {"PYTHONIOENCODING": "latin-1"}
    assert subprocess.run([*COMMAND, "--help"], check=False, env=latin_1).returncode == 0


def test_progress_is_shown_on_a_terminal(tmp_path: Path) -> None:
    slowly = ("-s", "latency=0.1", "-c", "max_concurrency=2", "-o", str(tmp_path / "a.csv"))
    with terminal("pull", "-s", "campaigns=10", "-s", "keywords=3", *slowly, columns=100) as person:
        assert person.end() == 0
    assert "Pulling campaign" in person.text
    assert "/10 campaigns" in person.text


def test_the_sandbox_serves_until_it_is_interrupted() -> None:
    with process("sandbox", "--port", "0", "--campaigns", "3", "--api-key", "a b") as running:
        assert running.stdout is not None
        said = "".join(iter(running.stdout.readline, "seorep pull\n"))
        (curl,) = re.findall("^curl .*", said, re.MULTILINE)
        exports = dict(re.findall("^export (SEOREP_[A-Z_]+)=(.*)", said, re.MULTILINE))
        assert exports["SEOREP_API_KEY"] == "'a b'"
        assert curl == f"curl --user ':a b' '{exports['SEOREP_BASE_URL']}/v3/campaigns?limit=2'"
        running.send_signal(signal.SIGINT)
        _, err = running.communicate()
    assert (running.returncode, without_slow_callbacks(err).strip()) == (
        130,
        "Stopped after 0 requests.",
    )


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_one_line_names_it(missing: str) -> None:
    ended = program(f"sys.modules[{missing!r}] = None")
    advice = "pip install 'seorep-async[cli]', or in a clone: pip install '.[cli]'"
    assert ended.returncode == 2
    assert ended.stderr == f"seorep needs more than the library: {advice}\n"


def program(before: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    lines = f"""
import asyncio, atexit, os, signal, sys
from functools import partial
interrupt = partial(os.kill, os.getpid())
{before}
from seorep_async.cli import main
main()
"""
    return run_python("-c", lines, *arguments, **options)


def test_a_deleted_working_directory_is_a_one_line_error(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    leave = f"os.chdir({str(folder)!r}); os.rmdir({str(folder)!r})"
    ended = program(leave, "pull", "--sandbox", "--quiet", cwd=REPO)
    assert (ended.returncode, ended.stderr) == (
        2,
        "Error: the working directory is gone; change to another folder, and run the command "
        "again\n",
    )


def test_little_is_imported_before_the_command_minds_ctrl_c() -> None:
    imports = f"import sys; sys.path.insert(0, {str(REPO)!r}); import seorep_async.cli"
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"{imports}; sys.exit('typing' in sys.modules)"],
        check=True,
    )


LEAVING = """
from seorep_async import SeoRepClient
leave = SeoRepClient.__aexit__
async def interrupted(self, *error):
    interrupt(signal.{})
    await asyncio.sleep(0)
    await leave(self, *error)
SeoRepClient.__aexit__ = interrupted
"""
IMPORTING = """
class Interrupting:
    def find_spec(self, name, *_):
        if name == "rich":
            interrupt(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""
UNREAD = """
import time
import seorep_async.cli.pulling as pull
def unread(*_, **__):
    interrupt(signal.SIGINT)
    time.sleep(60)
pull.write = unread
"""
STUCK = """
import seorep_async.cli.pulling as pull
async def stuck(*_, **__):
    interrupt(signal.SIGTERM)
    await asyncio.sleep(60)
pull.pull_to = stuck
"""


@attrs.frozen
class Interrupted:
    """An interrupted command, and its end.

    Attributes:
        before: lines of Python that run before the command.
        out, err: the beginning of stdout and stderr; nothing means that they are empty.
    """

    before: str
    line: str
    code: int
    out: str = ""
    err: str = ""


ADVICE = "Interrupted.\nRepeat the command to resume. With --restart, it would start over.\n"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Interrupted(IMPORTING, "--version", 130), id="during imports"),
        pytest.param(
            Interrupted("atexit.register(interrupt, signal.SIGINT)", "--version", 0, out="seorep "),
            id="at exit",
        ),
        pytest.param(
            Interrupted(LEAVING.format("SIGINT"), "pull -s campaigns=1 -o a.csv", 0, err="Pulled "),
            id="after the summary",
        ),
        pytest.param(
            Interrupted(
                LEAVING.format("SIGTERM"),
                "pull -s campaigns=1 -o -",
                0,
                out="account",
                err="Pulled ",
            ),
            id="after the summary of a pipe",
        ),
        pytest.param(
            Interrupted(UNREAD, "pull -s campaigns=1 --json", 0, err="Pulled "),
            id="during an unread summary",
        ),
        pytest.param(
            Interrupted(LEAVING.format("SIGINT") + STUCK, "pull --sandbox", 130, err=ADVICE),
            id="twice",
        ),
    ],
)
def test_an_interrupt_ends_it_well_or_comes_too_late(tmp_path: Path, case: Interrupted) -> None:
    ended = program(case.before, *case.line.split(), cwd=tmp_path)
    assert ended.returncode == case.code
    assert ended.stdout.startswith(case.out)
    assert ended.stderr.startswith(case.err)
    assert (ended.stdout == "") == (case.out == "")
    assert (ended.stderr == "") == (case.err == "")
    assert ended.stderr.count("Interrupted") == case.err.count("Interrupted")


# --- Signals at random moments: each ends the command with 130, and the same command resumes


DAYS = ("--from", "2023-01-01", "--to", "2023-01-31")
PULL = ("pull", *DAYS, "--quiet")
LINES = {
    "pull": (*PULL, "--json", "-o", "a.csv"),
    "database": (*PULL, "-o", "a.duckdb"),
    "stdout": (*PULL, "-o", "-"),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LONGEST = 300  # seconds; an interrupted command that goes on would need no less
CAMPAIGNS = 12
ROWS = 1 + CAMPAIGNS * 3


def minds_signals(running: subprocess.Popen[str]) -> bool:
    """Return whether the command, not only Python, has started, or has ended."""
    if running.poll() is not None:
        return True
    caught = re.search(
        r"^SigCgt:\s*(\w+)", Path(f"/proc/{running.pid}/status").read_text(), re.MULTILINE
    )
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGHUP - 1) & 1)


def interrupt(line: str, sent: signal.Signals, pause: float, folder: Path) -> int:
    """Interrupt a command, check how it ended, and return its exit code."""
    with process(*LINES[line], cwd=folder) as running:
        while not minds_signals(running):
            time.sleep(0.002)
        time.sleep(pause)
        running.send_signal(sent)
        out, err = running.communicate(timeout=LONGEST)
    assert running.returncode in (0, 130), (sent, pause, running.returncode, err)
    assert not re.search("Traceback|never awaited|was destroyed|unexpected", err), (
        sent,
        pause,
        err,
    )
    assert len(without_slow_callbacks(err).splitlines()) <= 2, (sent, pause, err)
    if line == "pull" and out:
        facts = json.loads(out)
        assert (facts["error"] or {"code": facts["exit_code"]})["code"] == running.returncode
    return running.returncode


def resume(line: str, folder: Path) -> str:
    ended = subprocess.run(
        [*COMMAND, *LINES[line]], cwd=folder, capture_output=True, text=True, timeout=LONGEST
    )
    assert (ended.returncode, without_slow_callbacks(ended.stderr)) == (0, "")
    return ended.stdout


@pytest.fixture
def folder(tmp_path: Path, seorep: Seorep) -> Iterator[Path]:
    """A folder with a service, from which each pull takes about a second."""
    with seorep.account(campaigns=CAMPAIGNS, keywords=3, latency=0.05):
        yield tmp_path


@pytest.mark.parametrize(
    ("line", "sent"), [("pull", "SIGHUP"), ("stdout", "SIGTERM"), ("pull", "SIGINT")]
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
    with process(*LINES["stdout"], under=["nohup"], cwd=folder) as running:
        assert running.stdout is not None
        rows = [running.stdout.readline()]
        running.send_signal(signal.SIGHUP)
        rows += running.communicate(timeout=LONGEST)[0].splitlines()
    assert (running.returncode, len(rows)) == (0, ROWS)
