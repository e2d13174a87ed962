"""The target of an export: one database, a file for each table, or a dataset; on a disk, or in an object store."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from seorep_async.errors import ConfigurationError
from seorep_async.export.atomic_replace import os_message, resolve
from seorep_async.export.formats import Format
from seorep_async.export.local_folder import STAGING, LocalFolder
from seorep_async.export.own_files import is_one_of_ours
from seorep_async.export.storage import RECEIPTS, Storage, is_address, storage_of
from seorep_async.models import Feed
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import (
    all_tables,
    campaigns_table,
    failures_table,
    keywords_table,
    pulls_table,
    table_of,
    totals_table,
)
from seorep_async.tables.optional import require

_NOT_FOR_DUCKDB = set("?\\") if os.sep == "/" else set()
_FOREIGN = "{} exists, and no pull of this version wrote it; name another file, or replace it with force=True"


@attrs.frozen
class Target:
    """The target of an export.

    Attributes:
        path: the path with links followed; the files' names of several feeds derive from it.
        named: the path as the caller wrote it.
        force: replace also files that no pull wrote.
        work_dir: the folder for the staging folder, or None for one beside the target.
        account: accounts that share a target don't share a staging folder.
    """

    path: Path
    named: Path
    format: Format
    feeds: tuple[Feed, ...]
    force: bool = False
    work_dir: Path | None = None
    account: str | None = None

    def file(self, table: Table) -> Path:
        """Return the file of a table: the path itself for the rows of a single feed, or else `name.TABLE.ending`."""
        if self.format is Format.DUCKDB or (len(self.feeds) == 1 and table is table_of(self.feeds[0])):
            return self.path
        return self.path.with_name(f"{self.path.stem}.{table.name}{self.path.suffix}")

    def row_files(self) -> Iterator[tuple[Path, Table]]:
        """Yield every file of rows, and its table."""
        return ((self.file(table_of(feed)), table_of(feed)) for feed in self.feeds)

    def tables(self) -> tuple[Table, ...]:
        """Return the tables of the pull."""
        return tables_of(self.feeds)

    def sidecar_files(self) -> Iterator[tuple[Path, Table]]:
        """Yield every file beside those of the rows that may be written, replaced or removed, and its table."""
        if self.format is not Format.DUCKDB:
            for table in self.tables()[len(self.feeds) :]:
                yield self.file(table), table

    def outdated_files(self) -> Iterator[tuple[Path, Table]]:
        """Yield every file that only a pull of other feeds writes beside those of the rows, and its table."""
        if keywords_table() not in self.tables():
            yield self.file(keywords_table()), keywords_table()

    def named_row_files(self) -> tuple[Path | str, ...]:
        """Return every file of rows, relative if the target was given as relative."""
        return tuple(dict.fromkeys(self.as_named(file) for file, _ in self.row_files()))

    def exists(self) -> bool:
        """Return whether every file of rows exists."""
        return all(file.exists() for file, _ in self.row_files())

    def may_replace(self, file: Path, table: Table) -> bool:
        """Return whether a table may replace a file: it is missing, empty, a database, or ours, or `force` is set."""
        if self.force or self.format is Format.DUCKDB or not file.exists():
            return True
        with open(file, "rb") as opened:
            return is_one_of_ours(opened, kind=self.format, table=table)

    @property
    def label(self) -> str:
        """The target's name in messages."""
        return str(self.path)

    @property
    def staging_folder(self) -> Path:
        """The hidden folder of staged reports."""
        # cut to the limit of the file system, and still one for each target
        name = self.path.name if len(self.path.name.encode(errors="surrogateescape")) <= 200 else _mark(self.path.name)
        whose = f".{_mark(self.account)}" if self.accumulates and self.account is not None else ""
        if self.work_dir is None:
            return self.path.with_name(f".{name}{whose}.pull")
        return self.work_dir / f".{_mark(str(self.path))}{whose}.pull"

    @property
    def accumulates(self) -> bool:
        """Whether it stores the rows of several nights and accounts."""
        return self.format is Format.DUCKDB or isinstance(self, DatasetTarget)

    def files(self) -> Iterator[Path]:
        """Yield every file that may be written."""
        yield from dict.fromkeys(map(self.file, self.tables()))

    def shown(self, table: Table) -> Path | str:
        """Return the place of a table's rows, relative if the target was given as relative."""
        return self.as_named(self.file(table))

    def as_named(self, file: Path) -> Path:
        """Return a file's path, relative if the target was given as relative."""
        if self.named.is_symlink():
            return self.named if file == self.path else file
        return self.named.with_name(file.name)


@attrs.frozen
class StoredTarget(Target):
    """Files in an object store, made whole on this machine."""

    storage: Storage = attrs.field(kw_only=True)

    @property
    def label(self) -> str:
        """The target's name in messages."""
        return self.storage.address(self.path.name)

    def check_objects(self) -> None:
        """Refuse to replace objects that no pull wrote."""
        self.storage.read(self.file(pulls_table()).name)  # detects a missing bucket, unlike a look into a file
        for file, table in () if self.force else (*self.row_files(), *self.sidecar_files()):
            ours = self.storage.inspect(file.name, partial(is_one_of_ours, kind=self.format, table=table))
            if ours is False:
                raise _refusal(self.storage.address(file.name), _FOREIGN.format("it"))

    def named_row_files(self) -> tuple[str, ...]:
        """Return the address of every file of rows."""
        return tuple(self.storage.address(file.name) for file, _ in self.row_files())

    def exists(self) -> bool:
        """Return False: existence is never checked."""
        return False

    def as_named(self, file: Path) -> Path:
        """Return a file on this machine."""
        return file


@attrs.frozen
class DatasetTarget(Target):
    """A dataset, on a disk or in an object store."""

    storage: Storage = attrs.field(kw_only=True)

    @property
    def label(self) -> str:
        """The target's name in messages."""
        return self.storage.address()

    def named_row_files(self, partition: str = "") -> tuple[Path | str, ...]:
        """Return the folder of each table of rows, or of a partition of it."""
        names = [f"{table.name}/{partition}" for _, table in self.row_files()]
        if isinstance(self.storage, LocalFolder):
            return tuple(self.named / name for name in names)
        return tuple(map(self.storage.address, names))

    def exists(self) -> bool:
        """Return whether a night of any account exists."""
        return bool(list(self.storage.names(RECEIPTS)))

    def as_named(self, file: Path) -> Path:
        """Return a file on this machine."""
        return file


def tables_of(feeds: Sequence[Feed]) -> tuple[Table, ...]:
    """Return the tables of a pull: those of its feeds, and those about their campaigns, keywords and pulls."""
    about_keywords = () if tuple(feeds) == (Feed.CAMPAIGN_BY_DATE,) else (keywords_table(),)
    others = (totals_table(), campaigns_table(), *about_keywords, failures_table(), pulls_table())
    return (*map(table_of, feeds), *others)


def target_of(
    out: str | os.PathLike[str],
    feeds: Sequence[Feed],
    *,
    force: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    work_dir: str | os.PathLike[str] | None = None,
    account: str | None = None,
) -> Target:
    """Return the target of a path or an address, after a look at it.

    A name that ends in `/`, or an existing dataset, is a dataset. `work_dir` is the folder for the staging folder;
    for an object store, None is the current one.

    Raises:
        ConfigurationError: the ending is none of the formats', no file can be written there, or a file of another
            program exists and must not be replaced.
        ImportError: the format needs an extra.
    """
    try:
        folder = None if work_dir is None else resolve(Path(work_dir))
        if folder is not None and not folder.is_dir():
            raise _refusal(out, f"the work folder {folder} does not exist; create it first")
        if is_address(out):
            found = _in_object_store(str(out), tuple(feeds), storage_options, folder)
            return attrs.evolve(found, account=account, force=force)
        path = resolve(Path(out))
        storage = storage_of(str(path), storage_options)
        if not path.parent.is_dir():
            raise _refusal(out, f"there is no folder {path.parent}; create it first")
        if str(out).endswith(("/", os.sep)) or (path / RECEIPTS).is_dir():
            return attrs.evolve(_dataset_folder(out, path, tuple(feeds), folder, storage), account=account)
        if path.is_dir():
            raise _refusal(out, "it is a folder; name a file in it, or end the name in / for a dataset")
        target = Target(path, Path(out), _format_of(out, path), tuple(feeds), force, folder, account)
        _check_files(out, target)
    except ConfigurationError:
        raise
    except (OSError, ValueError) as error:
        raise _refusal(out, os_message(error)) from error
    except TypeError:
        raise ConfigurationError(f"out must be a path, got {type(out).__name__}", argument="out") from None
    return target


def _check_files(out: object, target: Target) -> None:
    for file in target.files():
        _check_file(out, file)
    target.format.require_extra()
    if target.format is Format.DUCKDB and _NOT_FOR_DUCKDB & {*f"{target.path}{target.staging_folder}"}:
        raise _refusal(out, r"DuckDB takes no path with a ? or a \ in it; name another")
    for file, table in (*target.row_files(), *target.sidecar_files()):
        if not target.may_replace(file, table):
            raise _refusal(out, _FOREIGN.format(file.name))


def _format_of(out: object, path: Path) -> Format:
    endings = [kind.value for kind in Format]
    if path.suffix.lower() not in endings:
        known = ", ".join(endings[:-1])
        raise _refusal(out, f"the name must end in {known} or {endings[-1]}, or in / for a dataset")
    return Format(path.suffix.lower())


def _dataset_folder(
    out: object, path: Path, feeds: tuple[Feed, ...], work_dir: Path | None, storage: Storage
) -> DatasetTarget:
    if path.exists() and not path.is_dir():
        raise _refusal(out, "it is a file; a dataset is a folder")
    ours = {RECEIPTS, STAGING, *(table.name for table in all_tables())}
    if path.is_dir() and not (path / RECEIPTS).is_dir() and any(one.name not in ours for one in path.iterdir()):
        raise _refusal(out, "the folder holds files that no pull wrote; name a new or empty folder")
    Format.DUCKDB.require_extra()  # it chooses the rows of a night to replace; its extra brings pyarrow along
    Format.PARQUET.require_extra()
    return DatasetTarget(path, Path(str(out)), Format.PARQUET, feeds, work_dir=work_dir, storage=storage)


def _in_object_store(
    out: str, feeds: tuple[Feed, ...], options: Mapping[str, Any] | None, work_dir: Path | None
) -> Target:
    """Return a target in an object store; its path names its staging folder, one for each address."""
    is_dataset, (folder, _, name) = out.endswith("/"), out.rpartition("/")
    if is_dataset:
        require("obstore", "duckdb")  # one message names both
    storage = storage_of(f"{folder}/", options)
    path = resolve(Path(f"{re.sub('[^A-Za-z0-9.]+', '-', out).strip('-')[-60:]}-{_mark(out)}" if is_dataset else name))
    kind = Format.PARQUET if is_dataset else _format_of(out, path)
    kind.require_extra()
    if is_dataset:
        Format.DUCKDB.require_extra()
        return DatasetTarget(path, path, kind, feeds, work_dir=work_dir, storage=storage)
    if kind is Format.DUCKDB:
        raise _refusal(out, "a database can't be in an object store; name a dataset (ending in /) or a file")
    path, work_dir = path.parent / _mark(out) / name, work_dir or path.parent
    return StoredTarget(path, path, kind, feeds, work_dir=work_dir, storage=storage)


def _mark(name: str) -> str:
    return hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8]


def _check_file(out: object, file: Path) -> None:
    try:
        found = file.stat().st_mode
    except FileNotFoundError:
        folder = resolve(file).parent
        if not folder.is_dir():
            raise _refusal(out, f"{file.name} links to {folder}, which does not exist; create it first") from None
        return
    if stat.S_ISDIR(found):
        raise _refusal(out, f"{file.name} is a folder; name another file")
    if not stat.S_ISREG(found):
        raise _refusal(out, f"{file.name} is not a regular file; name another")
    if not os.access(file, os.W_OK):
        raise _refusal(out, f"{file.name} is read-only; name another file")


def _refusal(out: object, problem: str) -> ConfigurationError:
    return ConfigurationError(f"can't write {out}: {problem}", argument="out")
