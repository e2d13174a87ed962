"""A look at what a pull has staged, as the next pull will find it."""

import urllib.parse
from pathlib import Path

import attrs

from seorep_async.export.pieces import PIECES, BlockFile
from seorep_async.export.request import ExportRequest
from tests.export.random_nights import Pull


@attrs.frozen
class Staged:
    """What is asked, whether it ended with failures, the ids of what is stored, by table, and if the list failed."""

    request: ExportRequest
    ended: bool
    stored: dict[str, set[int]]
    lacks_list: bool

    def request_of(self, pull: Pull) -> bool:
        """Return whether it is of a pull."""
        found = self.request
        dates = (found.start_date, found.end_date)
        return (
            found.account,
            found.snapshot_date,
            *dates,
            found.feeds,
            found.campaigns,
        ) == pull.asks


def folder_of(out: Path, account: str | None = None) -> Path:
    whose = "" if account is None else f".{urllib.parse.quote(account, safe='')}"
    return out.with_name(f".{out.name}{whose}.pull")


def staged_in(out: Path, account: str | None = None) -> Staged | None:
    """Return what is staged for a target, or None if nothing is."""
    file = folder_of(out, account) / PIECES
    if not file.exists():
        return None
    opened = BlockFile(file)
    try:
        blocks = list(opened.load(only_look=True))
    finally:
        opened.close()
    request = next((one.request for one in reversed(blocks) if one.request is not None), None)
    if request is None:
        return None
    stored: dict[str, set[int]] = {}
    for block in blocks:
        for name, records in block.records.items():
            stored.setdefault(name, set()).update(one.id for one in records)
    lacks_list = "campaigns" not in stored and any(
        "campaigns" in block.failures for block in blocks
    )
    return Staged(request, blocks[-1].ended, stored, lacks_list)
