"""Forgetting an account: none of its rows is left, and nothing else is touched."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from seorep_async.export.lock import AtWorkError
from seorep_async.export.storage import storage_of
from tests.export.databases import change
from tests.export.reports import account

from seorep_async import ConfigurationError, Feed, SeoRepError
from seorep_async.export import PullProgress, pull_to
from seorep_async.history import forget, open_history
from seorep_async.tables.declared import all_tables
from tests.history.left_behind import NIGHTS

pytestmark = pytest.mark.heavy

PART = "a/totals/account=acme/snapshot_date=2023-03-01/part-00000.parquet"
OWN = """CREATE TABLE notes (account VARCHAR PRIMARY KEY, note VARCHAR); INSERT INTO notes VALUES ('acme', 'mine');
    CREATE VIEW mine AS SELECT * FROM keyword_rankings_latest; CREATE INDEX i ON totals (campaign_id);
    ALTER TABLE keywords ADD COLUMN note VARCHAR DEFAULT 'none'"""


def rows(place: object) -> dict[str, list[tuple[Any, ...]]]:
    with open_history(str(place)) as history:
        ask = history.connection.execute
        return {one.name: sorted(ask(f"FROM {one.name}").fetchall(), key=repr) for one in all_tables()}


@pytest.mark.parametrize("name", ["a.duckdb", "a/", "a"])
def test_one_account_goes_and_the_other_stays(source: Path, name: str) -> None:
    place = f"{source}/{name}"
    before = rows(place)
    forget(place, account="acme")
    kept = {table: [row for row in found if row[0] != "acme"] for table, found in before.items()}
    assert rows(place) == kept
    with pytest.raises(ConfigurationError, match=r"there is no account 'acme' in .*; it has 'other'"):
        forget(place, account="acme")


def test_a_database_that_answers_otherwise_is_refused(source: Path) -> None:
    change(source / "a.duckdb", "CREATE MACRO lower(a) AS 'x'")
    with pytest.raises(ConfigurationError, match="macro lower hides a function"):
        forget(source / "a.duckdb", account="acme")


def test_rows_of_no_account_do_not_hide_the_names(source: Path) -> None:
    change(source / "a.duckdb", "ALTER TABLE totals ALTER account DROP NOT NULL; UPDATE totals SET account = NULL")
    with pytest.raises(ConfigurationError, match=r"there is no account 'x' in .*; it has 'acme', 'other'"):
        forget(source / "a.duckdb", account="x")


@pytest.mark.parametrize("has_receipts", [True, False])
def test_no_folder_of_a_dataset_names_it_any_more(source: Path, has_receipts: bool) -> None:
    if not has_receipts:
        shutil.rmtree(source / "a/_receipts/account=acme")
    forget(source / "a", account="acme")
    assert [path for path in (source / "a").rglob("*") if "acme" in path.name] == []


def test_no_byte_of_it_is_left_in_a_database(source: Path) -> None:
    file = source / "a.duckdb"
    change(file, "UPDATE campaigns SET company = 'incompressible-' || account", OWN)
    file.chmod(0o640)
    size = file.stat().st_size
    forget(file, account="acme")
    assert file.stat().st_size < size
    assert (b"incompressible-acme" in file.read_bytes(), file.stat().st_mode & 0o777) == (False, 0o640)
    assert [path.name for path in source.iterdir() if path.name.startswith(".")] == []
    with duckdb.connect(str(file)) as own:
        assert own.execute("FROM notes").fetchall() == [("acme", "mine")]
        assert own.execute("SELECT DISTINCT account FROM mine").fetchall() == [("other",)]
        assert own.execute("SELECT table_name FROM duckdb_indexes() WHERE index_name = 'i'").fetchall() == [("totals",)]


async def test_a_pull_goes_on_in_what_is_left(source: Path) -> None:
    for out in (source / "a.duckdb", f"{source}/a/"):
        forget(out, account="acme")
        async with account(campaigns=1, keywords=2, key="of another service") as (_, client):
            options: Any = {"account": "acme", "snapshot_date": "2023-03-03", "feeds": Feed}
            assert (await pull_to(client, None, "2023-01-01", "2023-01-31", out=out, **options)).ok
        with open_history(out) as history:
            assert (len(history.nights("acme")), len(history.nights("other"))) == (1, len(NIGHTS))


def test_only_files_of_pulls_are_deleted(source: Path) -> None:
    staged = "_staging/account=acme/snapshot_date=2023-03-01/0123456789ab/totals-00000-0123456789abcdef.parquet"
    plan = "_receipts/account=acme/snapshot_date=2023-03-01/0123456789ab-plan.json"
    shard = plan.replace("plan", "00007")
    own = ["totals/account=acme/snapshot_date=2023-03-01/notes.txt", "_receipts/account=acme/notes.json"]
    for name in (staged, plan, shard, *own):
        (source / "a" / name).parent.mkdir(parents=True, exist_ok=True)
        (source / "a" / name).write_text("x")
    forget(source / "a", account="acme")
    left = [name for name in storage_of(str(source / "a")).names("") if "account=acme/" in name]
    assert left == sorted(own)


def staging_folders(source: Path) -> list[str]:
    return [path.name for path in source.glob(".*.pull")]


async def test_staged_reports_go_too(source: Path) -> None:
    file = source / "a.duckdb"
    async with account(campaigns=2, keywords=2, failing=[1]) as (_, client):
        await pull_to(client, None, "2023-01-01", "2023-01-31", out=file, account="third")
    assert len(staging_folders(source)) == 1
    forget(file, account="third")
    assert staging_folders(source) == []


@pytest.mark.parametrize("out", ["a.duckdb", "a/"])
async def test_a_pull_at_work_keeps_its_account(source: Path, out: str) -> None:
    place, errors = f"{source}/{out}", dict[str, SeoRepError | None]()

    def at_work(_: PullProgress) -> None:
        for name in {"third", "other"} - errors.keys():
            errors[name] = None
            try:
                forget(place, account=name)
            except SeoRepError as error:
                errors[name] = error

    async with account(campaigns=2, keywords=2) as (_, client):
        options: Any = {"account": "third", "feeds": Feed, "on_progress": at_work}
        assert (await pull_to(client, None, "2023-01-01", "2023-01-31", out=place, **options)).ok
    assert (type(errors["third"]), errors["other"]) == (AtWorkError, None)
    with open_history(place) as history:
        assert history.accounts() == ["acme", "third"]


@pytest.mark.parametrize("step", ["_copy", "atomic_replace"])
def test_killed_a_database_is_as_it_was(source: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    before = rows(source / "a.duckdb")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"seorep_async.history.forgetting.{step}", killed)
    with pytest.raises(KeyboardInterrupt):
        forget(source / "a.duckdb", account="acme")
    assert rows(source / "a.duckdb") == before


KILLED = """
import os, signal, sys
from seorep_async.history import forget

def killed(real, left=[int(sys.argv[3])]):
    def step(*args, **options):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)
    return step

os.unlink, os.replace = killed(os.unlink), killed(os.replace)
forget(sys.argv[1], account=sys.argv[2])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize(("name", "step"), [("a.duckdb", 1), ("a", 1), ("a", 2), ("a", 9)])
def test_after_sigkill_the_same_call_ends_it(source: Path, name: str, step: int) -> None:
    place = source / name
    expected = {table: [row for row in found if row[0] != "acme"] for table, found in rows(place).items()}
    child = subprocess.run([sys.executable, "-c", KILLED, str(place), "acme", str(step)], check=False)
    assert child.returncode == -signal.SIGKILL
    assert {row[:2] for row in rows(place)["totals"]} == {row[:2] for row in rows(place)["pulls"]}  # nights are whole
    forget(place, account="acme")
    assert rows(place) == expected
    assert [path for path in place.rglob("*") if "acme" in path.name] + staging_folders(source) == []


@pytest.mark.parametrize(
    ("name", "account_name", "said"),
    [
        ("a.duckdb", "x", r"there is no account 'x' in .*a.duckdb; it has 'acme', 'other'"),
        ("a", "x", r"there is no account 'x' in .*; it has 'acme', 'other'"),
        ("missing.duckdb", "acme", "there is no such file; name a database or a dataset"),
        ("a.duckdb", "", "account must be a name"),
        ("a.csv", "acme", "there is no such file"),
        (PART, "acme", "it holds rows, and no database; name a database or a dataset that a pull wrote"),
    ],
)
def test_what_is_not_there_is_refused(left_behind: Path, name: str, account_name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        forget(left_behind / name, account=account_name)
