"""The parts of a dataset as tables of DuckDB: copied for a known question, or read when a query needs them.

DuckDB reads copies with a third of the memory, and without pyarrow, whose datasets import pandas; but it can't say
beforehand which parts a query needs.
"""

from __future__ import annotations

import datetime as dt
import glob
import os
from collections.abc import Collection, Iterator, Sequence
from functools import partialmethod
from io import RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seorep_async.errors import ExportError
from seorep_async.export.atomic_replace import translate_errors
from seorep_async.export.database_file import TYPES, as_name, make_table, quoted
from seorep_async.export.night import Part, Partition, Receipt, digest_of
from seorep_async.export.storage import Storage, each
from seorep_async.export.targets.dataset import part_table
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import table_named
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb

COPY_SETTINGS = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "threads": "1",  # each further one takes some 60 MB for what it has unpacked
}
"""Of the connection that reads the copies: nothing but this package's own questions."""
_READ_AHEAD = {"batch_size": 1 << 14, "batch_readahead": 1, "fragment_readahead": 1}
_FILE = "filename"
"""Column of DuckDB that says which copy a row is from."""


@attrs.frozen
class CopiedParts:
    """The parts of a dataset that are asked for, checked by their digests before they are read.

    A private copy can't change while it is read. Its name numbers the account, which may have any characters.
    """

    storage: Storage
    receipts: Sequence[Receipt]
    folder: Path
    connection: duckdb.DuckDBPyConnection
    accounts: Sequence[str] = attrs.field(init=False)

    @accounts.default
    def _(self) -> Sequence[str]:
        return sorted({one.account for one in self.receipts})

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
        files = glob.escape(str(self.folder / table.name)) + "/*.parquet"
        if not all(_fits(self.connection, table, glob.escape(one)) for one in _of_each_form(self.connection, files)):
            self.check()
        held = _types(self.connection, files)
        columns = [
            as_name(column.name) if column.name in held else f"NULL::{TYPES[column.type]} AS {as_name(column.name)}"
            for column in part_table(table).columns
        ]
        accounts = ", ".join(map(quoted, self.accounts))
        fact = f"split_part(parse_filename({_FILE}), '_', {{}})"
        labels = f"[{accounts}][{fact.format(1)}::INT + 1] AS account, {fact.format(2)}::DATE AS snapshot_date"
        rows = f"SELECT {labels}, {', '.join(columns)} FROM {_reader(files)}"
        self.connection.execute(f"CREATE VIEW {table.name} AS FROM ({rows}) {newest_rows(table)}")

    def check(self) -> None:
        """Raise an ExportError for the first part that no pull wrote, if any."""
        with require("duckdb").connect(config=COPY_SETTINGS) as database:  # the other may be out of order
            for night, part, file in self._copied():
                if not _is_readable(database, table_named(part.table), glob.escape(str(file))):
                    raise foreign(self.storage, night, part)

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
        account = self.accounts.index(night.account)
        return self.folder / part.table / f"{account}_{night.snapshot_date}_{part.number}.parquet"


class PartFile(RawIOBase):
    """A part of a dataset, read and checked by its digest when the first byte is needed."""

    def __init__(self, storage: Storage, night: Partition, part: Part) -> None:
        self.night, self.table = night, part.table
        self._storage, self._part = storage, part
        self._error: ExportError | None = None
        self._data, self._position = memoryview(b""), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._part.bytes)[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = (self._data or self._checked())[self._position :][: len(buffer)]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def check(self, *, decode: bool) -> None:
        """Raise the error for which it could not be read, if it was tried; find one in its rows, if asked to."""
        if decode and self._data and not _is_parquet(self._data):
            self._error = foreign(self._storage, self.night, self._part)
        if self._error is not None:
            raise self._error

    def _checked(self) -> memoryview:
        try:
            data = checked(self._storage, self.night, self._part)
            if not _has_columns(table_named(self.table), data):
                raise foreign(self._storage, self.night, self._part)
        except ExportError as error:
            self._error = error
            raise
        self._data = memoryview(data)
        return self._data


def arrow_dataset(table: Table, parts: Sequence[PartFile]) -> Any:
    """Return the rows of parts, of which a query reads only the nights and columns that it needs."""
    ds = require("pyarrow.dataset")
    kind, account, night = ds.ParquetFileFormat(), ds.field("account"), ds.field("snapshot_date")
    fragments = [
        kind.make_fragment(part, None, (account == part.night.account) & (night == part.night.snapshot_date))
        for part in parts
    ]
    # by default, pyarrow reads 64 batches of 131,072 rows ahead
    scanner = partialmethod(ds.FileSystemDataset.scanner, **_READ_AHEAD)
    return type("PartsDataset", (ds.FileSystemDataset,), {"scanner": scanner})(fragments, arrow_schema(table), kind)


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
    return f"read_parquet({quoted(files)}, union_by_name = true, hive_partitioning = false, {_FILE} = true)"


def _of_each_form(database: duckdb.DuckDBPyConnection, files: str) -> list[str]:
    """Return one file of each form: parts of one version have the same columns and types."""
    facts = "concat_ws(' ', name, type, converted_type, logical_type, repetition_type, num_children)"
    forms = (
        f"SELECT file_name, string_agg({facts}, ',') AS form FROM parquet_schema({quoted(files)}) GROUP BY file_name"
    )
    return [file for (file,) in database.execute(f"SELECT min(file_name) FROM ({forms}) GROUP BY form").fetchall()]


def _types(database: duckdb.DuckDBPyConnection, files: str) -> dict[str, str]:
    return {
        name: kind.replace('"', "") for name, kind, *_ in database.execute(f"DESCRIBE FROM {_reader(files)}").fetchall()
    }


def _fits(database: duckdb.DuckDBPyConnection, table: Table, files: str) -> bool:
    """Return whether parts have the columns of a table; those that a later version added may be missing."""
    columns, types = part_table(table).columns, _types(database, files)
    query = f"SELECT name FROM parquet_schema({quoted(files)}) WHERE repetition_type = 'REQUIRED'"
    required = {name for (name,) in database.execute(query).fetchall()}
    known = {column.name for column in columns}
    return (
        all(column.nullable or column.name in required for column in columns)
        and all(name in known or name.lower() not in known for name in types)  # DuckDB takes one for the other
        and all(types.get(column.name, TYPES[column.type]) == TYPES[column.type] for column in columns)
    )


def _is_readable(database: duckdb.DuckDBPyConnection, table: Table, file: str) -> bool:
    try:
        database.execute(f"SELECT max(hash(COLUMNS(*))) FROM {_reader(file)}").fetchall()
        return _fits(database, table, file)
    except require("duckdb").Error:
        return False


def _is_parquet(data: memoryview) -> bool:
    pa, pq = require("pyarrow"), require("pyarrow.parquet")
    try:
        for _ in pq.ParquetFile(pa.BufferReader(data)).iter_batches():
            pass
    except (pa.ArrowException, OSError):
        return False
    return True


def _has_columns(table: Table, data: bytes) -> bool:
    """Return whether a part has the columns of its table; those that a later version added may be missing."""
    pa, pq = require("pyarrow"), require("pyarrow.parquet")
    try:
        held = {field.name: field for field in pq.read_schema(pa.BufferReader(data))}
    except (pa.ArrowException, OSError):
        return False
    fields = [field for field in arrow_schema(table) if field.name not in ("account", "snapshot_date")]
    return all(
        held[field.name].type == field.type and held[field.name].nullable <= field.nullable
        if field.name in held
        else field.nullable
        for field in fields
    )
