"""One pull at a time, also where the file system refuses locks: real processes, and files that killed ones left."""

import asyncio
import errno
import fcntl
import math
import os
import re
import sys
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import msgspec
import pytest

from seorep_async import SeoRepClient
from seorep_async.export import ExportError
from tests.export.door import AtWorkError, HeldError, Holder, PullLock, lock, write_lock
from tests.export.reports import account, names_in, pull_into

pytestmark = pytest.mark.heavy

OTHER_PULL = """
import asyncio, errno, fcntl, sys
from seorep_async import SeoRepClient
from seorep_async.export import pull_to

def refuse(*_): raise OSError(errno.ENOTSUP, "Operation not supported")
if sys.argv[3] == "refused": fcntl.flock = refuse

def pause(progress):
    if progress.done:
        print(flush=True)
        sys.stdin.readline()

async def main():
    async with SeoRepClient(sys.argv[1], "sandbox") as client:
        await pull_to(client, [1, 2], "2023-01-01", "2023-03-31", out=sys.argv[2], restart=True, on_progress=pause)

asyncio.run(main())
"""
"""A pull that pauses once it has a report."""
REFUSALS = [errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL]


def refuse_locks(monkeypatch: pytest.MonkeyPatch, number: int = errno.ENOTSUP) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.fixture(params=["granted", "refused"])
def locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "refused":
        refuse_locks(monkeypatch)
    return str(request.param)


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_locks(monkeypatch)


@asynccontextmanager
async def other_pull(client: SeoRepClient, out: str, locks: str) -> AsyncIterator[Process]:
    """Start another process that has fetched a report."""
    program = (sys.executable, "-c", OTHER_PULL, client.base_url, out, locks)
    process = await asyncio.create_subprocess_exec(*program, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"\n"
    try:
        yield process
    finally:
        await process.communicate(b"\n" * 99)


def campaigns_in(out: str) -> list[int]:
    query = "SELECT DISTINCT campaign_id FROM {} ORDER BY 1"
    if out.endswith(".duckdb"):
        with duckdb.connect(out, read_only=True) as database:
            found = database.execute(query.format("keyword_rankings")).fetchall()
    else:
        files = f"'{out}keyword_rankings/**/*.parquet'" if out.endswith("/") else f"'{out}'"
        found = duckdb.execute(query.format(files)).fetchall()
    return [id_ for (id_,) in found]


@pytest.mark.parametrize("name", ["a.csv", "a.duckdb", "a/"])
async def test_of_two_processes_one_wins_and_one_says_so(tmp_path: Path, name: str, locks: str) -> None:
    out = f"{tmp_path}/{name}"
    async with account() as (_, client):
        async with other_pull(client, out, locks) as other:
            said = rf"another pull is writing it \(process {other.pid} on '.+', since .+ UTC\); wait for its end$"
            with pytest.raises(AtWorkError, match=said):
                await pull_into(client, out, [3, 4], restart=True)
        assert other.returncode == 0
    assert campaigns_in(out) == [1, 2]
    assert names_in(tmp_path) == [name.rstrip("/")]


async def test_a_pull_that_was_killed_is_resumed(tmp_path: Path, locks: str) -> None:
    out = f"{tmp_path}/a.csv"
    async with account() as (_, client):
        async with other_pull(client, out, locks) as other:
            other.kill()
        assert (tmp_path / ".a.csv.pull" / "lock").exists()
        assert (await pull_into(client, out, [1, 2])).resumed
    assert campaigns_in(out) == [1, 2]
    assert names_in(tmp_path) == ["a.csv"]


@pytest.mark.usefixtures("locks")
async def test_three_accounts_share_a_new_database(tmp_path: Path) -> None:
    async with account() as (_, client):
        pulls = [pull_into(client, tmp_path / "a.duckdb", [n], account=f"account {n}") for n in (1, 2, 3)]
        assert all(summary.ok for summary in await asyncio.gather(*pulls))
    assert campaigns_in(f"{tmp_path}/a.duckdb") == [1, 2, 3]
    assert names_in(tmp_path) == ["a.duckdb"]


def left_behind(file: Path, **changes: Any) -> Holder:
    """Write the lock of this process, with changes, as if its holder had been killed."""
    lock = PullLock(file)
    lock.take()
    holder = msgspec.json.decode(file.read_bytes())
    lock.release()
    file.write_bytes(msgspec.json.encode(holder | changes))
    return msgspec.json.decode(file.read_bytes(), type=Holder)


@pytest.mark.parametrize("number", REFUSALS)
def test_a_lock_of_another_machine_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refuse_locks(monkeypatch, number)
    out = tmp_path / "a.duckdb"
    file = out.with_name(".a.duckdb.pull.lock")
    monkeypatch.setattr(lock, "_DOUBTFUL_SECONDS", 0)
    left_behind(file, host="db-7", process=4711, boot="another", since="2026-11-23T20:15:00Z")
    said = r"process 4711 on 'db-7', since 2026-11-23 20:15:00 UTC\); .* If it has ended, .*, delete "
    with pytest.raises(ExportError, match=said + re.escape(str(file))), write_lock(out):
        pass
    file.unlink()
    with write_lock(out):
        assert file.exists()
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("changes", [{"started": "1"}, {"process": 2**31 - 1, "since": "2099-01-01T00:00:00Z"}])
@pytest.mark.usefixtures("no_locks")
def test_an_id_used_again_does_not_keep_a_lock(tmp_path: Path, changes: dict[str, Any]) -> None:
    left_behind(tmp_path / "lock", **changes)
    lock = PullLock(tmp_path / "lock")
    lock.take()
    lock.release()
    assert names_in(tmp_path) == []


@pytest.mark.usefixtures("no_locks")
def test_a_process_of_unknown_age_keeps_its_lock(tmp_path: Path) -> None:
    left_behind(tmp_path / "lock", started="")
    with pytest.raises(HeldError) as caught:
        PullLock(tmp_path / "lock").take()
    assert caught.value.file == tmp_path / "lock"


@pytest.mark.parametrize("data", [b"", b"{", b"\xff" * 99, b"[" * 4000, b'{"host": "\xb6"}', b'{"process": -1}'])
def test_a_damaged_lock_is_replaced_if_the_system_has_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    (tmp_path / "lock").write_bytes(data)
    with monkeypatch.context() as patched:
        refuse_locks(patched)
        with pytest.raises(HeldError) as caught:
            PullLock(tmp_path / "lock").take()
    assert caught.value.file == tmp_path / "lock"
    lock = PullLock(tmp_path / "lock")
    lock.take()
    lock.release()
    assert names_in(tmp_path) == []


def test_a_lock_that_the_system_refused_once_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = PullLock(tmp_path / "lock")
    with monkeypatch.context() as patched:
        refuse_locks(patched, errno.ENOLCK)
        lock.take()
    with pytest.raises(HeldError) as caught:
        PullLock(tmp_path / "lock").take()
    assert caught.value.holder is not None
    assert caught.value.holder.is_this_process
    lock.release()
    PullLock(tmp_path / "lock").take()


@pytest.mark.parametrize("is_left", [False, True])
@pytest.mark.usefixtures("no_locks")
def test_of_threads_at_the_same_instant_one_has_it(tmp_path: Path, is_left: bool) -> None:
    together = threading.Barrier(4)

    def take(file: Path) -> PullLock | None:
        lock = PullLock(file)
        together.wait(5)
        try:
            lock.take()
        except (HeldError, FileNotFoundError):
            return None
        return lock

    with ThreadPoolExecutor(4) as threads:
        for number in range(100):
            file = tmp_path / f"{number}"
            if is_left:
                left_behind(file, started="1")
            taken = [lock for lock in threads.map(take, [file] * 4) if lock is not None]
            assert len(taken) == 1
            taken[0].release()
    assert names_in(tmp_path) == []


PREPARED: dict[str, Callable[[Path, Path], None]] = {
    "link": lambda file, victim: file.symlink_to(victim),
    "hard link": lambda file, victim: file.hardlink_to(victim),
    "pipe": lambda file, _: os.mkfifo(file),
    "folder": lambda file, _: file.mkdir(),
}


@pytest.mark.parametrize("kind", PREPARED)
def test_what_is_no_lock_is_left_alone(tmp_path: Path, kind: str) -> None:
    victim, file = tmp_path / "victim", tmp_path / ".a.duckdb.pull.lock"
    victim.write_bytes(b"precious")
    PREPARED[kind](file, victim)
    before, target = file.lstat(), tmp_path / "a.duckdb"
    problem = rf"can't write .*a\.duckdb: {file} is not the file of a lock; delete it"
    with pytest.raises(ExportError, match=problem), write_lock(target):
        pass
    assert (victim.read_bytes(), file.lstat().st_ino) == (b"precious", before.st_ino)


def test_a_lock_that_was_replaced_is_not_deleted(tmp_path: Path) -> None:
    lock = PullLock(tmp_path / "lock")
    lock.take()
    (tmp_path / "lock").unlink()  # as its user did, who believed that it was left
    other = PullLock(tmp_path / "lock")
    other.take()
    lock.release()
    assert names_in(tmp_path) == ["lock"]
    other.release()


def test_a_lock_that_can_not_be_written_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        PullLock(tmp_path / "lock").take()
    assert names_in(tmp_path) == []


async def test_a_cancelled_pull_waits_for_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, waits = tmp_path / "a.duckdb", threading.Event()
    held = PullLock(out.with_name(".a.duckdb.pull.lock"))

    def note(seconds: float) -> None:
        waits.set()

    monkeypatch.setattr(lock, "_TIMEOUT", math.inf)
    monkeypatch.setattr(lock, "time", SimpleNamespace(monotonic=time.monotonic, sleep=note))
    async with account(campaigns=1, keywords=1) as (_, client):
        await pull_into(client, out)
        held.take()
        pull = asyncio.create_task(pull_into(client, out))
        await asyncio.to_thread(waits.wait)
        pull.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pull
    await asyncio.get_running_loop().shutdown_default_executor()  # which waits for its threads
    held.release()
