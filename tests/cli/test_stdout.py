"""The command if stdout can't be written or is not read, and its log."""

import asyncio
import fcntl
import logging
import re
import signal
import struct
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from seorep_async import export
from seorep_async.cli import progress, pulling
from tests.cli.running import Seorep, process, shell, wait_for, without_slow_callbacks
from tests.session.calls import KEY
from tests.session.canary import assert_key_is_not_in
from tests.session.scripted_server import ScriptedServer, answer
from tests.threads import in_a_thread

pytestmark = pytest.mark.heavy

PULL = "seorep pull -s campaigns=2 -s keywords=3 --quiet"


FULL = (">/dev/full", "No space left on device")
CLOSED = (">&-", "it is closed")


@pytest.mark.parametrize(
    ("command", "stdout", "problem"),
    [
        (f"{PULL} -o -", *FULL),
        (f"{PULL} -o -", *CLOSED),
        ("seorep sandbox --port 0", *FULL),
        ("seorep mcp --sandbox --history x.duckdb </dev/null", *CLOSED),
        ("seorep campaigns list", *FULL),
        ("seorep pull --help", *FULL),
    ],
)
def test_an_unwritable_stdout_is_7_and_one_line(
    seorep: Seorep, tmp_path: Path, command: str, stdout: str, problem: str
) -> None:
    with seorep.account():
        ended = shell(f"{command} {stdout}", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (7, f"Error: can't write to stdout: {problem}\n")


@pytest.mark.parametrize(
    ("command", "reader"),
    [
        (f"{PULL} -o -", "true"),
        ("seorep keywords list --format csv", "head -n 1"),
    ],
)
def test_a_reader_that_stops_is_not_reported(
    seorep: Seorep, tmp_path: Path, command: str, reader: str
) -> None:
    with seorep.account(campaigns=400, keywords=50):
        ended = shell(f"{command} | {reader}; exit ${{PIPESTATUS[0]}}", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("id," if reader != "true" else "")


@pytest.mark.parametrize(
    "command",
    [
        "changes week.duckdb",
        "doctor --sandbox -o week.duckdb",
        "doctor --sandbox --json -o week.duckdb",
    ],
)
def test_an_exit_code_that_answers_outlives_the_reader(tmp_path: Path, command: str) -> None:
    for day in (1, 2, 4):
        night = f"-s daily=true --last 30d --snapshot-date 2023-03-0{day}"
        shell(f"{PULL} {night} -o week.duckdb", cwd=tmp_path)
    ended = shell(f"seorep {command} --exit-code | true; exit ${{PIPESTATUS[0]}}", cwd=tmp_path)
    assert ended.returncode == 10


def test_a_closed_stdin_contains_no_ids(tmp_path: Path) -> None:
    ended = shell("seorep pull --sandbox --campaign @- <&-", cwd=tmp_path)
    assert (ended.returncode, "can't read -: " in ended.stderr) == (2, True)


def test_an_unwritable_summary_is_7_although_the_target_is(tmp_path: Path) -> None:
    ended = shell(f"{PULL} --json -o a.csv >/dev/full", cwd=tmp_path)
    assert (tmp_path / "a.csv").exists()
    assert (ended.returncode, ended.stderr) == (
        7,
        "Error: can't write to stdout: No space left on device\n",
    )


def test_an_unread_summary_is_no_error(tmp_path: Path) -> None:
    ended = shell(
        f"{PULL.replace(' --quiet', '')} --json -o a.csv | true; exit ${{PIPESTATUS[0]}}",
        cwd=tmp_path,
    )
    assert (ended.returncode, ended.stderr.splitlines()[0][:7]) == (0, "Pulled ")


def test_the_code_for_failures_outlives_an_unwritten_summary(
    tmp_path: Path, seorep: Seorep
) -> None:
    with seorep.account(failing={2: 404}):
        assert shell("seorep pull --quiet --json >/dev/full", cwd=tmp_path).returncode == 9


@pytest.mark.parametrize("stderr", ["2>&-", "--verbose 2>/dev/full"])
def test_a_pull_needs_no_stderr(tmp_path: Path, stderr: str) -> None:
    ended = shell(f"seorep pull -o a.csv -s campaigns=1 -s faults=500s=30% {stderr}", cwd=tmp_path)
    assert (ended.returncode, (tmp_path / "a.csv").exists()) == (0, True)


def waiting(pipe: int) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return int(count)


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        (("pull", "-o", "-", "--page-size", "200"), signal.SIGINT),
        (("keywords", "list", "--format", "csv", "--page-size", "200"), signal.SIGTERM),
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
        err = without_slow_callbacks(running.stderr.read()).strip()
        assert re.fullmatch(r"Interrupted( at .* reports)?\.", err)


def test_a_signal_while_a_month_is_written_ends_the_others(
    seorep: Seorep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = export.pull_to

    async def interrupted(*window: Any, **how: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with suppress(asyncio.CancelledError):  # as `pull_to` does, once it writes
            await asyncio.sleep(0)
        return await whole(*window, **how)

    monkeypatch.setattr(pulling, "pull_to", interrupted)
    ended = seorep("pull", "--sandbox", "-o", tmp_path / "x.duckdb", "--month", "2023-01..2023-03")
    assert ended.code == 130
    assert "2 months are left" in ended.err


def test_the_log_does_not_contain_the_key(seorep: Seorep) -> None:
    with seorep.account(api_key="other", faults="500s=30%"):
        seorep.monkeypatch.setenv("SEOREP_API_KEY", KEY)
        ended = seorep("pull", "-v")
        assert "attempt 1" not in seorep("pull").err
    assert "attempt 1" in ended.err
    assert logging.getLogger("seorep_async").level == logging.NOTSET
    assert_key_is_not_in(ended.err)


def test_a_write_with_an_answer_of_another_shape_leaves_a_doubt(seorep: Seorep) -> None:
    seorep.monkeypatch.setenv("SEOREP_API_KEY", KEY)
    with in_a_thread(ScriptedServer(forever=answer(b"[1]"))) as server:
        said = {
            method: seorep("api", method, "/v3/x", "--base-url", server.base_url)
            for method in ("GET", "POST")
        }
    doubt = "The POST may have taken effect: check before you repeat it.\n"
    assert {method: (ended.code, doubt in ended.err) for method, ended in said.items()} == {
        "GET": (6, False),
        "POST": (6, True),
    }


def test_a_log_has_the_progress_of_a_pull_and_why_it_waits(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_TICK_SECONDS", 0.001)
    output = seorep(
        "pull", "-s", "campaigns=6", "-s", "keywords=1", "-c", "requests_per_second=20"
    ).err
    assert re.search(
        r"^Pulling campaign: \d/6 campaigns · .*at your own limit · \d rows?$",
        output,
        re.MULTILINE,
    )
