"""An interrupted or damaged pull succeeds in the next run, or its error says what to do.

`pytest -m slow tests/export/test_cuts.py` damages 150 folders for each format, in place of 12 for
two formats.
"""

import datetime as dt
import random
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import seorep_async.export
from seorep_async import ConfigurationError, ExportError, Feed, SeoRepClient
from seorep_async.export import PullProgress, Stage, pull_to
from tests.export.golden_nights import FORMATS, Tables, read
from tests.export.random_nights import FIRST_NIGHT, TABLE, Pull, report_of, world
from tests.export.staged import folder_of, staged_in
from tests.scripted_api import Service, serving

pytestmark = pytest.mark.heavy
EXPORT_FOLDER = str(Path(seorep_async.export.__file__).parent)
START = dt.date(2023, 2, 27)
END = dt.date(2023, 3, 1)


@asynccontextmanager
async def small_service() -> AsyncIterator[tuple[SeoRepClient, Service]]:
    """Serve three campaigns with seven keywords. One report of each feed fails."""
    failing = [(Feed.CAMPAIGN, 2), (Feed.CAMPAIGN_BY_DATE, 3), (Feed.KEYWORD_BY_DATE, 20)]
    now = world(1, {1: {10, 20, 30}, 2: {40}, 3: {20, 50, 60}}, 1, failing)
    pull = Pull("acme", FIRST_NIGHT, START, END, tuple(Feed), None, now)
    async with serving(pull.answer) as (client, service):
        yield client, service


async def run(client: SeoRepClient, out: Path, **options: Any) -> Tables:
    usual: dict[str, Any] = {"account": "acme", "snapshot_date": FIRST_NIGHT, "feeds": Feed}
    await pull_to(client, None, START, END, out=out, **usual | options)
    return read(out)


@contextmanager
def at_each_step(do: Callable[[], None]) -> Iterator[None]:
    """Call a function before each call in the thread of a pull that stores and writes."""

    def look(frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(EXPORT_FOLDER):
            do()

    def begin(*_: object) -> None:
        if threading.current_thread().name.startswith("seorep-pull"):
            sys.setprofile(look)

    threading.setprofile(begin)
    try:
        yield
    finally:
        threading.setprofile(None)


def account_of(format_: str) -> str | None:
    return "acme" if format_ == "duckdb" else None


@pytest.mark.parametrize("format_", FORMATS)
async def test_a_replacement_cut_at_any_step_ends_as_if_never_cut(
    format_: str, tmp_path: Path
) -> None:
    (tmp_path / "whole").mkdir()
    states = States(tmp_path / "whole", tmp_path / "cut")
    async with small_service() as (client, service):
        target = tmp_path / "whole" / f"a.{format_}"
        if format_ == "duckdb":
            await run(client, target, account="other")
        with at_each_step(states.keep):
            whole = await run(client, target)
        assert len(states.kept) >= 10
        for folder in states.kept:
            out = folder / f"a.{format_}"
            staged = staged_in(out, account_of(format_))
            service.requests.clear()
            tables = await run(client, out)
            if staged is None or staged.ended:
                # The first pull had finished, so this was a second one of the night.
                del tables["pulls"][1][len(whole["pulls"][1]) :]
                assert tables == whole
                continue
            assert tables == whole
            reports = {report_of(request) for request in service.requests}
            for feed, table in TABLE.items():
                assert reports.isdisjoint((feed, id_) for id_ in staged.stored.get(table, ()))


class States:
    """Copies of a folder in each state that a kill would leave."""

    def __init__(self, folder: Path, copies: Path) -> None:
        self._folder = folder
        self._copies = copies
        self._last_state: list[tuple[Path, int, int]] = []
        self.kept: list[Path] = []

    def keep(self) -> None:
        state = []
        for file in sorted(self._folder.rglob("*")):
            status = file.lstat()
            state.append((file, status.st_size, status.st_mtime_ns))
        if state != self._last_state:
            self._last_state = state
            copy = self._copies / str(len(self.kept))
            self.kept.append(shutil.copytree(self._folder, copy))


class Enough(Exception):
    """Everything is staged."""


async def stage(client: SeoRepClient, out: Path, **options: Any) -> bytes:
    """Stage a pull without writing its target, and return the staged reports."""

    def stop(progress: PullProgress) -> None:
        if progress.stage is Stage.WRITING:
            raise Enough

    with pytest.raises(Enough):
        await run(client, out, on_progress=stop, **options)
    (file,) = out.parent.glob(f".{out.name}*.pull/pieces")
    return file.read_bytes()


def damaged(data: bytes, dice: random.Random, others: list[bytes]) -> bytes:
    place = dice.randrange(len(data))
    before = data[:place]
    match dice.randrange(6):
        case 0 | 1:
            changed = data[place] ^ 1 << dice.randrange(8)
            return before + bytes([changed]) + data[place + 1 :]
        case 2:
            return before
        case 3:
            zeros = min(dice.randint(1, 5000), len(data) - place)
            return before + bytes(zeros) + data[place + zeros :]
        case 4:
            return dice.choice(others)
        case _:
            return data + dice.randbytes(dice.randint(1, 100))


async def damage_and_resume(format_: str, folder: Path, count: int, seed: int) -> None:
    dice = random.Random(seed)
    problems = 0
    async with small_service() as (client, _):
        whole = await run(client, folder / f"whole.{format_}")
        staged = await stage(client, folder / f"a.{format_}")
        others = [
            await stage(client, folder / f"b.{format_}", account="other"),
            await stage(client, folder / f"c.{format_}", feeds=Feed.CAMPAIGN),
        ]
        out = folder / "damaged" / f"a.{format_}"
        file = folder_of(out, account_of(format_)) / "pieces"
        for _ in range(count):
            shutil.rmtree(out.parent, ignore_errors=True)
            file.parent.mkdir(parents=True, mode=0o700)
            file.parent.chmod(0o700)
            file.write_bytes(damaged(staged, dice, others))
            error = None
            try:
                tables = await run(client, out)
            except (ExportError, ConfigurationError) as caught:
                error = caught
            if error is not None:
                assert "restart=True" in str(error)
                assert not out.exists()
                problems += 1
                tables = await run(client, out, restart=True)
            assert tables == whole
    assert 0 < problems < count


@pytest.mark.parametrize("format_", ["csv", "duckdb"])
async def test_damage_is_one_clear_error_or_changes_nothing(format_: str, tmp_path: Path) -> None:
    await damage_and_resume(format_, tmp_path, 12, 1)


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
async def test_much_damage_is_one_clear_error_or_changes_nothing(
    format_: str, tmp_path: Path
) -> None:
    await damage_and_resume(format_, tmp_path, 150, 2)
