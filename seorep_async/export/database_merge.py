"""The finished target as a DuckDB database: every table, filled in one transaction, beside the nights before.

`dataset_merge` has the same rules for datasets.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seorep_async.export.atomic_replace import atomic_replace, export_error, translate_errors
from seorep_async.export.checkpoint import CAMPAIGNS, fits
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
from seorep_async.export.formats import GROUP_ROWS
from seorep_async.export.staging_area import write_lock
from seorep_async.models import Feed
from seorep_async.tables.columns import Column, FeedTable, Table
from seorep_async.tables.declared import all_tables, table_of, totals_table
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb

_THIS_PULL = (
    "{0}.snapshot_date = getvariable('snapshot_date') AND {0}.start_date = getvariable('first_day') "
    "AND {0}.end_date = getvariable('last_day')"
)


def write_database(contents: Contents, check: Callable[[], None]) -> list[Path]:
    """Put a pull into the database, all of it or nothing, and return its path.

    Only rows of this account are replaced. A feed by date: the rows of the dates that the pull asked for, of reports
    that succeeded; a row of a month stands for those of its days that its own pull asked for. The campaign feed and
    totals: the rows of the same snapshot date and the same dates. The rows of failed reports are unchanged. A new
    database appears in one step.

    Args:
        contents: the fetched reports.
        check: called now and then; an exception that it raises ends the writing.

    Raises:
        ExportError: it could not be written, or is open elsewhere; nothing has changed in it.
    """
    path = contents.area.target.path
    with write_lock(contents.area.target, check):
        _write(path, contents, check)
    return [path]


def _write(path: Path, contents: Contents, check: Callable[[], None]) -> None:
    if path.exists():
        _fill(path, contents, check)
        return
    file = contents.area.folder / "rows.duckdb"
    for leftover in (file, file.with_name(f"{file.name}.wal")):
        leftover.unlink(missing_ok=True)
    _fill(file, contents, check)
    if file.with_name(f"{file.name}.wal").exists():
        raise export_error(path, "the database could not be completed; is the disk full?")
    atomic_replace(file, path)


def _fill(file: Path, contents: Contents, check: Callable[[], None]) -> None:
    duckdb, area = require("duckdb"), contents.area
    path = area.target.path
    try:
        with translate_errors(path), connected(file, path) as database:
            database.execute(f"SET temp_directory = {_quoted(str(area.folder / 'overflow'))}")
            database.execute("SET enable_progress_bar = false")
            database.execute("BEGIN")
            existing = all_columns(database)
            for table in all_tables():
                _make_table(database, table, existing.get(table.name, {}))
            database.execute(LATEST_VIEW)
            database.execute(f"COMMENT ON VIEW {LATEST} IS {_quoted(LATEST_COMMENT)}")
            _note_scope(database, contents)
            for table in area.target.tables():
                _delete(database, table)
                for chunk in contents.chunks(table):
                    check()
                    _insert(database, table, chunk)
                if table.name in ("campaign_periods", "keyword_periods"):
                    _delete_replaced(database, table)
            database.execute("DROP TABLE wanted; DROP TABLE fetched")
            database.execute("COMMIT")
            if file != path:
                database.execute("CHECKPOINT")  # closing would do it too, but not raise if it failed
    except duckdb.Error as error:
        raise export_error(path, f"{first_line(error)}; nothing has changed in it") from error


def _note_scope(database: duckdb.DuckDBPyConnection, contents: Contents) -> None:
    """Put the campaigns asked for and the reports fetched where queries can use them.

    Ids of more than 64 bits are left out, as no rows have them.
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


def _insert(database: duckdb.DuckDBPyConnection, table: Table, chunk: Any) -> None:
    rows = "SELECT * FROM chunk"
    if table.name in ("campaigns", "keywords", "pulls"):
        same = " AND ".join(f"chunk.{column} = {table.name}.{column}" for column in table.key)
        older = f"{same} AND chunk.snapshot_date >= {table.name}.snapshot_date"
        _register(database, "chunk", chunk, f"DELETE FROM {table.name} USING chunk WHERE {older}")
        # rows of a later night stay; threads that join give rows in any order
        numbered = "(SELECT *, row_number() OVER () AS position FROM chunk) chunk"
        rows = f"SELECT chunk.* EXCLUDE (position) FROM {numbered} ANTI JOIN {table.name} ON {same} ORDER BY position"
    _register(database, "chunk", chunk, f"INSERT INTO {table.name} BY NAME {rows}")


def _register(database: duckdb.DuckDBPyConnection, name: str, rows: Any, statement: str) -> None:
    database.register(name, rows)
    database.execute(statement)
    database.unregister(name)


def _make_table(database: duckdb.DuckDBPyConnection, table: Table, existing: Columns) -> None:
    if not existing:
        columns = ", ".join(f"{_declared(column)}{'' if column.nullable else ' NOT NULL'}" for column in table.columns)
        database.execute(f"CREATE TABLE {table.name} ({columns})")
        database.execute(f"COMMENT ON TABLE {table.name} IS {_quoted(table.description)}")
    for column in table.columns:
        if existing and column.name not in existing:  # a later version knows more
            database.execute(f"ALTER TABLE {table.name} ADD COLUMN {_declared(column)}")
        if existing.get(column.name, ("", None))[1] != column.description:
            comment = _quoted(column.description)
            database.execute(f'COMMENT ON COLUMN {table.name}."{column.name}" IS {comment}')


def _declared(column: Column) -> str:
    return f'"{column.name}" {TYPES[column.type]}'


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"
