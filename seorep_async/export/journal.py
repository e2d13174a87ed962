"""The journal of a pull: an SQLite database that tells what is done, and that locks the work to one process.

It holds parameters, ids and places in the file of parts; no rows, and of the key a salted digest only.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from seorep_async.errors import ConfigurationError
from seorep_async.export.formats import fits
from seorep_async.models import Feed

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# the ids that the service names have no type, so that one of more than 64 bits is kept too, as text
_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS campaigns (place INTEGER PRIMARY KEY, id UNIQUE, keywords_found INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS keywords (
    campaign_id INTEGER, number INTEGER, id, PRIMARY KEY (campaign_id, number)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS keywords_by_id ON keywords (id);
CREATE TABLE IF NOT EXISTS blocks (number INTEGER PRIMARY KEY, start INTEGER, length INTEGER, checksum INTEGER);
CREATE TABLE IF NOT EXISTS units (
    feed TEXT, campaign_id INTEGER, id INTEGER, block INTEGER, start INTEGER, length INTEGER, rows INTEGER, totals TEXT,
    PRIMARY KEY (feed, campaign_id, id)
) WITHOUT ROWID;
"""
_NAMES = ("about", "campaigns", "keywords", "blocks", "units")


@attrs.frozen
class BlockPlace:
    """A block of the file of parts: where it stands, and the checksum of its bytes."""

    start: int
    length: int
    checksum: int


@attrs.frozen
class DoneUnit:
    """A report whose rows are kept.

    Attributes:
        campaign_id: the campaign.
        id: the id that was asked for: the campaign's, or the keyword's.
        block: where the block of its rows is.
        start: where in the block it begins, in bytes of a text or rows of a record batch.
        length: how long it is, likewise.
        rows: its rows.
        totals: its totals as JSON, or None.
    """

    campaign_id: int
    id: int
    block: BlockPlace
    start: int
    length: int
    rows: int
    totals: str | None


class Journal:
    """An open journal, which no other process can open meanwhile.

    Args:
        path: its file, which is made if it is not there.

    Raises:
        sqlite3.OperationalError: another process has it, or it can't be written.
        sqlite3.DatabaseError: the file is something else.
    """

    def __init__(self, path: Path) -> None:
        with one_at_a_time(path.parent):
            # used by one thread at a time, though not always by the one that opened it
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
                self._db.execute("PRAGMA journal_mode=WAL")
                # a commit lost in a power failure costs one fetch, and what a kept one names is checked before it
                # counts
                self._db.execute("PRAGMA synchronous=NORMAL")
                self._db.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        """Close it, and let others open it."""
        self._db.close()

    def read(self, name: str) -> Any:
        """Return what was noted under a name, or None."""
        found = self._db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if found is None else json.loads(found[0])

    def note(self, **values: Any) -> None:
        """Note values that JSON can hold under their names."""
        with self._transaction():
            self._db.executemany(
                "INSERT OR REPLACE INTO about VALUES (?, ?)",
                [(name, json.dumps(value)) for name, value in values.items()],
            )

    def empty(self) -> None:
        """Forget everything."""
        with self._transaction():
            for name in _NAMES:
                self._db.execute(f"DELETE FROM {name}")  # noqa: S608  # our own names

    def disown(self) -> None:
        """Note that nobody is to go on with it."""
        self.note(parameters=None, begun=None)

    def plan(self, campaigns: Iterable[int]) -> None:
        """Note which campaigns there are, in their order."""
        with self._transaction():
            self._db.executemany("INSERT INTO campaigns (place, id) VALUES (?, ?)", enumerate(map(_kept, campaigns)))
            self._db.execute("INSERT OR REPLACE INTO about VALUES ('planned', 'true')")

    def campaigns(self) -> list[int]:
        """Return the campaigns in their order."""
        return self._ids("SELECT id FROM campaigns ORDER BY place")

    def add(
        self, feed: Feed, block: BlockPlace, units: Sequence[DoneUnit], keywords: Mapping[int, Iterable[int]]
    ) -> None:
        """Note reports as done, and the keywords that were found in them, in one step.

        What was done of keywords that a campaign no longer has is forgotten.
        """
        with self._transaction():
            if units:
                number = self._db.execute(
                    "INSERT INTO blocks (start, length, checksum) VALUES (?, ?, ?)", attrs.astuple(block)
                ).lastrowid
                self._db.executemany(
                    "INSERT OR REPLACE INTO units VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    [(feed.value, u.campaign_id, u.id, number, u.start, u.length, u.rows, u.totals) for u in units],
                )
            for campaign_id, ids in keywords.items():
                self._db.execute("DELETE FROM keywords WHERE campaign_id = ?", (campaign_id,))
                self._db.executemany(
                    "INSERT INTO keywords VALUES (?, ?, ?)",
                    [(campaign_id, number, _kept(id_)) for number, id_ in enumerate(dict.fromkeys(ids))],
                )
                self._db.execute(
                    "DELETE FROM units WHERE feed = ? AND campaign_id = ? "
                    "AND id NOT IN (SELECT id FROM keywords k WHERE k.campaign_id = units.campaign_id)",
                    (Feed.KEYWORD_BY_DATE.value, campaign_id),
                )
                self._db.execute("UPDATE campaigns SET keywords_found = 1 WHERE id = ?", (campaign_id,))

    def missing(self, feed: Feed) -> list[int]:
        """Return the campaigns of which a feed is not done, or for keywords' feeds the keywords, in their order."""
        if feed is Feed.KEYWORD_BY_DATE:
            return self._ids(
                "SELECT k.id FROM campaigns c JOIN keywords k ON k.campaign_id = c.id "
                "LEFT JOIN units u ON u.feed = ? AND u.campaign_id = k.campaign_id AND u.id = k.id "
                "WHERE u.id IS NULL GROUP BY k.id ORDER BY min(c.place), min(k.number)",
                feed.value,
            )
        return self._ids(
            "SELECT c.id FROM campaigns c LEFT JOIN units u ON u.feed = ? AND u.campaign_id = c.id AND u.id = c.id "
            "WHERE u.id IS NULL ORDER BY c.place",
            feed.value,
        )

    def without_keywords(self) -> list[int]:
        """Return the campaigns whose keywords were not found yet, in their order."""
        return self._ids("SELECT id FROM campaigns WHERE NOT keywords_found ORDER BY place")

    def owners(self, keyword_id: int) -> list[int]:
        """Return the campaigns that a keyword belongs to; no document says that it is one only."""
        return self._ids(
            "SELECT campaign_id FROM keywords k JOIN campaigns c ON c.id = campaign_id WHERE k.id = ? ORDER BY place",
            _kept(keyword_id),
        )

    def owners_without_report(self, keyword_id: int) -> list[int]:
        """Return the campaigns that a keyword belongs to and whose report of it is not there."""
        return self._ids(
            "SELECT k.campaign_id FROM keywords k JOIN campaigns c ON c.id = k.campaign_id WHERE k.id = ? "
            "AND NOT EXISTS (SELECT 1 FROM units u WHERE u.feed = ? AND u.campaign_id = k.campaign_id AND u.id = k.id) "
            "ORDER BY place",
            _kept(keyword_id),
            Feed.KEYWORD_BY_DATE.value,
        )

    def counts(self, feed: Feed, last_block: int | None = None) -> tuple[int, int]:
        """Return how many reports (distinct ids) and rows of a feed are done, or were with a block and those before."""
        query = "SELECT count(DISTINCT id), coalesce(sum(rows), 0) FROM units WHERE feed = ? AND block <= ?"
        last = self.last_block() if last_block is None else last_block
        reports, rows = self._db.execute(query, (feed.value, last)).fetchone()
        return reports, rows

    def last_block(self) -> int:
        """Return the number of the last block, or 0; later ones have higher numbers."""
        (number,) = self._db.execute("SELECT coalesce(max(number), 0) FROM blocks").fetchone()
        return int(number)

    def is_empty(self) -> bool:
        """Tell whether nothing came yet that would have to be fetched again."""
        query = "SELECT EXISTS (SELECT 1 FROM units), EXISTS (SELECT 1 FROM campaigns WHERE keywords_found)"
        return not any(self._db.execute(query).fetchone())

    def rows_by_campaign(self) -> Iterator[tuple[int, Feed, int]]:
        """Give campaign, feed and rows that are done."""
        query = "SELECT campaign_id, feed, sum(rows) FROM units GROUP BY campaign_id, feed"
        for campaign_id, feed, rows in self._db.execute(query):
            yield campaign_id, Feed(feed), rows

    def done(self, feed: Feed) -> Iterator[DoneUnit]:
        """Give what is done of a feed, in the order of the campaigns and their keywords."""
        keywords = feed is Feed.KEYWORD_BY_DATE
        owner = "JOIN keywords k ON k.campaign_id = c.id" if keywords else ""
        query = f"""
            SELECT u.campaign_id, u.id, b.start, b.length, b.checksum, u.start, u.length, u.rows, u.totals
            FROM campaigns c {owner}
            JOIN units u ON u.feed = ? AND u.campaign_id = c.id AND u.id = {"k.id" if keywords else "c.id"}
            JOIN blocks b ON b.number = u.block
            ORDER BY c.place{", k.number" if keywords else ""}"""  # noqa: S608  # our own words
        for campaign_id, id_, start, length, checksum, *unit in self._db.execute(query, (feed.value,)):
            yield DoneUnit(campaign_id, id_, BlockPlace(start, length, checksum), *unit)

    def blocks(self) -> Iterator[tuple[int, BlockPlace]]:
        """Give number and place of each block, in the order of their places."""
        for number, *place in self._db.execute("SELECT number, start, length, checksum FROM blocks ORDER BY start"):
            yield number, BlockPlace(*place)

    def forget_blocks(self, numbers: Iterable[int]) -> None:
        """Take what is in some blocks as not done."""
        with self._transaction():
            for number in numbers:
                self._db.execute("DELETE FROM units WHERE block = ?", (number,))
                self._db.execute("DELETE FROM blocks WHERE number = ?", (number,))

    def _ids(self, query: str, *values: object) -> list[int]:
        return [int(id_) for (id_,) in self._db.execute(query, values)]

    def _transaction(self) -> sqlite3.Connection:
        self._db.execute("BEGIN IMMEDIATE")
        return self._db  # as a context manager it commits, or rolls back


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Lock a folder while its journal is opened: two that open it at once would each be in the other's way.

    Raises:
        sqlite3.OperationalError: another process, or another part of this one, is opening it.
    """
    if fcntl is None:  # Windows can't lock folders; there both may be refused
        yield
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise sqlite3.OperationalError(f"unable to open the folder: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise sqlite3.OperationalError("the folder is locked") from None
        except OSError:  # a file system without such locks
            pass
        yield
    finally:
        os.close(descriptor)


def _kept(id_: int) -> int | str:
    return id_ if fits(id_) else str(id_)


def differences(begun: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return in words what another run of a pull would have to agree in, and does not."""
    told = []
    for name, value in wanted.items():
        before = begun.get(name)
        if before == value:
            continue
        if name in ("campaigns", "options", "version"):
            told.append(f"other {name}" if name != "version" else "another version of seorep")
        else:
            told.append(f"{name} {_words(before)}, not {_words(value)}")
    return told


def _words(value: object) -> str:
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)


def refusal(path: Path, told: Sequence[str]) -> ConfigurationError:
    """Return the error for a pull that can't go on with another's work."""
    return ConfigurationError(
        f"an unfinished pull into {path} was begun with {'; '.join(told)}. Run it as it was begun to go on with it, "
        "or begin anew with restart=True (--restart)"
    )
