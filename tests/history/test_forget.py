"""Forgetting an account: none of its rows is left, and nothing else is touched."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from seorep_async import ConfigurationError, Feed, SeoRepError
from seorep_async.export import PullProgress, pull_to
from seorep_async.export.local_folder import LocalFolder
from seorep_async.export.lock import AtWorkError
from seorep_async.export.storage import storage_of
from seorep_async.history import forget, open_history
from seorep_async.tables.declared import all_tables
from tests.export.reports import account
from tests.history.left_behind import NIGHTS, pulled

pytestmark = pytest.mark.heavy

PART = "a/totals/account=acme/snapshot_date=2023-03-01/part-00000.parquet"
OWN = """CREATE TABLE notes (account VARCHAR PRIMARY KEY, note VARCHAR); INSERT INTO notes VALUES ('acme', 'mine');
    CREATE VIEW mine AS SELECT * FROM keyword_rankings_latest; CREATE INDEX i ON totals (campaign_id);
    ALTER TABLE keywords ADD COLUMN note VARCHAR DEFAULT 'none'"""


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pulled(tmp_path_factory.mktemp("forget"))


@pytest.fixture
def folder(left_behind: Path, tmp_path: Path) -> Path:
    shutil.copytree(left_behind, tmp_path / "copy")
    return tmp_path / "copy"


def rows(source: object) -> dict[str, list[tuple[Any, ...]]]:
    with open_history(str(source)) as history:
        ask = history.connection.execute
        return {one.name: sorted(ask(f"FROM {one.name}").fetchall(), key=repr) for one in all_tables()}


@pytest.mark.parametrize("name", ["a.duckdb", "a/", "a"])
def test_one_account_goes_and_the_other_stays(folder: Path, name: str) -> None:
    place = f"{folder}/{name}"
    before = rows(place)
    forget(place, account="acme")
    kept = {table: [row for row in found if row[0] != "acme"] for table, found in before.items()}
    assert rows(place) == kept
    with pytest.raises(ConfigurationError, match=r"there is no account 'acme' in .*; it has 'other'"):
        forget(place, account="acme")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("CREATE MACRO lower(a) AS 'x'", "macro lower hides a function"),
        (
            "DROP VIEW keyword_rankings_latest; ALTER TABLE pulls ALTER account TYPE VARCHAR COLLATE NOCASE",
            "by a COLLATE on account; run ALTER TABLE pulls ALTER account TYPE VARCHAR",
        ),
        ("ALTER TABLE totals RENAME TO mine; CREATE VIEW totals AS FROM mine", "totals is a view in it"),
    ],
)
def test_a_database_that_answers_otherwise_is_refused(folder: Path, changed: str, said: str) -> None:
    with duckdb.connect(str(folder / "a.duckdb")) as own:
        own.execute(changed)
    with pytest.raises(ConfigurationError, match=said):
        forget(folder / "a.duckdb", account="acme")


def test_rows_of_no_account_do_not_hide_the_names(folder: Path) -> None:
    with duckdb.connect(str(folder / "a.duckdb")) as own:
        own.execute("ALTER TABLE totals ALTER account DROP NOT NULL; UPDATE totals SET account = NULL")
    with pytest.raises(ConfigurationError, match=r"there is no account 'x' in .*; it has 'acme', 'other'"):
        forget(folder / "a.duckdb", account="x")


def test_no_folder_of_a_dataset_names_it_any_more(folder: Path) -> None:
    forget(folder / "a", account="acme")
    assert [path for path in (folder / "a").rglob("*") if "acme" in path.name] == []


def test_parts_without_any_receipt_go_too(folder: Path) -> None:
    shutil.rmtree(folder / "a/_receipts/account=acme")
    forget(folder / "a", account="acme")
    assert [path for path in (folder / "a").rglob("*") if "acme" in path.name] == []


def test_no_byte_of_it_is_left_in_a_database(folder: Path) -> None:
    file = folder / "a.duckdb"
    with duckdb.connect(str(file)) as own:
        own.execute("UPDATE campaigns SET company = 'incompressible-' || account")
        own.execute(OWN)
    file.chmod(0o640)
    size = file.stat().st_size
    forget(file, account="acme")
    assert file.stat().st_size < size
    assert (b"incompressible-acme" in file.read_bytes(), file.stat().st_mode & 0o777) == (False, 0o640)
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    with duckdb.connect(str(file)) as own:
        assert own.execute("FROM notes").fetchall() == [("acme", "mine")]
        assert own.execute("SELECT DISTINCT account FROM mine").fetchall() == [("other",)]
        assert own.execute("SELECT table_name FROM duckdb_indexes() WHERE index_name = 'i'").fetchall() == [("totals",)]


async def test_a_pull_goes_on_in_what_is_left(folder: Path) -> None:
    for out in (folder / "a.duckdb", f"{folder}/a/"):
        forget(out, account="acme")
        async with account(campaigns=1, keywords=2, key="of another service") as (_, client):
            options: Any = {"account": "acme", "snapshot_date": "2023-03-03", "feeds": Feed}
            assert (await pull_to(client, None, "2023-01-01", "2023-01-31", out=out, **options)).ok
        with open_history(out) as history:
            assert (len(history.nights("acme")), len(history.nights("other"))) == (1, len(NIGHTS))


def test_only_files_of_pulls_are_deleted(folder: Path) -> None:
    staged = "_staging/account=acme/snapshot_date=2023-03-01/0123456789ab/totals-00000-0123456789abcdef.parquet"
    plan = "_receipts/account=acme/snapshot_date=2023-03-01/0123456789ab-plan.json"
    shard = plan.replace("plan", "00007")
    own = ["totals/account=acme/snapshot_date=2023-03-01/notes.txt", "_receipts/account=acme/notes.json"]
    for name in (staged, plan, shard, *own):
        (folder / "a" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "a" / name).write_text("x")
    forget(folder / "a", account="acme")
    left = [name for name in storage_of(str(folder / "a")).names("") if "account=acme/" in name]
    assert left == sorted(own)


def staging_folders(folder: Path) -> list[str]:
    return [path.name for path in folder.glob(".*.pull")]


async def test_staged_reports_go_too(folder: Path) -> None:
    file = folder / "a.duckdb"
    async with account(campaigns=2, keywords=2, failing=[1]) as (_, client):
        await pull_to(client, None, "2023-01-01", "2023-01-31", out=file, account="third")
    assert len(staging_folders(folder)) == 1
    forget(file, account="third")
    assert staging_folders(folder) == []


@pytest.mark.parametrize("out", ["a.duckdb", "a/"])
async def test_a_pull_at_work_keeps_its_account(folder: Path, out: str) -> None:
    place, errors = f"{folder}/{out}", dict[str, SeoRepError | None]()

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
def test_killed_a_database_is_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    before = rows(folder / "a.duckdb")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"seorep_async.history.forgetting.{step}", killed)
    with pytest.raises(KeyboardInterrupt):
        forget(folder / "a.duckdb", account="acme")
    assert rows(folder / "a.duckdb") == before


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
def test_after_sigkill_the_same_call_ends_it(folder: Path, name: str, step: int) -> None:
    place = folder / name
    expected = {table: [row for row in found if row[0] != "acme"] for table, found in rows(place).items()}
    child = subprocess.run([sys.executable, "-c", KILLED, str(place), "acme", str(step)], check=False)
    assert child.returncode == -signal.SIGKILL
    forget(place, account="acme")
    assert rows(place) == expected
    assert [path for path in place.rglob("*") if "acme" in path.name] + staging_folders(folder) == []


@pytest.mark.parametrize("calls", [1, 2])
def test_killed_in_a_dataset_the_same_call_ends_it(folder: Path, monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    expected = {table: [row for row in found if row[0] != "acme"] for table, found in rows(folder / "a").items()}
    done = 0

    def killed(self: LocalFolder, names: list[str]) -> None:
        nonlocal done
        done += 1
        real(self, names if done < calls else names[:1])
        if done == calls:
            raise KeyboardInterrupt

    real = LocalFolder.delete
    with monkeypatch.context() as patched:
        patched.setattr(LocalFolder, "delete", killed)
        with pytest.raises(KeyboardInterrupt):
            forget(folder / "a", account="acme")
    forget(folder / "a", account="acme")
    assert rows(folder / "a") == expected
    assert list(folder.glob("a/*/account=acme/*/*.*")) == []


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
