"""The parts of a dataset as tables of DuckDB: copied for a known question, or read when a query needs them.

DuckDB reads copies with a third of the memory, and without pyarrow, whose datasets import pandas; but it can't say
beforehand which parts a query needs.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import glob
import os
import shutil
import tempfile
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from functools import partialmethod
from io import RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seorep_async.errors import ExportError
from seorep_async.export.atomic_replace import os_message
from seorep_async.export.database_file import TYPES, as_name, quoted
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
_TOGETHER = 64
_TRIES = 100


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
    _copied: dict[Path, tuple[Partition, Part]] = attrs.field(init=False, factory=dict)

    @accounts.default
    def _(self) -> Sequence[str]:
        return sorted({one.account for one in self.receipts})

    def nights(self, table: Table, account: str) -> list[dt.date]:
        """Return the nights of an account on which a table has rows, in order."""
        every = (one for one in self.receipts if one.account == account)
        return sorted(
            one.snapshot_date for one in every if any(part.rows for part in one.parts if part.table == table.name)
        )

    def show(
        self,
        table: Table,
        account: str | None = None,
        nights: Collection[dt.date] | None = None,
        *,
        at_once: Sequence[str] = (),
    ) -> None:
        """Copy a table, or only its rows of an account or of some nights, and make a view of it.

        As in a database, it has one row of each key, that of the newest night. If columns are given as `at_once`, it is
        a table of these, so that the parts are read but once.

        ExportError: a part can't be read, does not match its receipt, or no pull wrote it.
        """
        chosen = {
            self._file(one.night, part): (one.night, part)
            for one in self.receipts
            if account in (None, one.account) and (nights is None or one.snapshot_date in nights)
            for part in one.parts
            if part.table == table.name
        }
        with _translated(self.folder):
            (self.folder / table.name).mkdir()
        files = list(chosen)
        for first in range(0, len(files), _TOGETHER):  # a signal waits for these
            each(self._copy, [(file, *chosen[file]) for file in files[first : first + _TOGETHER]])
        self._copied.update(chosen)
        self._check_rows(files)
        forms = [_no_rows(table), *(self._rows(table, alike) for alike in self._of_each_form(files))]
        kind, columns = ("TABLE", ", ".join(at_once)) if at_once else ("VIEW", "*")
        rows = f"SELECT {columns} FROM ({' UNION ALL '.join(forms)}) {newest_rows(table)}"
        self.connection.execute(f"CREATE {kind} {table.name} AS {rows}")

    def check(self) -> None:
        """Raise an ExportError for the first part that no pull wrote, if any."""
        with require("duckdb").connect(config=COPY_SETTINGS) as database:  # the other may be out of order
            for file, (night, part) in self._copied.items():
                if file.exists() and not _is_readable(database, table_named(part.table), file):
                    raise foreign(self.storage, night, part)

    def _copy(self, file: Path, night: Partition, part: Part) -> None:
        data = checked(self.storage, night, part)
        with _translated(self.folder):
            file.write_bytes(data)

    def _check_rows(self, files: Collection[Path]) -> None:
        """Refuse a part with another number of rows than its receipt says, by which nights are chosen."""
        query = f"SELECT file_name, num_rows FROM parquet_file_metadata({_names(files)})"
        for name, rows in self.connection.execute(query).fetchall() if files else ():
            if rows != self._copied[Path(name)][1].rows:
                raise foreign(self.storage, *self._copied[Path(name)])

    def _of_each_form(self, files: Collection[Path]) -> list[list[Path]]:
        """Return the files of each form: parts of one version have the same columns and types."""
        facts = "concat_ws(' ', name, type, converted_type, logical_type, repetition_type, num_children)"
        schemas = f"FROM parquet_schema({_names(files)}) GROUP BY file_name"
        forms = f"SELECT file_name, string_agg({facts}, ',') AS form {schemas}"
        query = f"SELECT list(file_name ORDER BY file_name) FROM ({forms}) GROUP BY form ORDER BY ALL"
        return [list(map(Path, of)) for (of,) in self.connection.execute(query).fetchall()] if files else []

    def _rows(self, table: Table, files: Sequence[Path]) -> str:
        """Return a query for the rows of parts of one form, or refuse them."""
        held = _held(self.connection, files[0])
        if not _fits(table, held):
            raise foreign(self.storage, *self._copied[files[0]])
        columns = [
            as_name(column.name) if column.name in held else f"NULL::{TYPES[column.type]}"
            for column in part_table(table).columns
        ]
        accounts = ", ".join(map(quoted, self.accounts))
        fact = f"split_part(parse_filename({_FILE}), '_', {{}})"
        labels = f"[{accounts}][{fact.format(1)}::INT + 1], {fact.format(2)}::DATE"
        return f"SELECT {labels}, {', '.join(columns)} FROM {_reader(files, f', {_FILE} = true')}"

    def _file(self, night: Partition, part: Part) -> Path:
        account = self.accounts.index(night.account)
        return self.folder / part.table / f"{account}_{night.snapshot_date}_{part.number}.parquet"


@contextlib.contextmanager
def folder_for_copies() -> Generator[Path, None, None]:
    """Provide a folder, and remove it, whatever signals come meanwhile.

    ExportError: there is no place for it, or DuckDB can't read files there.
    """
    with _translated("a folder of temporary files"):
        folder = Path(tempfile.mkdtemp(prefix="seorep-"))
    try:
        with _translated(folder):
            str(folder).encode()
            if os.sep == "/" and ("\\" in str(folder) or "/?" in str(folder)):
                raise OSError("DuckDB can't read names with a backslash, or that begin with a question mark")
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    interrupt = None
    for _ in range(_TRIES):
        try:
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():  # an interrupted copy may still have been written into it
                break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


@contextlib.contextmanager
def _translated(folder: Path | str) -> Generator[None, None, None]:
    """Translate the system's errors into one that names the folder of copies."""
    try:
        yield
    except (OSError, UnicodeError) as error:
        raise unusable(folder, os_message(error)) from error


def unusable(folder: Path | str, problem: str) -> ExportError:
    """Return the error for a folder in which no copies can be written, or not read."""
    return ExportError(f"can't keep copies of parts in {folder}: {problem}; name another in TMPDIR")


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

    def check(self, error: Exception) -> None:
        """Raise an ExportError if this part is the reason for the error of a query."""
        if self._error is not None and self._error.message in str(error):
            raise self._error
        if "arrow" in str(error) and self._data and not _is_parquet(self._data):
            raise foreign(self._storage, self.night, self._part)

    def _checked(self) -> memoryview:
        try:
            data = checked(self._storage, self.night, self._part)
            if not _fits(table := table_named(self.table), _held_in_memory(table, data)):
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


def _names(files: Iterable[Path]) -> str:
    return f"[{', '.join(quoted(glob.escape(str(file))) for file in files)}]"


def _reader(files: Iterable[Path], options: str = "") -> str:
    return f"read_parquet({_names(files)}, hive_partitioning = false{options})"


def _no_rows(table: Table) -> str:
    columns = [f"NULL::{TYPES[column.type]} AS {as_name(column.name)}" for column in table.columns]
    return f"SELECT {', '.join(columns)} WHERE false"


def _fits(table: Table, held: Mapping[str, tuple[str | None, bool]]) -> bool:
    """Return whether a part has the columns of a table; those that a later version added may be missing.

    `held` has, by the name of each column, its type in DuckDB and whether none of its values is null.
    """
    columns = part_table(table).columns
    known = {column.name for column in columns}
    if any(name not in known and name.lower() in {*known, _FILE} for name in held):  # DuckDB takes one for the other
        return False
    return all(
        held[column.name][0] == TYPES[column.type] and (column.nullable or held[column.name][1])
        if column.name in held
        else column.nullable
        for column in columns
    )


def _held(database: duckdb.DuckDBPyConnection, file: Path) -> dict[str, tuple[str | None, bool]]:
    """Return the columns of a copy, for `_fits`."""
    query = f"SELECT name FROM parquet_schema({_names([file])}) WHERE repetition_type = 'REQUIRED'"
    required = {name for (name,) in database.execute(query).fetchall()}
    columns = database.execute(f"DESCRIBE FROM {_reader([file])}").fetchall()
    return {name: (kind.replace('"', ""), name in required) for name, kind, *_ in columns}


def _is_readable(database: duckdb.DuckDBPyConnection, table: Table, file: Path) -> bool:
    try:
        database.execute(f"SELECT max(hash(COLUMNS(*))) FROM {_reader([file])}").fetchall()
        return _fits(table, _held(database, file))
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


def _held_in_memory(table: Table, data: bytes) -> dict[str, tuple[str | None, bool]]:
    """Return the columns of a part, for `_fits`; none if it can't be read."""
    pa, pq = require("pyarrow"), require("pyarrow.parquet")
    known = [(field.type, TYPES[column.type]) for field, column in zip(arrow_schema(table), table.columns, strict=True)]
    try:
        held = pq.read_schema(pa.BufferReader(data))
    except (pa.ArrowException, OSError):
        return {}
    # equal types may have different hashes
    return {
        one.name: (next((name for kind, name in known if kind == one.type), None), not one.nullable) for one in held
    }
