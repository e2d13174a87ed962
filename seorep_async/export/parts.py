"""The parts of a dataset: Parquet files of one table, made, staged and read back by number and digest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seorep_async.errors import ExportError
from seorep_async.export.contents import Contents
from seorep_async.export.formats import Format, write_table
from seorep_async.export.night import Part, Partition, Receipt, digest_of
from seorep_async.export.receipts import busy, holds, read_receipt
from seorep_async.export.storage import Storage, each
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import table_named
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_PARTITION_COLUMNS = 2
"""The first columns of every table, account and snapshot date, stand in the path only."""


@cache
def part_table(table: Table) -> Table:
    """Return a table with the columns of its parts: all but those of the partition."""
    return Table(table.name, table.description, table.columns[_PARTITION_COLUMNS:], table.key)


def write_part(
    folder: Path, table: Table, number: int, chunks: Iterable[Any], check: Callable[[], None] = lambda: None
) -> tuple[Path, Part]:
    """Write a part of a table as a file in a local folder; an exception of `check` ends the writing."""
    own, file = part_table(table), folder / f"{table.name}.parquet"
    rows = (chunk.select([column.name for column in own.columns]) for chunk in chunks)
    write_table(file, Format.PARQUET, own, rows, check)
    data = file.read_bytes()
    count = require("pyarrow.parquet").read_metadata(file).num_rows
    return file, Part(table.name, number, count, len(data), digest_of(data))


def write_parts(
    contents: Contents, number: int, tables: Iterable[Table], check: Callable[[], None]
) -> list[tuple[Path, Part]]:
    """Write a part of each table, but no empty ones except part 0: each table can then be read."""
    parts = (write_part(contents.area.making, table, number, contents.chunks(table), check) for table in tables)
    return [(file, part) for file, part in parts if part.rows or number == 0]


def stage(storage: Storage, night: Partition, pull: str, files: Iterable[tuple[Path, Part]]) -> None:
    """Put finished parts where a commit finds them."""
    each(storage.put, [(file, part.staged(night, pull)) for file, part in files])


def check_staged(storage: Storage, night: Partition, pull: str, parts: Iterable[Part]) -> None:
    """Check the bytes of parts that others have staged, perhaps long ago; skip parts that are in place already."""

    def check(part: Part) -> None:
        if holds(storage, part.staged(night, pull), part) is False:
            raise lost(storage, night, read_receipt(storage, night), part.staged(night, pull))

    each(check, ((part,) for part in parts))


def read_part(storage: Storage, night: Partition, pull: str, part: Part) -> pa.Table:
    """Return the rows of a part, in place or staged, in the columns of this version; ExportError if lost or damaged."""
    rows = rows_of(storage, night, pull, part)
    if rows is None:
        raise lost(storage, night, read_receipt(storage, night), part.name(night))
    return rows


def rows_of(storage: Storage, night: Partition, pull: str, part: Part) -> pa.Table | None:
    """Return the rows of a part as `read_part` does, or None if it is lost or damaged."""
    found = (storage.read(name, part.bytes + 1) for name in (part.staged(night, pull), part.name(night)))
    data = next((data for data in found if data is not None and digest_of(data) == part.digest), None)
    return None if data is None else decoded(table_named(part.table), data)


def decoded(table: Table, data: bytes | None) -> pa.Table | None:
    """Return the rows of a part in the columns of this version, or None if it is no part of the table."""
    pa = require("pyarrow")
    schema = arrow_schema(part_table(table))
    try:
        rows = require("pyarrow.parquet").read_table(pa.BufferReader(data or b""))
        columns = [
            rows[field.name] if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)
    except (pa.ArrowException, OSError, TypeError, ValueError, KeyError):
        return None


def lost(storage: Storage, night: Partition, earlier: Receipt | None, name: str) -> ExportError:
    """Return the error for a part that is lost or damaged, or that another pull replaces since it was looked up."""
    if read_receipt(storage, night) != earlier:
        return busy(storage, night)
    again = "pull this night again, or plan its shards again with restart=True"
    return ExportError(f"{storage.address(name)} is missing, or does not match its receipt; {again}")
