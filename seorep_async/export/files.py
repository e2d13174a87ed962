"""Files as a target: CSV, JSON lines or Parquet. Each is first completed in the staging folder."""

from __future__ import annotations

import contextlib
import errno
import logging
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
from seorep_async.models import Feed
from seorep_async.tables.columns import FeedTable, Table
from seorep_async.tables.output_tables import all_tables, pulls_table, table_of

_log = logging.getLogger("seorep_async")
IN_USE_SECONDS = 2.0
"""How long to retry the replacement of a file that another program has open."""
_RETRY_SECONDS = 0.1
_LONGEST_NAME = 200
IDENTIFYING_COLUMN_COUNT = 3
"""The number of first columns by which a pull's table is recognised. The third one is the table's
own.
"""
_MOUNTS = Path("/proc/self/mountinfo")


def refusal(out: object, problem: str) -> ConfigurationError:
    """Return the error for a path that can't be a target."""
    return ConfigurationError(f"can't write {out}: {problem}", argument="out")


@attrs.frozen
class RetryableFailures:
    """The failures of earlier pulls that a request with `retry_failed` can retry.

    Attributes:
        campaign_ids: the requested campaigns that failed. None if the target does not know, because
            no earlier pull requested all that is requested now.
        refusal: the error if an earlier pull had other row options, because rows would mix.
    """

    campaign_ids: list[int] | None = None
    refusal: ConfigurationError | None = None


def check_row_options(request: ExportRequest, row_options: object) -> ConfigurationError | None:
    """Return an error if an earlier pull of the same night had other row options."""
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
        stop: an event; once it is set, a wait for the target ends, and so does the writing.
    """

    out: Path
    path: Path
    request: ExportRequest
    stop: threading.Event

    @property
    def staging_folder(self) -> Path:
        return self.path.with_name(f".{shortened(self.path.name)}.pull")

    def check_accounts(self, account_ids: Sequence[int]) -> None:
        """Do nothing. A file contains one pull, so no account can mix with another."""

    def replaced_pull(self) -> Mapping[str, Any]:
        """Return the row of the pull that this one replaces. A database replaces none."""
        return {}

    def replaced_pull_as_strings(self) -> dict[str, str]:
        """Return the replaced pull's row as strings, because CSV has neither types nor null."""
        return _as_strings(self.replaced_pull())

    def requested_pull(self) -> dict[str, str]:
        """Return the values of the pull's row in `pulls` that are known before it begins."""
        request = self.request
        return _as_strings(
            {
                **request.labels,
                "service": request.service,
                "feeds": request.feed_names,
                "selection": request.selection,
            }
        )

    def find_retry(self) -> RetryableFailures:
        """Look for a complete pull of the same request in the target.

        If there is one, `campaign_ids` is empty, because nothing is left to retry. Otherwise it is
        None, because only the staging folder knows which reports failed.
        """
        pull = self.replaced_pull_as_strings()
        complete_pull = {**self.requested_pull(), "failures": "0"}
        # a workbook leaves out empty columns, so a missing value counts as an empty one
        if all(pull.get(name, "") == value for name, value in complete_pull.items()):
            # no campaign failed; the column `reading` has the row options
            return RetryableFailures([], check_row_options(self.request, pull.get("reading")))
        return RetryableFailures()

    def row_files(self) -> list[Path]:
        """Return the files of the feeds' rows. A relative path of the caller's stays relative."""
        return [self.out]

    def notes_on_replaced_pull(self, complete: int) -> tuple[str, ...]:
        """Return a note if the replaced pull had other days, another account, or more.

        More means a feed that this pull doesn't request, or more campaigns without a failure.

        Args:
            complete: the number of campaigns without a failure in this pull.
        """
        pull = self.replaced_pull_as_strings()
        requested = self.requested_pull()
        names = ("account", "start_date", "end_date")
        try:
            failures = int(pull["failures"])
            # At least this number, because one campaign may have several failures. For the same
            # reason, there may be more failures than campaigns.
            complete_before = max(0, int(pull["campaigns"]) - failures)
            is_other = any(pull[name] != requested[name] for name in names)
            lost_feeds = {*pull["feeds"].split(",")} - {*self.request.feed_names.split(",")}
        except (KeyError, ValueError):
            # no pull is replaced, or somebody has changed its row
            return ()
        if not is_other and not lost_feeds and complete >= complete_before:
            return ()
        contents = "{start_date} to {end_date} of {account} ({feeds})".format_map(pull)
        campaigns = counted(complete_before, "complete campaign")
        # the number is exact if nothing failed, or if each campaign has one report
        if failures and pull["feeds"] not in (Feed.CAMPAIGN.value, Feed.CAMPAIGN_BY_DATE.value):
            campaigns = f"at least {campaigns}"
        note = f"replaces {contents}: {campaigns}, now {complete:,}"
        if complete < complete_before:
            _log.warning("%s", note)
        return (note,)


def _as_strings(row: Mapping[str, Any]) -> dict[str, str]:
    return {name: "" if value is None else str(value) for name, value in row.items()}


def has_content(file: Path) -> bool:
    """Return whether a file exists and is not empty."""
    return file.exists() and file.stat().st_size > 0


def refusal_to_replace(out: Path, file: Path, problem: str) -> ConfigurationError:
    """Return the error for a file that may not be replaced, because somebody may need it."""
    return refusal(out, f"{file.name} {problem}; name another file, or replace it with force=True")


def check_file(out: Path, file: Path) -> None:
    """Refuse a path that can't be a target.

    Args:
        out: the target as the caller wrote it, for messages.
        file: the file to write; its path is absolute, and links are followed.

    Raises:
        ConfigurationError: the path is not a regular file, or there is no folder for it.
        ExportError: the file or its folder is read-only.
    """
    if not os.path.isdir(file.parent):
        raise refusal(out, f"there is no folder {file.parent}; create it first")
    problem = _problem_with(file)
    if problem is not None:
        raise refusal(out, problem)
    existing_path = file if file.exists() else file.parent
    # the folder must also be writable: a new file or a database's log is created there
    for needed in (existing_path, file.parent):
        if not os.access(needed, os.W_OK):
            raise ExportError(
                f"can't write {out}: {needed} is read-only for this user; make it writable, or "
                "name a file elsewhere",
                file=file,
            )


def _problem_with(file: Path) -> str | None:
    """Return why a file can't be replaced, and what to do. Return None if it can be replaced."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return f"{file.name} is not a regular file; name another file"
        if is_mounted(file):
            return f"{file.name} is a mount of a single file; mount its folder instead"
    except FileNotFoundError:
        if file.is_symlink():
            return f"{file.name} is a link to nothing; remove it"
    except OSError as error:
        return f"{error.strerror}; name another file"
    return None


def is_mounted(file: Path) -> bool:
    """Return whether a file is itself mounted, as in a container. It can't be replaced then."""
    # only Linux has mounts of single files
    if not _MOUNTS.exists():
        return False
    path = os.path.realpath(file)
    mounts = os.fsdecode(_MOUNTS.read_bytes())
    # Device numbers don't show a mount, because overlay file systems give files other numbers.
    return any(_mount_point(line) == path for line in mounts.splitlines())


def _mount_point(line: str) -> str:
    """Return the path in a line of Linux's table of mounts, where spaces are octal escapes."""
    fields = line.split(" ")
    return re.sub(r"\\([0-7]{3})", lambda escape: chr(int(escape[1], 8)), fields[4])


def shortened(name: str) -> str:
    """Return a name of at most 200 bytes. A longer name is cut and gets a checksum."""
    data = name.encode()
    if len(data) <= _LONGEST_NAME:
        return name
    # 9 bytes are for the hyphen and the checksum
    start = data[: _LONGEST_NAME - 9].decode(errors="ignore")
    return f"{start}-{zlib.crc32(data):08x}"


@attrs.frozen
class Files(Target):
    """Files in one folder, one for each table.

    The rows of a single feed are in `path`. All other tables, and the rows of several feeds, are in
    `NAME.TABLE.ENDING`.
    """

    format: Text | Parquet
    force: bool

    def file(self, table: Table) -> Path:
        """Return the file of a table. The rows of a single feed are in `path`."""
        is_only_feed = isinstance(table, FeedTable) and self.request.feeds == (table.feed,)
        if is_only_feed:
            return self.path
        return self.path.with_name(f"{self.path.stem}.{table.name}{self.path.suffix}")

    def row_files(self) -> list[Path]:
        return [self._as_named(table_of(feed)) for feed in self.request.feeds]

    def _as_named(self, table: Table) -> Path:
        """Return the path of a table's file as the caller would write it.

        If the caller's path is a link, the other tables are beside the link's target, so their
        paths are absolute.
        """
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
                raise refusal_to_replace(self.out, file, "exists, and no pull wrote it")

    def _is_from_a_pull(self, file: Path) -> bool:
        """Return whether a file begins with the first three columns of a pull's table."""
        # the keys of the row are the names of the columns
        names = list(self.format.read_first_row(file))[:IDENTIFYING_COLUMN_COUNT]
        return any(
            names == [column.name for column in table.columns[:IDENTIFYING_COLUMN_COUNT]]
            for table in all_tables()
        )

    def replaced_pull(self) -> Mapping[str, Any]:
        """Return the row of the pull to replace, if its file and every feed's file are there."""
        # every feed gets a file; other tables get one only if they have rows
        tables = [pulls_table(), *map(table_of, self.request.feeds)]
        if not all(self.file(table).is_file() for table in tables):
            return {}
        return self.format.read_first_row(self.file(pulls_table()))

    def write(self, contents: Contents, folder: Path) -> list[Path]:
        """Write each table to a file, and put all files in place. Return their paths.

        If nothing was received, the older files stay. Otherwise every feed gets a file. Any other
        table gets one only if it has rows; if not, its older file is removed.

        Feeds are put in place last, so that a reader who finds new rows also finds the other new
        tables. In the result, they come first.
        """
        if not contents.received:
            return []
        finished = {
            table: self._write_table(contents, table, folder) for table in self.request.tables
        }
        feeds_last = sorted(finished, key=lambda table: isinstance(table, FeedTable))
        for table in feeds_last:
            finished_file = finished[table]
            file = self.file(table)
            if finished_file is None:
                retry_while_in_use(file, partial(file.unlink, missing_ok=True))
            else:
                # a new file gets the permissions of `self.path`, if that exists
                put(finished_file, file, permissions_of=file if file.exists() else self.path)
        sync_folder(self.path.parent)
        return [self._as_named(table) for table, file in finished.items() if file is not None]

    def _write_table(self, contents: Contents, table: Table, folder: Path) -> Path | None:
        """Write a table in the staging folder. Return None if it has no rows and needs no file."""
        file = unfinished_path(folder, f"{table.name}{self.path.suffix}")
        rows = self.format.write(file, contents.source_of(table))
        if not rows and not isinstance(table, FeedTable):
            discard(file)
            return None
        sync_file(file)
        return file


def put(new: Path, file: Path, *, permissions_of: Path) -> None:
    """Replace a file in one step.

    Args:
        permissions_of: a path whose permissions the new file gets, if it exists: usually `file`
            itself, and for a new file beside the target, the target.
    """
    # there may be no such file, or the file system may have no permissions
    with suppress(OSError):
        shutil.copymode(permissions_of, new)
    # a link stays, and the file behind it is replaced
    real_file = os.path.realpath(file)
    retry_while_in_use(file, partial(os.replace, new, real_file))


@contextlib.contextmanager
def replacing(out: Path, path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file. After the block, it replaces a file in one step.

    Args:
        out: the path as the caller wrote it, for messages.
        path: the same path with links followed.

    Raises:
        ExportError: the file can't be written.
    """
    try:
        # A folder of its own, because xlsxwriter also creates temporary files. On Windows, a virus
        # scanner may keep one of them open after the file was replaced.
        # with a longer prefix, the name of the folder might be too long for the file system
        prefix = f".{path.name[-50:]}."
        with TemporaryDirectory(
            prefix=prefix, dir=path.parent, ignore_cleanup_errors=True
        ) as folder:
            file = Path(folder) / f"new{path.suffix}"
            yield file
            put(file, path, permissions_of=path)
    except OSError as error:
        raise ExportError(f"can't write {out}: {error.strerror}", file=out) from error


def retry_while_in_use(file: Path, action: Callable[[], object]) -> None:
    """Call a function that changes a file. Retry for two seconds while another program has it open.

    Windows refuses to replace or remove an open file, and virus scanners open new files.

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
