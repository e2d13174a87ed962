"""The formats of a target, and how a report's rows are staged for each until the target is written."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from seorep_async.errors import ExportError
from seorep_async.export.checkpoint import fits
from seorep_async.export.staged_report import StagedReport
from seorep_async.models import RankingTotals
from seorep_async.tables.arrow import arrow_schema, batch_of_plain, plain_columns
from seorep_async.tables.columns import ColumnType, Table, as_json
from seorep_async.tables.declared import totals_values
from seorep_async.tables.optional import require
from seorep_async.tables.text import RFC_4180, CsvOptions, columns_as_json_lines, csv_cells, csv_header, csv_lines

GROUP_ROWS = 1 << 16
"""Rows in each Arrow table and each Parquet row group, so that the same rows give the same groups."""
_FEW_ROWS = 100
_JOINED_ROWS = 1 << 12
_SPARE_LEVELS = 50
_PACK = msgspec.msgpack.Encoder()
_PACKED_TYPES: dict[ColumnType, Any] = {
    ColumnType.DATE: list[dt.date | None],
    ColumnType.DATETIME: list[dt.datetime | None],
}


class Format(enum.Enum):
    """The format of a target; the value is the ending of its name."""

    CSV = ".csv"
    JSON_LINES = ".jsonl"
    PARQUET = ".parquet"
    DUCKDB = ".duckdb"

    @property
    def is_text(self) -> bool:
        """Whether its rows are staged as the target's text; those of the others as columns for Arrow."""
        return self in (Format.CSV, Format.JSON_LINES)

    def require_extra(self) -> None:
        """Import its libraries; an ImportError says how to install a missing extra."""
        if self is Format.DUCKDB:
            require("duckdb")
        if not self.is_text:
            require("pyarrow.parquet" if self is Format.PARQUET else "pyarrow")


def prepare(
    kind: Format, table: Table, columns: Sequence[Sequence[Any]], csv: CsvOptions = RFC_4180
) -> Sequence[Sequence[Any]]:
    """Return columns in the form for `encode`, some for another table too: the cells of CSV; raises as `encode`."""
    return csv_cells(table, columns, csv) if kind is Format.CSV else columns


def encode(kind: Format, table: Table, columns: Sequence[Sequence[Any]], csv: CsvOptions = RFC_4180) -> bytes:
    """Return columns of a table, prepared for the format, in their staged form.

    Raises:
        OverflowError: an integer needs more than 64 bits, and the format has no more.
        RecursionError: an unknown field is nested too deep.
        ValueError: a string is not valid Unicode.
    """
    if kind is Format.CSV:
        return csv_lines(columns, csv)
    if kind is Format.JSON_LINES:
        return columns_as_json_lines(table, columns)
    plain = plain_columns(table, columns)
    if len(plain[0]) < _FEW_ROWS:
        # a record batch of one row takes 110 µs and 4 kB to make, and 33 kB of memory to read
        _check_integers(table, plain)
        return _PACK.encode(plain)
    data: bytes = batch_of_plain(table, plain).serialize().to_pybytes()
    return data


def arrow_tables(table: Table, reports: Iterable[StagedReport]) -> Iterator[Any]:
    """Yield the rows of staged reports as Arrow tables of `GROUP_ROWS` rows each, and a last one of the rest."""
    pa = require("pyarrow")
    waiting: list[Any] = []
    rows = 0
    for batch in _record_batches(table, reports):
        waiting.append(batch)
        rows += batch.num_rows
        while rows >= GROUP_ROWS:
            whole = pa.Table.from_batches(waiting)
            yield whole.slice(0, GROUP_ROWS)
            waiting = whole.slice(GROUP_ROWS).to_batches()
            rows -= GROUP_ROWS
    if rows:
        yield pa.Table.from_batches(waiting)


def _record_batches(table: Table, reports: Iterable[StagedReport]) -> Iterator[Any]:
    pa, schema, decoder = require("pyarrow"), arrow_schema(table), _decoder(table)
    columns: list[list[Any]] = [[] for _ in table.columns]
    for report in reports:
        is_large = report.rows >= _FEW_ROWS
        if columns[0] and (is_large or len(columns[0]) >= _JOINED_ROWS):
            yield batch_of_plain(table, columns)
            columns = [[] for _ in table.columns]
        if is_large:
            yield pa.ipc.read_record_batch(pa.py_buffer(report.data), schema)
        else:
            for joined, values in zip(columns, decoder.decode(report.data), strict=True):
                joined += values
    if columns[0]:
        yield batch_of_plain(table, columns)


@cache
def _decoder(table: Table) -> msgspec.msgpack.Decoder[Any]:
    types = [_PACKED_TYPES.get(column.type, list[Any]) for column in table.columns]
    return msgspec.msgpack.Decoder(tuple[tuple(types)])  # type: ignore[misc]


def write_table(
    path: Path,
    kind: Format,
    table: Table,
    chunks: Iterable[Any],
    check: Callable[[], None],
    csv: CsvOptions = RFC_4180,
) -> None:
    """Write a table's chunks to a file: bytes for a text format, in the form of `csv` already, else Arrow tables.

    Each Arrow table becomes a row group. An exception of `check` ends the writing.
    """
    if kind is Format.PARQUET:
        pq = require("pyarrow.parquet")
        with pq.ParquetWriter(path, arrow_schema(table), compression="zstd") as writer:
            for chunk in chunks:
                check()
                writer.write_table(chunk, row_group_size=GROUP_ROWS)
        return
    with open(path, "wb") as file:
        if kind is Format.CSV:
            file.write(csv_header(table, csv))
        for chunk in chunks:
            check()
            file.write(chunk)


def unstorable(kind: Format, error: Exception) -> ExportError:
    """Return the error for a report with a value that a format can't hold, from the error raised for it."""
    if isinstance(error, OverflowError):
        return ExportError(f"an integer has more than 64 bits, which {kind.value} can't hold; .csv and .jsonl can")
    if isinstance(error, RecursionError):
        return ExportError(f"an unknown field is nested too deep to be written to {kind.value}")
    return ExportError(f"a value can't be written to {kind.value}: {error}")


def _check_integers(table: Table, columns: Sequence[Sequence[Any]]) -> None:
    for index, is_tags in _integer_indices(table):
        for value in [id_ for tags in columns[index] for id_, _, _ in tags] if is_tags else columns[index]:
            if value is not None and not fits(value):
                raise OverflowError("an integer has more than 64 bits")


@cache
def _integer_indices(table: Table) -> list[tuple[int, bool]]:
    types = enumerate(column.type for column in table.columns)
    return [(index, kind is ColumnType.TAGS) for index, kind in types if kind in (ColumnType.INTEGER, ColumnType.TAGS)]


def check_totals(kind: Format, totals: RankingTotals | None) -> None:
    """Check that totals can be written, long before they are; raises as `encode`."""
    if totals is None:
        return
    if not kind.is_text and not all(fits(value) for value in totals_values(totals) if isinstance(value, int)):
        raise OverflowError("a total has more than 64 bits")
    if totals.extra:
        as_json(_further_in(totals.extra)).encode()


def _further_in(value: object) -> object:
    """Return a value nested deeper than it is, as it will be written from deeper in the stack."""
    for _ in range(_SPARE_LEVELS):
        value = [value]
    return value
