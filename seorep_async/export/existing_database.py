"""Check an existing DuckDB database before anything is fetched: are its tables ours, and as this version needs them?"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from seorep_async.errors import ConfigurationError
from seorep_async.export.atomic_replace import export_error
from seorep_async.export.job import ExportJob
from seorep_async.export.staging_area import write_lock
from seorep_async.export.target import Target
from seorep_async.models import Feed
from seorep_async.tables.columns import Column, ColumnType, Table
from seorep_async.tables.declared import all_tables, table_of, totals_table
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
_OLDER_NAMES = {
    Feed.CAMPAIGN: "campaign",
    Feed.CAMPAIGN_BY_DATE: "campaign_by_date",
    Feed.KEYWORD_BY_DATE: "keyword_by_date",
}
_IN_MAIN = "schema_name = 'main' AND database_name = current_database()"


def check_database(target: Target, job: ExportJob, check: Callable[[], None]) -> None:
    """Check before any request that an existing database can be written, and that no two accounts mix in it.

    ConfigurationError: it is no database of DuckDB's, has something else under a table's name, or has rows of another
    service or key under the account's name. ExportError: it is open elsewhere.
    """
    if not target.path.exists():
        return
    duckdb = require("duckdb")
    try:
        with write_lock(target, check), connected(target.path, target.path) as database:
            views = _names(database, "view")
            existing = all_columns(database)
            # a column may be missing in a table of an earlier version only
            is_current = "version" in existing.get("pulls", {}) and _has_pull_of_this_version(database)
            for table in all_tables():
                _check_table(target, table, existing.get(table.name, {}), views, is_current)
            if "pulls" not in existing and existing.keys() & {table.name for table in all_tables()}:
                raise _refusal(target, "its table pulls, which says whose rows it holds, is missing; put it back")
            _check_constraints(target, database)
            for feed, name in _OLDER_NAMES.items():
                columns = {column.name for column in table_of(feed).columns} - {"account", "snapshot_date"}
                if name in existing and columns <= set(existing[name]) and "account" not in existing[name]:
                    raise _older_layout(target, name)
            if LATEST in _names(database, "table"):
                raise _refusal(target, f"{LATEST} is a table in it, where a view is needed; rename the table")
            if LATEST in views and not _is_our_view(database):
                raise _refusal(target, f"its view {LATEST} was not made by a pull; rename the view")
            if "pulls" in existing:
                _check_pulls_of_account(target, job, database, existing)
    except duckdb.Error as error:
        raise ConfigurationError(
            f"can't write {target.path}: {first_line(error).rstrip('!')}; name another file"
        ) from error


def last_pull_was_whole(target: Target, job: ExportJob, check: Callable[[], None]) -> bool:
    """Return whether the database has a pull of a job's account, feeds and dates, and no failure of one."""
    if not target.path.exists():
        return False
    query = """SELECT EXISTS (FROM pulls WHERE account = $account AND start_date = $first AND end_date = $last
            AND list_has_all(string_split(feeds, ','), $feeds))
        AND NOT EXISTS (FROM failures WHERE account = $account AND start_date = $first AND end_date = $last
            AND list_contains($tables, table_name))"""
    values = {
        "account": job.account,
        "first": job.start_date,
        "last": job.end_date,
        "feeds": [feed.value for feed in job.feeds],
        "tables": [table_of(feed).name for feed in job.feeds],
    }
    with write_lock(target, check), connected(target.path, target.path) as database:
        if not {"pulls", "failures"} <= _names(database, "table"):
            return False
        ((found,),) = database.execute(query, values).fetchall()
    return bool(found)


@contextlib.contextmanager
def connected(
    file: Path, path: Path, *, to_read: Mapping[str, str] | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database; errors name the target, and ExportError reports one that is open elsewhere.

    `to_read` opens it only to read, with these settings.
    """
    duckdb, verb = require("duckdb"), "write" if to_read is None else "read"
    try:
        database = duckdb.connect(str(file), read_only=to_read is not None, config=dict(to_read or {}))
    except duckdb.IOException as error:
        if "Could not set lock" in str(error) and "onflicting lock" not in str(error):
            problem = (
                "its file system refuses the locks that DuckDB needs; write to another disk, or a dataset (ending in /)"
            )
            raise export_error(path, problem, verb) from error
        if "onflicting lock" in str(error):
            problem = "it is open in another program; close it there, and run this again"
            if to_read is not None:
                problem = "a pull is writing it, or it is open in another program; run this again when that has ended"
            raise export_error(path, problem, verb) from error
        raise
    except duckdb.ConnectionException as error:
        if "different configuration" in str(error):
            problem = (
                "this program has it open already, read-only or with settings; close that connection, and run this"
            )
            raise export_error(path, f"{problem} again", verb) from error
        raise
    with database:
        yield database


def _check_table(target: Target, table: Table, existing: Columns, views: set[str], is_current: bool) -> None:
    if table.name in views:
        raise _refusal(target, f"{table.name} is a view in it, where a table is needed; rename the view")
    ours = {column.name for column in table.columns}
    for column in table.columns if existing else ():
        found, needed = existing.get(column.name), TYPES[column.type]
        if found is None:
            _check_missing(target, table, column, existing, is_current)
        elif found.type != needed:
            raise _changed(
                target,
                table,
                f"column {column.name} is {found.type}, not {needed}",
                f"ALTER {column.name} TYPE {needed}",
            )
        elif column.nullable and not found.is_nullable:
            raise _changed(target, table, f"column {column.name} is NOT NULL", f"ALTER {column.name} DROP NOT NULL")
    for name, found in existing.items():
        if name not in ours and not found.is_nullable and not found.has_default:
            problem = f"column {name}, which pulls don't fill, is NOT NULL and has no default"
            raise _changed(target, table, problem, f"ALTER {as_name(name)} DROP NOT NULL")


def _check_missing(target: Target, table: Table, column: Column, existing: Columns, is_current: bool) -> None:
    """Refuse a renamed or dropped column; one that an earlier version lacked will be added."""
    ours = {one.name for one in table.columns}
    renamed = [name for name, found in existing.items() if found.comment == column.description and name not in ours]
    if len(renamed) == 1:
        statement = f"RENAME {as_name(renamed[0])} TO {column.name}"
        raise _changed(target, table, f"column {column.name} is missing, and {renamed[0]} has its comment", statement)
    if is_current:
        statement = f"ADD COLUMN {column.name} {TYPES[column.type]}" if column.nullable else ""
        raise _changed(target, table, f"column {column.name} is missing", statement)
    if not column.nullable or column.name in table.key:
        raise _older_layout(target, table.name)


def _check_constraints(target: Target, database: duckdb.DuckDBPyConnection) -> None:
    """Refuse unique indexes and constraints on columns of ours, even on a key.

    Some versions of DuckDB refuse to replace a row in one transaction.
    """
    ours = {table.name: {column.name for column in table.columns} for table in all_tables()}
    indexes = f"""SELECT lower(table_name), index_name, coalesce(expressions, sql) FROM duckdb_indexes()
        WHERE is_unique AND sql IS NOT NULL AND {_IN_MAIN}"""
    for table, index, columns in database.execute(indexes).fetchall():
        if ours.get(table, set()) & set(re.findall(r"\w+", columns.lower())):
            problem = f"its unique index {index} on {table} may refuse rows of a pull"
            raise _refusal(target, f"{problem}; run DROP INDEX {as_name(index)}")
    constraints = f"""SELECT lower(table_name), constraint_text, constraint_column_names
        FROM duckdb_constraints() WHERE constraint_type != 'NOT NULL' AND {_IN_MAIN}"""
    for table, text, columns in database.execute(constraints).fetchall():
        if ours.get(table, set()) & {*map(str.lower, columns)}:
            problem = f"the constraint {text} of its table {table} may refuse rows of a pull"
            remade = f"CREATE TABLE remade AS FROM {table}; DROP TABLE {table}; ALTER TABLE remade RENAME TO {table}"
            raise _refusal(target, f"{problem}; make the table again without it ({remade})")


def _has_pull_of_this_version(database: duckdb.DuckDBPyConnection) -> bool:
    query = "SELECT EXISTS (FROM pulls WHERE version::VARCHAR = ?)"
    ((found,),) = database.execute(query, [version("seorep-async")]).fetchall()
    return bool(found)


def _check_pulls_of_account(
    target: Target, job: ExportJob, database: duckdb.DuckDBPyConnection, existing: dict[str, Columns]
) -> None:
    """Refuse rows under the account's name of another service or key, or without a pull that names their owner."""
    # a key is known to be the account's once a campaign succeeds; after that, a new one was confirmed
    known = "count(*) FILTER (rows > 0 OR failures < campaigns OR campaigns = 0) OVER () > 0"
    newest = f"SELECT service, key_digest FROM pulls WHERE account = ? QUALIFY {known} ORDER BY started_at DESC LIMIT 1"
    found = database.execute(newest, [job.account]).fetchall()
    for service, digest in found:
        job.check_account(target.path, service, digest)
    tables = [table.name for table in (*map(table_of, Feed), totals_table()) if table.name in existing and not found]
    rows = (database.execute(f"FROM {name} WHERE account = ? LIMIT 1", [job.account]).fetchall() for name in tables)
    if any(rows) and job.key_renewed != job.key_mark():
        problem = f"it has rows of the account {job.account}, and its table pulls no longer says whose they are"
        confirm = f'confirm once that they are this account\'s with key_renewed="{job.key_mark()}"'
        raise _refusal(target, f"{problem}; put its rows back, or {confirm}")


def _older_layout(target: Target, name: str) -> ConfigurationError:
    return ConfigurationError(
        f"can't write {target.path}: its table {name} has the layout of an earlier version, or is another program's; "
        "name another file, or move this one away, and pull its dates again"
    )


def _changed(target: Target, table: Table, problem: str, statement: str) -> ConfigurationError:
    mend = f". Run ALTER TABLE {table.name} {statement} there" if statement else "; put it back"
    return _refusal(target, f"its table {table.name} was changed, or is another program's: its {problem}{mend}")


def as_name(name: str) -> str:
    """Return a name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _refusal(target: Target, problem: str) -> ConfigurationError:
    return ConfigurationError(f"can't write {target.path}: {problem}, or name another file")


def _names(database: duckdb.DuckDBPyConnection, kind: str) -> set[str]:
    query = f"SELECT lower({kind}_name) FROM duckdb_{kind}s() WHERE {_IN_MAIN}"
    return {name for (name,) in database.execute(query).fetchall()}


def _is_our_view(database: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the view of the newest snapshots is ours, by its comment, or its text without punctuation."""
    query = f"SELECT sql, comment FROM duckdb_views() WHERE lower(view_name) = '{LATEST}' AND {_IN_MAIN}"
    ((found, comment),) = database.execute(query).fetchall()
    ours = LATEST_VIEW.replace("OR REPLACE ", "")
    return comment == LATEST_COMMENT or re.findall(r"\w+", found) == re.findall(r"\w+", ours)


def all_columns(database: duckdb.DuckDBPyConnection) -> dict[str, Columns]:
    """Return each column, by table or view and by name."""
    query = f"""SELECT lower(table_name), lower(column_name), replace(data_type, '"', ''), comment, is_nullable,
        column_default IS NOT NULL FROM duckdb_columns() WHERE {_IN_MAIN}"""
    found: dict[str, Columns] = {}
    for table, name, *facts in database.execute(query).fetchall():
        found.setdefault(table, {})[name] = FoundColumn(*facts)
    return found


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
