"""The finished target as files: CSV, JSON lines or Parquet, put together from the parts in a fixed order."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import RawIOBase
from pathlib import Path
from typing import Any

from seorep_async.export import csv_text
from seorep_async.export.atomic_replace import atomic_replace, followed, temporary_file
from seorep_async.export.errors import export_error, translate_errors
from seorep_async.export.formats import Format
from seorep_async.export.journal import BlockPlace
from seorep_async.export.json_lines import rows_as_json_lines
from seorep_async.export.parts import RecentBlocks
from seorep_async.export.progress import PullFailure
from seorep_async.export.sidecar_files import is_ours
from seorep_async.export.sidecar_tables import failure_rows, totals_rows
from seorep_async.export.work import Work
from seorep_async.models import Feed
from seorep_async.tables.arrow import arrow_schema, batch_of_rows
from seorep_async.tables.columns import Table, Values, table_of
from seorep_async.tables.optional import require

_GROUP_ROWS = 1 << 16
_COPIED_BYTES = 1 << 20


def write_files(work: Work, failures: Sequence[PullFailure], check: Callable[[], None]) -> list[Path]:
    """Write every file of a target, and put them in their places; return those that are there now.

    Each file of rows has one of totals and one of failures beside it, which are there only if they hold something;
    those of an earlier pull into the same file of rows go. A file that no pull wrote stays.

    Args:
        work: what came.
        failures: what did not.
        check: is called now and then; what it raises ends the writing.

    Raises:
        ExportError: a file could not be written; none has changed, or the last of them has not.
    """
    job, target = work.job, work.target
    rows_of: dict[Path, Iterator[Values]] = {}
    for feed in job.feeds:
        rows_of[target.totals(feed)] = totals_rows(job, work.journal, feed)
        rows_of[target.failures(feed)] = failure_rows(job, [one for one in failures if one.feed is feed])
    made: list[tuple[Path, Path]] = []
    old: list[Path] = []
    for number, (place, table) in enumerate(target.side_files()):
        first = next(rows_of[place], None)
        with translate_errors(place):
            is_free = not place.exists()
            ours = is_free or is_ours(place, target.format, table)
        if first is not None:
            if not ours:
                raise export_error(place, "it is there, and no pull wrote it; move it away, and run this again")
            file = work.folder / f"side-{number}"
            with temporary_file(file, place):
                _write_side_table(file, target.format, table, itertools.chain([first], rows_of[place]), check)
            made.append((file, place))
        elif ours and not is_free:
            old.append(place)
    beside = [place for _, place in made]
    for feed in job.feeds:
        place = target.rows(feed)
        file = work.folder / f"whole-{place.name[-100:]}"
        with temporary_file(file, place):
            write = _write_text if target.format.is_text else _write_parquet
            write(file, work, feed, check)
        made.append((file, place))
    for file, place in made:
        atomic_replace(file, place)
    for place in old:
        with contextlib.suppress(OSError):
            followed(place).unlink()
    return [*(target.rows(feed) for feed in job.feeds), *beside]


def _write_text(path: Path, work: Work, feed: Feed, check: Callable[[], None]) -> None:
    with open(path, "wb", buffering=0) as file:
        if work.target.format is Format.CSV:
            file.write(csv_text.header(table_of(feed)))
        for block, first, length in _joined(work, feed):
            start = block.start + first
            for place in range(start, start + length, _COPIED_BYTES):
                check()
                _write(file, work.parts.read(place, min(_COPIED_BYTES, start + length - place)))


def _write(file: RawIOBase, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _joined(work: Work, feed: Feed) -> Iterator[tuple[BlockPlace, int, int]]:
    """Give block, start and length of each stretch of the parts, in order; neighbours in a block are joined to one."""
    block, start, length = BlockPlace(0, 0, 0), 0, 0
    for unit in work.journal.done(feed):
        if length and unit.block == block and unit.start == start + length:
            length += unit.length
        else:
            if length:
                yield block, start, length
            block, start, length = unit.block, unit.start, unit.length
    if length:
        yield block, start, length


def _write_parquet(path: Path, work: Work, feed: Feed, check: Callable[[], None]) -> None:
    with parquet_writer(path, table_of(feed)) as write:
        for table in arrow_pieces(work, feed):
            check()
            write(table)


@contextlib.contextmanager
def parquet_writer(path: Path, table: Table) -> Iterator[Callable[[Any], None]]:
    """Give what writes an Arrow table to a Parquet file, as one row group."""
    pq = require("pyarrow.parquet")
    with pq.ParquetWriter(path, arrow_schema(table), compression="zstd") as writer:
        yield lambda rows: writer.write_table(rows, row_group_size=_GROUP_ROWS)


def arrow_pieces(work: Work, feed: Feed) -> Iterator[Any]:
    """Give a feed's rows in order, as Arrow tables of a fixed number of rows, so that the same rows give the same."""
    pa = require("pyarrow")
    schema = arrow_schema(table_of(feed))
    blocks = RecentBlocks(work.parts, lambda data: pa.ipc.read_record_batch(pa.py_buffer(data), schema))
    waiting: list[Any] = []
    rows = 0
    for block, start, left in _joined(work, feed):
        batch = blocks.read(block)
        while left:
            taken = min(left, _GROUP_ROWS - rows)
            waiting.append(batch.slice(start, taken))
            start, left, rows = start + taken, left - taken, rows + taken
            if rows == _GROUP_ROWS:
                yield pa.Table.from_batches(waiting, schema)
                waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting, schema)


def _write_side_table(
    path: Path, kind: Format, table: Table, rows: Iterable[Values], check: Callable[[], None]
) -> None:
    pieces = iter(lambda: list(itertools.islice(rows, _GROUP_ROWS)), [])
    if kind is Format.PARQUET:
        pa = require("pyarrow")
        with parquet_writer(path, table) as write:
            for piece in pieces:
                check()
                write(pa.Table.from_batches([batch_of_rows(table, piece)]))
        return
    with open(path, "wb") as file:
        if kind is Format.CSV:
            file.write(csv_text.header(table))
        for piece in pieces:
            check()
            file.write((csv_text.rows_as_csv if kind is Format.CSV else rows_as_json_lines)(table, piece))
