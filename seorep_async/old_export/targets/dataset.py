"""A dataset as a target: a folder or bucket of Parquet that grows by a partition for each account and night.

A second pull of the same night replaces the rows that it requested and received. All others stay: those of other
campaigns, other feeds, other dates of feeds by date, and of failed reports.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from seorep_async.errors import ExportError
from seorep_async.old_export.atomic_replace import resolve
from seorep_async.old_export.formats import Format, write_table
from seorep_async.old_export.local_folder import STAGING, LocalFolder
from seorep_async.old_export.night import Part, Partition, Receipt, digest_of, escape, is_name_of_part
from seorep_async.old_export.progress import CampaignOutcome
from seorep_async.old_export.receipts import busy, commit, holds, last_receipt, names_of_parts, read_receipt
from seorep_async.old_export.replacement import Replacement
from seorep_async.old_export.spec import PullSpec, shared
from seorep_async.old_export.storage import RECEIPTS, Storage, each
from seorep_async.old_export.targets.files import is_one_of_ours
from seorep_async.old_export.targets.target import Contents, Place, Target, mark, refusal, tables_of
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import all_tables, failures_table, pulls_table, table_of
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("seorep_async")
_PARTITION_COLUMNS = 2
"""The first columns of every table, account and snapshot date, stand in the path only."""


def table_named(name: str) -> Table:
    (table,) = (table for table in all_tables() if table.name == name)
    return table


@attrs.frozen(kw_only=True)
class DatasetTarget(Target):
    """A dataset, on a disk or in an object store; of the latter, the path names the staging folder."""

    storage: Storage
    accumulates: ClassVar[bool] = True

    @classmethod
    def at(cls, place: Place) -> Target | None:
        path, name = place.path, place.out
        if place.is_address and name.endswith("/"):
            path = resolve(Path(f"{re.sub('[^A-Za-z0-9.]+', '-', name).strip('-')[-60:]}-{mark(name)}"))
            named = path
        elif not place.is_address and (name.endswith(("/", os.sep)) or (path / RECEIPTS).is_dir()):
            if path.exists() and not path.is_dir():
                raise refusal(name, "it is a file; a dataset is a folder")
            ours = {RECEIPTS, STAGING, *(table.name for table in all_tables())}
            if path.is_dir() and not (path / RECEIPTS).is_dir() and any(one.name not in ours for one in path.iterdir()):
                raise refusal(name, "the folder holds files that no pull wrote; name a new or empty folder")
            named = Path(name)
        else:
            return None
        Format.DUCKDB.require_extra()  # it chooses the rows of a night to replace; its extra brings pyarrow along
        Format.PARQUET.require_extra()
        return cls(path=path, named=named, format=Format.PARQUET, storage=place.storage, **place.given)

    @property
    def label(self) -> Path | str:
        return self.storage.address()

    def exists(self) -> bool:
        return bool(list(self.storage.names(RECEIPTS)))

    def row_files(self, partition: str = "") -> Sequence[Path | str]:
        """Return the folder of each table of rows, or of a partition of it."""
        names = [f"{table_of(feed).name}/{partition}" for feed in self.feeds]
        if isinstance(self.storage, LocalFolder):
            return [self.named / name for name in names]
        return [self.storage.address(name) for name in names]

    def as_named(self, file: Path) -> Path:
        return file

    def check(self, spec: PullSpec, check: Callable[[], None]) -> None:
        """Refuse a search, an account that it knows with another service or key, and a folder that no pull wrote."""
        spec.check_whole(self.label)
        storage = self.storage
        earlier = last_receipt(storage, spec.account)
        known = None if earlier is None else (earlier.service, earlier.key_digest)
        if earlier is None or not earlier.has_rows:  # receipts were lost, or do not tell whose key came last
            known = _newest_key(storage, spec.account) or known
        if known is not None:
            spec.check_account(self.label, *known)
        if earlier is None:
            foreign = _foreign_file(storage, Partition(spec.account, spec.snapshot_date))
            # in this order, as another pull writes its first receipt before its first part
            if foreign is not None and not storage.names(RECEIPTS):
                problem = f"no pull wrote {storage.address(foreign)}; name another place for the dataset"
                raise refusal(self.label, problem)

    def last_pull_was_whole(self, spec: PullSpec, check: Callable[[], None]) -> bool:
        """Return whether the last pull of the night had the feeds and dates, its parts exist, and nothing failed."""
        storage, night = self.storage, Partition(spec.account, spec.snapshot_date)
        last = read_receipt(storage, night)
        if (
            last is None
            or last.coming is not None
            or not {part.name(night) for part in last.parts} <= names_of_parts(storage, night)
            or not {feed.value for feed in spec.feeds} <= set(last.feeds)
            or (last.start_date, last.end_date) != (spec.start_date, spec.end_date)
        ):
            return False
        wanted = {(table_of(feed).name, spec.start_date, spec.end_date) for feed in spec.feeds}
        for name in storage.names(f"{failures_table().name}/account={escape(spec.account)}/"):
            rows = decoded(failures_table(), storage.read(name))
            if rows is None:
                return False
            failed = zip(*(rows[one].to_pylist() for one in ("table_name", "start_date", "end_date")), strict=True)
            if not wanted.isdisjoint(failed):
                return False
        return True

    def write(self, contents: Contents, check: Callable[[], None]) -> Sequence[Path | str]:
        """Replace the night of a pull by the fetched reports, and return the night's folder of each feed's table.

        If that fails after the night began to change, the next pull of it, or the same again, completes it first.
        """
        spec = contents.area.spec
        night = Partition(spec.account, spec.snapshot_date)
        read_receipt(self.storage, night)  # to complete an interrupted commit of this pull empties its staging folder
        pull = night.pull_name(spec.started_at)
        files = write_parts(contents, 0, tables_of(self.feeds), check)
        stage(self.storage, night, pull, files)
        receipt = receipt_of(spec, pull, [part for _, part in files], contents.outcomes)
        commit_night(self.storage, receipt, Replacement(spec, contents.outcomes), check)
        return self.row_files(night.folder)


def _newest_key(storage: Storage, account: str) -> tuple[str, str] | None:
    """Return service and key digest of the newest pull in the table of pulls; None if every report of all failed."""
    parts = storage.names(f"{pulls_table().name}/account={escape(account)}")
    tables = (decoded(pulls_table(), storage.read(name)) for name in parts)
    needed = ["started_at", "service", "key_digest", "rows", "failures", "campaigns"]
    pulls = [row for rows in tables if rows is not None for row in rows.select(needed).drop_null().to_pylist()]
    if not any(row["rows"] or row["failures"] < row["campaigns"] or not row["campaigns"] for row in pulls):
        return None
    newest = max(pulls, key=lambda row: row["started_at"])
    return newest["service"], newest["key_digest"]


def _foreign_file(storage: Storage, night: Partition) -> str | None:
    """Return a file in a table's folder that no pull wrote, or None; a part that lost its receipt does not count."""
    for table in all_tables():
        for name in storage.names(table.name):
            look = partial(is_one_of_ours, kind=Format.PARQUET, table=part_table(table))
            to_be_replaced = name.startswith(f"{table.name}/{night.folder}/")
            if not is_name_of_part(name) or (to_be_replaced and storage.inspect(name, look) is False):
                return name
    return None


def receipt_of(spec: PullSpec, pull: str, parts: Iterable[Part], outcomes: Iterable[CampaignOutcome]) -> Receipt:
    labels = shared(spec, Receipt) | {"feeds": tuple(feed.value for feed in spec.feeds)}
    return Receipt(
        **labels,
        key_digest=spec.key_digest(),
        pull=pull,
        failures=sum(len(outcome.failures) for outcome in outcomes),
        version=version("seorep-async"),
        parts=tuple(parts),
    )


def commit_night(
    storage: Storage, receipt: Receipt, replacement: Replacement, check: Callable[[], None] = lambda: None
) -> None:
    """Replace a night by staged parts and those of its rows that the pull does not replace.

    `check` is called now and then, until the night begins to change.
    """
    earlier, night, pull = read_receipt(storage, receipt.night), receipt.night, receipt.pull
    before = () if earlier is None else earlier.named
    in_staging = set(storage.names(night.staging(pull)))
    in_place = {part for part in receipt.parts if part.staged(night, pull) not in in_staging}
    if missing := sorted(
        part.name(night) for part in in_place if part not in before or not holds(storage, part.name(night), part)
    ):
        raise lost(storage, night, earlier, missing[0])
    orphans = sorted(names_of_parts(storage, night)) if earlier is None else []
    remaining: list[tuple[Path, Part]] = []
    unread: list[Part] = []
    with tempfile.TemporaryDirectory(prefix="seorep-") as folder:
        for table in all_tables():
            old = [part for part in before if part.table == table.name and part not in receipt.parts]
            if not replacement.touches(table):
                lost_now = [part for part in old if not holds(storage, part.name(night), part)]
                in_place.update(set(old).difference(lost_now))
                unread += lost_now
            elif old:
                new = [part for part in receipt.parts if part.table == table.name]
                older = (rows for part in old for rows in _readable(storage, night, pull, part, unread))
                newer = (read_part(storage, night, pull, part) for part in new)
                rows = replacement.remaining_rows(table, older, newer)
                number = 1 + max((part.number for part in new), default=-1)
                file, part = write_part(Path(folder), table, number, rows, check)
                remaining += [(file, part)] if part.rows else []
        stage(storage, night, pull, remaining)
    staged = {*receipt.parts, *(part for _, part in remaining)} - in_place
    parts = sorted(in_place | staged, key=lambda part: (part.table, part.number))
    receipt = attrs.evolve(receipt, parts=tuple(parts))
    commit(storage, receipt, staged, earlier)
    for name in orphans:
        _log.warning("%s was of no receipt; its rows are lost, except those pulled now", storage.address(name))
    for part in unread:  # reported now: a part that another pull replaced meanwhile was not lost
        named = storage.address(part.name(night))
        _log.warning("%s was missing, or did not match its receipt; its rows are lost, except those pulled now", named)


def _readable(storage: Storage, night: Partition, pull: str, part: Part, unread: list[Part]) -> Iterator[pa.Table]:
    """Yield the rows of an older part, or note it as lost: only another pull of the night repairs it."""
    rows = rows_of(storage, night, pull, part)
    if rows is None:
        unread.append(part)
    else:
        yield rows


@cache
def part_table(table: Table) -> Table:
    """Return a table with the columns of its parts: all but those of the partition."""
    return Table(table.name, table.description, table.columns[_PARTITION_COLUMNS:], table.key)


def write_part(
    folder: Path, table: Table, number: int, chunks: Iterable[Any], check: Callable[[], None] = lambda: None
) -> tuple[Path, Part]:
    """Write a part of a table as a file in a local folder; an exception of `check` ends the writing."""
    own, file = part_table(table), folder / f"{table.name}.parquet"
    rows = (chunk.select([column.name for column in own.columns]) for chunk in chunks)
    write_table(file, Format.PARQUET, own, rows, check)
    data = file.read_bytes()
    count = require("pyarrow.parquet").read_metadata(file).num_rows
    return file, Part(table.name, number, count, len(data), digest_of(data))


def write_parts(
    contents: Contents, number: int, tables: Iterable[Table], check: Callable[[], None]
) -> list[tuple[Path, Part]]:
    """Write a part of each table, but no empty ones except part 0: each table can then be read."""
    parts = (write_part(contents.area.making, table, number, contents.chunks(table), check) for table in tables)
    return [(file, part) for file, part in parts if part.rows or number == 0]


def stage(storage: Storage, night: Partition, pull: str, files: Iterable[tuple[Path, Part]]) -> None:
    """Put finished parts where a commit finds them."""
    each(storage.put, [(file, part.staged(night, pull)) for file, part in files])


def check_staged(storage: Storage, night: Partition, pull: str, parts: Iterable[Part]) -> None:
    """Check the bytes of parts that others have staged, perhaps long ago; skip parts that are in place already."""

    def check(part: Part) -> None:
        if holds(storage, part.staged(night, pull), part) is False:
            raise lost(storage, night, read_receipt(storage, night), part.staged(night, pull))

    each(check, ((part,) for part in parts))


def read_part(storage: Storage, night: Partition, pull: str, part: Part) -> pa.Table:
    """Return the rows of a part, in place or staged, in the columns of this version; ExportError if lost or damaged."""
    rows = rows_of(storage, night, pull, part)
    if rows is None:
        raise lost(storage, night, read_receipt(storage, night), part.name(night))
    return rows


def rows_of(storage: Storage, night: Partition, pull: str, part: Part) -> pa.Table | None:
    """Return the rows of a part as `read_part` does, or None if it is lost or damaged."""
    found = (storage.read(name, part.bytes + 1) for name in (part.staged(night, pull), part.name(night)))
    data = next((data for data in found if data is not None and digest_of(data) == part.digest), None)
    return None if data is None else decoded(table_named(part.table), data)


def decoded(table: Table, data: bytes | None) -> pa.Table | None:
    """Return the rows of a part in the columns of this version, or None if it is no part of the table."""
    pa = require("pyarrow")
    schema = arrow_schema(part_table(table))
    try:
        rows = require("pyarrow.parquet").read_table(pa.BufferReader(data or b""))
        columns = [
            rows[field.name] if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)
    except (pa.ArrowException, OSError, TypeError, ValueError, KeyError):
        return None


def lost(storage: Storage, night: Partition, earlier: Receipt | None, name: str) -> ExportError:
    """Return the error for a part that is lost or damaged, or that another pull replaces since it was looked up."""
    if read_receipt(storage, night) != earlier:
        return busy(storage, night)
    again = "pull this night again, or plan its shards again with restart=True"
    return ExportError(f"{storage.address(name)} is missing, or does not match its receipt; {again}")
