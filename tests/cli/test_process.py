"""The command as a process: real exit codes, signals, a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import COMMAND, process, shell
from tests.export.reports import names_in

SLOW = ("pull", "--sandbox", "--campaigns", "8000", "--latency", "0.2")  # 100 s


def without_slow_callbacks(err: str) -> str:
    """Return stderr without asyncio's own word that a busy machine was slow."""
    return "".join(line for line in err.splitlines(keepends=True) if not line.startswith("Executing <"))


def wait_for(begun: Callable[[], object], running: subprocess.Popen[str]) -> None:
    while not begun():
        assert running.poll() is None, "it ended before it had begun"
        time.sleep(0.02)


def has_stored_reports(folder: Path, copy: Path) -> bool:
    """Look into a copy of the checkpoint, as the pull has it locked."""
    for file in folder.glob("checkpoint*"):
        (copy / file.name).write_bytes(file.read_bytes())
    with contextlib.closing(sqlite3.connect(copy / "checkpoint")) as database:
        try:
            return bool(database.execute("SELECT count(*) FROM reports WHERE name != 'campaigns'").fetchone()[0])
        except sqlite3.Error:  # half-written
            return False


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_130_and_says_how_to_resume(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, sent: signal.Signals
) -> None:
    with process(*SLOW, cwd=tmp_path) as running:
        folder = tmp_path / ".rankings-campaign.csv.pull"
        wait_for(lambda: has_stored_reports(folder, tmp_path_factory.mktemp("copy")), running)
        running.send_signal(sent)
        out, err = running.communicate()
    assert (running.returncode, out) == (130, "")
    assert re.fullmatch(
        r"Interrupted; (1 report is|\d+ reports are) stored\.\n"
        r"Repeat the command to resume, or add --restart to start over\.\n",
        without_slow_callbacks(err),
    )
    assert names_in(tmp_path) == [".rankings-campaign.csv.pull"]


def test_an_interrupt_before_the_first_report_leaves_nothing(tmp_path: Path) -> None:
    with process("pull", "--sandbox", "--latency", "100", cwd=tmp_path) as running:
        wait_for(lambda: names_in(tmp_path), running)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate()
    assert (running.returncode, names_in(tmp_path)) == (130, [])
    assert without_slow_callbacks(err) == "Interrupted; no report is stored yet.\n"


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    with process("pull", "--sandbox", "--campaigns", "200", "-o", "-", "--quiet", cwd=tmp_path) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().startswith("account,")
        running.stdout.close()
        assert without_slow_callbacks(running.stderr.read()) == ""
        assert running.wait() == 0


def test_progress_is_shown_on_a_terminal(tmp_path: Path) -> None:
    screen, stderr = pty.openpty()
    slowly = ("--latency", "0.1", "--max-concurrency", "2")
    arguments = ("pull", "--sandbox", "--campaigns", "10", "--keywords", "3", *slowly)
    shown = b""
    terminal = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen([*COMMAND, *arguments], cwd=tmp_path, env=terminal, stderr=stderr) as running:
        os.close(stderr)
        try:
            while block := os.read(screen, 65536):
                shown += block
        except OSError:  # Linux says so when the other side is closed
            pass
    os.close(screen)
    assert running.returncode == 0
    assert b"Pulling campaign" in shown
    assert b"/10 campaigns" in shown


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
    assert (running.returncode, without_slow_callbacks(err).strip()) == (0, "Stopped after 0 requests.")


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_one_line_names_it(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from seorep_async.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    advice = "pip install 'seorep-async[cli]', or in a clone: pip install '.[cli]'"
    assert ended.stderr == f"seorep needs more than the library: {advice}\n"


def test_the_library_does_not_import_the_extra() -> None:
    program = "import sys, seorep_async, seorep_async.export; sys.exit(bool({'click', 'rich'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def program(before: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command, with some lines of Python before it."""
    lines = f"""
import asyncio, atexit, os, signal, sys
from functools import partial
interrupt = partial(os.kill, os.getpid())
{before}
from seorep_async.cli import main
main()
"""
    return subprocess.run(
        [sys.executable, "-c", lines, *arguments], capture_output=True, text=True, check=False, **options
    )


def test_an_interrupt_during_imports_is_130_without_a_word() -> None:
    before = """
class Interrupting:
    def find_spec(self, name, *_):
        if name == "rich":
            interrupt(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""
    ended = program(before, "--version")
    assert (ended.returncode, ended.stderr) == (130, "")


def test_little_is_imported_before_the_command_minds_ctrl_c() -> None:
    imports = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); import seorep_async.cli"
    subprocess.run([sys.executable, "-I", "-S", "-c", f"{imports}; sys.exit('typing' in sys.modules)"], check=True)


def test_an_interrupt_at_exit_changes_nothing() -> None:
    ended = program("atexit.register(interrupt, signal.SIGINT)", "--version")
    assert (ended.returncode, ended.stdout[:7], ended.stderr) == (0, "seorep ", "")


LEAVING = """
from seorep_async import SeoRepClient
leave = SeoRepClient.__aexit__
async def interrupted(self, *error):
    interrupt(signal.{sent})
    await asyncio.sleep(0)
    await leave(self, *error)
SeoRepClient.__aexit__ = interrupted
"""


@pytest.mark.parametrize(("sent", "out"), [("SIGINT", "a.csv"), ("SIGTERM", "-")])
def test_an_interrupt_after_the_summary_changes_nothing(tmp_path: Path, sent: str, out: str) -> None:
    ended = program(LEAVING.format(sent=sent), "pull", "--sandbox", "--campaigns", "1", "-o", out, cwd=tmp_path)
    assert (ended.returncode, ended.stderr[:7], ended.stderr.count("Interrupted")) == (0, "Pulled ", 0)


def test_an_interrupt_during_an_unread_summary_is_a_success(tmp_path: Path) -> None:
    unread = """
import time
import seorep_async.cli.pull as pull
def unread(*_, **__):
    interrupt(signal.SIGINT)
    time.sleep(60)
pull.write_stdout = unread
"""
    ended = program(unread, "pull", "--sandbox", "--campaigns", "1", "--json", cwd=tmp_path)
    assert (ended.returncode, ended.stderr[:7]) == (0, "Pulled ")


def test_a_second_interrupt_ends_with_130(tmp_path: Path) -> None:
    stuck = """
import seorep_async.cli.pull as pull
async def stuck(*_, **__):
    interrupt(signal.SIGTERM)
    await asyncio.sleep(60)
pull.run_export = stuck
"""
    ended = program(LEAVING.format(sent="SIGINT") + stuck, "pull", "--sandbox", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (
        130,
        "Interrupted; nothing was fetched.\n",
    )


def test_a_terminal_that_shows_only_ascii_is_no_error(tmp_path: Path) -> None:
    environment = os.environ | {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    ended = shell("seorep pull --sandbox --campaigns 1 -o r\u00e4nge.csv", cwd=tmp_path, env=environment)
    assert (ended.returncode, "unexpected" in ended.stderr) == (0, False)
