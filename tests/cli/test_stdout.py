"""The command if nobody reads its stdout, and its log. The session `shell` has more of stdout."""

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
from tests.cli.running import Seorep, process, wait_for, without_slow_callbacks
from tests.session.calls import KEY
from tests.session.canary import assert_key_is_not_in
from tests.session.scripted_server import ScriptedServer, answer
from tests.threads import in_a_thread

pytestmark = pytest.mark.heavy


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
            for method in ("GET", "PUT", "POST")
        }
    assert {method: ended.code for method, ended in said.items()} == {"GET": 6, "PUT": 6, "POST": 5}
    doubt = "The PUT may have taken effect: check before you repeat it.\n"
    assert [doubt in ended.err for ended in said.values()] == [False, True, False]
    assert "whether the request was carried out is not known" in said["POST"].err


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
