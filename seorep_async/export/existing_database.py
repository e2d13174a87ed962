"""What stands in an existing DuckDB database: ours, another version's, or another program's; and what failed in it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from seorep_async.errors import ConfigurationError
from seorep_async.export.atomic_replace import export_error
from seorep_async.export.job import ExportJob
from seorep_async.export.staging_area import write_lock
from seorep_async.export.target import Target
from seorep_async.models import Feed
from seorep_async.tables.columns import ColumnType, Table
from seorep_async.tables.declared import all_tables, table_of
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb

Columns: TypeAlias = dict[str, tuple[str, str | None]]

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


def check_database(target: Target, job: ExportJob) -> None:
    """Check before any request that an existing database can be written, and that no two accounts mix in it.

    Raises:
        ConfigurationError: the file is no database of DuckDB's, or something in it has the name of a table of ours and
            is none, or it has rows of another service or key under the account's name.
        ExportError: it is open elsewhere.
    """
    if not target.path.exists():
        return
    duckdb = require("duckdb")
    try:
        with write_lock(target), connected(target.path, target.path) as database:
            views = _names(database, "view")
            existing = all_columns(database)
            for table in all_tables():
                _check_table(target, table, existing.get(table.name, {}), views)
            for feed, name in _OLDER_NAMES.items():
                columns = {column.name for column in table_of(feed).columns} - {"account", "snapshot_date"}
                if name in existing and columns <= set(existing[name]) and "account" not in existing[name]:
                    raise _older_layout(target, name)
            if LATEST in _names(database, "table"):
                raise _refusal(target, f"{LATEST} is a table in it, where a view is needed; rename the table")
            if LATEST in views and not _is_our_view(database):
                raise _refusal(target, f"its view {LATEST} was not made by a pull; rename the view")
            if "key_digest" in existing.get("pulls", {}):
                _check_pulls_of_account(target, job, database)
    except duckdb.Error as error:
        raise ConfigurationError(
            f"can't write {target.path}: {first_line(error).rstrip('!')}; name another file"
        ) from error


def last_pull_was_whole(target: Target, job: ExportJob) -> bool:
    """Return whether the database has a pull of a job's account, feeds and dates, and no failure of one.

    Raises:
        ExportError: it is open elsewhere.
    """
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
    with write_lock(target), connected(target.path, target.path) as database:
        if not {"pulls", "failures"} <= _names(database, "table"):
            return False
        ((found,),) = database.execute(query, values).fetchall()
    return bool(found)


@contextlib.contextmanager
def connected(file: Path, path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database; errors name the target.

    Raises:
        ExportError: it is open elsewhere.
    """
    duckdb = require("duckdb")
    try:
        database = duckdb.connect(str(file))
    except duckdb.IOException as error:
        if "Could not set lock" in str(error) or "Conflicting lock" in str(error):
            raise export_error(path, "it is open in another program; close it there, and run this again") from error
        raise
    except duckdb.ConnectionException as error:
        if "different configuration" in str(error):
            problem = (
                "this program has it open already, read-only or with settings; close that connection, and run this"
            )
            raise export_error(path, f"{problem} again") from error
        raise
    with database:
        yield database


def _check_table(target: Target, table: Table, existing: Columns, views: set[str]) -> None:
    if table.name in views:
        raise _refusal(target, f"{table.name} is a view in it, where a table is needed; rename the view")
    for column in table.columns if existing else ():
        # a column may be missing in a table of an earlier version, but not those that say whose a row is
        if column.name not in existing:
            if column.name in ("account", "snapshot_date", *table.key):
                raise _older_layout(target, table.name)
            continue
        found = existing[column.name][0].replace('"', "")
        if found != TYPES[column.type]:
            raise _refusal(
                target,
                f"its table {table.name} is another program's, as its column {column.name} shows "
                f"({found}, not {TYPES[column.type]})",
            )


def _check_pulls_of_account(target: Target, job: ExportJob, database: duckdb.DuckDBPyConnection) -> None:
    """Refuse rows of another service or key under the account's name."""
    # where every campaign failed, nobody knows whether the key was the account's
    some = "account = ? AND (rows > 0 OR failures < campaigns OR campaigns = 0)"
    newest = f"SELECT service, key_digest FROM pulls WHERE {some} ORDER BY started_at DESC LIMIT 1"
    for service, digest in database.execute(newest, [job.account]).fetchall():
        job.check_account(target.path, service, digest)


def _older_layout(target: Target, name: str) -> ConfigurationError:
    return ConfigurationError(
        f"can't write {target.path}: its table {name} has the layout of an earlier version, or is another program's; "
        "name another file, or move this one away, and pull its dates again"
    )


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
    """Return the type and the comment of each column, by table or view and by name."""
    query = f"SELECT lower(table_name), lower(column_name), data_type, comment FROM duckdb_columns() WHERE {_IN_MAIN}"
    found: dict[str, Columns] = {}
    for table, name, kind, comment in database.execute(query).fetchall():
        found.setdefault(table, {})[name] = (kind, comment)
    return found


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
