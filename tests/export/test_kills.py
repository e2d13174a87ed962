"""A pull that was killed with SIGKILL at any moment is complete after another run.

A third of the kills come while the end is written. Three kills run with `-m heavy`, for CSV;
`pytest -m slow tests/export/test_kills.py` kills 60 times for each format.
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
LATENCY = 0.02


@attrs.define
class Reports:
    """The campaigns whose reports were requested, and when."""

    requests: list[tuple[float, int]] = attrs.field(factory=list)

    @property
    def ids(self) -> set[int]:
        return {id_ for _, id_ in self.requests}


@contextmanager
def served(reports: Reports) -> Iterator[str]:
    """Serve an account from a thread of its own; yield its address."""
    campaign_of = SandboxService.campaign

    def campaign(self: SandboxService, id_: int) -> Any:
        reports.requests.append((time.monotonic(), id_))
        return campaign_of(self, id_)

    ready = threading.Event()
    address = []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with Sandbox(campaigns=CAMPAIGNS, keywords=20, latency=LATENCY) as sandbox:
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
    address: str, reports: Reports, out: Path, whole: Tables, dice: random.Random
) -> int:
    """Kill a pull, and run it again.

    Returns:
        The number of lost reports that were requested more than a quarter of a second before.
    """
    points = [CAMPAIGNS, dice.randrange(1, CAMPAIGNS), dice.randrange(1, CAMPAIGNS)]
    point = dice.choice(points)
    reports.requests.clear()
    with subprocess.Popen(program(address, out)) as process:
        while len(reports.ids) < point and process.poll() is None:
            time.sleep(0.001)
        time.sleep(dice.uniform(0, 0.4 if point == CAMPAIGNS else 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
    killed_at = time.monotonic()
    before = list(reports.requests)
    staged = staged_in(out, "acme" if out.suffix == ".duckdb" else None)
    reports.requests.clear()
    tables = pull(address, out)
    if staged is None:
        # The first pull had finished, so this was a second one of the night.
        tables["pulls"][1][1:] = []
        assert tables == whole
        return 0
    assert tables == whole
    stored = staged.stored.get("keyword_rankings", set())
    # One campaign is looked up again, to find out its account.
    looked_up = {min(stored or {0})}
    assert not stored & reports.ids - looked_up
    longest = 0.25 + LATENCY + 0.1
    return len({id_ for at, id_ in before if killed_at - at > longest} - stored)


def kill(format_: str, folder: Path, times: int) -> None:
    reports = Reports()
    dice = random.Random(format_)
    with served(reports) as address:
        whole = pull(address, folder / f"whole.{format_}")
        lost = []
        for number in range(times):
            out = folder / str(number) / f"whole.{format_}"
            out.parent.mkdir()
            lost.append(kill_and_resume(address, reports, out, whole, dice))
    # A busy machine may be late now and then.
    assert statistics.median(lost) <= IN_FLIGHT


def test_a_killed_pull_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    kill("csv", tmp_path, 3)


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
def test_many_killed_pulls_end_as_if_nothing_had_been(format_: str, tmp_path: Path) -> None:
    kill(format_, tmp_path, 60)
