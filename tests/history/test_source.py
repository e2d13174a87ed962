"""What a history opens: a database or what a dataset's receipts name, only to read, with nothing else in reach."""

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.export.databases import change, opened_elsewhere
from tests.export.reports import account
from tests.export.s3 import Bucket

from seorep_async import ConfigurationError, ExportError, history
from seorep_async.export import pull_to
from seorep_async.history import changes, open_history, report
from seorep_async.tables.declared import all_tables
from tests.history.left_behind import NIGHTS, compute_accounts, pulled_windows

RECEIPT = "_receipts/account=acme/snapshot_date=2023-03-02.json"
PART = "keyword_rankings/account=acme/snapshot_date=2023-03-02/part-00000.parquet"


def rows(source: object, table: str) -> list[tuple[Any, ...]]:
    with open_history(str(source)) as history:
        columns = ", ".join(column.name for one in all_tables() if one.name == table for column in one.columns)
        return sorted(history.connection.execute(f"SELECT {columns} FROM {table}").fetchall(), key=repr)


@pytest.mark.parametrize("table", [table.name for table in all_tables() if table.name != "pulls"])
def test_a_dataset_shows_the_rows_of_a_database(left_behind: Path, table: str) -> None:
    assert rows(left_behind / "a", table) == rows(left_behind / "a.duckdb", table)
    assert rows(left_behind / "a", table) or table == "failures"


def test_the_guides_copy_has_all_rows(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (statements,) = re.findall(r'^    duckdb copy\.duckdb "(.*)"$', history.__doc__ or "", re.MULTILINE)
    monkeypatch.chdir(source)
    (source / "a.duckdb").rename("rankings.duckdb")
    with duckdb.connect("copy.duckdb") as copy:
        copy.execute(statements)
    assert rows("copy.duckdb", "keyword_rankings") == rows("rankings.duckdb", "keyword_rankings")


@pytest.mark.parametrize("name", ["a.duckdb", "a", "a/"])
def test_accounts_and_nights_are_listed(left_behind: Path, name: str) -> None:
    with open_history(f"{left_behind}/{name}") as history:
        assert history.accounts() == ["acme", "other"]
        assert list(map(str, history.nights("acme"))) == list(NIGHTS)
        assert history.account("acme") == "acme"
        with pytest.raises(ConfigurationError, match=r"several accounts; name one with account=…: 'acme', 'other'"):
            history.account(None)
        with pytest.raises(ConfigurationError, match=r"no account 'x' in .*; it has 'acme', 'other'"):
            history.account("x")
        assert history.connection.execute("FROM keyword_rankings_latest").fetchall()


@pytest.mark.parametrize("name", ["a.duckdb", "a"])
@pytest.mark.parametrize(
    "statement",
    [
        "FROM read_text('{other}')",
        "COPY pulls TO '{other}'",
        "ATTACH '{other}'",
        "SET enable_external_access = true",
        "SET threads = 1",
        "FROM local",
    ],
)
def test_sql_reaches_nothing_else(left_behind: Path, tmp_path: Path, name: str, statement: str) -> None:
    local = [1]
    (tmp_path / "other").write_text(f"secret {local}")
    with open_history(left_behind / name) as history, pytest.raises(duckdb.Error):
        history.connection.execute(statement.format(other=tmp_path / "other")).fetchall()


def test_sql_writes_nothing_into_a_database(left_behind: Path) -> None:
    with open_history(left_behind / "a.duckdb") as history, pytest.raises(duckdb.Error, match="read-only"):
        history.connection.execute("DELETE FROM pulls")


def test_files_that_no_receipt_names_are_not_read(source: Path) -> None:
    shutil.copy(source / "a" / PART, source / "a" / PART.replace("part-00000", "part-00001"))
    assert len(rows(source / "a", "keyword_rankings")) == 16


def damage(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1] + b"x")


def link(file: Path) -> None:
    shutil.move(file, file.with_name("moved"))
    file.symlink_to("moved")


@pytest.mark.parametrize(
    ("touch", "said"),
    [
        (damage, "part-00000.parquet is missing, or does not match its receipt; run this again"),
        (Path.unlink, "part-00000.parquet is missing"),
        (link, "it is a link"),
    ],
)
def test_a_part_must_match_its_receipt(source: Path, touch: Callable[[Path], None], said: str) -> None:
    touch(source / "a" / PART)
    for read in (changed, ranked):
        with pytest.raises(ExportError, match=said):
            read(source / "a")
    assert rows(source / "a", "campaigns")  # of which nothing changed


def test_a_part_of_pulls_must_match_its_receipt(source: Path) -> None:
    for part in (source / "a/pulls").rglob("*.parquet"):
        damage(part)
    with pytest.raises(ExportError, match=r"does not match its receipt; run this again, or pull this night again$"):
        rows(source / "a", "campaigns")


def test_a_night_that_is_being_replaced_is_not_read(source: Path) -> None:
    receipt = source / "a/_receipts/account=acme/snapshot_date=2023-03-01.json"
    receipt.write_bytes(receipt.read_bytes().replace(b'"receipt": 1', b'"coming": [], "receipt": 1'))
    with pytest.raises(ExportError, match="a pull is replacing this night; run this again when it has ended"):
        rows(source / "a", "pulls")


def test_a_database_that_is_being_written_is_named(source: Path) -> None:
    with opened_elsewhere(source / "a.duckdb") as other:
        with pytest.raises(ExportError, match=r"can't read .*a.duckdb: a pull is writing it, or it is open in another"):
            rows(source / "a.duckdb", "pulls")
        other.communicate()


async def test_a_pull_can_write_once_it_is_closed(source: Path) -> None:
    rows(source / "a.duckdb", "pulls")
    async with account(campaigns=1, key="new") as (_, client):
        await pull_to(client, None, "2023-01-01", "2023-01-31", out=source / "a.duckdb", account="third")
    with open_history(source / "a.duckdb") as history:
        assert history.accounts() == ["acme", "other", "third"]


def test_what_no_pull_wrote_is_refused(tmp_path: Path) -> None:
    for name in ("text.duckdb", "rows.csv"):
        (tmp_path / name).write_text("no database")
    (tmp_path / "folder").mkdir()
    change(tmp_path / "own.duckdb", "CREATE TABLE pulls (account VARCHAR)")
    for name, said in [
        ("missing.duckdb", "there is no such file; name a database or a dataset that a pull wrote"),
        ("text.duckdb", "not a valid DuckDB database"),
        ("rows.csv", "it holds rows, and no database; name a database or a dataset that a pull wrote"),
        ("own.duckdb", "its table keyword_rankings has no column account of type VARCHAR"),
        ("folder", "no pull wrote it"),
        ("a\0b", "source must be a path or an address"),
    ]:
        with pytest.raises(ConfigurationError, match=said), open_history(tmp_path / name):
            pass
    with pytest.raises(ConfigurationError, match="source must be a path or an address, got 3"), open_history(3):  # type: ignore[arg-type]
        pass
    options = {"region": "x"}
    with (
        pytest.raises(ConfigurationError, match="storage_options are for object stores"),
        open_history(tmp_path / "folder", storage_options=options),
    ):
        pass


@pytest.mark.parametrize("name", ["folder", "rankings"])
async def test_a_dataset_without_rankings_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    async with account(campaigns=1, keywords=2) as (_, client):
        await pull_to(client, None, "2023-01-01", "2023-01-31", out=f"{tmp_path}/rankings/", feeds="keyword-by-date")
    said = "no pull wrote it" if name == "folder" else "has no keyword rankings of"
    with pytest.raises(ConfigurationError, match=said):
        report(tmp_path / name, out=tmp_path / "page.html")


async def test_a_dataset_in_a_bucket_opens_likewise(bucket: Bucket) -> None:
    async with account(campaigns=1, keywords=2) as (_, client):
        options = bucket.server.options
        await pull_to(
            client, None, "2023-01-01", "2023-01-31", out=f"{bucket.url}/a/", account="acme", storage_options=options
        )
    with open_history(f"{bucket.url}/a/", storage_options=options) as history:
        assert history.connection.execute("SELECT count(*) FROM keyword_rankings").fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            "ALTER TABLE pulls RENAME TO mine; CREATE VIEW pulls AS WITH RECURSIVE endless(n) AS "
            "(SELECT 1 UNION ALL SELECT n FROM endless) SELECT mine.* FROM mine, endless",
            "pulls is a view in it",
        ),
        ("CREATE MACRO list_contains(a, b) AS false", "macro list_contains hides a function"),
        ('CREATE MACRO "LIST_CONTAINS"(a, b) AS false', "macro LIST_CONTAINS hides a function"),
        (
            "DROP VIEW keyword_rankings_latest; ALTER TABLE totals ALTER account TYPE VARCHAR COLLATE NOCASE",
            "its table totals takes other accounts for the same, by a COLLATE on account; run ALTER TABLE totals",
        ),
        (
            "CREATE MACRO duckdb_functions() AS TABLE SELECT 1 AS one",
            'macro duckdb_functions hides a function of DuckDB\'s; run DROP MACRO TABLE "duckdb_functions"',
        ),
    ],
)
def test_a_database_that_answers_otherwise_is_refused(source: Path, changed: str, said: str) -> None:
    change(source / "a.duckdb", changed)
    with pytest.raises(ConfigurationError, match=said), open_history(source / "a.duckdb"):
        pass


def test_opening_a_database_computes_no_column(source: Path) -> None:
    compute_accounts(source / "a.duckdb")
    with open_history(source / "a.duckdb") as history, pytest.raises(duckdb.Error, match="computed"):
        history.accounts()


def test_own_macros_stay(source: Path) -> None:
    change(source / "a.duckdb", "CREATE MACRO clicks(a) AS a + 1; CREATE SCHEMA own; CREATE MACRO own.lower(a) AS a")
    with open_history(source / "a.duckdb") as history:
        assert history.connection.execute("SELECT clicks(1)").fetchall() == [(2,)]


def with_column(name: str, values: Callable[[pa.Table], Any]) -> Callable[[pa.Table], pa.Table]:
    """Return a function that replaces a column, or adds one of this name in front."""

    def forge(rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index(name)
        return rows.set_column(place, name, values(rows)) if place >= 0 else rows.add_column(0, name, values(rows))

    return forge


def written(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return bytes(sink.getvalue())


def rewritten(forge: Callable[[pa.Table], pa.Table]) -> Callable[[bytes], bytes]:
    return lambda data: written(forge(pq.read_table(pa.BufferReader(data))))


def without_footer(data: bytes) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length] + bytes(length) + data[-8:]


def changed(dataset: Path) -> object:
    return changes(dataset, account="acme")


def ranked(dataset: Path) -> object:
    return rows(dataset, "keyword_rankings")


def forged(source: Path, forge: Callable[[bytes], bytes], more_bytes: int = 0, night: str = "2023-03-02") -> None:
    """Change a part, and its receipt with it."""
    part, receipt = (source / "a" / name.replace("2023-03-02", night) for name in (PART, RECEIPT))
    before = part.read_bytes()
    after = forge(before)
    part.write_bytes(after)
    facts = json.loads(receipt.read_text(encoding="utf-8"))
    (entry,) = (one for one in facts["parts"] if one["digest"] == hashlib.sha256(before).hexdigest())
    entry |= {"digest": hashlib.sha256(after).hexdigest(), "bytes": len(after) + more_bytes}
    receipt.write_text(json.dumps(facts), encoding="utf-8")


FORGED: dict[str, Callable[[bytes], bytes]] = {
    "retyped": rewritten(with_column("engine_a_ranking", lambda rows: rows["engine_a_ranking"].cast("string"))),
    "truths": rewritten(with_column("engine_a_ranking", lambda rows: rows["engine_a_ranking"].cast("bool"))),
    "no keywords": rewritten(lambda rows: rows.drop_columns("keyword_id")),
    "null keys": rewritten(with_column("keyword_id", lambda rows: pa.nulls(len(rows), pa.int64()))),
    "a name in capitals": rewritten(with_column("ENGINE_A_RANKING", lambda rows: rows["engine_a_ranking"])),
    "a name of DuckDB's": rewritten(with_column("filename", lambda rows: rows["engine_a_ranking"])),
    "garbage": lambda _: b"PAR1" * 99,
    "garbage in its footer": without_footer,
    "garbage in its rows": lambda data: data[:4] + bytes(200) + data[204:],
}


@pytest.mark.parametrize("kind", FORGED)
@pytest.mark.parametrize("read", [changed, ranked])
def test_a_forged_part_with_its_digest_is_refused(source: Path, kind: str, read: Callable[[Path], object]) -> None:
    forged(source, FORGED[kind])
    with pytest.raises(ExportError, match=f"{PART} is no part that a pull wrote"):
        read(source / "a")


@pytest.mark.parametrize("forge", [lambda rows: rows.slice(1), lambda rows: pa.concat_tables([rows, rows])])
def test_a_part_of_more_or_fewer_rows_than_said_is_refused(source: Path, forge: Callable[[pa.Table], pa.Table]) -> None:
    forged(source, rewritten(forge))
    with pytest.raises(ExportError, match=f"{PART} is no part that a pull wrote"):
        changed(source / "a")


def test_an_error_that_was_handled_is_not_told_again(source: Path) -> None:
    damage(source / "a" / PART)
    with pytest.raises(duckdb.BinderException, match="nonsense"), open_history(source / "a") as history:  # noqa: PT012
        with pytest.raises(duckdb.Error):
            history.connection.execute("SELECT max(keyword_id) FROM keyword_rankings").fetchall()
        history.connection.execute("SELECT nonsense")


@pytest.mark.parametrize("read", [changed, ranked])
def test_a_part_shorter_than_its_receipt_says_is_refused(source: Path, read: Callable[[Path], object]) -> None:
    forged(source, bytes, more_bytes=10)
    with pytest.raises(ExportError, match=f"{PART} is missing, or does not match its receipt"):
        read(source / "a")


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def full_folder(file: Path) -> None:
    folder(file)
    (file / "notes.txt").write_text("mine")


@pytest.mark.parametrize("name", [PART, RECEIPT])
@pytest.mark.parametrize(
    ("touch", "said"),
    [
        (link, "it is a link"),
        (pipe, "it is not a regular file"),
        (folder, "it is not a regular file"),
        (full_folder, "it is not a regular file"),
    ],
)
def test_what_stands_for_a_file_can_not_be_read(
    source: Path, name: str, touch: Callable[[Path], None], said: str
) -> None:
    touch(source / "a" / name)
    with pytest.raises(ExportError, match=f"can't read .*{said}"):
        changes(source / "a", account="acme")


@pytest.mark.parametrize("read", [changed, ranked])
@pytest.mark.parametrize("nights", [1, 2])
def test_a_column_of_a_later_version_may_be_missing(source: Path, read: Callable[[Path], object], nights: int) -> None:
    for night in NIGHTS[:nights]:
        forged(source, rewritten(lambda rows: rows.drop_columns("engine_a_ranking_url")), night=night)
    read(source / "a")


@pytest.mark.parametrize("name", ["it's [a]*? x=1", "campaign_id=5", "engine_a_ranking=1", "version=3"])
async def test_the_folder_of_temporary_files_may_have_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source = await pulled_windows(f"{tmp_path}/nights/", latest_first=False)
    (odd := tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    assert [change.kind for change in changes(source)] == ["rose", "entered_top_10"]
    assert not list(odd.iterdir())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing", "a folder of temporary files: No such file"),
        ("a\\b", "DuckDB can't read names with a backslash"),
        ("?", "DuckDB can't read names with a backslash, or that begin with a question mark"),
        ("a\udcff", "surrogates not allowed"),
    ],
)
def test_a_folder_that_can_keep_no_copies_is_named(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    if name != "missing":
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
    with pytest.raises(ExportError, match=f"can't keep copies of parts in .*{said}.*; name another in TMPDIR"):
        changed(source / "a")
    assert name == "missing" or not list((tmp_path / name).iterdir())


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("write", "said"), [(full, ": No space left on device; name another in"), (lambda *_: None, "")]
)
def test_copies_that_are_not_kept_are_told(
    source: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., None], said: str
) -> None:
    monkeypatch.setattr(Path, "write_bytes", write)
    with pytest.raises(ExportError, match=f"can't keep copies of parts in .*seorep-.*{said}"):
        changed(source / "a")


def test_signals_do_not_keep_the_folder_of_copies(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place := tmp_path / "temporary").mkdir()
    removals, remove = [], shutil.rmtree

    def interrupted(folder: Path, **options: Any) -> None:
        removals.append(folder)
        if len(removals) < 4:
            raise KeyboardInterrupt
        remove(folder, **options)

    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        changed(source / "a")
    assert (len(removals), list(place.iterdir())) == (4, [])


def test_an_interrupted_query_is_an_interrupt(source: Path) -> None:
    with pytest.raises(KeyboardInterrupt), open_history(source / "a"):
        raise RuntimeError("Query interrupted")  # as DuckDB raises where a signal came
