"""The doctor looks at a pull's target, and at the clocks."""

import datetime as dt
import json
import os
import shutil
import time
from collections import namedtuple
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from seorep_async.cli import doctor, target_check
from seorep_async.cli.errors import ExitCode
from seorep_async.cli.findings import Findings
from seorep_async.cli.nights import add_nights
from seorep_async.export.pieces import BlockFile
from seorep_async.history import source
from tests.cli.running import TODAY, Seorep
from tests.history.databases import Pull, add_last_rows, change, database_of
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


OWN_ROWS = """
    CREATE SCHEMA "my own";
    CREATE TABLE "my own"."an ""odd"" name" (number INTEGER);
    CREATE TABLE "my own"."its rows" AS SELECT random() FROM range(100000)
"""


def test_a_database_without_its_last_rows_is_damaged(seorep: Seorep, tmp_path: Path) -> None:
    stored(tmp_path, [5])
    file = tmp_path / "a.duckdb"
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
    folder = tmp_path / ".a.duckdb.sandbox.pull"
    assert folder.is_dir()
    running = BlockFile(folder / "pieces")
    try:
        ended = seorep("doctor", "-s", "campaigns=1", "-o", "a.duckdb", "--exit-code")
    finally:
        running.close()
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


def day_in_march(number: int) -> dt.date:
    return dt.date(2023, 3, number)


def stored(tmp_path: Path, nights: Sequence[int], failed: int = 0) -> None:
    """Make a.duckdb as pulls of nights in March 2023 leave it, one of them without any report."""
    pulls = []
    for night in map(day_in_march, nights):
        pulls.append(Pull(night, night, night, {11: 1}, account="sandbox"))
    if failed:
        night = day_in_march(failed)
        pulls.append(Pull(night, night, night, {}, failed=(1,), account="sandbox"))
    database_of(tmp_path / "a.duckdb", pulls)


def facts_of_nights(today: dt.date = TODAY, account: str | None = None) -> dict[str, Any]:
    """Return the doctor's findings about the nights of a.duckdb, as JSON has them."""
    findings = Findings(writes=False)
    add_nights(findings, "a.duckdb", account, today)
    return findings.facts()


def lines_of_nights(account: str | None = None, today: dt.date = TODAY) -> list[str]:
    """Return the level and the message of each finding about the nights of a.duckdb."""
    checks = facts_of_nights(today, account)["checks"]
    return [f"{check['level'].value}: {check['message']}" for check in checks]


@pytest.mark.parametrize(
    ("nights", "today", "missing"),
    [
        ([5], 9, None),
        ([5, 6, 7], 8, None),
        ([5, 6, 7], 10, "2023-03-08, 2023-03-09"),
        ([5, 6, 8], 9, "2023-03-07"),
        ([1, 2, 3, 6, 7], 8, "2023-03-04, 2023-03-05"),
        ([1, 8, 15, 22], 30, None),  # once a week
        ([14, 15, 16, 20], 21, "2023-03-17, 2023-03-18, 2023-03-19"),  # after an outage
        ([5, 8, 9], 11, "2023-03-06, 2023-03-07, 2023-03-10"),  # after a trial
    ],
)
def test_missing_nights_of_daily_pulls_are_named(
    tmp_path: Path, nights: list[int], today: int, missing: str | None
) -> None:
    stored(tmp_path, nights)
    output = "\n".join(lines_of_nights(today=day_in_march(today)))
    assert ("missing" in output) is (missing is not None)
    if missing:
        assert f"lost: sandbox: missing nights: {missing}; " in output


def test_a_night_without_any_report_is_missing(tmp_path: Path) -> None:
    stored(tmp_path, [5, 6, 8], failed=7)
    assert "missing nights: 2023-03-07; " in lines_of_nights(today=day_in_march(9))[1]


def test_a_night_of_a_few_named_campaigns_is_missing(tmp_path: Path) -> None:
    stored(tmp_path, [5, 6, 7, 8])
    of_few = """UPDATE pulls SET selection = '{"ids": [1]}'"""
    change(tmp_path / "a.duckdb", f"{of_few} WHERE snapshot_date = '2023-03-07'")
    assert "missing nights: 2023-03-07; " in lines_of_nights(today=day_in_march(9))[1]
    change(tmp_path / "a.duckdb", of_few)
    assert "sandbox: 4 nights" in lines_of_nights()[0], "it is always pulled so"
    whole = "UPDATE pulls SET selection = NULL WHERE snapshot_date = '2023-03-06'"
    change(tmp_path / "a.duckdb", whole)
    assert "sandbox: 4 nights" in lines_of_nights()[0], "it is mostly pulled so"


def incomplete(
    tmp_path: Path, failed: tuple[int, ...], nights: int = 1, error: str = "ServerError"
) -> None:
    """Make a.duckdb as nights leave it whose reports of some campaigns failed."""
    night = day_in_march(5)
    first = night - dt.timedelta(30)
    last = night - dt.timedelta(1)
    pulls = [
        Pull(night + dt.timedelta(day), first, last, {31: 1}, failed=failed, account="a b")
        for day in range(nights)
    ]
    database = database_of(tmp_path / "a.duckdb", pulls)
    change(database, f"UPDATE failures SET error = '{error}'")  # noqa: S608


def test_a_night_that_lacks_reports_is_named(tmp_path: Path) -> None:
    incomplete(tmp_path, (1, 2))
    line = lines_of_nights()[1]
    assert (
        "a b, night of 2023-03-05, 2023-02-03 to 2023-03-04: 2 reports failed (campaigns 1, 2: "
        in line
    )
    window = "--from 2023-02-03 --to 2023-03-04 --retry-failed"
    command = f"seorep pull -o a.duckdb --account 'a b' --snapshot-date 2023-03-05 {window}"
    assert "to fetch only what failed, with the pull's other options" in line
    assert line.endswith(command)
    (account,) = facts_of_nights()["nights"]
    assert account["incomplete"][0]["command"] == command


def test_nights_that_would_fail_again_have_one_line(tmp_path: Path) -> None:
    incomplete(tmp_path, (1,), nights=9, error="NotFoundError")
    *_, line = lines_of_nights()
    assert "a b: 9 pulls with reports that would fail again (campaigns: 1); --json " in line
    assert "once the cause is gone" in line
    assert "seorep pull -o a.duckdb --account 'a b' --snapshot-date 2023-03-13 " in line


@pytest.mark.parametrize("error", ["ServerError", "NotFoundError"])
def test_a_failure_without_a_campaign_is_named(tmp_path: Path, error: str) -> None:
    incomplete(tmp_path, (1,), error=error)
    change(tmp_path / "a.duckdb", "UPDATE failures SET campaign_id = NULL")
    assert "campaigns" not in lines_of_nights()[1]
    (account,) = facts_of_nights()["nights"]
    assert account["incomplete"][0]["campaigns"] == []


def test_the_newest_incomplete_nights_are_listed(tmp_path: Path) -> None:
    incomplete(tmp_path, (1,), nights=9)
    _, _, *notes, rest = lines_of_nights()
    assert len(notes) == 7
    assert "night of 2023-03-13, " in notes[0]
    assert rest.endswith("a b: 2 earlier pulls with failed reports; --json lists them all")


@pytest.mark.parametrize(
    ("nights", "today", "is_ok"),
    [
        ([5, 6, 7], 8, True),
        ([5, 6, 7], 9, False),
        ([5, 7, 8], 9, False),
        ([1, 2, 4, 5, 6, 7, 8, 9, 10, 11], 12, True),
        ([1, 8], 20, True),
    ],
    ids=["last night", "none last night", "a lost night", "lost before", "once a week"],
)
def test_nights_are_ok_unless_one_of_the_last_is_lost(
    tmp_path: Path, nights: list[int], today: int, is_ok: bool
) -> None:
    stored(tmp_path, nights)
    (account,) = facts_of_nights(day_in_march(today))["nights"]
    assert account["ok"] is is_ok
    assert account["days_since_newest"] == today - nights[-1]


@pytest.mark.parametrize(
    ("error", "day", "is_ok"),
    [("ServerError", 6, False), ("ServerError", 20, True), ("NotFoundError", 6, True)],
)
def test_nights_are_not_ok_while_a_retry_may_help(
    tmp_path: Path, error: str, day: int, is_ok: bool
) -> None:
    incomplete(tmp_path, (1,), error=error)
    (account,) = facts_of_nights(day_in_march(day))["nights"]
    assert account["ok"] is is_ok
    levels = {line.partition(":")[0] for line in lines_of_nights(today=day_in_march(day))}
    assert levels == {"fact", "note" if is_ok else "lost"}


def test_an_account_without_nights_is_named(tmp_path: Path) -> None:
    stored(tmp_path, [1, 8])
    problem = "there is no account 'acmee' in a.duckdb; it has 'sandbox'"
    assert lines_of_nights("acmee") == [f"lost: {problem}"]
    change(tmp_path / "a.duckdb", "UPDATE pulls SET rows = 0, failures = 1")
    assert lines_of_nights("sandbox") == ["lost: sandbox: no night has reports"]


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
