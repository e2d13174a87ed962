"""The formats of a target: how each encodes a group of reports for the staging, and writes a table from the pieces.

A piece holds the rows of some reports of one table, without the table's lead (account, night, ids, dates): that is
added when the piece is read. A report is a slice of it: some rows of a record batch, or some bytes of text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import accumulate, chain, pairwise, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import attrs
import msgspec

from seorep_async.errors import ConfigurationError
from seorep_async.export.pieces import RECENT
from seorep_async.models import Feed
from seorep_async.tables.arrow import arrow_schema, record_batch
from seorep_async.tables.columns import FeedTable, Table
from seorep_async.tables.declared import campaigns_table, keywords_table, table_of
from seorep_async.tables.optional import require
from seorep_async.tables.text import columns_as_json_lines, csv_cells, csv_header, csv_lines

if TYPE_CHECKING:
    import pyarrow as pa

MARK = b"\xff"
"""Begins each line of staged text, where its lead will stand; UTF-8 has no such byte."""
_LINE = "\x1e"
"""Stands for `MARK` in strings; a value that has it is rare."""
_ROWS = 1 << 14
"""Rows that are in memory at once at the end, and in a row group of Parquet."""
_LOOK_BYTES = 1 << 20
Columns = Sequence[Sequence[Any]]
T = TypeVar("T")


class Part(NamedTuple):
    """A report's rows in the staging, and the ids in their lead."""

    ids: tuple[int, ...]
    piece: tuple[int, int]
    first: int
    size: int
    rows: int


@attrs.frozen
class Source:
    """One table of a pull: its staged `parts`, or else the values of its `columns`; all rows have the `shared` ones."""

    table: Table
    shared: dict[str, Any]
    read: Callable[[tuple[int, int]], bytes]
    parts: Iterable[Part] | None
    columns: Iterable[Columns]


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
def lead_of(table: Table) -> int:
    """Return the number of columns that a staged row lacks."""
    if isinstance(table, FeedTable):
        return table.lead
    return 2 if table is campaigns_table() else 3 if table is keywords_table() else 0


@cache
def without_lead(table: Table) -> Table:
    return Table(table.name, table.description, table.columns[lead_of(table) :], ())


class Format:
    """One format; `stages_keywords`: a table of keywords is staged, too, as it can't be read from rows of text."""

    ending: str
    stages_keywords: bool = True

    def require_extra(self) -> None:
        """Import its libraries; an ImportError says how to install a missing extra."""

    def prepare(self, table: Table, columns: Columns) -> Columns:
        """Return columns of values, without the lead, as `encode` takes them; both raise the same errors."""
        return columns

    def encode(self, table: Table, prepared: Columns, sizes: Sequence[int]) -> tuple[bytes, list[tuple[int, int]]]:
        """Return rows as a piece, and the first and the size of the slice of each report.

        Values that the format can't hold raise an OverflowError, ValueError or RecursionError.
        """
        raise NotImplementedError

    def write(self, file: Path, source: Source) -> int:
        """Write a whole table to a file, and return the number of its rows."""
        raise NotImplementedError

    def read(self, file: Path, limit: int) -> list[dict[str, Any]]:
        """Return the first rows of a file, of a file without rows one without values; [] if it has another format."""
        raise NotImplementedError


class Text(Format):
    """Lines of text, each of a row."""

    def marked(self, table: Table, prepared: Columns) -> tuple[bytes, list[int]]:
        """Return rows without lead as lines that begin with `MARK`, and where these are."""
        raise NotImplementedError

    def lead(self, table: Table, shared: dict[str, Any]) -> bytes:
        """Return the lead of a table's lines, with `%d` for each id."""
        raise NotImplementedError

    def whole(self, table: Table, columns: Columns) -> bytes:
        """Return rows with all their columns."""
        raise NotImplementedError

    def header(self, table: Table) -> bytes:
        return b""

    def encode(self, table: Table, prepared: Columns, sizes: Sequence[int]) -> tuple[bytes, list[tuple[int, int]]]:
        data, starts = self.marked(without_lead(table), prepared) if any(sizes) else (b"", [])
        starts.append(len(data))
        places = pairwise(accumulate(sizes, initial=0))
        return data, [(starts[first], starts[last] - starts[first]) for first, last in places]

    def text(self, source: Source) -> Iterator[tuple[bytes, int]]:
        """Yield the text of a table and its rows, piece by piece."""
        if source.parts is None:
            for columns in source.columns:
                yield self.whole(source.table, columns), len(columns[0])
            return
        lead, held = self.lead(source.table, source.shared), lru_cache(RECENT)(source.read)
        for part in source.parts:
            text = held(part.piece)[part.first : part.first + part.size]
            yield text.replace(MARK, lead % part.ids), part.rows

    def write(self, file: Path, source: Source) -> int:
        count = 0
        with open(file, "wb", 1 << 18) as opened:
            opened.write(self.header(source.table))
            for text, rows in self.text(source):
                opened.write(text)
                count += rows
        return count


class Csv(Text):
    """CSV by RFC 4180, or as Excel wants it."""

    ending = ".csv"

    def __init__(self, *, excel: bool) -> None:
        self._excel = excel

    def prepare(self, table: Table, columns: Columns) -> Columns:
        return csv_cells(without_lead(table), columns, excel=self._excel)

    def marked(self, table: Table, prepared: Columns) -> tuple[bytes, list[int]]:
        first, *others = prepared
        data = csv_lines([[_LINE + cell for cell in first], *others]).replace(_LINE.encode(), MARK)
        if len(starts := _places(data, MARK)) != len(first):  # a value has that character
            data = b"".join(MARK + csv_lines([[cell] for cell in row]) for row in zip(*prepared, strict=True))
            starts = _places(data, MARK)
        return data, starts

    def lead(self, table: Table, shared: dict[str, Any]) -> bytes:
        columns = table.columns[: lead_of(table)]
        values = [[shared.get(one.name)] for one in columns]
        cells = csv_cells(Table("", "", columns, ()), values, excel=self._excel)
        named = zip(columns, cells, strict=True)
        said = [cell.replace("%", "%%") if one.name in shared else "%d" for one, (cell,) in named]
        return ",".join([*said, ""]).encode()

    def whole(self, table: Table, columns: Columns) -> bytes:
        return csv_lines(csv_cells(table, columns, excel=self._excel))

    def header(self, table: Table) -> bytes:
        return csv_header(table, excel=self._excel)

    def read(self, file: Path, limit: int) -> list[dict[str, Any]]:
        with open(file, encoding="utf-8-sig", errors="replace", newline="") as opened:
            reader = csv.DictReader(io.StringIO(opened.read(_LOOK_BYTES), newline=""))
            try:
                rows = [row for _, row in zip(range(limit), reader, strict=False)]
            except csv.Error:
                return []
            return rows or [dict.fromkeys(reader.fieldnames or ())]


class JsonLines(Text):
    """A JSON object a line."""

    ending = ".jsonl"

    def marked(self, table: Table, prepared: Columns) -> tuple[bytes, list[int]]:
        data = bytearray(columns_as_json_lines(table, prepared))
        starts = [0, *(end + 1 for end in _places(data, b"\n")[:-1])]  # a line break inside a string is escaped
        for start in starts:
            data[start : start + 1] = MARK  # in place of a brace, which is in the lead
        return bytes(data), starts

    def lead(self, table: Table, shared: dict[str, Any]) -> bytes:
        said = b"{"
        for name in (one.name for one in table.columns[: lead_of(table)]):
            value = msgspec.json.encode(shared[name]).replace(b"%", b"%%") if name in shared else b"%d"
            said += b'"%b":%b,' % (name.encode(), value)
        return said

    def whole(self, table: Table, columns: Columns) -> bytes:
        return columns_as_json_lines(table, columns)

    def read(self, file: Path, limit: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        with open(file, "rb") as opened:
            for _ in range(limit):
                if not (line := opened.readline(_LOOK_BYTES)):
                    break
                try:
                    found.append(msgspec.json.decode(line, type=dict[str, Any]))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    return []
        return found


class Arrow(Format):
    """Record batches, for formats that keep types: the table of keywords is read from the campaign feed's rows."""

    ending = ".duckdb"
    stages_keywords = False

    def __init__(self) -> None:
        self.problems: list[BaseException] = []
        """What reading raised: DuckDB tells only the text of it."""

    def require_extra(self) -> None:
        require("duckdb", "pyarrow")
        require("pyarrow")

    def encode(self, table: Table, prepared: Columns, sizes: Sequence[int]) -> tuple[bytes, list[tuple[int, int]]]:
        batch = record_batch(without_lead(table), prepared)
        return batch.serialize().to_pybytes(), list(zip(accumulate(sizes, initial=0), sizes, strict=False))

    def tables(self, source: Source) -> Iterator[pa.Table]:
        """Yield the rows of a table, whole reports of `_ROWS` rows or a few more at once."""
        pa, table = require("pyarrow"), source.table
        if source.parts is None:
            for columns in source.columns:
                yield pa.Table.from_batches([record_batch(table, columns)])
            return
        staged = without_lead(table_of(Feed.CAMPAIGN) if table is keywords_table() else table)
        schema = arrow_schema(staged)
        held = lru_cache(RECENT)(lambda piece: pa.ipc.read_record_batch(source.read(piece), schema))
        for parts in in_groups((one for one in source.parts if one.rows), lambda one: one.rows, _ROWS):
            yield _joined(source, parts, held)

    def reader(self, source: Source) -> pa.RecordBatchReader:
        return require("pyarrow").RecordBatchReader.from_batches(arrow_schema(source.table), self._batches(source))

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

    def require_extra(self) -> None:
        require("pyarrow.parquet")

    def write(self, file: Path, source: Source) -> int:
        count, schema = 0, arrow_schema(source.table)
        with require("pyarrow.parquet").ParquetWriter(file, schema, compression="zstd") as writer:
            for table in self.tables(source):
                # joined, so that equal rows give equal bytes, however they came
                writer.write_table(table.combine_chunks(), row_group_size=2 * _ROWS)
                count += table.num_rows
        return count

    def read(self, file: Path, limit: int) -> list[dict[str, Any]]:
        parquet = require("pyarrow.parquet")
        try:
            with open(file, "rb") as opened:
                found = parquet.ParquetFile(opened)
                batch = next(found.iter_batches(limit), None)
                return (batch.to_pylist() if batch else []) or [dict.fromkeys(found.schema_arrow.names)]
        except (require("pyarrow").ArrowException, ValueError):
            return []


def _joined(source: Source, parts: Sequence[Part], held: Callable[[tuple[int, int]], Any]) -> pa.Table:
    """Return parts as one table, with its lead."""
    pa, schema, slices = require("pyarrow"), arrow_schema(source.table), []
    wanted = [one.name for one in without_lead(source.table).columns]
    for piece, first, size in _runs(parts):
        slices.append(held(piece).slice(first, size).select(wanted))
    rows, number, columns = sum(part.rows for part in parts), 0, []
    for field in list(schema)[: lead_of(source.table)]:
        if field.name in source.shared:
            columns.append(pa.repeat(pa.scalar(source.shared[field.name], field.type), rows))
        else:
            ids = chain.from_iterable([repeat(part.ids[number], part.rows) for part in parts])
            columns.append(pa.array(list(ids), field.type))
            number += 1
    whole = pa.Table.from_arrays([*columns, *pa.Table.from_batches(slices).columns], schema=schema)
    return _first_of_each(whole) if source.table is keywords_table() else whole


def _places(data: bytes | bytearray, byte: bytes) -> list[int]:
    """Return where a byte is in some data: in a third of the time of `split`."""
    found, place = [], data.find(byte)
    while place >= 0:
        found.append(place)
        place = data.find(byte, place + 1)
    return found


def _runs(parts: Iterable[Part]) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Yield slices of pieces, those that touch as one: small ones cost as much as large ones."""
    piece, first, size = (-1, -1), 0, 0
    for part in parts:
        if part.piece == piece and part.first == first + size:
            size += part.size
            continue
        if size:
            yield piece, first, size
        piece, first, size = part.piece, part.first, part.size
    if size:
        yield piece, first, size


def _first_of_each(keywords: pa.Table) -> pa.Table:
    """Return each keyword of a campaign once."""
    keys = list(zip(*(keywords[name].to_pylist() for name in ("campaign_id", "keyword_id")), strict=True))
    first = {key: index for index, key in reversed(list(enumerate(keys)))}
    return keywords if len(first) == len(keys) else keywords.take(sorted(first.values()))


def format_of(ending: str, *, excel: bool) -> Format | None:
    """Return the format of a file's ending, or None; ConfigurationError: `excel` is for CSV only."""
    known: list[Format] = [Csv(excel=excel), JsonLines(), Parquet(), Arrow()]
    found = next((one for one in known if one.ending == ending), None)
    if excel and found is not None and not isinstance(found, Csv):
        raise ConfigurationError("excel=True is only for CSV: leave it out, or write CSV", argument="excel")
    return found
