"""A DuckDB database of pulls: its tables and their view, how it is opened, and what it has."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from seorep_async.export.atomic_replace import export_error
from seorep_async.tables.columns import Column, ColumnType, Table
from seorep_async.tables.declared import all_tables
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb


class FoundColumn(NamedTuple):
    """A column in a database."""

    type: str
    comment: str | None
    is_nullable: bool
    has_default: bool


Columns: TypeAlias = dict[str, FoundColumn]

TYPES = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.NUMBER: "DOUBLE",
    ColumnType.STRING: "VARCHAR",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.DATETIME: "TIMESTAMP",
    ColumnType.TAGS: "STRUCT(id BIGINT, label VARCHAR, extra VARCHAR)[]",
    ColumnType.FIELDS: "VARCHAR",
    ColumnType.ANY: "VARCHAR",
}
LATEST = "keyword_rankings_latest"
LATEST_VIEW = f"""CREATE OR REPLACE VIEW {LATEST} AS SELECT * FROM keyword_rankings
    QUALIFY rank() OVER (PARTITION BY account, campaign_id ORDER BY snapshot_date DESC, end_date DESC, start_date) = 1
"""
LATEST_COMMENT = (
    "The rows of each campaign on the newest night that has any. A deleted campaign, or one without "
    "keywords, stays with its last rows: pulls and campaigns show which existed when."
)
IN_MAIN = "schema_name = 'main' AND database_name = current_database()"
_NO_LOCKS = "its file system refuses the locks that DuckDB needs; write to another disk, or a dataset (ending in /)"
_OPEN_ELSEWHERE = "it is open in another program; close it there, and run this again"
_BEING_WRITTEN = "a pull is writing it, or it is open in another program; run this again when that has ended"
_OPEN_HERE = "this program has it open already, read-only or with settings; close that connection, and run this again"


@contextlib.contextmanager
def connected(
    file: Path, path: Path, *, to_read: Mapping[str, str] | None = None
) -> Generator[duckdb.DuckDBPyConnection, None, None]:
    """Open a database; errors name the target, and ExportError reports one that is open elsewhere.

    `to_read` opens it only to read, with these settings.
    """
    duckdb = require("duckdb")
    try:
        database = duckdb.connect(str(file), read_only=to_read is not None, config=dict(to_read or {}))
    except duckdb.Error as error:
        words = {
            "onflicting lock": _OPEN_ELSEWHERE if to_read is None else _BEING_WRITTEN,
            "Could not set lock": _NO_LOCKS,
        }
        words |= {"different configuration": _OPEN_HERE}
        problem = next((problem for said, problem in words.items() if said in str(error)), None)
        if problem is None:
            raise
        raise export_error(path, problem, "write" if to_read is None else "read") from error
    with database:
        yield database


def all_columns(database: duckdb.DuckDBPyConnection) -> dict[str, Columns]:
    """Return each column, by table or view and by name."""
    query = f"""SELECT lower(table_name), lower(column_name), replace(data_type, '"', ''), comment, is_nullable,
        column_default IS NOT NULL FROM duckdb_columns() WHERE {IN_MAIN}"""
    found: dict[str, Columns] = {}
    for table, name, *facts in database.execute(query).fetchall():
        found.setdefault(table, {})[name] = FoundColumn(*facts)
    return found


def names_of(database: duckdb.DuckDBPyConnection, kind: str) -> set[str]:
    """Return the names of its tables, or of its views."""
    query = f"SELECT lower({kind}_name) FROM duckdb_{kind}s() WHERE {IN_MAIN}"
    return {name for (name,) in database.execute(query).fetchall()}


def shadowing_names(database: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield its macros in place of DuckDB's functions, and its views in place of our tables, and what to do."""
    # a macro can be in place of any function that is called without its schema, and an operator
    query = "SELECT internal, schema_name, function_type, function_name FROM system.main.duckdb_functions()"
    functions = database.execute(query).fetchall()
    own = {name.lower() for internal, *_, name in functions if internal}
    for internal, schema, kind, name in functions:
        if not internal and schema == "main" and name.lower() in own:
            drop = "DROP MACRO TABLE" if kind == "table_macro" else "DROP MACRO"
            yield f"its macro {name} hides a function of DuckDB's; run {drop} {as_name(name)}"
    views = names_of(database, "view")
    for table in all_tables():
        if table.name in views:
            yield f"{table.name} is a view in it, where a table is needed; rename the view"


def make_table(database: duckdb.DuckDBPyConnection, table: Table, existing: Columns) -> None:
    """Create a table, or add what an existing one lacks: columns that a later version knows, and comments."""
    if not existing:
        columns = ", ".join(f"{_declared(column)}{'' if column.nullable else ' NOT NULL'}" for column in table.columns)
        database.execute(f"CREATE TABLE {table.name} ({columns})")
        database.execute(f"COMMENT ON TABLE {table.name} IS {quoted(table.description)}")
    for column in table.columns:
        if existing and column.name not in existing:
            database.execute(f"ALTER TABLE {table.name} ADD COLUMN {_declared(column)}")
        if existing.get(column.name, ("", None))[1] != column.description:
            comment = quoted(column.description)
            database.execute(f'COMMENT ON COLUMN {table.name}."{column.name}" IS {comment}')


def _declared(column: Column) -> str:
    return f'"{column.name}" {TYPES[column.type]}'


def quoted(text: str) -> str:
    """Return a string quoted for SQL."""
    return "'" + text.replace("'", "''") + "'"


def as_name(name: str) -> str:
    """Return a name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def first_line(error: Exception) -> str:
    """Return the first line of an error of DuckDB's."""
    return str(error).partition("\n")[0]
