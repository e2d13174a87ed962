"""Killed at any point, or with damaged files, a pull that is run again ends as if nothing had been.

Two kills and 30 damages run always, for CSV; with `pytest -m slow tests/export/test_killed.py` 52 and 500 for each
format, a quarter of an hour long. The service stays up while a pull is killed; 5 % of its answers are faults.
"""

import contextlib
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import duckdb
import pyarrow.parquet as pq
import pytest

from seorep_async import ConfigurationError, Feed, SeoRepClient
from seorep_async.cli.application import run
from seorep_async.export import ExportError, PullProgress
from seorep_async.sandbox import Sandbox
from seorep_async.sandbox.service import Service
from tests.cli.running import serving
from tests.export.door import Checkpoint, target_of
from tests.export.reports import FORMATS, account, cut_off, pull_into

pytestmark = pytest.mark.heavy

MAX_CONCURRENCY = 8
IN_FLIGHT = 2 * MAX_CONCURRENCY + 1
"""Campaigns in flight at one time: at most so many in progress in a `Pull`, and one that is being written."""
COMMAND = (sys.executable, "-c", "from seorep_async.cli import main; main()")
FAULTS = "resets=2%,500s=2%,cut=1%"


@attrs.frozen
class Killing:
    """A service that notes which campaigns' reports are asked for, and pulls from it.

    Attributes:
        most: campaigns that are answered before the pull is killed, as a slow machine may be late with that.
        killed: set while there is no pull that is to be killed.
    """

    sandbox: Sandbox
    folder: Path
    asked: list[int] = attrs.field(factory=list)
    most: list[int] = attrs.field(factory=list)
    killed: threading.Event = attrs.field(factory=threading.Event)

    def note(self, id_: int) -> None:
        self.asked.append(id_)
        if not self.killed.is_set() and len(set(self.asked)) > self.most[-1]:
            self.killed.wait()

    def start(self, out: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*COMMAND, *arguments_of(out)], cwd=self.folder, stderr=subprocess.PIPE)

    def run(self, out: Path) -> None:
        """Pull to the end, in this process: only a pull that is killed needs one of its own."""
        assert run(arguments_of(out)) == 0

    def kill_and_resume(self, out: Path, dice: random.Random, earliest: int) -> tuple[int, int]:
        """Kill a pull at a random point, tear its last write, and run it again.

        The point is when some number of campaigns have been asked for, or a moment after all have: as it is written,
        put in its place, cleaned up after.

        Returns how many campaigns were stored, and how many were asked for both before and after.
        """
        campaigns = self.sandbox.campaigns
        point = dice.randint(earliest, campaigns + campaigns // 3)
        self.asked.clear()
        self.most.append(point)
        self.killed.clear()
        with self.start(out) as pull:
            while len(set(self.asked)) < min(point, campaigns) and pull.poll() is None:
                time.sleep(0.001)
            time.sleep(dice.uniform(0, 0.3 if point > campaigns else 0.02))
            pull.send_signal(signal.SIGKILL)
            pull.communicate()
        self.killed.set()
        before, folder = set(self.asked), target_of(out, (Feed.CAMPAIGN,), account="127.0.0.1").staging_folder
        stored = stored_campaigns(folder)
        if folder.exists() and dice.random() < 0.5:
            name = dice.choice(["checkpoint-wal", "checkpoint-rows"])
            with open(folder / name, "ab") as log:  # what a write that was under way leaves
                log.write(dice.randbytes(dice.randrange(1, 5000)))
        self.asked.clear()
        if stored is None and out.exists():  # it had come to its end: the same command starts over
            self.run(out)
            return 0, 0
        self.run(out)
        assert (stored or set()).isdisjoint(self.asked), "stored reports were asked for again"
        return len(stored or ()), len(before & set(self.asked))


def arguments_of(out: Path) -> list[str]:
    dates = ("--from", "2023-01-01", "--to", "2023-03-31")
    return ["pull", "-o", str(out), "--max-concurrency", str(MAX_CONCURRENCY), "--quiet", *dates]


def stored_campaigns(folder: Path) -> set[int] | None:
    """Return the campaigns whose reports are stored; None if there is nothing to resume."""
    if not (folder / "checkpoint").exists():
        return None
    with contextlib.closing(Checkpoint(folder / "checkpoint")) as checkpoint:
        if checkpoint.notes.parameters is None:
            return None
        return {report.campaign_id for report in checkpoint.reports("keyword_rankings")}


def content(path: Path) -> Any:
    """Return what must be equal: bytes of text, or whole tables."""
    if path.suffix == ".parquet":
        return pq.read_table(path)
    if path.suffix == ".duckdb":
        with duckdb.connect(str(path), read_only=True) as database:
            names = [
                name for (name,) in database.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
            ]
            names.remove("pulls")  # it says when each began
            return {name: database.sql(f"SELECT * FROM {name}").to_arrow_table() for name in names}  # noqa: S608
    return path.read_bytes()


@pytest.fixture
def killing(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Killing]:
    real = Service.campaign
    with serving(**{"keywords": 40, "shape": "mixed", "rows": "mixed", "faults": FAULTS, **request.param}) as sandbox:
        monkeypatch.setenv("SEOREP_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("SEOREP_API_KEY", "sandbox")
        found = Killing(sandbox, tmp_path)
        found.killed.set()

        def noted(self: Service, id_: int) -> Any:
            found.note(id_)
            return real(self, id_)

        monkeypatch.setattr(Service, "campaign", noted)
        yield found


FEW, MANY = {"campaigns": 50, "keywords": 10}, {"campaigns": 200}
SLOW = [(FEW, ending, 2) for ending in FORMATS[1:]] + [(MANY, ending, 50) for ending in FORMATS]


@pytest.mark.parametrize(
    ("killing", "ending", "points"),
    [(FEW, "csv", 2), *(pytest.param(*some, marks=pytest.mark.slow) for some in SLOW)],
    indirect=["killing"],
)
def test_a_killed_pull_loses_and_doubles_nothing(killing: Killing, ending: str, points: int) -> None:
    whole = killing.folder / f"whole.{ending}"
    killing.run(whole)
    expected = content(whole)
    dice = random.Random(ending)
    seen = []
    for point in range(points):
        out = killing.folder / f"{point}.{ending}"
        # so late at first that some report must be stored
        stored, twice = killing.kill_and_resume(out, dice, 1 if point else IN_FLIGHT + 2)
        seen.append((stored, twice))
        assert content(out) == expected, f"killed with {stored} stored"
        assert twice <= IN_FLIGHT
        out.unlink()
        assert not [path for path in killing.folder.iterdir() if path.suffix == ".pull"]
    print(f"\n{ending}: (stored, fetched again) at each point: {seen}")
    assert any(stored > 0 for stored, _ in seen)


# --- Damage


FEEDS = (Feed.CAMPAIGN, Feed.CAMPAIGN_BY_DATE)
Files = dict[str, bytes]


async def interrupted(client: SeoRepClient, out: Path, ids: list[int]) -> tuple[Files, Files]:
    """Interrupt a pull; return its staging folder's files as a kill would leave them, and as a good end does."""
    folder = out.with_name(f".{out.name}.pull")
    as_killed: Files = {}

    def look(progress: PullProgress) -> bool:
        if progress.feed is not Feed.CAMPAIGN_BY_DATE or progress.done < 4:
            return False
        as_killed.update({path.name: path.read_bytes() for path in folder.iterdir()})
        return True

    await cut_off(partial(pull_into, client, out, ids, feeds=FEEDS), look)
    return as_killed | {"rows-0": b"half written"}, {path.name: path.read_bytes() for path in folder.iterdir()}


def damaged(files: Files, others: Files, dice: random.Random) -> tuple[str, Files]:
    """Return the files with one of them damaged, and how."""
    name = dice.choice(sorted(files))
    data = bytearray(files[name])
    place = dice.randrange(len(data))
    kind = dice.choice(["bit", "bit", "bit", "cut", "zeros", "garbage", "swap", "other", "gone"])
    match kind:
        case "bit":
            data[place] ^= 1 << dice.randrange(8)
        case "cut":
            del data[place:]
        case "zeros":
            end = min(len(data), place + dice.randrange(1, 5000))
            data[place:end] = bytes(end - place)
        case "garbage":
            end = min(len(data), place + dice.randrange(1, 200))
            data[place:end] = dice.randbytes(end - place)
        case "swap":
            other = dice.choice(sorted(files))
            return f"{kind} {name} {other}", files | {name: files[other], other: files[name]}
        case "other":
            other = dice.choice(sorted(others))
            return f"{kind} {name} {other}", files | {name: others[other]}
        case _:
            return f"{kind} {name}", {one: held for one, held in files.items() if one != name}
    return f"{kind} {name} {place}", files | {name: bytes(data)}


def written(out: Path) -> list[Any]:
    words = ("keyword_rankings", "campaign_periods")
    return [content(out.with_name(f"{out.stem}.{word}{out.suffix}")) for word in words]


async def damage_and_resume(folder: Path, ending: str, damages: int) -> Counter[str]:
    ids, dice, found = list(range(1, 9)), random.Random(ending), Counter[str]()
    problems: list[str] = []
    async with account(campaigns=9, keywords=6, shape="mixed", rows="mixed") as (_, client):
        await pull_into(client, folder / f"whole.{ending}", ids, feeds=FEEDS)
        expected = written(folder / f"whole.{ending}")
        snapshots = await interrupted(client, folder / f"one.{ending}", ids)
        others = (await interrupted(client, folder / f"other.{ending}", [9, *ids]))[0]
        for number in range(damages):
            out = folder / f"{number}.{ending}"
            staging = folder / f".{out.name}.pull"
            how, files = damaged(dice.choice(snapshots), others, dice)
            staging.mkdir(0o700)
            for name, data in files.items():
                (staging / name).write_bytes(data)
            try:
                await pull_into(client, out, ids, feeds=FEEDS)
                found["equal"] += 1
            except ExportError as error:
                problems.append(error.message)
                await pull_into(client, out, ids, feeds=FEEDS, restart=True)
                found["refused"] += 1
            except ConfigurationError as error:
                # the files of another pull are a sound, unfinished pull of other campaigns
                assert how.startswith("other"), how
                problems.append(error.message)
                await pull_into(client, out, ids, feeds=FEEDS, restart=True)
                found["refused"] += 1
            except Exception as error:
                raise AssertionError(how) from error
            assert written(out) == expected, how
    assert all("pass restart=True to start over" in problem for problem in problems)
    return found


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("ending", "damages"),
    [
        ("csv", 30),
        *(pytest.param(*some, marks=pytest.mark.slow) for some in (("parquet", 30), ("csv", 500), ("parquet", 500))),
    ],
)
async def test_damage_is_refused_or_does_not_matter(tmp_path: Path, ending: str, damages: int) -> None:
    found = await damage_and_resume(tmp_path, ending, damages)
    print(f"\n{ending}: {found}")
    assert found["equal"]
