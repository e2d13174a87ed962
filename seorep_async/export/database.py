"""The finished target as a DuckDB database: a table for each feed, filled in one transaction."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seorep_async.errors import ConfigurationError
from seorep_async.export.atomic_replace import atomic_replace, export_error, translate_errors
from seorep_async.export.checkpoint import fits
from seorep_async.export.files import failure_rows, totals_rows
from seorep_async.export.formats import GROUP_ROWS, arrow_tables
from seorep_async.export.progress import PullFailure
from seorep_async.export.staging_area import StagingArea
from seorep_async.export.target import Target
from seorep_async.tables.arrow import batch_of_rows
from seorep_async.tables.columns import ColumnType, Table, failures_table, table_of, totals_table
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb

_TYPES = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.NUMBER: "DOUBLE",
    ColumnType.STRING: "VARCHAR",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.TAGS: "STRUCT(id BIGINT, label VARCHAR, extra VARCHAR)[]",
    ColumnType.FIELDS: "VARCHAR",
}
_VIEWS = "SELECT lower(view_name) FROM duckdb_views() WHERE schema_name = 'main' AND database_name = current_database()"


def check_database(target: Target) -> None:
    """Check before any request that an existing database can be written.

    Raises:
        ConfigurationError: the file is no database of DuckDB's, or something in it has the name of a table of ours and
            is none, by its columns or because it is a view.
        ExportError: it is open elsewhere.
    """
    if not target.path.exists():
        return
    duckdb = require("duckdb")
    try:
        with _connected(target.path, target.path) as database:
            views = {name for (name,) in database.execute(_VIEWS).fetchall()}
            for table in (*(table_of(feed) for feed in target.feeds), totals_table(), failures_table()):
                _check_table(target, table, dict(_columns(database, table)), views)
    except duckdb.Error as error:
        raise ConfigurationError(
            f"can't write {target.path}: {_first_line(error).rstrip('!')}; name another file"
        ) from error


def write_database(area: StagingArea, failures: Sequence[PullFailure], check: Callable[[], None]) -> list[Path]:
    """Put staged reports into the database, all of them or none, and return its path.

    Older rows of the same campaigns and dates are replaced, except those of reports that failed; all others stay. A
    new database appears in one step.

    Args:
        area: the staged reports.
        failures: the reports that failed.
        check: called now and then; an exception that it raises ends the writing.

    Raises:
        ExportError: it could not be written, or is open elsewhere; nothing has changed in it.
    """
    place = area.target.path
    if place.exists():
        _fill(place, area, failures, check)
        return [place]
    file = area.folder / "rows.duckdb"
    for leftover in (file, file.with_name(f"{file.name}.wal")):
        leftover.unlink(missing_ok=True)
    _fill(file, area, failures, check)
    if file.with_name(f"{file.name}.wal").exists():
        raise export_error(place, "the database could not be completed; is the disk full?")
    atomic_replace(file, place)
    return [place]


def _fill(file: Path, area: StagingArea, failures: Sequence[PullFailure], check: Callable[[], None]) -> None:
    duckdb, place, job = require("duckdb"), area.target.path, area.job
    try:
        with translate_errors(place), _connected(file, place) as database:
            database.execute(f"SET temp_directory = {_quoted(str(area.folder / 'overflow'))}")
            database.execute("SET enable_progress_bar = false")
            database.execute("BEGIN")
            tables = [table_of(feed) for feed in job.feeds]
            for table in (*tables, totals_table(), failures_table()):
                _make_table(database, table)
            rows = list(failure_rows(job, failures))
            _note_scope(database, area, failures)
            for feed, table in zip(job.feeds, tables, strict=True):
                _delete(database, table.name, table.name)
                for piece in arrow_tables(feed, area.checkpoint.reports(feed)):
                    check()
                    _insert(database, table, piece)
                _delete(database, "totals", table.name)
                totals = totals_rows(job, area.checkpoint, feed)
                while some := list(itertools.islice(totals, GROUP_ROWS)):
                    _insert(database, totals_table(), batch_of_rows(totals_table(), some))
                database.execute(
                    "DELETE FROM failures WHERE feed = ? AND start_date = ? AND end_date = ? "
                    "AND (campaign_id IS NULL OR campaign_id IN (SELECT id FROM wanted))",
                    [table.name, job.start_date, job.end_date],
                )
            _insert(database, failures_table(), batch_of_rows(failures_table(), rows))
            database.execute("DROP TABLE wanted")
            database.execute("DROP TABLE failed")
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
    with database:
        yield database


def _note_scope(database: duckdb.DuckDBPyConnection, area: StagingArea, failures: Sequence[PullFailure]) -> None:
    """Put the requested campaigns and the failures where queries can use them.

    Ids of more than 64 bits are left out: there are no rows of them.
    """
    pa = require("pyarrow")
    first, last = area.job.start_date, area.job.end_date
    wanted = pa.table({"id": pa.array(filter(fits, area.checkpoint.campaigns()), pa.int64())})
    database.register("wanted_rows", wanted)
    database.execute("CREATE TEMP TABLE wanted AS SELECT * FROM wanted_rows")
    known = [one for one in failures if fits(one.campaign_id) and (one.keyword_id is None or fits(one.keyword_id))]
    failed = batch_of_rows(failures_table(), list(failure_rows(area.job, known)))
    database.register("failed_rows", pa.Table.from_batches([failed]))
    database.execute("CREATE TEMP TABLE failed AS SELECT * FROM failed_rows")
    database.execute("SET VARIABLE first_day = ?::DATE", [first])
    database.execute("SET VARIABLE last_day = ?::DATE", [last])
    database.unregister("wanted_rows")
    database.unregister("failed_rows")


def _delete(database: duckdb.DuckDBPyConnection, name: str, feed: str) -> None:
    """Delete the rows of the requested reports that did not fail."""
    keyword = "" if name == "campaign" or name == "campaign_by_date" else "OR f.keyword_id = t.keyword_id"
    of_feed = f"AND t.feed = {_quoted(feed)}" if name == "totals" else ""
    database.execute(
        f"DELETE FROM {name} t WHERE t.start_date = getvariable('first_day') AND t.end_date = getvariable('last_day') "  # noqa: S608  # our own names
        f"{of_feed} AND t.campaign_id IN (SELECT id FROM wanted) AND NOT EXISTS (SELECT 1 FROM failed f "
        f"WHERE f.feed = {_quoted(feed)} AND f.campaign_id = t.campaign_id AND (f.keyword_id IS NULL {keyword}))"
    )


def _insert(database: duckdb.DuckDBPyConnection, table: Table, rows: Any) -> None:
    pa = require("pyarrow")
    if rows.num_rows:
        database.register("piece", rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows]))
        database.execute(f"INSERT INTO {table.name} BY NAME SELECT * FROM piece")  # noqa: S608  # our own names
        database.unregister("piece")


def _make_table(database: duckdb.DuckDBPyConnection, table: Table) -> None:
    columns = ", ".join(f'"{column.name}" {_TYPES[column.type]}' for column in table.columns)
    database.execute(f"CREATE TABLE IF NOT EXISTS {table.name} ({columns})")
    there = dict(_columns(database, table))
    for column in table.columns:
        if column.name not in there:  # a later version knows more
            database.execute(f'ALTER TABLE {table.name} ADD COLUMN "{column.name}" {_TYPES[column.type]}')


def _check_table(target: Target, table: Table, there: dict[str, str], views: set[str]) -> None:
    if table.name in views:
        raise ConfigurationError(
            f"can't write {target.path}: {table.name} is a view in it, where a table is needed; "
            "rename the view, or name another file"
        )
    for column in table.columns if there else ():
        # a column may be missing in a table of an earlier version, but not those that say whose a row is
        missing = "missing" if column.name in ("campaign_id", "start_date", "end_date") else _TYPES[column.type]
        found = there.get(column.name, missing).replace('"', "")
        if found != _TYPES[column.type]:
            raise ConfigurationError(
                f"can't write {target.path}: its table {table.name} is another's, as the column {column.name} shows "
                f"({found}, not {_TYPES[column.type]}); name another file"
            )


def _columns(database: duckdb.DuckDBPyConnection, table: Table) -> list[tuple[str, str]]:
    return database.execute(
        "SELECT lower(column_name), data_type FROM duckdb_columns() WHERE lower(table_name) = ? "
        "AND schema_name = 'main' AND database_name = current_database()",
        [table.name],
    ).fetchall()


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
