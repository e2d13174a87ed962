"""Parts of a dataset in a private folder, where DuckDB reads by itself the columns that a question needs."""

from __future__ import annotations

import datetime as dt
import glob
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from seorep_async.errors import ExportError
from seorep_async.export.atomic_replace import translate_errors
from seorep_async.export.database_file import TYPES, as_name, make_table, quoted
from seorep_async.export.night import Part, Partition, Receipt, digest_of
from seorep_async.export.storage import Storage, each
from seorep_async.export.targets.dataset import part_table
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import table_named
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb

SETTINGS = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "threads": "1",  # each further one takes some 60 MB for what it has unpacked
}
"""Of the connection that reads the copies: nothing but this package's own questions."""
_ACCOUNT, _NIGHT = "seorep_account", "seorep_night"


@attrs.frozen
class CopiedParts:
    """The parts of a dataset that are asked for, checked by their digests before they are read.

    A private copy can't change while it is read. Its folders number the accounts, as readers take some names for null.
    """

    storage: Storage
    receipts: Sequence[Receipt]
    folder: Path
    connection: duckdb.DuckDBPyConnection

    def show(self, table: Table, account: str | None = None, nights: Collection[dt.date] | None = None) -> None:
        """Copy a table, or only its rows of an account or of some nights, and make a view of it.

        As in a database, the view has one row of each key, that of the newest night.

        ExportError: a part can't be read, does not match its receipt, or no pull wrote it.
        """
        chosen = [
            (one.night, part)
            for one in self.receipts
            if account in (None, one.account) and (nights is None or one.snapshot_date in nights)
            for part in one.parts
            if part.table == table.name
        ]
        each(self._copy, chosen)
        if not chosen:
            make_table(self.connection, table, {})
            return
        files = glob.escape(str(self.folder / table.name)) + "/*/*/*.parquet"
        if not _fits(self.connection, table, files):
            self.check()
        held = _types(self.connection, files)
        columns = [
            as_name(column.name) if column.name in held else f"NULL::{TYPES[column.type]} AS {as_name(column.name)}"
            for column in part_table(table).columns
        ]
        labels = f"[{', '.join(map(quoted, self._accounts))}][{_ACCOUNT} + 1] AS account, {_NIGHT} AS snapshot_date"
        rows = f"SELECT {labels}, {', '.join(columns)} FROM {_reader(files)}"
        self.connection.execute(f"CREATE VIEW {table.name} AS FROM ({rows}) {newest_rows(table)}")

    def check(self) -> None:
        """Raise an ExportError for the first part that no pull wrote, if any."""
        with require("duckdb").connect(config=SETTINGS) as database:  # the other may be out of order
            for night, part, file in self._copied():
                if not _is_readable(database, table_named(part.table), glob.escape(str(file))):
                    raise foreign(self.storage, night, part)

    @property
    def _accounts(self) -> list[str]:
        return sorted({one.account for one in self.receipts})

    def _copy(self, night: Partition, part: Part) -> None:
        file = self._file(night, part)
        data = checked(self.storage, night, part)
        with translate_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def _copied(self) -> Iterator[tuple[Partition, Part, Path]]:
        for one in self.receipts:
            for part in one.parts:
                if (file := self._file(one.night, part)).exists():
                    yield one.night, part, file

    def _file(self, night: Partition, part: Part) -> Path:
        account = f"{_ACCOUNT}={self._accounts.index(night.account)}"
        return self.folder / part.table / account / f"{_NIGHT}={night.snapshot_date}" / f"{part.number}.parquet"


def checked(storage: Storage, night: Partition, part: Part) -> bytes:
    """Return the bytes of a part, or raise an ExportError if they are not those that its receipt names."""
    name = part.name(night)
    data = storage.read(name, part.bytes + 1)
    if data is None or (len(data), digest_of(data)) != (part.bytes, part.digest):
        problem = "is missing, or does not match its receipt; run this again, or pull this night again"
        raise ExportError(f"{storage.address(name)} {problem}")
    return data


def foreign(storage: Storage, night: Partition, part: Part) -> ExportError:
    """Return the error for a part that does not hold what a pull writes."""
    return ExportError(f"{storage.address(part.name(night))} is no part that a pull wrote; pull this night again")


def newest_rows(table: Table) -> str:
    """Return the clause that leaves one row of each key, for tables whose key has no night."""
    newest = f"QUALIFY row_number() OVER (PARTITION BY {', '.join(table.key)} ORDER BY snapshot_date DESC) = 1"
    return "" if "snapshot_date" in table.key else newest


def _reader(files: str) -> str:
    types = f"{{'{_ACCOUNT}': INTEGER, '{_NIGHT}': DATE}}"
    return f"read_parquet({quoted(files)}, union_by_name = true, hive_partitioning = true, hive_types = {types})"


def _types(database: duckdb.DuckDBPyConnection, files: str) -> dict[str, str]:
    return {
        name: kind.replace('"', "") for name, kind, *_ in database.sql(f"DESCRIBE FROM {_reader(files)}").fetchall()
    }


def _fits(database: duckdb.DuckDBPyConnection, table: Table, files: str) -> bool:
    """Return whether parts have the columns of a table; those that a later version added may be missing."""
    columns, types = part_table(table).columns, _types(database, files)
    needed = ", ".join(quoted(column.name) for column in columns if not column.nullable)
    complete = f"count(DISTINCT name) FILTER (repetition_type = 'REQUIRED' AND name IN ({needed}))"
    least = database.sql(
        f"SELECT min(held) FROM (SELECT {complete} AS held FROM parquet_schema({quoted(files)}) GROUP BY file_name)"
    ).fetchall()
    return least == [(sum(not column.nullable for column in columns),)] and all(
        types.get(column.name, TYPES[column.type]) == TYPES[column.type] for column in columns
    )


def _is_readable(database: duckdb.DuckDBPyConnection, table: Table, file: str) -> bool:
    try:
        database.sql(f"SELECT max(hash(COLUMNS(*))) FROM {_reader(file)}").fetchall()
        return _fits(database, table, file)
    except require("duckdb").Error:
        return False
