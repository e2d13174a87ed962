"""The staging folder is ours alone; a full disk or a read-only folder loses no work."""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pytest

from seorep_async import ConfigurationError, Feed
from seorep_async.export import ExportError
from tests.export.door import PullSpec, StagingArea, preview, target_of, write_lock
from tests.export.reports import END, FORMATS, START, account, names_in, pull_into, rows_in, spec_of

Prepare: TypeAlias = Callable[[Path, Path], object]


def inside(step: Prepare) -> Prepare:
    """Return a function that makes the folder first."""

    def prepare(folder: Path, victim: Path) -> None:
        folder.mkdir(0o700)
        step(folder, victim)

    return prepare


def linked(name: str) -> Prepare:
    """Return a function that makes the folder with a link to the victim's file under this name."""
    return inside(lambda folder, victim: (folder / name).symlink_to(victim / "checkpoint"))


def of_another_user(folder: Path, _: Path) -> None:
    (folder / "checkpoint").touch(0o666)
    os.chown(folder / "checkpoint", 12345, -1)


PREPARED: dict[str, tuple[Prepare, str]] = {
    "link": (lambda folder, victim: folder.symlink_to(victim), "it is a link or a file"),
    "file": (lambda folder, victim: folder.hardlink_to(victim / "checkpoint"), "it is a link or a file"),
    "mode": (inside(lambda folder, _: folder.chmod(0o750)), "other users can open it"),
    "hard": (
        inside(lambda folder, victim: (folder / "rows-0").hardlink_to(victim / "checkpoint")),
        "rows-0 in it is a link",
    ),
    "checkpoint": (linked("checkpoint"), "checkpoint in it is a link, or is not yours"),
    "log": (linked("checkpoint-wal"), "checkpoint-wal in it is a link"),
    "rows": (linked("checkpoint-rows"), "checkpoint-rows in it is a link"),
}
if hasattr(os, "geteuid") and os.geteuid() == 0:  # only root can give files away
    PREPARED |= {
        "user": (inside(lambda folder, _: os.chown(folder, 12345, -1)), "it belongs to another user"),
        "owner": (inside(of_another_user), "checkpoint in it is a link, or is not yours"),
    }


def state(folder: Path) -> list[tuple[str, int, int]]:
    return sorted((str(path), path.lstat().st_mode, path.lstat().st_mtime_ns) for path in folder.rglob("*"))


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("kind", PREPARED)
async def test_a_prepared_folder_is_refused(tmp_path: Path, kind: str, restart: bool) -> None:
    prepare, problem = PREPARED[kind]
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "checkpoint").write_bytes(b"precious")
    (tmp_path / "out").mkdir()
    prepare(tmp_path / "out" / ".a.csv.pull", victim)
    out = tmp_path / "out" / "a.csv"
    before = state(tmp_path)
    async with account() as (sandbox, client):
        with pytest.raises(ConfigurationError, match=rf"can't stage an export in .*: {problem}.* Remove it"):
            await pull_into(client, out, restart=restart)
        assert sandbox.stats.requests == 0
        spec, target = PullSpec.of(client, None, START, END, "campaign", {}), target_of(out, (Feed.CAMPAIGN,))
        with pytest.raises(ConfigurationError, match=problem):  # and so it is by a dry run
            await preview(client, spec, target, restart=restart)
        assert sandbox.stats.requests == 0
    assert (victim / "checkpoint").read_bytes() == b"precious"
    assert state(tmp_path) == before


async def test_the_folder_is_open_to_its_owner_only(tmp_path: Path) -> None:
    modes = []

    def look(_: object) -> None:
        modes.append(stat.S_IMODE((tmp_path / ".a.csv.pull").stat().st_mode))

    umask = os.umask(0)
    try:
        async with account() as (_, client):
            await pull_into(client, tmp_path / "a.csv", on_progress=look)
    finally:
        os.umask(umask)
    assert set(modes) == {0o700}


def opened(out: Path) -> StagingArea:
    area = target_of(out, (Feed.CAMPAIGN,)).area()
    area.open(spec_of(), restart=False, retry_failed=False)
    return area


def test_of_pulls_begun_at_the_same_instant_one_has_it(tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def open_it(out: Path) -> StagingArea | None:
        together.wait()
        with contextlib.suppress(ExportError):  # another has it
            return opened(out)
        return None

    with ThreadPoolExecutor(4) as threads:
        for number in range(30):
            areas = [area for area in threads.map(open_it, [tmp_path / f"{number}.csv"] * 4) if area is not None]
            assert len(areas) == 1
            areas[0].close()
    assert names_in(tmp_path) == []


def test_a_refused_pull_does_not_take_the_folder_away(tmp_path: Path) -> None:
    area = opened(tmp_path / "a.csv")
    with pytest.raises(ExportError):
        opened(tmp_path / "a.csv")
    assert names_in(tmp_path / ".a.csv.pull")
    area.close()


def test_a_folder_removed_before_it_is_locked_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really_open, ends = os.open, [tmp_path / ".a.csv.pull"]

    def remove_and_open(*arguments: Any) -> int:
        if ends:  # the pull that had it
            ends.pop().rmdir()
        return really_open(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", remove_and_open)
        area = opened(tmp_path / "a.csv")
    assert names_in(tmp_path) == [".a.csv.pull"]
    area.close()


def test_a_lock_removed_before_it_is_locked_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really_lock, ends = fcntl.flock, [tmp_path / ".a.csv.pull" / "lock"]

    def remove_and_lock(*arguments: Any) -> None:
        if ends:
            ends.pop().unlink()
        really_lock(*arguments)

    monkeypatch.setattr(fcntl, "flock", remove_and_lock)
    area = opened(tmp_path / "a.csv")
    assert "lock" in names_in(tmp_path / ".a.csv.pull")
    area.close()


def test_a_process_forked_meanwhile_keeps_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").touch()  # so that the folder stays
    really_open, forked = os.open, []

    def open_and_fork(*arguments: Any) -> int:
        forked.append(os.dup(opened := really_open(*arguments)))  # a child has the same open file
        return opened

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", open_and_fork)
        area = opened(tmp_path / "a.csv")
        with write_lock(tmp_path / "a.csv"):
            pass
        area.close()
    again = opened(tmp_path / "a.csv")
    with write_lock(tmp_path / "a.csv", check=lambda: pytest.fail("it waits for another")):
        again.close()
    for one in forked:
        os.close(one)


def test_files_of_an_interrupted_writing_are_deleted(tmp_path: Path) -> None:
    folder = tmp_path / ".a.csv.pull"
    (folder / "overflow").mkdir(parents=True)
    folder.chmod(0o700)
    (folder / "overflow" / "part").touch()
    (folder / "rows-0").write_bytes(b"half")
    area = opened(tmp_path / "a.csv")
    assert {"overflow", "rows-0"}.isdisjoint(names_in(folder))
    area.close()


def test_a_folder_that_can_not_be_opened_is_an_export_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(tmp_path / "a.csv", (Feed.CAMPAIGN,))

    def refuse(*_: object) -> int:
        raise OSError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(ExportError, match=r"can't write .*\.a\.csv\.pull: Permission denied"):
            target.area().open(spec_of(), restart=False, retry_failed=False)


# --- A full disk, a read-only folder


can_mount = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="only root can mount")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def remount(disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", disk], check=True)


@can_mount
@pytest.mark.parametrize("ending", FORMATS)
async def test_a_full_disk_loses_neither_target_nor_reports(small_disk: Path, ending: str) -> None:
    out = small_disk / f"a.{ending}"
    async with account(campaigns=2, keywords=20) as (_, client):
        await pull_into(client, out, [1], account="another")
    old = out.read_bytes()
    async with account(campaigns=100, keywords=50) as (_, client):
        with pytest.raises(ExportError, match=r"No space left|full|not enough space") as caught:
            await pull_into(client, out)
        assert str(small_disk) in str(caught.value)
        if ending == "duckdb":
            with duckdb.connect(str(out), read_only=True) as database:
                found = database.execute("SELECT campaign_id, count(*) FROM keyword_rankings GROUP BY 1").fetchall()
                assert found == [(1, 20)]
        else:
            assert out.read_bytes() == old
        remount(small_disk, "size=64m")
        summary = await pull_into(client, out)
        assert summary.ok
        assert summary.rows == 100 * 50
        assert summary.resumed
        assert summary.requests <= 2 * (100 - summary.resumed)
    assert names_in(small_disk) == [out.name]


@can_mount
async def test_a_disk_that_is_full_from_the_start_is_reported(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"x" * 2_095_000)
    async with account() as (sandbox, client):
        with pytest.raises(ExportError, match=r"No space left|full|I/O error"):
            await pull_into(client, small_disk / "a.csv")
        assert sandbox.stats.requests == 0
    assert not (small_disk / "a.csv").exists()


@can_mount
@pytest.mark.parametrize("ending", FORMATS)
async def test_in_a_read_only_folder_it_is_refused_before_any_request(small_disk: Path, ending: str) -> None:
    remount(small_disk, "ro")
    async with account() as (sandbox, client):
        with pytest.raises(ConfigurationError, match=f"can't write .*a.{ending}: Read-only file system"):
            await pull_into(client, small_disk / f"a.{ending}")
        assert sandbox.stats.requests == 0


@can_mount
async def test_a_link_beside_it_may_lead_to_another_disk(tmp_path: Path, small_disk: Path) -> None:
    (tmp_path / "a.totals.csv").symlink_to(small_disk / "file.csv")
    async with account() as (_, client):
        await pull_into(client, tmp_path / "a.csv", feeds=Feed.CAMPAIGN_BY_DATE)
    assert (names_in(small_disk), len(rows_in(small_disk / "file.csv"))) == (["file.csv"], 4)


async def test_a_pull_resumes_once_its_target_can_be_replaced(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"

    def be_in_the_way(_: object) -> None:
        out.mkdir(exist_ok=True)

    async with account() as (_, client):
        with pytest.raises(ExportError, match=r"a\.csv: Is a directory"):
            await pull_into(client, out, on_progress=be_in_the_way)
        out.rmdir()
        assert (await pull_into(client, out)).resumed == 4
    assert len(rows_in(out)) == 120


async def test_a_target_that_another_program_holds_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def held(*_: object) -> None:
        raise PermissionError(13, "Permission denied")  # what Windows says

    async with account() as (_, client):
        with monkeypatch.context() as patched:
            patched.setattr("os.replace", held)
            with pytest.raises(ExportError, match="is it open in another program"):
                await pull_into(client, tmp_path / "a.csv")
        assert (await pull_into(client, tmp_path / "a.csv")).resumed == 4
