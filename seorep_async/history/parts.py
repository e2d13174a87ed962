"""The parts of a dataset, checked by their digests, and as files that a query reads only when it needs them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partialmethod
from io import RawIOBase
from typing import Any

import attrs

from seorep_async.errors import ExportError
from seorep_async.old_export.database_file import TYPES
from seorep_async.old_export.night import Part, Partition, digest_of
from seorep_async.old_export.receipts import committed_receipts
from seorep_async.old_export.storage import Storage
from seorep_async.old_export.targets.dataset import part_table
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import table_named
from seorep_async.tables.optional import require

FILE = "filename"
"""Column of DuckDB that says from which file a row is."""
_READ_AHEAD = {"batch_size": 1 << 14, "batch_readahead": 1, "fragment_readahead": 1}


@attrs.frozen
class StoredPart:
    """A part in its place, as the receipt of its night names it."""

    storage: Storage
    night: Partition
    part: Part

    @property
    def table(self) -> str:
        return self.part.table

    def read(self) -> bytes:
        """Return its bytes, or raise an ExportError if they are not those that its receipt names."""
        name, part = self.part.name(self.night), self.part
        data = self.storage.read(name, part.bytes + 1)
        if data is None or (len(data), digest_of(data)) != (part.bytes, part.digest):
            problem = "is missing, or does not match its receipt; run this again, or pull this night again"
            raise ExportError(f"{self.storage.address(name)} {problem}")
        return data

    def foreign(self) -> ExportError:
        """Return the error for a part that does not hold what a pull writes."""
        address = self.storage.address(self.part.name(self.night))
        return ExportError(f"{address} is no part that a pull wrote; pull this night again")


def committed_parts(storage: Storage) -> list[StoredPart]:
    """Return the parts of every night of every account; raises as `committed_receipts`."""
    return [StoredPart(storage, one.night, part) for one in committed_receipts(storage) for part in one.parts]


def fits(table: Table, held: Mapping[str, tuple[str | None, bool]]) -> bool:
    """Return whether a part has the columns of a table; those that a later version added may be missing.

    `held` has, by the name of each column, its type in DuckDB and whether none of its values is null.
    """
    columns = part_table(table).columns
    known = {column.name for column in columns}
    if any(name not in known and name.lower() in {*known, FILE} for name in held):  # DuckDB takes one for the other
        return False
    return all(
        held[column.name][0] == TYPES[column.type] and (column.nullable or held[column.name][1])
        if column.name in held
        else column.nullable
        for column in columns
    )


def newest_rows(table: Table) -> str:
    """Return the clause that leaves one row of each key, for tables whose key has no night."""
    newest = f"QUALIFY row_number() OVER (PARTITION BY {', '.join(table.key)} ORDER BY snapshot_date DESC) = 1"
    return "" if "snapshot_date" in table.key else newest


class PartFile(RawIOBase):
    """A part of a dataset, read and checked by its digest when the first byte is needed."""

    def __init__(self, stored: StoredPart) -> None:
        self.stored = stored
        self._error: ExportError | None = None
        self._data, self._position = memoryview(b""), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self.stored.part.bytes)[whence]
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
            raise self.stored.foreign()

    def _checked(self) -> memoryview:
        try:
            data = self.stored.read()
            if not fits(table := table_named(self.stored.table), _held_in_memory(table, data)):
                raise self.stored.foreign()
        except ExportError as error:
            self._error = error
            raise
        self._data = memoryview(data)
        return self._data


def arrow_dataset(table: Table, parts: Sequence[PartFile]) -> Any:
    """Return the rows of parts, of which a query reads only the nights and columns that it needs."""
    ds = require("pyarrow.dataset")
    kind, account, date = ds.ParquetFileFormat(), ds.field("account"), ds.field("snapshot_date")
    nights = [part.stored.night for part in parts]
    fragments = [
        kind.make_fragment(part, None, (account == night.account) & (date == night.snapshot_date))
        for part, night in zip(parts, nights, strict=True)
    ]
    # by default, pyarrow reads 64 batches of 131,072 rows ahead
    scanner = partialmethod(ds.FileSystemDataset.scanner, **_READ_AHEAD)
    return type("PartsDataset", (ds.FileSystemDataset,), {"scanner": scanner})(fragments, arrow_schema(table), kind)


def _is_parquet(data: memoryview) -> bool:
    pa, pq = require("pyarrow"), require("pyarrow.parquet")
    try:
        for _ in pq.ParquetFile(pa.BufferReader(data)).iter_batches():
            pass
    except (pa.ArrowException, OSError):
        return False
    return True


def _held_in_memory(table: Table, data: bytes) -> dict[str, tuple[str | None, bool]]:
    """Return the columns of a part, for `fits`; none if it can't be read."""
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
