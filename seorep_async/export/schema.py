"""The tables and views of a database of pulls, and the reasons to refuse a database.

A night is the snapshot date of an account's pull. `history` reads the same database, so it uses the
checks and the views of this file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from seorep_async.export.replacement import quoted
from seorep_async.models import Feed
from seorep_async.tables.columns import Column, ColumnType, Table
from seorep_async.tables.output_tables import all_tables, table_of

if TYPE_CHECKING:
    import duckdb

_TYPES = {
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
"""The type in the database for each type of column."""
AS_OF = "least(end_date, greatest(start_date, snapshot_date))"
"""The ranking day of a report. It is the last day of its window, or its night if that is
earlier.
"""

COUNTED_REPORTS = f"""
    SELECT * FROM (
        SELECT DISTINCT account, campaign_id, snapshot_date, start_date, end_date, {AS_OF} AS as_of
        FROM keyword_rankings
    )
    QUALIFY row_number() OVER (
        PARTITION BY account, campaign_id, as_of
        ORDER BY snapshot_date DESC, start_date, end_date DESC
    ) = 1
"""
"""The report that counts for each account, campaign and ranking day. It is the latest night's.
Among several of that night, it is the one with the longest window.
"""

VIEWS = {
    "keyword_rankings_by_day": f"""
        SELECT ranked.*
        FROM (SELECT *, {AS_OF} AS as_of FROM keyword_rankings) AS ranked
        JOIN ({COUNTED_REPORTS}) AS counted
            USING (account, campaign_id, snapshot_date, start_date, end_date, as_of)
    """,
    "keyword_rankings_latest": """
        SELECT * FROM keyword_rankings_by_day
        SEMI JOIN (
            SELECT account, campaign_id, max(as_of) AS as_of
            FROM keyword_rankings_by_day
            GROUP BY ALL
        ) AS newest USING (account, campaign_id, as_of)
    """,
}
"""The name and the query of each view. The second view reads the first."""

COMMENTS = {
    "keyword_rankings_by_day": (
        "The rows of the report that counts for each campaign and ranking day (as_of): the latest "
        "night's report with the longest window."
    ),
    "keyword_rankings_latest": (
        "The rows of each campaign's latest day (as_of). A campaign that was deleted, or has no "
        "keywords any more, keeps its last rows; the tables pulls and campaigns show which "
        "campaigns existed on each night."
    ),
}
"""The comment of each view."""
_AS_OF_DESCRIPTION = (
    "Ranking day of the row: end_date, or snapshot_date if that is earlier, but not before "
    "start_date."
)
_START_OF_OUR_COMMENTS = "The rows of "
"""The comments on views begin like this in every version."""

_RELATIONS = """
    SELECT lower(table_name), 'table', comment
    FROM duckdb_tables()
    WHERE schema_name = 'main' AND database_name = current_database()
    UNION ALL
    SELECT lower(view_name), 'view', comment
    FROM duckdb_views()
    WHERE schema_name = 'main' AND database_name = current_database()
"""
"""The name, the kind and the comment of each table and view."""
_COLUMNS = """
    SELECT
        lower(table_name),
        lower(column_name),
        comment,
        replace(data_type, '"', '') || CASE
            WHEN is_nullable THEN ''
            WHEN column_default IS NULL THEN ' NOT NULL'
            ELSE ' NOT NULL, with a default'
        END
    FROM duckdb_columns()
    WHERE schema_name = 'main' AND database_name = current_database()
"""
"""The table, the name, the comment and the type of each column."""
_EQUAL_VIEWS = """
    WITH views AS (
        SELECT
            view_name,
            comment,
            -- depending on the format of the file, DuckDB puts a join into parentheses
            translate(replace(sql, 'CREATE TEMP VIEW', 'CREATE VIEW'), '()', '') AS definition,
            (
                SELECT list((column_name, data_type) ORDER BY column_index)
                FROM duckdb_columns() AS columns
                WHERE columns.database_oid = views.database_oid AND table_oid = view_oid
            ) AS columns
        FROM duckdb_views() AS views
        WHERE schema_name = 'main' AND (temporary OR database_name = current_database())
    )
    SELECT view_name, max(comment)
    FROM views
    GROUP BY view_name, definition, columns
    HAVING count(*) = 2
"""
"""The stored views that are equal to temporary views of the same name, and their comments.

A view that DuckDB 1.4 stored before a column was added to its table raises an error when it is
read. Its columns differ from those of the temporary view, so it is created again.
"""
_PATH = "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"

ColumnsByName: TypeAlias = dict[str, tuple[str | None, str]]
"""The columns of a table. Each name has a comment, and a type with any NOT NULL."""


def found_columns(database: duckdb.DuckDBPyConnection) -> dict[str, ColumnsByName]:
    """Return the columns of every table and view of a database, by the name of the table."""
    tables: dict[str, ColumnsByName] = {}
    for table_name, name, comment, type_name in database.execute(_COLUMNS).fetchall():
        tables.setdefault(table_name, {})[name] = (comment, type_name)
    return tables


_NEWER = "a newer DuckDB made it; install that version, or name another file"
_ANOTHER_PROGRAM = "another program"
_IN_ANOTHER_PROGRAM = (
    f"it is open in {_ANOTHER_PROGRAM}, or a pull is writing it; close it there, and run this again"
)
THIS_PROGRAM = "this program"
_IN_THIS_PROGRAM = (
    f"{THIS_PROGRAM} has it open already; close that connection (in a notebook, a cell that ends "
    "in a query keeps a connection open: restart the kernel), and run this again"
)
DAMAGED = "it is damaged; restore a backup"
_MEANINGS = {
    "onflicting lock": _IN_ANOTHER_PROGRAM,  # Linux and macOS; with a capital C or without
    "File is already open in": _IN_ANOTHER_PROGRAM,  # Windows, in any language
    "used by another process": _IN_ANOTHER_PROGRAM,  # Windows, where it can't name the process
    "different configuration": _IN_THIS_PROGRAM,
    "Unique file handle conflict": _IN_THIS_PROGRAM,  # attached to another connection
    "Could not set lock": (
        "its file system refuses DuckDB's locks; write to a local disk, and move the file"
    ),
    "Could not read enough bytes": DAMAGED,  # the file was cut off
    "Corrupt database file": DAMAGED,
    "Corrupt WAL file": DAMAGED,  # the log of an interrupted program
    "newer version of DuckDB": _NEWER,
    "newer DuckDB version": _NEWER,
}
"""The meaning of words in DuckDB's messages, and what to do about it."""
CHARACTERS_NOT_FOR_DUCKDB = set("?\\") if os.sep == "/" else set()
"""The characters that DuckDB can't handle in a path."""
PATH_NOT_FOR_DUCKDB = r"DuckDB takes no path with a ? or a \ in it"
_WORDS_FOR_NO_DATABASE = ("not a valid DuckDB database", "Cannot launch in-memory database")
NO_DATABASE = "it is not a DuckDB database"
_TABLE_NAMES = """
    SELECT format('"{}"."{}"', schema_name, table_name)
    FROM duckdb_tables()
    WHERE database_name = current_database() AND NOT temporary
        -- DuckDB 1.4 can look into no table with a quotation mark in its name
        AND NOT contains(schema_name || table_name, '"')
"""
_LAST_BLOCK = "SELECT max(block_id) FROM pragma_storage_info(?)"
"""The number of the last block that contains rows of a table."""
_BLOCKS = """
    SELECT block_size, used_blocks
    FROM pragma_database_size()
    WHERE database_name = current_database()
"""
"""The size of a block, and the number of blocks in use."""
_HEADERS_SIZE = 3 * 4096
"""The bytes before the first block of a database file."""
_MAGIC_AT = 8
_MAGIC = b"DUCK"
"""The bytes that follow the checksum at the beginning of each database file."""


def may_be_database(file: Path) -> bool:
    """Return whether a file begins like a DuckDB database.

    DuckDB opens other files as well. For an SQLite database, it would download an extension, and
    write to the file.
    """
    try:
        with file.open("rb") as opened:
            opened.seek(_MAGIC_AT)
            return opened.read(len(_MAGIC)) == _MAGIC
    except OSError:
        # On Windows, an open database can't be read. DuckDB's own error will give the reason.
        return True


def why_not_opened(error: Exception) -> str | None:
    """Return why a database can't be opened, and what to do. Return None for unknown errors."""
    meaning = _meaning_of(error)
    if meaning == _IN_ANOTHER_PROGRAM:
        # "another program" becomes "another program (process 123)", if DuckDB names the process
        return meaning.replace(_ANOTHER_PROGRAM, f"{_ANOTHER_PROGRAM}{_process_of(error)}")
    return meaning


def holder_of(error: Exception) -> str | None:
    """Return which program has a database open, or None if opening failed for another reason."""
    meaning = _meaning_of(error)
    if meaning == _IN_ANOTHER_PROGRAM:
        return f"{_ANOTHER_PROGRAM}{_process_of(error)}"
    if meaning == _IN_THIS_PROGRAM:
        return THIS_PROGRAM
    return None


def is_damaged(error: Exception) -> bool:
    """Return whether DuckDB's error says that the database is damaged."""
    return _meaning_of(error) == DAMAGED


def is_cut_off(database: duckdb.DuckDBPyConnection, file: Path) -> bool:
    """Return whether the file of an open database is too short for its blocks in use.

    DuckDB notices a missing end only when it reads rows there. In a file with free blocks, some
    blocks in use may be missing although the file is long enough; `lacks_rows` finds that.
    """
    ((block_size, blocks_in_use),) = database.execute(_BLOCKS).fetchall()
    return _is_shorter(file, blocks_in_use * block_size)


def lacks_rows(database: duckdb.DuckDBPyConnection, file: Path) -> bool:
    """Return whether the file of an open database ends before the rows of a table.

    This takes about a second for a few million rows.
    """
    last_blocks = [0]
    for (name,) in database.execute(_TABLE_NAMES).fetchall():
        ((block,),) = database.execute(_LAST_BLOCK, [name]).fetchall()
        last_blocks.append(block or 0)
    ((block_size, _),) = database.execute(_BLOCKS).fetchall()
    # blocks are numbered from 0
    return _is_shorter(file, (1 + max(last_blocks)) * block_size)


def _is_shorter(file: Path, size_of_blocks: int) -> bool:
    return file.stat().st_size < _HEADERS_SIZE + size_of_blocks


def _meaning_of(error: Exception) -> str | None:
    """Return what DuckDB's message means for the user, or None if it is unknown."""
    message = str(error)
    for words, meaning in _MEANINGS.items():
        if words in message:
            return meaning
    return None


def _process_of(error: Exception) -> str:
    """Return words that name the process with the database open, if DuckDB names it."""
    process = re.search(r"\(PID (\d+)\)", str(error))
    return "" if process is None else f" (process {process[1]})"


def reason_in_one_line(error: Exception) -> str:
    """Return DuckDB's description of a problem as one line."""
    message = str(error)
    if any(words in message for words in _WORDS_FOR_NO_DATABASE):
        return NO_DATABASE
    # DuckDB ends some messages with an exclamation mark
    return message.partition("\n")[0].rstrip("!")


def make_tables(database: duckdb.DuckDBPyConnection) -> None:
    """Create missing tables and views, and update views and comments that differ."""
    existing = found_columns(database)
    unchanged_views = set()
    # The comparison creates the views anew, which fails without their table. After somebody has
    # dropped that table, the stored views are still there.
    if {"keyword_rankings", *VIEWS} <= existing.keys():
        unchanged_views = _unchanged_views(database)
    # all at once, because a hundred single statements take one and a half times as long
    database.execute("; ".join(_definitions(existing, unchanged_views)))


def _unchanged_views(database: duckdb.DuckDBPyConnection) -> set[str]:
    """Return the views that another pull stored with the query and comment of this version."""
    # DuckDB stores its own wording of a query. Temporary views show its wording of ours.
    for name, query in VIEWS.items():
        database.execute(f"CREATE TEMP VIEW {name} AS {query}")
    equal_views = database.execute(_EQUAL_VIEWS).fetchall()
    for name in VIEWS:
        # a user's schema may also be called temp
        database.execute(f"DROP VIEW temp.main.{name}")
    return {name for name, comment in equal_views if comment == COMMENTS[name]}


def _definitions(existing: dict[str, ColumnsByName], unchanged_views: set[str]) -> Iterator[str]:
    """Yield the statements that define tables, views and their comments.

    `existing` has the columns of each table and view, with their comments.
    """
    for table in all_tables():
        existing_columns = existing.get(table.name, {})
        if not existing_columns:
            yield f"CREATE TABLE {table.name} ({', '.join(map(_definition, table.columns))})"
            yield _comment("TABLE", table.name, table.description)
        yield from _column_comments(table.name, _descriptions(table), existing_columns)
    # each view has the columns of this table, and as_of
    descriptions = {**_descriptions(table_of(Feed.CAMPAIGN)), "as_of": _AS_OF_DESCRIPTION}
    for name, query in VIEWS.items():
        existing_columns = existing.get(name, {})
        if name not in unchanged_views:
            # replacing a view drops the comments of its columns, so all are written again
            existing_columns = {}
            yield f"CREATE OR REPLACE VIEW {name} AS {query}"
            yield _comment("VIEW", name, COMMENTS[name])
        # a view does not inherit the comments of its table
        yield from _column_comments(name, descriptions, existing_columns)


def _descriptions(table: Table) -> dict[str, str]:
    return {column.name: column.description for column in table.columns}


def _column_comments(
    table_name: str, descriptions: dict[str, str], existing_columns: ColumnsByName
) -> Iterator[str]:
    """Yield the statements that set the comments of columns, except where they are equal."""
    for column_name, description in descriptions.items():
        # a new column has no comment yet
        comment, _ = existing_columns.get(column_name, (None, None))
        # each COMMENT writes to the database
        if comment != description:
            yield _comment("COLUMN", f"{table_name}.{column_name}", description)


def _comment(kind: str, name: str, text: str) -> str:
    """Return the statement that sets the comment of a table, a view or a column."""
    return f"COMMENT ON {kind} {name} IS {quoted(text)}"


def _definition(column: Column) -> str:
    null = "" if column.nullable else " NOT NULL"
    return f"{column.name} {_TYPES[column.type]}{null}"


def problems(database: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield the reasons why a database can't accept a pull, and what to do."""
    existing = found_columns(database)
    tables = {table.name: table for table in all_tables()}
    if "pulls" not in existing and existing.keys() & tables.keys():
        problem = "its table pulls is missing"
        yield f"{problem}; only that table lists the accounts, so restore it"
    if "as_of" in existing.get("keyword_rankings", {}):
        yield (
            "its table keyword_rankings has a column as_of, but only the views may have one; "
            "rename yours"
        )
    for name, kind, comment in database.execute(_RELATIONS).fetchall():
        if not _is_ours_or_unrelated(name, kind, comment or ""):
            yield f"its {kind} {name} was not made by a pull; rename the {kind}"
    for name in tables.keys() & existing.keys():
        yield from _changed_columns(tables[name], existing[name])
    # columns that an upgrade can add
    statements = list(_missing_columns(existing))
    if statements:
        ((path,),) = database.execute(_PATH).fetchall()
        reason = "an older version made it, or columns were dropped or renamed"
        script = f"duckdb.connect({path!r}).execute({'; '.join(statements)!r})"
        advice = f"to upgrade it to this version, run in Python: import duckdb; {script}"
        yield f"{reason}; {advice} (or move it away, and pull its dates again)"


def _is_ours_or_unrelated(name: str, kind: str, comment: str) -> bool:
    """Return whether a table or view is ours, or does not have a name of ours."""
    if name in {table.name for table in all_tables()}:
        return kind == "table"
    # `CREATE OR REPLACE VIEW` would overwrite somebody else's view
    return name not in VIEWS or comment.startswith(_START_OF_OUR_COMMENTS)


def _missing_columns(existing: dict[str, ColumnsByName]) -> Iterator[str]:
    """Yield the statements that bring the tables of an older version up to date."""
    for table in all_tables():
        existing_columns = existing.get(table.name)
        if existing_columns is None:
            continue
        for column in table.columns:
            if column.name not in existing_columns and column.name not in table.key:
                yield f"ALTER TABLE {table.name} ADD COLUMN {column.name} {_TYPES[column.type]}"


def _changed_columns(table: Table, existing: ColumnsByName) -> Iterator[str]:
    """Yield the changes that somebody made to the columns of a table.

    A missing column is a change only if it is part of the key. `_missing_columns` adds the others.
    """
    changed = f"its table {table.name} was changed, or is another program's: its column"
    restore = f"change it back (ALTER TABLE {table.name} …)"
    own_names = existing.keys() - {column.name for column in table.columns}
    for name in sorted(own_names):
        _, type_name = existing[name]
        # a pull has no value for somebody's own column, so that column must allow NULL
        if type_name.endswith("NOT NULL"):
            yield f"{changed} {name} is {type_name}, without a default; allow NULL in it"
    for column in table.columns:
        needed = _TYPES[column.type]
        if column.name in existing:
            _, type_name = existing[column.name]
        elif column.name in table.key:
            type_name = "missing"
        else:
            continue
        # a column of ours that is never null may also be declared NOT NULL
        is_not_null = not column.nullable and type_name.startswith(f"{needed} NOT NULL")
        if type_name != needed and not is_not_null:
            yield f"{changed} {column.name} is {type_name}, not {needed}; {restore}"
