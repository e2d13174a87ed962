"""The doctor looks at a pull's target, and at the clocks.

`tests/cli/test_nights.py` has its findings about nights.
"""

import json
import os
import shutil
import time
from collections import namedtuple
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest

from seorep_async.cli import doctor, target_check
from seorep_async.cli.errors import ExitCode
from seorep_async.export.pieces import BlockFile
from seorep_async.history import source
from tests.cli.running import Seorep
from tests.history.databases import add_last_rows, database_of, nightly
from tests.processes import opening_a_database

Disk = namedtuple("Disk", "total used free")


def lines(seorep: Seorep, subject: str, *words: str) -> list[str]:
    """Run the doctor, and return its findings about a subject."""
    out = seorep("doctor", "-s", "campaigns=1", *words).out
    return [line for line in out.splitlines() if line[6:].startswith(f"{subject} ")]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("read_only", "code", "nights"),
    [(True, 0, "sandbox: 1 night, "), (False, 10, "not checked: can't read a.duckdb: ")],
)
def test_nights_are_checked_beside_a_program_that_only_reads(
    seorep: Seorep,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read_only: bool,
    code: int,
    nights: str,
) -> None:
    monkeypatch.setattr(target_check, "_OPEN_SECONDS", 1.0)
    monkeypatch.setattr(source, "WAIT_SECONDS", 0.2)
    assert seorep("pull", "-s", "campaigns=1", "-o", "a.duckdb", "--quiet").code == 0
    with opening_a_database(tmp_path / "a.duckdb", read_only=read_only) as other:
        ended = seorep("doctor", "-s", "campaigns=1", "-o", "a.duckdb", "--exit-code")
    assert ended.code == code
    holder = f"open in another program (process {other.pid})"
    assert f"a.duckdb is {holder}; a pull waits up to 60 s for it\n" in ended.out
    assert f"nights              {nights}" in ended.out
    assert "no night was found" not in ended.out


def test_a_target_that_opens_slowly_is_not_called_open_elsewhere(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_check, "_OPEN_SECONDS", 0.0)
    assert "opening a.csv takes over 0 s" in lines(seorep, "target", "-o", "a.csv")[0]


OWN_ROWS = """
    CREATE SCHEMA "my own";
    CREATE TABLE "my own"."an ""odd"" name" (number INTEGER);
    CREATE TABLE "my own"."its rows" AS SELECT random() FROM range(100000)
"""


def test_a_database_without_its_last_rows_is_damaged(seorep: Seorep, tmp_path: Path) -> None:
    file = database_of(tmp_path, nightly({11: 1}))
    with duckdb.connect(str(file)) as database:
        add_last_rows(database, OWN_ROWS)
    assert seorep("doctor", "-s", "campaigns=1", "-o", "a.duckdb").code == 0
    os.truncate(file, file.stat().st_size - 262_144)
    ended = seorep("doctor", "-s", "campaigns=1", "-o", "a.duckdb")
    assert ended.code == 7
    assert "can't read a.duckdb: it is damaged; restore a backup\n" in ended.out


def test_a_running_pull_is_no_fault_and_its_nights_are_shown(
    seorep: Seorep, tmp_path: Path
) -> None:
    command = ("pull", "-s", "campaigns=1", "-o", "a.duckdb", "--quiet")
    assert seorep(*command).code == 0
    assert seorep(*command, "--max-requests", "1", "--last", "30d").code == 5
    with closing(BlockFile(tmp_path / ".a.duckdb.sandbox.pull/pieces")):
        ended = seorep("doctor", "-s", "campaigns=1", "-o", "a.duckdb", "--exit-code")
    assert ended.code == 0
    assert "note  target              another pull into this target is running" in ended.out
    assert "nights              sandbox: 1 night, " in ended.out


@pytest.mark.parametrize(
    ("time", "code", "end"), [("1m", 0, "the key was not checked; a pull waits"), ("1h", 5, "")]
)
def test_a_limit_is_a_fault_if_a_pull_does_not_wait_for_it(
    seorep: Seorep, time: str, code: int, end: str
) -> None:
    with seorep.account(rate_limit=f"1/{time},burst=1,retry-after=seconds"):
        assert seorep("campaigns", "list").code == 0
        ended = seorep("doctor")
    assert ended.code == code
    assert end in ended.out


@pytest.mark.parametrize(("free", "level"), [(10**6, "FAIL"), (10**9, "ok")])
def test_a_target_needs_room(
    seorep: Seorep,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    level: str,
) -> None:
    target = tmp_path / "a.csv"
    target.touch()
    os.truncate(target, 600_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Disk(10**13, 0, free))
    (line,) = lines(seorep, "space", "-o", "a.csv")
    assert line.startswith(level)


def test_a_missing_library_is_named_with_its_extra(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(library: str) -> None:
        raise ImportError(f"this needs {library}: pip install 'seorep-async[arrow]'")

    monkeypatch.setattr(target_check, "require", missing)
    ended = seorep("doctor", "-s", "campaigns=1", "-o", "a.parquet", "--json")
    assert ended.code == ExitCode.USAGE
    assert "seorep-async[arrow]" in json.loads(ended.out)["error"]["message"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "agrees with the service's"),
        (-5400, "this machine's is 1 h 30 min behind the service's; default dates may be wrong"),
        (86400, "this machine's is 1 d ahead of the service's; default dates may be wrong"),
    ],
)
def test_a_difference_of_clocks_is_in_a_persons_units(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, seconds: float, words: str
) -> None:
    # The service runs in this process and keeps its own clock.
    clock = SimpleNamespace(time=lambda: time.time() + seconds)
    monkeypatch.setattr(doctor, "time", clock)
    (line,) = lines(seorep, "clock")
    assert line.endswith(words)
