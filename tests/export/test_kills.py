"""A pull killed with SIGKILL at any moment is complete after another run.

A third of the kills come while the end is written. Three kills run with `-m heavy`, for CSV;
`pytest -m slow tests/export/test_kills.py` kills 60 times for each format.
"""

import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from seorep_async.sandbox import Sandbox
from seorep_async.sandbox.service import SandboxService
from tests.export.golden_nights import FORMATS, Tables, program, read
from tests.export.staged import staged_in
from tests.threads import in_a_thread

pytestmark = pytest.mark.heavy
CAMPAIGNS = 150


def pull(address: str, out: Path) -> Tables:
    """Pull to the end."""
    subprocess.run(program(address, out), check=True)
    return read(out)


def kill_and_resume(
    address: str, requested: set[int], out: Path, whole: Tables, dice: random.Random
) -> None:
    """Kill a pull, and run it again.

    Args:
        requested: the campaigns whose reports were requested, while they are served.
    """
    points = [CAMPAIGNS, dice.randrange(1, CAMPAIGNS), dice.randrange(1, CAMPAIGNS)]
    point = dice.choice(points)
    requested.clear()
    with subprocess.Popen(program(address, out)) as process:
        while len(requested) < point and process.poll() is None:
            time.sleep(0.001)
        time.sleep(dice.uniform(0, 0.4 if point == CAMPAIGNS else 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
    staged = staged_in(out, "acme" if out.suffix == ".duckdb" else None)
    requested.clear()
    tables = pull(address, out)
    if staged is None:
        # The first pull had finished, so this was a second one of the night.
        tables["pulls"][1][1:] = []
        assert tables == whole
        return
    assert tables == whole
    stored = staged.stored.get("keyword_rankings", set())
    # One campaign is looked up again, to find out its account.
    looked_up = {min(stored or {0})}
    assert not stored & requested - looked_up


def kill(format_: str, folder: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    requested: set[int] = set()
    campaign_of = SandboxService.campaign

    def campaign(self: SandboxService, id_: int) -> Any:
        requested.add(id_)
        return campaign_of(self, id_)

    monkeypatch.setattr(SandboxService, "campaign", campaign)
    dice = random.Random(format_)
    with in_a_thread(Sandbox(campaigns=CAMPAIGNS, keywords=20, latency=0.02)) as sandbox:
        whole = pull(sandbox.base_url, folder / f"whole.{format_}")
        for number in range(times):
            out = folder / str(number) / f"whole.{format_}"
            out.parent.mkdir()
            kill_and_resume(sandbox.base_url, requested, out, whole, dice)


def test_a_killed_pull_ends_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill("csv", tmp_path, 3, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
def test_many_killed_pulls_end_as_if_nothing_had_been(
    format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(format_, tmp_path, 60, monkeypatch)
