"""The finished target as a DuckDB database: every table, filled in one transaction, with the nights before kept."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from seorep_async.errors import ConfigurationError
from seorep_async.export.atomic_replace import atomic_replace, export_error, translate_errors
from seorep_async.export.checkpoint import CAMPAIGNS, fits
from seorep_async.export.contents import Contents
from seorep_async.export.formats import GROUP_ROWS
from seorep_async.export.job import ExportJob
from seorep_async.export.staging_area import turn_to_write
from seorep_async.export.target import Target
from seorep_async.models import Feed
from seorep_async.tables.columns import Column, ColumnType, FeedTable, Table
from seorep_async.tables.declared import all_tables, table_of, totals_table
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb

_Columns: TypeAlias = dict[str, tuple[str, str | None]]

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
LATEST = "keyword_rankings_latest"
_LATEST_VIEW = f"""CREATE OR REPLACE VIEW {LATEST} AS SELECT * FROM keyword_rankings
    QUALIFY rank() OVER (PARTITION BY account, campaign_id ORDER BY snapshot_date DESC, end_date DESC, start_date) = 1
"""
_OLDER_NAMES = ("campaign", "campaign_by_date", "keyword_by_date")
_IN_MAIN = "schema_name = 'main' AND database_name = current_database()"
_THIS_PULL = (
    "{0}.snapshot_date = getvariable('snapshot_date') AND {0}.start_date = getvariable('first_day') "
    "AND {0}.end_date = getvariable('last_day')"
)


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
        with turn_to_write(target), _connected(target.path, target.path) as database:
            views = _names(database, "view")
            there = _all_columns(database)
            for table in all_tables():
                _check_table(target, table, there.get(table.name, {}), views)
            for name in _OLDER_NAMES:
                columns = there.get(name, {})
                if "start_date" in columns and "account" not in columns:
                    raise _older_layout(target, name)
            if LATEST in _names(database, "table"):
                raise _refusal(target, f"{LATEST} is a table in it, where a view is needed; rename the table")
            if "key_digest" in there.get("pulls", {}):
                _check_account(target, job, database)
    except duckdb.Error as error:
        raise ConfigurationError(
            f"can't write {target.path}: {_first_line(error).rstrip('!')}; name another file"
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
    with turn_to_write(target), _connected(target.path, target.path) as database:
        if not {"pulls", "failures"} <= _names(database, "table"):
            return False
        ((found,),) = database.execute(query, values).fetchall()
    return bool(found)


def write_database(contents: Contents, check: Callable[[], None]) -> list[Path]:
    """Put a pull into the database, all of it or nothing, and return its path.

    Only rows of this account are replaced. A feed by date: the rows of the dates that the pull asked for, of reports
    that succeeded; a row of a month stands for those of its days that its own pull asked for. The campaign feed and
    totals: the rows of the same snapshot date and the same dates. What failed keeps its rows. A new database appears in
    one step.

    Args:
        contents: what the pull has brought.
        check: called now and then; an exception that it raises ends the writing.

    Raises:
        ExportError: it could not be written, or is open elsewhere; nothing has changed in it.
    """
    place = contents.area.target.path
    with turn_to_write(contents.area.target, check):
        _write(place, contents, check)
    return [place]


def _write(place: Path, contents: Contents, check: Callable[[], None]) -> None:
    if place.exists():
        _fill(place, contents, check)
        return
    file = contents.area.folder / "rows.duckdb"
    for leftover in (file, file.with_name(f"{file.name}.wal")):
        leftover.unlink(missing_ok=True)
    _fill(file, contents, check)
    if file.with_name(f"{file.name}.wal").exists():
        raise export_error(place, "the database could not be completed; is the disk full?")
    atomic_replace(file, place)


def _fill(file: Path, contents: Contents, check: Callable[[], None]) -> None:
    duckdb, area = require("duckdb"), contents.area
    place = area.target.path
    try:
        with translate_errors(place), _connected(file, place) as database:
            database.execute(f"SET temp_directory = {_quoted(str(area.folder / 'overflow'))}")
            database.execute("SET enable_progress_bar = false")
            database.execute("BEGIN")
            there = _all_columns(database)
            for table in all_tables():
                _make_table(database, table, there.get(table.name, {}))
            database.execute(_LATEST_VIEW)
            _note_scope(database, contents)
            for table in area.target.tables():
                _delete(database, table)
                for piece in contents.pieces(table):
                    check()
                    _insert(database, table, piece)
                if table.name in ("campaign_periods", "keyword_periods"):
                    _delete_replaced(database, table)
            database.execute("DROP TABLE wanted; DROP TABLE fetched")
            database.execute("COMMIT")
            if file != place:
                database.execute("CHECKPOINT")  # closing would do it too, but not raise if it failed
    except duckdb.Error as error:
        raise export_error(place, f"{_first_line(error)}; nothing has changed in it") from error


@contextlib.contextmanager
def _connected(file: Path, place: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    duckdb = require("duckdb")
    try:
        database = duckdb.connect(str(file))
    except duckdb.IOException as error:
        if "Could not set lock" in str(error) or "Conflicting lock" in str(error):
            raise export_error(place, "it is open in another program; close it there, and run this again") from error
        raise
    except duckdb.ConnectionException as error:
        if "different configuration" in str(error):
            problem = (
                "this program has it open already, read-only or with settings; close that connection, and run this"
            )
            raise export_error(place, f"{problem} again") from error
        raise
    with database:
        yield database


def _note_scope(database: duckdb.DuckDBPyConnection, contents: Contents) -> None:
    """Put the campaigns asked for and the reports fetched where queries can use them.

    Ids of more than 64 bits are left out: there are no rows of them.
    """
    pa, area, job = require("pyarrow"), contents.area, contents.area.job
    wanted = pa.table({"id": pa.array(filter(fits, area.checkpoint.campaigns()), pa.int64())})
    database.execute("CREATE TEMP TABLE fetched (table_name VARCHAR, campaign_id BIGINT, keyword_id BIGINT)")
    _register(database, "wanted_rows", wanted, "CREATE TEMP TABLE wanted AS SELECT * FROM wanted_rows")
    for feed in job.feeds:
        name = table_of(feed).name
        stored = area.checkpoint.stored_ids(name)
        while some := list(itertools.islice(stored, GROUP_ROWS)):
            campaigns = [campaign_id for campaign_id, _ in some]
            keywords = [id_ if feed is Feed.KEYWORD_BY_DATE else None for _, id_ in some]
            rows = pa.table([pa.array(campaigns, pa.int64()), pa.array(keywords, pa.int64())], ["campaign_id", "id"])
            _register(database, "fetched_rows", rows, f"INSERT INTO fetched SELECT '{name}', * FROM fetched_rows")
    values = {
        "account": (job.account, "VARCHAR"),
        "snapshot_date": (job.snapshot_date, "DATE"),
        "first_day": (job.start_date, "DATE"),
        "last_day": (job.end_date, "DATE"),
        "tables": ([CAMPAIGNS, *(table_of(feed).name for feed in job.feeds)], "VARCHAR[]"),
    }
    for variable, (value, kind) in values.items():
        database.execute(f"SET VARIABLE {variable} = ?::{kind}", [value])


def _delete(database: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Delete the rows that those of this pull replace; of campaigns, keywords and pulls, `_insert` does."""
    if isinstance(table, FeedTable):
        conditions = f"{_fetched('t', table.feed)} AND {_covered(table)}"
    elif table is totals_table():
        conditions = (
            f"{_THIS_PULL.format('t')} AND EXISTS (SELECT 1 FROM fetched f WHERE f.table_name = t.table_name "
            "AND f.campaign_id = t.campaign_id AND f.keyword_id IS NOT DISTINCT FROM t.keyword_id)"
        )
    elif table.name == "failures":
        conditions = (
            f"{_THIS_PULL.format('t')} AND list_contains(getvariable('tables'), t.table_name) "
            "AND (t.campaign_id IS NULL OR t.campaign_id IN (SELECT id FROM wanted))"
        )
    else:
        return
    database.execute(f"DELETE FROM {table.name} t WHERE t.account = getvariable('account') AND {conditions}")


def _fetched(alias: str, feed: Feed) -> str:
    keyword = f"AND f.keyword_id = {alias}.keyword_id" if feed is Feed.KEYWORD_BY_DATE else ""
    return (
        f"EXISTS (SELECT 1 FROM fetched f WHERE f.table_name = '{table_of(feed).name}' "
        f"AND f.campaign_id = {alias}.campaign_id {keyword})"
    )


def _covered(table: FeedTable) -> str:
    """Return the condition for rows that this pull asked for again."""
    if table.feed is Feed.CAMPAIGN:
        return _THIS_PULL.format("t")
    first = "CASE t.date_precision WHEN 'month' THEN greatest(t.date, t.start_date) ELSE t.date END"
    last = "CASE t.date_precision WHEN 'month' THEN least(last_day(t.date), t.end_date) ELSE t.date END"
    window = f"{first} >= getvariable('first_day') AND {last} <= getvariable('last_day')"
    return f"(({window}) OR ({_THIS_PULL.format('t')}))"


def _delete_replaced(database: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Delete older rows with the key of a row of this pull: a month of which it asked for other days only."""
    same = " AND ".join(f"n.{column} = t.{column}" for column in table.key)
    database.execute(
        f"DELETE FROM {table.name} t WHERE t.account = getvariable('account') AND NOT ({_THIS_PULL.format('t')}) "
        f"AND EXISTS (SELECT 1 FROM {table.name} n WHERE {same} AND {_THIS_PULL.format('n')})"
    )


def _insert(database: duckdb.DuckDBPyConnection, table: Table, piece: Any) -> None:
    if table.name in ("campaigns", "keywords", "pulls"):
        same = " AND ".join(f"piece.{column} = {table.name}.{column}" for column in table.key)
        _register(database, "piece", piece, f"DELETE FROM {table.name} USING piece WHERE {same}")
    _register(database, "piece", piece, f"INSERT INTO {table.name} BY NAME SELECT * FROM piece")


def _register(database: duckdb.DuckDBPyConnection, name: str, rows: Any, statement: str) -> None:
    database.register(name, rows)
    database.execute(statement)
    database.unregister(name)


def _make_table(database: duckdb.DuckDBPyConnection, table: Table, there: _Columns) -> None:
    if not there:
        columns = ", ".join(f"{_declared(column)}{'' if column.nullable else ' NOT NULL'}" for column in table.columns)
        database.execute(f"CREATE TABLE {table.name} ({columns})")
        database.execute(f"COMMENT ON TABLE {table.name} IS {_quoted(table.description)}")
    for column in table.columns:
        if there and column.name not in there:  # a later version knows more
            database.execute(f"ALTER TABLE {table.name} ADD COLUMN {_declared(column)}")
        if there.get(column.name, ("", None))[1] != column.description:
            comment = _quoted(column.description)
            database.execute(f'COMMENT ON COLUMN {table.name}."{column.name}" IS {comment}')


def _declared(column: Column) -> str:
    return f'"{column.name}" {_TYPES[column.type]}'


def _check_table(target: Target, table: Table, there: _Columns, views: set[str]) -> None:
    if table.name in views:
        raise _refusal(target, f"{table.name} is a view in it, where a table is needed; rename the view")
    for column in table.columns if there else ():
        # a column may be missing in a table of an earlier version, but not those that say whose a row is
        if column.name not in there:
            if column.name in ("account", "snapshot_date", *table.key):
                raise _older_layout(target, table.name)
            continue
        found = there[column.name][0].replace('"', "")
        if found != _TYPES[column.type]:
            raise _refusal(
                target,
                f"its table {table.name} is another's, as the column {column.name} shows "
                f"({found}, not {_TYPES[column.type]})",
            )


def _check_account(target: Target, job: ExportJob, database: duckdb.DuckDBPyConnection) -> None:
    """Refuse rows of another service or key under the account's name."""
    newest = "SELECT service, key_digest FROM pulls WHERE account = ? ORDER BY started_at DESC LIMIT 1"
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


def _all_columns(database: duckdb.DuckDBPyConnection) -> dict[str, _Columns]:
    """Return the type and the comment of each column, by table or view and by name."""
    query = f"SELECT lower(table_name), lower(column_name), data_type, comment FROM duckdb_columns() WHERE {_IN_MAIN}"
    found: dict[str, _Columns] = {}
    for table, name, kind, comment in database.execute(query).fetchall():
        found.setdefault(table, {})[name] = (kind, comment)
    return found


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
