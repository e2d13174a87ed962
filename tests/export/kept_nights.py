"""A database or a dataset of nights, and what should be in it, in plain dicts; and a pull's steps into it."""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import duckdb

from seorep_async import Feed
from tests.export.door import Partition, Receipt, from_json, storage_of, target_of
from tests.export.made_nights import Interposed
from tests.export.random_nights import COLUMNS, FIRST_NIGHT, TABLE, Pull, Row, Tables, columns, no_rows

Rows: TypeAlias = dict[str, Counter[tuple[Any, ...]]]
Night: TypeAlias = tuple[str, dt.date]


def rows_of(database: duckdb.DuckDBPyConnection, table: str, place: str) -> Counter[tuple[Any, ...]]:
    return Counter(database.execute(f"SELECT {', '.join(columns(table))} FROM {place}").fetchall())  # noqa: S608


@attrs.define(eq=False)
class Kept:
    """A target, and what should be in it.

    Attributes:
        out: where it is; a dataset's ends in `/`.
        work_dir: where its pulls stage their reports.
        held: the rows of each night of a dataset, or of all nights of a database, under one key.
        coming: those of nights that are being replaced.
        staged: what each account has begun: the pull, and whether it was `paused`, `cut`, or `ended` with failures.
    """

    out: str
    work_dir: Path | None = None
    held: dict[Night, Tables] = attrs.field(factory=lambda: defaultdict(no_rows))
    coming: dict[Night, Tables] = attrs.field(factory=dict)
    staged: dict[str, tuple[Pull, str]] = attrs.field(factory=dict)

    @property
    def is_dataset(self) -> bool:
        return self.out.endswith("/")

    def exists(self) -> bool:
        return Path(self.out).exists()

    def target(self, account: str, feeds: tuple[Feed, ...] = tuple(Feed)) -> Any:
        return target_of(self.out, feeds, account=account, work_dir=self.work_dir)

    def night(self, pull: Pull) -> Night:
        return (pull.account, pull.night) if self.is_dataset else ("", FIRST_NIGHT)

    def receipt(self, night: Night) -> Receipt | None:
        data = storage_of(self.out).read(Partition(*night).receipt) if self.is_dataset else None
        return None if data is None else from_json(data, Receipt)

    def settle(self) -> None:
        """Take nights for replaced that somebody has completed."""
        for night in [*self.coming]:
            if (receipt := self.receipt(night)) is not None and receipt.coming is None:
                self.held[night] = self.coming.pop(night)

    def take_back(self, night: Night, database: duckdb.DuckDBPyConnection) -> None:
        """Take a night for being replaced again if a writer that was overtaken deleted a part, whose rows are lost."""
        receipt = self.receipt(night)
        if night not in self.held or receipt is None or receipt.coming is None:
            return
        lost = {part.table for part in receipt.coming if not Path(self.out, part.name(receipt.night)).exists()}
        assert lost
        self.coming[night] = rows = self.held.pop(night)
        for table in lost:
            parts = [*Path(self.out, table, receipt.night.folder).glob("*.parquet")]
            place = f"'{self.out}{table}/{receipt.night.folder}/*.parquet'"
            left = rows_of(database, table, place) if parts else Counter()
            every = {tuple(row[name] for name in columns(table)): row for row in rows[table]}
            assert left <= Counter(every.keys())  # no other rows, and none twice
            rows[table] = [every[one] for one in left]

    def apply(self, pull: Pull) -> None:
        """Replace rows by a pull that is committed, or that the next pull commits."""
        night = self.night(pull)
        older = self.coming.pop(night, None) or self.held[night]  # what was coming was completed first
        replaced = {name: [*rows] for name, rows in older.items()}
        pull.apply_to(replaced)
        receipt = self.receipt(night)
        (self.held if receipt is None or receipt.coming is None else self.coming)[night] = replaced

    def forget(self, account: str) -> None:
        for nights in (self.coming, self.held):
            for night in [*nights]:
                left = {
                    name: [row for row in rows if row["account"] != account] for name, rows in nights[night].items()
                }
                nights[night] = left
                if not left["pulls"]:
                    del nights[night]

    def tables(self, account: str | None = None) -> Tables:
        """Return the rows of all nights, of an account those that are coming, too."""
        every, merged = {**self.held}, no_rows()
        every |= {night: rows for night, rows in self.coming.items() if night[0] == account}
        for night in sorted(every):
            for name, rows in every[night].items():
                if self.is_dataset and name in ("campaigns", "keywords"):  # the last night's stand for all
                    newer = set(map(_object, rows))
                    merged[name] = [row for row in merged[name] if _object(row) not in newer]
                merged[name] += rows
        return merged

    def beginning(self, pull: Pull, way: str) -> str:
        """Return whether a pull `starts`, `resumes`, is `refused`, or has nothing to `retry`."""
        if pull.account not in self.staged:
            return "retry" if way == "retry_failed" and self.is_whole(pull) else "starts"
        before, state = self.staged[pull.account]
        if way == "restart" or (state == "ended" and way == "") or not (before.given or state == "paused"):
            return "starts"
        if before.asks == pull.asks:
            return "resumes"
        return "refused" if before.given and state != "ended" else "starts"

    def is_whole(self, pull: Pull) -> bool:
        """Return whether a pull of the night had the feeds and dates, of a dataset the last one, and nothing failed."""
        held = self.tables(pull.account)
        window: Row = {"account": pull.account, "start_date": pull.start, "end_date": pull.end}
        whose: Row = {"account": pull.account, "snapshot_date": pull.night}
        of_night = [row for row in held["pulls"] if whose.items() <= row.items()][-self.is_dataset :]
        feeds = {feed.value for feed in pull.feeds}
        tables = {TABLE[feed] for feed in pull.feeds}
        failed = any(window.items() <= row.items() and row["table_name"] in tables for row in held["failures"])
        asked = (row["feeds"].split(",") for row in of_night if window.items() <= row.items())
        return not failed and any(feeds.issubset(one) for one in asked)

    def knows(self, account: str) -> bool:
        """Return whether there is anything of an account to be forgotten."""
        if self.is_dataset and storage_of(self.out).names(f"_staging/account={account}"):
            return True
        return any(row["account"] == account for rows in self.tables(account).values() for row in rows)

    def rows(self, database: duckdb.DuckDBPyConnection) -> Rows:
        """Return the rows that are there, but not those of nights that are being replaced."""
        if not self.is_dataset:
            return {name: rows_of(database, name, name) for name in COLUMNS}
        there = [name for name in COLUMNS if [*Path(self.out, name).glob("**/*.parquet")]]
        found = {name: rows_of(database, name, f"'{self.out}{name}/**/*.parquet'") for name in there}
        return {
            name: Counter({row: count for row, count in found.get(name, {}).items() if row[:2] not in self.coming})
            for name in COLUMNS
        }


def _object(row: Row) -> tuple[Any, ...]:
    return row["account"], row["campaign_id"], row.get("keyword_id")


@attrs.define(eq=False)
class Writing:
    """A target into which a pull writes; `before` is called with it before each step, and at the end."""

    kept: Kept
    pull: Pull
    target: Any
    before: Callable[["Writing"], object]
    has_begun: bool = False
    has_ended: bool = False
    is_applied: bool = False
    is_overtaken: bool = False
    older: object = None

    def __attrs_post_init__(self) -> None:
        if self.kept.is_dataset:
            storage = Interposed(self.target.storage, lambda _: self.before(self))
            self.target = attrs.evolve(self.target, storage=storage)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def named(self) -> object:
        """Return the parts of the night, or those that it will have."""
        receipt = self.kept.receipt(self.kept.night(self.pull))
        return None if receipt is None else receipt.named

    def write(self, contents: Any, check: Callable[[], None]) -> Any:
        def step() -> None:
            self.before(self)
            check()

        self.kept.settle()
        self.older, self.has_begun = self.named(), True
        written = self.target.write(contents, step)
        self.has_ended = True
        self.before(self)
        return written

    def apply(self) -> None:
        """Replace rows in the model once the pull is committed, so that others can only complete it."""
        is_ours = self.has_begun and not self.is_overtaken
        is_newer = is_ours and self.named() != self.older
        if not self.is_applied and (self.has_ended or is_newer):
            self.kept.apply(self.pull)
            self.is_applied = True
