"""A DuckDB database as a target: every table, filled in one transaction, beside the nights before."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import attrs

from seorep_async.export.views import COMMENTS, VIEWS
from seorep_async.models import Feed
from seorep_async.old_export.atomic_replace import atomic_replace, export_error, translate_errors
from seorep_async.old_export.database_file import (
    Columns,
    all_columns,
    connected,
    first_line,
    make_table,
    names_of,
    problems,
    quoted,
)
from seorep_async.old_export.formats import Format
from seorep_async.old_export.lock import write_lock
from seorep_async.old_export.replacement import LATEST_TABLES, Replacement, same_key
from seorep_async.old_export.spec import PullSpec
from seorep_async.old_export.targets.target import Contents, Place, Target, check_file, refusal, tables_of
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import all_tables, table_of, totals_table
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb

_NOT_FOR_DUCKDB = set("?\\") if os.sep == "/" else set()


@attrs.frozen
class DatabaseTarget(Target):
    """A database; it stores the nights of many accounts."""

    accumulates: ClassVar[bool] = True

    @classmethod
    def at(cls, place: Place) -> Target | None:
        if place.format is not Format.DUCKDB:
            return None
        if place.is_address:
            raise refusal(place.out, "a database can't be in an object store; name a dataset (ending in /) or a file")
        found = cls(place.path, Path(place.out), place.format, **place.given)
        check_file(place.out, found.path)
        Format.DUCKDB.require_extra()
        if _NOT_FOR_DUCKDB & {*f"{found.path}{found.staging_folder}"}:
            raise refusal(place.out, r"DuckDB takes no path with a ? or a \ in it; name another")
        return found

    def exists(self) -> bool:
        return self.path.exists()

    def row_files(self) -> Sequence[Path | str]:
        return [self.as_named(self.path)]

    def check(self, spec: PullSpec, check: Callable[[], None]) -> None:
        """Refuse a search, what is no database, tables that were changed, and another account's rows."""
        spec.check_whole(self.label)
        if not self.exists():
            return
        try:
            with self._opened(check) as database:
                existing = all_columns(database)
                problem = next(problems(database, existing), None)
        except require("duckdb").Error as error:
            raise refusal(self.path, first_line(error).rstrip("!") + "; name another file") from error
        if problem is not None:
            raise refusal(self.path, f"{problem}, or name another file")

    def _problem_of_account(
        self, spec: PullSpec, database: duckdb.DuckDBPyConnection, existing: dict[str, Columns]
    ) -> str | None:
        """Refuse another account's rows under its name; return the problem if no pull says whose they are."""
        # a key is known to be the account's once a campaign succeeds; after that, a new one was confirmed
        known = "count(*) FILTER (rows > 0 OR failures < campaigns OR campaigns = 0) OVER () > 0"
        newest = f"""SELECT service, key_digest FROM pulls WHERE account = ? QUALIFY {known}
            ORDER BY started_at DESC LIMIT 1"""
        for service, digest in database.execute(newest, [spec.account]).fetchall():
            spec.check_account(self.path, service, digest)
            return None
        tables = [table.name for table in (*map(table_of, Feed), totals_table()) if table.name in existing]
        rows = (database.execute(f"FROM {one} WHERE account = ? LIMIT 1", [spec.account]).fetchall() for one in tables)
        if not any(rows) or spec.confirms_key():
            return None
        problem = f"it has rows of the account {spec.account}, and its table pulls no longer says whose they are"
        confirm = f'confirm once that they are this account\'s with key_renewed="{spec.key_mark()}"'
        return f"{problem}; put its rows back, or {confirm}"

    def last_pull_was_whole(self, spec: PullSpec, check: Callable[[], None]) -> bool:
        """Return whether it has a pull of the account, night, feeds and dates of a spec, and no failure of one."""
        if not self.exists():
            return False
        query = """SELECT EXISTS (FROM pulls WHERE account = $account AND snapshot_date = $night
                AND start_date = $first AND end_date = $last AND list_has_all(string_split(feeds, ','), $feeds))
            AND NOT EXISTS (FROM failures WHERE account = $account AND start_date = $first AND end_date = $last
                AND list_contains($tables, table_name))"""
        values = {
            "account": spec.account,
            "night": spec.snapshot_date,
            "first": spec.start_date,
            "last": spec.end_date,
            "feeds": [feed.value for feed in spec.feeds],
            "tables": [table_of(feed).name for feed in spec.feeds],
        }
        with self._opened(check) as database:
            if not {"pulls", "failures"} <= names_of(database, "table"):
                return False
            ((found,),) = database.execute(query, values).fetchall()
        return bool(found)

    @contextmanager
    def _opened(self, check: Callable[[], None]) -> Generator[duckdb.DuckDBPyConnection, None, None]:
        with write_lock(self.path, check), connected(self.path, self.path) as database:
            yield database

    def write(self, contents: Contents, check: Callable[[], None]) -> Sequence[Path | str]:
        """Put a pull into it, all or nothing; `replacement` chooses the older rows to delete.

        A new database appears in one step.
        """
        with write_lock(self.path, check):
            if self.exists():
                self._fill(self.path, contents, check)
            else:
                file = contents.area.making / "rows.duckdb"
                self._fill(file, contents, check)
                if file.with_name(f"{file.name}.wal").exists():
                    raise export_error(self.path, "the database could not be completed; is the disk full?")
                atomic_replace(file, self.path)
        return [self.path]

    def _fill(self, file: Path, contents: Contents, check: Callable[[], None]) -> None:
        area = contents.area
        try:
            with translate_errors(self.path), connected(file, self.path) as database:
                database.execute(f"SET temp_directory = {quoted(str(area.making / 'overflow'))}")
                database.execute("BEGIN")
                existing = all_columns(database)
                for table in all_tables():
                    make_table(database, table, existing.get(table.name, {}))
                for view, query in VIEWS.items():
                    database.execute(f"CREATE OR REPLACE VIEW {view} AS {query}")
                    database.execute(f"COMMENT ON VIEW {view} IS {quoted(COMMENTS[view])}")
                replacement = Replacement(area.spec, contents.outcomes)
                replacement.register_relations(database)
                for table in tables_of(self.feeds):
                    _delete(database, replacement, table, replacement.covered(table))
                    for chunk in contents.chunks(table):
                        check()
                        database.register("arriving", chunk)
                        _delete(database, replacement, table, replacement.outdated(table))
                        insert(database, table)
                database.execute("COMMIT")
                if file != self.path:
                    database.execute("CHECKPOINT")  # closing would do it too, but hide an error
        except require("duckdb").Error as error:
            raise export_error(self.path, f"{first_line(error)}; nothing has changed in it") from error


def _delete(database: duckdb.DuckDBPyConnection, replacement: Replacement, table: Table, condition: str | None) -> None:
    if condition is not None:
        account = quoted(replacement.spec.account)
        database.execute(f"DELETE FROM {table.name} r WHERE r.account = {account} AND ({condition})")


def insert(database: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Insert the rows that arrive, except of campaigns and keywords that have a row of a later night."""
    rows = "SELECT * FROM arriving"
    if table in LATEST_TABLES:
        # threads that join give rows in any order
        numbered = "(SELECT *, row_number() OVER () AS position FROM arriving) n"
        later = f"SELECT 1 FROM {table.name} r WHERE {same_key(table)}"
        rows = f"SELECT n.* EXCLUDE (position) FROM {numbered} WHERE NOT EXISTS ({later}) ORDER BY position"
    database.execute(f"INSERT INTO {table.name} BY NAME {rows}")
