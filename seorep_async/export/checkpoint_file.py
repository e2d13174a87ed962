"""The SQLite file of a checkpoint: its tables, and whether this version wrote it."""

from __future__ import annotations

import os
import sqlite3
import zlib
from pathlib import Path

from seorep_async.export.staged_report import DamagedError, OtherVersionError

# ids from the service have no documented range; one of more than 64 bits is stored as a string
_SCHEMA = [
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT, checksum INTEGER)",
    "CREATE TABLE campaigns (place INTEGER PRIMARY KEY, id UNIQUE, keywords_found INTEGER, checksum INTEGER)",
    "CREATE TABLE keywords (campaign_id INTEGER, number INTEGER, id, PRIMARY KEY (campaign_id, number)) WITHOUT ROWID",
    "CREATE INDEX keywords_by_id ON keywords (id)",
    "CREATE TABLE reports (number INTEGER PRIMARY KEY, name TEXT, campaign_id INTEGER, id INTEGER, rows INTEGER, "
    "totals TEXT, start INTEGER, size INTEGER, data_checksum INTEGER, checksum INTEGER)",
    "CREATE UNIQUE INDEX reports_by_id ON reports (name, campaign_id, id)",
]
# the staging area is locked; SQLite's own locks fail where the file system has none
_UNLOCKED = "?vfs=unix-none" if os.name == "posix" else ""


def open_database(path: Path | None) -> sqlite3.Connection:
    """Open the file of a checkpoint, or create it; None for one in memory; raises as `Checkpoint`."""
    name = ":memory:" if path is None else f"{path.absolute().as_uri()}{_UNLOCKED}"
    try:
        database = sqlite3.connect(name, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            for setting in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=NORMAL"):
                database.execute(f"PRAGMA {setting}")
            database.execute("BEGIN IMMEDIATE")
            with database:  # it commits, or rolls back
                _check_schema(database)
        except BaseException:
            database.close()
            raise
    except sqlite3.Error as error:
        raise as_damage(error) from error
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


def as_damage(error: sqlite3.Error) -> Exception:
    """Return damage for an error of SQLite's, or the error itself if the file may be sound."""
    sound = ("locked", "unable to open", "disk I/O error", "readonly", "full")
    return error if any(words in str(error) for words in sound) else DamagedError(str(error))
