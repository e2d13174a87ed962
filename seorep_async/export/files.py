"""Files as a target, CSV, JSON lines or Parquet: each is made whole in the staging folder, and then put in place."""

from __future__ import annotations

import os
import shutil
import stat
import threading
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import attrs

from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export.formats import Parquet, Text
from seorep_async.export.pieces import made
from seorep_async.export.request import ExportRequest
from seorep_async.export.staging import Contents, other_reading
from seorep_async.tables.columns import FeedTable, Table
from seorep_async.tables.output_tables import all_tables, failures_table, pulls_table, table_of

_LONGEST_NAME = 200
_COMMON_COLUMNS = 3  # account, snapshot date and the table's first own column


def refusal(out: object, problem: str) -> ConfigurationError:
    return ConfigurationError(f"can't write {out}: {problem}", argument="out")


@attrs.frozen
class Retry:
    """The failed reports that a target has of a request.

    Attributes:
        campaign_ids: the requested campaigns that failed, or None if no earlier pull requested all
            that is requested now.
        refusal: an earlier pull read its responses in another way, so that rows of both would mix.
    """

    campaign_ids: list[int] | None = None
    refusal: ConfigurationError | None = None


def check_reading(request: ExportRequest, reading: object) -> ConfigurationError | None:
    """Return a refusal if an earlier pull of the same night read its responses in another way."""
    if reading == request.reading:
        return None
    if reading:
        how = "other options or engine names"
    else:
        how = "an older version, which did not note its options"
    return other_reading({"reading": how})


@attrs.frozen
class Target:
    """Where a pull is written.

    Attributes:
        named: the path as the caller wrote it.
        path: the path with links followed.
        stop: set to end the wait for it, and the writing.
    """

    named: Path
    path: Path
    request: ExportRequest
    stop: threading.Event

    @property
    def staging_folder(self) -> Path:
        return self.path.with_name(f".{shortened(self.path.name)}.pull")


def check_file(named: Path, file: Path) -> None:
    """Refuse what is no regular file that can be written."""
    if not os.path.isdir(file.parent):
        raise refusal(named, f"there is no folder {file.parent}; create it first")
    place, problem = file, None
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            problem = f"{file.name} is no regular file; name another"
    except FileNotFoundError:
        place = file.parent
        if file.is_symlink():
            problem = f"{file.name} is a link to nothing; remove it"
    except OSError as error:
        problem = f"{error.strerror}; name another file"
    if problem is None and not os.access(place, os.W_OK):
        problem = f"{place} is read-only; name a file elsewhere"
    if problem is not None:
        raise refusal(named, problem)


def shortened(name: str) -> str:
    """Return a name of at most 200 bytes: a longer one is cut, and ends in a checksum."""
    data = name.encode()
    if len(data) <= _LONGEST_NAME:
        return name
    return f"{data[: _LONGEST_NAME - 9].decode(errors='ignore')}-{zlib.crc32(data):08x}"


@attrs.frozen
class Files(Target):
    """Files beside each other: `path` for the rows of a single feed, or else `name.TABLE.ending`."""

    format: Text | Parquet
    force: bool

    def file(self, table: Table) -> Path:
        if self.request.feeds == (getattr(table, "feed", None),):
            return self.path
        return self.path.with_name(f"{self.path.stem}.{table.name}{self.path.suffix}")

    def row_files(self) -> list[Path]:
        return [self._as_named(table_of(feed)) for feed in self.request.feeds]

    def _as_named(self, table: Table) -> Path:
        """Return the path of a table's file, relative if the target was named so."""
        file = self.file(table)
        if file == self.path:
            return self.named
        return file if self.named.is_symlink() else self.named.with_name(file.name)

    def check(self) -> None:
        """Refuse to replace a file that no pull wrote, unless `force`."""
        for table in self.request.tables:
            file = self.file(table)
            check_file(self.named, file)
            if file.exists() and file.stat().st_dev != self.path.parent.stat().st_dev:
                raise refusal(
                    self.named, f"{file.name} is a link to another file system; remove it"
                )
            if self.force or not file.exists() or not file.stat().st_size:
                continue
            found = [*next(iter(self.format.read(file)), {})][:_COMMON_COLUMNS]
            if all(
                found != [column.name for column in one.columns[:_COMMON_COLUMNS]]
                for one in all_tables()
            ):
                problem = f"{file.name} exists, and no pull wrote it; name another file, or replace it with force=True"
                raise refusal(self.named, problem)

    def check_accounts(self, account_ids: Sequence[int]) -> None:
        """Do nothing: files hold one pull, so no account can mix with another."""

    def failed(self) -> Retry:
        """Find out whether the files hold the same request without a failure.

        With failures, the staging folder has what is needed to retry them.
        """
        request = self.request
        pulls = self.file(pulls_table())
        has_rows = all(self.file(table_of(feed)).exists() for feed in request.feeds)
        if not pulls.is_file() or not has_rows or self.file(failures_table()).exists():
            return Retry()
        requested = {**request.labels, "feeds": request.feed_names, "selection": request.selection}
        for pull in self.format.read(pulls):
            if all(
                _comparable(pull.get(name)) == _comparable(requested[name]) for name in requested
            ):
                return Retry([], check_reading(request, pull.get("reading")))
        return Retry()

    def write(self, contents: Contents, folder: Path) -> list[Path]:
        """Write every table to a file of its own, and put them in place, the rows last; return the files, rows first.

        The files of the feeds always exist, the others if their tables have rows.
        """
        if not contents.received:
            return []
        finished = [
            (table, self._write_table(contents, table, folder)) for table in self.request.tables
        ]
        feeds = len(self.request.feeds)
        for table, new in (*finished[feeds:], *finished[:feeds]):
            if new is None:
                self.file(table).unlink(missing_ok=True)
            else:
                file = self.file(table)
                with suppress(OSError):  # there is none, or the file system has no permissions
                    shutil.copymode(file if file.exists() else self.path, new)
                _put(new, file)
        sync_folder(self.path.parent)
        return [self._as_named(table) for table, new in finished if new]

    def _write_table(self, contents: Contents, table: Table, folder: Path) -> Path | None:
        file = made(folder, f"{table.name}{self.path.suffix}")
        rows = self.format.write(file, contents.table(table))
        if not rows and not isinstance(table, FeedTable):
            file.unlink()
            return None
        with open(file, "rb+") as opened:
            os.fsync(opened.fileno())
        return file


def _comparable(value: object) -> str:
    """Return a value as it is compared with what a file says, in whichever type: CSV has no null, and text only."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _put(new: Path, file: Path) -> None:
    file = Path(os.path.realpath(file))
    try:
        os.replace(new, file)
    except PermissionError as error:  # some systems report an open file like this
        raise ExportError(
            f"can't write {file}: {error.strerror}; is it open in another program?"
        ) from error


def sync_folder(folder: Path) -> None:
    """Make names in a folder survive a power failure, where the system can."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
