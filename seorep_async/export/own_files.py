"""Whether a pull wrote a file: it recognises such a file by its columns, and may replace it."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from seorep_async.export.formats import Format
from seorep_async.models import Feed
from seorep_async.tables.columns import FeedTable, Table
from seorep_async.tables.declared import table_of
from seorep_async.tables.optional import require

_LONGEST_LINE = 1 << 20
_COMMON_COLUMNS = 3  # account, snapshot date and what the table is about, which every version has


def is_ours(file: Path, kind: Format, table: Table) -> bool:
    """Return whether a file has the columns of a table.

    Raises:
        OSError: it can't be read.
    """
    with open(file, "rb") as opened:
        return _has_columns(_columns(opened, kind), table)


def is_one_of_ours(opened: BinaryIO, *, kind: Format, table: Table) -> bool:
    """Return whether a file has the columns of a table, or of another feed's, as a pull of that has written it, too.

    An empty file may be one: JSON lines of no rows.
    """
    if not opened.read(1):
        return True
    opened.seek(0)
    tables = map(table_of, Feed) if isinstance(table, FeedTable) else (table,)
    found = _columns(opened, kind)
    return any(_has_columns(found, one) for one in tables)


def _has_columns(found: Sequence[str], table: Table) -> bool:
    """Return whether columns are those of a table; another version of it may have had fewer."""
    ours = [column.name for column in table.columns]
    return found[:_COMMON_COLUMNS] == ours[:_COMMON_COLUMNS] and set(found) <= set(ours)


def _columns(opened: BinaryIO, kind: Format) -> Sequence[str]:
    """Return the names of a file's columns, or none if it is not of the format."""
    try:
        if kind is Format.PARQUET:
            return list(require("pyarrow.parquet").read_schema(opened).names)
        line = BytesIO(opened.read(_LONGEST_LINE)).readline().decode("utf-8-sig")
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
