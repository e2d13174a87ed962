"""The finished target as files: CSV, JSON lines or Parquet, assembled from staged reports in a fixed order."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from seorep_async.export.atomic_replace import atomic_replace, export_error, resolve, temporary_file, translate_errors
from seorep_async.export.checkpoint import Checkpoint, fits
from seorep_async.export.formats import GROUP_ROWS, Format, arrow_tables
from seorep_async.export.job import ExportJob
from seorep_async.export.progress import PullFailure
from seorep_async.export.staging_area import StagingArea
from seorep_async.export.target import is_ours
from seorep_async.export.text import columns_as_csv, columns_as_json_lines, csv_header
from seorep_async.models import Feed
from seorep_async.tables.arrow import arrow_schema, batch_of_rows
from seorep_async.tables.columns import Table, Values, table_of
from seorep_async.tables.optional import require


def write_files(area: StagingArea, failures: Sequence[PullFailure], check: Callable[[], None]) -> list[Path]:
    """Write every file of a target, put them in their places, and return those that are there now.

    Each file of rows has sidecar files of totals and failures, which exist only if they have rows. Those of an earlier
    pull into the same file of rows are deleted. A file that no pull wrote stays.

    Args:
        area: the staged reports.
        failures: the reports that failed.
        check: called now and then; an exception that it raises ends the writing.

    Raises:
        ExportError: a file could not be written; none has changed, or the last of them has not.
    """
    job, target, folder = area.job, area.target, area.folder
    rows_of: dict[Path, Iterator[Values]] = {}
    for feed in job.feeds:
        rows_of[target.totals(feed)] = totals_rows(job, area.checkpoint, feed)
        rows_of[target.failures(feed)] = failure_rows(job, [one for one in failures if one.feed is feed])
    finished: list[tuple[Path, Path]] = []
    outdated: list[Path] = []
    for number, (place, table) in enumerate(target.sidecar_files()):
        first = next(rows_of[place], None)
        with translate_errors(place):
            may_replace = target.may_replace(place, table)
            is_outdated = first is None and place.exists() and is_ours(place, target.format, table)
        if first is not None:
            if not may_replace:
                raise export_error(place, "it exists, and no pull wrote it; move it away, and run this again")
            with temporary_file(folder / f"sidecar-{number}", place) as file:
                _write_sidecar(file, target.format, table, itertools.chain([first], rows_of[place]), check)
            finished.append((file, place))
        elif is_outdated:
            outdated.append(place)
    sidecars = [place for _, place in finished]
    for number, feed in enumerate(job.feeds):
        place = target.rows(feed)
        with temporary_file(folder / f"rows-{number}", place) as file:
            write = _write_text if target.format.is_text else _write_parquet
            write(file, area, feed, check)
        finished.append((file, place))
    for file, place in finished:
        atomic_replace(file, place)
    for place in outdated:
        with contextlib.suppress(OSError):
            resolve(place).unlink()
    return [*(target.rows(feed) for feed in job.feeds), *sidecars]


def totals_rows(job: ExportJob, checkpoint: Checkpoint, feed: Feed) -> Iterator[Values]:
    """Yield a row for each of a feed's reports with totals, in the order of the campaigns and their keywords."""
    for report in checkpoint.reports(feed, with_totals=True):
        keyword_id = report.id if feed is Feed.KEYWORD_BY_DATE else None
        totals = json.loads(report.totals or "[]")
        yield (table_of(feed).name, report.campaign_id, keyword_id, job.start_date, job.end_date, *totals)


def failure_rows(job: ExportJob, failures: Iterable[PullFailure]) -> Iterator[Values]:
    """Yield a row for each failure; an id of more than 64 bits is in the message only."""
    for failure in failures:
        error = failure.error
        yield (
            table_of(failure.feed).name,
            failure.campaign_id if fits(failure.campaign_id) else None,
            failure.keyword_id if failure.keyword_id is not None and fits(failure.keyword_id) else None,
            job.start_date,
            job.end_date,
            type(error).__name__,
            error.message,
            error.status,
            error.attempts,
        )


def _write_text(path: Path, area: StagingArea, feed: Feed, check: Callable[[], None]) -> None:
    with open(path, "wb") as file:
        if area.target.format is Format.CSV:
            file.write(csv_header(table_of(feed)))
        for report in area.checkpoint.reports(feed):
            check()
            file.write(report.data)


def _write_parquet(path: Path, area: StagingArea, feed: Feed, check: Callable[[], None]) -> None:
    with _parquet_writer(path, table_of(feed)) as write:
        for table in arrow_tables(feed, area.checkpoint.reports(feed)):
            check()
            write(table)


@contextlib.contextmanager
def _parquet_writer(path: Path, table: Table) -> Iterator[Callable[[Any], None]]:
    """Provide a function that writes an Arrow table to a Parquet file, as one row group."""
    pq = require("pyarrow.parquet")
    with pq.ParquetWriter(path, arrow_schema(table), compression="zstd") as writer:
        yield lambda rows: writer.write_table(rows, row_group_size=GROUP_ROWS)


def _write_sidecar(path: Path, kind: Format, table: Table, rows: Iterator[Values], check: Callable[[], None]) -> None:
    pieces = iter(lambda: list(itertools.islice(rows, GROUP_ROWS)), [])
    if kind is Format.PARQUET:
        pa = require("pyarrow")
        with _parquet_writer(path, table) as write:
            for piece in pieces:
                check()
                write(pa.Table.from_batches([batch_of_rows(table, piece)]))
        return
    encode = columns_as_csv if kind is Format.CSV else columns_as_json_lines
    with open(path, "wb") as file:
        if kind is Format.CSV:
            file.write(csv_header(table))
        for piece in pieces:
            check()
            file.write(encode(table, list(zip(*piece, strict=True))))
