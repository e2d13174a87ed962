"""The formats of a target. Each encodes reports for the staging file and reads them back.

A *piece* holds the rows of several reports of one table. A report is a slice of a piece: some bytes
of text, or some rows of a record batch. A piece lacks the *lead* of each row: account, night, ids
and dates. These are added when the table is written.

In a piece of text, each row begins with `ROW_START`, a byte that UTF-8 never contains. When the
table is written, the row's lead takes the place of this byte.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import accumulate, chain, islice, pairwise, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import attrs
import msgspec
from msgspec.structs import astuple

from seorep_async.export.pieces import RECENT, Record
from seorep_async.plain_values import UNFROZEN
from seorep_async.tables.arrow import arrow_schema, record_batch
from seorep_async.tables.columns import Column, Columns, ColumnType, Table
from seorep_async.tables.optional import require
from seorep_async.tables.text import columns_as_json_lines, csv_cells, csv_header, csv_lines

if TYPE_CHECKING:
    import pyarrow as pa

ROW_START = b"\xff"
_MARK = ROW_START.decode(errors="surrogateescape")
"""`ROW_START` in strings. Values can't contain it, because it is no valid Unicode."""
_ROW_GROUP = 10_000
"""The rows in memory while a table is written, and in a row group of Parquet."""
_LOOK_BYTES = 1 << 24
"""How much of a text file is read to find its first row."""
_WRITE_BUFFER = 1 << 18
_SHEET_PART = 2_000
"""The rows of a sheet that are decoded at once."""
SHEET_ROWS = 1_048_575
"""The rows that a sheet of Excel holds below its header."""
T = TypeVar("T")
Slice: TypeAlias = tuple[int, int]
"""The first byte or row of a report in its piece, and the number of its bytes or rows."""


class StagedReport(NamedTuple):
    """A report in the staging file: the ids in its lead, its block's number, and its record."""

    lead_ids: tuple[int, ...]
    block: int
    record: Record


@attrs.frozen
class Source:
    """The rows of one table of a pull, either as values or as staged reports.

    Attributes:
        shared: the values that all staged rows share, by column.
        columns: the values of whole rows, by column, in several parts.
        reports: the staged reports; the `shared` values belong to the lead of their rows.
        read: returns a piece, by the number of its block and its own number in the block.
    """

    table: Table
    shared: dict[str, Any]
    columns: Iterable[Columns]
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


@cache
def without_lead(table: Table) -> Table:
    """Return a table with the columns of its staged rows."""
    return Table(table.name, table.description, table.columns[table.lead :], ())


class Format:
    """A format of staged rows, and of the target.

    Attributes:
        ending: the ending of the target's name.
        needs: the libraries of extras that it uses.
        most_rows: rows of a table that a target can hold, or None for any number.
    """

    ending: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    most_rows: ClassVar[int | None] = None

    def encode(
        self, table: Table, columns: Columns, sizes: Sequence[int]
    ) -> tuple[bytes, list[Slice]]:
        """Encode the rows of several reports as one piece. Return it and the slice of each report.

        Args:
            columns: the values of the rows without their lead.
            sizes: the number of rows of each report.

        Raises:
            OverflowError, ValueError, RecursionError: the format can't hold a value.
        """
        raise NotImplementedError


class Text(Format):
    """Rows as text in UTF-8."""

    def encode(
        self, table: Table, columns: Columns, sizes: Sequence[int]
    ) -> tuple[bytes, list[Slice]]:
        data = b""
        # `staged_rows` needs at least one row; without any, every slice is empty
        if any(sizes):
            data = self.staged_rows(without_lead(table), columns)
        # the last report ends with the piece
        row_starts = [*_places(data, ROW_START), len(data)]
        slices = []
        for first_row, end_row in pairwise(accumulate(sizes, initial=0)):
            start = row_starts[first_row]
            slices.append((start, row_starts[end_row] - start))
        return data, slices

    def staged_rows(self, table: Table, columns: Columns) -> bytes:
        """Return rows without lead, each after a `ROW_START`."""
        raise NotImplementedError

    def lead(self, table: Table, shared: dict[str, Any]) -> bytes:
        """Return the lead of a table's rows as text, with `%d` for each id."""
        raise NotImplementedError

    def header(self, table: Table) -> bytes:
        return b""

    def write(self, file: Path, source: Source) -> int:
        """Write a whole table to a file, and return the number of its rows."""
        table = source.table
        lead = self.lead(table, source.shared)
        row_count = 0
        with open(file, "wb", _WRITE_BUFFER) as opened:
            opened.write(self.header(table))
            for columns in source.columns:
                size = len(columns[0])
                text, _ = self.encode(table, columns, [size])
                opened.write(with_lead(text, lead))
                row_count += size
            # rows were encoded when they arrived, and only their lead is added here
            for report, text in slices_of(source):
                opened.write(with_lead(text, lead % report.lead_ids))
                row_count += report.record.rows
        return row_count

    def read(self, file: Path) -> dict[str, Any]:
        """Return the first row of a file, by column.

        If the file has only a header, all values are None. If it has another format, the result is
        empty.
        """
        raise NotImplementedError


def with_lead(text: bytes, lead: bytes) -> bytes:
    """Return staged rows of text with their lead."""
    return text.replace(ROW_START, lead)


def slices_of(source: Source) -> Iterator[tuple[StagedReport, bytes]]:
    """Yield each staged report of text with its bytes of the piece."""
    # neighbouring reports are often in the same piece, which is read only once
    read = lru_cache(RECENT)(source.read)
    for report in source.reports:
        record = report.record
        piece = read(report.block, record.piece)
        yield report, piece[record.first : record.first + record.size]


class Csv(Text):
    """CSV by RFC 4180."""

    ending = ".csv"

    def staged_rows(self, table: Table, columns: Columns) -> bytes:
        # All rows are joined at once, with a mark before the first cell of each.
        first_column, *other_columns = csv_cells(table.columns, columns)
        marked_column = [_MARK + cell for cell in first_column]
        return csv_lines([marked_column, *other_columns]).encode(errors="surrogateescape")

    def lead(self, table: Table, shared: dict[str, Any]) -> bytes:
        cells = []
        for column in table.columns[: table.lead]:
            if column.name not in shared:
                cells.append("%d")
                continue
            (column_cells,) = csv_cells([column], [[shared[column.name]]])
            # `write` inserts ids with `%`, so a % in the account's name is doubled
            cells.append(column_cells[0].replace("%", "%%"))
        return "".join(f"{cell}," for cell in cells).encode()

    def header(self, table: Table) -> bytes:
        return csv_header(table)

    def read(self, file: Path) -> dict[str, Any]:
        # An editor may have saved the file with a byte order mark.
        with open(file, encoding="utf-8-sig", errors="replace", newline="") as opened:
            reader = csv.DictReader(io.StringIO(opened.read(_LOOK_BYTES), newline=""))
        try:
            row: dict[str, Any] = dict.fromkeys(reader.fieldnames or ())
        except csv.Error:
            return {}
        # a field, such as a selection of many ids, may be longer than the csv module accepts
        with suppress(csv.Error):
            row = next(reader, row)
        return row


class JsonLines(Text):
    """A JSON object a line."""

    ending = ".jsonl"

    def staged_rows(self, table: Table, columns: Columns) -> bytes:
        # ROW_START replaces the opening brace of each line; the lead has that brace. JSON escapes
        # line breaks in strings, so each line break ends a row.
        data = bytearray(columns_as_json_lines(table, columns))
        start = 0
        for end in _places(data, b"\n"):
            data[start : start + 1] = ROW_START
            start = end + 1
        return bytes(data)

    def lead(self, table: Table, shared: dict[str, Any]) -> bytes:
        lead = b"{"
        for column in table.columns[: table.lead]:
            value = b"%d"
            if column.name in shared:
                value = msgspec.json.encode(shared[column.name]).replace(b"%", b"%%")
            lead += b'"%b":%b,' % (column.name.encode(), value)
        return lead

    def read(self, file: Path) -> dict[str, Any]:
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

    def parts(self, source: Source) -> Iterator[Columns]:
        """Yield the values of a table by column, in parts of some thousand rows."""
        table = source.table
        yield from source.columns
        lead = self.lead(table, source.shared)
        row_decoder = msgspec.json.Decoder(_row_type(table))
        slices = slices_of(source)
        for group in in_groups(slices, lambda item: item[0].record.rows, _SHEET_PART):
            lines = [with_lead(text, lead % report.lead_ids) for report, text in group]
            rows = row_decoder.decode_lines(b"".join(lines))
            # reports may have no rows
            if rows:
                yield list(zip(*map(astuple, rows), strict=True))


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
        batch = record_batch(without_lead(table), columns)
        first_rows = accumulate(sizes, initial=0)
        return batch.serialize().to_pybytes(), list(zip(first_rows, sizes, strict=False))

    def tables(self, source: Source) -> Iterator[pa.Table]:
        """Yield the rows of a table in parts of about `_ROW_GROUP` rows. No report is divided."""
        pa = require("pyarrow")
        # a source has either `columns` or `reports`
        for columns in source.columns:
            yield pa.Table.from_batches([record_batch(source.table, columns)])
        schema = arrow_schema(without_lead(source.table))

        @lru_cache(RECENT)
        def read_batch(block: int, piece: int) -> Any:
            return pa.ipc.read_record_batch(source.read(block, piece), schema)

        reports = (report for report in source.reports if report.record.rows)
        for group in in_groups(reports, lambda report: report.record.rows, _ROW_GROUP):
            yield _joined(source, group, read_batch)

    def reader(self, source: Source) -> pa.RecordBatchReader:
        """Return a reader of a table's rows, for DuckDB."""
        schema = arrow_schema(source.table)
        return require("pyarrow").RecordBatchReader.from_batches(schema, self._batches(source))

    def _batches(self, source: Source) -> Iterator[pa.RecordBatch]:
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

    def write(self, file: Path, source: Source) -> int:
        """Write a whole table to a file, and return the number of its rows."""
        parquet = require("pyarrow.parquet")
        row_count = 0
        with parquet.ParquetWriter(file, arrow_schema(source.table), compression="zstd") as writer:
            for table in self.tables(source):
                # one chunk, so that equal rows give equal bytes, in whatever pieces they arrived
                writer.write_table(table.combine_chunks(), row_group_size=2 * _ROW_GROUP)
                row_count += table.num_rows
        return row_count

    def read(self, file: Path) -> dict[str, Any]:
        """Return the first row of a file, as `Text.read` does."""
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


def _joined(
    source: Source,
    reports: Sequence[StagedReport],
    read_batch: Callable[[int, int], pa.RecordBatch],
) -> pa.Table:
    """Return the rows of staged reports as one Arrow table, with their lead."""
    pa = require("pyarrow")
    schema = arrow_schema(source.table)
    lead = source.table.columns[: source.table.lead]
    batches = [
        read_batch(run.block, run.piece).slice(run.first, run.rows) for run in _runs(reports)
    ]
    staged_columns = pa.Table.from_batches(batches).columns
    lead_columns = _lead_columns(lead, schema, source.shared, reports)
    return pa.Table.from_arrays([*lead_columns, *staged_columns], schema=schema)


def _lead_columns(
    lead: Sequence[Column],
    schema: pa.Schema,
    shared: dict[str, Any],
    reports: Sequence[StagedReport],
) -> Iterator[pa.Array]:
    """Yield the values of each column of the lead."""
    pa = require("pyarrow")
    sizes = [report.record.rows for report in reports]
    ids = zip(*(report.lead_ids for report in reports), strict=True)
    # the ids of the lead come in the order of its columns: campaign, then keyword
    for column in lead:
        arrow_type = schema.field(column.name).type
        if column.name in shared:
            value = pa.scalar(shared[column.name], arrow_type)
            yield pa.repeat(value, sum(sizes))
        else:
            id_of_each_row = chain.from_iterable(map(repeat, next(ids), sizes))
            yield pa.array(list(id_of_each_row), arrow_type)


@attrs.define
class _Run:
    """Adjacent rows of one piece."""

    block: int
    piece: int
    first: int
    rows: int


def _runs(reports: Iterable[StagedReport]) -> list[_Run]:
    """Return the rows of reports as few runs, because a slice costs the same, however long."""
    runs: list[_Run] = []
    last_end = None
    for _, block, record in reports:
        if (block, record.piece, record.first) == last_end:
            runs[-1].rows += record.rows
        else:
            runs.append(_Run(block, record.piece, record.first, record.rows))
        last_end = (block, record.piece, record.first + record.rows)
    return runs


def _places(data: bytes | bytearray, byte: bytes) -> list[int]:
    """Return the places of a byte in some data. This takes a third of the time of `split`."""
    places = []
    place = data.find(byte)
    while place >= 0:
        places.append(place)
        place = data.find(byte, place + 1)
    return places


def format_of(ending: str) -> Format | None:
    """Return the format for a file's ending, or None."""
    formats = [Csv(), JsonLines(), WorkbookRows(), Parquet(), Arrow()]
    return next((format_ for format_ in formats if format_.ending == ending), None)
