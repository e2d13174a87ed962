"""Which files a pull may replace: those with the columns of a pull's file."""

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
_COMMON_COLUMNS = 3  # account, snapshot date and the table's first own column, in every version


def is_ours(file: Path, kind: Format, table: Table) -> bool:
    """Return whether a file has the columns of a table."""
    with open(file, "rb") as opened:
        return _has_columns(_columns(opened, kind), table)


def is_one_of_ours(opened: BinaryIO, *, kind: Format, table: Table) -> bool:
    """Return whether a file has the columns of a table, or of another feed's, or is empty: JSON lines of no rows."""
    if not opened.read(1):
        return True
    opened.seek(0)
    tables = map(table_of, Feed) if isinstance(table, FeedTable) else (table,)
    found = _columns(opened, kind)
    return any(_has_columns(found, one) for one in tables)


def _has_columns(found: Sequence[str], table: Table) -> bool:
    """Return whether columns are those of a table; other versions of it may have fewer."""
    ours = [column.name for column in table.columns]
    return found[:_COMMON_COLUMNS] == ours[:_COMMON_COLUMNS] and set(found) <= set(ours)


def _columns(opened: BinaryIO, kind: Format) -> Sequence[str]:
    """Return the names of a file's columns, or none if it has another format."""
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
        if error.errno is None:  # pyarrow's error for a damaged file
            return []
        raise
