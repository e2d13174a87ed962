"""The finished target as files: CSV, JSON lines or Parquet, one for each table."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from seorep_async.export.atomic_replace import atomic_replace, export_error, resolve, temporary_file, translate_errors
from seorep_async.export.contents import Contents
from seorep_async.export.formats import GROUP_ROWS, Format
from seorep_async.export.own_files import is_ours
from seorep_async.export.target import StoredTarget, Target
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import FeedTable, Table
from seorep_async.tables.optional import require
from seorep_async.tables.text import RFC_4180, CsvOptions, csv_header


def write_stored(target: StoredTarget, contents: Contents, check: Callable[[], None]) -> list[str]:
    """Write a target in an object store, first here by `write_files`; after an error, files already sent stay."""
    storage, folder = target.storage, contents.area.making / "finished"
    local = Target(folder / target.path.name, target.named, target.format, target.feeds, target.force)
    folder.mkdir()
    before = []
    for file, _ in (*local.sidecar_files(), *local.outdated_files()):
        earlier = storage.read(file.name)
        if earlier is not None:
            file.write_bytes(earlier)
            before.append(file.name)
    finished = write_files(contents, check, local)
    for file in reversed(finished):
        storage.put(file, file.name)
    names = [file.name for file in finished]
    storage.delete(name for name in before if name not in names and not (folder / name).exists())
    return [storage.address(name) for name in names]


def write_files(contents: Contents, check: Callable[[], None], target: Target | None = None) -> list[Path]:
    """Write every file of a target, replace older ones, and return those that exist now, rows first.

    The files of the feeds always exist, the others if their tables have rows. Those of an earlier pull into the
    same target are deleted. A file that no pull wrote stays. An exception of `check` ends the writing. After an error,
    no file has changed, or only the last has not.
    """
    target, folder = target or contents.area.target, contents.area.making
    finished: list[tuple[Path, Path]] = []
    outdated: list[Path] = []
    for number, table in enumerate(target.tables()):
        path, chunks = target.file(table), contents.chunks(table)
        if not isinstance(table, FeedTable):
            with translate_errors(path):
                may_replace = target.may_replace(path, table)
                is_outdated = path.exists() and is_ours(path, target.format, table)
            first = next(chunks, None)
            if first is None:
                outdated += [path] if is_outdated else []
                continue
            if not may_replace:
                raise export_error(path, "it exists, and no pull wrote it; move it away, and run this again")
            chunks = itertools.chain([first], chunks)
        with temporary_file(folder / f"table-{number}", path) as file:
            write_table(file, target.format, table, chunks, check, contents.area.job.csv)
        finished.append((file, path))
    for path, table in target.outdated_files():
        with translate_errors(path):
            outdated += [path] if path.exists() and is_ours(path, target.format, table) else []
    # the rows come last: a reader who sees them finds the others
    for file, path in (*finished[len(target.feeds) :], *finished[: len(target.feeds)]):
        atomic_replace(file, path)
    for path in outdated:
        with contextlib.suppress(OSError):
            resolve(path).unlink()
    return [path for _, path in finished]


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
