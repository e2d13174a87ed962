"""Where an export goes: one database, or a file for each table."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from seorep_async.errors import ConfigurationError
from seorep_async.export.atomic_replace import reason, resolve
from seorep_async.export.formats import Format
from seorep_async.models import Feed
from seorep_async.tables.columns import FeedTable, Table
from seorep_async.tables.declared import (
    campaigns_table,
    failures_table,
    keywords_table,
    pulls_table,
    table_of,
    totals_table,
)
from seorep_async.tables.optional import require

_LONGEST_LINE = 1 << 20
_COMMON_COLUMNS = 3  # account, snapshot date and what the table is about, which every version has


@attrs.frozen
class Target:
    """The target of an export.

    Attributes:
        path: the path with links followed; with several feeds, the files' names are made of it.
        named: the path as the caller wrote it.
        format: the format.
        feeds: the feeds whose rows it holds.
        force: replace also files that no pull wrote.
    """

    path: Path
    named: Path
    format: Format
    feeds: tuple[Feed, ...]
    force: bool = False

    def file(self, table: Table) -> Path:
        """Return the file of a table: the path itself for the rows of a single feed, or else `name.TABLE.ending`."""
        if self.format is Format.DUCKDB or (len(self.feeds) == 1 and table is table_of(self.feeds[0])):
            return self.path
        return self.path.with_name(f"{self.path.stem}.{table.name}{self.path.suffix}")

    def row_files(self) -> Iterator[tuple[Path, Table]]:
        """Yield every file of rows, and its table."""
        return ((self.file(table_of(feed)), table_of(feed)) for feed in self.feeds)

    def tables(self) -> tuple[Table, ...]:
        """Return the tables of the pull: those of its feeds, and those that say what the feeds are about."""
        about_keywords = () if self.feeds == (Feed.CAMPAIGN_BY_DATE,) else (keywords_table(),)
        others = (totals_table(), campaigns_table(), *about_keywords, failures_table(), pulls_table())
        return (*map(table_of, self.feeds), *others)

    def sidecar_files(self) -> Iterator[tuple[Path, Table]]:
        """Yield every file beside those of the rows that may be written, replaced or removed, and its table."""
        if self.format is not Format.DUCKDB:
            for table in self.tables()[len(self.feeds) :]:
                yield self.file(table), table

    def named_row_files(self) -> tuple[Path, ...]:
        """Return every file of rows in the words in which the target was named."""
        return tuple(dict.fromkeys(self.as_named(file) for file, _ in self.row_files()))

    def is_there(self) -> bool:
        """Whether every file of rows exists."""
        return all(file.exists() for file, _ in self.row_files())

    def may_replace(self, file: Path, table: Table) -> bool:
        """Whether a file may be replaced by a table: it is not there, empty, a database, or ours, or may be anything.

        Raises:
            OSError: it can't be read.
        """
        if self.force or self.format is Format.DUCKDB or not file.exists() or not file.stat().st_size:
            return True
        # a pull of another feed has written it, too
        tables = [table_of(feed) for feed in Feed] if isinstance(table, FeedTable) else [table]
        return any(is_ours(file, self.format, one) for one in tables)

    @property
    def staging_folder(self) -> Path:
        """The hidden folder beside it, in which reports are staged."""
        # cut, so that it does not outgrow what the file system allows, and still one for each target
        mark = hashlib.sha256(self.path.name.encode(errors="surrogateescape")).hexdigest()[:8]
        name = self.path.name if len(self.path.name.encode(errors="surrogateescape")) <= 200 else mark
        return self.path.with_name(f".{name}.pull")

    def files(self) -> Iterator[Path]:
        """Yield every file that may be written."""
        yield from dict.fromkeys(map(self.file, self.tables()))

    def as_named(self, file: Path) -> Path:
        """Return a file's path in the words in which the target was named: relative if it was."""
        if self.named.is_symlink():
            return self.named if file == self.path else file
        return self.named.with_name(file.name)


def target_of(out: str | os.PathLike[str], feeds: Sequence[Feed], *, force: bool = False) -> Target:
    """Return the target that a path names, after a look at the place.

    Raises:
        ConfigurationError: the ending is none of the formats', no file can be written there, or a file of somebody
            else's is there that is not to be replaced.
        ImportError: the format needs an extra.
    """
    endings = [kind.value for kind in Format]
    try:
        named = Path(out)
        path = resolve(named)
        if path.is_dir():
            raise _refusal(out, "it is a folder; name a file in it")
        ending = path.suffix.lower()
        if ending not in endings:
            raise _refusal(out, f"the name must end in {', '.join(endings[:-1])} or {endings[-1]}")
        target = Target(path, named, Format(ending), tuple(feeds), force)
        if not path.parent.is_dir():
            raise _refusal(out, f"there is no folder {path.parent}; create it first")
        for file in target.files():
            _check_file(out, file)
        target.format.require_extra()
        for file, table in (*target.row_files(), *target.sidecar_files()):
            if not target.may_replace(file, table):
                problem = f"{file.name} exists, and no pull of this version wrote it"
                raise _refusal(out, f"{problem}; name another file, or replace it with force=True")
    except ConfigurationError:
        raise
    except (OSError, ValueError) as error:
        raise _refusal(out, reason(error)) from error
    except TypeError:
        raise ConfigurationError(f"out must be a path, got {type(out).__name__}") from None
    return target


def _check_file(out: object, file: Path) -> None:
    try:
        found = file.stat().st_mode
    except FileNotFoundError:
        folder = resolve(file).parent
        if not folder.is_dir():
            raise _refusal(out, f"{file.name} leads to {folder}, which is not there; create it first") from None
        return
    if stat.S_ISDIR(found):
        raise _refusal(out, f"{file.name} is a folder; name another file")
    if not stat.S_ISREG(found):
        raise _refusal(out, f"{file.name} is not a regular file; name another")
    if not os.access(file, os.W_OK):
        raise _refusal(out, f"{file.name} is read-only; name another file")


def _refusal(out: object, problem: str) -> ConfigurationError:
    return ConfigurationError(f"can't write {out}: {problem}")


def is_ours(file: Path, kind: Format, table: Table) -> bool:
    """Return whether a file has the columns of a table; another version of it may have had fewer.

    Raises:
        OSError: it can't be read.
    """
    found, ours = _columns(file, kind), [column.name for column in table.columns]
    return found[:_COMMON_COLUMNS] == ours[:_COMMON_COLUMNS] and set(found) <= set(ours)


def _columns(file: Path, kind: Format) -> list[str]:
    """Return the names of a file's columns, or none if it is not of the format."""
    try:
        if kind is Format.PARQUET:
            return list(require("pyarrow.parquet").read_schema(file).names)
        with open(file, "rb") as opened:
            line = opened.readline(_LONGEST_LINE).decode("utf-8-sig")
        if kind is Format.CSV:
            return next(csv.reader([line]), [])
        first = json.loads(line)
        return list(first) if isinstance(first, dict) else []
    except (ValueError, RecursionError, csv.Error):  # pyarrow's own error is a ValueError
        return []
    except OSError as error:
        if error.errno is None:  # and so pyarrow says that a file is damaged
            return []
        raise
