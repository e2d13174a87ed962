"""Nights are stored exactly as before, cell by cell and in order.

By default, a night is stored in the formats that treat it differently; `-m slow` stores it in the
others. `RENEW_GOLDEN=1 python -m pytest -n 0 -m '' tests/export/test_golden_nights.py` writes what
is stored now as golden.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.export.golden_nights import FORMATS, NIGHTS, read, store, stored

IN_ALL_FORMATS = {"nested", "mixed"}
IN_SOME_FORMATS = {
    "flat": ("csv",),
    "by_keyword": ("jsonl", "duckdb"),
    "resumed": ("parquet", "duckdb"),
    "again": ("xlsx", "duckdb"),
    "nights": ("csv", "duckdb"),
    "accounts": ("parquet", "duckdb"),
}


def cases() -> list[Any]:
    """Return each night with each format. Those that add little are marked as slow."""
    params = []
    for night in NIGHTS:
        for format_ in FORMATS:
            is_default = night in IN_ALL_FORMATS or format_ in IN_SOME_FORMATS[night]
            marks = [] if is_default else [pytest.mark.slow]
            params.append(pytest.param(night, format_, marks=marks, id=f"{night}-{format_}"))
    return params


@pytest.mark.parametrize(("night", "format_"), cases())
async def test_a_night_is_stored_as_ever(night: str, format_: str, tmp_path: Path) -> None:
    out = tmp_path / f"a.{format_}"
    await NIGHTS[night](out)
    tables = read(out)
    if os.environ.get("RENEW_GOLDEN"):
        store(night, format_, tables)
    tables = json.loads(json.dumps(tables))
    golden_tables = stored(night, format_)
    assert tables.keys() == golden_tables.keys()
    for table, (golden_columns, golden_rows) in golden_tables.items():
        columns, rows = tables[table]
        assert columns == golden_columns
        for number, (row, golden_row) in enumerate(zip(rows, golden_rows, strict=True)):
            cells = dict(zip(columns, row, strict=True))
            assert cells == dict(zip(columns, golden_row, strict=True)), (table, number)
