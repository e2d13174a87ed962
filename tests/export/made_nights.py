"""Nights of a dataset made by hand, committed part by part, and what readers find of them."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from tests.export.door import Part, Partition, Receipt, Storage, commit, digest_of, read_receipt

NIGHT = Partition("acme", dt.date(2026, 11, 21))
OLDER = {("keyword_rankings", 0): b"older", ("keyword_rankings", 1): b"older too", ("totals", 0): b"older totals"}
NEWER = {("keyword_rankings", 0): b"newer", ("totals", 0): b"newer totals", ("failures", 0): b"failed"}


def named(pull: str) -> str:
    """Return the name of a pull that tests call by a word."""
    return digest_of(pull.encode())[:12]


def receipt(pull: str, contents: dict[tuple[str, int], bytes], **changes: Any) -> Receipt:
    parts = (Part(table, number, 1, len(data), digest_of(data)) for (table, number), data in contents.items())
    values: dict[str, Any] = {
        "account": "acme",
        "snapshot_date": NIGHT.snapshot_date,
        "service": "https://api.example.com",
        "key_digest": "digest",
        "pull": named(pull),
        "feeds": ("campaign",),
        "start_date": dt.date(2026, 11, 1),
        "end_date": dt.date(2026, 11, 20),
        "failures": 0,
        "version": "1",
        "parts": tuple(parts),
    }
    return Receipt(**values | changes)


def replace(storage: Any, pull: str, contents: dict[tuple[str, int], bytes]) -> None:
    """Stage and commit a night."""
    earlier, wanted = read_receipt(storage, NIGHT), receipt(pull, contents)
    for part in wanted.parts:
        storage.write(part.staged(NIGHT, wanted.pull), contents[part.table, part.number])
    commit(storage, wanted, wanted.parts, earlier)


def found(storage: Storage) -> dict[tuple[str, int], bytes]:
    """Return every part that readers see."""
    seen = {}
    for table in ("keyword_rankings", "totals", "failures"):
        for name in storage.names(table):
            number = int(name.rpartition("part-")[2].partition(".")[0])
            seen[table, number] = storage.read(name) or b""
    return seen


def vouched_for(storage: Storage) -> str | None:
    """Return whose receipt names parts, and check that exactly these are there."""
    data = storage.read(NIGHT.receipt)
    if data is None or not json.loads(data)["parts"]:
        return None
    pull, contents = ("older", OLDER) if Receipt.from_json(data).pull == named("older") else ("newer", NEWER)
    assert found(storage) == contents
    return pull
