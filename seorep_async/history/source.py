"""The source of a history: a database or a dataset that pulls left behind, opened only to read."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partialmethod
from io import RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seorep_async.errors import ConfigurationError, ExportError, shown
from seorep_async.export.atomic_replace import resolve
from seorep_async.export.database_file import (
    LATEST_VIEW,
    TYPES,
    all_columns,
    connected,
    first_line,
    shadowing_names,
)
from seorep_async.export.night import Part, Partition
from seorep_async.export.receipts import committed_receipts
from seorep_async.export.storage import Storage, is_address, storage_of
from seorep_async.history.copied_parts import SETTINGS as COPY_SETTINGS
from seorep_async.history.copied_parts import CopiedParts, checked, foreign, newest_rows
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import all_tables, pulls_table, table_named
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb

_SETTINGS = {"enable_external_access": "false", "python_enable_replacements": "false"}
_READ_AHEAD = {"batch_size": 1 << 14, "batch_readahead": 1, "fragment_readahead": 1}
_MOST_NAMED = 10
_PARTS = "parts_of_"


@attrs.frozen
class History:
    """What pulls left behind, as long as it is open.

    Attributes:
        label: the source's name in messages.
        connection: a connection to DuckDB with the eight tables, and the view `keyword_rankings_latest`. It can't reach
            any file, and its settings are locked. The tables of a dataset are views of what is committed: as in a
            database, they have one row of each campaign, keyword and date, that of the newest night.
    """

    label: str
    connection: duckdb.DuckDBPyConnection

    def accounts(self) -> list[str]:
        """Return the names of its accounts."""
        return [name for (name,) in self.connection.execute("SELECT DISTINCT account FROM pulls ORDER BY 1").fetchall()]

    def account(self, name: str | None) -> str:
        """Return the only account, if no name is given, or else the named one.

        ConfigurationError: there are several, or none of this name.
        """
        known = self.accounts()
        if name is None and len(known) == 1:
            return known[0]
        if name in known:
            return str(name)
        names = listed(map(shown, known))
        if name is None:
            raise ConfigurationError(f"{self.label} has several accounts; name one with account=…: {names}")
        raise ConfigurationError(f"there is no account {shown(name)} in {self.label}; it has {names}")

    def nights(self, account: str) -> list[dt.date]:
        """Return the nights of an account for which the campaign feed was pulled and any row was written, in order."""
        query = """SELECT DISTINCT snapshot_date FROM pulls
            WHERE account = ? AND list_contains(string_split(feeds, ','), 'campaign') AND rows > 0 ORDER BY 1"""
        return [night for (night,) in self.connection.execute(query, [account]).fetchall()]


@attrs.frozen
class HistoryOfNights(History):
    """A history for questions that say beforehand what they need; of a dataset, `pulls` alone is open at first."""

    parts: CopiedParts | None = None

    def choose(self, account: str, nights: Collection[dt.date]) -> None:
        """Open the rankings and the failures of some nights of an account, and its campaigns."""
        if self.parts is not None:
            for name in ("keyword_rankings", "failures"):
                self.parts.show(table_named(name), account, nights)
            self.parts.show(table_named("campaigns"), account)


@contextmanager
def open_history(
    source: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    limits: Mapping[str, str] | None = None,
) -> Generator[History, None, None]:
    """Open a database or a dataset to read it; a pull can't write a database meanwhile.

    Args:
        source: a file, such as `rankings.duckdb`, or a dataset: a folder, or an address such as `s3://bucket/rankings/`.
        storage_options: of an object store, by obstore's names.
        limits: further settings of DuckDB, such as `memory_limit`.

    Raises:
        ConfigurationError: no pull wrote the source, or it was changed.
        ExportError: it is being written, or is damaged.
        ImportError: an extra is missing.
    """
    with _opened(source, storage_options, _dataset, limits) as history:
        yield history


@contextmanager
def open_nights(
    source: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> Generator[HistoryOfNights, None, None]:
    """Open a database or a dataset for questions about some nights; arguments and errors as of `open_history`."""
    with _opened(source, storage_options, _copied_dataset) as history:
        yield history


@contextmanager
def _opened(
    source: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    dataset: Callable[[str, Storage], AbstractContextManager[HistoryOfNights]],
    limits: Mapping[str, str] | None = None,
) -> Generator[HistoryOfNights, None, None]:
    if not isinstance(source, str | os.PathLike) or not isinstance(place := os.fspath(source), str) or "\0" in place:
        raise ConfigurationError(f"source must be a path or an address, got {shown(source)}")
    duckdb, storage = require("duckdb"), storage_of(place, storage_options)
    is_dataset = is_address(place) or Path(place).is_dir()
    with ExitStack() as opened:
        try:
            history = opened.enter_context(dataset(place, storage) if is_dataset else _database(place))
            for name, value in {"enable_progress_bar": "false", **(limits or {}), "lock_configuration": "true"}.items():
                history.connection.execute(f"SET {name} = '{value}'")
            known = history.connection.execute("FROM pulls SELECT 1 LIMIT 1").fetchall()  # computes no column
        except duckdb.Error as error:
            raise _refusal(place, first_line(error)) from error
        if not known:
            raise _refusal(place, "no pull wrote it")
        yield history


def listed(names: Iterable[str]) -> str:
    """Return names for a message, of many the last ones."""
    every = list(names)
    return ", ".join(["…", *every[-_MOST_NAMED:]] if len(every) > _MOST_NAMED else every)


@contextmanager
def _database(place: str) -> Generator[HistoryOfNights, None, None]:
    path = resolve(Path(place))
    if not path.is_file():
        raise _refusal(place, "there is no such file")
    with connected(path, path, to_read=_SETTINGS) as database:
        for problem in shadowing_names(database):
            raise _refusal(place, problem)
        found = all_columns(database)
        for table in all_tables():
            for column in table.columns:
                held = found.get(table.name, {}).get(column.name)
                if held is None or held.type != TYPES[column.type]:
                    problem = f"its table {table.name} has no column {column.name} of type {TYPES[column.type]}"
                    raise _refusal(place, f"{problem}; if it is a pull's, pull into it again")
        yield HistoryOfNights(place, database)


@contextmanager
def _copied_dataset(place: str, storage: Storage) -> Generator[HistoryOfNights, None, None]:
    duckdb, receipts = require("duckdb"), committed_receipts(storage)
    with (
        tempfile.TemporaryDirectory(prefix="seorep-") as folder,
        duckdb.connect(config=COPY_SETTINGS) as database,
    ):
        parts = CopiedParts(storage, receipts, Path(folder), database)
        try:
            parts.show(pulls_table())
            yield HistoryOfNights(place, database, parts)
        except duckdb.Error:
            parts.check()
            raise


@contextmanager
def _dataset(place: str, storage: Storage) -> Generator[HistoryOfNights, None, None]:
    duckdb, pa = require("duckdb"), require("pyarrow")
    receipts = committed_receipts(storage)
    parts = [_PartFile(storage, one.night, part) for one in receipts for part in one.parts]
    with duckdb.connect(config=_SETTINGS) as database:
        # DuckDB doesn't know how many rows the parts have, and would guess wrong: joins stay as a query has them
        database.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        for table in all_tables():
            of_table = [part for part in parts if part.table == table.name]
            database.register(f"{_PARTS}{table.name}", _arrow_dataset(table, of_table))
            database.execute(f"CREATE VIEW {table.name} AS FROM {_PARTS}{table.name} {newest_rows(table)}")
        database.execute(LATEST_VIEW)
        try:
            yield HistoryOfNights(place, database)
        except (duckdb.Error, pa.ArrowException) as error:
            for part in parts:
                part.check(decode=_PARTS in str(error))
            raise


def _arrow_dataset(table: Table, parts: Sequence[_PartFile]) -> Any:
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


class _PartFile(RawIOBase):
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
        if decode and self._data and not _is_readable(self._data):
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


def _is_readable(data: memoryview) -> bool:
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


def _refusal(place: str, problem: str) -> ConfigurationError:
    return ConfigurationError(f"can't read {place}: {problem}; name a database or a dataset that a pull wrote")
