"""Read what a pull left in staging for the next pull."""

import urllib.parse
from pathlib import Path

import attrs

from seorep_async.export.pieces import PIECES, BlockFile
from seorep_async.export.request import ExportRequest
from tests.export.random_nights import Pull


@attrs.frozen
class Staged:
    """The staging of a pull.

    Attributes:
        ended: whether the pull ended with failures.
        stored: the ids of stored reports, by table.
        lacks_list: whether the list of campaigns failed and was not stored later.
    """

    request: ExportRequest
    ended: bool
    stored: dict[str, set[int]]
    lacks_list: bool

    def is_request_of(self, pull: Pull) -> bool:
        """Return whether the pull made this request."""
        request = self.request
        request_values = (
            request.account,
            request.snapshot_date,
            request.start_date,
            request.end_date,
            request.feeds,
            request.campaigns,
        )
        return request_values == pull.asks


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
        blocks = list(opened.load(only_look=True))
    finally:
        opened.close()
    requests = [block.request for block in blocks if block.request is not None]
    if not requests:
        return None
    stored: dict[str, set[int]] = {}
    for block in blocks:
        for name, records in block.records.items():
            stored.setdefault(name, set()).update(record.id for record in records)
    list_failed = any("campaigns" in block.failures for block in blocks)
    lacks_list = list_failed and "campaigns" not in stored
    return Staged(requests[-1], blocks[-1].ended, stored, lacks_list)
