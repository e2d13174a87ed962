"""Files as a target, CSV, JSON lines or Parquet: one for each table, on a disk or in an object store."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path
from typing import BinaryIO

import attrs

from seorep_async.models import Feed
from seorep_async.old_export.atomic_replace import atomic_replace, export_error, resolve, translate_errors
from seorep_async.old_export.formats import Format, write_table
from seorep_async.old_export.spec import PullSpec
from seorep_async.old_export.storage import Storage
from seorep_async.old_export.targets.target import Contents, Place, Target, check_file, mark, refusal, tables_of
from seorep_async.tables.columns import FeedTable, Table
from seorep_async.tables.declared import failures_table, keywords_table, pulls_table, table_of
from seorep_async.tables.optional import require

_FOREIGN = "{} exists, and no pull of this version wrote it; name another file, or replace it with force=True"
_LONGEST_LINE = 1 << 20
_COMMON_COLUMNS = 3  # account, snapshot date and the table's first own column, in every version


@attrs.frozen
class FilesTarget(Target):
    """Files on a disk; with several feeds, their names derive from the target's."""

    @classmethod
    def at(cls, place: Place) -> Target | None:
        if place.format is None:
            return None
        found = cls(place.path, Path(place.out), place.format, **place.given)
        for file, _ in found.replaceable():
            check_file(place.out, file)
        found.format.require_extra()
        for file, table in found.replaceable():
            if not found.may_replace(file, table):
                raise refusal(place.out, _FOREIGN.format(file.name))
        return found

    def file(self, table: Table) -> Path:
        """Return the file of a table: the path itself for the rows of a single feed, or else `name.TABLE.ending`."""
        if len(self.feeds) == 1 and table is table_of(self.feeds[0]):
            return self.path
        return self.path.with_name(f"{self.path.stem}.{table.name}{self.path.suffix}")

    def replaceable(self) -> Iterator[tuple[Path, Table]]:
        """Yield every file that may be written, replaced or removed, rows first, and its table."""
        return ((self.file(table), table) for table in tables_of(self.feeds))

    def outdated(self) -> Iterator[tuple[Path, Table]]:
        """Yield every file that only a pull of other feeds writes beside those of the rows, and its table."""
        if keywords_table() not in tables_of(self.feeds):
            yield self.file(keywords_table()), keywords_table()

    def may_replace(self, file: Path, table: Table) -> bool:
        """Return whether a table may replace a file: it is missing, empty, or ours, or `force` is set."""
        if self.force or not file.exists():
            return True
        with open(file, "rb") as opened:
            return is_one_of_ours(opened, kind=self.format, table=table)

    def exists(self) -> bool:
        return all(self.file(table_of(feed)).exists() for feed in self.feeds)

    def row_files(self) -> Sequence[Path | str]:
        return [self.as_named(self.file(table_of(feed))) for feed in self.feeds]

    def check(self, spec: PullSpec, check: Callable[[], None]) -> None:
        """Do nothing more: it was checked when it was named."""

    def last_pull_was_whole(self, spec: PullSpec, check: Callable[[], None]) -> bool:
        """Return whether its files of rows exist and are of the spec's night and days, and none of failures exists."""
        wanted = [spec.account, *map(str, (spec.snapshot_date, spec.start_date, spec.end_date))]
        is_whole = self.exists() and not self.file(failures_table()).exists()
        return is_whole and _pull_in(self.file(pulls_table()), self.format) == wanted

    def write(self, contents: Contents, check: Callable[[], None]) -> Sequence[Path | str]:
        """Write every file, replace older ones, and return those that exist now, rows first.

        The files of the feeds always exist, the others if their tables have rows. Those of an earlier pull into the
        same target are deleted. A file that no pull wrote stays. After an error, no file has changed, or only the last
        has not.
        """
        finished: list[tuple[Path, Path]] = []
        outdated: list[Path] = []
        for path, table in (*self.replaceable(), *self.outdated()):
            chunks = contents.chunks(table)
            if not isinstance(table, FeedTable):
                first = next(chunks, None)
                with translate_errors(path):
                    if first is None:
                        outdated += [path] if path.exists() and _is_ours(path, self.format, table) else []
                        continue
                    if not self.may_replace(path, table):
                        raise export_error(path, "it exists, and no pull wrote it; move it away, and run this again")
                chunks = itertools.chain([first], chunks)
            file = contents.area.making / f"table-{table.name}"
            with translate_errors(path):
                write_table(file, self.format, table, chunks, check, contents.area.spec.csv)
            finished.append((file, path))
        # the rows come last: a reader who sees them finds the others
        for file, path in (*finished[len(self.feeds) :], *finished[: len(self.feeds)]):
            atomic_replace(file, path)
        for path in outdated:
            with contextlib.suppress(OSError):
                resolve(path).unlink()
        return [path for _, path in finished]


@attrs.frozen(kw_only=True)
class StoredFilesTarget(FilesTarget):
    """Files in an object store, made whole on this machine; the path names their staging folder."""

    storage: Storage

    @classmethod
    def at(cls, place: Place) -> Target | None:
        if not place.is_address or place.format is None:
            return None
        place.format.require_extra()
        here = place.path.parent
        path = here / mark(place.out) / place.path.name
        given = {**place.given, "work_dir": place.given["work_dir"] or here}
        return cls(path=path, named=path, format=place.format, storage=place.storage, **given)

    @property
    def label(self) -> str:
        return self.storage.address(self.path.name)

    def exists(self) -> bool:
        """Return False: existence is never checked."""
        return False

    def row_files(self) -> Sequence[Path | str]:
        return [self.storage.address(self.file(table_of(feed)).name) for feed in self.feeds]

    def check(self, spec: PullSpec, check: Callable[[], None]) -> None:
        """Refuse to replace objects that no pull wrote."""
        self.storage.read(self.file(pulls_table()).name)  # detects a missing bucket, unlike a look into a file
        for file, table in () if self.force else self.replaceable():
            ours = self.storage.inspect(file.name, partial(is_one_of_ours, kind=self.format, table=table))
            if ours is False:
                raise refusal(self.storage.address(file.name), _FOREIGN.format("it"))

    def write(self, contents: Contents, check: Callable[[], None]) -> Sequence[Path | str]:
        """Write the files here first, then send them; after an error, files already sent stay."""
        folder = contents.area.making / "finished"
        local = FilesTarget(folder / self.path.name, self.named, self.format, self.feeds, self.force)
        folder.mkdir()
        before = []
        for file, _ in (*itertools.islice(local.replaceable(), len(self.feeds), None), *local.outdated()):
            earlier = self.storage.read(file.name)
            if earlier is not None:
                file.write_bytes(earlier)
                before.append(file.name)
        names = []
        for path in reversed(local.write(contents, check)):
            names.append(Path(path).name)
            self.storage.put(Path(path), names[-1])
        self.storage.delete(name for name in before if name not in names and not (folder / name).exists())
        return [self.storage.address(name) for name in reversed(names)]


def _pull_in(pulls: Path, kind: Format) -> list[str] | None:
    """Return account, night, first and last day of the pull in a file of pulls, or None if it can't be read."""
    names = ["account", "snapshot_date", "start_date", "end_date"]
    try:
        with open(pulls, "rb") as opened:
            if kind is Format.PARQUET:
                (pull,) = require("pyarrow.parquet").read_table(opened, columns=names).to_pylist()
            elif kind is Format.CSV:
                (pull,) = csv.DictReader(StringIO(opened.read().decode("utf-8-sig"), newline=""))
            else:
                (pull,) = map(json.loads, opened)
            return [str(pull[name]) for name in names]
    # pyarrow's errors are among them
    except (OSError, ValueError, OverflowError, KeyError, TypeError, RecursionError, csv.Error):
        return None


def _is_ours(file: Path, kind: Format, table: Table) -> bool:
    with open(file, "rb") as opened:
        return _has_columns(_columns(opened, kind), table)


def is_one_of_ours(opened: BinaryIO, *, kind: Format, table: Table) -> bool:
    """Return whether a file has the columns of a table, or of another feed's, or is empty: JSON lines of no rows."""
    if not opened.read(1):
        return True
    opened.seek(0)
    tables = map(table_of, Feed) if isinstance(table, FeedTable) else (table,)
    found = _columns(opened, kind)
    return any(_has_columns(found, one) for one in tables)


def _has_columns(found: Sequence[str], table: Table) -> bool:
    """Return whether columns are those of a table; other versions of it may have fewer."""
    ours = [column.name for column in table.columns]
    return found[:_COMMON_COLUMNS] == ours[:_COMMON_COLUMNS] and set(found) <= set(ours)


def _columns(opened: BinaryIO, kind: Format) -> Sequence[str]:
    """Return the names of a file's columns, or none if it has another format."""
    try:
        if kind is Format.PARQUET:
            return list(require("pyarrow.parquet").read_schema(opened).names)
        line = BytesIO(opened.read(_LONGEST_LINE)).readline().decode("utf-8-sig")
        if kind is Format.CSV:
            return next(csv.reader([line]), [])
        first = json.loads(line)
        return list(first) if isinstance(first, dict) else []
    except (ValueError, RecursionError, csv.Error):  # pyarrow's own error is a ValueError
        return []
    except OSError as error:
        if error.errno is None:  # pyarrow's error for a damaged file
            return []
        raise
