"""Notes and records of a checkpoint that somebody else wrote, with right checksums."""

import contextlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

Change: TypeAlias = Callable[[Any], Any]


@contextlib.contextmanager
def opened(out: Path) -> Iterator[tuple[sqlite3.Connection, Callable[..., int]]]:
    """Open the checkpoint of a pull; the function returns the right checksum of values."""
    (file,) = out.parent.glob(".*.pull/checkpoint")
    with contextlib.closing(sqlite3.connect(file)) as database:
        ((salt,),) = database.execute("SELECT value FROM notes WHERE name = 'salt'").fetchall()
        yield database, lambda *facts: zlib.crc32(repr((json.loads(salt), *facts)).encode())
        database.commit()


def forge_note(out: Path, name: str, value: Any) -> None:
    with opened(out) as (database, checksum):
        right = zlib.crc32(repr(("", name, value)).encode()) if name == "salt" else checksum(name, value)
        database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (name, value, right))


def change_note(out: Path, name: str, change: Change) -> None:
    with opened(out) as (database, _):
        ((value,),) = database.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchall()
    forge_note(out, name, json.dumps(change(json.loads(value))))


def forge_report(out: Path, column: str, value: Any) -> None:
    columns = "name, campaign_id, id, rows, totals, start, size, data_checksum"
    with opened(out) as (database, checksum):
        database.execute(f"UPDATE reports SET {column} = ? WHERE name != 'campaigns'", (value,))  # noqa: S608
        found = database.execute(f"SELECT number, {columns} FROM reports").fetchall()  # noqa: S608
        for number, *facts in found:
            database.execute("UPDATE reports SET checksum = ? WHERE number = ?", (checksum(*facts), number))


def forge_rows(out: Path, forge: Change) -> None:
    (rows,) = out.parent.glob(".*.pull/checkpoint-rows")
    rows.write_bytes(data := forge(rows.read_bytes()))
    with opened(out) as (database, checksum):
        query = "SELECT number, name, campaign_id, id, rows, totals, start, size FROM reports"
        for number, *facts in database.execute(query).fetchall():
            of_rows = zlib.crc32(data[facts[-2] : facts[-2] + facts[-1]])
            values = (of_rows, checksum(*facts, of_rows), number)
            database.execute("UPDATE reports SET data_checksum = ?, checksum = ? WHERE number = ?", values)
