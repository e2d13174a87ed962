"""A DuckDB database of pulls: its tables and their view, how it is opened, and whether it can take a pull."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from seorep_async.export.views import COMMENTS, VIEWS
from seorep_async.models import Feed
from seorep_async.old_export.atomic_replace import export_error
from seorep_async.tables.columns import Column, ColumnType, Table
from seorep_async.tables.declared import all_tables, table_of
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb


class FoundColumn(NamedTuple):
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
_OLDER_COMMENT = (
    "The rows of each campaign on the newest night that has any. A deleted campaign, or one without "
    "keywords, stays with its last rows: pulls and campaigns show which existed when."
)
_IN_MAIN = "schema_name = 'main' AND database_name = current_database()"
_OLDER = (
    "its table {} has the layout of an earlier version, or is another program's; move this one away, and pull its "
    "dates again"
)
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
            "different configuration": _OPEN_HERE,
        }
        problem = next((problem for said, problem in words.items() if said in str(error)), None)
        if problem is None:
            raise
        raise export_error(path, problem, "write" if to_read is None else "read") from error
    with database:
        yield database


def all_columns(database: duckdb.DuckDBPyConnection) -> dict[str, Columns]:
    """Return each column, by table or view and by name."""
    query = f"""SELECT lower(table_name), lower(column_name), replace(data_type, '"', ''), comment, is_nullable,
        column_default IS NOT NULL FROM duckdb_columns() WHERE {_IN_MAIN}"""
    found: dict[str, Columns] = {}
    for table, name, *facts in database.execute(query).fetchall():
        found.setdefault(table, {})[name] = FoundColumn(*facts)
    return found


def names_of(database: duckdb.DuckDBPyConnection, kind: str) -> set[str]:
    query = f"SELECT lower({kind}_name) FROM duckdb_{kind}s() WHERE {_IN_MAIN}"
    return {name for (name,) in database.execute(query).fetchall()}


def shadowing_names(database: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield its macros in place of DuckDB's functions, its views in place of our tables, and accounts that mix."""
    # a macro can be in place of any function that is called without its schema, and an operator
    query = "SELECT internal, schema_name, function_type, function_name FROM system.main.duckdb_functions()"
    functions = database.execute(query).fetchall()
    own = {name.lower() for internal, *_, name in functions if internal}
    for internal, schema, kind, name in functions:
        if not internal and schema == "main" and name.lower() in own:
            drop = "DROP MACRO TABLE" if kind == "table_macro" else "DROP MACRO"
            yield f"its macro {name} hides a function of DuckDB's; run {drop} {as_name(name)}"
    views = names_of(database, "view")
    query = f"""SELECT lower(table_name) FROM system.main.duckdb_tables()
        WHERE {_IN_MAIN} AND regexp_matches(sql, '[(, ]"?account"? VARCHAR COLLATE', 'i')"""
    collated = {name for (name,) in database.execute(query).fetchall()}
    for table in all_tables():
        if table.name in views:
            yield f"{table.name} is a view in it, where a table is needed; rename the view"
        if table.name in collated:
            mend = f"run ALTER TABLE {table.name} ALTER account TYPE VARCHAR"
            yield f"its table {table.name} takes other accounts for the same, by a COLLATE on account; {mend}"


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
    return "'" + text.replace("'", "''") + "'"


def as_name(name: str) -> str:
    """Return a name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def problems(database: duckdb.DuckDBPyConnection, existing: dict[str, Columns]) -> Iterator[str]:
    """Yield why the tables of a database can't take a pull, and what to do."""
    yield from shadowing_names(database)
    views, ours = names_of(database, "view"), {table.name for table in all_tables()}
    # a column may be missing in a table of an earlier version only
    is_current = "version" in existing.get("pulls", {}) and _has_pull_of_this_version(database)
    for table in all_tables():
        yield from _changes(table, existing.get(table.name, {}), is_current)
    if "pulls" not in existing and existing.keys() & ours:
        yield "its table pulls, which says whose rows it holds, is missing; put it back"
    yield from _constraints(database)
    for feed in Feed:
        name, columns = feed.value.replace("-", "_"), {column.name for column in table_of(feed).columns}
        if columns - set(existing.get(name, ())) == {"account", "snapshot_date"}:
            yield _OLDER.format(name)
    for view in VIEWS:
        if view in names_of(database, "table"):
            yield f"{view} is a table in it, where a view is needed; rename the table"
        if view in views and not _is_our_view(database, view):
            yield f"its view {view} was not made by a pull; rename the view"


def _changes(table: Table, existing: Columns, is_current: bool) -> Iterator[str]:
    """Yield columns that were changed; one that an earlier version lacked will be added."""
    ours = {column.name for column in table.columns}
    for column in table.columns if existing else ():
        found, needed = existing.get(column.name), TYPES[column.type]
        if found is None:
            renamed = [name for name in existing.keys() - ours if existing[name].comment == column.description]
            problem = f"column {column.name} is missing"
            if len(renamed) == 1:
                statement = f"RENAME {as_name(renamed[0])} TO {column.name}"
                yield _changed(table, f"{problem}, and {renamed[0]} has its comment", statement)
            elif is_current:
                yield _changed(table, problem, f"ADD COLUMN {column.name} {needed}" if column.nullable else "")
            elif not column.nullable or column.name in table.key:
                yield _OLDER.format(table.name)
        elif found.type != needed:
            problem = f"column {column.name} is {found.type}, not {needed}"
            yield _changed(table, problem, f"ALTER {column.name} TYPE {needed}")
        elif column.nullable and not found.is_nullable:
            yield _changed(table, f"column {column.name} is NOT NULL", f"ALTER {column.name} DROP NOT NULL")
    for name, found in existing.items():
        if name not in ours and not found.is_nullable and not found.has_default:
            problem = f"column {name}, which pulls don't fill, is NOT NULL and has no default"
            yield _changed(table, problem, f"ALTER {as_name(name)} DROP NOT NULL")


def _changed(table: Table, problem: str, statement: str) -> str:
    mend = f". Run ALTER TABLE {table.name} {statement} there" if statement else "; put it back"
    return f"its table {table.name} was changed, or is another program's: its {problem}{mend}"


def _constraints(database: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield unique indexes and constraints on columns of ours, even on a key.

    Some versions of DuckDB refuse to replace a row in one transaction.
    """
    ours = {table.name: {column.name for column in table.columns} for table in all_tables()}
    indexes = f"""SELECT lower(table_name), index_name, coalesce(expressions, sql) FROM duckdb_indexes()
        WHERE is_unique AND sql IS NOT NULL AND {_IN_MAIN}"""
    for table, index, columns in database.execute(indexes).fetchall():
        if ours.get(table, set()) & set(re.findall(r"\w+", columns.lower())):
            yield f"its unique index {index} on {table} may refuse rows of a pull; run DROP INDEX {as_name(index)}"
    constraints = f"""SELECT lower(table_name), constraint_text, constraint_column_names
        FROM duckdb_constraints() WHERE constraint_type != 'NOT NULL' AND {_IN_MAIN}"""
    for table, text, columns in database.execute(constraints).fetchall():
        if ours.get(table, set()) & {*map(str.lower, columns)}:
            remade = f"CREATE TABLE remade AS FROM {table}; DROP TABLE {table}; ALTER TABLE remade RENAME TO {table}"
            problem = f"the constraint {text} of its table {table} may refuse rows of a pull"
            yield f"{problem}; make the table again without it ({remade})"


def _has_pull_of_this_version(database: duckdb.DuckDBPyConnection) -> bool:
    query = "SELECT EXISTS (FROM pulls WHERE version::VARCHAR = ?)"
    ((found,),) = database.execute(query, [version("seorep-async")]).fetchall()
    return bool(found)


def _is_our_view(database: duckdb.DuckDBPyConnection, view: str) -> bool:
    """Return whether a view is ours, by its comment."""
    query = f"SELECT comment FROM duckdb_views() WHERE lower(view_name) = '{view}' AND {_IN_MAIN}"
    ((comment,),) = database.execute(query).fetchall()
    return comment in (COMMENTS[view], _OLDER_COMMENT)
