"""A full disk, a read-only folder: a clear error, nothing half-written in the target's place, and no work lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from seorep_async import ConfigurationError, Feed
from seorep_async.export import ExportError, pull_to
from tests.export.reports import END, FORMATS, START, account, names_in, rows_in

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
        await pull_to(client, [1], START, END, out=out, account="another")
    old = out.read_bytes()
    async with account(campaigns=100, keywords=50) as (_, client):
        with pytest.raises(ExportError, match=r"No space left|full|not enough space") as caught:
            await pull_to(client, None, START, END, out=out)
        assert str(small_disk) in str(caught.value)
        if ending == "duckdb":
            with duckdb.connect(str(out), read_only=True) as database:
                found = database.execute("SELECT campaign_id, count(*) FROM keyword_rankings GROUP BY 1").fetchall()
                assert found == [(1, 20)]
        else:
            assert out.read_bytes() == old
        remount(small_disk, "size=64m")
        summary = await pull_to(client, None, START, END, out=out)
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
            await pull_to(client, None, START, END, out=small_disk / "a.csv")
        assert sandbox.stats.requests == 0
    assert not (small_disk / "a.csv").exists()


@can_mount
@pytest.mark.parametrize("ending", FORMATS)
async def test_in_a_read_only_folder_it_is_refused_before_any_request(small_disk: Path, ending: str) -> None:
    remount(small_disk, "ro")
    async with account() as (sandbox, client):
        with pytest.raises(ConfigurationError, match=f"can't write .*a.{ending}: Read-only file system"):
            await pull_to(client, None, START, END, out=small_disk / f"a.{ending}")
        assert sandbox.stats.requests == 0


@can_mount
async def test_a_link_beside_it_may_lead_to_another_disk(tmp_path: Path, small_disk: Path) -> None:
    (tmp_path / "a.totals.csv").symlink_to(small_disk / "file.csv")
    async with account() as (_, client):
        await pull_to(client, None, START, END, out=tmp_path / "a.csv", feeds=Feed.CAMPAIGN_BY_DATE)
    assert (names_in(small_disk), len(rows_in(small_disk / "file.csv"))) == (["file.csv"], 4)


async def test_a_pull_resumes_once_its_target_can_be_replaced(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"

    def be_in_the_way(_: object) -> None:
        out.mkdir(exist_ok=True)

    async with account() as (_, client):
        with pytest.raises(ExportError, match=r"a\.csv: Is a directory"):
            await pull_to(client, None, START, END, out=out, on_progress=be_in_the_way)
        out.rmdir()
        assert (await pull_to(client, None, START, END, out=out)).resumed == 4
    assert len(rows_in(out)) == 120


async def test_a_target_that_another_program_holds_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def held(*_: object) -> None:
        raise PermissionError(13, "Permission denied")  # what Windows says

    async with account() as (_, client):
        with monkeypatch.context() as patched:
            patched.setattr("os.replace", held)
            with pytest.raises(ExportError, match="is it open in another program"):
                await pull_to(client, None, START, END, out=tmp_path / "a.csv")
        assert (await pull_to(client, None, START, END, out=tmp_path / "a.csv")).resumed == 4
