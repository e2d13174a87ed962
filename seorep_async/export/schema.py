"""The tables and views of a database of pulls: how they are made, and why a changed database can't take a pull."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from seorep_async.export.replacement import quoted
from seorep_async.tables.columns import Column, ColumnType, Table
from seorep_async.tables.declared import all_tables

if TYPE_CHECKING:
    import duckdb

_TYPES = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.NUMBER: "DOUBLE",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.DATETIME: "TIMESTAMP",
    ColumnType.TAGS: "STRUCT(id BIGINT, label VARCHAR, extra VARCHAR)[]",
}
AS_OF = "least(end_date, greatest(start_date, snapshot_date))"
"""The day that the ranks of a report speak of: the last day of its window, or its night if that is earlier."""
_REPORT = "account, campaign_id, snapshot_date, start_date, end_date"
COUNTED_REPORTS = f"""SELECT * FROM (SELECT DISTINCT {_REPORT}, {AS_OF} AS as_of FROM keyword_rankings)
    QUALIFY row_number() OVER (PARTITION BY account, campaign_id, as_of
        ORDER BY snapshot_date DESC, start_date, end_date DESC) = 1"""
"""Of the reports of one account, campaign and day, the one that counts: of its latest night, the longest window."""
VIEWS = {
    "keyword_rankings_by_day": f"""SELECT ranked.* FROM (SELECT *, {AS_OF} AS as_of FROM keyword_rankings) AS ranked
        JOIN ({COUNTED_REPORTS}) AS counted USING ({_REPORT}, as_of)""",
    "keyword_rankings_latest": """SELECT * FROM keyword_rankings_by_day SEMI JOIN (
        SELECT account, campaign_id, max(as_of) AS as_of FROM keyword_rankings_by_day GROUP BY ALL
        ) AS newest USING (account, campaign_id, as_of)""",
}
"""Each view's name and query, the second on top of the first."""
COMMENTS = {
    "keyword_rankings_by_day": "The rows of the report that counts, for each campaign and day (as_of) that ranks speak "
    "of: of its latest night, the longest window.",
    "keyword_rankings_latest": "The rows of each campaign's latest day (as_of). A deleted campaign, or one without "
    "keywords, stays with its last rows: pulls and campaigns show which existed when.",
}
_IN_MAIN = "schema_name = 'main' AND database_name = current_database()"
_OLDER = (
    "an earlier version made it; run ALTER TABLE pulls DROP COLUMN key_digest in it, which makes it one of this "
    "version, or move it away and pull its dates again"
)


class FoundColumn(NamedTuple):
    """A column as the database has it."""

    type: str
    comment: str | None
    is_nullable: bool
    has_default: bool


Columns: TypeAlias = dict[str, FoundColumn]


def found_columns(database: duckdb.DuckDBPyConnection) -> dict[str, Columns]:
    """Return each column, by table or view and by name."""
    query = f"""SELECT lower(table_name), lower(column_name), replace(data_type, '"', ''), comment, is_nullable,
        column_default IS NOT NULL FROM duckdb_columns() WHERE {_IN_MAIN}"""
    found: dict[str, Columns] = {}
    for table, name, *facts in database.execute(query).fetchall():
        found.setdefault(table, {})[name] = FoundColumn(*facts)
    return found


def make_tables(database: duckdb.DuckDBPyConnection) -> None:
    """Create the tables that are missing, and the views; add comments that differ."""
    existing = found_columns(database)
    for table in all_tables():
        found = existing.get(table.name, {})
        if not found:
            columns = (f"{_declared(one)}{'' if one.nullable else ' NOT NULL'}" for one in table.columns)
            database.execute(f"CREATE TABLE {table.name} ({', '.join(columns)})")
            database.execute(f"COMMENT ON TABLE {table.name} IS {quoted(table.description)}")
        for one in table.columns:
            if one.name not in found or found[one.name].comment != one.description:
                database.execute(f'COMMENT ON COLUMN {table.name}."{one.name}" IS {quoted(one.description)}')
    for name, query in VIEWS.items():
        database.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")
        database.execute(f"COMMENT ON VIEW {name} IS {quoted(COMMENTS[name])}")


def _declared(column: Column) -> str:
    return f'"{column.name}" {_TYPES.get(column.type, "VARCHAR")}'


def problems(database: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield why the tables of a database can't take a pull, and what to do."""
    existing = found_columns(database)
    views = _comments_of(database, "view")
    if "key_digest" in existing.get("pulls", {}):
        yield _OLDER
    for table in all_tables():
        if table.name in views:
            yield f"{table.name} is a view in it, where a table is needed; rename the view"
        yield from _changes(table, existing.get(table.name, {}))
    if "pulls" not in existing and existing.keys() & {table.name for table in all_tables()}:
        yield "its table pulls, which says whose rows it holds, is missing; put it back"
    yield from _constraints(database)
    tables = _comments_of(database, "table")
    for name in VIEWS:
        if name in tables:
            yield f"{name} is a table in it, where a view is needed; rename the table"
        # each version's comment begins like this
        if name in views and not (views[name] or "").startswith("The rows of "):
            yield f"its view {name} was not made by a pull; rename the view"


def _comments_of(database: duckdb.DuckDBPyConnection, kind: str) -> dict[str, str | None]:
    """Return the tables or the views, with their comments."""
    query = f"SELECT lower({kind}_name), comment FROM duckdb_{kind}s() WHERE {_IN_MAIN}"
    return dict(database.execute(query).fetchall())


def _changes(table: Table, existing: Columns) -> Iterator[str]:
    """Yield what was changed in a table."""
    ours = {column.name for column in table.columns}
    for column in table.columns if existing else ():
        found, needed = existing.get(column.name), _TYPES.get(column.type, "VARCHAR")
        if found is None:
            yield _missing(table, column, needed, {name: existing[name] for name in existing.keys() - ours})
        elif found.type != needed:
            problem = f"column {column.name} is {found.type}, not {needed}"
            yield _changed(table, problem, f"ALTER {column.name} TYPE {needed}")
        elif column.nullable and not found.is_nullable:
            yield _changed(table, f"column {column.name} is NOT NULL", f"ALTER {column.name} DROP NOT NULL")
    for name, found in existing.items():
        if name not in ours and not found.is_nullable and not found.has_default:
            problem = f"column {name}, which pulls don't fill, is NOT NULL and has no default"
            yield _changed(table, problem, f"ALTER {_as_name(name)} DROP NOT NULL")


def _missing(table: Table, column: Column, needed: str, others: Columns) -> str:
    renamed = [name for name, found in others.items() if found.comment == column.description]
    problem = f"column {column.name} is missing"
    if len(renamed) == 1:
        statement = f"RENAME {_as_name(renamed[0])} TO {column.name}"
        return _changed(table, f"{problem}, and {renamed[0]} has its comment", statement)
    return _changed(table, problem, f"ADD COLUMN {column.name} {needed}" if column.nullable else "")


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
            yield f"its unique index {index} on {table} may refuse rows of a pull; run DROP INDEX {_as_name(index)}"
    constraints = f"""SELECT lower(table_name), constraint_text, constraint_column_names
        FROM duckdb_constraints() WHERE constraint_type != 'NOT NULL' AND {_IN_MAIN}"""
    for table, text, columns in database.execute(constraints).fetchall():
        if ours.get(table, set()) & {*map(str.lower, columns)}:
            remade = f"CREATE TABLE remade AS FROM {table}; DROP TABLE {table}; ALTER TABLE remade RENAME TO {table}"
            problem = f"the constraint {text} of its table {table} may refuse rows of a pull"
            yield f"{problem}; make the table again without it ({remade})"


def _as_name(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))
