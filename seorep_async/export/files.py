"""Files as a target: CSV, JSON lines or Parquet. Each is first completed in the staging folder."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs

from seorep_async.errors import ConfigurationError, ExportError, counted
from seorep_async.export.formats import Parquet, Text
from seorep_async.export.pieces import unfinished_path
from seorep_async.export.request import ExportRequest
from seorep_async.export.staging import Contents, other_row_options
from seorep_async.tables.columns import FeedTable, Table
from seorep_async.tables.output_tables import all_tables, pulls_table, table_of

IN_USE_SECONDS = 2.0
"""How long to retry the replacement of a file that another program has open."""
_RETRY_SECONDS = 0.1
_LONGEST_NAME = 200
_COMMON_COLUMNS = 3  # account, snapshot date and the table's first own column
_MOUNTS = Path("/proc/self/mountinfo")


def refusal(out: object, problem: str) -> ConfigurationError:
    return ConfigurationError(f"can't write {out}: {problem}", argument="out")


@attrs.frozen
class Retry:
    """The failed reports of a request that a target knows.

    Attributes:
        campaign_ids: the requested campaigns that failed, or None if no earlier pull requested all
            that is requested now.
        refusal: the error if an earlier pull had other row options, because rows would mix.
    """

    campaign_ids: list[int] | None = None
    refusal: ConfigurationError | None = None


def check_row_options(request: ExportRequest, row_options: object) -> ConfigurationError | None:
    """Return a refusal if an earlier pull of the same night had other row options."""
    if row_options == request.row_options:
        return None
    if row_options:
        how = "other options or engine names"
    else:
        how = "an older version, which did not note its options"
    return other_row_options({"row_options": how})


@attrs.frozen
class Target:
    """The target of a pull.

    Attributes:
        out: the path as the caller wrote it, for messages and the summary.
        path: the same path, absolute and with links followed.
        stop: set to end a wait for the target, and the writing.
    """

    out: Path
    path: Path
    request: ExportRequest
    stop: threading.Event

    @property
    def staging_folder(self) -> Path:
        return self.path.with_name(f".{shortened(self.path.name)}.pull")

    def check_accounts(self, account_ids: Sequence[int]) -> None:
        """Do nothing: files hold one pull, so no account can mix with another."""

    def replaced_pull(self) -> Mapping[str, Any]:
        """Return the row of the pull that would be replaced. A database replaces none."""
        return {}

    def earlier_pull(self) -> dict[str, str]:
        """Return the row of the replaced pull as strings: CSV has no null and no other type."""
        return _as_strings(self.replaced_pull())

    def requested_pull(self) -> dict[str, str]:
        """Return those columns for this pull that are known before it."""
        request = self.request
        return _as_strings(
            {**request.labels, "feeds": request.feed_names, "selection": request.selection}
        )

    def failed(self) -> Retry:
        """Find out whether the target holds the same request without a failure.

        If it holds failures, the staging folder has what is needed to retry them.
        """
        pull = self.earlier_pull()
        complete_pull = {**self.requested_pull(), "failures": "0"}
        # a workbook leaves empty columns out
        if all(pull.get(name, "") == value for name, value in complete_pull.items()):
            return Retry([], check_row_options(self.request, pull["reading"]))
        return Retry()

    def row_files(self) -> list[Path]:
        return [self.out]

    def losses(self, complete: int) -> tuple[str, ...]:
        """Describe the contents that another pull, or one with fewer campaigns, replaces.

        Args:
            complete: campaigns without a failure in this pull.
        """
        pull = self.earlier_pull()
        # there is no earlier pull to replace
        if not pull.get("start_date"):
            return ()
        requested = self.requested_pull()
        names = ("account", "start_date", "end_date")
        is_other = any(pull[name] != requested[name] for name in names)
        lost_feeds = {*pull["feeds"].split(",")} - {*self.request.feed_names.split(",")}
        earlier = int(pull["campaigns"]) - int(pull["failures"])
        if not is_other and not lost_feeds and complete >= earlier:
            return ()
        contents = "{start_date} to {end_date} of {account} ({feeds})".format_map(pull)
        campaigns = counted(earlier, "complete campaign")
        return (f"replaces {contents}: {campaigns}, now {complete:,}",)


def _as_strings(row: Mapping[str, Any]) -> dict[str, str]:
    return {name: "" if value is None else str(value) for name, value in row.items()}


def has_content(file: Path) -> bool:
    """Return whether a file exists and is not empty."""
    return file.exists() and file.stat().st_size > 0


def overwriting(out: Path, file: Path, problem: str) -> ConfigurationError:
    """Return the error for a file that may not be replaced, because somebody may need it."""
    return refusal(out, f"{file.name} {problem}; name another file, or replace it with force=True")


def check_file(out: Path, file: Path) -> None:
    """Refuse a path that can't be a target.

    Raises:
        ConfigurationError: it is no regular file, or there is no folder for it.
        ExportError: it is read-only.
    """
    if not os.path.isdir(file.parent):
        raise refusal(out, f"there is no folder {file.parent}; create it first")
    problem = _problem_with(file)
    if problem is not None:
        raise refusal(out, problem)
    place = file if file.exists() else file.parent
    # a file is replaced, and a database has its log beside it, so the folder must also be writable
    for needed in (place, file.parent):
        if not os.access(needed, os.W_OK):
            raise ExportError(
                f"can't write {out}: {needed} is read-only for this user; make it writable, or "
                "name a file elsewhere",
                file=file,
            )


def _problem_with(file: Path) -> str | None:
    """Return why a file can't be replaced, and what to do, or None."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return f"{file.name} is no regular file; name another"
        if is_mounted(file):
            return f"{file.name} is a mount of a single file; mount its folder instead"
    except FileNotFoundError:
        if file.is_symlink():
            return f"{file.name} is a link to nothing; remove it"
    except OSError as error:
        return f"{error.strerror}; name another file"
    return None


def is_mounted(file: Path) -> bool:
    """Return whether a file is itself a mount of a container, which can't be replaced."""
    path = os.path.realpath(file)
    try:
        mounts = os.fsdecode(_MOUNTS.read_bytes())
    except OSError:
        return os.path.ismount(path)
    # The numbers of devices would not tell, because overlay file systems give files their own.
    return any(_mount_point(line) == path for line in mounts.splitlines())


def _mount_point(line: str) -> str:
    """Return the path in a line of Linux's table of mounts. Octal numbers stand for spaces."""
    fields = line.split(" ")
    return re.sub(r"\\([0-7]{3})", lambda escape: chr(int(escape[1], 8)), fields[4])


def shortened(name: str) -> str:
    """Return a name of at most 200 bytes: a longer one is cut and gets a checksum."""
    data = name.encode()
    if len(data) <= _LONGEST_NAME:
        return name
    start = data[: _LONGEST_NAME - 9].decode(errors="ignore")
    return f"{start}-{zlib.crc32(data):08x}"


@attrs.frozen
class Files(Target):
    """Files in one folder, one for each table.

    The rows of a single feed stand in `path`; all other tables, and the rows of several feeds, in
    `name.TABLE.ending`.
    """

    format: Text | Parquet
    force: bool

    def file(self, table: Table) -> Path:
        is_only_feed = isinstance(table, FeedTable) and self.request.feeds == (table.feed,)
        if is_only_feed:
            return self.path
        return self.path.with_name(f"{self.path.stem}.{table.name}{self.path.suffix}")

    def row_files(self) -> list[Path]:
        return [self._as_named(table_of(feed)) for feed in self.request.feeds]

    def _as_named(self, table: Table) -> Path:
        """Return the path of a table's file, relative if the caller's path is."""
        file = self.file(table)
        if file == self.path:
            return self.out
        if self.out.is_symlink():
            return file
        return self.out.with_name(file.name)

    def check(self) -> None:
        """Refuse to replace a file that no pull wrote, unless `force`."""
        for table in self.request.tables:
            file = self.file(table)
            check_file(self.out, file)
            if not self.force and has_content(file) and not self._is_from_a_pull(file):
                raise overwriting(self.out, file, "exists, and no pull wrote it")

    def _is_from_a_pull(self, file: Path) -> bool:
        names = list(self.format.read(file))[:_COMMON_COLUMNS]
        return any(
            names == [column.name for column in table.columns[:_COMMON_COLUMNS]]
            for table in all_tables()
        )

    def replaced_pull(self) -> Mapping[str, Any]:
        files = [pulls_table(), *map(table_of, self.request.feeds)]
        if not all(self.file(table).is_file() for table in files):
            return {}
        return self.format.read(self.file(pulls_table()))

    def write(self, contents: Contents, folder: Path) -> list[Path]:
        """Write every table to a file, put all files in place, and return them, rows first.

        The feeds always have files; other tables have one only if they have rows. Files of rows are
        put in place last, so a reader who finds new rows also finds the other tables.
        """
        if not contents.received:
            return []
        finished = {
            table: self._write_table(contents, table, folder) for table in self.request.tables
        }
        rows_last = sorted(finished, key=lambda table: isinstance(table, FeedTable))
        for table in rows_last:
            finished_file = finished[table]
            file = self.file(table)
            if finished_file is None:
                while_in_use(file, partial(file.unlink, missing_ok=True))
            else:
                put(finished_file, file, permissions_of=file if file.exists() else self.path)
        sync_folder(self.path.parent)
        return [self._as_named(table) for table, file in finished.items() if file is not None]

    def _write_table(self, contents: Contents, table: Table, folder: Path) -> Path | None:
        """Write a table in the staging folder. Return None if it has no rows and needs no file."""
        file = unfinished_path(folder, f"{table.name}{self.path.suffix}")
        rows = self.format.write(file, contents.table(table))
        if not rows and not isinstance(table, FeedTable):
            discard(file)
            return None
        sync_file(file)
        return file


def put(new: Path, file: Path, *, permissions_of: Path) -> None:
    """Replace a file in one step, with the permissions of an older one."""
    # there may be no older file, or no permissions in the file system
    with suppress(OSError):
        shutil.copymode(permissions_of, new)
    real_file = os.path.realpath(file)
    while_in_use(file, partial(os.replace, new, real_file))


@contextlib.contextmanager
def replacing(out: Path, path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file, which replaces a file in one step after the block.

    Args:
        out: the path as the caller wrote it, for messages.
        path: the same path with links followed.

    Raises:
        ExportError: the file can't be written.
    """
    try:
        # in a folder, because a workbook has temporary files beside it until it is finished
        with TemporaryDirectory(prefix=f".{path.name[-50:]}.", dir=path.parent) as folder:
            file = Path(folder) / f"new{path.suffix}"
            yield file
            put(file, path, permissions_of=path)
    except OSError as error:
        raise ExportError(f"can't write {out}: {error.strerror}", file=out) from error


def while_in_use(file: Path, action: Callable[[], object]) -> None:
    """Change a file, and retry for two seconds while another program has it open.

    Windows refuses to replace or remove an open file, and virus scanners open new ones.

    Raises:
        ExportError: the file is still in use.
    """
    deadline = time.monotonic() + IN_USE_SECONDS
    while True:
        try:
            action()
            return
        except OSError as error:
            is_in_use = isinstance(error, PermissionError) or error.errno == errno.EBUSY
            if not is_in_use:
                raise
            if time.monotonic() >= deadline:
                raise ExportError(
                    f"can't write {file}: {error.strerror}; is it open in another program?",
                    file=file,
                ) from error
        time.sleep(_RETRY_SECONDS)


def discard(file: Path) -> None:
    """Remove an unfinished file. If that is refused, the next pull removes it."""
    with suppress(OSError):
        file.unlink()


def sync_file(file: Path) -> None:
    """Make a file's contents survive a power failure."""
    with open(file, "rb+") as opened:
        os.fsync(opened.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power failure, if the system supports it."""
    if sys.platform == "win32":
        return
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
