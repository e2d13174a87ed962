"""Killed with SIGKILL at any moment, a third of the time while the end is written, a pull that is run again is whole.

Three kills run with `-m heavy`, for CSV; `pytest -m slow tests/export/test_kills.py` kills 60 times for each format.
"""

import asyncio
import random
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from seorep_async.sandbox import Sandbox
from seorep_async.sandbox.service import SandboxService
from tests.export.golden_nights import FORMATS, Tables, program, read
from tests.export.staged import staged_in

pytestmark = pytest.mark.heavy
CAMPAIGNS = 150
IN_FLIGHT = 2 * 8 + 1


@attrs.define
class Asked:
    """The campaigns whose reports were asked for, and when."""

    at: list[tuple[float, int]] = attrs.field(factory=list)

    @property
    def ids(self) -> set[int]:
        return {id_ for _, id_ in self.at}


@contextmanager
def served(asked: Asked) -> Iterator[str]:
    """Serve an account from a thread of its own; yield its address."""
    found = SandboxService.campaign

    def campaign(self: SandboxService, id_: int) -> Any:
        asked.at.append((time.monotonic(), id_))
        return found(self, id_)

    ready, address = threading.Event(), []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with Sandbox(campaigns=CAMPAIGNS, keywords=20, latency=0.02) as sandbox:
            address.append(sandbox.base_url)
            ready.set()
            await ended.wait()

    ended = asyncio.Event()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SandboxService, "campaign", campaign)
        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
        thread.start()
        ready.wait()
        try:
            yield address[0]
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join()
            loop.close()


def pull(address: str, out: Path) -> Tables:
    """Pull to the end."""
    subprocess.run(program(address, out), check=True)
    return read(out)


def kill_and_resume(
    address: str, asked: Asked, out: Path, whole: Tables, dice: random.Random
) -> int:
    """Kill a pull, run it again, and return how many reports of more than a quarter of a second ago were lost."""
    point = dice.choice([CAMPAIGNS, dice.randrange(1, CAMPAIGNS), dice.randrange(1, CAMPAIGNS)])
    asked.at.clear()
    with subprocess.Popen(program(address, out)) as process:
        while len(asked.ids) < point and process.poll() is None:
            time.sleep(0.001)
        time.sleep(dice.uniform(0, 0.4 if point == CAMPAIGNS else 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
    killed, before = time.monotonic(), list(asked.at)
    staged = staged_in(out, "acme" if out.suffix == ".duckdb" else None)
    stored = set() if staged is None else staged.stored.get("keyword_rankings", set())
    asked.at.clear()
    found = pull(address, out)
    if staged is None:  # it had come to its end, so this was a second pull of the night
        found["pulls"][1][1:] = []
    assert found == whole
    if staged is None:
        return 0
    assert not stored & asked.ids - {
        min(stored or {0})
    }  # one campaign is looked up again, to know whose it is
    return len({id_ for at, id_ in before if killed - at > 0.25 + 0.02 + 0.1} - stored)


def kill(format_: str, folder: Path, times: int) -> None:
    asked, dice = Asked(), random.Random(format_)
    with served(asked) as address:
        whole = pull(address, folder / f"whole.{format_}")
        lost = []
        for number in range(times):
            (folder / str(number)).mkdir()
            lost.append(
                kill_and_resume(
                    address, asked, folder / str(number) / f"whole.{format_}", whole, dice
                )
            )
        assert statistics.median(lost) <= IN_FLIGHT  # a busy machine may be late now and then


def test_a_killed_pull_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    kill("csv", tmp_path, 3)


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
def test_many_killed_pulls_end_as_if_nothing_had_been(format_: str, tmp_path: Path) -> None:
    kill(format_, tmp_path, 60)
