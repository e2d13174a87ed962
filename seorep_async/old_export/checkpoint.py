"""The checkpoint of an export: a SQLite file with the job's parameters and every report so far, their rows beside it.

SQLite does not notice damaged pages by itself, so each record has a checksum of its values and its meaning. `verify`
checks them all, and SQLite's own structure, before an export is resumed. Campaigns with damaged rows, as after a
power failure, are fetched again. `StagingArea.open` resumes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec

from seorep_async.models import Feed
from seorep_async.old_export.formats import (
    DamagedError,
    OtherVersionError,
    RowsFile,
    RowsLocation,
    StagedReport,
    decoding,
)
from seorep_async.old_export.notes import Notes
from seorep_async.tables.columns import fits
from seorep_async.tables.declared import campaigns_table, table_of

CAMPAIGNS = campaigns_table().name
_BY_KEYWORD = table_of(Feed.KEYWORD_BY_DATE).name
# ids from the service have no documented range; one of more than 64 bits is stored as a string
_SCHEMA = [
    "CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT, checksum INTEGER)",
    "CREATE TABLE campaigns (place INTEGER PRIMARY KEY, id UNIQUE, keywords_found INTEGER, checksum INTEGER)",
    "CREATE TABLE keywords (campaign_id INTEGER, number INTEGER, id, PRIMARY KEY (campaign_id, number)) WITHOUT ROWID",
    "CREATE INDEX keywords_by_id ON keywords (id)",
    "CREATE TABLE reports (number INTEGER PRIMARY KEY, name TEXT, campaign_id INTEGER, id INTEGER, rows INTEGER, "
    "totals TEXT, start INTEGER, size INTEGER, data_checksum INTEGER, checksum INTEGER)",
    "CREATE UNIQUE INDEX reports_by_id ON reports (name, campaign_id, id)",
]
# the staging area is locked; SQLite's own locks fail where the file system has none
_UNLOCKED = "?vfs=unix-none" if os.name == "posix" else ""
_RECORDS = 100
"""Reports that one statement stores: its steps, not its work, make the event loop's thread wait for its turn."""
_REPORT = "r.name, r.campaign_id, r.id, r.rows, r.totals, r.start, r.size, r.data_checksum, r.checksum"
_Number = Annotated[int, msgspec.Meta(ge=0)]
_TYPES: list[Any] = [str, int, int, _Number, str | None, _Number, _Number, _Number]  # of a record; SQLite takes any
_Facts = msgspec.defstruct("_Facts", zip("abcdefgh", _TYPES, strict=True), array_like=True, forbid_unknown_fields=True)
_SOUND = tuple(f"SQLITE_{name}" for name in ("BUSY", "LOCKED", "READONLY", "IOERR", "FULL", "CANTOPEN"))


class Checkpoint:
    """An open checkpoint, for one thread at a time, though not always the one that opened it; None as path: in memory.

    `notes` are its notes. DamagedError: the file is something else, damaged, or another version's.
    """

    def __init__(self, path: Path | None) -> None:
        self._rows = RowsFile(path and path.with_name(f"{path.name}-rows"))
        with contextlib.ExitStack() as opening:
            opening.callback(self._rows.close)
            self._db = opening.enter_context(contextlib.closing(_open(path)))
            self._is_durable = False
            self._salt: str | None = ""
            self.notes: Notes = self._read_notes()
            if self.notes.salt is None:
                self._begin()
            opening.pop_all()

    def close(self) -> None:
        self._rows.close()
        self._db.close()

    def clear(self) -> None:
        with self._transaction():
            for table in ("notes", "campaigns", "keywords", "reports"):
                self._db.execute(f"DELETE FROM {table}")
        self._begin()
        self._rows.cut(0)

    def _begin(self) -> None:
        # records of another checkpoint must not pass for this one's
        self._salt, self.notes = "", Notes()
        self.note(salt=os.urandom(8).hex())
        self._salt = self.notes.salt

    def _read_notes(self) -> Notes:
        found: dict[str, Any] = {}
        with decoding():
            # the salt first, which the checksums of the others need
            for name, value, checksum in self._query("SELECT * FROM notes ORDER BY name != 'salt'"):
                self._check(checksum, name, value)
                found[name] = json.loads(value)
                self._salt = found["salt"]
            return msgspec.convert(found, Notes)

    def note(self, **values: Any) -> None:
        encoded = {name: json.dumps(msgspec.to_builtins(value)) for name, value in values.items()}
        with self._transaction():
            self._db.executemany(
                "INSERT OR REPLACE INTO notes VALUES (?, ?, ?)",
                [(name, value, self._checksum(name, value)) for name, value in encoded.items()],
            )
        self.notes = msgspec.structs.replace(self.notes, **values)

    def plan(self, campaigns: Iterable[int]) -> None:
        ids = [_storable(id_) for id_ in campaigns]
        with self._transaction():
            self._db.executemany(
                "INSERT INTO campaigns VALUES (?, ?, 0, ?)",
                [(place, id_, self._checksum(place, id_, None)) for place, id_ in enumerate(ids)],
            )
        self.note(planned=len(ids))

    def campaigns(self) -> list[int]:
        return self._ids("SELECT id FROM campaigns ORDER BY place")

    def add(
        self,
        reports: Sequence[StagedReport],
        keywords: Mapping[int, Iterable[int]] | None = None,
        *,
        durable: bool = False,
    ) -> None:
        """Store reports, and their keywords by campaign, in one step that survives a crash at once.

        Reports of keywords that a campaign no longer has are deleted. `durable` waits until this and everything before
        it survives a power failure too.
        """
        locations = self._rows.append([report.data for report in reports])
        facts = [(*report[:-1], *location) for report, location in zip(reports, locations, strict=True)]
        records = [(*one, self._checksum(*one)) for one in facts]
        self._rows.flush(durable=durable)  # before the records that name it
        if durable != self._is_durable:
            self._db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._is_durable = durable
        with self._transaction():
            for start in range(0, len(records), _RECORDS):
                some = records[start : start + _RECORDS]
                values = ", ".join([f"(NULL{', ?' * len(some[0])})"] * len(some))
                self._db.execute(f"INSERT OR REPLACE INTO reports VALUES {values}", [*chain.from_iterable(some)])
            for campaign_id, ids in (keywords or {}).items():
                self._add_keywords(campaign_id, [_storable(id_) for id_ in dict.fromkeys(ids)])

    def _add_keywords(self, campaign_id: int, ids: list[int | str]) -> None:
        self._db.execute("DELETE FROM keywords WHERE campaign_id = ?", (campaign_id,))
        values = (campaign_id, json.dumps(ids))
        self._db.execute("INSERT INTO keywords SELECT ?, key, value FROM json_each(?)", values)
        self._db.execute(
            "DELETE FROM reports WHERE name = ? AND campaign_id = ? "
            "AND id NOT IN (SELECT id FROM keywords k WHERE k.campaign_id = reports.campaign_id)",
            (_BY_KEYWORD, campaign_id),
        )
        self._note_keywords(campaign_id, ids)

    def _note_keywords(self, campaign_id: int, ids: list[int | str] | None) -> None:
        for (place,) in self._query("SELECT place FROM campaigns WHERE id = ?", campaign_id):
            self._db.execute(
                "UPDATE campaigns SET keywords_found = ?, checksum = ? WHERE place = ?",
                (ids is not None, self._checksum(place, campaign_id, ids), place),
            )

    def missing(self, feed: Feed) -> list[int]:
        """Return the campaigns, or for a feed by keyword the keywords, that lack their report, in their order."""
        if feed is Feed.KEYWORD_BY_DATE:
            return self._ids(
                "SELECT k.id FROM campaigns c JOIN keywords k ON k.campaign_id = c.id "
                "LEFT JOIN reports r ON r.name = ? AND r.campaign_id = k.campaign_id AND r.id = k.id "
                "WHERE r.id IS NULL GROUP BY k.id ORDER BY min(c.place), min(k.number)",
                _BY_KEYWORD,
            )
        return self._ids(
            "SELECT c.id FROM campaigns c LEFT JOIN reports r ON r.name = ? AND r.campaign_id = c.id AND r.id = c.id "
            "WHERE r.id IS NULL ORDER BY c.place",
            table_of(feed).name,
        )

    def without_keywords(self) -> list[int]:
        """Return the campaigns whose keywords are not known yet, in their order."""
        return self._ids("SELECT id FROM campaigns WHERE NOT keywords_found ORDER BY place")

    def owners(self, keyword_ids: Iterable[int]) -> dict[int, list[int]]:
        """Return the campaigns of each keyword; the reference does not say that there is only one."""
        owners: dict[int, list[int]] = {id_: [] for id_ in keyword_ids}
        # crossed, so that SQLite begins with the few ids
        query = """SELECT json_group_array(json_array(place, k.id, c.id)) FROM json_each(?)
            CROSS JOIN keywords k ON k.id = value CROSS JOIN campaigns c ON c.id = campaign_id"""
        ((found,),) = self._query(query, json.dumps([*map(_storable, owners)]))
        with decoding():
            for _, keyword_id, campaign_id in sorted(json.loads(found), key=itemgetter(0)):
                owners[int(keyword_id)].append(int(campaign_id))
        return owners

    def owners_without_report(self, keyword_id: int) -> list[int]:
        """Return the campaigns of a keyword that lack its report."""
        return self._ids(
            "SELECT k.campaign_id FROM keywords k JOIN campaigns c ON c.id = k.campaign_id WHERE k.id = ? AND NOT "
            "EXISTS (SELECT 1 FROM reports r WHERE r.name = ? AND r.campaign_id = k.campaign_id AND r.id = k.id) "
            "ORDER BY place",
            _storable(keyword_id),
            _BY_KEYWORD,
        )

    def counts(self, feed: Feed, last: int | None = None) -> tuple[int, int]:
        """Return the number of reports (distinct ids) and of rows of a feed, up to the report of number `last`."""
        query = "SELECT count(DISTINCT id), coalesce(sum(rows), 0) FROM reports WHERE name = ? AND number <= ?"
        return next(self._query(query, table_of(feed).name, self.last_number() if last is None else last))

    def last_number(self) -> int:
        """Return the number of the last report, or 0; later ones have higher numbers."""
        ((number,),) = self._query("SELECT coalesce(max(number), 0) FROM reports")
        return int(number)

    def is_empty(self) -> bool:
        """Whether it holds nothing that a resumed export could use."""
        query = "SELECT EXISTS (SELECT 1 FROM reports WHERE name != ?)"
        return not any(next(self._query(f"{query}, EXISTS (SELECT 1 FROM campaigns WHERE keywords_found)", CAMPAIGNS)))

    def rows_by_campaign(self, feed: Feed) -> Iterator[tuple[int, int]]:
        """Yield each campaign with reports of a feed, and the number of their rows."""
        query = "SELECT campaign_id, sum(rows) FROM reports WHERE name = ? GROUP BY campaign_id"
        yield from self._query(query, table_of(feed).name)

    def reports(self, table: str) -> Iterator[StagedReport]:
        """Yield a table's reports in the order of campaigns and their keywords; a damaged one raises DamagedError."""
        for (_, campaign_id, id_, rows, totals), location in self._records(_in_order(table), table):
            yield StagedReport(table, campaign_id, id_, rows, totals, self._rows.read(location))

    def totals(self, table: str) -> Iterator[tuple[int, int, str]]:
        """Yield campaign, id and the JSON of the totals of a table's reports with totals, in the order of `reports`."""
        for (_, campaign_id, id_, _, totals), _ in self._records(_in_order(table, "r.totals IS NOT NULL"), table):
            yield campaign_id, id_, totals

    def verify(self) -> None:
        """Check everything, and delete reports of campaigns with damaged rows; other damage raises DamagedError."""
        for (found,) in self._query("PRAGMA integrity_check(1)"):
            if found != "ok":
                raise DamagedError(str(found))
        for place, id_, found, checksum in self._query("SELECT * FROM campaigns"):
            query = "SELECT id FROM keywords WHERE campaign_id = ? ORDER BY number"
            self._check(checksum, place, id_, [k for (k,) in self._query(query, id_)] if found else None)
        if [*self._query("SELECT count(*) FROM campaigns")] != [(self.notes.planned or 0,)]:
            raise DamagedError("campaigns are missing")
        damaged, end = set(), 0
        for (table, campaign_id, *_), location in self._records("FROM reports r"):
            try:
                self._rows.read(location)
                end = max(end, location.start + location.size)
            except DamagedError:
                if table == CAMPAIGNS:
                    raise
                damaged.add(campaign_id)
        for campaign_id in damaged:
            self._forget(campaign_id)
        self._rows.cut(end)

    def _forget(self, campaign_id: int) -> None:
        with self._transaction():
            self._db.execute("DELETE FROM reports WHERE campaign_id = ?", (campaign_id,))
            self._db.execute("DELETE FROM keywords WHERE campaign_id = ?", (campaign_id,))
            self._note_keywords(campaign_id, None)

    def _records(self, from_: str, *values: object) -> Iterator[tuple[tuple[Any, ...], RowsLocation]]:
        with decoding():
            for *facts, checksum in self._query(f"SELECT {_REPORT} {from_}", *values):
                self._check(checksum, *facts)
                msgspec.convert(facts, _Facts)
                yield tuple(facts[:-3]), RowsLocation(*facts[-3:])

    def _checksum(self, *facts: object) -> int:
        return zlib.crc32(repr((self._salt, *facts)).encode())

    def _check(self, checksum: object, *facts: object) -> None:
        if self._checksum(*facts) != checksum:
            raise DamagedError("a checksum is wrong")

    def _query(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        with _sqlite_damage():
            for record in self._db.execute(query, values):  # noqa: UP028  # `yield from` would close the cursor, late
                yield record

    def _ids(self, query: str, *values: object) -> list[int]:
        with decoding():
            return [int(id_) for (id_,) in self._query(query, *values)]

    @contextlib.contextmanager
    def _transaction(self) -> Generator[None, None, None]:
        with _sqlite_damage(), self._db:  # it commits, or rolls back
            self._db.execute("BEGIN IMMEDIATE")
            yield


def _in_order(table: str, condition: str = "true") -> str:
    """Return the rest of a query for the reports of a table."""
    if table == CAMPAIGNS:
        return "FROM reports r WHERE r.name = ? ORDER BY r.id"
    keywords = table == _BY_KEYWORD
    return f"""
        FROM campaigns c {"JOIN keywords k ON k.campaign_id = c.id" if keywords else ""}
        JOIN reports r ON r.name = ? AND r.campaign_id = c.id AND r.id = {"k.id" if keywords else "c.id"}
        WHERE {condition} ORDER BY c.place{", k.number" if keywords else ""}"""


def _storable(id_: int) -> int | str:
    return id_ if fits(id_) else str(id_)


def _open(path: Path | None) -> sqlite3.Connection:
    """Open the file of a checkpoint, or create it; None for one in memory; raises as `Checkpoint`."""
    name = ":memory:" if path is None else f"{path.absolute().as_uri()}{_UNLOCKED}"
    with _sqlite_damage(), contextlib.ExitStack() as opening:
        database = sqlite3.connect(name, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        opening.callback(database.close)
        for setting in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=NORMAL"):
            database.execute(f"PRAGMA {setting}")
        with database:  # it commits, or rolls back
            database.execute("BEGIN IMMEDIATE")
            _check_schema(database)
        opening.pop_all()
    return database


def _check_schema(database: sqlite3.Connection) -> None:
    found = [sql for (sql,) in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
    if not found:
        for statement in (*_SCHEMA, f"PRAGMA user_version={_mark(_SCHEMA)}"):
            database.execute(statement)
    elif found != _SCHEMA:
        ((mark,),) = database.execute("PRAGMA user_version").fetchall()
        if mark in (0, _mark(found)):  # 0: of a version that set no mark
            raise OtherVersionError
        raise DamagedError("its tables are not as they were made")


def _mark(schema: list[str]) -> int:
    return zlib.crc32(repr(schema).encode()) >> 1  # SQLite has 31 bits for it


@contextlib.contextmanager
def _sqlite_damage() -> Generator[None, None, None]:
    """Translate the errors of SQLite into DamagedError, unless the file may be sound."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "").startswith(_SOUND):  # words could be those of a forged value
            raise
        raise DamagedError(str(error)) from error
