"""What every kind of target offers, the contents that it is given, and the place for which one is chosen."""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from seorep_async.errors import ConfigurationError, SeoRepError
from seorep_async.models import Feed
from seorep_async.old_export.atomic_replace import resolve
from seorep_async.old_export.checkpoint import CAMPAIGNS
from seorep_async.old_export.formats import GROUP_ROWS, Format, arrow_tables, decode_totals, encode, prepare
from seorep_async.old_export.progress import CampaignOutcome, any_received
from seorep_async.old_export.spec import PullSpec
from seorep_async.old_export.staging_area import StagingArea
from seorep_async.old_export.storage import Storage
from seorep_async.session import Stats
from seorep_async.tables.arrow import record_batch
from seorep_async.tables.columns import Table, Values, fits
from seorep_async.tables.declared import (
    campaigns_table,
    failures_table,
    keywords_table,
    pulls_table,
    table_of,
    totals_table,
)
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import pyarrow as pa


@attrs.frozen
class Contents:
    """The fetched reports of a pull, for writers of every format; `names_error` is why campaign names are missing."""

    area: StagingArea
    outcomes: Sequence[CampaignOutcome]
    stats: Stats
    names_error: SeoRepError | None

    def chunks(self, table: Table) -> Iterator[Any]:
        """Yield the rows of a table, in the order of the campaigns: bytes for a text format, else Arrow tables."""
        kind = self.area.format
        computed = {totals_table(): self._totals, failures_table(): self._failures, pulls_table(): self._pulls}
        if table in computed:
            rows = iter(computed[table]())
            while some := list(itertools.islice(rows, GROUP_ROWS)):
                if kind.is_text:
                    csv = self.area.spec.csv
                    (prepared,) = prepare(kind, table, [list(zip(*some, strict=True))], csv)
                    yield encode(kind, table, prepared, csv)
                else:
                    yield arrow_table(table, some)
            return
        if not any_received(self.outcomes):
            return
        if kind.is_text:
            yield from (report.data for report in self.area.checkpoint.reports(table.name) if report.data)
            return
        in_rows = table is keywords_table() and Feed.CAMPAIGN in self.area.spec.feeds
        staged = table_of(Feed.CAMPAIGN) if in_rows else table
        yield from arrow_tables(table, self.area.checkpoint.reports(staged.name), staged)

    def _totals(self) -> Iterator[Values]:
        spec = self.area.spec
        for feed in spec.feeds:
            name = table_of(feed).name
            for campaign_id, id_, totals in self.area.checkpoint.totals(name):
                keyword_id = id_ if feed is Feed.KEYWORD_BY_DATE else None
                yield (*self._lead(name, campaign_id, keyword_id), *decode_totals(totals))

    def _failures(self) -> Iterator[Values]:
        failures = [failure for outcome in self.outcomes for failure in outcome.failures]
        order = {feed: number for number, feed in enumerate(Feed)}
        for one in sorted(failures, key=lambda failure: order[failure.feed]):
            yield (*self._lead(table_of(one.feed).name, one.campaign_id, one.keyword_id), *_about_error(one.error))
        if self.names_error is not None:
            yield (*self._lead(CAMPAIGNS, None, None), *_about_error(self.names_error))

    def _lead(self, table: str, campaign_id: int | None, keyword_id: int | None) -> Values:
        spec = self.area.spec
        ids = (one if one is not None and fits(one) else None for one in (campaign_id, keyword_id))
        return (spec.account, spec.snapshot_date, table, *ids, spec.start_date, spec.end_date)

    def _pulls(self) -> Iterable[Values]:
        yield pull_row(self.area.spec, self.outcomes, self.stats.attempts, self.stats)


def arrow_table(table: Table, rows: Sequence[Values]) -> pa.Table:
    return require("pyarrow").Table.from_batches([record_batch(table, list(zip(*rows, strict=True)))])


def pull_row(spec: PullSpec, outcomes: Sequence[CampaignOutcome], requests: int, stats: Stats | None = None) -> Values:
    """Return a pull's row in the table of pulls; `stats` are what its client did for it, if known."""
    return (
        spec.account,
        spec.snapshot_date,
        spec.started_at,
        spec.service,
        ",".join(feed.value for feed in spec.feeds),
        spec.start_date,
        spec.end_date,
        len(outcomes),
        spec.selection,
        sum(sum(outcome.rows.values()) for outcome in outcomes),
        requests,
        *(({}, None, {}) if stats is None else (stats.retries, stats.throttled, _rounded(stats.waited))),
        sum(len(outcome.failures) for outcome in outcomes),
        spec.compares,
        version("seorep-async"),
    )


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {reason: round(one, 3) for reason, one in seconds.items()}


def _about_error(error: SeoRepError) -> Values:
    return (type(error).__name__, error.message, error.status, error.attempts)


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
        return self.path

    def as_named(self, file: Path) -> Path:
        """Return a file's path, relative if the target was given as relative."""
        if self.named.is_symlink() or file.parent != self.path.parent:  # in a work folder
            return self.named if file == self.path else file
        return self.named.with_name(file.name)

    @property
    def staging_folder(self) -> Path:
        # cut to the limit of the file system, and still one for each target
        name = self.path.name if len(self.path.name.encode(errors="surrogateescape")) <= 200 else mark(self.path.name)
        whose = f".{mark(self.account)}" if self.accumulates and self.account is not None else ""
        if self.work_dir is None:
            return self.path.with_name(f".{name}{whose}.pull")
        return self.work_dir / f".{mark(str(self.path))}{whose}.pull"

    def area(self) -> StagingArea:
        return StagingArea(self.staging_folder, self.format, self.label, self.accumulates, self.exists)

    def has_nothing_to_retry(self, spec: PullSpec, check: Callable[[], None]) -> bool:
        """Return whether nothing is staged, and the last pull was whole."""
        return not os.path.lexists(self.staging_folder) and self.last_pull_was_whole(spec, check)


@attrs.frozen(kw_only=True)
class Place:
    """A path or an address, and what else the caller said of a target there; `at` of its kind returns that target.

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
    return ConfigurationError(f"can't write {out}: {problem}", argument="out")


def mark(name: str) -> str:
    return hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8]
