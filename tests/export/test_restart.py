"""A restart drops what was staged, once it begins or as soon as one can; what is refused for good drops nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from seorep_async import ConfigurationError, PullPausedError, SeoRepClient
from seorep_async.export import ExportError, pull_to
from tests.export import door
from tests.export.databases import opened_elsewhere
from tests.export.door import PullSpec, StagingArea, preview, target_of
from tests.export.reports import END, START, account, names, names_in, pull_into

pytestmark = pytest.mark.heavy

DUE = "the next pull starts over, without the reports stored before"


async def stage(client: SeoRepClient, out: Path, **options: Any) -> None:
    with pytest.raises(PullPausedError):
        await pull_into(client, out, max_requests=3, **options)


def a_foreign_file(out: Path) -> None:
    out.write_bytes(b"precious")


def a_foreign_database(out: Path) -> None:
    with duckdb.connect(str(out)) as database:
        database.execute("CREATE TABLE pulls (mine INTEGER)")


@pytest.mark.parametrize("prepare", [a_foreign_file, a_foreign_database])
async def test_a_restart_into_a_foreign_file_leaves_nothing(tmp_path: Path, prepare: Callable[[Path], None]) -> None:
    out = tmp_path / "a.duckdb"
    prepare(out)
    async with account() as (_, client):
        with pytest.raises(ConfigurationError):
            await pull_into(client, out, restart=True)
    assert names(tmp_path) == ["a.duckdb"]


async def test_a_restart_with_a_wrong_key_drops_nothing(tmp_path: Path) -> None:
    out = tmp_path / "a.duckdb"
    async with account() as (sandbox, client), SeoRepClient(sandbox.base_url, "another") as wrong:
        await pull_into(client, out)
        await stage(client, out)
        with pytest.raises(ConfigurationError, match="another API key"):
            await pull_into(wrong, out, restart=True)
        assert (await pull_into(client, out)).resumed


async def refused(client: SeoRepClient, out: Path) -> None:
    """Restart a pull whose database another program has open."""
    with opened_elsewhere(out), pytest.raises(ExportError, match=f"open in another program.*; {DUE}"):
        await pull_into(client, out, restart=True)


async def test_a_refused_restart_leaves_no_older_night_to_retry(tmp_path: Path) -> None:
    out = tmp_path / "a.duckdb"
    async with account(failing={2: 404}) as (_, client):
        await pull_into(client, out, snapshot_date=START)
        await refused(client, out)
        summary = await pull_into(client, out, retry_failed=True)
    assert (summary.snapshot_date > START, summary.rows) == (True, 90)


@pytest.mark.parametrize("retry_failed", [False, True])
async def test_a_refused_restart_is_made_up_for(tmp_path: Path, retry_failed: bool) -> None:
    out = tmp_path / "a.duckdb"
    async with account() as (_, client):
        await pull_into(client, out)
        await stage(client, out)
        await refused(client, out)
        summary = await pull_into(client, out, retry_failed=retry_failed)
    assert (summary.resumed, summary.rows) == (0, 120)
    assert names_in(tmp_path) == ["a.duckdb"]


async def test_a_preview_knows_of_a_restart_that_is_due(tmp_path: Path) -> None:
    out = tmp_path / "a.duckdb"
    async with account() as (_, client):
        await pull_into(client, out)
        await stage(client, out)
        await refused(client, out)
        spec = PullSpec.of(client, None, START, END, "campaign", {})
        found = await preview(client, spec, target_of(out, spec.feeds, account=spec.account))
    assert (found.resumes, found.requests) == (False, 1 + 4 * 2)


async def test_a_restart_on_a_full_disk_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "a.duckdb"

    def full(*_: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        raise error

    async with account() as (_, client):
        await pull_into(client, out)
        await stage(client, out)
        with monkeypatch.context() as patched:
            patched.setattr(door.Checkpoint, "clear", full)
            with pytest.raises(ExportError, match=f"disk is full; {DUE}"):
                await pull_into(client, out, restart=True)
        summary = await pull_into(client, out, retry_failed=True)
    assert (summary.resumed, summary.rows) == (0, 120)


async def test_a_restart_resumes_nothing_that_can_not_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with account() as (_, client):
        await stage(client, tmp_path / "a.csv")
        with monkeypatch.context() as patched:
            patched.setattr(StagingArea, "_delete_all", lambda area, but=(): None)
            assert (await pull_into(client, tmp_path / "a.csv", restart=True)).resumed == 0


@pytest.mark.parametrize("restart", [False, True])
async def test_a_folder_in_place_of_the_note_is_no_note(tmp_path: Path, restart: bool) -> None:
    async with account() as (_, client):
        await stage(client, tmp_path / "a.csv")
        (tmp_path / ".a.csv.pull" / "restart").mkdir()
        summary = await pull_into(client, tmp_path / "a.csv", restart=restart)
    assert (bool(summary.resumed), summary.rows) == (not restart, 120)


async def test_a_pause_before_the_first_report_keeps_no_other_pull_out(tmp_path: Path) -> None:
    async with account() as (_, client):
        with pytest.raises(PullPausedError):
            await pull_into(client, tmp_path / "a.csv", max_requests=1)
        summary = await pull_to(client, None, "2023-02-01", "2023-02-28", out=tmp_path / "a.csv")
    assert (summary.resumed, summary.rows) == (0, 120)


async def test_a_restart_beside_a_pull_at_work_drops_nothing(tmp_path: Path) -> None:
    out = tmp_path / "a.duckdb"
    async with account() as (_, client):
        await pull_into(client, out)
        await stage(client, out)
        with target_of(out, ("campaign",), account=client.account).area().inspect():  # type: ignore[arg-type]
            with opened_elsewhere(out), pytest.raises(ExportError, match="open in another program") as caught:
                await pull_into(client, out, restart=True)
            assert DUE not in str(caught.value)
        assert (await pull_into(client, out)).resumed
