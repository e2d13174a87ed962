"""The formats of a target, and how a report's rows are staged for each until the target is written."""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import io
import os
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain, groupby
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from seorep_async.errors import ExportError
from seorep_async.old_export.csv_options import RFC_4180, CsvOptions
from seorep_async.reports import RankingReport
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import ColumnType, Table, as_json, fits
from seorep_async.tables.declared import TOTALS, totals_values
from seorep_async.tables.optional import require
from seorep_async.tables.text import columns_as_json_lines, csv_cells, csv_header, csv_lines

GROUP_ROWS = 1 << 16
"""Rows in each Arrow table and each Parquet row group, so that the same rows give the same groups."""
_FEW_ROWS = 100
_JOINED_ROWS = 1 << 12
_SPARE_LEVELS = 50
_PACK = msgspec.msgpack.Encoder()
_FIGURES: Any = [int | float | None] * (len(TOTALS) - 1)
_TOTALS = msgspec.json.Decoder(tuple[(*_FIGURES, dict[str, Any])])
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


def plain_columns(table: Table, columns: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return columns with tags as lists of `(id, label, extra)`, and unknown fields as JSON strings or None."""
    plain = list(columns)
    for index, column in enumerate(table.columns):
        if column.type is ColumnType.TAGS:
            plain[index] = [
                [(tag.id, tag.label, as_json(tag.extra) if tag.extra else None) for tag in tags]
                for tags in columns[index]
            ]
        elif column.type is ColumnType.FIELDS:
            plain[index] = [as_json(fields) if fields else None for fields in columns[index]]
        elif column.type is ColumnType.ANY:
            plain[index] = [None if value is None else as_json(value) for value in columns[index]]
    return plain


def batch_of_plain(table: Table, columns: Sequence[Sequence[Any]]) -> Any:
    """Return columns from `plain_columns` as one record batch."""
    pa, schema = require("pyarrow"), arrow_schema(table)
    names = ("id", "label", "extra")
    columns = [
        [[dict(zip(names, tag, strict=True)) for tag in tags] for tags in values]
        if column.type is ColumnType.TAGS
        else values
        for column, values in zip(table.columns, columns, strict=True)
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def prepare(
    kind: Format, table: Table, reports: Sequence[Sequence[Sequence[Any]]], csv: CsvOptions = RFC_4180
) -> Sequence[Any]:
    """Return the columns of each report in the form for `encode`: cells of CSV, plain columns, or a record batch.

    The cells also fit a table with fewer columns. Large reports share one conversion to Arrow. Raises as `encode`.
    """
    if kind is Format.CSV:
        return [csv_cells(table, columns, excel=csv.guard) for columns in reports]
    if kind is Format.JSON_LINES:
        return reports
    plain = [plain_columns(table, columns) for columns in reports]
    batches = _batches(table, [columns for columns in plain if len(columns[0]) >= _FEW_ROWS])
    # a record batch of one row takes 110 µs and 4 kB to make, and 33 kB of memory to read
    return [next(batches) if len(columns[0]) >= _FEW_ROWS else columns for columns in plain]


def _batches(table: Table, reports: Sequence[Sequence[Sequence[Any]]]) -> Iterator[Any]:
    # a conversion takes 240 µs and 1.3 µs a row: a call for each of 49 columns, before any row
    joined = [list(chain.from_iterable(parts)) for parts in zip(*reports, strict=True)]
    batch, start = batch_of_plain(table, joined), 0
    for columns in reports:
        yield batch.slice(start, len(columns[0]))
        start += len(columns[0])


def encode(kind: Format, table: Table, prepared: Any, csv: CsvOptions = RFC_4180) -> bytes:
    """Return a report, prepared for the format, in its staged form.

    Raises:
        OverflowError: an integer needs more than 64 bits, and the format has no more.
        RecursionError: an unknown field is nested too deep.
        ValueError: a string is not valid Unicode.
    """
    if kind is Format.CSV:
        return csv_lines(prepared)
    if kind is Format.JSON_LINES:
        return columns_as_json_lines(table, prepared)
    if isinstance(prepared, list):
        _check_integers(table, prepared)
        return _PACK.encode(prepared)
    data: bytes = prepared.serialize().to_pybytes()
    return data


def arrow_tables(table: Table, reports: Iterable[StagedReport], staged: Table | None = None) -> Iterator[Any]:
    """Yield the rows of staged reports as Arrow tables of `GROUP_ROWS` rows each, and a last one of the rest.

    `staged` is their table, if `table` has only some of its columns.
    """
    pa = require("pyarrow")
    waiting: list[Any] = []
    rows = 0
    for batch in _record_batches(table, reports, staged or table):
        waiting.append(batch)
        rows += batch.num_rows
        while rows >= GROUP_ROWS:
            whole = pa.Table.from_batches(waiting)
            yield whole.slice(0, GROUP_ROWS)
            waiting = whole.slice(GROUP_ROWS).to_batches()
            rows -= GROUP_ROWS
    if rows:
        yield pa.Table.from_batches(waiting)


def _record_batches(table: Table, reports: Iterable[StagedReport], staged: Table) -> Iterator[Any]:
    pa, schema = require("pyarrow"), arrow_schema(staged)
    indices = [index for index, column in enumerate(staged.columns) if column in table.columns]
    decoder = _decoder(staged, tuple(indices))
    for is_large, some in groupby(reports, lambda report: report.rows >= _FEW_ROWS):
        for joined in _joined(some):
            with decoding():
                if is_large:
                    batches = [pa.ipc.read_record_batch(pa.py_buffer(report.data), schema) for report in joined]
                    whole = pa.Table.from_batches(batches).select(indices)
                    whole.validate(full=True)  # or forged ones crash the process
                    yield from whole.combine_chunks().to_batches()
                else:
                    columns: list[list[Any]] = [[] for _ in indices]
                    for report in joined:
                        values = decoder.decode(report.data)
                        for column, index in zip(columns, indices, strict=True):
                            column += values[index]
                    yield batch_of_plain(table, columns)


def _joined(reports: Iterable[StagedReport]) -> Iterator[list[StagedReport]]:
    """Yield reports in lists of `_JOINED_ROWS` rows or a few more: writers take small tables at a high price."""
    waiting: list[StagedReport] = []
    rows = 0
    for report in reports:
        waiting.append(report)
        rows += report.rows
        if rows >= _JOINED_ROWS:
            yield waiting
            waiting, rows = [], 0
    if rows:
        yield waiting


@cache
def _decoder(table: Table, wanted: tuple[int, ...]) -> msgspec.msgpack.Decoder[Any]:
    """Return a decoder of packed columns that skips all but the wanted ones."""
    types: list[Any] = [msgspec.Raw] * len(table.columns)
    for index in wanted:
        types[index] = _PACKED_TYPES.get(table.columns[index].type, list[Any])
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
            file.write(csv_header(table, excel=csv.bom))
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
    """Refuse the integers that MessagePack takes and Arrow does not: those from 2**63 on."""
    ids = [id_ for index in _indices(table, ColumnType.TAGS) for tags in columns[index] for id_, _, _ in tags]
    _check_fit(chain(ids, *[columns[index] for index in _indices(table, ColumnType.INTEGER)]))


def _check_fit(integers: Iterable[int | None]) -> None:
    present = [0, *filter(None, integers)]
    if not (fits(min(present)) and fits(max(present))):
        raise OverflowError("an integer has more than 64 bits")


@cache
def _indices(table: Table, kind: ColumnType) -> list[int]:
    return [index for index, column in enumerate(table.columns) if column.type is kind]


def encode_totals(kind: Format, report: RankingReport[Any]) -> str | None:
    """Return a report's totals as a JSON list, checked long before they are written, or None; raises as `encode`."""
    if report.totals is None:
        return None
    values = totals_values(report.totals, compared=report.compared)
    if not kind.is_text:
        _check_fit(value for value in values if isinstance(value, int))
    if report.totals.extra:
        as_json(_further_in(report.totals.extra)).encode()
    return msgspec.json.encode(values).decode()  # `json` takes ten times as long


def decode_totals(totals: str) -> Sequence[Any]:
    """Return the values of a report's totals; raises DamagedError."""
    with decoding():
        return _TOTALS.decode(totals)


def _further_in(value: object) -> object:
    """Return a value nested deeper than it is, as it will be written from deeper in the stack."""
    for _ in range(_SPARE_LEVELS):
        value = [value]
    return value


_BUFFER_BYTES = 1 << 16
_WRONG = (msgspec.MsgspecError, ArithmeticError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError)


class DamagedError(Exception):
    """The checkpoint is damaged."""


class OtherVersionError(DamagedError):
    """Another version of this package wrote the checkpoint, with other tables."""


@contextlib.contextmanager
def decoding() -> Generator[None, None, None]:
    """Translate the errors of values that a checkpoint must not hold into DamagedError."""
    try:
        yield
    except _WRONG as error:
        raise DamagedError(str(error)) from error


class StagedReport(NamedTuple):
    """Rows of one table in a checkpoint: those of a report, the keywords in it, or a part of the list of campaigns.

    Attributes:
        campaign_id: 0 for a part of the list of campaigns.
        id: the campaign's or the keyword's id, or the number of the part.
        totals: a JSON list of values, or None.
        data: the rows, encoded for the target's format.
    """

    table: str
    campaign_id: int
    id: int
    rows: int
    totals: str | None
    data: bytes


class RowsLocation(NamedTuple):
    """The location of some rows in a file, and their checksum."""

    start: int
    size: int
    checksum: int


class RowsFile:
    """An open file of rows beside a checkpoint: SQLite takes four times as long for them; None as path: in memory.

    A new file is open to its owner only; a link is not followed.
    """

    def __init__(self, path: Path | None) -> None:
        self._file: BinaryIO = io.BytesIO()
        if path is not None:
            self._file = open(path, "a+b", _BUFFER_BYTES, opener=_open_own)  # noqa: SIM115
        self._end = self._file.seek(0, os.SEEK_END)

    def append(self, reports: Sequence[bytes]) -> list[RowsLocation]:
        """Append the rows of reports; they survive a crash after the next `flush`."""
        end = self._file.seek(0, os.SEEK_END)
        self._file.write(b"".join(reports))
        *starts, self._end = accumulate(map(len, reports), initial=end)
        return [RowsLocation(start, len(data), zlib.crc32(data)) for start, data in zip(starts, reports, strict=True)]

    def flush(self, *, durable: bool) -> None:
        """Hand everything to the system; if durable, wait until it survives a power failure too."""
        self._file.flush()
        if durable:
            os.fsync(self._file.fileno())

    def read(self, location: RowsLocation) -> bytes:
        """Return the rows at a location; damaged ones raise DamagedError."""
        if location.start + location.size > self._end:  # a forged size would take all memory
            raise DamagedError("a report's rows are missing")
        self._file.seek(location.start)
        data = self._file.read(location.size)
        if zlib.crc32(data) != location.checksum:
            raise DamagedError("a report's rows are not as they were written")
        return data

    def cut(self, end: int) -> None:
        """Drop everything from an offset on, such as rows without a record after a crash."""
        self._file.truncate(end)
        self._end = end

    def close(self) -> None:
        with contextlib.suppress(OSError):  # no record names rows that a full disk refused
            self._file.close()


def _open_own(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
