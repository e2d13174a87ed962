"""The finished target as a DuckDB database: every table, filled in one transaction, beside the nights before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from seorep_async.export.atomic_replace import atomic_replace, export_error, translate_errors
from seorep_async.export.contents import Contents
from seorep_async.export.existing_database import (
    LATEST,
    LATEST_COMMENT,
    LATEST_VIEW,
    TYPES,
    Columns,
    all_columns,
    connected,
    first_line,
)
from seorep_async.export.replacement import LATEST_TABLES, Replacement, quoted, same_key
from seorep_async.export.staging_area import write_lock
from seorep_async.tables.columns import Column, Table
from seorep_async.tables.declared import all_tables
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb


def write_database(contents: Contents, check: Callable[[], None]) -> list[Path]:
    """Put a pull into the database, all or nothing, and return its path; an exception of `check` ends the writing.

    `replacement` chooses the older rows to delete. A new database appears in one step.
    """
    path = contents.area.target.path
    with write_lock(contents.area.target, check):
        _write(path, contents, check)
    return [path]


def _write(path: Path, contents: Contents, check: Callable[[], None]) -> None:
    if path.exists():
        _fill(path, contents, check)
        return
    file = contents.area.making / "rows.duckdb"
    _fill(file, contents, check)
    if file.with_name(f"{file.name}.wal").exists():
        raise export_error(path, "the database could not be completed; is the disk full?")
    atomic_replace(file, path)


def _fill(file: Path, contents: Contents, check: Callable[[], None]) -> None:
    duckdb, area = require("duckdb"), contents.area
    path = area.target.path
    try:
        with translate_errors(path), connected(file, path) as database:
            database.execute(f"SET temp_directory = {quoted(str(area.making / 'overflow'))}")
            database.execute("SET enable_progress_bar = false")
            database.execute("BEGIN")
            existing = all_columns(database)
            for table in all_tables():
                _make_table(database, table, existing.get(table.name, {}))
            database.execute(LATEST_VIEW)
            database.execute(f"COMMENT ON VIEW {LATEST} IS {quoted(LATEST_COMMENT)}")
            replacement = Replacement(area.job, contents.outcomes)
            replacement.register_relations(database)
            for table in area.target.tables():
                _delete(database, replacement, table, replacement.covered(table))
                for chunk in contents.chunks(table):
                    check()
                    database.register("arriving", chunk)
                    _delete(database, replacement, table, replacement.outdated(table))
                    _insert(database, table)
            database.execute("COMMIT")
            if file != path:
                database.execute("CHECKPOINT")  # closing would do it too, but hide an error
    except duckdb.Error as error:
        raise export_error(path, f"{first_line(error)}; nothing has changed in it") from error


def _delete(database: duckdb.DuckDBPyConnection, replacement: Replacement, table: Table, condition: str | None) -> None:
    if condition is not None:
        account = quoted(replacement.job.account)
        database.execute(f"DELETE FROM {table.name} r WHERE r.account = {account} AND ({condition})")


def _insert(database: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Insert the rows that arrive, except of campaigns and keywords that have a row of a later night."""
    rows = "SELECT * FROM arriving"
    if table in LATEST_TABLES:
        # threads that join give rows in any order
        numbered = "(SELECT *, row_number() OVER () AS position FROM arriving) n"
        later = f"SELECT 1 FROM {table.name} r WHERE {same_key(table)}"
        rows = f"SELECT n.* EXCLUDE (position) FROM {numbered} WHERE NOT EXISTS ({later}) ORDER BY position"
    database.execute(f"INSERT INTO {table.name} BY NAME {rows}")


def _make_table(database: duckdb.DuckDBPyConnection, table: Table, existing: Columns) -> None:
    if not existing:
        columns = ", ".join(f"{_declared(column)}{'' if column.nullable else ' NOT NULL'}" for column in table.columns)
        database.execute(f"CREATE TABLE {table.name} ({columns})")
        database.execute(f"COMMENT ON TABLE {table.name} IS {quoted(table.description)}")
    for column in table.columns:
        if existing and column.name not in existing:  # a later version knows more
            database.execute(f"ALTER TABLE {table.name} ADD COLUMN {_declared(column)}")
        if existing.get(column.name, ("", None))[1] != column.description:
            comment = quoted(column.description)
            database.execute(f'COMMENT ON COLUMN {table.name}."{column.name}" IS {comment}')


def _declared(column: Column) -> str:
    return f'"{column.name}" {TYPES[column.type]}'
