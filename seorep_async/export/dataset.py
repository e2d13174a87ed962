"""A dataset: a folder or bucket of Parquet that grows by a partition for each account and night.

A second pull of the same night replaces the rows that it requested and received. All others stay: those of other
campaigns, other feeds, other dates of feeds by date, and of failed reports.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export.contents import Contents
from seorep_async.export.file_writers import write_table
from seorep_async.export.formats import Format, arrow_tables
from seorep_async.export.job import ExportJob
from seorep_async.export.night import Part, Partition, Receipt, digest_of, escape, is_name_of_part
from seorep_async.export.own_files import is_one_of_ours
from seorep_async.export.progress import CampaignOutcome
from seorep_async.export.receipts import busy, commit, holds, last_receipt, names_of_parts, read_receipt
from seorep_async.export.replacement import Replacement
from seorep_async.export.sinks import encoded_campaigns
from seorep_async.export.storage import RECEIPTS, Storage, each
from seorep_async.export.target import DatasetTarget, tables_of, target_of
from seorep_async.models import Campaign, Feed
from seorep_async.tables.arrow import arrow_schema, record_batch
from seorep_async.tables.columns import Table, Values
from seorep_async.tables.declared import all_tables, campaigns_table, failures_table, pulls_table, table_named, table_of
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_log = logging.getLogger("seorep_async")
_PARTITION_COLUMNS = 2
"""The first columns of every table, account and snapshot date, stand in the path only."""


@cache
def part_table(table: Table) -> Table:
    """Return a table with the columns of its parts: all but those of the partition."""
    return Table(table.name, table.description, table.columns[_PARTITION_COLUMNS:], table.key)


def check_dataset(storage: Storage, job: ExportJob) -> None:
    """Refuse an account that the dataset knows with another service or key, and a folder that no pull wrote."""
    earlier = last_receipt(storage, job.account, if_rows=True)
    known = None if earlier is None else (earlier.service, earlier.key_digest)
    if earlier is None or not earlier.has_rows:  # receipts were lost, or do not tell whose key came last
        known = _newest_key(storage, job.account) or known
    if known is not None:
        job.check_account(storage.address(), *known)
    if earlier is None:
        foreign = _foreign_file(storage, Partition(job.account, job.snapshot_date))
        # in this order, as another pull writes its first receipt before its first part
        if foreign is not None and not storage.names(RECEIPTS):
            problem = f"no pull wrote {storage.address(foreign)}; name another place for the dataset"
            raise ConfigurationError(f"can't write {storage.address()}: {problem}", argument="out")


def _newest_key(storage: Storage, account: str) -> tuple[str, str] | None:
    """Return service and key digest of the newest pull in the table of pulls; None if every report of all failed."""
    parts = storage.names(f"{pulls_table().name}/account={escape(account)}")
    tables = (_decoded(pulls_table(), storage.read(name) or b"") for name in parts)
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


def last_night_was_whole(storage: Storage, job: ExportJob) -> bool:
    """Return whether the last pull of an account had a job's feeds and dates, its parts exist, and nothing failed.

    A night that the caller named takes the place of the last.
    """
    night = Partition(job.account, job.snapshot_date)
    last = last_receipt(storage, job.account) if job.snapshot_is_default else read_receipt(storage, night)
    feeds = {feed.value for feed in job.feeds}
    if (
        last is None
        or last.coming is not None
        or not {part.name(last.night) for part in last.parts} <= names_of_parts(storage, last.night)
        or not feeds <= set(last.feeds)
        or (last.start_date, last.end_date) != (job.start_date, job.end_date)
    ):
        return False
    wanted = {(table_of(feed).name, job.start_date, job.end_date) for feed in job.feeds}
    for name in storage.names(f"{failures_table().name}/account={escape(job.account)}/"):
        rows = _decoded(failures_table(), storage.read(name) or b"")
        if rows is None:
            return False
        failed = zip(*(rows[one].to_pylist() for one in ("table_name", "start_date", "end_date")), strict=True)
        if not wanted.isdisjoint(failed):
            return False
    return True


def dataset_of(
    out: str | os.PathLike[str],
    feeds: Sequence[Feed],
    storage_options: Mapping[str, Any] | None = None,
    work_dir: Path | None = None,
) -> DatasetTarget:
    """Return the dataset of a path or an address, with or without a slash at the end; raises as `target_of`."""
    if not isinstance(out, str | os.PathLike) or not isinstance(path := os.fspath(out), str):
        raise ConfigurationError(f"out must be a path, got {type(out).__name__}", argument="out")
    if path in ("", "-"):
        raise ConfigurationError(f"out must name the folder or the address of a dataset, got {path!r}", argument="out")
    path = path if path.endswith(("/", os.sep)) else f"{path}/"
    target = target_of(path, feeds, storage_options=storage_options, work_dir=work_dir)
    if not isinstance(target, DatasetTarget):
        raise ConfigurationError(f"{out} is not a dataset", argument="out")
    return target


def write_campaigns(job: ExportJob, campaigns: Sequence[Campaign], folder: Path) -> tuple[Path, Part]:
    """Write campaigns as a part."""
    table, file = campaigns_table(), folder / "campaigns.parquet"
    staged = encoded_campaigns(Format.PARQUET, job, campaigns, 0)
    return file, _write_part(file, table, 0, arrow_tables(table, [staged]), lambda: None)


def write_pull(row: Values, folder: Path) -> tuple[Path, Part]:
    """Write the row of a pull as a part."""
    table, file = pulls_table(), folder / "pulls.parquet"
    rows = require("pyarrow").Table.from_batches([record_batch(table, [[value] for value in row])])
    return file, _write_part(file, table, 0, [rows], lambda: None)


def shard_tables(feeds: Sequence[Feed]) -> tuple[Table, ...]:
    """Return the tables of which each shard writes a part; `campaigns` and `pulls` are written once per pull."""
    return tuple(table for table in tables_of(feeds) if table not in (campaigns_table(), pulls_table()))


def write_parts(
    contents: Contents, number: int, tables: Iterable[Table], check: Callable[[], None]
) -> list[tuple[Path, Part]]:
    """Write a part of each table as a local file, but no empty ones except part 0: each table can then be read.

    An exception of `check` ends the writing.
    """
    written = []
    for table in tables:
        file = contents.area.making / f"{table.name}.parquet"
        part = _write_part(file, table, number, contents.chunks(table), check)
        if part.rows or number == 0:
            written.append((file, part))
    return written


def stage(storage: Storage, night: Partition, pull: str, files: Iterable[tuple[Path, Part]]) -> None:
    """Put finished parts where a commit finds them."""
    each(storage.put, [(file, part.staged(night, pull)) for file, part in files])


def write_dataset(target: DatasetTarget, contents: Contents, check: Callable[[], None]) -> Sequence[Path | str]:
    """Replace the night of a pull by the fetched reports, and return the night's folder of each feed's table.

    If that fails after the night began to change, the account's next pull, or the same again, completes it first.
    """
    job = contents.area.job
    night = Partition(job.account, job.snapshot_date)
    pull = night.pull_name(job.started_at)
    files = write_parts(contents, 0, target.tables(), check)
    stage(target.storage, night, pull, files)
    receipt = receipt_of(job, pull, [part for _, part in files], contents.outcomes)
    commit_night(target.storage, receipt, Replacement(job, contents.outcomes), check)
    return target.named_row_files(night.folder)


def check_staged(storage: Storage, night: Partition, pull: str, parts: Iterable[Part]) -> None:
    """Check the bytes of parts that others have staged, perhaps long ago; skip parts that are in place already."""

    def check(part: Part) -> None:
        if holds(storage, part.staged(night, pull), part) is False:
            raise _lost(storage, night, read_receipt(storage, night), part.staged(night, pull))

    each(check, ((part,) for part in parts))


def receipt_of(job: ExportJob, pull: str, parts: Iterable[Part], outcomes: Iterable[CampaignOutcome]) -> Receipt:
    """Return the receipt of a pull's fetched reports."""
    return Receipt(
        account=job.account,
        snapshot_date=job.snapshot_date,
        service=job.service,
        key_digest=job.key_digest(),
        pull=pull,
        feeds=tuple(feed.value for feed in job.feeds),
        start_date=job.start_date,
        end_date=job.end_date,
        failures=sum(len(outcome.failures) for outcome in outcomes),
        version=version("seorep-async"),
        parts=tuple(parts),
    )


def _write_part(file: Path, table: Table, number: int, chunks: Iterable[Any], check: Callable[[], None]) -> Part:
    own = part_table(table)
    rows = (chunk.select([column.name for column in own.columns]) for chunk in chunks)
    write_table(file, Format.PARQUET, own, rows, check)
    data = file.read_bytes()
    count = require("pyarrow.parquet").read_metadata(file).num_rows
    return Part(table.name, number, count, len(data), digest_of(data))


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
    if lost := sorted(
        part.name(night) for part in in_place if part not in before or not holds(storage, part.name(night), part)
    ):
        raise _lost(storage, night, earlier, lost[0])
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
                file = Path(folder, f"{table.name}.parquet")
                part = _write_part(file, table, number, rows, check)
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
    rows = _rows_of(storage, part, [part.staged(night, pull), part.name(night)])
    if rows is None:
        unread.append(part)
    else:
        yield rows


def _lost(storage: Storage, night: Partition, earlier: Receipt | None, name: str) -> ExportError:
    if read_receipt(storage, night) != earlier:
        return busy(storage, night)
    again = "pull this night again, or plan its shards again with restart=True"
    return ExportError(f"{storage.address(name)} is missing, or does not match its receipt; {again}")


def read_part(storage: Storage, night: Partition, pull: str, part: Part) -> pa.Table:
    """Return the rows of a part, in place or staged, in the columns of this version; ExportError if lost or damaged."""
    rows = _rows_of(storage, part, [part.staged(night, pull), part.name(night)])
    if rows is None:
        raise _lost(storage, night, read_receipt(storage, night), part.name(night))
    return rows


def _rows_of(storage: Storage, part: Part, names: Iterable[str]) -> pa.Table | None:
    found = (storage.read(name, part.bytes + 1) for name in names)
    data = next((data for data in found if data is not None and digest_of(data) == part.digest), None)
    return None if data is None else _decoded(table_named(part.table), data)


def _decoded(table: Table, data: bytes) -> pa.Table | None:
    """Return the rows of a part in the columns of this version, or None if it is no part of the table."""
    pa = require("pyarrow")
    schema = arrow_schema(part_table(table))
    try:
        rows = require("pyarrow.parquet").read_table(pa.BufferReader(data))
        columns = [
            rows[field.name] if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)
    except (pa.ArrowException, OSError, TypeError, ValueError, KeyError):
        return None
