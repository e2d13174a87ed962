"""Targets that can't be written, or only after a retry: mounts, odd names, files in use."""
# ruff: noqa: ASYNC240

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from seorep_async import ExportError, SeoRepClient
from seorep_async.export import files
from seorep_async.history import changes, open_history
from tests.export.accounts import Account
from tests.export.golden_nights import FILE_FORMATS, pull, read, refused_unsent
from tests.history.databases import add_last_rows, opened
from tests.processes import run_python

NAMES = ("x.csv", "x.xlsx", "x.parquet", "x.duckdb")


@pytest.mark.parametrize("name", NAMES)
async def test_a_mount_of_a_single_file_is_refused_before_any_request(
    client: SeoRepClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    out = tmp_path / "with space" / name
    out.parent.mkdir()
    out.touch()
    mounts = tmp_path / "mountinfo"
    mount_point = str(out).replace(" ", r"\040")
    mounts.write_text(
        f"36 35 98:0 /a {tmp_path} rw - ext4\n42 27 254:0 /b {mount_point} rw - ext4\n"
    )
    monkeypatch.setattr(files, "_MOUNTS", mounts)
    await refused_unsent(client, out, "is a mount of a single file; mount its")


@pytest.mark.parametrize(
    "name", ["md:a.duckdb", "postgres:a.duckdb", "sqlite:a.duckdb", ":memory:.duckdb"]
)
async def test_a_name_that_looks_like_another_database_is_a_file(
    client: SeoRepClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    await pull(client, Path(name))
    with open_history(name) as history:
        assert history.accounts() == ["acme"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["target", "folder"])
async def test_a_read_only_place_is_refused_before_any_request(
    client: SeoRepClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    place: str,
) -> None:
    out = tmp_path / name
    read_only = out if place == "target" else tmp_path
    await pull(client, out)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != read_only)
    words = f"{read_only} is read-only.*make it writable, or"
    await refused_unsent(client, out, words, ExportError)


def cut_off(file: BinaryIO) -> None:
    file.truncate(300_000)


def cut_off_in_its_head(file: BinaryIO) -> None:
    file.truncate(5_000)


def overwrite_head(file: BinaryIO) -> None:
    file.seek(4_200)
    file.write(b"damage" * 1000)


def overwrite_tables(file: BinaryIO) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(12_288)
    file.write(b"damage" * ((size - 12_288) // 6))


async def assert_is_damaged(client: SeoRepClient, database: Path) -> None:
    """Assert that a pull and a reader both call a database damaged."""
    with pytest.raises(ExportError, match=f"write {database}: it is damaged; restore a backup$"):
        await pull(client, database)
    with pytest.raises(ExportError, match=f"read {database}: it is damaged; restore a backup$"):
        changes(database)


@pytest.mark.parametrize("damage", [cut_off, cut_off_in_its_head, overwrite_head, overwrite_tables])
async def test_the_error_about_a_damaged_database_advises_a_backup(
    client: SeoRepClient, pulled: Path, damage: Callable[[BinaryIO], None]
) -> None:
    with pulled.open("r+b") as file:
        damage(file)
    await assert_is_damaged(client, pulled)


async def test_the_error_about_a_damaged_log_advises_a_backup(
    client: SeoRepClient, pulled: Path
) -> None:
    interrupted = (
        "import duckdb, os, sys; database = duckdb.connect(sys.argv[1]);"
        "database.execute('CREATE TABLE mine AS FROM range(9)'); os._exit(0)"
    )
    run_python("-c", interrupted, str(pulled))
    log = Path(f"{pulled}.wal")
    content = bytearray(log.read_bytes())
    content[-9] ^= 1
    log.write_bytes(content)
    # the log is beside the file itself, not beside a link to it
    link = pulled.with_name("link.duckdb")
    link.symlink_to(pulled)
    await assert_is_damaged(client, link)


async def test_a_database_without_its_last_half_is_damaged(
    client: SeoRepClient, pulled: Path
) -> None:
    with opened(pulled) as database:
        add_last_rows(database, "CREATE TABLE own AS SELECT random() FROM range(900000)")
    os.truncate(pulled, pulled.stat().st_size // 2)
    with pytest.raises(ExportError, match=f"write {pulled}: it is damaged; restore a backup$"):
        await pull(client, pulled)


ACCESS_DENIED = PermissionError(13, "Access is denied")


def refused(
    action: Callable[..., Any], error: OSError = ACCESS_DENIED, path: object = None
) -> Callable[..., Any]:
    """Make an action fail twice, on one path or on all, as Windows does while a file is open."""
    errors = [error] * 2

    def act(*arguments: Any, **options: Any) -> Any:
        if errors and path in (None, *arguments):
            raise errors.pop()
        return action(*arguments, **options)

    return act


@pytest.mark.parametrize("format_", FILE_FORMATS)
@pytest.mark.parametrize("error", [ACCESS_DENIED, OSError(16, "Busy")])
async def test_a_file_in_use_for_a_moment_is_replaced(
    client: SeoRepClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format_: str,
    error: OSError,
) -> None:
    out = tmp_path / f"x.{format_}"
    await pull(client, out)
    monkeypatch.setattr(os, "replace", refused(os.replace, error))
    assert (await pull(client, out)).ok


async def test_a_side_file_that_is_in_use_for_a_moment_is_removed(
    client: SeoRepClient, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "x.csv"
    account.hidden = {2: 404}
    await pull(client, out)
    account.hidden = {}
    failures = tmp_path / "x.failures.csv"
    monkeypatch.setattr(Path, "unlink", refused(Path.unlink, path=failures))
    assert (await pull(client, out)).ok
    assert not failures.exists()


@pytest.mark.parametrize("place", ["rows", "beside"])
async def test_a_file_that_stays_in_use_is_one_error(
    client: SeoRepClient,
    account: Account,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    monkeypatch.setattr(files, "IN_USE_SECONDS", 0.2)
    out = tmp_path / "x.csv"
    in_use = out if place == "rows" else tmp_path / "x.pulls.csv"
    replace = os.replace

    def refuse(new: Path, file: str) -> None:
        if file == str(in_use):
            raise ACCESS_DENIED
        replace(new, file)

    await pull(client, out)
    before = read(out)["rows"]
    account.number = 2
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", refuse)
        with pytest.raises(ExportError, match="Access is denied; is it open in another program"):
            await pull(client, out)
    assert read(out)["rows"] == before
    assert (await pull(client, out)).resumed == 2
