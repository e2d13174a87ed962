"""The formats of a target: how each encodes a group of reports for the staging, and writes a table from the pieces.

A piece holds the rows of some reports of one table, without the table's lead (account, night, ids, dates): that is
added when the piece is read. A report is a slice of it: some rows of a record batch, or some bytes of text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import accumulate, chain, groupby, islice, pairwise, repeat
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import attrs
import msgspec

from seorep_async.errors import ConfigurationError
from seorep_async.export.pieces import RECENT, Record
from seorep_async.models import Feed
from seorep_async.tables.arrow import arrow_schema, record_batch
from seorep_async.tables.columns import Columns, Table
from seorep_async.tables.optional import require
from seorep_async.tables.output_tables import keywords_table, table_of
from seorep_async.tables.text import columns_as_json_lines, csv_cells, csv_lines

if TYPE_CHECKING:
    import pyarrow as pa

MARK = b"\xff"
"""Begins each line of staged text, where its lead will stand; UTF-8 has no such byte."""
_LINE = "\x1e"
"""Stands for `MARK` in strings; a value that has it is rare."""
_ROWS = 10_000
"""Rows that are in memory at once at the end, and in a row group of Parquet."""
_LOOK_BYTES = 1 << 24
T = TypeVar("T")
Report: TypeAlias = tuple[tuple[int, ...], int, Record]


@attrs.frozen
class Source:
    """One table of a pull: the values of its `columns`, or the staged `reports`, whose rows have the `shared` values.

    Attributes:
        reports: the ids in the lead of each, its block, and where its rows are in it.
        read: returns a piece by its block and its number in it.
    """

    table: Table
    shared: dict[str, Any]
    columns: Iterable[Columns]
    reports: Iterable[Report]
    read: Callable[[int, int], bytes]


def in_groups(items: Iterable[T], rows: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield items in lists of so many rows or a few more."""
    some, count = list[T](), 0
    for one in items:
        some.append(one)
        count += rows(one)
        if count >= most:
            yield some
            some, count = [], 0
    if some:
        yield some


@cache
def without_lead(table: Table) -> Table:
    """Return the columns of a staged row."""
    return Table(table.name, table.description, table.columns[table.lead :], ())


class Text:
    """Lines of text, each of a row; a table of keywords is staged, too, as it can't be read from them."""

    ending: str
    needs: tuple[str, ...] = ()
    """Libraries of extras."""

    def prepare(self, table: Table, columns: Columns) -> Columns:
        """Return columns of values, without the lead, as `encode` takes them; both raise the same errors."""
        return columns

    def encode(
        self, table: Table, prepared: Columns, sizes: Sequence[int]
    ) -> tuple[bytes, list[tuple[int, int]]]:
        """Return rows as a piece, and the first and the size of the slice of each report.

        Values that the format can't hold raise an OverflowError, ValueError or RecursionError.
        """
        data, starts = self.marked(without_lead(table), prepared) if any(sizes) else (b"", [])
        starts.append(len(data))
        places = pairwise(accumulate(sizes, initial=0))
        return data, [(starts[first], starts[last] - starts[first]) for first, last in places]

    def marked(self, table: Table, prepared: Columns) -> tuple[bytes, list[int]]:
        """Return rows without lead as lines that begin with `MARK`, and where these are."""
        raise NotImplementedError

    def lead(self, table: Table, shared: dict[str, Any]) -> bytes:
        """Return the lead of a table's lines, with `%d` for each id."""
        raise NotImplementedError

    def header(self, table: Table) -> bytes:
        return b""

    def write(self, file: Path, source: Source) -> int:
        """Write a whole table to a file, and return the number of its rows."""
        count, lead, held = (
            0,
            self.lead(source.table, source.shared),
            lru_cache(RECENT)(source.read),
        )
        with open(file, "wb", 1 << 18) as opened:
            opened.write(self.header(source.table))
            for columns in source.columns:
                count += (rows := len(columns[0]))
                text, _ = self.encode(source.table, self.prepare(source.table, columns), [rows])
                opened.write(text.replace(MARK, lead))
            for ids, block, one in source.reports:
                count += one.rows
                text = held(block, one.piece)[one.first : one.first + one.size]
                opened.write(text.replace(MARK, lead % ids))
        return count

    def read(self, file: Path) -> list[dict[str, Any]]:
        """Return two rows of a file, or of a file without rows one without values; [] if it has another format."""
        with open(file, "rb") as opened:
            try:
                return self.rows(opened.read(_LOOK_BYTES))
            except (csv.Error, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return []

    def rows(self, text: bytes) -> list[dict[str, Any]]:
        raise NotImplementedError


@attrs.frozen
class Csv(Text):
    """CSV by RFC 4180, or as Excel wants it."""

    ending = ".csv"
    excel: bool

    def prepare(self, table: Table, columns: Columns) -> Columns:
        return csv_cells(table.columns[table.lead :], columns, excel=self.excel)

    def marked(self, table: Table, prepared: Columns) -> tuple[bytes, list[int]]:
        first, *others = prepared
        data = csv_lines([[_LINE + cell for cell in first], *others]).replace(_LINE.encode(), MARK)
        if len(starts := _places(data, MARK)) != len(first):  # a value has that character
            data = b"".join(
                MARK + csv_lines([[cell] for cell in row]) for row in zip(*prepared, strict=True)
            )
            starts = _places(data, MARK)
        return data, starts

    def lead(self, table: Table, shared: dict[str, Any]) -> bytes:
        columns = table.columns[: table.lead]
        cells = csv_cells(columns, [[shared.get(one.name)] for one in columns], excel=self.excel)
        named = zip(columns, cells, strict=True)
        said = [cell.replace("%", "%%") if one.name in shared else "%d" for one, (cell,) in named]
        return ",".join([*said, ""]).encode()

    def header(self, table: Table) -> bytes:
        mark = (
            b"\xef\xbb\xbf" if self.excel else b""
        )  # a byte order mark, by which Excel knows UTF-8
        return mark + csv_lines([[column.name] for column in table.columns])

    def rows(self, text: bytes) -> list[dict[str, Any]]:
        reader = csv.DictReader(io.StringIO(text.decode("utf-8-sig", "replace"), newline=""))
        rows, names = list[dict[str, Any]](), reader.fieldnames or ()
        with suppress(csv.Error):  # a field is longer than the module reads
            rows += islice(reader, 2)
        return rows or [dict.fromkeys(names)]


class JsonLines(Text):
    """A JSON object a line."""

    ending = ".jsonl"

    def marked(self, table: Table, prepared: Columns) -> tuple[bytes, list[int]]:
        # in place of each line's brace, which is in the lead; a line break inside a string is escaped
        data = bytearray(columns_as_json_lines(table, prepared))
        starts = [0, *(end + 1 for end in _places(data, b"\n")[:-1])]
        for start in starts:
            data[start : start + 1] = MARK
        return bytes(data), starts

    def lead(self, table: Table, shared: dict[str, Any]) -> bytes:
        said = b"{"
        for name in (one.name for one in table.columns[: table.lead]):
            value = (
                msgspec.json.encode(shared[name]).replace(b"%", b"%%") if name in shared else b"%d"
            )
            said += b'"%b":%b,' % (name.encode(), value)
        return said

    def rows(self, text: bytes) -> list[dict[str, Any]]:
        return [
            msgspec.json.decode(line, type=dict[str, Any])
            for line in text.split(b"\n", 2)[:2]
            if line
        ]


class Arrow:
    """Record batches, for formats that keep types: the table of keywords is read from the campaign feed's rows."""

    ending = ".duckdb"
    needs: tuple[str, ...] = ("duckdb", "pyarrow")

    def __init__(self) -> None:
        self.problems: list[BaseException] = []
        """What reading raised: DuckDB tells only the text of it."""

    def prepare(self, table: Table, columns: Columns) -> Columns:
        return columns

    def encode(
        self, table: Table, prepared: Columns, sizes: Sequence[int]
    ) -> tuple[bytes, list[tuple[int, int]]]:
        batch = record_batch(without_lead(table), prepared)
        return batch.serialize().to_pybytes(), list(
            zip(accumulate(sizes, initial=0), sizes, strict=False)
        )

    def tables(self, source: Source) -> Iterator[pa.Table]:
        """Yield the rows of a table, whole reports of `_ROWS` rows or a few more at once."""
        pa, table = require("pyarrow"), source.table
        for columns in source.columns:
            yield pa.Table.from_batches([record_batch(table, columns)])
        schema = arrow_schema(
            without_lead(table_of(Feed.CAMPAIGN) if table is keywords_table() else table)
        )
        held = lru_cache(RECENT)(
            lambda *piece: pa.ipc.read_record_batch(source.read(*piece), schema)
        )
        for reports in in_groups(
            (one for one in source.reports if one[-1].rows), lambda one: one[-1].rows, _ROWS
        ):
            yield _joined(source, reports, held)

    def reader(self, source: Source) -> pa.RecordBatchReader:
        return require("pyarrow").RecordBatchReader.from_batches(
            arrow_schema(source.table), self._batches(source)
        )

    def _batches(self, source: Source) -> Iterator[pa.RecordBatch]:
        try:
            for table in self.tables(source):
                yield from table.to_batches()
        except BaseException as error:
            self.problems.append(error)
            raise


class Parquet(Arrow):
    """Parquet, with the columns' descriptions as metadata."""

    ending = ".parquet"
    needs = ("pyarrow.parquet",)

    def write(self, file: Path, source: Source) -> int:
        count, schema = 0, arrow_schema(source.table)
        with require("pyarrow.parquet").ParquetWriter(file, schema, compression="zstd") as writer:
            for table in self.tables(source):
                # joined, so that equal rows give equal bytes, however they came
                writer.write_table(table.combine_chunks(), row_group_size=2 * _ROWS)
                count += table.num_rows
        return count

    def read(self, file: Path) -> list[dict[str, Any]]:
        try:
            with (
                open(file, "rb") as opened,
                require("pyarrow.parquet").ParquetFile(opened) as found,
            ):
                rows = [
                    row for batch in islice(found.iter_batches(2), 1) for row in batch.to_pylist()
                ]
                return rows or [dict.fromkeys(found.schema_arrow.names)]
        except (require("pyarrow").ArrowException, ValueError):
            return []


Format: TypeAlias = Text | Arrow


def _joined(
    source: Source, reports: Sequence[Report], held: Callable[[int, int], pa.RecordBatch]
) -> pa.Table:
    """Return reports as one table, with its lead."""
    pa, schema, sizes = (
        require("pyarrow"),
        arrow_schema(source.table),
        [one.rows for *_, one in reports],
    )
    slices, columns, ids = [], [], zip(*(ids for ids, *_ in reports), strict=True)
    for field in list(schema)[: source.table.lead]:
        if field.name in source.shared:
            columns.append(pa.repeat(pa.scalar(source.shared[field.name], field.type), sum(sizes)))
        else:
            columns.append(
                pa.array(list(chain.from_iterable(map(repeat, next(ids), sizes))), field.type)
            )
    wanted = [one.name for one in without_lead(source.table).columns]
    # slices that touch are read as one: small ones cost as much as large ones
    before, done = accumulate(sizes, initial=0), 0
    offsets = (
        (block, one.piece, one.first - rows)
        for (_, block, one), rows in zip(reports, before, strict=False)
    )
    for (block, piece, offset), run in groupby(zip(offsets, sizes, strict=True), itemgetter(0)):
        rows = sum(size for _, size in run)
        slices.append(held(block, piece).slice(offset + done, rows).select(wanted))
        done += rows
    return pa.Table.from_arrays([*columns, *pa.Table.from_batches(slices).columns], schema=schema)


def _places(data: bytes | bytearray, byte: bytes) -> list[int]:
    """Return where a byte is in some data: in a third of the time of `split`."""
    found, place = [], data.find(byte)
    while place >= 0:
        found.append(place)
        place = data.find(byte, place + 1)
    return found


def format_of(ending: str, *, excel: bool) -> Format | None:
    """Return the format of a file's ending, or None; ConfigurationError: `excel` is for CSV only."""
    known: list[Format] = [Csv(excel=excel), JsonLines(), Parquet(), Arrow()]
    found = next((one for one in known if one.ending == ending), None)
    if excel and found and not isinstance(found, Csv):
        raise ConfigurationError(
            "excel=True is only for CSV: leave it out, or write CSV", argument="excel"
        )
    return found
