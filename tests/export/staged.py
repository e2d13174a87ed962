"""Read what a pull left in staging for the next pull."""

import urllib.parse
from pathlib import Path

import attrs

from seorep_async.export.pieces import PIECES, BlockFile


@attrs.frozen
class Staged:
    """The staging of a pull.

    Attributes:
        ended: whether the pull ended with failures.
        stored: the ids of stored reports, by table.
    """

    ended: bool
    stored: dict[str, set[int]]


def folder_of(out: Path, account: str | None = None) -> Path:
    if account is None:
        return out.with_name(f".{out.name}.pull")
    quoted = urllib.parse.quote(account, safe="")
    return out.with_name(f".{out.name}.{quoted}.pull")


def staged_in(out: Path, account: str | None = None) -> Staged | None:
    """Return the staged pull of a target, or None."""
    file = folder_of(out, account) / PIECES
    if not file.exists():
        return None
    opened = BlockFile(file)
    try:
        blocks = list(opened.load())
    finally:
        opened.close()
    if not blocks:
        return None
    stored: dict[str, set[int]] = {}
    for block in blocks:
        for name, records in block.records.items():
            stored.setdefault(name, set()).update(record.ids[-1] for record in records)
    return Staged(blocks[-1].ended, stored)
