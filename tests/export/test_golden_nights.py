"""Nights are stored exactly as before, cell by cell and in order.

`RENEW_GOLDEN=1 python -m pytest -n 0 tests/export/test_golden_nights.py` writes what is stored now
as golden.
"""

import json
import os
from pathlib import Path

import pytest

from tests.export.golden_nights import FORMATS, NIGHTS, read, store, stored


@pytest.mark.parametrize("night", NIGHTS)
@pytest.mark.parametrize("format_", FORMATS)
async def test_a_night_is_stored_as_ever(night: str, format_: str, tmp_path: Path) -> None:
    out = tmp_path / f"a.{format_}"
    await NIGHTS[night](out)
    tables = read(out)
    if os.environ.get("RENEW_GOLDEN"):
        store(night, format_, tables)
    assert json.loads(json.dumps(tables)) == stored(night, format_)
