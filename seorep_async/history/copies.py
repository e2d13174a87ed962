"""Copies of a dataset's parts as tables of DuckDB, for a known question.

DuckDB reads copies with a third of the memory of `PartFile`, and without pyarrow, whose datasets import pandas; but it
can't say beforehand which parts a query needs.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import glob
import os
import shutil
import tempfile
from collections.abc import Collection, Generator, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from seorep_async.errors import ExportError
from seorep_async.history.parts import FILE, StoredPart, fits, newest_rows
from seorep_async.old_export.atomic_replace import os_message
from seorep_async.old_export.database_file import TYPES, as_name, first_line, quoted
from seorep_async.old_export.storage import each
from seorep_async.old_export.targets.dataset import part_table
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import table_named
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb

_SETTINGS = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "threads": "1",  # each further one takes some 60 MB for what it has unpacked
}
"""Nothing but this package's own questions reads the copies."""
_TOGETHER = 64
_TRIES = 100


@attrs.frozen
class CopiedParts:
    """The parts of a dataset that are asked for, checked by their digests before they are read.

    A private copy can't change while it is read. Its name numbers the account, which may have any characters.
    """

    parts: Sequence[StoredPart]
    folder: Path
    connection: duckdb.DuckDBPyConnection
    _copied: dict[Path, StoredPart] = attrs.field(init=False, factory=dict)

    @cached_property
    def accounts(self) -> list[str]:
        return sorted({one.night.account for one in self.parts})

    def nights(self, table: Table, account: str) -> list[dt.date]:
        """Return the nights of an account on which a table has rows, in order."""
        filled = (one.night for one in self.parts if one.table == table.name and one.part.rows)
        return sorted({night.snapshot_date for night in filled if night.account == account})

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
            self._file(one): one
            for one in self.parts
            if one.table == table.name
            and account in (None, one.night.account)
            and (nights is None or one.night.snapshot_date in nights)
        }
        with _translated(self.folder):
            (self.folder / table.name).mkdir()
        files = list(chosen)
        for first in range(0, len(files), _TOGETHER):  # a signal waits for these
            each(self._copy, [(file, chosen[file]) for file in files[first : first + _TOGETHER]])
        self._copied.update(chosen)
        self._check_rows(files)
        forms = [_no_rows(table), *(self._rows(table, alike) for alike in self._of_each_form(files))]
        kind, columns = ("TABLE", ", ".join(at_once)) if at_once else ("VIEW", "*")
        rows = f"SELECT {columns} FROM ({' UNION ALL '.join(forms)}) {newest_rows(table)}"
        self.connection.execute(f"CREATE {kind} {table.name} AS {rows}")

    def check(self) -> None:
        """Raise an ExportError for the first part that no pull wrote, if any."""
        with require("duckdb").connect(config=_SETTINGS) as database:  # the other may be out of order
            for file, part in self._copied.items():
                if file.exists() and not _is_readable(database, table_named(part.table), file):
                    raise part.foreign()

    def _copy(self, file: Path, part: StoredPart) -> None:
        data = part.read()
        with _translated(self.folder):
            file.write_bytes(data)

    def _check_rows(self, files: Collection[Path]) -> None:
        """Refuse a part with another number of rows than its receipt says, by which nights are chosen."""
        query = f"SELECT file_name, num_rows FROM parquet_file_metadata({_names(files)})"
        for name, rows in self.connection.execute(query).fetchall() if files else ():
            if rows != (copied := self._copied[Path(name)]).part.rows:
                raise copied.foreign()

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
        if not fits(table, held):
            raise self._copied[files[0]].foreign()
        columns = [
            as_name(column.name) if column.name in held else f"NULL::{TYPES[column.type]}"
            for column in part_table(table).columns
        ]
        accounts = ", ".join(map(quoted, self.accounts))
        fact = f"split_part(parse_filename({FILE}), '_', {{}})"
        labels = f"[{accounts}][{fact.format(1)}::INT + 1], {fact.format(2)}::DATE"
        return f"SELECT {labels}, {', '.join(columns)} FROM {_reader(files, f', {FILE} = true')}"

    def _file(self, one: StoredPart) -> Path:
        account = self.accounts.index(one.night.account)
        return self.folder / one.table / f"{account}_{one.night.snapshot_date}_{one.part.number}.parquet"


@contextlib.contextmanager
def copied_parts(parts: Sequence[StoredPart]) -> Generator[CopiedParts, None, None]:
    """Provide parts to copy, and a connection that reads the copies, until it is left.

    ExportError: there is no place for copies, DuckDB can't read them there, or no pull wrote them.
    """
    duckdb = require("duckdb")
    with _folder() as folder, duckdb.connect(config=_SETTINGS) as database:
        copied = CopiedParts(parts, folder, database)
        try:
            yield copied
        except duckdb.Error as error:
            copied.check()
            raise _unusable(folder, first_line(error)) from error


@contextlib.contextmanager
def _folder() -> Generator[Path, None, None]:
    """Provide a folder, and remove it, whatever signals come meanwhile."""
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
        raise _unusable(folder, os_message(error)) from error


def _unusable(folder: Path | str, problem: str) -> ExportError:
    """Return the error for a folder in which no copies can be written, or not read."""
    return ExportError(f"can't keep copies of parts in {folder}: {problem}; name another in TMPDIR")


def _names(files: Iterable[Path]) -> str:
    return f"[{', '.join(quoted(glob.escape(str(file))) for file in files)}]"


def _reader(files: Iterable[Path], options: str = "") -> str:
    return f"read_parquet({_names(files)}, hive_partitioning = false{options})"


def _no_rows(table: Table) -> str:
    columns = [f"NULL::{TYPES[column.type]} AS {as_name(column.name)}" for column in table.columns]
    return f"SELECT {', '.join(columns)} WHERE false"


def _held(database: duckdb.DuckDBPyConnection, file: Path) -> dict[str, tuple[str | None, bool]]:
    """Return the columns of a copy, for `fits`."""
    query = f"SELECT name FROM parquet_schema({_names([file])}) WHERE repetition_type = 'REQUIRED'"
    required = {name for (name,) in database.execute(query).fetchall()}
    columns = database.execute(f"DESCRIBE FROM {_reader([file])}").fetchall()
    return {name: (kind.replace('"', ""), name in required) for name, kind, *_ in columns}


def _is_readable(database: duckdb.DuckDBPyConnection, table: Table, file: Path) -> bool:
    try:
        database.execute(f"SELECT max(hash(COLUMNS(*))) FROM {_reader([file])}").fetchall()
        return fits(table, _held(database, file))
    except require("duckdb").Error:
        return False
