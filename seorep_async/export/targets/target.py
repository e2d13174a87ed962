"""What every kind of target offers, and the place for which one is chosen."""

from __future__ import annotations

import hashlib
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs

from seorep_async.errors import ConfigurationError
from seorep_async.export.atomic_replace import resolve
from seorep_async.export.contents import Contents
from seorep_async.export.formats import Format
from seorep_async.export.spec import PullSpec
from seorep_async.export.staging_area import StagingArea
from seorep_async.export.storage import Storage
from seorep_async.models import Feed
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import (
    campaigns_table,
    failures_table,
    keywords_table,
    pulls_table,
    table_of,
    totals_table,
)


@attrs.frozen
class Target(ABC):
    """The target of an export.

    Attributes:
        path: the path with links followed.
        named: the path as the caller wrote it.
        work_dir: the folder for the staging folder, or None for one beside the target.
        account: accounts that share a target don't share a staging folder.
        accumulates: whether it stores the rows of several nights and accounts.
    """

    path: Path
    named: Path
    format: Format
    feeds: tuple[Feed, ...]
    force: bool = False
    work_dir: Path | None = None
    account: str | None = None
    accumulates: ClassVar[bool] = False

    @abstractmethod
    def check(self, spec: PullSpec, check: Callable[[], None]) -> None:
        """Refuse a pull that it can't take, before any request; an exception of `check` ends a wait."""

    @abstractmethod
    def write(self, contents: Contents, check: Callable[[], None]) -> Sequence[Path | str]:
        """Put a pull into it, and return its files, rows first; an exception of `check` ends the writing."""

    @abstractmethod
    def last_pull_was_whole(self, spec: PullSpec, check: Callable[[], None]) -> bool:
        """Return whether the last pull into it had the feeds and dates of a spec, and nothing failed."""

    @abstractmethod
    def exists(self) -> bool:
        """Return whether an older one exists."""

    @abstractmethod
    def row_files(self) -> Sequence[Path | str]:
        """Return its files or folders of rows, relative if the target was given as relative."""

    @property
    def label(self) -> Path | str:
        """Its name in messages."""
        return self.path

    def as_named(self, file: Path) -> Path:
        """Return a file's path, relative if the target was given as relative."""
        if self.named.is_symlink() or file.parent != self.path.parent:  # in a work folder
            return self.named if file == self.path else file
        return self.named.with_name(file.name)

    @property
    def staging_folder(self) -> Path:
        """The hidden folder of staged reports."""
        # cut to the limit of the file system, and still one for each target
        name = self.path.name if len(self.path.name.encode(errors="surrogateescape")) <= 200 else mark(self.path.name)
        whose = f".{mark(self.account)}" if self.accumulates and self.account is not None else ""
        if self.work_dir is None:
            return self.path.with_name(f".{name}{whose}.pull")
        return self.work_dir / f".{mark(str(self.path))}{whose}.pull"

    def area(self) -> StagingArea:
        """Return its staging area, closed."""
        return StagingArea(self.staging_folder, self.format, self.label, self.accumulates, self.exists)

    def has_nothing_to_retry(self, spec: PullSpec, check: Callable[[], None]) -> bool:
        """Return whether nothing is staged, and the last pull was whole."""
        return not os.path.lexists(self.staging_folder) and self.last_pull_was_whole(spec, check)


@attrs.frozen(kw_only=True)
class Place:
    """A path or an address, and what else the caller said of a target there.

    Attributes:
        out: as the caller wrote it.
        path: the path with links followed; of an address, its last part in the current folder.
        format: what the name's ending says; None for a folder, or if it is no format's.
        storage: the folder, or of a name in an object store, the folder that holds it.
        given: the attributes that every target takes.
    """

    out: str
    path: Path
    format: Format | None
    is_address: bool
    storage: Storage
    given: Mapping[str, Any]


def check_file(out: object, file: Path) -> None:
    """Refuse what is no regular file that can be written, or a link into a folder that does not exist."""
    try:
        found = file.stat().st_mode
    except FileNotFoundError:
        folder = resolve(file).parent
        if not folder.is_dir():
            raise refusal(out, f"{file.name} links to {folder}, which does not exist; create it first") from None
        return
    if stat.S_ISDIR(found):
        raise refusal(out, f"{file.name} is a folder; name another file")
    if not stat.S_ISREG(found):
        raise refusal(out, f"{file.name} is not a regular file; name another")
    if not os.access(file, os.W_OK):
        raise refusal(out, f"{file.name} is read-only; name another file")


def tables_of(feeds: Sequence[Feed]) -> tuple[Table, ...]:
    """Return the tables of a pull: those of its feeds, and those about their campaigns, keywords and pulls."""
    about_keywords = () if tuple(feeds) == (Feed.CAMPAIGN_BY_DATE,) else (keywords_table(),)
    others = (totals_table(), campaigns_table(), *about_keywords, failures_table(), pulls_table())
    return (*map(table_of, feeds), *others)


def shard_tables(feeds: Sequence[Feed]) -> tuple[Table, ...]:
    """Return the tables of which each shard writes a part; `campaigns` and `pulls` are written once per pull."""
    return tuple(table for table in tables_of(feeds) if table not in (campaigns_table(), pulls_table()))


def refusal(out: object, problem: str) -> ConfigurationError:
    """Return the error for a place where nothing can be written."""
    return ConfigurationError(f"can't write {out}: {problem}", argument="out")


def mark(name: str) -> str:
    """Return a short name that stands for a longer one."""
    return hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8]
