"""Whether a file of totals or failures is an earlier pull's, and so may be replaced or removed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from seorep_async.export.formats import Format
from seorep_async.tables.columns import Table
from seorep_async.tables.optional import require

_MOST_BYTES = 1 << 20
_ASKED_COLUMNS = 5  # feed, ids and dates, which every version has


def is_ours(file: Path, kind: Format, table: Table) -> bool:
    """Tell whether a file has the columns of a table; an earlier version of it may have had fewer.

    Raises:
        OSError: it can't be read.
    """
    found, ours = _columns(file, kind), [column.name for column in table.columns]
    return found[:_ASKED_COLUMNS] == ours[:_ASKED_COLUMNS] and set(found) <= set(ours)


def _columns(file: Path, kind: Format) -> list[str]:
    """Return the names of a file's columns, or none if it is not of the format."""
    try:
        if kind is Format.PARQUET:
            return list(require("pyarrow.parquet").read_schema(file).names)
        with open(file, "rb") as opened:
            line = opened.readline(_MOST_BYTES).decode()
        if kind is Format.CSV:
            return next(csv.reader([line]), [])
        first = json.loads(line)
        return list(first) if isinstance(first, dict) else []
    except (ValueError, RecursionError, csv.Error):  # pyarrow's own error is a ValueError
        return []
    except OSError as error:
        if error.errno is None:  # and so pyarrow says that a file is damaged
            return []
        raise
