"""Forget an account: every row that pulls wrote for it, in a database or a dataset, and what they staged for it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from seorep_async.errors import ConfigurationError
from seorep_async.history.source import database_path, no_account
from seorep_async.models import Feed
from seorep_async.old_export.atomic_replace import atomic_replace, export_error, translate_errors
from seorep_async.old_export.database_file import all_columns, as_name, connected, first_line, quoted, shadowing_names
from seorep_async.old_export.local_folder import STAGING, LocalFolder
from seorep_async.old_export.lock import write_lock
from seorep_async.old_export.night import escape, is_name_of_part
from seorep_async.old_export.storage import RECEIPTS, Storage, is_address
from seorep_async.old_export.targets import target_of
from seorep_async.old_export.targets.dataset import DatasetTarget
from seorep_async.resources.arguments import check_account_name
from seorep_async.tables.declared import all_tables
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb

_REST, _NEW = "seorep_rest", "seorep_new"
_NIGHT = r"account=[^/]+/snapshot_date=\d{4}-\d\d-\d\d"
_RECEIPT = re.compile(rf"{RECEIPTS}/{_NIGHT}(\.json|/[0-9a-f]{{12}}-(\d{{5,}}|plan)\.json)")
_STAGED = re.compile(rf"{STAGING}/{_NIGHT}/[0-9a-f]{{12}}/\w+-\d{{5,}}-[0-9a-f]{{16}}\.parquet")


def forget(
    source: str | os.PathLike[str],
    *,
    account: str,
    storage_options: Mapping[str, Any] | None = None,
    work_dir: str | os.PathLike[str] | None = None,
) -> None:
    """Delete everything that pulls of an account wrote: rows, receipts, plans of shards and staged reports.

    Other accounts, and your own tables, views and files, are untouched. A new database without the account is written
    and takes the old one's place in one step, so no deleted row is left in it. Backups, copies and files that were
    exported elsewhere are not reached. Killed in the middle, it is finished by the same call.

    Args:
        source: a file, such as `rankings.duckdb`, or a dataset: a folder, or an address such as `s3://bucket/rankings/`.
        account: the name of the account.
        storage_options: of an object store, by obstore's names.
        work_dir: the folder in which pulls stage their reports, if they were given one.

    Raises:
        ConfigurationError: the source has no such account, or is none.
        ExportError: a pull of the account is at work, or the source can't be written.
        ImportError: an extra is missing.
    """
    check_account_name(account)
    is_dataset = is_address(source) or os.path.isdir(source)
    out = f"{os.fspath(source).rstrip('/')}/" if is_dataset else source
    target = target_of(out, tuple(Feed), storage_options=storage_options, work_dir=work_dir, account=account)
    if not is_dataset:
        database_path(os.fspath(source))
    area = target.area()
    with area.emptied():
        if isinstance(target, DatasetTarget):
            _forget_in_dataset(target.storage, account)
        else:
            with write_lock(target.path):
                _forget_in_database(target.path, account, area.making)


def _forget_in_dataset(storage: Storage, account: str) -> None:
    """Delete the receipts, and then what they named, so that readers of receipts see all of a night or nothing."""
    receipts = {name for name in storage.names(RECEIPTS) if _RECEIPT.fullmatch(name)}
    parts = {name for table in all_tables() for name in storage.names(table.name) if is_name_of_part(name)}
    staged = {name for name in storage.names(STAGING) if _STAGED.fullmatch(name)}
    mine = f"account={escape(account)}"
    if isinstance(storage, LocalFolder):
        storage.remove_empty_folders(f"{STAGING}/{mine}")  # pulls leave them behind
    if not any(name.split("/")[1] == mine for name in receipts | parts | staged):
        known = {unquote(name.split("/")[1].partition("=")[2]) for name in receipts | parts}
        raise no_account(account, storage.address(), known)
    for names in (receipts, parts, staged):
        storage.delete(sorted(name for name in names if name.split("/")[1] == mine))


def _forget_in_database(path: Path, account: str, making: Path) -> None:
    duckdb, new = require("duckdb"), making / "new.duckdb"
    try:
        with translate_errors(path), connected(path, path) as database:
            for problem in shadowing_names(database):
                raise ConfigurationError(f"can't write {path}: {problem}")
            found = all_columns(database)
            tables = [table.name for table in all_tables() if "account" in found.get(table.name, {})]
            every = " UNION ".join(f"SELECT account FROM {table} WHERE account IS NOT NULL" for table in tables)
            known = {one for (one,) in database.execute(every).fetchall()} if tables else set()
            if account not in known:
                raise no_account(account, path, known)
            ((name,),) = database.execute("SELECT current_database()").fetchall()
            _copy(database, name, making / "rest.duckdb", _REST)
            for table in tables:
                database.execute(f"DELETE FROM {_REST}.main.{table} WHERE account = ?", [account])
            _copy(database, _REST, new, _NEW)  # as deleted rows stay in the file of the first copy
            database.execute(f"DETACH {_REST}; DETACH {_NEW}")
        if any(file.with_name(f"{file.name}.wal").exists() for file in (path, new)):
            raise export_error(path, "it could not be written anew; is it open in this program, or the disk full?")
    except duckdb.Error as error:
        raise export_error(path, f"{first_line(error)}; nothing has changed in it") from error
    atomic_replace(new, path)


def _copy(database: duckdb.DuckDBPyConnection, name: str, file: Path, copy: str) -> None:
    database.execute(f"ATTACH {quoted(str(file))} AS {copy}; COPY FROM DATABASE {as_name(name)} TO {copy}")
