"""The tables and views of a database of pulls: how they are made, and why a changed database can't take a pull."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from seorep_async.export.replacement import quoted
from seorep_async.tables.columns import ColumnType, Table
from seorep_async.tables.output_tables import all_tables

if TYPE_CHECKING:
    import duckdb

_TYPES = dict.fromkeys(ColumnType, "VARCHAR") | {
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
_RELATIONS = f"""SELECT lower(table_name), 'table', comment FROM duckdb_tables() WHERE {_IN_MAIN}
    UNION ALL SELECT lower(view_name), 'view', comment FROM duckdb_views() WHERE {_IN_MAIN}"""
_COLUMNS = f"""SELECT lower(table_name), lower(column_name), comment, column_default IS NOT NULL,
        replace(data_type, '"', '') || CASE WHEN is_nullable THEN '' ELSE ' NOT NULL' END
    FROM duckdb_columns() WHERE {_IN_MAIN}"""
# even a unique index on a key: some versions of DuckDB refuse to replace a row in one transaction
_RESTRICTIONS = f"""SELECT lower(table_name), 'unique index ' || index_name, lower(coalesce(expressions, sql))
        FROM duckdb_indexes() WHERE is_unique AND sql IS NOT NULL AND {_IN_MAIN}
    UNION ALL SELECT lower(table_name), constraint_text, lower(array_to_string(constraint_column_names, ' '))
        FROM duckdb_constraints() WHERE constraint_type <> 'NOT NULL' AND {_IN_MAIN}"""

Columns: TypeAlias = dict[str, tuple[str | None, bool, str]]
"""By name: the comment, whether there is a default, and the type, with NOT NULL if it is so."""


def found_columns(database: duckdb.DuckDBPyConnection) -> dict[str, Columns]:
    found: dict[str, Columns] = {}
    for table, name, comment, has_default, kind in database.execute(_COLUMNS).fetchall():
        found.setdefault(table, {})[name] = comment, has_default, kind
    return found


_OF_OTHER_FILES = ("not a valid DuckDB database", "Cannot launch in-memory database")
_NEWER = "a newer DuckDB made it; install that version, or name another file"
_OF_OPENING = {
    "onflicting lock": "it is open in another program, or a pull writes it; close it there, and run this again",
    "Could not set lock": "its file system refuses DuckDB's locks; write to a local disk, and move the file",
    "different configuration": "this program has it open already, in another way; close that, and run this again",
    "newer version of DuckDB": _NEWER,
    "newer DuckDB version": _NEWER,
}
"""Words of DuckDB's, and what they mean."""


def why_closed(error: Exception) -> str | None:
    """Return why a database can't be opened, and what to do; None if it may be no database."""
    return next((ours for words, ours in _OF_OPENING.items() if words in str(error)), None)


def first_line(error: Exception) -> str:
    """Return what DuckDB says of a problem, in a line."""
    if any(words in str(error) for words in _OF_OTHER_FILES):
        return "it is no DuckDB database"
    return str(error).partition("\n")[0].rstrip("!")


def make_tables(database: duckdb.DuckDBPyConnection) -> None:
    """Create the tables that are missing, and the views; add comments that differ."""
    existing = found_columns(database)
    for table in all_tables():
        found = existing.get(table.name, {})
        if not found:
            columns = (
                f'"{one.name}" {_TYPES[one.type]}{"" if one.nullable else " NOT NULL"}'
                for one in table.columns
            )
            database.execute(f"CREATE TABLE {table.name} ({', '.join(columns)})")
            database.execute(f"COMMENT ON TABLE {table.name} IS {quoted(table.description)}")
        for one in table.columns:
            if one.name not in found or found[one.name][0] != one.description:
                database.execute(
                    f'COMMENT ON COLUMN {table.name}."{one.name}" IS {quoted(one.description)}'
                )
    for name, query in VIEWS.items():
        database.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")
        database.execute(f"COMMENT ON VIEW {name} IS {quoted(COMMENTS[name])}")


def problems(database: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield why the tables of a database can't take a pull, and what to do."""
    existing, ours = found_columns(database), {table.name: table for table in all_tables()}
    digest = existing.get("pulls", {}).pop("key_digest", None)
    statements = ["ALTER TABLE pulls DROP COLUMN key_digest"] if digest else []
    if "pulls" not in existing and existing.keys() & ours.keys():
        yield "its table pulls, which says whose rows it holds, is missing; put it back"
    for name, kind, comment in database.execute(_RELATIONS).fetchall():
        # each version's comment on a view begins like this
        is_ours = kind == "table" if name in ours else (comment or "").startswith("The rows of ")
        if name in ours.keys() | VIEWS.keys() and not is_ours:
            yield f"its {kind} {name} was not made by a pull; rename the {kind}"
    for name, table in ours.items():
        yield from _changes(table, existing.get(name, {}))
    statements += [
        f'ALTER TABLE {name} ADD COLUMN "{column.name}" {_TYPES[column.type]}'
        for name, found in existing.items()
        for column in (ours[name].columns if name in ours else ())
        if column.name not in found
    ]
    if statements:
        made = "an older version made it, or columns were dropped or renamed"
        mend = f"run {'; '.join(statements)} in it, which makes it one of this version"
        yield f"{made}; {mend}, or move it away and pull its dates again"
    for name, restriction, columns in database.execute(_RESTRICTIONS).fetchall():
        if name in ours and {one.name for one in ours[name].columns}.intersection(
            re.findall(r"\w+", columns)
        ):
            problem = f"the {restriction} of its table {name} may refuse rows of a pull"
            yield f"{problem}; drop it (DROP INDEX), or make the table again without it (CREATE TABLE … AS FROM {name})"


def _changes(table: Table, existing: Columns) -> Iterator[str]:
    """Yield what was changed in the columns of a table, but for columns that can be added, as no key needs them."""
    changed, others = (
        f"its table {table.name} was changed, or is another program's: its column",
        {**existing},
    )
    for column in table.columns if existing else ():
        needed = _TYPES[column.type]
        _, _, kind = others.pop(
            column.name, (None, False, "missing" if column.name in table.key else needed)
        )
        if kind != needed and (column.nullable or kind != f"{needed} NOT NULL"):
            yield f"{changed} {column.name} is {kind}, not {needed}; change it back (ALTER TABLE {table.name} …)"
    for name, (_, has_default, kind) in others.items():
        if name == "as_of":
            yield f"{changed} as_of has the name of a view's column; rename it"
        if kind.endswith(" NOT NULL") and not has_default:
            yield f"{changed} {name}, which pulls don't fill, is NOT NULL; allow null, or give it a default"
