"""Check an existing DuckDB database before anything is fetched: are its tables ours, and as this version needs them?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

from seorep_async.export.database_file import (
    IN_MAIN,
    LATEST,
    LATEST_COMMENT,
    LATEST_VIEW,
    TYPES,
    Columns,
    as_name,
    names_of,
    shadowing_names,
)
from seorep_async.models import Feed
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import all_tables, table_of

if TYPE_CHECKING:
    import duckdb

_OLDER = (
    "its table {} has the layout of an earlier version, or is another program's; move this one away, and pull its "
    "dates again"
)


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
    if LATEST in names_of(database, "table"):
        yield f"{LATEST} is a table in it, where a view is needed; rename the table"
    if LATEST in views and not _is_our_view(database):
        yield f"its view {LATEST} was not made by a pull; rename the view"


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
        WHERE is_unique AND sql IS NOT NULL AND {IN_MAIN}"""
    for table, index, columns in database.execute(indexes).fetchall():
        if ours.get(table, set()) & set(re.findall(r"\w+", columns.lower())):
            yield f"its unique index {index} on {table} may refuse rows of a pull; run DROP INDEX {as_name(index)}"
    constraints = f"""SELECT lower(table_name), constraint_text, constraint_column_names
        FROM duckdb_constraints() WHERE constraint_type != 'NOT NULL' AND {IN_MAIN}"""
    for table, text, columns in database.execute(constraints).fetchall():
        if ours.get(table, set()) & {*map(str.lower, columns)}:
            remade = f"CREATE TABLE remade AS FROM {table}; DROP TABLE {table}; ALTER TABLE remade RENAME TO {table}"
            problem = f"the constraint {text} of its table {table} may refuse rows of a pull"
            yield f"{problem}; make the table again without it ({remade})"


def _has_pull_of_this_version(database: duckdb.DuckDBPyConnection) -> bool:
    query = "SELECT EXISTS (FROM pulls WHERE version::VARCHAR = ?)"
    ((found,),) = database.execute(query, [version("seorep-async")]).fetchall()
    return bool(found)


def _is_our_view(database: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the view of the newest snapshots is ours, by its comment, or its text without punctuation."""
    query = f"SELECT sql, comment FROM duckdb_views() WHERE lower(view_name) = '{LATEST}' AND {IN_MAIN}"
    ((found, comment),) = database.execute(query).fetchall()
    ours = LATEST_VIEW.replace("OR REPLACE ", "")
    return comment == LATEST_COMMENT or re.findall(r"\w+", found) == re.findall(r"\w+", ours)
