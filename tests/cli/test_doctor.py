"""The doctor looks at a pull's target, and at the clocks."""

import json
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from seorep_async.cli import doctor, target_check
from seorep_async.cli.errors import ExitCode
from tests.cli.running import Seorep

Disk = namedtuple("Disk", "total used free")
HOLDER = """
import sys, duckdb
database = duckdb.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def lines(seorep: Seorep, subject: str, *words: str) -> list[str]:
    """Run the doctor, and return what it says of a subject."""
    err = seorep("doctor", "-s", "campaigns=1", *words).err
    return [line for line in err.splitlines() if line[6:].startswith(f"{subject} ")]


@contextmanager
def held_open(database: Path) -> Iterator[None]:
    """Hold a database open in another process while the block runs."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, database],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        try:
            yield
        finally:
            holder.kill()


@pytest.mark.heavy
def test_a_database_that_is_open_elsewhere_is_named_at_once(
    seorep: Seorep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_check, "_OPEN_SECONDS", 1.0)
    assert seorep("pull", "-s", "campaigns=1", "-o", "a.duckdb", "--quiet").code == 0
    with held_open(tmp_path / "a.duckdb"):
        (line,) = lines(seorep, "target", "-o", "a.duckdb")
    waits = "a pull waits up to 60 s for it"
    assert line.endswith(f"a.duckdb is open in another program; {waits}")


@pytest.mark.parametrize(
    ("free", "level", "code"), [(10**6, "FAIL", 7), (10**9, "note", 0), (10**12, "ok", 0)]
)
def test_a_target_needs_room(
    seorep: Seorep,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    level: str,
    code: int,
) -> None:
    target = tmp_path / "a.csv"
    target.touch()
    with target.open("wb") as file:
        file.truncate(600_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Disk(10**13, 0, free))
    (line,) = lines(seorep, "space", "-o", "a.csv")
    assert line.startswith(level)
    assert seorep("doctor", "-s", "campaigns=1", "-o", "b.csv").code in (0, code)


def test_a_file_that_no_pull_wrote_is_refused_with_advice(seorep: Seorep, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    ended = seorep("doctor", "-s", "campaigns=1", "-o", "a.csv")
    assert ended.code == ExitCode.USAGE
    assert "replace it with --force" in ended.err


def test_a_stored_pull_is_named(seorep: Seorep) -> None:
    window = ("--from", "2023-01-01", "--to", "2023-01-31")
    pull = ("pull", "--sandbox", "-o", "a.csv", *window, "--max-requests", "8", "--quiet")
    assert seorep(*pull).code == ExitCode.UNAVAILABLE
    (line,) = lines(seorep, "staged", "-o", "a.csv")
    assert line.endswith("a pull of 2023-01-01 to 2023-01-31 is unfinished, with 7 reports stored")


def test_a_missing_library_is_named_with_its_extra(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(library: str) -> None:
        raise ImportError(f"this needs {library}: pip install 'seorep-async[arrow]'")

    monkeypatch.setattr(target_check, "require", missing)
    ended = seorep("doctor", "-s", "campaigns=1", "-o", "a.parquet", "--json")
    assert ended.code == ExitCode.USAGE
    assert "seorep-async[arrow]" in json.loads(ended.out)["error"]["message"]


@pytest.mark.parametrize(("file", "library"), [("a.parquet", "pyarrow "), ("a.duckdb", "duckdb ")])
def test_the_version_of_a_library_is_named(seorep: Seorep, file: str, library: str) -> None:
    (line,) = lines(seorep, "extra", "-o", file)
    assert line.startswith("ok")
    assert library in line


def test_looking_changes_nothing(seorep: Seorep, tmp_path: Path) -> None:
    assert seorep("doctor", "-s", "campaigns=1", "-o", "a.csv").code == 0
    assert [path.name for path in tmp_path.iterdir()] == []


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
    # the service runs in this process, too, and keeps its own clock
    clock = SimpleNamespace(time=lambda: time.time() + seconds)
    monkeypatch.setattr(doctor, "time", clock)
    (line,) = lines(seorep, "clock")
    assert line.endswith(words)


def test_every_check_is_in_the_json(seorep: Seorep) -> None:
    facts = json.loads(seorep("doctor", "-s", "campaigns=1", "-o", "a.csv", "--json").out)
    assert (facts["exit_code"], facts["error"]) == (0, None)
    assert {check["level"] for check in facts["checks"]} <= {"ok", "fact", "note", "fail"}
    subjects = [check["subject"] for check in facts["checks"]]
    assert subjects[:4] == ["settings", "space", "target", "connection"]
