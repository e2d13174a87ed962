"""The formats of a target. Each encodes reports for the staging file and reads them back.

A *piece* contains the rows of several reports of one table. A report is a slice of a piece: some
bytes of text, or some rows of a record batch. When the table is written, the slices are put in the
order of the campaigns, and nothing is encoded again.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import attrs
import msgspec
from msgspec.structs import astuple

from seorep_async.export.pieces import RECENT, Record
from seorep_async.plain_values import UNFROZEN
from seorep_async.tables.arrow import arrow_schema, record_batch
from seorep_async.tables.columns import Columns, ColumnType, Table
from seorep_async.tables.optional import require
from seorep_async.tables.text import as_json_lines, csv_header, csv_lines, json_rows

if TYPE_CHECKING:
    import pyarrow as pa

_ROW_GROUP = 10_000
"""The rows in memory while a table is written, and in a row group of Parquet."""
_LOOK_BYTES = 1 << 24
"""The number of bytes of a text file that are read to find its first row."""
_WRITE_BUFFER = 1 << 18
_SHEET_PART = 2_000
"""The rows of a sheet that are decoded at once."""
SHEET_ROWS = 1_048_575
"""The rows that a sheet of Excel holds below its header."""
T = TypeVar("T")
Slice: TypeAlias = tuple[int, int]
"""The first byte or row of a report in its piece, and the number of its bytes or rows."""


class StagedReport(NamedTuple):
    """A report in the staging file. Its record is in the index of its block."""

    block_number: int
    record: Record


@attrs.frozen
class TableSource:
    """The rows of one table of a pull, either values or staged reports; the other is empty.

    Attributes:
        parts: the values of the rows in several parts, each by column.
        reports: the staged reports.
        read: returns a piece. Its arguments are the number of the block, and the piece's number
            in it.
    """

    table: Table
    parts: Iterable[Columns]
    reports: Iterable[StagedReport]
    read: Callable[[int, int], bytes]


def in_groups(items: Iterable[T], weight: Callable[[T], int], limit: int) -> Iterator[list[T]]:
    """Group items into lists. A list ends with the item that brings its weight to the limit."""
    group = []
    total = 0
    for item in items:
        group.append(item)
        total += weight(item)
        if total >= limit:
            yield group
            group = []
            total = 0
    if group:
        yield group


class Format:
    """A format of staged rows, and of the target.

    Attributes:
        ending: the ending of the target's name.
        needs: the libraries of extras that it uses.
        most_rows: rows of a table that a target can store, or None for any number.
    """

    ending: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    most_rows: ClassVar[int | None] = None

    def encode(
        self, table: Table, columns: Columns, sizes: Sequence[int]
    ) -> tuple[bytes, list[Slice]]:
        """Encode the rows of several reports as one piece. Return it with the slice of each report.

        Args:
            columns: the values of the rows of all reports.
            sizes: the number of rows of each report.

        Raises:
            OverflowError, ValueError, RecursionError: the format can't store a value.
        """
        raise NotImplementedError


class Text(Format):
    """Rows as text in UTF-8."""

    def encode(
        self, table: Table, columns: Columns, sizes: Sequence[int]
    ) -> tuple[bytes, list[Slice]]:
        """Encode the rows of several reports as one piece. Slices are counted in bytes."""
        rows = self.rows(table, columns)
        texts = [
            self.text(rows[first:end]) for first, end in pairwise(accumulate(sizes, initial=0))
        ]
        lengths = [len(text) for text in texts]
        # not strict, because `starts` has one more item: the end of the last text
        starts = accumulate(lengths, initial=0)
        return b"".join(texts), list(zip(starts, lengths, strict=False))

    def rows(self, table: Table, columns: Columns) -> Sequence[Any]:
        """Return columns as rows that `text` can encode."""
        raise NotImplementedError

    def text(self, rows: Sequence[Any]) -> bytes:
        """Return the lines of some rows."""
        raise NotImplementedError

    def header(self, table: Table) -> bytes:
        return b""

    def write(self, file: Path, source: TableSource) -> int:
        """Write a whole table to a file, and return the number of its rows."""
        row_count = 0
        with open(file, "wb", _WRITE_BUFFER) as opened:
            opened.write(self.header(source.table))
            for columns in source.parts:
                rows = self.rows(source.table, columns)
                opened.write(self.text(rows))
                row_count += len(rows)
            # staged reports are encoded already
            for report, text in slices_of(source):
                opened.write(text)
                row_count += report.record.rows
        return row_count

    def read_first_row(self, file: Path) -> dict[str, Any]:
        """Return the first row of a file, by column.

        If the file has only a header, all values are None. If it has another format, the result is
        empty.
        """
        raise NotImplementedError


def slices_of(source: TableSource) -> Iterator[tuple[StagedReport, bytes]]:
    """Yield each staged report of text with its bytes of the piece."""
    # neighbouring reports are often in the same piece, which is read only once
    read = lru_cache(RECENT)(source.read)
    for report in source.reports:
        record = report.record
        piece = read(report.block_number, record.piece)
        yield report, piece[record.first : record.first + record.size]


class Csv(Text):
    """CSV by RFC 4180."""

    ending = ".csv"

    def rows(self, table: Table, columns: Columns) -> Sequence[str]:
        return csv_lines(table, columns)

    def text(self, rows: Sequence[str]) -> bytes:
        return "".join(rows).encode()

    def header(self, table: Table) -> bytes:
        return csv_header(table)

    def read_first_row(self, file: Path) -> dict[str, Any]:
        """Return the first row by column, empty if the beginning of the file is not CSV.

        All values are None if the file has only a header, or if a value is too long for the csv
        module.
        """
        # An editor may have saved the file with a byte order mark.
        with open(file, encoding="utf-8-sig", errors="replace", newline="") as opened:
            reader = csv.DictReader(io.StringIO(opened.read(_LOOK_BYTES), newline=""))
        try:
            row: dict[str, Any] = dict.fromkeys(reader.fieldnames or ())
        except csv.Error:
            return {}
        # for example, a selection of many ids may be longer than the csv module accepts
        with suppress(csv.Error):
            row = next(reader, row)
        return row


class JsonLines(Text):
    """A JSON object a line."""

    ending = ".jsonl"

    def rows(self, table: Table, columns: Columns) -> Sequence[msgspec.Struct]:
        return json_rows(table, columns)

    def text(self, rows: Sequence[msgspec.Struct]) -> bytes:
        return as_json_lines(rows)

    def read_first_row(self, file: Path) -> dict[str, Any]:
        with open(file, "rb") as opened:
            try:
                return msgspec.json.decode(opened.readline(_LOOK_BYTES), type=dict[str, Any])
            except (msgspec.DecodeError, RecursionError):
                return {}


class WorkbookRows(JsonLines):
    """Rows of a workbook. They are staged as JSON, so that the extra `excel` needs no pyarrow."""

    ending = ".xlsx"
    needs: ClassVar[tuple[str, ...]] = ("xlsxwriter", "openpyxl")
    most_rows: ClassVar[int | None] = SHEET_ROWS

    def parts(self, source: TableSource) -> Iterator[Columns]:
        """Yield the values of a table by column, in parts of a few thousand rows."""
        table = source.table
        # a source has either `parts` or staged reports; without reports, the loop finds nothing
        yield from source.parts
        row_decoder = msgspec.json.Decoder(_row_type(table))
        for group in in_groups(slices_of(source), _row_count, _SHEET_PART):
            rows = row_decoder.decode_lines(b"".join(text for _, text in group))
            # reports may have no rows
            if rows:
                yield list(zip(*map(astuple, rows), strict=True))


def _row_count(item: tuple[StagedReport, bytes]) -> int:
    report, _ = item
    return report.record.rows


@cache
def _row_type(table: Table) -> type[msgspec.Struct]:
    """Return a type of a table's rows. Decoding JSON as this type turns strings back into dates."""
    fields = [(column.name, _JSON_TYPES.get(column.type, Any)) for column in table.columns]
    return msgspec.defstruct("Row", fields)


_JSON_TYPES = {
    ColumnType.DATE: UNFROZEN.date | None,
    ColumnType.DATETIME: UNFROZEN.datetime | None,
}


class Arrow(Format):
    """Rows as record batches, for formats that keep types.

    Attributes:
        problems: the errors of `reader`, because DuckDB passes on only their text.
    """

    ending = ".duckdb"
    needs: ClassVar[tuple[str, ...]] = ("duckdb", "pyarrow")

    def __init__(self) -> None:
        self.problems: list[Exception] = []

    def encode(
        self, table: Table, columns: Columns, sizes: Sequence[int]
    ) -> tuple[bytes, list[Slice]]:
        """Encode the rows of several reports as one piece. Slices are counted in rows."""
        batch = record_batch(table, columns)
        # not strict, because `first_rows` has one more item: the number of all rows
        first_rows = accumulate(sizes, initial=0)
        return batch.serialize().to_pybytes(), list(zip(first_rows, sizes, strict=False))

    def tables(self, source: TableSource) -> Iterator[pa.Table]:
        """Yield the rows of a table in parts of about `_ROW_GROUP` rows. No report is divided."""
        pa = require("pyarrow")
        # of `parts` and `reports`, one is empty
        for columns in source.parts:
            yield pa.Table.from_batches([record_batch(source.table, columns)])
        schema = arrow_schema(source.table)

        # neighbouring reports are often in the same piece, which is read only once
        @lru_cache(RECENT)
        def read_batch(block_number: int, piece: int) -> Any:
            return pa.ipc.read_record_batch(source.read(block_number, piece), schema)

        reports = (report for report in source.reports if report.record.rows)
        for group in in_groups(reports, lambda report: report.record.rows, _ROW_GROUP):
            yield pa.Table.from_batches(
                read_batch(part.block_number, part.piece).slice(part.first, part.rows)
                for part in _row_ranges(group)
            )

    def reader(self, source: TableSource) -> pa.RecordBatchReader:
        """Return a reader of a table's rows, for DuckDB."""
        schema = arrow_schema(source.table)
        return require("pyarrow").RecordBatchReader.from_batches(schema, self._batches(source))

    def _batches(self, source: TableSource) -> Iterator[pa.RecordBatch]:
        """Yield the rows for DuckDB. Record an error, because DuckDB passes on only its text."""
        try:
            for table in self.tables(source):
                yield from table.to_batches()
        except Exception as error:
            # DuckDB calls this from C++, and replaces the error with its own. If DuckDB itself
            # fails, it stops reading, which raises a GeneratorExit here. That is not recorded.
            self.problems.append(error)
            raise


class Parquet(Arrow):
    """Parquet, with the columns' descriptions as metadata."""

    ending = ".parquet"
    needs: ClassVar[tuple[str, ...]] = ("pyarrow.parquet",)

    def write(self, file: Path, source: TableSource) -> int:
        """Write a whole table to a file, and return the number of its rows."""
        parquet = require("pyarrow.parquet")
        row_count = 0
        with parquet.ParquetWriter(file, arrow_schema(source.table), compression="zstd") as writer:
            for table in self.tables(source):
                # one chunk, so that equal rows give equal bytes, in whatever pieces they arrived
                writer.write_table(table.combine_chunks(), row_group_size=2 * _ROW_GROUP)
                row_count += table.num_rows
        return row_count

    def read_first_row(self, file: Path) -> dict[str, Any]:
        """Return the first row of a file, as `Text.read_first_row` does."""
        parquet = require("pyarrow.parquet")
        row = {}
        try:
            with open(file, "rb") as opened, parquet.ParquetFile(opened) as content:
                row = dict.fromkeys(content.schema_arrow.names)
                for batch in islice(content.iter_batches(1), 1):
                    (row,) = batch.to_pylist()
        except (require("pyarrow").ArrowException, ValueError):
            return {}
        return row


@attrs.define
class _RowRange:
    """Adjacent rows of one piece."""

    block_number: int
    piece: int
    first: int
    rows: int


def _row_ranges(reports: Iterable[StagedReport]) -> list[_RowRange]:
    """Return the rows of reports as few ranges, because a slice costs the same, however long."""
    ranges: list[_RowRange] = []
    last_end = None
    for block_number, record in reports:
        if (block_number, record.piece, record.first) == last_end:
            ranges[-1].rows += record.rows
        else:
            ranges.append(_RowRange(block_number, record.piece, record.first, record.rows))
        last_end = (block_number, record.piece, record.first + record.rows)
    return ranges


def format_of(ending: str) -> Format | None:
    """Return the format for a file's ending, or None."""
    formats = [Csv(), JsonLines(), WorkbookRows(), Parquet(), Arrow()]
    return next((format_ for format_ in formats if format_.ending == ending), None)
